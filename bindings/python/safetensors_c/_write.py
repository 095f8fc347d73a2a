"""Writing: what a tensor to be written is, and its way into a file or into bytes.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
from operator import index as as_integer
from operator import itemgetter

from ._dtypes import BITS, NUMBERS, RANK, SPELLED
from ._errors import SafetensorError, not_an_instance


class TensorSpec:
    """One tensor to be written: its dtype as frameworks spell it, its shape, and the address and size of its bytes.

    The memory must stay as it is until the call that writes it has returned. The shape of "float4_e2m1fn_x2" is that of
    torch, which counts pairs; `shape` then counts the elements.
    """

    __module__ = "safetensors_c"
    __slots__ = ("_dtype", "_shape", "_data_ptr", "_data_len")

    def __init__(self, *, dtype: str, shape, data_ptr: int, data_len: int):
        if not isinstance(dtype, str):
            raise not_an_instance("dtype", dtype)
        if dtype not in SPELLED:
            dtype.encode()  # UnicodeEncodeError, if it is not text
            raise SafetensorError(f'Unknown dtype "{dtype}". Supported dtypes: ' + ", ".join(SPELLED))
        if isinstance(shape, str):
            raise TypeError("argument 'shape': Can't extract `str` to `Vec`")
        if not hasattr(type(shape), "__getitem__") or isinstance(shape, dict):
            raise not_an_instance("shape", shape, "Sequence")
        self._dtype = SPELLED[dtype]
        self._shape = list(map(_unsigned, shape))
        if self._dtype == "F4" and self._shape:
            self._shape[-1] *= 2
        self._data_ptr, self._data_len = _unsigned(data_ptr), _unsigned(data_len)

    dtype = property(lambda self: self._dtype, doc="The dtype as the format spells it.")
    shape = property(lambda self: list(self._shape), doc="The shape, in elements.")
    data_ptr = property(lambda self: self._data_ptr, doc="The address of the bytes.")
    data_len = property(lambda self: self._data_len, doc="How many bytes there are.")

    def __repr__(self) -> str:
        return (f"TensorSpec(dtype='{self._dtype}', shape={self._shape}, data_ptr={self._data_ptr}, "
                f"data_len={self._data_len})")


def _unsigned(value) -> int:
    if type(value) is int and 0 <= value <= 0xFFFF_FFFF_FFFF_FFFF:
        return value
    number = as_integer(value)
    if number < 0:
        raise OverflowError("can't convert negative int to unsigned")
    if number >> 64:
        raise OverflowError("int too big to convert")
    return number


def serialize(tensor_dict: dict[str, TensorSpec], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors."""
    from ctypes import c_uint8
    _check(tensor_dict, metadata)
    return joined([(name, spec._dtype, spec._shape, spec._data_len,
                    (c_uint8 * spec._data_len).from_address(spec._data_ptr) if spec._data_len else b"")
                   for name, spec in tensor_dict.items()], metadata)


def joined(tensors: list[tuple], metadata: dict[str, str] | None) -> bytes:
    """Returns the bytes of a file. Each tensor is a tuple: name, dtype, shape, size, buffer.

    The header is byte for byte the header that the library writes (docs/format.md, 1.5). Calling the library once per
    tensor takes longer than writing the header here.
    """
    from json.encoder import encode_basestring
    tensors.sort(key=itemgetter(0))  # the order of code points is the order of UTF-8
    if len({dtype for _, dtype, *_ in tensors}) > 1:
        tensors.sort(key=lambda tensor: -RANK[tensor[1]])
    entries, offset, kinds = [], 0, {}
    if metadata is not None:
        pairs = (f"{encode_basestring(key)}:{encode_basestring(metadata[key])}" for key in sorted(metadata))
        entries.append(f'"__metadata__":{{{",".join(pairs)}}}')
    for name, dtype, shape, size, _ in tensors:
        if name == "__metadata__":
            raise SafetensorError("Error while serializing: a tensor is called \"__metadata__\", which is not a name")
        key = dtype, *shape
        kind = kinds.get(key)
        if kind is None:
            kind = kinds[key] = f'"dtype":"{dtype}","shape":[{",".join(map(str, shape))}]'
        entries.append(f'{encode_basestring(name)}:{{{kind},"data_offsets":[{offset},{(offset := offset + size)}]}}')
    text = f"{{{','.join(entries)}}}".encode()
    text += b" " * (-len(text) % 8)
    if len(text) > 100_000_000:
        raise SafetensorError(f"Error while serializing: header too large: it has {len(text)} bytes")
    return b"".join([len(text).to_bytes(8, "little"), text, *map(itemgetter(4), tensors)])


