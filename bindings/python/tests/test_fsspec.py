"""File objects and filesystems of fsspec.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import json
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

from safetensors_c import _source
from safetensors_c import numpy as mine
from safetensors_c import safe_open

fsspec = pytest.importorskip("fsspec")
asyn = pytest.importorskip("fsspec.asyn")
dirfs = pytest.importorskip("fsspec.implementations.dirfs")
spec = pytest.importorskip("fsspec.spec")

MIB = 1 << 20
ARRAYS = {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.ones(1000, np.int8), "c": np.zeros((0, 2))}


def check(file):
    assert file.keys() == ["a", "b", "c"]
    assert np.array_equal(file.get_slice("a")[1:, ::2], ARRAYS["a"][1:, ::2])
    for name, array in file.get_tensors().items():
        assert np.array_equal(array, ARRAYS[name]) and np.array_equal(file.get_tensor(name), array)


def shards():
    """The files of a model in shards, by name, without the index."""
    return {f"m/{i}.safetensors": mine.save({f"t{i}": np.full((100, 10), i, np.float32)}) for i in range(4)}


def below_m(fs):
    """A filesystem with the same names, without a slash in front of them."""
    return dirfs.DirFileSystem("/", fs)


INDEX = json.dumps({"weight_map": {f"t{i}": f"{i}.safetensors" for i in range(4)}}).encode()


class Files:
    """Files on a server."""

    protocol = "remote-test"
    cachable = False

    def __init__(self, files, **options):
        super().__init__(**options)
        self.files, self.ranges, self.fails = files, [], None
        self.more, self.infos = {}, 0  # what info() also says, and how often it was asked
        self.changed, self.now, self.most = threading.Condition(), 0, 0
        self.together = 0  # requests that wait for each other

    def info_of(self, path):
        path = self._strip_protocol(path)
        self.infos += 1
        if path not in self.files:
            raise FileNotFoundError(path)
        return {"name": path, "size": len(self.files[path]), "type": "file", **self.more}

    def _open(self, path, mode="rb", **options):
        return RemoteFile(self, path, mode, **options)

    def fetch(self, path, start, end):
        if self.fails:
            raise self.fails
        with self.changed:
            self.ranges.append((path, start, end))
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: len(self.ranges) >= self.together, timeout=30)
        return self.files[path][start:end]


class Remote(Files, asyn.AsyncFileSystem):
    """Requests for ranges may run at the same time."""

    async def _info(self, path, **_):
        return self.info_of(path)


class RemoteFile(spec.AbstractBufferedFile):
    DEFAULT_BLOCK_SIZE = 1 << 16  # which `read` reads ahead

    def _fetch_range(self, start, end):
        return self.fs.fetch(self.path, start, end)


class WithSize(RemoteFile):
    """A file that does not know its version, as those of HTTPFileSystem."""

    def __init__(self, fs, path, *arguments, **options):
        super().__init__(fs, path, *arguments, **options)
        self.details = {"name": path, "size": self.size, "type": "file"}


class Plain(Files, spec.AbstractFileSystem):
    """Only one thread may use it."""

    @contextlib.contextmanager
    def counted(self):
        with self.changed:
            self.now += 1
            self.most = max(self.now, self.most)
        try:
            time.sleep(0.01)  # another thread would come now
            yield
        finally:
            with self.changed:
                self.now -= 1

    def info(self, path, **_):
        with self.counted():
            return self.info_of(path)

    def fetch(self, path, start, end):
        with self.counted():
            return super().fetch(path, start, end)


@pytest.fixture
def model():
    array = np.arange(6 * MIB, dtype=np.uint8).reshape(6, MIB)
    return array, Remote({"m": mine.save({"t": array})})


def test_file_object_of_a_local_file_and_of_memory(tmp_path):
    path = str(tmp_path / "model.safetensors")
    mine.save_file(ARRAYS, path)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/tests/model.safetensors", mine.save(ARRAYS))
    try:
        for fs, name in ((fsspec.filesystem("file"), path), (memory, "/tests/model.safetensors")):
            with fs.open(name) as file, safe_open(file, "np") as opened:
                check(opened)
            with safe_open(name, "np", fs=fs) as opened:
                check(opened)
                assert opened.shards() == [name]
            assert np.array_equal(mine.load_file(name, fs=fs, threads=3)["a"], ARRAYS["a"])
    finally:
        memory.rm("/tests", recursive=True)


@pytest.mark.parametrize("how", ["file", "fs"])
def test_slice_of_a_remote_file_fetches_its_bytes_at_the_same_time(how, model, monkeypatch):
    monkeypatch.setitem(_source._PARALLEL, "chunk_bytes", MIB)
    array, fs = model
    file = fs.open("m", "rb")
    with safe_open(file, "np") if how == "file" else safe_open("m", "np", fs=fs) as opened:
        assert file.tell() == 0  # which is the caller's
        del fs.ranges[:]
        fs.together = 3
        assert np.array_equal(opened.get_slice("t")[1:5], array[1:5])
        assert sum(end - start for _, start, end in fs.ranges) == 4 * MIB
        fs.together = 0
        assert np.array_equal(opened.get_tensors()["t"], array)
        assert np.array_equal(opened.get_tensor("t"), array)


def test_torch_slice_of_a_remote_file_fetches_its_bytes(model):
    torch = pytest.importorskip("torch")
    array, fs = model
    with safe_open("m", "pt", fs=fs) as opened:
        del fs.ranges[:]
        assert torch.equal(opened.get_slice("t")[3:5], torch.from_numpy(array[3:5]))
        assert sum(end - start for _, start, end in fs.ranges) == 2 * MIB


def test_other_caches_of_fsspec_are_used(model):
    array, fs = model
    file = fs.open("m", "rb", cache_type="blockcache", block_size=MIB)
    with safe_open(file, "np") as opened:
        for _ in range(2):
            assert np.array_equal(opened.get_slice("t")[3], array[3])
    assert len(fs.ranges) == len(set(fs.ranges))


@pytest.mark.parametrize("kind", [Remote, Plain, lambda files: below_m(Remote(files)),
                                  lambda files: below_m(Plain(files))])
def test_model_in_shards(kind):
    fs = kind({**shards(), "m/model.safetensors.index.json": INDEX})
    loaded = mine.load_file("m/model.safetensors.index.json", fs=fs)
    assert {name: array[0, 0] for name, array in loaded.items()} == {f"t{i}": i for i in range(4)}
    with safe_open("m/model.safetensors.index.json", "np", fs=fs) as opened:
        assert [name.rpartition("/")[2] for name in opened.shards()] == [f"{i}.safetensors" for i in range(4)]
        assert (opened.get_slice("t2")[5:7] == 2).all()


def test_protocol_in_a_name():
    fs = Remote({**shards(), "m/model.safetensors.index.json": INDEX})
    assert len(mine.load_file("remote-test://m/model.safetensors.index.json", fs=fs)) == 4


@pytest.mark.parametrize("around", [lambda fs: fs, below_m])
def test_filesystem_for_one_thread_is_called_by_one_at_a_time(around):
    files = {f"m/{i}.safetensors": mine.save({f"t{i}": np.zeros(2 * MIB, np.uint8)}) for i in range(4)}
    fs = Plain({**files, "m/model.safetensors.index.json": INDEX})
    assert len(mine.load_file("m/model.safetensors.index.json", fs=around(fs), threads=8)) == 4
    assert fs.most == 1


def test_what_is_missing():
    fs = Remote({**shards(), "m/model.safetensors.index.json": INDEX})
    with pytest.raises(FileNotFoundError, match="m/absent"):
        safe_open("m/absent", "np", fs=fs)
    del fs.files["m/2.safetensors"]
    with pytest.raises(FileNotFoundError, match="2.safetensors"):
        safe_open("m/model.safetensors.index.json", "np", fs=fs)


@pytest.mark.parametrize("problem", [OSError("the cable was pulled"), ValueError("no")])
def test_error_of_a_filesystem_is_the_cause(model, problem):
    _, fs = model
    with safe_open("m", "np", fs=fs) as opened, safe_open(fs.open("m"), "np") as other:
        fs.fails = problem
        for read in (lambda: opened.get_slice("t")[1], opened.get_tensors, lambda: other.get_tensor("t"),
                     lambda: safe_open("m", "np", fs=fs)):
            with pytest.raises(Exception) as error:
                read()
            assert error.value.__cause__ is problem
        fs.fails = None
        assert opened.get_slice("t")[1].nbytes == MIB


@pytest.mark.parametrize("how", ["file", "file with a size", "fs"])
@pytest.mark.parametrize("key", ["ETag", "etag", "mtime", "LastModified"])
def test_file_that_changes(how, key, model):
    _, fs = model
    fs.more[key] = "1"
    file = {"file": fs.open("m"), "file with a size": WithSize(fs, "m")}.get(how)
    with safe_open(file, "np") if file else safe_open("m", "np", fs=fs) as opened:
        fs.infos = 0
        opened.get_tensors()
        opened.get_slice("t")[1]
        assert fs.infos == 2  # one for each call
        fs.more[key] = "2"
        for read in (opened.get_tensors, lambda: opened.get_tensor("t"), lambda: opened.get_slice("t")[1]):
            with pytest.raises(OSError, match="'m': the file has changed since it was opened"):
                read()
        fs.more[key] = "1"  # bytes that another thread has read meanwhile may be wrong
        with pytest.raises(OSError, match="has changed"):
            opened.get_tensors()


def test_error_of_info_is_the_cause(model, monkeypatch):
    _, fs = model
    fs.more["ETag"] = "1"
    with safe_open("m", "np", fs=fs) as opened:
        monkeypatch.setattr(fs, "info_of", lambda path: {}[path])
        for _ in range(2):
            with pytest.raises(OSError, match="whether the file has changed") as error:
                opened.get_tensor("t")
            assert isinstance(error.value.__cause__, KeyError)


def test_shard_that_changes():
    fs = Remote({**shards(), "m/model.safetensors.index.json": INDEX})
    fs.more["ETag"] = "1"
    with safe_open("m/model.safetensors.index.json", "np", fs=fs) as opened:
        opened.get_tensors()
        fs.infos = 0
        opened.get_tensor("t2")
        assert fs.infos == 1
        fs.more["ETag"] = "2"
        with pytest.raises(OSError, match="m/2.safetensors.*has changed"):
            opened.get_tensor("t2")


def test_filesystem_that_gives_only_sizes_is_not_asked(model):
    _, fs = model
    with safe_open("m", "np", fs=fs) as opened:
        fs.infos = 0
        opened.get_tensors()
        assert fs.infos == 0


@pytest.mark.parametrize("how", ["file", "fs"])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_reads_nothing(how, model):
    """The thread of fsspec that runs the requests is not there: the read would wait for ever."""
    _, fs = model
    with safe_open(fs.open("m"), "np") if how == "file" else safe_open("m", "np", fs=fs) as opened:
        del fs.ranges[:]
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            fs.together = 1 << 30  # a request would wait
            try:
                opened.get_slice("t")[1]
            except BaseException as problem:
                os._exit(0 if isinstance(problem.__cause__, RuntimeError) and "fork" in str(problem.__cause__) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_interruption_ends_the_program(model):
    _, fs = model
    with safe_open("m", "np", fs=fs) as opened:
        fs.fails = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            opened.get_slice("t")[1]


class Short(RemoteFile):
    """Returns less than it is asked for, as servers may."""

    def _fetch_range(self, start, end):
        return super()._fetch_range(start, min(end, start + 1000))


class Ended(RemoteFile):
    def _fetch_range(self, start, end):
        return b""


def test_less_than_asked_for(model):
    array, fs = model
    fs.files["m"] = mine.save(ARRAYS)
    check(safe_open(Short(fs, "m"), "np"))
    with pytest.raises(Exception) as error:
        safe_open(Ended(fs, "m"), "np")
    assert "where" in str(error.value.__cause__)


def test_values_that_are_wrong(model):
    _, fs = model
    for name, given in ((b"m", fs), (fs.open("m"), fs), (None, fs), ("m", "s3")):
        with pytest.raises(TypeError, match="fs"):
            safe_open(name, "np", fs=given)
    with pytest.raises(ValueError):
        safe_open("m\0", "np", fs=fs)


def test_filesystem_is_not_pickled(model):
    """It may contain keys of the user."""
    _, fs = model
    for opened in (safe_open("m", "np", fs=fs), safe_open(fs.open("m"), "np")):
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(opened)
