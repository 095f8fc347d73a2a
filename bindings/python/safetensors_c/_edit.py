"""Functions on whole files: their content as plain values, and changes of their metadata.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os

from ._dtypes import NAMES
from ._errors import not_an_instance


def deserialize(bytes) -> list[tuple[str, dict]]:
    """The tensors of a file that lies in memory: pairs of a name and a dictionary of "shape", "dtype" and "data"."""
    if not isinstance(bytes, _bytes):
        raise not_an_instance("bytes", bytes, "bytes")
    from ._file import File
    table, content = File(bytes).table, memoryview(bytes)
    return [(name, {"shape": shape, "dtype": NAMES[number], "data": bytearray(content[begin:begin + size])})
            for name, shape, number, begin, size in zip(table.names, table.shapes(), table.dtypes, table.offsets, table.sizes)]


_bytes = bytes


def edit_metadata(filename: str | os.PathLike, changes: dict[str, str | None], *, sync: bool = False) -> None:
    """Sets each key of `changes` in the metadata of a safetensors file, or removes it where the value is None.

    Tensors stay as they are. The file is changed in place if its header has room, else replaced in one step; with
    `sync` it is on the disk when the call returns.
    """
    from ._library import path_of
    from ._writer import edit
    if not isinstance(changes, dict):
        raise not_an_instance("changes", changes, "dict")
    for key, value in changes.items():
        for text in (key, "" if value is None else value):
            if not isinstance(text, str):
                raise not_an_instance("changes", text)
    edit(path_of(filename), changes, sync)


def library_version() -> str:
    """The version of the C library: "0.3.0 (simdjson 3.0.1)"."""
    from ._library import quick
    return quick.st_version_string().decode()
