"""What is wrong with a file, in words that begin as those of the reference.

SPDX-License-Identifier: Apache-2.0
"""
import copy
import os
import pickle

import numpy
import pytest
from conftest import held_alone


def file_of(header, data=b"", length=None):
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


F32 = b'{"a":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]}}'
BAD = {
    "nothing": (b"", "header too small"),
    "seven bytes": (b"1234567", "header too small"),
    "a length beyond the limit": (b"\xff" * 20, "header too large"),
    "a header that is cut off": (file_of(b"{}", length=20), "invalid header length"),
    "no JSON": (file_of(b"{bad"), "invalid JSON in header"),
    "a list": (file_of(b"[]"), "invalid JSON in header"),
    "metadata with a number": (file_of(b'{"__metadata__":{"a":3}}'), "invalid JSON in header"),
    "no UTF-8": (file_of(b"\xff\xff"), "invalid UTF-8 in header"),
    "a byte too much": (file_of(b"{}", b"x"), "incomplete metadata, file not fully covered"),
    "a byte too little": (file_of(F32 % (b"1", 0, 4), b"123"), "incomplete metadata, file not fully covered"),
    "a shape of another size": (file_of(F32 % (b"2", 0, 4), b"1234"), "invalid shape, data type, or offset for tensor"),
    "an unknown dtype": (file_of(b'{"a":{"dtype":"XX","shape":[1],"data_offsets":[0,4]}}', b"1234"),
                         "invalid JSON in header: unknown variant `XX`"),
    "a hole": (file_of(F32 % (b"1", 4, 8), b"12345678"), "invalid offset for tensor `a`"),
    "a size beyond 64 bits": (file_of(F32 % (b"9223372036854775807,4", 0, 4), b"1234"),
                              "overflow computing buffer size from shape and/or element type"),
    "half a byte": (file_of(b'{"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}}', b"1"),
                    "The slice is slicing for subbytes dtypes"),
}


@pytest.mark.parametrize("content, message", BAD.values(), ids=BAD.keys())
def test_bad_file(package, path, content, message):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(package.SafetensorError) as error:
        package.safe_open(path, framework="np")
    assert str(error.value).startswith("Error while deserializing header: " + message)


@pytest.mark.parametrize("content, message", BAD.values(), ids=BAD.keys())
def test_bad_bytes(package, content, message):
    with pytest.raises(package.SafetensorError) as error:
        package.deserialize(content)
    assert str(error.value).startswith("Error while deserializing: " + message)