def serialize_file(tensor_dict: dict[str, TensorSpec], filename: str | os.PathLike,
                   metadata: dict[str, str] | None = None, *, format: str = "safetensors", sync: bool = False,
                   header_reserve: int = 0, progress=None) -> None:
    """Writes a file with these tensors, which takes the place of what the path had in one step.

    `format` may be "bintensors". With `sync` the file is on the disk when the call returns. `header_reserve` is room
    for metadata that is added later. `progress` is called with the bytes that are written and those of the file; True
    shows a bar. What it raises ends the call, and the path keeps what it had, unless the last report raised it.
    """
    _check(tensor_dict, metadata)
    to_file([(name, NUMBERS[spec._dtype], spec._shape, spec._data_ptr) for name, spec in tensor_dict.items()], filename,
            metadata, format=format, sync=sync, header_reserve=header_reserve, progress=progress)


def to_file(tensors: list[tuple], filename, metadata: dict[str, str] | None, *, format: str = "safetensors",
            sync: bool = False, header_reserve: int = 0, progress=None) -> None:
    """Does serialize_file for tuples: name, number of the dtype, shape, address."""
    if isinstance(filename, bytes):
        raise not_an_instance("filename", filename)
    if not isinstance(filename, (str, os.PathLike)):
        raise TypeError("argument 'filename': expected str, bytes or os.PathLike object, not "
                        + type(filename).__name__)
    from ._library import path_of
    from ._progress import shown
    from ._writer import write
    with shown(progress, "saving") as report:
        write(tensors, path_of(filename, SafetensorError("Error while serializing: the path has a NUL")), metadata, format,
              sync, _unsigned(header_reserve), report)


def _check(tensor_dict, metadata) -> None:
    if not isinstance(tensor_dict, dict):
        raise not_an_instance("tensor_dict", tensor_dict, "dict")
    for name, spec in tensor_dict.items():
        if not isinstance(name, str):
            raise not_an_instance("tensor_dict", name)
        if not isinstance(spec, TensorSpec):
            raise not_an_instance("tensor_dict", spec, "TensorSpec")
        _check_size(name, spec)
    check_metadata(metadata)


def check_metadata(metadata) -> None:
    if metadata is not None and not isinstance(metadata, dict):
        raise not_an_instance("metadata", metadata, "dict")
    for text in (text for pair in (metadata or {}).items() for text in pair):
        if not isinstance(text, str):
            raise not_an_instance("metadata", text)


def _check_size(name: str, spec: TensorSpec) -> None:
    if spec._data_len and not spec._data_ptr:
        raise SafetensorError(f"Error while serializing: tensor '{name}' has {spec._data_len} bytes at no address")
    elements, overflow = 1, False
    for dim in spec._shape:
        elements *= dim
        overflow |= elements >> 64 > 0  # even if a dimension of 0 follows, as readers do
    bits = elements * BITS[spec._dtype]
    if overflow or bits >> 64:
        raise SafetensorError("Error while serializing: overflow computing buffer size from shape and/or element type: "
                              f"tensor '{name}'")
    if bits != spec._data_len * 8:
        raise SafetensorError("Error while serializing: invalid shape, data type, or offset for tensor: "
                              f"'{name}' of {spec.dtype} {spec._shape} has {bits / 8:g} bytes, and {spec.data_len} are given")
