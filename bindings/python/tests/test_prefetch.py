"""What release 0.9 of the reference adds. Where there is no GPU, tensors are loaded to the CPU behind the same thread.

SPDX-License-Identifier: Apache-2.0
"""
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy
import pytest

import safetensors_c.numpy
from safetensors_c import _prefetch


@pytest.fixture
def file(path):
    safetensors_c.numpy.save_file({f"t{i}": numpy.arange(6, dtype=kind).reshape(3, 2) * i
                                   for i, kind in enumerate(("f4", "i8", "u1", "f2"))}, path)
    return path


class Maker:
    """Makes tensors that tell what they are; after `fail_at` of them it fails."""

    def __init__(self, fail_at=99):
        self.gate, self.made, self.fail_at = threading.Semaphore(0), 0, fail_at

    def several(self, file, tensors, threads):
        return [self.slice(file, tensor, None) for tensor in tensors]

    def slice(self, _, tensor, rows):
        assert self.gate.acquire(timeout=60)
        self.made += 1
        if self.made > self.fail_at:
            raise OSError("the disk is gone")
        return SimpleNamespace(name=tensor.name, rows=rows, is_cuda=False)


def loader(path, maker, rows=slice(0, 1)):
    opened = safetensors_c.safe_open(path, "np")._file
    return _prefetch.start(opened, maker, [(row, rows) for row in opened.table.rows()], 2)


def test_entries_of_the_header(file):
    with open(file, "rb") as raw:
        header = json.loads(raw.read(int.from_bytes(raw.read(8), "little")))
    for backend in ("mmap", "pread"):
        with safetensors_c.safe_open(file, "np", backend=backend) as f:
            for name, entry in header.items():
                meta = f.get_tensor_meta(name)
                assert (meta.dtype, meta.shape, list(meta.data_offsets)) == (entry["dtype"], entry["shape"], entry["data_offsets"])
            assert repr(f.get_tensor_meta("t0")) == "TensorMeta(dtype='F32', shape=[3, 2], data_offsets=(48, 72))"
            with pytest.raises(safetensors_c.SafetensorError, match="File does not contain tensor nope"):
                f.get_tensor_meta("nope")
            with pytest.raises(TypeError):
                f.get_tensor_meta(0)
    with pytest.raises(safetensors_c.SafetensorError, match="File is closed"):
        f.get_tensor_meta("t0")


def test_entries_of_shards_count_from_their_own_file(tmp_path):
    for shard in "ab":
        safetensors_c.numpy.save_file({shard: numpy.zeros(2, "f4"), shard * 2: numpy.zeros(3, "f4")}, tmp_path / f"{shard}.safetensors")
    names = {"a": "a", "aa": "a", "b": "b", "bb": "b"}
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {name: f"{shard}.safetensors" for name, shard in names.items()}}))
    with safetensors_c.safe_open(tmp_path, "np") as f:
        assert {name: f.get_tensor_meta(name).data_offsets for name in names} == {
            "a": (0, 8), "aa": (8, 20), "b": (0, 8), "bb": (8, 20)}
        table, looked = f._file.table, []

        class Watched(list):
            def index(self, *arguments):
                looked.append(arguments)
                return super().index(*arguments)

            def __iter__(self):
                looked.append(())
                return super().__iter__()

        table.shards, table._firsts = Watched(table.shards), None
        for name in names:
            f.get_tensor_meta(name)
        assert len(looked) == 1  # not once for each tensor


def test_each_tensor_is_handed_out_once(file):
    maker = Maker()
    with loader(file, maker) as loading:
        order = loading.names()
        assert len(loading) == 4 and sorted(order) == ["t0", "t1", "t2", "t3"]
        maker.gate.release(2)
        assert loading.take(order[1]).name == order[1]
        with pytest.raises(safetensors_c.SafetensorError, match="already delivered"):
            loading.take(order[1])
        with pytest.raises(safetensors_c.SafetensorError, match="not in the prefetch plan"):
            loading.take("nope")
        maker.gate.release(2)
        assert [name for name, _ in loading] == [order[0], *order[2:]]
        assert dict(loading) == {}


def test_tensors_come_before_the_whole_load_is_done(file):
    maker = Maker()
    with loader(file, maker) as loading:
        stream = iter(loading)
        maker.gate.release()
        assert next(stream)[0] == loading.names()[0] and maker.made == 1
        loading.close()
        maker.gate.release(4)
        with pytest.raises(safetensors_c.SafetensorError, match="closed"):
            next(stream)


def test_a_failure_is_raised_for_what_was_not_loaded(file):
    maker = Maker(fail_at=2)
    maker.gate.release(4)
    with loader(file, maker) as loading:
        order = loading.names()
        assert loading.take(order[1]).name == order[1]
        with pytest.raises(safetensors_c.SafetensorError, match=f"{order[3]}: the disk is gone") as raised:
            loading.take(order[3])
        assert isinstance(raised.value.__cause__, OSError)


def test_a_loader_that_is_dropped_ends_its_thread(file):
    maker = Maker()
    loading = loader(file, maker)
    thread, = (thread for thread in threading.enumerate() if thread.name == "safetensors prefetch")
    del loading
    gc.collect()
    maker.gate.release()  # of the tensor that it waits for
    thread.join(60)
    assert not thread.is_alive() and maker.made <= 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_the_thread_of_its_parent(file):
    maker = Maker()
    loading = loader(file, maker)
    with loading._work.changed:  # as the thread may hold it
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                loading.take("t0")
            except safetensors_c.SafetensorError as error:
                loading.close()
                os._exit("before a fork" not in str(error))
            finally:
                os._exit(2)
    maker.gate.release(4)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(loading)) == 4


