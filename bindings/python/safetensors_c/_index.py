"""What stands between the brackets of `get_slice(name)[...]`: checked against a shape, and told in the reference's words.

Beyond the reference, negative positions and negative steps mean what they do in Python, and a slice that ends before it
begins is empty. Like the reference, and unlike Python, a slice that reaches beyond the tensor is an error.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

from operator import index as as_integer

from ._errors import SafetensorError


class Selection:
    """A slice of a tensor: begin, end and step for each dimension, and the shape of the result."""

    __slots__ = ("begin", "end", "step", "shape", "elements", "_whole")

    def __init__(self, index, shape: list[int]):
        items = _items(index, len(shape))
        shown = f"Error during slicing [{', '.join(map(_show, items))}] with shape {shape}: "
        if len(items) > len(shape):
            raise SafetensorError(shown + "more slicing indexes than dimensions in tensor")
        self.begin, self.end, self.step, self.shape, self.elements, self._whole = [], [], [], [], 1, []
        for axis, size in enumerate(shape):
            item = items[axis] if axis < len(items) else slice(None)
            begin, end, step = _bounds(item, axis, size, shown)
            self.begin.append(begin)
            self.end.append(end if end >= 0 else -(1 << 63))  # to the library, too, -1 is the last one
            self.step.append(step)
            count = len(range(begin, end, step))
            self.elements *= count
            self._whole.append(isinstance(item, slice))
            if isinstance(item, slice):
                self.shape.append(count)

    def key(self) -> tuple:
        """The same slice for numpy, which returns an array for it even if it is one element."""
        bounds = zip(self.begin, self.end, self.step, self._whole)
        return (*(slice(begin, None if end < 0 else end, step) if whole else begin for begin, end, step, whole in bounds), ...)


def _items(index, rank: int) -> list:
    if isinstance(index, list):
        if index:
            raise SafetensorError("Non empty lists are not implemented")
        index = slice(0, 0)
    given = index if isinstance(index, tuple) else (index,)
    items: list = []
    dots = None
    for position, item in enumerate(given):
        if item is Ellipsis:
            if dots is not None:
                raise SafetensorError("Only one ellipsis (...) is allowed in slice index")
            dots = len(items)
        elif isinstance(item, slice):
            items.append(slice(_limit(item.start), _limit(item.stop), None if item.step is None else as_integer(item.step)))
        else:
            items.append(_integer(item, position))
    if dots is not None:
        items[dots:dots] = [slice(None)] * (rank - len(items))
    return items


def _limit(given) -> int | None:
    if given is None:
        return None
    number = as_integer(given)
    if number > 0 and number >> 64:
        raise OverflowError("int too big to convert")
    return number


def _integer(item, position: int) -> int:
    try:
        return as_integer(item)
    except TypeError:
        raise SafetensorError(
            f"Unsupported slice index at position {position}: expected slice, int, or ellipsis") from None


def _show(item) -> str:
    if not isinstance(item, slice):
        return str(item)
    start, stop, step = ("" if part is None else str(part) for part in (item.start, item.stop, item.step))
    return f"{start}:{stop}" + (f":{step}" if step and step != "1" else "")


def _bounds(item, axis: int, size: int, shown: str) -> tuple[int, int, int]:
    def outside(asked: int) -> SafetensorError:
        return SafetensorError(f"{shown}index {asked} out of bounds for tensor dimension #{axis} of size {size}")

    if not isinstance(item, slice):
        if item < -size:
            raise SafetensorError(f"Invalid index {item} for dimension {axis} of size {size}")
        if item >= size:
            raise outside(item)
        item += size if item < 0 else 0
        return item, item + 1, 1
    if item.step == 0:
        raise SafetensorError("Slice step must be a positive integer, got 0")
    if item.step is None or item.step > 0:
        if item.start and item.start >= size:
            raise outside(item.start)
        if item.stop is not None and item.stop > size:
            raise outside(item.stop - 1)
    begin, end, step = item.indices(size)
    if begin < 0:  # a backward slice that starts before the first element is empty. For numpy and the library, -1 is the last.
        begin = end = 0
    step = max(-(1 << 63), min(step, (1 << 63) - 1))
    return (begin, max(begin, end), step) if step > 0 else (begin, min(begin, end), step)
