"""Saving and loading for frameworks whose arrays go through numpy.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

from . import numpy as by_numpy
from ._open import safe_open


def functions(framework: str, to_numpy, from_numpy) -> tuple:
    """save, save_file, load and load_file of a framework, from its two conversions."""

    def save(tensors: dict, metadata: dict[str, str] | None = None) -> bytes:
        """The bytes of a safetensors file with these tensors."""
        return by_numpy.save({name: to_numpy(tensor) for name, tensor in tensors.items()}, metadata=metadata)

    def save_file(tensors: dict, filename, metadata: dict[str, str] | None = None, **options) -> None:
        """Writes a safetensors file with these tensors. `options` are those of serialize_file."""
        arrays = {name: to_numpy(tensor) for name, tensor in tensors.items()}
        by_numpy.save_file(arrays, filename, metadata=metadata, **options)

    def load(data: bytes) -> dict:
        """The tensors of a safetensors file that lies in memory."""
        return {name: from_numpy(array) for name, array in by_numpy.load(data).items()}

    def load_file(filename, *, backend: str = "mmap", threads: int | None = None, progress=None) -> dict:
        """The tensors of a checkpoint: anything that safe_open takes."""
        with safe_open(filename, framework=framework, backend=backend) as file:
            return file.get_tensors(threads=threads, progress=progress)

    return save, save_file, load, load_file
