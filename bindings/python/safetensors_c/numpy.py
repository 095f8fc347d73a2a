"""Saving and loading dictionaries of numpy arrays.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
import sys

import numpy as np

from . import _arrays
from ._open import safe_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._write import TensorSpec


def save(tensor_dict: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these arrays, of any layout in memory."""
    from ._write import serialize
    specs, _held = _flatten(tensor_dict)
    return serialize(specs, metadata=metadata)


def save_file(tensor_dict: dict[str, np.ndarray], filename: str | os.PathLike, metadata: dict[str, str] | None = None,
              **options) -> None:
    """Writes a safetensors file with these arrays, of any layout in memory. `options` are those of serialize_file."""
    from ._write import serialize_file
    specs, _held = _flatten(tensor_dict)
    serialize_file(specs, filename, metadata=metadata, **options)


def load(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file that lies in memory."""
    from ._source import check_bytes
    check_bytes(data)
    return load_file(data)


def load_file(filename, *, backend: str = "mmap", threads: int | None = None, progress=None) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint, in memory of their own.

    `filename` is anything that safe_open takes. `threads` read the file (None: as many as suit it). `progress` is
    called with the bytes that are read and all bytes; True shows a bar.
    """
    with safe_open(filename, framework="np", backend=backend) as file:
        return file.get_tensors(threads=threads, progress=progress)


def _flatten(tensor_dict) -> tuple[dict[str, TensorSpec], list]:
    """What is to be written, and the arrays that must live until it is."""
    from ._write import TensorSpec
    specs, held = {}, []
    for name, array in tensor_dict.items():
        array = _plain(array)
        held.append(array)
        specs[name] = TensorSpec(dtype=_arrays.spelling(array.dtype), shape=array.shape, data_ptr=_arrays.address(array),
                                 data_len=array.nbytes)
    return specs, held


def _plain(array):
    """The array with its elements side by side in row-major order, and little-endian."""
    dtype = array.dtype
    if dtype.byteorder == ">" or (dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(dtype.newbyteorder("<"))
    return array if isinstance(array, np.ndarray) and array.flags.c_contiguous else np.array(array, order="C")
