"""Groups: processes that load one checkpoint together. Bytes that several of them want are read once and sent.

A group is a communicator of mpi4py or a group of torch.distributed. If a process leaves out an operation, the others wait
forever. Therefore a process that fails before its run reports that to the others (`joined`), and signals interrupt no run.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from ctypes import addressof, byref, c_int32, c_uint64, c_uint8
from itertools import accumulate
from operator import index as as_integer

from . import _callbacks, _library
from ._errors import not_an_instance
from ._library import quick, st
from ._open import safe_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._http import HttpOptions


def load(filename, plan: Mapping[str, Any] | None, framework: str, group, *, device="cpu", threads: int | None = None,
         progress=None, exchange_bytes: int | None = None, http: HttpOptions | None = None, fs=None) -> dict:
    """Reads tensors and slices by one plan of the library, and returns them by name. `plan` maps names to an index, or to
    None or `...` for the whole tensor. A `plan` of None is all tensors. `group` is a communicator or None."""
    from . import _plan
    from ._progress import shown
    with (joined(group, exchange_bytes) as run, shown(progress) as report,
          safe_open(filename, framework, device, backend="pread", http=http, fs=fs) as opened):
        file, make = opened._file, opened._make
        if plan is None:
            plan = dict.fromkeys(file.table.names)
        elif not isinstance(plan, Mapping):
            raise not_an_instance("plan", plan, "dict")
        places, parts, finish = [], [], {}
        for name, index in plan.items():
            if not isinstance(name, str) or name not in file.table.index:
                raise opened._missing(name)
            tensor = file.table.get(name)
            if run is not None:
                run.check()
            with _named(name):
                address, size, part, finish[name] = make.prepare(tensor, None if index is Ellipsis else index)
            places.append((tensor.handle, address, size))
            parts.append(part)
        gpu, stream = make.device()
        _plan.read(file, places, threads, report, gpu, stream, parts, group=run)
    for name in finish:
        finish[name] = finish[name]()  # frees what it was made from
    return finish


# As in st_read_options.exchange_bytes. A process sends at most a third of it in one operation.
_DEFAULT_EXCHANGE, _MOST_EXCHANGE, _LEAST_FOR_EACH = 256 << 20, 1 << 31, 320 << 10


@contextlib.contextmanager
def _named(name: str):
    """A context that adds the tensor's name to the message of an exception."""
    try:
        yield
    except Exception as problem:
        if len(problem.args) == 1 and isinstance(problem.args[0], str):
            problem.args = (f"tensor {name!r}: {problem.args[0]}",)
        raise


@contextlib.contextmanager
def joined(given, exchange_bytes: int | None = None):
    """A context with the Group of a communicator, or None without one. If an exception leaves it before the group's run, the
    other processes get ST_ERR_PEER."""
    if given is None:
        yield None
        return
    group = Group(given)
    with (_callbacks.raising() as group.raised, _callbacks.kept(group.raised),
          _callbacks.uninterrupted(group.raised, group.stop)):
        try:
            if exchange_bytes is not None:
                number = as_integer(exchange_bytes)
                if number < 1:
                    raise ValueError(f"exchange_bytes is {number}, and must be at least 1")
                group.exchange_bytes = min(number, 1 << 62)
            group.reserve()
            yield group
        except BaseException:
            if not group.ran:
                group.leave()
            raise


