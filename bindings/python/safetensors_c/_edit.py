"""Functions on whole files: their content as plain values, and changes of their metadata and their tensors.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
import sys

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


def write_tensor(filename: str | os.PathLike, name: str, data, *, sync: bool = False) -> None:
    """Replaces the bytes of one tensor of a safetensors file, in place.

    `data` is an array of numpy (or another typed buffer) with the tensor's dtype and shape, a `TensorSpec`, or the
    tensor's bytes: bytes, bytearray, or a memoryview or array of unsigned bytes. For bytes, only the number is checked.
    With `sync` they are on the disk when the call returns.

    This is not atomic: after a crash or an error of the disk, the tensor may contain a part of the new bytes. Whatever
    has mapped the file sees the change. For a model of several files, `filename` is the file that contains the tensor.
    """
    from ._library import path_of
    from ._source import memory_of
    from ._write import TensorSpec
    from ._writer import overwrite
    if not isinstance(name, str):
        raise not_an_instance("name", name)
    path = path_of(filename)
    if isinstance(data, TensorSpec):
        _require_same(path, name, data._dtype, data._shape)
        overwrite(path, name, data._data_ptr, data._data_len, sync)
        return
    view = memoryview(data)
    address, size, held = memory_of(data)
    if view.format not in ("B", "c"):
        _require_same(path, name, _dtype_of(view), list(view.shape))
    overwrite(path, name, address, size, sync)
    del held  # which keeps the memory in place until here


def _dtype_of(view: memoryview) -> str:
    """The dtype of a typed buffer, whose elements have a letter of the module `struct`."""
    code = view.format.lstrip("@=<" if sys.byteorder == "little" else "")
    kind = {"Zf": "C", "?": "BOOL"}.get(code) or next((k for k, codes in _KINDS.items() if code in codes), None)
    if kind is None:
        raise TypeError(f"data has elements of the type {view.format!r}; pass the tensor's bytes instead")
    return kind if kind == "BOOL" else f"{kind}{8 * view.itemsize}"


_KINDS = {"F": ("e", "f", "d"), "I": tuple("bhilqn"), "U": tuple("BHILQN")}


def _require_same(path: bytes, name: str, dtype: str, shape: list[int]) -> None:
    from ._errors import SafetensorError
    from ._file import File
    tensor = File(os.fsdecode(path)).find(name)
    if tensor is not None and (tensor.dtype, tensor.shape) != (dtype, shape):
        raise SafetensorError(f"tensor '{name}' is {tensor.dtype} {tensor.shape}, and data is {dtype} {shape}")


def library_version() -> str:
    """The version of the C library: "0.3.0 (simdjson 3.0.1)"."""
    from ._library import quick
    return quick.st_version_string().decode()
