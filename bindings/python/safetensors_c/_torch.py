"""Tensors of torch.

On the CPU they are views of a copy-on-write mapping, as with the reference: nothing is read before it is touched, and
writing to one changes neither the file nor what is loaded from another safe_open. (Torch ignores the mark of memory that
is read-only, so that writing to a view of a read-only mapping would crash.) Where there is no mapping, where progress or
a number of threads is asked for, and for other devices, tensors have memory apart from the file's.

Torch makes a tensor from an array of numpy in less than half the time that it takes to make one from a buffer and
reshape it. Each has a storage of its own, of its own size, even where several are in one buffer.

On GPUs torch allocates them and a plan fills them. Where the library has no way to the GPU, and on other devices, they
are read into memory of the host and moved.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

from math import prod
from operator import index as as_integer

import torch

try:
    import numpy
    torch.from_numpy(numpy.empty(0))
    from . import _arrays, _load, _numpy
except (ImportError, RuntimeError):  # torch works without numpy, and may have been built without it
    numpy = None

from . import _device, _library, _plan
from ._dtypes import BITS, NAMES, SPELLING
from ._errors import SafetensorError, TorchError, UnknownDtype
from ._file import Maker


def dtype(name: str) -> torch.dtype:
    spelling = SPELLING.get(name)
    if spelling is None:
        raise UnknownDtype(f"Dtype not understood: {name}")
    return getattr(torch, spelling)


def shape(tensor) -> list[int]:
    """The shape that torch has for it: two F4 are one element there."""
    if tensor.dtype != "F4":
        return tensor.shape
    if not tensor.shape or tensor.shape[-1] % 2:
        raise TorchError(
            f"f4_x2 dtype requires that the last dim be divisible by 2 in torch: got {tensor.shape}")
    return tensor.shape[:-1] + [tensor.shape[-1] // 2]


_IN_NUMPY = ("BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "F32", "F64", "C64")


class _Kinds(dict):
    """Maps numbers of dtypes to numpy's dtype of the elements in memory, and to torch's dtype if that differs."""

    def __missing__(self, number: int) -> tuple:
        name = NAMES[number]
        kind = dtype(name)
        found = ((_arrays.dtype(name), None) if name in _IN_NUMPY
                 else (numpy.dtype(f"i{max(BITS[name] // 8, 1)}"), kind))
        self[number] = found
        return found


_kinds = _Kinds()


class Tensors(Maker):
    """Makes the tensors that `safe_open` returns. `mapped`: on the CPU they are views, and slices for a GPU are copied from
    the mapping. Otherwise they are copied from the file's memory (`copied`) or read.
    """

    def __init__(self, device="cpu", mapped: bool = True, copied: bool = False):
        self._device, self._mapped, self._copied = device, mapped and device == "cpu", copied
        self._cache = _library.CACHE_MAPPED if mapped and _library.HAS_STORES else _library.CACHE_AUTO
        self._pinned = isinstance(device, int) or str(device).startswith("cuda")
        self._gpu = _NOT_ASKED if self._pinned else None

    def tensor(self, file, tensor):
        if self._opened_gpu() is not None:
            mapped = self._mapping(file, tensor, tensor.nbytes)
            return self._fill(file, [tensor])[0] if mapped is None else mapped.to(self._device)
        return self._view(file, tensor) if self._mapped else self._move(self._read(file, tensor))

    def several(self, file, tensors, threads: int) -> list:
        """Some tensors of a file, read by `threads` where they can be read at once."""
        if self._opened_gpu() is not None:
            return self._fill(file, tensors, threads)
        return [self.tensor(file, tensor) for tensor in tensors]

    def row(self, file, i: int):
        if self._mapped and numpy is not None:
            found = self._views(file, [i])
            if found is not None:
                return found[0]
        return self.tensor(file, file.table.row(i))

    def tensors(self, file, threads=None, progress=None) -> dict:
        names = file.table.names
        if self._device == "cpu" and numpy is not None:
            views = self._views(file, range(len(names))) if self._mapped and threads is None and not progress else None
            return dict(zip(names, self._loaded(file, threads, progress) if views is None else views))
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

    @staticmethod
    def _views(file, rows) -> list | None:
        """Returns tensors that are views of the mapping; None if it does not cover all of them."""
        if not file.writable:
            return None
        table, found = file.table, []
        offsets, sizes, dtypes, shards, dims, ends = (table.offsets, table.sizes, table.dtypes, table.shards, table.dims,
                                                      table.ends)
        array, from_numpy, memories = numpy.ndarray, torch.from_numpy, file.views
        for i in rows:
            kind, other = _kinds[dtypes[i]]
            extents = dims[ends[i]:ends[i + 1]]
            if other is _F4:
                extents = shape(table.row(i))
            if not sizes[i]:
                found.append(torch.empty(extents, dtype=dtype(table.dtype(i)), device="cpu"))
                continue
            memory = memories.get(shards[i])
            if memory is None:
                memory = _numpy.view(file, shards[i], table.handles[i], offsets[i])
                if memory is None:
                    return None
            if len(extents) > _RANK:
                found.append(_in_memory(file.memory(shards[i], table.handles[i], offsets[i]), offsets[i], table.row(i)))
                continue
            tensor = from_numpy(array(extents, kind, memory, offsets[i]))
            found.append(tensor if other is None else tensor.view(other))
        return found

    def _loaded(self, file, threads, progress) -> list:
        """Returns tensors that own their memory or, if they are small, share buffers."""
        table = file.table
        kinds = {number: _kinds[number][0] for number in set(table.dtypes)}
        others = {number: _kinds[number][1] for number in set(table.dtypes)}
        shapes = table.shapes()
        if _F4 in others.values():
            shapes = [shape(row) for row in table.rows()]
        odd = {row for row, extents in enumerate(shapes) if len(extents) > _RANK or not table.sizes[row]}
        plain = [[prod(extents)] if row in odd else extents for row, extents in enumerate(shapes)] if odd else shapes

        def own(row: int) -> tuple:
            tensor = torch.empty(shapes[row], dtype=dtype(table.dtype(row)), device="cpu")
            return tensor, tensor.data_ptr()

        def made(arrays: list, first: int) -> list:
            found = list(map(torch.from_numpy, arrays))
            if any(others.values()):
                found = [tensor if others[number] is None else tensor.view(others[number])
                         for tensor, number in zip(found, table.dtypes[first:first + len(found)])]
            for row in odd.intersection(range(first, first + len(found))) if odd else ():
                found[row - first] = (found[row - first].reshape(shapes[row]) if table.sizes[row] else
                                      torch.empty(shapes[row], dtype=found[row - first].dtype, device="cpu"))
            return found

        return _load.load(file, kinds, plain, own, made, self._copied, threads, progress)

    def slice(self, file, tensor, index):
        backwards = _has_backwards(index)
        # Whether there is no mapping to take it from.
        reads = not file.writable if self._mapped else self._cache != _library.CACHE_MAPPED
        if tensor.dtype == "F4" and reads:
            part = _planned(index, tensor)
            if part is not None:
                return self._move(_read_part(file, tensor, part))
        elif tensor.dtype not in ("F4", "UNKNOWN"):
            on_gpu = self._opened_gpu() is not None
            part = _part(index, tensor.shape) if on_gpu or reads or file.opener is not None or backwards else None
            if part is not None and on_gpu:
                size = part.elements * BITS[tensor.dtype] // 8
                mapped = None if backwards else self._mapping(file, tensor, size)
                return self._fill_part(file, tensor, part) if mapped is None else mapped[index].to(self._device)
            if part is not None:
                return self._move(_read_part(file, tensor, part))
            if backwards:
                _refuse_backwards(index, tensor.shape)
        whole = self._view(file, tensor) if self._mapped else self._mapping(file, tensor, 1)
        if whole is None:
            whole = self._read(file, tensor)
        try:
            found = _pairs(whole, index) if backwards and tensor.dtype == "F4" else whole[index]
        except (SafetensorError, IndexError, TypeError, ValueError) as error:
            raise TorchError(*error.args) from None
        return self._move(_alone(found, whole) if reads else found)

    def prepare(self, tensor, index) -> tuple:
        on_gpu = self._opened_gpu() is not None
        extents, part = shape(tensor), None
        if index is not None:
            part = _planned(index, tensor)
            if part is None:
                _check(index, tensor)
            else:
                extents = part.shape
        found = torch.empty(extents, dtype=dtype(tensor.dtype), device=self._device if on_gpu else "cpu")

        def finish():
            if index is None or part is not None:
                return self._move(found)
            whole = found.cpu()
            return self._move(_alone(_pairs(whole, index) if _has_backwards(index) else whole[index], whole))

        return found.data_ptr(), found.numel() * found.element_size(), part, finish

    def device(self) -> tuple:
        gpu = self._opened_gpu()
        return gpu, 0 if gpu is None else self._stream()

    def _view(self, file, tensor):
        placed = file.region(tensor) if tensor.nbytes else None
        return self._read(file, tensor) if placed is None else _in_memory(*placed, tensor)

    def _empty(self, tensor):
        return torch.empty(shape(tensor), dtype=dtype(tensor.dtype), device="cpu", pin_memory=self._pinned)

    def _read(self, file, tensor):
        empty = self._empty(tensor)
        _plan.read(file, _places([tensor], [empty]), None if tensor.nbytes >= 16 << 20 or file.opener is not None else 1)
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
        _plan.read(file, [(tensor.handle, empty.data_ptr(), size)], None, None, self._gpu, self._stream(), [part],
                   self._cache)
        return empty

    def _mapping(self, file, tensor, size: int):
        """The tensor in the mapping of its file, or None if a plan loads `size` bytes of it to a GPU faster than torch.

        On an H200, from the page cache, 4 KiB took 36 µs with a plan and 17 µs with torch; 4 MiB took 616 and 607 µs, 8 MiB
        858 and 1,046 µs.
        """
        if not size or size > 4 << 20 or self._cache != _library.CACHE_MAPPED or not tensor.nbytes:
            return None
        region = file.memory(tensor.shard, tensor.handle, tensor.offset)
        return None if region is None else _in_memory(region, tensor.offset, tensor)

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


_RANK = 32  # that arrays of every numpy may have
_F4 = getattr(torch, SPELLING["F4"], None)
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


def _in_memory(region, offset: int, tensor):
    """A view of a tensor in memory, at an offset in bytes."""
    kind, extents = dtype(tensor.dtype), shape(tensor)
    return torch.frombuffer(region, dtype=kind, count=tensor.nbytes // max(BITS[tensor.dtype] // 8, 1),
                            offset=offset).reshape(extents)


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
    if isinstance(index, list) and not index:
        index = slice(0, 0)
    items = index if isinstance(index, tuple) else (index,)
    if any(item is None or isinstance(item, bool) or _selects(item) for item in items):
        return None
    try:
        return Selection(_clamped(items, shape), shape)
    except (SafetensorError, OverflowError, TypeError, ValueError):
        return None


def _selects(item) -> bool:
    """Whether the item is an index array or a mask, not a number."""
    return bool(getattr(item, "ndim", 0)) or getattr(item, "dtype", None) in (torch.bool, torch.uint8)


def _clamped(items: tuple, shape) -> tuple:
    """The same items with bounds inside the tensor. Torch clamps bounds; the library rejects those outside."""
    found, axis = [], 0
    for item in items:
        if item is Ellipsis:
            axis += len(shape) - len(items) + 1
        else:
            if isinstance(item, slice) and 0 <= axis < len(shape) and not _is_backwards(item):
                begin, end, step = item.indices(shape[axis])
                item = slice(begin, end, step) if begin < end else slice(0, 0, step)
            axis += 1
        found.append(item)
    return tuple(found)


def _planned(index, tensor):
    """What a plan can read of a tensor, or None if torch has to index all of it."""
    part = _part(index, shape(tensor))
    if part is not None and tensor.dtype == "F4":  # an element of torch is two of the file
        if part.step[-1] != 1:
            return None
        part.begin[-1] *= 2
        part.end[-1] *= 2
    return part


def _check(index, tensor) -> None:
    """Raises what torch raises for an index of this tensor, without its memory."""
    extents = shape(tensor)
    if not _has_backwards(index):
        torch.zeros((), dtype=torch.uint8, device="cpu").expand(extents)[index]
    elif tensor.dtype == "F4":
        from ._index import Selection
        Selection(index, extents)
    else:
        _refuse_backwards(index, extents)


def _refuse_backwards(index, extents) -> None:
    from ._index import Selection
    try:
        Selection(index, extents)  # says what is wrong
    except (SafetensorError, TypeError) as error:
        raise TorchError(*error.args) from None
    raise TorchError(f"index {index!r}: beside a negative step only integers, slices and ... are supported")


def _has_backwards(index) -> bool:
    return any(isinstance(item, slice) and _is_backwards(item) for item in (index if isinstance(index, tuple) else (index,)))


def _is_backwards(bounds: slice) -> bool:
    return bounds.step is not None and as_integer(bounds.step) < 0


def _alone(part, whole):
    """The part of a tensor in memory of its own: a view would keep the whole tensor."""
    return part.clone() if part.numel() < whole.numel() else part


def _pairs(whole, index):
    """A slice with negative steps of a tensor whose elements are pairs of F4, which the library slices one by one."""
    from ._index import Selection
    part = Selection(index, list(whole.shape))
    taken = whole.view(torch.uint8)
    for axis, bounds in enumerate(zip(part.begin, part.end, part.step)):
        begin, end, step = bounds
        taken = taken.index_select(axis, torch.tensor(range(begin, max(end, -1), step), dtype=torch.long, device="cpu"))
    return taken.reshape(part.shape).view(whole.dtype)


def _read_part(file, tensor, part):
    empty = torch.empty(part.shape, dtype=dtype(tensor.dtype), device="cpu")
    file.read_slice(tensor, part, empty.data_ptr(), part.elements * empty.element_size())
    return empty
