"""Saving and loading dictionaries of numpy arrays.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
import sys

import numpy as np

from . import _arrays
from ._dtypes import NUMBERS
from ._errors import not_an_instance
from ._open import safe_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._edit import deserialize as deserialize
    from ._http import HttpOptions
    from ._write import TensorSpec, serialize as serialize, serialize_file as serialize_file


def save(tensor_dict: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these arrays, of any layout in memory."""
    from ._write import check_metadata, joined
    # Only numpy's own dtypes have buffers that others take.
    tensors = [(name, kind, array.shape, array.nbytes,
                array if array.dtype.isbuiltin == 1 else array.reshape(-1).view(np.uint8))
               for name, kind, array in _to_write(tensor_dict)]
    check_metadata(metadata)
    return joined(tensors, metadata)


def save_file(tensor_dict: dict[str, np.ndarray], filename: str | os.PathLike, metadata: dict[str, str] | None = None,
              **options) -> None:
    """Writes a safetensors file with these arrays, of any layout in memory. `options` are those of serialize_file."""
    from ._numpy import address
    from ._write import check_metadata, to_file
    arrays = _to_write(tensor_dict)
    check_metadata(metadata)
    to_file([(name, NUMBERS[kind], array.shape, address(array)) for name, kind, array in arrays], filename,
            metadata, **options)


def _to_write(tensor_dict: dict[str, np.ndarray]) -> list[tuple[str, str, np.ndarray]]:
    """The names, the dtypes of the format, and the arrays as they are in a file."""
    arrays = []
    for name, array in tensor_dict.items():
        kind = _saved.get(array.dtype)
        if kind is None or type(array) is not np.ndarray or not array.flags.c_contiguous:
            array = _plain(array)
            kind = _saved.get(array.dtype)
        if kind is None:
            from ._write import TensorSpec
            spec = TensorSpec(dtype=_arrays.spelling(array.dtype), shape=(), data_ptr=0, data_len=0)  # or an exception
            kind = _saved[array.dtype] = spec.dtype
        if not isinstance(name, str):
            raise not_an_instance("tensor_dict", name)
        arrays.append((name, kind, array))
    return arrays


_saved: dict[np.dtype, str] = {}  # the dtypes of the format, by those of little-endian arrays


def load(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file that lies in memory."""
    from ._source import check_bytes
    check_bytes(data)
    with safe_open(data, framework="np") as file:
        return file.get_tensors()


def load_file(filename, *, backend: str = "mmap", threads: int | None = None, progress=None,
              http: HttpOptions | None = None, fs=None, group=None,
              exchange_bytes: int | None = None) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint, in memory of their own.

    `filename` is anything that safe_open takes, as are `http` and `fs`. `threads` read the file (None: as many as suit it). `progress` is
    called with the bytes that are read and all bytes; True shows a bar. With a `group`, all its processes call this
    function and read together: see load_sharded.
    """
    if group is not None:
        return load_sharded(filename, None, group=group, threads=threads, progress=progress,
                            exchange_bytes=exchange_bytes, http=http, fs=fs)
    with safe_open(filename, framework="np", backend=backend, http=http, fs=fs) as file:
        return file.get_tensors(threads=threads, progress=progress)


def load_sharded(filename, plan: Mapping[str, Any] | None, *, group=None, threads: int | None = None,
                 progress=None, exchange_bytes: int | None = None, http: HttpOptions | None = None,
                 fs=None) -> dict[str, np.ndarray]:
    """The arrays that this process of a group wants, in the order of `plan`, in memory of their own.

    `plan` maps the names of tensors to an index, as in `get_slice(name)[index]`: a slice, an integer, or a tuple of them.
    None or `...` is the whole tensor. Without a plan (None) it is all tensors.

    `group` is a communicator of mpi4py or a group of torch.distributed; True is its default group. All its processes call
    this function, each with its own plan, which may be empty. They read what several want once, and send it. If one
    fails, so do the others (`error.status` is "ST_ERR_PEER"). `exchange_bytes` of memory are used for that (None: 256
    MiB). Without a group, this process reads alone.

    The other parameters are as in `load_file`.
    """
    from ._group import load
    return load(filename, plan, "np", group, threads=threads, progress=progress,
                exchange_bytes=exchange_bytes, http=http, fs=fs)


# ---- other names of the reference's module, which packages import ----------------------------------------------------------

def __getattr__(name: str):
    if name not in ("TensorSpec", "deserialize", "serialize", "serialize_file"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import safetensors_c
    return getattr(safetensors_c, name)


_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "U64": np.uint64, "I32": np.int32,
          "U32": np.uint32, "I16": np.int16, "U16": np.uint16, "I8": np.int8, "U8": np.uint8, "BOOL": bool,
          "C64": np.complex64}


def _getdtype(dtype_str: str) -> type:
    return _TYPES[dtype_str]


def _view2np(safeview: list[tuple[str, dict[str, Any]]]) -> dict[str, np.ndarray]:
    """Makes arrays from the result of `deserialize`."""
    return {name: np.frombuffer(tensor["data"], _arrays.dtype(tensor["dtype"])).reshape(tensor["shape"])
            for name, tensor in safeview}


def _is_little_endian(tensor: np.ndarray) -> bool:
    order = tensor.dtype.byteorder
    return order in "<|" or (order == "=" and sys.byteorder == "little")


def _flatten(tensor_dict: dict[str, np.ndarray], keep_alive_buffer: list[np.ndarray]) -> dict[str, TensorSpec]:
    """Returns the specs to write. The caller keeps `keep_alive_buffer` until they are written."""
    from ._numpy import address
    from ._write import TensorSpec
    specs = {}
    for name, array in tensor_dict.items():
        array = _plain(array)
        keep_alive_buffer.append(array)
        specs[name] = TensorSpec(dtype=_arrays.spelling(array.dtype), shape=array.shape, data_ptr=address(array),
                                 data_len=array.nbytes)
    return specs


def _plain(array):
    """The array as one of numpy's own class, with its elements side by side in row-major order, and little-endian."""
    if isinstance(array, np.ndarray) and type(array) is not np.ndarray:
        array = _base(array)
    if not _is_little_endian(array):
        array = array.astype(array.dtype.newbyteorder("<"))
    return array if isinstance(array, np.ndarray) and array.flags.c_contiguous else np.array(array, order="C")


def _base(array):
    """The memory of an array of a subclass, which may override its properties."""
    base = np.ndarray.view(array, np.ndarray)
    if (base.shape, base.dtype, base.nbytes) != (array.shape, array.dtype, array.nbytes):
        from ._errors import SafetensorError
        raise SafetensorError("Error while serializing: invalid shape, data type, or offset for tensor: the memory "
                              f"is {base.dtype} {base.shape}, and the properties of {type(array).__name__} differ")
    return base
