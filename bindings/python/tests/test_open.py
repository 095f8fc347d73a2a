"""What a checkpoint can be opened from, models in several files, and what an open one keeps.

SPDX-License-Identifier: Apache-2.0
"""
import gc
import io
import json
import os
import pickle
import sys
import threading

import numpy as np
import pytest
from conftest import held_alone

from safetensors_c import numpy as mine
from safetensors_c import safe_open

ARRAYS = {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.ones(1000, np.int8), "c": np.zeros((0, 2))}


@pytest.fixture
def model(path):
    mine.save_file(ARRAYS, path, {"format": "np"})
    return path


def check(file):
    assert file.keys() == ["a", "b", "c"] and file.metadata() == {"format": "np"}
    assert np.array_equal(file.get_slice("a")[1:, ::2], ARRAYS["a"][1:, ::2])
    for name, array in file.get_tensors().items():
        assert np.array_equal(array, ARRAYS[name]) and np.array_equal(file.get_tensor(name), array)


@pytest.mark.parametrize("convert", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data)), io.BytesIO])
def test_content_in_memory(model, convert):
    with open(model, "rb") as file:
        content = convert(file.read())
    with safe_open(content, "np") as opened:
        del content
        gc.collect()
        check(opened)


@pytest.mark.parametrize("buffering", [0, -1])
def test_file_object(model, buffering):
    with open(model, "rb", buffering=buffering) as file, safe_open(file, "np") as opened:
        check(opened)


def test_content_in_memory_for_torch(model):
    torch = pytest.importorskip("torch")
    with open(model, "rb") as file:
        content = file.read()
    loaded = safe_open(content, "pt").get_tensors()
    loaded["a"].fill_(7)  # an owned copy: bytes must never change
    with open(model, "rb") as file:
        assert content == file.read()
    assert torch.equal(safe_open(io.BytesIO(content), "pt").get_tensor("b"), torch.ones(1000, dtype=torch.int8))


@pytest.mark.parametrize("given", ["model.safetensors", None, 3])
def test_load_takes_bytes_and_no_path(given):
    with pytest.raises(TypeError, match="argument 'bytes'"):
        mine.load(given)


class Failing(io.BytesIO):
    fails = False

    def read(self, count=-1):
        if self.fails:
            raise RuntimeError("the cable was pulled")
        return super().read(count)


def test_failure_of_a_file_object_is_the_cause(model):
    with open(model, "rb") as file:
        source = Failing(file.read() + b"")
    opened = safe_open(source, "np")
    source.fails = True
    for read in (lambda: opened.get_tensor("b"), opened.get_tensors):
        with pytest.raises(Exception) as error:
            read()
        assert str(error.value.__cause__) == "the cable was pulled"
    with pytest.raises(Exception) as error:
        safe_open(source, "np")
    assert str(error.value.__cause__) == "the cable was pulled"


class Short(io.BytesIO):
    def read(self, count=-1):
        return super().read(min(count, 5))


class Ending(io.BytesIO):
    def seek(self, offset, whence=0):
        return super().seek(offset, whence) + (100 if whence == 2 else 0)


def test_file_object_that_reads_a_little_at_a_time(model):
    with open(model, "rb") as file:
        check(safe_open(Short(file.read()), "np"))


def test_file_object_that_ends_early(model):
    with open(model, "rb") as file, pytest.raises(Exception) as error:
        safe_open(Ending(file.read()), "np")
    assert "where" in str(error.value.__cause__)


def test_text_file_is_no_source(model):
    with open(model, encoding="latin-1") as file, pytest.raises(Exception):
        safe_open(file, "np")


def test_handle_of_an_open_file(package, np_module, path):
    np_module.save_file(ARRAYS, path)
    with open(path, "rb") as file:
        file.seek(5)
        with package._safe_open_handle(file, framework="np") as opened:
            assert opened.keys() == ["a", "b", "c"]
            assert np.array_equal(opened.get_tensor("a"), ARRAYS["a"])
        assert file.tell() == 5