def test_whole_tensors_are_loaded_in_groups(file, monkeypatch):
    groups = []
    monkeypatch.setattr(Maker, "several", lambda self, file, tensors, threads: [
        SimpleNamespace(name=tensor.name, is_cuda=False) for tensor in tensors if not groups.append((len(tensors), threads))])
    monkeypatch.setattr(_prefetch, "_GROUP", 64)
    with loader(file, Maker(), rows=None) as loading:
        assert [name for name, _ in loading] == loading.names()
    assert [size for size, _ in groups] == [1, 3, 3, 3] and {threads for _, threads in groups} == {2}


PLANS = [
    ({"nope": None}, "does not contain"),
    ({3: None}, "keys must be tensor names"),
    ({"m": 3}, "None or a slice"),
    ({"m": slice(0, 3, 2)}, "step 1"),
    ({"m": slice(0, 3, 0)}, "invalid prefetch plan slice"),
    ({"m": slice(0, 10)}, "out of range"),
    ({"m": slice(-4, None)}, "out of range"),
    ({"m": slice("a", None)}, "integers or None"),
    ({"scalar": slice(0, 1)}, "0-d"),
    ({}, "selects no tensors"),
]


@pytest.fixture
def torch_file(path):
    torch = pytest.importorskip("torch")
    from safetensors_c.torch import save_file
    save_file({"m": torch.arange(12.).reshape(3, 4), "scalar": torch.tensor(2.), "b": torch.ones(5, dtype=torch.bfloat16)}, path)
    return path


@pytest.mark.parametrize("plan, message", PLANS)
def test_a_plan_is_checked_before_a_load(torch_file, plan, message):
    with safetensors_c.safe_open(torch_file, "pt", device="cuda:0") as f:
        with pytest.raises(safetensors_c.SafetensorError, match=message):
            f.prefetch(plan)


def test_what_cannot_be_prefetched(torch_file, tmp_path):
    import torch
    with safetensors_c.safe_open(torch_file, "pt") as f:
        with pytest.raises(safetensors_c.SafetensorError, match="cuda devices, not cpu"):
            f.prefetch()
        with pytest.raises(TypeError):
            f.prefetch([("m", None)], device=0)
        with pytest.raises(OverflowError):
            f.prefetch(device=0, threads=-1)
        if not torch.cuda.is_available():
            with pytest.raises(safetensors_c.SafetensorError, match="CUDA"):
                f.prefetch(device=0)
    with pytest.raises(safetensors_c.SafetensorError, match="closed"):
        f.prefetch(device=0)
    with safetensors_c.safe_open(torch_file, "np") as f, pytest.raises(safetensors_c.SafetensorError, match='framework="pt"'):
        f.prefetch(device=0)
    header = b'{"x":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}'
    (tmp_path / "f6").write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0\0")
    with safetensors_c.safe_open(tmp_path / "f6", "pt", device=0) as f, pytest.raises(safetensors_c.SafetensorError, match="F6_E2M3"):
        f.prefetch()


def test_tensors_of_torch_and_their_rows(torch_file):
    import torch
    from safetensors_c._torch import Tensors
    with safetensors_c.safe_open(torch_file, "pt") as f:
        opened, wanted = f._file, f.get_tensors()
        parts = _prefetch._parts(opened.table, {"m": slice(-2, None), "b": None})
    with _prefetch.start(opened, Tensors("cpu", mapped=False), parts, 2) as loading:
        found = dict(loading)
    assert torch.equal(found["m"], wanted["m"][1:]) and torch.equal(found["b"], wanted["b"]) and len(found) == 2


@pytest.mark.parametrize("device", [0, "cuda", "cuda:0"])
def test_tensors_on_a_gpu(torch_file, device):
    import torch
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    with safetensors_c.safe_open(torch_file, "pt") as f:
        wanted = f.get_tensors()
        with f.prefetch({"m": slice(1, 3), "scalar": None, "b": None}, device=device) as loading:
            found = dict(loading)
    wanted["m"] = wanted["m"][1:3]
    assert {name: each.device.type for name, each in found.items()} == dict.fromkeys(wanted, "cuda")
    assert all(torch.equal(found[name].cpu(), each) for name, each in wanted.items())


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_what_is_no_error_is_raised_as_it_is(file, raised):
    maker = Maker()

    def fail(*_):
        raise raised

    maker.slice = fail
    with loader(file, maker) as loading, pytest.raises(raised):
        loading.take("t0")


def test_a_loader_ends_with_the_program(tmp_path, file):
    code = f"""
import threading
from safetensors_c import _prefetch, safe_open
class Slow:
    def slice(self, *_):
        threading.Event().wait(0.05)
        return type("Tensor", (), {{"is_cuda": False}})()
opened = safe_open({str(file)!r}, "np")._file
loading = _prefetch.start(opened, Slow(), [(row, slice(0, 1)) for row in opened.table.rows()], 1)
def take():
    try:
        for _ in loading: pass
    except Exception as error:
        print(error)
threading.Thread(target=take).start()
"""
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert "the program ends" in ran.stdout
