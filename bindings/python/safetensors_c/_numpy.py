"""Tensors as arrays of numpy, and of the frameworks that take theirs from numpy: jax, tensorflow, mlx.

Every array has memory apart from the file's, as with the reference, and can be written to.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

from ctypes import addressof, c_uint8

import numpy as np

from . import _load
from ._arrays import dtype
from ._dtypes import NAMES
from ._file import Maker


def address(array: np.ndarray) -> int:
    try:
        return addressof(c_uint8.from_buffer(array))
    except (TypeError, ValueError):  # read-only, empty, or of a dtype that is not numpy's own
        return array.__array_interface__["data"][0]  # takes 5 times as long


class _Kinds(dict):
    """numpy's dtypes by the numbers of the format's."""

    def __missing__(self, number: int) -> np.dtype:
        kind = self[number] = dtype(NAMES[number])
        return kind


_kinds = _Kinds()


def view(file, shard: int, handle: int, offset: int):
    """Returns the bytes of a tensor's shard, mapped or in memory; None if they are neither."""
    found = file.views.get(shard)
    if found is None:
        region = file.memory(shard, handle, offset)
        if region is None:
            return None
        found = file.views[shard] = np.frombuffer(region, np.uint8)
    return found


class Arrays(Maker):
    """Makes the tensors that `safe_open` returns. `convert` converts an array to the framework's own. `copied`: copy arrays
    from the file's mapping or memory, otherwise read them.
    """

    def __init__(self, convert=None, copied: bool = False):
        self._convert, self._copied = convert, copied

    def _finish(self, array):
        return array if self._convert is None else self._convert(array)

    def row(self, file, i: int):
        table = file.table
        mapped = self._mapped(file, i) if table.sizes[i] < _load.LARGE else None
        if mapped is None:
            return self.tensor(file, table.row(i))
        array = mapped.copy()
        return array if self._convert is None else self._convert(array)

    def part(self, file, i: int, index):
        mapped = self._mapped(file, i)
        if mapped is None:
            return self.slice(file, file.table.row(i), index)
        if not _is_plain(index, mapped.shape):
            from ._index import Selection
            index = Selection(index, list(mapped.shape)).key()
        return self._finish(_copy(mapped[index]))

    def _mapped(self, file, i: int):
        """Returns the tensor in the mapping as an array; None if there is no mapping to copy from."""
        table = file.table
        if not self._copied or not table.sizes[i]:
            return None
        memory = file.views.get(table.shards[i])
        if memory is None:
            memory = view(file, table.shards[i], table.handles[i], table.offsets[i])
            if memory is None:
                return None
        ends = table.ends
        return np.ndarray(table.dims[ends[i]:ends[i + 1]], _kinds[table.dtypes[i]], memory, table.offsets[i])

    def tensor(self, file, tensor):
        array = np.empty(tensor.shape, dtype(tensor.dtype))
        if tensor.nbytes >= _load.LARGE:
            from . import _plan
            _plan.read(file, [(tensor.handle, address(array), tensor.nbytes)])
        else:
            file.read(tensor, address(array))
        return self._finish(array)

    def tensors(self, file, threads=None, progress=None) -> dict:
        table = file.table
        kinds = {number: dtype(NAMES[number]) for number in set(table.dtypes)}
        shapes = table.shapes()

        def own(row: int) -> tuple:
            array = np.empty(shapes[row], kinds[table.dtypes[row]])
            return array, address(array)

        arrays = _load.load(file, kinds, shapes, own, lambda made, _: made, self._copied, threads, progress)
        return dict(zip(table.names, arrays if self._convert is None else map(self._convert, arrays)))

    def slice(self, file, tensor, index):
        from ._index import Selection
        part = Selection(index, tensor.shape)
        array = np.empty(part.shape, dtype(tensor.dtype))
        file.read_slice(tensor, part, address(array), array.nbytes)
        return self._finish(array)

    def prepare(self, tensor, index) -> tuple:
        from ._index import Selection
        part = None if index is None else Selection(index, tensor.shape)
        array = np.empty(tensor.shape if part is None else part.shape, dtype(tensor.dtype))
        return address(array), array.nbytes, part, lambda: self._finish(array)


def _is_plain(index, shape) -> bool:
    """Whether numpy interprets an index as `Selection` does. If so, numpy is faster."""
    items = index if type(index) is tuple else (index,)
    if len(items) > len(shape):
        return False
    for item, size in zip(items, shape):
        if type(item) is slice:
            start, stop = item.start, item.stop
            if (item.step is not None or start is not None and not (type(start) is int and 0 <= start < size)
                    or stop is not None and not (type(stop) is int and 0 <= stop <= size)):
                return False
        elif type(item) is not int or not -size <= item < size:
            return False
    return True


def _copy(part):
    return part.copy() if isinstance(part, np.ndarray) else np.array(part)  # a single element is a scalar