class Group:
    """A communicator as the library needs it. `ran`: st_plan_run was called, so the others do not wait for this process.
    `raised`: exceptions of the operations and of handlers of signals."""

    def __init__(self, given):
        if not _library.HAS_STORES:
            raise ImportError(f"group= needs libsafetensors 0.3; {_library.path} is older")
        of = _of_mpi if hasattr(given, "Allreduce") and hasattr(given, "Alltoallv") else _of_torch
        self.rank, self.size, self._allreduce, self._alltoallv, self._reserve = of(given)
        self.exchange_bytes = 0
        self.ran = False
        self.raised: list[BaseException] = []
        self._plan: int | None = None

    def reserve(self) -> None:
        """Allocates what the operations need: a process that lacks memory inside an operation leaves the others waiting."""
        if self._reserve is not None and self.size > 1:
            least = self.size * _LEAST_FOR_EACH
            self._reserve(max(min(self.exchange_bytes or _DEFAULT_EXCHANGE, _MOST_EXCHANGE), least) // 3)

    def check(self) -> None:
        """Raises the exception of a signal that came before the run."""
        if self.raised:
            raise self.raised[0]

    def stop(self) -> None:
        """Cancels the run, if there is one."""
        if self._plan is not None:
            quick.st_plan_cancel(self._plan)

    @contextlib.contextmanager
    def running(self, options, plan: int):
        """A context for st_plan_run with these options."""
        described = self._described(options)
        self._plan = plan
        try:
            self.check()  # from here on, a signal cancels the run
            self.ran = True
            yield described
        finally:
            self._plan = None

    def leave(self) -> None:
        """Reports to the other processes that this one has failed."""
        options, error = _library.new(_library.GroupReadOptions), _library.new(_library.Error)
        described = self._described(options)
        count = len(self.raised)
        self.ran = True
        st.st_plan_run(None, byref(options), byref(error))
        # The caller already has an exception to raise, which says more than errors of the operations.
        self.raised[count:] = [problem for problem in self.raised[count:] if not isinstance(problem, Exception)]
        del described  # the library is done with it

    def _described(self, options):
        """Sets the options to this group. They are valid while the returned object exists."""
        def tried(operation):
            def call(_, *arguments) -> int:
                try:
                    operation(*arguments)
                    return 0
                except BaseException as problem:
                    self.raised.append(problem)
                    return 1
            return call

        described = _library.new(_library.Group, rank=self.rank, size=self.size,
                                 allreduce=_library.ALLREDUCE(tried(self._allreduce)),
                                 alltoallv=_library.ALLTOALLV(tried(self._exchange)))
        options.group, options.exchange_bytes = addressof(described), self.exchange_bytes
        return described

    def _exchange(self, send: int | None, send_counts: int, send_offsets: int, recv: int | None, recv_counts: int,
                  recv_offsets: int) -> None:
        counts, offsets = self._integers(send_counts), self._integers(send_offsets)
        counts_back, offsets_back = self._integers(recv_counts), self._integers(recv_offsets)
        self._alltoallv(_memory(send, counts, offsets), counts, offsets,
                        _memory(recv, counts_back, offsets_back), counts_back, offsets_back)

    def _integers(self, address: int) -> list[int]:
        return (c_int32 * self.size).from_address(address)[:]


def _memory(address: int | None, counts: list[int], offsets: list[int]):
    """Returns the memory of messages as a buffer that is not empty."""
    size = max(map(sum, zip(counts, offsets)))
    return (c_uint8 * size).from_address(address or 0) if size > 0 else bytearray(1)


def _of_mpi(comm) -> tuple:
    from mpi4py import MPI
    if comm.Is_inter():
        raise ValueError("group is an intercommunicator; merge it")
    operations = {_library.REDUCE_SUM: MPI.SUM, _library.REDUCE_MIN: MPI.MIN, _library.REDUCE_MAX: MPI.MAX}

    def allreduce(operation: int, values: int, n: int) -> None:
        comm.Allreduce(MPI.IN_PLACE, [(c_uint64 * n).from_address(values), n, MPI.UINT64_T], operations[operation])

    def alltoallv(send, counts: list[int], offsets: list[int], recv, counts_back: list[int],
                  offsets_back: list[int]) -> None:
        comm.Alltoallv([send, counts, offsets, MPI.BYTE], [recv, counts_back, offsets_back, MPI.BYTE])

    return comm.Get_rank(), comm.Get_size(), allreduce, alltoallv, None


def _of_torch(group) -> tuple:
    dist = getattr(sys.modules.get("torch"), "distributed", None)
    if dist is None or not dist.is_available():
        raise _none_of_ours(group)
    if group is dist.GroupMember.NON_GROUP_MEMBER:  # what new_group returns there
        raise ValueError("group: this process is not in it")
    if group is not True and not isinstance(group, dist.ProcessGroup):
        raise _none_of_ours(group)
    if not dist.is_initialized():
        raise ValueError("group: torch.distributed is not initialized; call init_process_group")
    if group is True:
        group = dist.group.WORLD
    if dist.get_backend(group) == "nccl":
        raise ValueError("group: NCCL cannot send host memory; make a second group of the same processes with "
                         'torch.distributed.new_group(backend="gloo")')
    import torch
    operations = {_library.REDUCE_SUM: dist.ReduceOp.SUM, _library.REDUCE_MIN: dist.ReduceOp.MIN,
                  _library.REDUCE_MAX: dist.ReduceOp.MAX}

    scratch = torch.empty(0, dtype=torch.uint8, device="cpu")

    def reserve(size: int) -> None:
        nonlocal scratch
        scratch = torch.empty(size, dtype=torch.uint8, device="cpu")  # pages are allocated when they are first used

    def allreduce(operation: int, values: int, n: int) -> None:
        # With the highest bit flipped, signed numbers have the order of the unsigned ones. Sums need no change.
        signed = torch.frombuffer((c_uint64 * n).from_address(values), dtype=torch.int64)
        flipped = 0 if operation == _library.REDUCE_SUM else _library.INT64_MIN
        signed ^= flipped
        dist.all_reduce(signed, op=operations[operation], group=group)
        signed ^= flipped

    def alltoallv(send, counts: list[int], offsets: list[int], recv, counts_back: list[int], _: list[int]) -> None:
        given = torch.frombuffer(send, dtype=torch.uint8)
        ends = list(accumulate(counts))
        if any(count and offset + count != end for count, offset, end in zip(counts, offsets, ends)):
            # all_to_all_single takes messages that follow one another.
            packed = scratch if len(scratch) >= ends[-1] else torch.empty(ends[-1], dtype=torch.uint8, device="cpu")
            for count, offset, end in zip(counts, offsets, ends):
                packed[end - count:end] = given[offset:offset + count]
            given = packed
        dist.all_to_all_single(torch.frombuffer(recv, dtype=torch.uint8)[:sum(counts_back)], given[:ends[-1]], counts_back,
                               counts, group=group)

    return dist.get_rank(group), dist.get_world_size(group), allreduce, alltoallv, reserve


def _none_of_ours(given) -> TypeError:
    return TypeError(f"group: '{type(given).__name__}' object is neither a communicator of mpi4py nor a group of "
                     "torch.distributed")