def test_error_names_the_file_the_place_and_the_rule(ours, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # of a long path the message has the beginning only
    path = "model.safetensors"
    with open(path, "wb") as file:
        file.write(BAD["a shape of another size"][0])
    with pytest.raises(ours.SafetensorError) as error:
        ours.safe_open(path, framework="np")
    assert error.value.status == "ST_ERR_TENSOR_SIZE"
    assert path in str(error.value) and "F32 [2] needs 8 bytes, but offsets 0..4 span 4" in str(error.value)


def test_missing_file(package):
    with pytest.raises(FileNotFoundError) as error:
        package.safe_open("not/here", framework="np")
    assert str(error.value) == "No such file or directory: not/here"


@pytest.mark.parametrize("arguments, keywords, problem, message", [
    (("zz",), {}, "SafetensorError", "framework zz is invalid"),
    ((3,), {}, TypeError, "argument 'framework'"),
    (("np", "zz"), {}, "SafetensorError", "device zz is invalid"),
    (("np", "cuda"), {}, "SafetensorError", "Device cuda:0 is not supported for framework numpy"),
    (("np", 1), {}, "SafetensorError", "Device 1 is not supported for framework numpy"),
    (("np", -1), {}, "SafetensorError", "device -1 is invalid"),
    (("pt", "mps:1"), {}, "SafetensorError", "device mps:1 is invalid: only mps or mps:0 is supported"),
    (("pt", "cuda:1:2"), {}, "SafetensorError", "device cuda:1:2 is invalid"),
    (("pt", "cuda:x"), {}, ValueError, "invalid digit found in string"),
    (("pt", "cuda:-1"), {}, ValueError, "invalid digit found in string"),
    (("pt", "cuda: 1"), {}, ValueError, "invalid digit found in string"),
    (("pt", "cuda:1_0"), {}, ValueError, "invalid digit found in string"),
    (("pt", "cuda:"), {}, ValueError, "cannot parse integer from empty string"),
    (("pt", "cuda:99999999999999999999"), {}, ValueError, "number too large to fit in target type"),
    (("np", 1 << 70), {}, "SafetensorError", "device 1180591620717411303424 is invalid"),
    (("np", True), {}, "SafetensorError", "Device 1 is not supported for framework numpy"),
    (("np", numpy.int64(2)), {}, "SafetensorError", "Device 2 is not supported for framework numpy"),
    (("np",), {"backend": "x"}, "SafetensorError", 'backend "x" is invalid'),
    (("np",), {"backend": 3}, TypeError, "argument 'backend'"),
    ((), {}, TypeError, "framework"),
])
def test_wrong_arguments(package, np_module, path, arguments, keywords, problem, message):
    np_module.save_file({}, path)
    kind = getattr(package, problem) if isinstance(problem, str) else problem
    with pytest.raises(kind) as error:
        package.safe_open(path, *arguments, **keywords)
    assert message in str(error.value)


@pytest.mark.parametrize("filename", [3, None, 1.5, []])
def test_what_is_no_file(package, filename):
    with pytest.raises(TypeError):
        package.safe_open(filename, framework="np")


def test_absent_tensor(package, np_module, path):
    np_module.save_file({}, path)
    with package.safe_open(path, framework="np") as file:
        for ask in (file.get_tensor, file.get_slice):
            with pytest.raises(package.SafetensorError, match="^File does not contain tensor nope$"):
                ask("nope")
            with pytest.raises(TypeError, match="argument 'name'"):
                ask(3)


COPIES = [lambda what: pickle.loads(pickle.dumps(what)), copy.copy, copy.deepcopy]


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_slice_is_not_copied(package, np_module, path, copied):
    np_module.save_file({"a": numpy.zeros(1)}, path)
    with package.safe_open(path, framework="np") as file:
        with pytest.raises(TypeError, match="cannot pickle '(builtins.)?PySafeSlice' object"):
            copied(file.get_slice("a"))


@pytest.mark.parametrize("copied", COPIES)
def test_open_file_with_a_path_is_copied(ours, path, tmp_path, monkeypatch, copied):
    from safetensors_c.numpy import save_file
    monkeypatch.chdir(tmp_path)
    save_file({"a": numpy.arange(3)}, path)
    with ours.safe_open(os.path.basename(path), framework="np") as file:
        monkeypatch.chdir("..")
        again = copied(file)
    assert again is not file and again.get_tensor("a").tolist() == [0, 1, 2]
    assert again._arguments == (path, "numpy", "cpu", "mmap")


def test_open_file_without_a_path_is_not_copied(ours, path):
    from safetensors_c.numpy import save, save_file
    save_file({}, path)
    closed = ours.safe_open(path, framework="np")
    closed.__exit__(None, None, None)
    with open(path, "rb") as object:
        for file in (closed, ours.safe_open(save({}), "np"), ours.safe_open(object, "np"), ours._safe_open_handle(object, "np")):
            with pytest.raises(TypeError, match="cannot pickle"):
                pickle.dumps(file)


def test_file_that_is_closed_while_a_slice_is_asked_for(ours, path):
    import safetensors_c.numpy
    safetensors_c.numpy.save_file({"a": numpy.zeros(1)}, path)
    file = ours.safe_open(path, framework="np")
    file.get_slice("a")

    class Closing(str):
        def __hash__(self):
            file.__exit__(None, None, None)
            return str.__hash__(self)
    with pytest.raises(ours.SafetensorError, match="File is closed"):
        file.get_slice(Closing("a"))[:]


@pytest.mark.parametrize("method", ["get_tensor", "get_slice"])
def test_file_that_another_thread_closes_stays_closed(ours, path, monkeypatch, method):
    import safetensors_c.numpy
    from safetensors_c import _open
    safetensors_c.numpy.save_file({"a": numpy.zeros(1)}, path)
    file = ours.safe_open(path, framework="np")
    file.keys()  # get_tensor, too, uses the table then
    make = _open._Sliced
    monkeypatch.setattr(_open, "_Sliced", lambda *given: (file.__exit__(None, None, None), make(*given))[1])
    for _ in range(2):
        with pytest.raises(ours.SafetensorError, match="File is closed"):
            getattr(file, method)("a")


def test_closed_file(package, np_module, path):
    np_module.save_file({}, path)
    with package.safe_open(path, framework="np") as file:
        pass
    for ask in (file.keys, file.offset_keys, file.metadata, file.get_tensors, lambda: file.get_tensor("a"),
                lambda: file.get_slice("a")):
        with pytest.raises(package.SafetensorError, match="File is closed"):
            ask()


def test_error_is_an_exception_of_an_importable_module(package):
    import importlib
    assert getattr(importlib.import_module(package.SafetensorError.__module__), "SafetensorError") \
        is package.SafetensorError
    assert issubclass(package.SafetensorError, Exception) and not issubclass(package.SafetensorError, OSError)


def test_folder_without_a_model(ours, tmp_path):
    with pytest.raises(OSError, match="contains no"):
        ours.safe_open(tmp_path, framework="np")


@pytest.mark.skipif(os.name != "posix", reason="needs FIFOs")
def test_what_is_no_regular_file(ours, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises((ours.SafetensorError, OSError), match="fifo"):
        ours.safe_open(tmp_path / "fifo", framework="np")


@pytest.mark.skipif(os.name != "nt", reason="needs Windows")
def test_number_of_windows_is_the_exception_that_python_makes_of_it(ours, path):
    from safetensors_c.numpy import save_file
    save_file({}, path)
    with held_alone(path), pytest.raises(PermissionError) as error:
        ours.safe_open(path, framework="np")
    assert error.value.winerror == 32 and "model.safetensors" in str(error.value)
