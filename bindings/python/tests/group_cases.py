"""What each process of a group does for test_group.py, which starts it:

    group_cases.py mpi FOLDER                by mpiexec
    group_cases.py torch FOLDER RANK SIZE    with gloo

It writes FOLDER/result.RANK.

For threads in the place of processes, test_group.py calls `run` itself.
SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import faulthandler
import importlib.util
import io
import json
import os
import signal
import sys
import threading
import time
import traceback

import numpy as np

from safetensors_c import SafetensorError, safe_open
from safetensors_c import numpy as mine

EXCHANGE = 1 << 20  # so that the large tensor takes several rounds
ROWS, COLUMNS = 1200, 1024


def write(folder) -> None:
    """A file, and the same tensors in two shards."""
    random = np.random.default_rng(7)
    tensors = {"w": random.random((ROWS, COLUMNS), np.float32), "b": np.arange(70, dtype=np.int64).reshape(7, 10),
               "small": random.integers(0, 2, 5).astype(bool), "none": np.zeros((0, 3), np.float16),
               "scalar": np.float64(3.5).reshape(()), "h": random.random((64, 3, 5)).astype(np.float16)}
    mine.save_file(tensors, folder / "m.safetensors")
    (folder / "model").mkdir()
    shards = {"1.safetensors": ["w", "none"], "2.safetensors": ["b", "small", "scalar", "h"]}
    for shard, names in shards.items():
        mine.save_file({name: tensors[name] for name in names}, folder / "model" / shard)
    (folder / "model" / "model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {}, "weight_map": {name: shard for shard, names in shards.items() for name in names}}))


class Process:
    """A process of a group, and how it loads: by numpy or torch, from one file or from shards."""

    def __init__(self, group, rank, size, folder, load_file, load_sharded, framework, failing):
        self.group, self.rank, self.size, self.framework = group, rank, size, framework
        self.load_file, self.load_sharded, self.failing = load_file, load_sharded, failing
        self.file, self.model = os.path.join(folder, "m.safetensors"), os.path.join(folder, "model")
        self.results = {"rank": rank}

    def share(self, n):
        return slice(n * self.rank // self.size, n * (self.rank + 1) // self.size)

    def load(self, plan, source=None, **options):
        return self.load_sharded(source or self.file, plan, group=self.group, **{"exchange_bytes": EXCHANGE, **options})

    def check(self, plan, **options):
        """Compares with what get_slice of the reference gives, where it is installed."""
        found = self.load(plan, **options)
        assert list(found) == list(plan)
        package = "safetensors" if importlib.util.find_spec("safetensors") else "safetensors_c"
        with importlib.import_module(package).safe_open(self.file, self.framework) as file:
            for name, index in plan.items():
                wanted = file.get_tensor(name) if index is None else file.get_slice(name)[index]
                same(found[name], wanted, name)

    def expect(self, failing, exception, others, call):
        """Runs call(whether it is to fail). `exception` is of the process `failing`, `others` the status of the others."""
        if self.rank == failing:
            try:
                call(True)
            except exception:
                return
            raise AssertionError(f"no {exception}")
        try:
            call(False)
        except SafetensorError as error:
            assert error.status == others and f"process {failing} of the group" in str(error), error
            return
        raise AssertionError(f"process {failing} failed, and this one has not")


def same(found, wanted, name):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (name, found, wanted)
    assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes(), name


# ---- cases ----------------------------------------------------------------------------------------------------------------

def whole_file(self):
    found = self.load_file(self.file, group=self.group, exchange_bytes=EXCHANGE)
    for name, tensor in mine.load_file(self.file).items():
        same(np.asarray(found[name]), tensor, name)
    assert len(found) == 6 and all(np.asarray(tensor).flags.writeable for tensor in found.values())


def replicated(self):
    self.check(dict.fromkeys(["b", "w", "scalar", "none", "small", "h"]))
    assert np.asarray(self.load({"w": ...})["w"]).nbytes == ROWS * COLUMNS * 4


def columns(self):
    self.check({"w": (slice(None), self.share(COLUMNS)), "b": (slice(None), slice(1, 10, 3)), "h": (..., slice(2, 4))})


def rows(self):
    self.check({"h": self.share(64), "w": self.share(ROWS), "b": self.rank % 7})
    self.check({"h": (self.share(64), 1), "b": slice(self.rank % 7, 7), "w": slice(0, ROWS, self.size)}, threads=1)


def disjoint(self):
    names = ["w", "b", "small", "h"]
    self.check({name: None for name in names[self.rank::self.size]})


def nothing_in_most(self):
    self.check({"w": None} if self.rank == self.size - 1 else {})


def backwards(self):
    found = self.load({"b": (slice(None, None, -1), slice(0, 10, 2))})["b"]
    assert np.array_equal(found, np.arange(70).reshape(7, 10)[::-1, ::2])


def shards(self):
    plan = {"w": (slice(None), self.share(COLUMNS)), "b": None, "h": self.share(64)}
    wanted = self.load(plan)
    for name, tensor in self.load(plan, self.model).items():
        same(tensor, wanted[name], name)


class Counted(io.BytesIO):
    count = 0

    def read(self, size=-1):
        found = super().read(size)
        self.count += len(found)
        return found

    def readinto(self, place):
        size = super().readinto(place)
        self.count += size
        return size


def bytes_are_read_once(self):
    with open(self.file, "rb") as file:
        source = Counted(file.read())
    self.load(None, source)
    self.results["read"] = source.count


def errors_before_the_run(self):
    last = self.size - 1
    for plan in ({"nothing": None}, {"w": None, "b": (1, 2, 3)}, {"b": 99}, {5: None}):
        self.expect(last, (SafetensorError, IndexError, TypeError), "ST_ERR_PEER",
                    lambda fails, plan=plan: self.load(plan if fails else {"w": None}))
    self.expect(0, FileNotFoundError, "ST_ERR_PEER",
                lambda fails: self.load_file(self.file + ("x" if fails else ""), group=self.group))
    self.expect(last, ValueError, "ST_ERR_PEER", lambda fails: self.load({"w": None}, threads=0 if fails else 2))
    self.expect(0, ValueError, "ST_ERR_PEER", lambda fails: self.load({"w": None}, exchange_bytes=0 if fails else EXCHANGE))
    self.check({"w": None})


def message_names_the_tensor(self):
    try:
        self.load({"b": (1, 2, 3)})
    except (SafetensorError, IndexError) as error:
        assert str(error).startswith("tensor 'b': "), error
    else:
        raise AssertionError


class Stop(Exception):
    pass


def progress_that_raises(self):
    def raising(exception):
        def progress(done, total):
            raise exception
        return progress
    for exception in (Stop, KeyboardInterrupt, SystemExit):
        for failing in {0, self.size - 1}:
            self.expect(failing, exception, "ST_ERR_CANCELLED",
                        lambda fails, raises=raising(exception): self.load({"w": None}, progress=raises if fails else None))
    seen = []
    self.load({"w": None}, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (ROWS * COLUMNS * 4,) * 2


def reads_that_fail(self):
    class Failing(io.BytesIO):
        fails = False

        def read(self, size=-1):
            if self.fails:
                raise OSError("the cable was pulled")
            return super().read(size)

        readinto = None

    class Late(dict):
        """Lets the source fail once it is open."""

        def items(self):
            source.fails = True
            return super().items()

    with open(self.file, "rb") as file:
        source = Failing(file.read())
    self.expect(0, SafetensorError, "ST_ERR_PEER", lambda fails: self.load((Late if fails else dict)(w=None), source))


def operations_that_fail(self):
    """An operation fails in all processes."""
    if self.size > 1:
        for operation in ("allreduce", "alltoallv"):
            with self.failing(self.group, operation) as group:
                try:
                    self.load_sharded(self.file, {"w": None}, group=group)
                except Exception as error:
                    assert "this operation fails" in str(error) or type(error).__name__ == "Exception", repr(error)  # MPI's
                else:
                    raise AssertionError(operation)


def interrupts(self):
    """Ctrl-C in the middle of a run: also where an exception could not be caught, before the first line of a callback."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return
    caught = {"Alarm": 0, "others": 0}

    class Alarm(BaseException):
        pass

    def handle(*_):
        raised.append(True)
        raise Alarm

    class Armed(dict):
        """The processes that do not fail would wait for one that is interrupted before it has joined them."""

        def items(self):
            signal.setitimer(signal.ITIMER_REAL, microseconds * 1e-6)
            return super().items()

    raised, before = [], signal.signal(signal.SIGALRM, handle)
    for i in range(24):
        microseconds, leaves = 1 + i * i * 80, i % 4 == 3  # leaves: without a run
        try:
            if self.rank == 0:
                self.load(Armed(nothing=None) if leaves else Armed(w=None), threads=i % 3 or None)
            else:
                time.sleep(microseconds * 1e-6 if leaves else 0)
                self.load({"w": None}, threads=i % 3 or None)
        except Alarm:
            caught["Alarm"] += 1
        except SafetensorError as error:
            assert error.status in ((None,) if self.rank == 0 else ("ST_ERR_PEER", "ST_ERR_CANCELLED")), repr(error)
            caught["others"] += 1
        finally:
            with contextlib.suppress(Alarm):
                signal.setitimer(signal.ITIMER_REAL, 0)
    assert signal.getsignal(signal.SIGALRM) is handle
    signal.signal(signal.SIGALRM, before)
    self.results["interrupts"] = caught | {"raised": len(raised)}
    assert self.rank > 0 or caught["Alarm"] > 0
    self.check({"w": None})


