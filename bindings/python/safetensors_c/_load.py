"""Loads all tensors of a file. Small tensors share buffers. One copy fills a buffer.

An array keeps its whole buffer alive. No buffer is larger than CHUNK, so a tensor that outlives the others pins no more.
Large tensors own their memory. So do tensors that would not be aligned in a shared buffer.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

from ctypes import addressof, memmove
from itertools import repeat

import numpy as np

from . import _plan
from ._dtypes import BITS, NAMES
from ._errors import SafetensorError

CHUNK = 256 << 10
SMALL = 32 << 10  # at most
LARGE = 16 << 20  # from this size on, the threads of a plan are faster than one thread that copies

_ITEMS = [max(bits // 8, 1) for bits in map(BITS.__getitem__, NAMES)]
_ALIGNMENT = 16  # at least, of the memory of np.empty


def load(file, kinds, shapes, own, made, copied: bool, threads=None, progress=None) -> list:
    """Returns the tensors in the order of the table.

    `kinds` maps numbers of dtypes to numpy's dtypes. `shapes` are the shapes of the arrays. `own(row)` returns a tensor
    that owns its memory, and the address. `made(arrays, row)` converts arrays in a shared buffer to tensors; `row` is the
    row of the first one. `copied`: copy the bytes from the file's mapping or memory. Otherwise a plan reads them.
    """
    table, found = file.table, []
    offsets, sizes, handles = table.offsets, table.sizes, table.handles
    source = _Source(file) if copied and threads is None and not progress else None
    alone, read = [], []
    for first, last, begin, end in _groups(table):
        if begin is None:
            tensor, address = own(first)
            if not address and sizes[first]:
                raise SafetensorError(f"tensor {table.names[first]!r}: there is no memory to read it to")
            found.append(tensor)
            alone.append((first, address))
            continue
        memory = np.empty(begin % _ALIGNMENT + end - begin, np.uint8)
        shift = begin - begin % _ALIGNMENT  # keeps the alignment that the tensors have in the file
        address = memory.ctypes.data
        if source is None or not source.copy(first, begin, address + begin - shift, end - begin):
            read += zip(handles[first:last], [address - shift + each for each in offsets[first:last]], sizes[first:last])
        found += made(list(map(np.ndarray, shapes[first:last], map(kinds.__getitem__, table.dtypes[first:last]),
                               repeat(memory), [each - shift for each in offsets[first:last]])), first)
    if sum(sizes[row] for row, _ in alone) >= LARGE:
        source = None
    for row, address in alone:
        if source is None or not source.copy(row, offsets[row], address, sizes[row]):
            read.append((handles[row], address, sizes[row]))
    if read or progress or threads is not None:
        _plan.read(file, read, threads, progress)
    return found


class _Source:
    """The memory of the shards, to copy from."""

    def __init__(self, file):
        self._file, self._table, self._addresses = file, file.table, {}

    def copy(self, row: int, begin: int, to: int, size: int) -> bool:
        """Copies bytes of the shard of a tensor. Returns False if the shard is not in memory."""
        if not size:
            return True
        table = self._table
        shard = table.shards[row]
        address = self._addresses.get(shard)
        if address is None:
            region = self._file.memory(shard, table.handles[row], table.offsets[row])
            if region is None:
                return False
            address = self._addresses[shard] = addressof(region)
        memmove(to, address + begin, size)
        return True


def _groups(table):
    """Yields groups of rows that share a buffer: the first row, the row after the last, and where their bytes begin and
    end in the file. A tensor that owns its memory is a group of its own, without a position (None).
    """
    first = row = begin = end = shard = 0
    for row, (offset, size, dtype, of) in enumerate(zip(table.offsets, table.sizes, table.dtypes, table.shards)):
        if size > SMALL or offset % _ITEMS[dtype]:
            if first < row:
                yield first, row, begin, end
            yield row, row + 1, None, None
            first = row + 1
            continue
        after = offset + size
        if first == row:
            begin, end, shard = offset, after, of
        elif of == shard and begin <= offset and after - begin <= CHUNK:
            if after > end:
                end = after
        else:
            yield first, row, begin, end
            first, begin, end, shard = row, offset, after, of
    if first < len(table.names):
        yield first, len(table.names), begin, end
