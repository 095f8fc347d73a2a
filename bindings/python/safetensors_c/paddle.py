"""Saving and loading dictionaries of paddle tensors.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import ctypes
import os

import numpy as np
import paddle

from . import _paddle
from ._dtypes import BITS, SPELLING
from ._edit import deserialize
from ._open import safe_open
from ._write import TensorSpec, serialize, serialize_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._http import HttpOptions


def save(tensors: dict[str, paddle.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors, which must be contiguous."""
    held: list[paddle.Tensor] = []
    return serialize(_flatten(tensors, held), metadata=metadata)


def save_file(tensors: dict[str, paddle.Tensor], filename: str | os.PathLike, metadata: dict[str, str] | None = None,
              **options) -> None:
    """Writes a safetensors file with these tensors, which must be contiguous. `options` are those of serialize_file."""
    held: list[paddle.Tensor] = []
    serialize_file(_flatten(tensors, held), filename, metadata=metadata, **options)


def load(data: bytes, device: str = "cpu") -> dict[str, paddle.Tensor]:
    """The tensors of a safetensors file that lies in memory."""
    return _view2paddle(deserialize(data), device)


def load_file(filename, device="cpu", *, backend: str = "mmap", threads: int | None = None,
              progress=None, http: HttpOptions | None = None, fs=None) -> dict[str, paddle.Tensor]:
    """The tensors of a checkpoint: anything that safe_open takes."""
    with safe_open(filename, framework="paddle", device=device, backend=backend, http=http, fs=fs) as file:
        return file.get_tensors(threads=threads, progress=progress)


# ---- the reference's private names, which other packages import ------------------------------------------------------------

_TYPES = {name: getattr(paddle, spelling) for name, spelling in SPELLING.items() if hasattr(paddle, spelling)}
_SIZE = {kind: BITS[name] // 8 for name, kind in _TYPES.items()}
_numpy_spelling = {"BF16": "float16", "F8_E4M3": "uint8", "F8_E5M2": "uint8"}  # of the same size
NPDTYPES = {kind: np.dtype(_numpy_spelling.get(name, SPELLING[name])).type for name, kind in _TYPES.items()}


def _getdtype(dtype_str: str) -> paddle.dtype:
    return _TYPES[dtype_str]


def _view2paddle(safeview, device: str = "cpu") -> dict[str, paddle.Tensor]:
    """Makes tensors from the result of `deserialize`."""
    return {name: _paddle.from_bytes(tensor["data"], tensor["dtype"], tensor["shape"], device)
            for name, tensor in safeview}


def _np2paddle(numpy_dict: dict[str, np.ndarray], device: str = "cpu") -> dict[str, paddle.Tensor]:
    return {name: paddle.to_tensor(array, place=device) for name, array in numpy_dict.items()}


def _paddle2np(paddle_dict: dict[str, paddle.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in paddle_dict.items()}


def _flatten(tensors: dict[str, paddle.Tensor], keep_alive_buffer: list[paddle.Tensor]) -> dict[str, TensorSpec]:
    """Returns the specs to write. The caller keeps `keep_alive_buffer` until they are written."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, paddle.Tensor] but received {type(tensors)}")
    specs = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, paddle.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected paddle.Tensor but received {type(tensor)}")
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you are"
                " trying to save tensors which are reference of each other in which case it's recommended to save only"
                " the full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it"
                " before saving.")
        tensor = tensor if tensor.place.is_cpu_place() else tensor.cpu()
        keep_alive_buffer.append(tensor)
        specs[name] = TensorSpec(dtype=str(tensor.dtype).split(".")[-1], shape=tensor.shape,
                                 data_ptr=tensor.data_ptr() if tensor.size else 0,
                                 data_len=tensor.size * tensor.element_size())
    return specs


def _to_ndarray(tensor: paddle.Tensor, name: str):
    """The bytes of a contiguous tensor as an array of numpy, and the tensor on the CPU that holds them."""
    specs = _flatten({name: tensor}, held := [])
    spec = specs[name]
    return np.frombuffer((ctypes.c_ubyte * spec.data_len).from_address(spec.data_ptr), np.uint8), held[0]
