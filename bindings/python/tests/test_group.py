"""Loads by the processes of a group. The cases are in group_cases.py, for threads, mpi4py and torch.distributed.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import functools
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import group_cases
import numpy as np
import pytest

from safetensors_c import _group, _library
from safetensors_c import numpy as mine

if not hasattr(_library.st, "st_open_store"):
    pytest.skip("the library is older than 0.3", allow_module_level=True)
PROGRAM = str(pathlib.Path(group_cases.__file__).resolve())
SECONDS = 500  # for all cases of a group, on a slow machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("group")
    group_cases.write(made)
    return made


def results_of(folder, size, *commands) -> list:
    """Runs commands at the same time, and returns what their processes wrote. Kills all of them if they take too long."""
    for left in folder.glob("result.*"):
        left.unlink()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with open(folder / "output", "w+") as output:
        processes = [subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
                     for command in commands]
        end = time.monotonic() + SECONDS
        try:
            for process in processes:
                process.wait(end - time.monotonic())
        finally:
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            output.seek(0)
            print(output.read())
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [json.loads((folder / f"result.{rank}").read_text()) for rank in range(size)]


def checked(results: list, size: int) -> None:
    assert len(results) == size and not any(each["failed"] for each in results), "\n".join(
        text for each in results for text in each["failed"])
    data = group_cases.ROWS * group_cases.COLUMNS * 4
    assert data < sum(each["read"] for each in results) < 1.1 * data + size * 8192


# ---- threads --------------------------------------------------------------------------------------------------------------

class Team:
    """Threads that meet for each operation, as processes do."""

    def __init__(self, size):
        self.size, self.barrier, self.given = size, threading.Barrier(size, timeout=SECONDS), [None] * size

    def meet(self, rank, given, then):
        self.given[rank] = given
        self.barrier.wait()
        result = then()
        self.barrier.wait()
        return result


class Member:
    """A communicator of a thread."""

    def __init__(self, team, rank, fails=None):
        self.team, self.rank, self.fails = team, rank, fails

    def described(self):
        return self.rank, self.team.size, self._allreduce, self._alltoallv, None

    def _check(self, operation):
        if self.fails == operation:
            raise RuntimeError("this operation fails")

    def _allreduce(self, operation, values, n):
        self._check("allreduce")
        mine = np.ctypeslib.as_array((_group.c_uint64 * n).from_address(values))
        combine = {_library.REDUCE_SUM: np.add, _library.REDUCE_MIN: np.minimum, _library.REDUCE_MAX: np.maximum}[operation]
        mine[:] = self.team.meet(self.rank, mine, lambda: functools.reduce(combine, self.team.given))

    def _alltoallv(self, send, counts, offsets, recv, counts_back, offsets_back):
        self._check("alltoallv")

        def receive():
            for rank, (data, its_counts, its_offsets) in enumerate(self.team.given):
                count, begin, to = its_counts[self.rank], its_offsets[self.rank], offsets_back[rank]
                assert count == counts_back[rank]
                if count:
                    memoryview(recv).cast("B")[to:to + count] = memoryview(data).cast("B")[begin:begin + count]
        self.team.meet(self.rank, (send, counts, offsets), receive)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_threads(folder, monkeypatch, size):
    monkeypatch.setattr(_group, "_of_torch", Member.described)
    team, results = Team(size), []

    def process(rank):
        results.append(group_cases.run(group_cases.Process(
            Member(team, rank), rank, size, str(folder), mine.load_file, mine.load_sharded, "np",
            lambda member, operation: contextlib.nullcontext(Member(team, member.rank, operation)))))
    threads = [threading.Thread(target=process, args=[rank], daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    checked(results, size)


# ---- processes ------------------------------------------------------------------------------------------------------------

@functools.cache
def mpiexec() -> tuple:
    """The mpiexec of the MPI that mpi4py has found, with its options; empty if there is none."""
    probe = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    for name in ("mpiexec", "mpiexec.mpich", "mpiexec.openmpi"):
        for options in ((), ("--allow-run-as-root", "--oversubscribe")):  # Open MPI
            if shutil.which(name):
                found = subprocess.run([name, *options, "-n", "3", sys.executable, "-c", probe], capture_output=True,
                                       text=True, timeout=SECONDS)
                if found.returncode == 0 and "".join(found.stdout.split()) == "333":
                    return (name, *options)
    return ()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_mpi(folder, size):
    pytest.importorskip("mpi4py")
    if not mpiexec():
        pytest.skip("needs the mpiexec of mpi4py's MPI")
    checked(results_of(folder, size, [*mpiexec(), "-n", str(size), sys.executable, PROGRAM, "mpi", str(folder)]), size)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_torch(folder, size):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    import torch.distributed as dist
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("needs torch.distributed with gloo")
    (folder / "meeting").unlink(missing_ok=True)
    commands = [[sys.executable, PROGRAM, "torch", str(folder), str(rank), str(size)] for rank in range(size)]
    checked(results_of(folder, size, *commands), size)


# ---- without a group ------------------------------------------------------------------------------------------------------

def test_without_a_group(folder):
    path = folder / "m.safetensors"
    found = mine.load_sharded(path, {"h": (slice(None), 1), "b": slice(2, 4), "w": None}, threads=2)
    whole = mine.load_file(path)
    assert list(found) == ["h", "b", "w"] and np.array_equal(found["h"], whole["h"][:, 1])
    assert np.array_equal(found["b"], whole["b"][2:4]) and np.array_equal(found["w"], whole["w"])
    assert mine.load_sharded(path, {}) == {} and mine.load_sharded(path, None).keys() == whole.keys()
    with pytest.raises(TypeError, match="plan"):
        mine.load_sharded(path, ["b"])


def test_what_is_no_group(folder):
    for given in ("world", 0, False, object()):
        with pytest.raises(TypeError, match="neither a communicator"):
            mine.load_file(folder / "m.safetensors", group=given)


def test_library_without_groups(folder, monkeypatch):
    monkeypatch.setattr(_library, "HAS_STORES", False)
    with pytest.raises(ImportError, match="group= needs libsafetensors 0.3"):
        mine.load_file(folder / "m.safetensors", group=object())
