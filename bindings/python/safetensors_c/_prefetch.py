"""What release 0.9 of the reference adds: a tensor's entry in the header, and loads to a GPU while the program goes on.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
import threading
from operator import index as as_integer

from ._errors import SafetensorError, not_an_instance
from ._write import _unsigned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_GROUP = 64 << 20  # bytes that are loaded before the next tensors can be taken


class TensorMeta:
    """A tensor's entry in the header: its dtype as the format spells it, its shape in elements, and where its bytes begin
    and end in the data of its file."""

    __module__ = "safetensors_c"
    __slots__ = ("dtype", "shape", "data_offsets")

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]

    def __repr__(self) -> str:
        return f"TensorMeta(dtype={self.dtype!r}, shape={self.shape}, data_offsets={self.data_offsets})"


def meta(table, i: int) -> TensorMeta:
    found, shards, offsets = TensorMeta(), table.shards, table.offsets
    begin = offsets[i] - offsets[table.firsts[shards[i]]]  # rows are in the order of their data, which has no gap
    found.dtype, found.shape, found.data_offsets = table.dtype(i), table.shape(i), (begin, begin + table.sizes[i])
    return found


class _Work:
    """What a loader and its thread share. The thread does not refer to the loader, so that it ends if that is gone."""

    def __init__(self, file, make, parts: list[tuple], threads: int):
        self.file, self.make, self.parts, self.threads = file, make, parts, threads
        self.changed, self.process = threading.Condition(), os.getpid()
        self.loaded: dict[int, Any] = {}
        self.taken: set[int] = set()
        self.error: BaseException | None = None
        self.closed = False

    def run(self) -> None:
        try:
            for group in self._groups():
                with self.changed:
                    # The main thread ends before the interpreter waits for the others.
                    if self.closed:
                        return
                    if not threading.main_thread().is_alive():
                        raise SafetensorError("the program ends")
                found = self._load(group)
                with self.changed:
                    if not self.closed:
                        self.loaded.update(zip(group, found))
                    self.changed.notify_all()
                del found
        except BaseException as error:  # also Ctrl-C in a function of the program that reads
            with self.changed:
                self.error = error
                self.changed.notify_all()
        finally:
            self.file = self.make = None

    def _groups(self) -> Iterator[list[int]]:
        """The positions of whole tensors of up to _GROUP bytes, or of one tensor."""
        group, size = [], 0
        for i, (tensor, rows) in enumerate(self.parts):
            if group and (rows is not None or size + tensor.nbytes > _GROUP):
                yield group
                group, size = [], 0
            group.append(i)
            size += _GROUP if rows is not None else tensor.nbytes
        if group:
            yield group

    def _load(self, group: list[int]) -> list:
        tensor, rows = self.parts[group[0]]
        if rows is not None:
            return [self.make.slice(self.file, tensor, rows)]
        return self.make.several(self.file, [self.parts[i][0] for i in group], self.threads)

    def take(self, i: int):
        """Waits for a tensor and returns it, or None if it was taken before."""
        if self.process != os.getpid():
            raise SafetensorError(f"{self.parts[i][0].name}: the prefetch loader was made before a fork, and its thread is in "
                                  "the parent process")
        with self.changed:
            self.changed.wait_for(lambda: i in self.taken or i in self.loaded or self.closed or self.error)
            if i in self.taken:
                return None
            name = self.parts[i][0].name
            if i not in self.loaded:
                if self.closed:
                    raise SafetensorError(f"{name}: prefetch loader closed")
                if not isinstance(self.error, Exception):
                    raise self.error
                raise SafetensorError(f"{name}: {self.error}") from self.error
            self.taken.add(i)
            tensor = self.loaded.pop(i)
        if tensor.is_cuda:
            import torch
            tensor.record_stream(torch.cuda.current_stream(tensor.device))  # its memory is used there until it is freed
        return tensor

    def close(self) -> None:
        if self.process != os.getpid():  # the thread may have held the lock
            return
        with self.changed:
            self.closed = True
            self.loaded.clear()
            self.changed.notify_all()


class PrefetchLoader:
    """Tensors that are loaded to a GPU by a thread. Each is handed out once, by `take` or by iterating."""

    __module__ = "safetensors_c"
    __slots__ = ("_work", "_rows", "__weakref__")

    def __new__(cls):
        raise TypeError("cannot create 'PrefetchLoader' instances")

    def names(self) -> list[str]:
        """The names of the tensors that it loads, in the order of their data."""
        return list(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, name: str) -> Any:
        """The tensor of this name, as soon as it is loaded; an error if it was handed out before."""
        if not isinstance(name, str):
            raise not_an_instance("name", name)
        if name not in self._rows:
            raise SafetensorError(f"tensor {name} is not in the prefetch plan")
        tensor = self._work.take(self._rows[name])
        if tensor is None:
            raise SafetensorError(f"{name}: tensor already delivered (prefetch hands each tensor out once, via take or "
                                  "iteration)")
        return tensor

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name, i in self._rows.items():
            tensor = self._work.take(i)
            if tensor is not None:
                yield name, tensor
                del tensor

    def close(self) -> None:
        """Ends the load and frees what was not handed out."""
        self._work.close()

    def __enter__(self) -> PrefetchLoader:
        return self

    def __exit__(self, _exc_type, _exc_value, _traceback) -> None:
        self.close()

    def __del__(self):
        self._work.close()


def prefetch(file, framework: str, device, plan, threads: int) -> PrefetchLoader:
    """Does safe_open.prefetch for a `device` in the words of `_open._device`."""
    if plan is not None and not isinstance(plan, dict):
        raise not_an_instance("plan", plan, "dict")
    threads = _unsigned(threads)
    if framework != "pytorch":
        raise SafetensorError('prefetch is only compatible with framework="pt"')
    if isinstance(device, str) and not device.startswith("cuda"):
        raise SafetensorError(f"prefetch loads to cuda devices, not {device}")
    parts = _parts(file.table, plan)
    import torch
    if not torch.cuda.is_available():
        raise SafetensorError("prefetch needs CUDA, and torch finds no device")
    from ._torch import Tensors
    return start(file, Tensors(device, mapped=False), parts, threads)


def start(file, make, parts: list[tuple], threads: int) -> PrefetchLoader:
    """Loads tensors as `make` does. `parts`: each tensor, and a slice of its rows or None."""
    loader = object.__new__(PrefetchLoader)
    loader._rows = {tensor.name: i for i, (tensor, _) in enumerate(parts)}
    loader._work = _Work(file, make, parts, max(threads, 1))
    threading.Thread(target=loader._work.run, name="safetensors prefetch").start()
    return loader


def _parts(table, plan: dict | None) -> list[tuple]:
    """The tensors of a plan in the order of their data. All of the plan is checked before anything is loaded."""
    from ._torch import dtype
    if plan is None:
        parts = [(row, None) for row in table.rows()]
    else:
        chosen = {}
        for name, rows in plan.items():
            if not isinstance(name, str):
                raise SafetensorError("prefetch plan keys must be tensor names")
            if name not in table.index:
                raise SafetensorError(f"File does not contain tensor {name}")
            i = table.index[name]
            chosen[i] = None if rows is None else _rows(name, table.row(i), rows)
        parts = [(table.row(i), chosen[i]) for i in sorted(chosen)]
        if not parts:
            raise SafetensorError("prefetch plan selects no tensors")
    for tensor, _ in parts:
        try:
            dtype(tensor.dtype)
        except (SafetensorError, AttributeError):  # torch has no such dtype, or is too old for it
            raise SafetensorError(f"prefetch cannot hand out dtype {tensor.dtype}: torch has no matching dtype") from None
    return parts


def _rows(name: str, tensor, rows) -> slice:
    if not isinstance(rows, slice):
        raise SafetensorError(f"prefetch plan values must be None or a slice, got {type(rows)} for {name}")
    if not tensor.shape:
        raise SafetensorError(f"cannot slice rows of the 0-d tensor {name}")
    count = tensor.shape[0]
    for attribute in ("start", "stop"):
        bound = getattr(rows, attribute)
        if bound is None:
            continue
        try:
            number = as_integer(bound)
        except TypeError:
            raise SafetensorError(f"prefetch plan slice bounds for {name} must be integers or None") from None
        if not -count <= number <= count:
            raise SafetensorError(f"prefetch plan slice {attribute} {number} for {name} is out of range for {count} rows")
    try:
        begin, end, step = rows.indices(count)
    except (TypeError, ValueError) as error:
        raise SafetensorError(f"invalid prefetch plan slice for {name}: {error}") from error
    if step != 1:
        raise SafetensorError(f"prefetch plan slices must have step 1, got {step} for {name}")
    if tensor.nbytes % count if count else 0:
        raise SafetensorError(f"cannot slice rows of {name}: a row is not a whole number of bytes")
    return slice(begin, max(begin, end))