@pytest.fixture
def shards(tmp_path):
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    mine.save_file({"a": ARRAYS["a"]}, tmp_path / names[0], {"format": "np"})
    mine.save_file({"b": ARRAYS["b"], "c": ARRAYS["c"]}, tmp_path / names[1], {"format": "np"})
    index = {"metadata": {}, "weight_map": {"a": names[0], "b": names[1], "c": names[1]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


@pytest.mark.parametrize("what", ["", "model.safetensors.index.json"])
def test_model_in_several_files(shards, what):
    with safe_open(shards / what, "np") as opened:
        check(opened)
        assert [os.path.basename(each) for each in opened.shards()] == [
            "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        assert opened.warnings() == []
    assert mine.load_file(shards / what).keys() == ARRAYS.keys()


def test_model_in_several_files_for_torch(shards):
    torch = pytest.importorskip("torch")
    from safetensors_c.torch import load_file
    for options in ({}, {"threads": 2}):
        loaded = load_file(shards, **options)
        assert {name: tuple(tensor.shape) for name, tensor in loaded.items()} == {"a": (3, 4), "b": (1000,), "c": (0, 2)}
        assert torch.equal(loaded["a"], torch.from_numpy(ARRAYS["a"]))


def test_model_that_lacks_a_file(shards):
    os.remove(shards / "model-00002-of-00002.safetensors")
    with pytest.raises(Exception, match="model-00002-of-00002"):
        safe_open(shards, "np")


def test_tensors_that_the_index_does_not_list(shards):
    index = json.loads((shards / "model.safetensors.index.json").read_text())
    del index["weight_map"]["c"]
    (shards / "model.safetensors.index.json").write_text(json.dumps(index))
    with safe_open(shards, "np") as opened:
        assert len(opened.warnings()) == 1 and "model-00002" in opened.warnings()[0]


def test_shapes_and_dtypes_in_one_call(model):
    with safe_open(model, "np") as opened:
        assert opened.shapes() == {"c": [0, 2], "a": [3, 4], "b": [1000]}
        assert opened.dtypes() == {"c": "F64", "a": "F32", "b": "I8"}


def test_names_with_nuls_and_of_any_script(path):
    names = ["", "\0", "a\0b", "\u96ea", "\U0001f600", "\"\\", "x" * 5000]
    mine.save_file({name: np.array(n) for n, name in enumerate(names)}, path)
    with safe_open(path, "np") as opened:
        assert opened.keys() == sorted(names)
        assert [int(opened.get_tensor(name)) for name in names] == list(range(len(names)))
    with safe_open(path, "np") as opened:  # by name without a table
        assert [int(opened.get_tensor(name)) for name in names] == list(range(len(names)))


def test_name_that_is_no_text(model):
    with safe_open(model, "np") as opened, pytest.raises(UnicodeEncodeError):
        opened.get_tensor("\ud800")


def test_getters_and_lists_give_the_same_table(model):
    from safetensors_c import _file
    if not _file._HAS_LISTS:
        pytest.skip("this library has no lists")
    file = _file.open_file(model, False)
    listed = _file.Table(file.handle)
    asked = _file.Table.__new__(_file.Table)
    asked._ask_for_each(file.handle)
    for column in ("names", "dtypes", "dims", "ends", "sizes", "handles"):
        assert list(getattr(listed, column)) == list(getattr(asked, column)), column


def test_open_files_and_memory_are_given_back(model):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))
    if os.name != "posix" or not os.path.exists("/proc/self/fd"):  # wine shows its own
        pytest.skip("needs /proc")
    gc.disable()  # nothing may wait for the collector
    try:
        safe_open(model, "np").get_tensors()
        before = descriptors()
        for _ in range(50):
            opened = safe_open(model, "np")
            opened.get_tensors(), opened.get_slice("a")[0], opened.metadata()
            with open(model, "rb") as file:
                safe_open(file, "np").get_tensors()
        del opened
        assert descriptors() <= before
    finally:
        gc.enable()


@pytest.mark.skipif(os.name != "nt", reason="needs Windows")
def test_open_file_is_given_back(model):
    opened = safe_open(model, "np")
    opened.get_tensors()
    with pytest.raises(PermissionError), held_alone(model):
        pass
    del opened
    with held_alone(model):
        pass


def test_threads_use_one_file(model):
    problems = []

    def work(opened):
        try:
            for _ in range(30):
                check(opened)
        except BaseException as problem:
            problems.append(problem)
    with safe_open(model, "np") as opened:
        threads = [threading.Thread(target=work, args=(opened,)) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert not problems


def test_file_that_is_truncated_while_it_is_open(model):
    opened = safe_open(model, "np")
    os.truncate(model, os.path.getsize(model) - 10)
    with pytest.raises(Exception, match="shorter|truncated|bytes"):
        opened.get_tensor("b")


def test_progress_is_told(model):
    seen = []
    mine.load_file(model, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1048, 1048)


def test_failure_of_a_progress_function_ends_the_load(tmp_path):
    mine.save_file({f"t{n}": np.zeros(100) for n in range(50)}, tmp_path / "m")

    def stop(done, total):
        raise KeyboardInterrupt("enough")
    with pytest.raises(KeyboardInterrupt, match="enough"):
        mine.load_file(tmp_path / "m", progress=stop, threads=1)


def test_bar(model, capsys):
    mine.load_file(model, progress=True)
    assert capsys.readouterr().err.startswith("loading [##############################] 1.05 kB of 1.05 kB, ")
    mine.load_file(model)
    assert capsys.readouterr().err == ""


def test_bar_on_a_terminal():
    from safetensors_c._progress import Bar

    class Terminal(io.StringIO):
        def isatty(self):
            return True
    stream = Terminal()
    with Bar(stream) as bar:
        bar(0, 4000)
        bar(2000, 4000)
    assert "\r" in stream.getvalue() and "[###############...............] 2.00 kB of 4.00 kB" in stream.getvalue()


class BrokenPipe(io.StringIO):
    terminal = True

    def isatty(self):
        return self.terminal

    def flush(self):
        raise BrokenPipeError(32, "Broken pipe")


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


class BrokenFile(BrokenPipe):
    terminal = False


@pytest.mark.parametrize("stream", [lambda: None, closed, BrokenPipe, BrokenFile])
def test_bar_that_cannot_be_shown_is_no_failure(model, monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream())
    mine.save_file(ARRAYS, model, progress=True)
    assert mine.load_file(model, progress=True).keys() == ARRAYS.keys()


def test_large_tensor_is_read_by_several_threads(path):
    from safetensors_c import _load
    array = np.random.default_rng(0).integers(0, 255, _load.LARGE + 7, np.uint8)
    mine.save_file({"a": array}, path)
    assert np.array_equal(safe_open(path, "np").get_tensor("a"), array)


def test_frameworks_by_every_name(package, np_module, path):
    np_module.save_file(ARRAYS, path)
    for name in ("np", "numpy"):
        assert isinstance(package.safe_open(path, framework=name).get_tensor("a"), np.ndarray)


def test_number_of_threads_is_not_cut_to_its_last_bits(model, monkeypatch):
    from safetensors_c import _library
    given, new = [], _library.new

    def watched(struct, **members):
        options = new(struct, **members)
        given.append(getattr(options, "threads", None))
        return options
    monkeypatch.setattr(_library, "new", watched)
    mine.load_file(model, threads=(1 << 32) + 1)
    assert 1024 in given and 1 not in given


def test_memory_that_is_not_contiguous_is_refused(model):
    with open(model, "rb") as file:
        content = file.read()
    for memory in (bytearray(2 * len(content)), bytes(2 * len(content))):
        with pytest.raises(ValueError, match="not contiguous"):
            safe_open(memoryview(memory)[::2], "np")


def test_list_of_tensors_is_freed(model, monkeypatch):
    from safetensors_c import _file
    if not _file._HAS_LISTS:
        pytest.skip("the library has no lists")
    made, freed = [], []
    make, free = _file.quick.st_list_tensors, _file.quick.st_tensor_list_free

    def counted(file, flags, out, error):
        status = make(file, flags, out, error)
        made.append(out._obj.value)
        return status
    monkeypatch.setattr(_file.quick, "st_list_tensors", counted)
    monkeypatch.setattr(_file.quick, "st_tensor_list_free", lambda out: (freed.append(out.value), free(out))[1])
    safe_open(model, "np").keys()
    assert made and made == freed


@pytest.mark.parametrize("name", [None, 1, b"a", ["a"], ("a",)])
@pytest.mark.parametrize("method", ["get_tensor", "get_slice"])
def test_name_of_another_type(package, model, method, name):
    with package.safe_open(model, framework="np") as file, pytest.raises(TypeError) as error:
        getattr(file, method)(name)
    given = "'None'" if name is None else f"'{type(name).__name__}' object"
    assert str(error.value) == f"argument 'name': {given} is not an instance of 'str'"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_file_object_that_reads_its_own_checkpoint_or_is_forked_does_not_hang(ours):
    python_ends("""
import io, os, threading
import numpy
from safetensors_c import safe_open
from safetensors_c.numpy import save

class Object(io.BytesIO):
    before = None
    def read(self, size=-1):
        before, self.before = self.before, None
        if before:
            before()
        return super().read(size)

data = save({"a": numpy.arange(3)})
object = Object(data)
file = safe_open(object, "np")
object.before = lambda: file.get_tensor("a")
try:
    file.get_tensor("a")
except Exception as error:
    while error.__cause__:
        error = error.__cause__
    assert "read the checkpoint" in str(error), error
else:
    assert False
assert file.get_tensor("a").tolist() == [0, 1, 2]

reading, forked = threading.Event(), threading.Event()
object.before = lambda: (reading.set(), forked.wait())
thread = threading.Thread(target=file.get_tensor, args="a")
thread.start()
reading.wait()
child = os.fork()
if child == 0:
    os._exit(file.get_tensor("a").tolist() != [0, 1, 2])
assert os.waitpid(child, 0)[1] == 0
forked.set()
thread.join()
""")


@pytest.mark.parametrize("when", ["__enter__", "__exit__"])
def test_handler_of_a_signal_reads_the_file_object_that_is_read(ours, when):
    python_ends(f"""
import io
import numpy
from safetensors_c import _source, safe_open
from safetensors_c.numpy import save
handled = []

def handler():
    if file and not handled:
        handled.append(True)
        assert file.get_tensor("b").tolist() == [7]

class Interrupted:
    def __init__(self, lock):
        self.lock = lock

    def __enter__(self):
        self.lock.__enter__()
        if {when!r} == "__enter__":
            handler()

    def __exit__(self, *error):
        if {when!r} == "__exit__":
            handler()
        return self.lock.__exit__(*error)

class Turn(_source._Turn):
    def __init__(self):
        super().__init__()
        self.lock = Interrupted(self.lock)

_source._Turn, file = Turn, None
file = safe_open(io.BytesIO(save({{"a": numpy.arange(3), "b": numpy.array([7])}})), "np")
assert file.get_tensor("a").tolist() == [0, 1, 2] and handled
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_lists_tensors_while_its_parent_does(ours, model):
    python_ends(f"""
import os, signal, threading
from safetensors_c import _file, safe_open
making, forked = threading.Event(), threading.Event()

class Slow(_file.Table):
    def __init__(self, file):
        if threading.current_thread() is not threading.main_thread():
            making.set()
            forked.wait()
        super().__init__(file)

_file.Table, first = Slow, safe_open({model!r}, "np")
thread = threading.Thread(target=first.keys)
thread.start()
making.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(not safe_open({model!r}, "np").keys())
forked.set()
thread.join()
assert os.waitpid(child, 0)[1] == 0
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_file_object_with_a_descriptor_is_not_read_after_a_fork(ours, model):
    with open(model, "rb") as opened:
        file = safe_open(opened, "np")
        name = file.keys()[0]
        child = os.fork()
        if child == 0:
            try:
                file.get_tensor(name)
            except Exception as error:
                while error.__cause__:
                    error = error.__cause__
                os._exit("before a fork" not in str(error))
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        file.get_tensor(name)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("ask", ["f.get_tensor('a')", "f.get_slice('a')[:]", "f.keys()", "f.dtypes()", "f.shapes()"])
def test_finalizers_in_a_cycle_may_still_read(ours, ask, backend):
    python_ends(f"""
import gc, os, sys, tempfile
import numpy
from safetensors_c import safe_open
from safetensors_c.numpy import save_file

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x.safetensors")
    save_file({{"a": numpy.arange(3), "b": numpy.ones(5)}}, path)
    seen = []

    class Owner:
        def __init__(self, f):
            self.f, self.me = f, self
        def __del__(self):
            f = self.f
            seen.append({ask})

    for _ in range(20):
        Owner(safe_open(path, "np", backend={backend!r}))
        gc.collect()
    assert len(seen) == 20
    assert str(seen[-1]) == str((lambda f: {ask})(safe_open(path, "np"))), seen[-1]
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) < 20
""")


def test_a_file_object_that_refers_to_its_checkpoint_is_collected(ours, model):
    import gc
    import io
    import weakref

    class Object(io.BytesIO):
        pass

    with open(model, "rb") as file:
        source = Object(file.read())
    source.checkpoint = safe_open(source, "np")
    source.checkpoint.keys()
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is None


def test_threads_that_read_one_file_object_get_their_own_errors(ours):
    python_ends("""
import io, sys, threading
import numpy
from safetensors_c import safe_open
from safetensors_c.numpy import save

sys.setswitchinterval(1e-6)
data = save({"bad": numpy.arange(50), "good": numpy.arange(60)})
at = data.index(numpy.arange(60).tobytes())

class Object(io.BytesIO):
    begun = False
    def read(self, size=-1):
        if self.begun and size == 400:
            raise OSError("bad sector")
        return super().read(size)

object = Object(data)
file = safe_open(object, "np", backend="pread")
file.keys()
object.begun = True
wrong = []

def good():
    for _ in range(2000):
        try:
            if file.get_tensor("good").size != 60:
                wrong.append("size")
        except BaseException as error:
            wrong.append(repr(error))

def bad():
    for _ in range(2000):
        try:
            file.get_tensor("bad")
            wrong.append("no error")
        except Exception as error:
            if "bad sector" not in str(error) + str(error.__cause__):
                wrong.append(repr(error))

threads = [threading.Thread(target=each) for each in (good, bad, good, bad)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong[:3]
""")


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no working directory")
def test_path_in_a_working_directory_that_is_gone(ours, model, tmp_path):
    python_ends(f"""
import os, shutil
from safetensors_c import safe_open
os.mkdir({str(tmp_path / "a")!r})
shutil.copy({str(model)!r}, {str(tmp_path / "x.safetensors")!r})
os.chdir({str(tmp_path / "a")!r})
os.rmdir({str(tmp_path / "a")!r})
try:
    os.stat("../x.safetensors")
except OSError:
    pass
else:
    safe_open("../x.safetensors", "np").keys()
""")


def python_ends(code):
    """Runs a program that hangs without the fix, which then fails by its limit."""
    import subprocess
    import sys
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


def anonymous(path):
    """The private bytes of the mappings of a file, and how many mappings there are."""
    size = count = 0
    of = False
    with open("/proc/self/smaps", encoding="utf-8") as file:
        for line in file:
            if "-" in line.split(" ")[0]:
                of = line.rstrip().endswith(path)
                count += of
            elif of and line.startswith("Anonymous:"):
                size += int(line.split()[1]) << 10
    return size, count


@pytest.mark.skipif(sys.platform != "linux", reason="needs smaps of Linux")
def test_pages_of_a_mapping_become_anonymous_when_they_are_pinned(ours, path):
    from safetensors_c import _file, _library
    from safetensors_c.numpy import save_file
    size = 4 << 20
    save_file({"a": np.ones(size, "u1")}, path)
    path = os.path.realpath(path)
    file = _file.File(path, _library.IO_COPY)
    region, offset = file.region(file.find("a"))
    sum(region[offset:offset + size:4096])
    private, mappings = anonymous(path)
    assert private == 0 and mappings  # only read
    for at in range(offset, offset + size, 4096):
        region[at] = 1  # a pin for writing does the same to the page
    assert anonymous(path)[0] >= size
    del file, region
    read = _file.File(path, _library.IO_READ)
    assert read.region(read.find("a")) is None and anonymous(path) == (0, 0)


@pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")
def test_copy_opens_the_same_file_behind_a_symbolic_link(tmp_path, monkeypatch):
    for folder in ("elsewhere/folder", "here"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("elsewhere", "here"):
        mine.save_file({folder: np.ones(1)}, tmp_path / folder / "m")
    (tmp_path / "here" / "link").symlink_to("../elsewhere/folder")
    monkeypatch.chdir(tmp_path / "here")
    opened = safe_open("link/../m", "np")
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(pickle.dumps(opened)).keys() == opened.keys() == ["elsewhere"]


class Long(bytes):
    """Bytes that overstate their number."""

    def __len__(self):
        return 1 << 20


def test_bytes_that_overstate_their_number_are_not_read_past_their_end(model):
    with open(model, "rb") as file:
        content = file.read()
    check(safe_open(Long(content), "np"))

    class Source(io.BytesIO):
        def read(self, count=-1):
            return Long(super().read(min(count, 5)))
    check(safe_open(Source(content), "np"))
    with pytest.raises(Exception, match="truncated|header|length"):
        safe_open(Long(content[:-1]), "np")
