"""Saving and loading dictionaries of paddle tensors.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os

import paddle

from . import _paddle
from ._edit import deserialize
from ._open import safe_open
from ._write import TensorSpec, serialize, serialize_file


def save(tensors: dict[str, paddle.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors, which must be contiguous."""
    specs, _held = _flatten(tensors)
    return serialize(specs, metadata=metadata)


def save_file(tensors: dict[str, paddle.Tensor], filename: str | os.PathLike, metadata: dict[str, str] | None = None,
              **options) -> None:
    """Writes a safetensors file with these tensors, which must be contiguous. `options` are those of serialize_file."""
    specs, _held = _flatten(tensors)
    serialize_file(specs, filename, metadata=metadata, **options)


def load(data: bytes, device: str = "cpu") -> dict[str, paddle.Tensor]:
    """The tensors of a safetensors file that lies in memory."""
    return {name: _paddle.from_bytes(tensor["data"], tensor["dtype"], tensor["shape"], device)
            for name, tensor in deserialize(data)}


def load_file(filename, device="cpu", *, backend: str = "mmap", threads: int | None = None,
              progress=None) -> dict[str, paddle.Tensor]:
    """The tensors of a checkpoint: anything that safe_open takes."""
    with safe_open(filename, framework="paddle", device=device, backend=backend) as file:
        return file.get_tensors(threads=threads, progress=progress)


def _flatten(tensors) -> tuple[dict[str, TensorSpec], list]:
    """What is to be written, and the tensors that must live until it is."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, paddle.Tensor] but received {type(tensors)}")
    specs, held = {}, []
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
        held.append(tensor)
        specs[name] = TensorSpec(dtype=str(tensor.dtype).split(".")[-1], shape=tensor.shape,
                                 data_ptr=tensor.data_ptr() if tensor.size else 0,
                                 data_len=tensor.size * tensor.element_size())
    return specs, held
