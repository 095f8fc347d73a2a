"""Tensors of torch.

On the CPU they are views of a copy-on-write mapping, as with the reference: nothing is read before it is touched, and
writing to one changes neither the file nor another tensor that is loaded later. (Torch ignores the mark of memory that
is read-only, so that writing to a view of a read-only mapping would crash.) Where there is no mapping, where progress or
a number of threads is asked for, and for other devices, tensors own their memory.

On GPUs torch allocates them and a plan fills them. Where the library has no way to the GPU, and on other devices, they
are read into memory of the host and moved.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import torch

from . import _device, _plan
from ._dtypes import BITS, SPELLING
from ._errors import SafetensorError


def dtype(name: str) -> torch.dtype:
    spelling = SPELLING.get(name)
    if spelling is None:
        raise SafetensorError(f"Dtype not understood: {name}")
    return getattr(torch, spelling)


def shape(tensor) -> list[int]:
    """The shape that torch has for it: two F4 are one element there."""
    if tensor.dtype != "F4":
        return tensor.shape
    if not tensor.shape or tensor.shape[-1] % 2:
        raise SafetensorError(
            f"f4_x2 dtype requires that the last dim be divisible by 2 in torch: got {tensor.shape}")
    return tensor.shape[:-1] + [tensor.shape[-1] // 2]


class Tensors:
    """How `safe_open` makes what it returns."""

    def __init__(self, device="cpu", mapped: bool = True):
        self._device, self._mapped = device, mapped and device == "cpu"
        self._pinned = isinstance(device, int) or str(device).startswith("cuda")
        self._gpu = _NOT_ASKED if self._pinned else None

    def tensor(self, file, tensor):
        if self._opened_gpu() is not None:
            return self._fill(file, [tensor], None if tensor.nbytes >= 16 << 20 else 1)[0]
        return self._view(file, tensor) if self._mapped else self._move(self._read(file, tensor))

    def tensors(self, file, threads=None, progress=None) -> dict:
        rows = file.table.rows()
        if self._mapped and threads is None and not progress:
            return {row.name: self._view(file, row) for row in rows}
        if self._device == "cpu":
            empty = [self._empty(row) for row in rows]
            _plan.read(file, _places(rows, empty), threads, progress)
            return {row.name: each for row, each in zip(rows, empty)}
        if self._opened_gpu() is not None:
            return {row.name: each for row, each in zip(rows, self._fill(file, rows, threads, progress))}
        return self._through_host(file, rows, threads, progress)

    def slice(self, file, tensor, index):
        backwards = any(isinstance(item, slice) and item.step is not None and item.step < 0
                        for item in (index if isinstance(index, tuple) else (index,)))
        if tensor.dtype not in ("F4", "UNKNOWN"):
            part = _part(index, tensor.shape) if self._opened_gpu() is not None else None
            if part is not None:
                return self._fill_part(file, tensor, part)
            if backwards:
                return self._move(_read_slice(file, tensor, index))
        whole = self._view(file, tensor) if self._mapped else self._read(file, tensor)
        return self._move(_pairs(whole, index) if backwards and tensor.dtype == "F4" else whole[index])

    def _view(self, file, tensor):
        kind, extents = dtype(tensor.dtype), shape(tensor)
        placed = file.region(tensor) if tensor.nbytes else None
        if placed is None:
            return self._read(file, tensor)
        region, offset = placed
        return torch.frombuffer(region, dtype=kind, count=tensor.nbytes // max(BITS[tensor.dtype] // 8, 1),
                                offset=offset).reshape(extents)

    def _empty(self, tensor):
        return torch.empty(shape(tensor), dtype=dtype(tensor.dtype), pin_memory=self._pinned)

    def _read(self, file, tensor):
        empty = self._empty(tensor)
        _plan.read(file, _places([tensor], [empty]), None if tensor.nbytes >= 16 << 20 else 1)
        return empty

    def _fill(self, file, rows, threads=None, progress=None) -> list:
        """Tensors in the memory of the GPU. The memory may be one that the current stream still uses for another tensor
        that is gone: the bytes come after that.
        """
        empty = [torch.empty(shape(row), dtype=dtype(row.dtype), device=self._device) for row in rows]
        _plan.read(file, _places(rows, empty), threads, progress, self._gpu, self._stream())
        return empty

    def _fill_part(self, file, tensor, part):
        empty = torch.empty(part.shape, dtype=dtype(tensor.dtype), device=self._device)
        size = empty.numel() * empty.element_size()
        _plan.read(file, [(tensor.handle, empty.data_ptr(), size)], None if size >= 16 << 20 else 1, None, self._gpu,
                   self._stream(), part)
        return empty

    def _stream(self) -> int:
        return torch.cuda.current_stream(self._device).cuda_stream or _LEGACY_STREAM

    def _opened_gpu(self):
        """The GPU for plans, or None where there is none. It is opened for the first tensor: that makes a context."""
        if self._gpu is _NOT_ASKED:
            self._device, self._gpu = _opened(self._device)
        return self._gpu

    def _move(self, tensor):
        return tensor if self._device == "cpu" else tensor.to(self._device)

    def _through_host(self, file, rows, threads, progress) -> dict:
        """Reads groups of tensors into host memory and moves each to the device, so that the host never holds all."""
        total, before = sum(row.nbytes for row in rows), 0
        found: dict = {}

        def report(done: int, _: int) -> None:
            progress(before + done, total)

        for group in _groups(rows, 256 << 20):
            empty = [self._empty(row) for row in group]
            _plan.read(file, _places(group, empty), threads, report if progress else None)
            found.update((row.name, self._move(each)) for row, each in zip(group, empty))
            before += sum(row.nbytes for row in group)
        return found


_LEGACY_STREAM = 1  # as torch's 0
_NOT_ASKED = object()


def _opened(device):
    """The device with its number, and the GPU for plans or None."""
    if not torch.cuda.is_available():
        return device, None  # torch says why when it is asked for the tensor
    index = torch.device("cuda", device).index if isinstance(device, int) else torch.device(device).index
    if index is None:
        index = torch.cuda.current_device()  # which another call may change later
    return torch.device("cuda", index), _device.opened("hip" if torch.version.hip else "cuda", index)


def _places(rows, tensors) -> list[tuple[int, int, int]]:
    return [(row.handle, tensor.data_ptr(), row.nbytes) for row, tensor in zip(rows, tensors)]


def _groups(rows, limit: int):
    group: list = []
    size = 0
    for row in rows:
        if group and size + row.nbytes > limit:
            yield group
            group, size = [], 0
        group.append(row)
        size += row.nbytes
    if group:
        yield group


def _part(index, shape):
    """What a plan can read of a tensor, or None if only torch knows what is meant: masks, new axes, and what it refuses."""
    from ._index import Selection
    if any(item is None or isinstance(item, bool) for item in (index if isinstance(index, tuple) else (index,))):
        return None
    try:
        return Selection(index, shape)
    except SafetensorError:
        return None


def _pairs(whole, index):
    """A slice with negative steps of a tensor whose elements are pairs of F4, which the library slices one by one."""
    from ._index import Selection
    part = Selection(index, list(whole.shape))
    taken = whole.view(torch.uint8)
    for axis, bounds in enumerate(zip(part.begin, part.end, part.step)):
        begin, end, step = bounds
        taken = taken.index_select(axis, torch.tensor(range(begin, max(end, -1), step), dtype=torch.long))
    return taken.reshape(part.shape).view(whole.dtype)


def _read_slice(file, tensor, index):
    from ._index import Selection
    part = Selection(index, tensor.shape)
    empty = torch.empty(part.shape, dtype=dtype(tensor.dtype))
    file.read_slice(tensor, part, empty.data_ptr(), part.elements * empty.element_size())
    return empty
