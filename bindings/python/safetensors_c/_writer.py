"""The library's writer, and its editors of metadata and tensors.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

from ctypes import byref, c_char_p, c_uint64, c_void_p

from . import _callbacks, _library
from ._library import call, quick, st


def write(tensors, path: bytes, metadata: dict[str, str] | None, format: str, sync: bool, header_reserve: int,
          progress=None) -> None:
    """`tensors` are tuples of a name, the number of a dtype, a shape and an address.

    `progress` is called with the bytes that are written and those of the file; what it raises ends the writing.
    """
    if format not in ("safetensors", "bintensors"):
        raise ValueError(f"format is {format!r}, and must be 'safetensors' or 'bintensors'")
    writer = c_void_p()
    try:
        call(quick.st_writer_new, byref(writer))
        if metadata is not None:
            call(quick.st_writer_set_metadata_n, writer, None, 0, None, 0, context="write")
            for key, value in metadata.items():
                pair = str.encode(key), str.encode(value)  # a subclass may override encode()
                call(quick.st_writer_set_metadata_n, writer, pair[0], len(pair[0]), pair[1], len(pair[1]), context="write")
        error = _library.new(_library.Error)
        add, at, reference, kinds = quick.st_writer_add_n, writer.value, byref(error), {}
        for name, number, shape, address in tensors:
            text = str.encode(name)
            rank = len(shape)
            kind = kinds.get(rank)
            if kind is None:
                kind = kinds[rank] = c_uint64 * rank
            # A tensor without bytes needs an address all the same: none would say that its data is put later.
            if add(at, text, len(text), number, rank, kind(*shape), address or 1, None, reference):
                raise _library.failure(error, "write")
        # Like the reference, replace a link instead of the file that it leads to.
        options = _library.new(_library.ReportingWriteOptions if progress else _library.WriteOptions,
                               flags=_library.WRITE_REPLACE_LINK | (_library.WRITE_SYNC if sync else 0),
                               format=_library.FORMATS[format],
                               header_reserve=header_reserve)
        if not progress:
            _finish(writer, path, options)
            return
        with _callbacks.reporting(progress) as report:
            options.progress = report
            _finish(writer, path, options)
    finally:
        st.st_writer_free(writer)


def _finish(writer, path: bytes, options) -> None:
    call(st.st_writer_begin, writer, path, byref(options), context="write")
    call(st.st_writer_finish, writer, context="write")


def edit(path: bytes, changes: dict[str, str | None], sync: bool) -> None:
    for text in (text for pair in changes.items() for text in pair if text is not None):
        if "\0" in text:
            raise ValueError(f"{text!r} holds a NUL, with which metadata cannot be edited")
    strings = c_char_p * len(changes)
    keys = strings(*(key.encode() for key in changes))
    values = strings(*(None if value is None else value.encode() for value in changes.values()))
    options = _library.new(_library.WriteOptions, flags=_library.WRITE_SYNC if sync else 0)
    call(st.st_edit_metadata, path, keys, values, len(changes), byref(options))


def overwrite(path: bytes, name: str, address: int | None, size: int, sync: bool) -> None:
    if not hasattr(st, "st_tensor_write_n"):
        raise NotImplementedError("write_tensor needs libsafetensors 0.3")
    text = str.encode(name)
    options = _library.new(_library.WriteOptions, flags=_library.WRITE_SYNC if sync else 0)
    call(st.st_tensor_write_n, path, bytes.__len__(path), text, len(text), address, size, byref(options))
