"""Saving and loading for frameworks whose arrays go through numpy.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

from . import numpy as by_numpy
from ._open import safe_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._http import HttpOptions


def functions(framework: str, to_numpy, from_numpy) -> tuple:
    """save, save_file, load and load_file of a framework, from its two conversions, and these for dictionaries."""

    def from_arrays(arrays: dict) -> dict:
        return {name: from_numpy(array) for name, array in arrays.items()}

    def to_arrays(tensors: dict) -> dict:
        return {name: to_numpy(tensor) for name, tensor in tensors.items()}

    def save(tensors: dict, metadata: dict[str, str] | None = None) -> bytes:
        """The bytes of a safetensors file with these tensors."""
        return by_numpy.save(to_arrays(tensors), metadata=metadata)

    def save_file(tensors: dict, filename, metadata: dict[str, str] | None = None, **options) -> None:
        """Writes a safetensors file with these tensors. `options` are those of serialize_file."""
        by_numpy.save_file(to_arrays(tensors), filename, metadata=metadata, **options)

    def load(data: bytes) -> dict:
        """The tensors of a safetensors file that lies in memory."""
        return from_arrays(by_numpy.load(data))

    def load_file(filename, *, backend: str = "mmap", threads: int | None = None, progress=None,
                  http: HttpOptions | None = None, fs=None, group=None, exchange_bytes: int | None = None) -> dict:
        """The tensors of a checkpoint: anything that safe_open takes. With a `group`, all its processes call this function
        and read together: see numpy.load_sharded."""
        if group is not None:
            from ._group import load as load_together
            return load_together(filename, None, framework, group, threads=threads, progress=progress,
                                 exchange_bytes=exchange_bytes, http=http, fs=fs)
        with safe_open(filename, framework=framework, backend=backend, http=http, fs=fs) as file:
            return file.get_tensors(threads=threads, progress=progress)

    return save, save_file, load, load_file, from_arrays, to_arrays
