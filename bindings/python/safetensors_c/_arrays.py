"""Tensors as arrays of numpy, and of the frameworks that take theirs from numpy: jax, tensorflow, mlx.

Every array owns its memory, as with the reference, and can be written to.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations


import numpy as np

from ._dtypes import NAMES, SPELLING
from ._errors import SafetensorError

# One tensor of at least this size is read by several threads.
_LARGE = 16 << 20

_known: dict[str, np.dtype] = {}
_spelled: dict[np.dtype, str] = {}


def dtype(name: str) -> np.dtype:
    """numpy's dtype for one of the format's. Those that numpy lacks come from ml_dtypes."""
    found = _known.get(name)
    if found is None:
        found = _known[name] = _look_up(name)
    return found


def _look_up(name: str) -> np.dtype:
    spelling = SPELLING.get(name)
    if spelling is None:
        raise SafetensorError(f"Dtype not understood: {name}")
    if name == "F4":  # ml_dtypes gives each F4 a byte of its own
        raise AttributeError("Dtype not understood: F4: numpy has no packed type of 4 bits")
    if spelling.startswith(("bfloat", "float8")):
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(f"data type {spelling!r} not understood by numpy alone: install ml_dtypes") from None
        return np.dtype(getattr(ml_dtypes, spelling))
    return np.dtype(spelling)


def spelling(kind: np.dtype) -> str:
    """numpy's name for a dtype, which numpy puts together anew each time."""
    name = _spelled.get(kind)
    if name is None:
        name = _spelled[kind] = kind.name
    return name


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


class Arrays:
    """How `safe_open` makes what it returns. `convert` turns an array into the framework's own."""

    def __init__(self, convert=None):
        self._convert = convert

    def _finish(self, array):
        return array if self._convert is None else self._convert(array)

    def tensor(self, file, tensor):
        array = np.empty(tensor.shape, dtype(tensor.dtype))
        if tensor.nbytes >= _LARGE:
            from . import _plan
            _plan.read(file, [(tensor.handle, address(array), tensor.nbytes)])
        else:
            file.read(tensor, address(array))
        return self._finish(array)

    def tensors(self, file, threads=None, progress=None) -> dict:
        from . import _plan
        table = file.table
        kinds = {number: dtype(NAMES[number]) for number in set(table.dtypes)}
        arrays = list(map(np.empty, table.shapes(), map(kinds.__getitem__, table.dtypes)))
        _plan.read(file, zip(table.handles, map(address, arrays), table.sizes), threads, progress)
        return dict(zip(table.names, arrays if self._convert is None else map(self._convert, arrays)))

    def slice(self, file, tensor, index):
        from ._index import Selection
        part = Selection(index, tensor.shape)
        array = np.empty(part.shape, dtype(tensor.dtype))
        file.read_slice(tensor, part, address(array), array.nbytes)
        return self._finish(array)
