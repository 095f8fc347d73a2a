"""Tensors of paddle, which own their memory.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

from ctypes import addressof, c_uint8

import paddle

from . import _plan
from ._dtypes import SPELLING
from ._errors import UnknownDtype
from ._file import Maker


def dtype(name: str):
    # Paddle has no U16; like the reference, take it for the bit patterns of BF16, which paddle itself stores so.
    spelling = SPELLING.get("BF16" if name == "U16" else name)
    if spelling is None or not hasattr(paddle, spelling):
        raise UnknownDtype(f"Dtype not understood: {name}")
    return getattr(paddle, spelling)


def from_bytes(data: bytearray, name: str, shape: list[int], device="cpu"):
    if not data:
        return paddle.empty(shape, dtype=dtype(name))
    tensor = paddle.base.core.frombuffer(data, dtype(name)).reshape(shape)
    return tensor if device == "cpu" else tensor.to(device)


class Tensors(Maker):
    """How `safe_open` makes what it returns."""

    def __init__(self, device="cpu"):
        self._device = device.replace("cuda", "gpu") if isinstance(device, str) else f"gpu:{device}"

    def tensor(self, file, tensor):
        return next(iter(self._read(file, [tensor]).values()))

    def tensors(self, file, threads=None, progress=None) -> dict:
        return self._read(file, file.table.rows(), threads, progress)

    def slice(self, file, tensor, index):
        return self.tensor(file, tensor)[index]

    def _read(self, file, rows, threads=None, progress=None) -> dict:
        memory = [bytearray(row.nbytes) for row in rows]
        views = [(c_uint8 * len(data)).from_buffer(data) for data in memory]
        places = [(row.handle, addressof(view), row.nbytes) for row, view in zip(rows, views)]
        _plan.read(file, places, threads, progress)
        return {row.name: from_bytes(data, row.dtype, row.shape, self._device) for row, data in zip(rows, memory)}