def handlers_run(self):
    """A handler that does not raise is called during the run, and ends nothing."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGUSR1"):
        return
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append("handler"))

    def progress(done, total):
        if not seen:
            signal.raise_signal(signal.SIGUSR1)
            seen.append("progress")
    self.load({"w": None}, progress=progress)
    signal.signal(signal.SIGUSR1, before)
    assert seen == ["handler", "progress"]


CASES = [whole_file, replicated, columns, rows, disjoint, nothing_in_most, backwards, shards, bytes_are_read_once,
         errors_before_the_run, message_names_the_tensor, progress_that_raises, reads_that_fail, operations_that_fail,
         interrupts, handlers_run]


def run(process, cases=CASES) -> dict:
    """Returns the results and what failed. A process that fails goes on, since the others do."""
    process.results["failed"] = []
    for case in cases:
        try:
            case(process)
        except BaseException:
            process.results["failed"].append(f"{case.__name__} in process {process.rank}:\n{traceback.format_exc()}")
    return process.results


# ---- processes ------------------------------------------------------------------------------------------------------------

def of_mpi(folder) -> dict:
    from mpi4py import MPI

    @contextlib.contextmanager
    def failing(comm, operation):
        class Failing(MPI.Intracomm):
            def Allreduce(self, given, values, op=None):
                super().Allreduce(given, values, MPI.OP_NULL if operation == "allreduce" else op)

            def Alltoallv(self, given, got):
                super().Alltoallv([given[0], [-1] * self.size, given[2], given[3]], got)
        yield Failing(comm)  # MPI's error handler returns an error, which mpi4py raises

    comm = MPI.COMM_WORLD
    results = run(Process(comm, comm.rank, comm.size, folder, mine.load_file, mine.load_sharded, "np", failing))
    part = comm.Split(comm.rank % 2, -comm.rank)  # in the opposite order
    results["failed"] += run(Process(part, part.rank, part.size, folder, mine.load_file, mine.load_sharded, "np", failing),
                             [replicated, columns])["failed"]
    return results


def of_torch(folder, rank, size) -> dict:
    import torch
    import torch.distributed as dist

    from safetensors_c import torch as mine_of_torch
    torch.set_num_threads(1)
    try:
        mine.load_sharded(os.path.join(folder, "m.safetensors"), {}, group=True)
    except ValueError as error:
        assert "init_process_group" in str(error)
    dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "meeting"), rank=rank, world_size=size)

    @contextlib.contextmanager
    def failing(group, operation):
        name = {"allreduce": "all_reduce", "alltoallv": "all_to_all_single"}[operation]

        def fail(*_, **__):
            raise RuntimeError("this operation fails")
        before = getattr(dist, name)
        setattr(dist, name, fail)
        try:
            yield group
        finally:
            setattr(dist, name, before)

    def run_in(group, cases=CASES, module=mine_of_torch, framework="pt"):
        of = None if group is True else group
        return run(Process(group, dist.get_rank(of), dist.get_world_size(of), folder, module.load_file, module.load_sharded,
                           framework, failing), cases)

    results = run_in(True)
    results["failed"] += run_in(True, [only_of_torch, no_nccl])["failed"]
    results["failed"] += run_in(dist.group.WORLD, [whole_file, columns, errors_before_the_run], mine, "np")["failed"]
    results["failed"] += run_in(dist.new_group(range(size)[::-1]), [replicated, columns])["failed"]
    alone = dist.new_group([size - 1])
    if rank == size - 1:
        results["failed"] += run_in(alone, [columns])["failed"]
    else:
        try:
            mine.load_sharded(os.path.join(folder, "m.safetensors"), {}, group=alone)
        except ValueError as error:
            assert "not in it" in str(error)
    dist.destroy_process_group()
    return results


def only_of_torch(self):
    """Indexes that only torch knows, and types that numpy lacks."""
    import torch

    from safetensors_c.torch import save_file
    path = f"{self.file}.{self.rank}"
    pairs = torch.arange(64, dtype=torch.uint8).reshape(8, 8)
    save_file({"f": torch.arange(64.).reshape(8, 8).to(torch.bfloat16), "q": pairs.view(torch.float4_e2m1fn_x2),
               "e": torch.arange(8.).to(torch.float8_e4m3fn)}, path)
    plan = {"f": torch.arange(8) > self.rank, "e": (None, slice(0, 99)), "q": (slice(2, 5), slice(1, 3))}
    with safe_open(path, "pt") as file:
        for rest in ({}, {"q": (3, slice(None, None, 2))}, {"q": slice(None, None, -1)}, {"q": (0, 7)}):
            for name, tensor in self.load(plan | rest, path).items():
                wanted = file.get_slice(name)[(plan | rest)[name]]
                assert tensor.dtype == wanted.dtype and torch.equal(tensor.view(torch.uint8), wanted.view(torch.uint8)), name
    self.expect(0, IndexError, "ST_ERR_PEER",
                lambda fails: self.load({"f": torch.arange(9 if fails else 8) > 1}, path))
    os.remove(path)


def no_nccl(self):
    import torch.distributed as dist
    before, dist.get_backend = dist.get_backend, lambda group: "nccl"
    try:
        self.load({})
    except ValueError as error:
        assert 'new_group(backend="gloo")' in str(error)
    else:
        raise AssertionError
    finally:
        dist.get_backend = before


if __name__ == "__main__":
    faulthandler.dump_traceback_later(450)
    kind, where, *of = sys.argv[1:]
    found = of_mpi(where) if kind == "mpi" else of_torch(where, *map(int, of))
    with open(os.path.join(where, f"result.{found['rank']}"), "w") as file:
        json.dump(found, file)
