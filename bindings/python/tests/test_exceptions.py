"""Wrong calls raise exceptions of the same types as in the reference.

SPDX-License-Identifier: Apache-2.0
"""
import importlib
import os
import pathlib
import subprocess
import sys

import numpy
import pytest

ARRAY = numpy.zeros(4, "f4")


class FsPath:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


def closed(package, path):
    file = package.safe_open(path, "np")
    file.__exit__(None, None, None)
    return file


def spec(package, **given):
    return package.TensorSpec(**{"dtype": "float32", "shape": [4], "data_ptr": ARRAY.ctypes.data, "data_len": 16, **given})


def slice_of(package, name, index, framework="np", backend="mmap"):
    return package.safe_open("good", framework, backend=backend).get_slice(name)[index]


def pt(package):
    return importlib.import_module(package.__name__ + ".torch")


def without_memory(kind):
    import torch
    if kind == "zeros":
        return torch._efficientzerotensor((3,))
    if kind == "fake":
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            return torch.ones(3)

    class Wrapper(torch.Tensor):
        __torch_dispatch__ = classmethod(lambda cls, function, types, arguments=(), keywords=None: torch.ones(3))
    return torch.Tensor._make_wrapper_subclass(Wrapper, (3,))


VALUES = {
    "a number": 3, "None": None, "a list": ["good"], "a tuple": ("good",), "bytes": b"./good-path", "no bytes": b"",
    "a bytearray": bytearray(b"./good-path"), "a path of bytes with a NUL": b"./good-path\0", "a dict": {}, "a set": {4},
    "a surrogate": "\ud800", "a byte that is no text": "\udcff", "an iterator": iter([4]), "a PathLike that lies": FsPath(3),
}
PATHS = {
    "missing": "nope", "in a missing directory": "no/pe", "missing, PathLike": pathlib.Path("nope"), "below a file": "good/x",
    "a directory": ".", "too long": "x" * 5000, "a loop": "loop", "a NUL": "good\0x", "nothing": "", "no header": "empty",
    "a device": os.devnull, "F4": "F4", "F6": "F6_E2M3",
}
INDEXES = {
    "beyond the end": slice(0, 9), "from the end": slice(9, 10), "step 0": slice(None, None, 0), "a float": 1.5,
    "a slice of floats": slice(0, 1.5), "5": 5, "-5": -5, "too many": (0, 0, 0), "the second": (0, 9), "None": None, "text": "a",
    "a list": [0], "two dots": (..., ...), "2^70": slice(1 << 70), "a slice of text": slice("a"), "bytes": b"x", "a dict": {},
    "the number 2^70": 1 << 70, "the number -2^70": -(1 << 70),
}
BACKWARDS = slice(None, None, -1)
# Torch rejects these, too, in "a".
TORCH_INDEXES = {title: INDEXES[title] for title in (
    "step 0", "a float", "a slice of floats", "5", "-5", "too many", "the second", "text", "a slice of text", "bytes", "a dict",
    "the number 2^70", "the number -2^70")}
TORCH_INDEXES |= {
    "a list beyond the end": [7], "a new axis and 9": (None, 9), "backwards, too many": (BACKWARDS, 0, 0),
    "backwards, beyond the end": (BACKWARDS, 9), "beyond the end, backwards": (9, BACKWARDS), "backwards, None": (BACKWARDS, None),
    "backwards, a list": (BACKWARDS, [0]), "backwards, text": (BACKWARDS, "a"), "backwards, True": (BACKWARDS, True),
    "backwards, two dots": (..., BACKWARDS, ...),
}

CASES = {}
for title, value in {**VALUES, **PATHS}.items():
    CASES.update({
        f"open: {title}": lambda p, n, value=value: p.safe_open(value, "np").keys(),
        f"open by handle: {title}": lambda p, n, value=value: p._safe_open_handle(value, "np"),
        f"load_file: {title}": lambda p, n, value=value: n.load_file(value),
        f"save_file: {title}": lambda p, n, value=value: n.save_file({"a": ARRAY}, value if value != "nope" else "no/pe"),
        f"tensor: {title}": lambda p, n, value=value: p.safe_open(value, "np").get_tensor("a"),
        f"slice: {title}": lambda p, n, value=value: p.safe_open(value, "np").get_slice("a")[:],
    })
for title, value in VALUES.items():
    CASES.update({
        f"framework: {title}": lambda p, n, value=value: p.safe_open("good", value),
        f"device: {title}": lambda p, n, value=value: p.safe_open("good", "np", value if value is not None else "zz"),
        f"backend: {title}": lambda p, n, value=value: p.safe_open("good", "np", backend=value),
        f"get_tensor: {title}": lambda p, n, value=value: p.safe_open("good", "np").get_tensor(value),
        f"get_slice: {title}": lambda p, n, value=value: p.safe_open("good", "np").get_slice(value),
        f"deserialize: {title}": lambda p, n, value=value: p.deserialize(value),
        f"serialize: {title}": lambda p, n, value=value: p.serialize(value),
        f"serialize a value: {title}": lambda p, n, value=value: p.serialize({"a": value}),
        f"metadata: {title}": lambda p, n, value=value: n.save({"a": ARRAY}, metadata={"a": value}),
        f"dtype: {title}": lambda p, n, value=value: spec(p, dtype=value),
        f"shape: {title}": lambda p, n, value=value: spec(p, shape=value),
        f"data_len: {title}": lambda p, n, value=value: spec(p, data_len=value),
        f"an array: {title}": lambda p, n, value=value: n.save({"a": value}),
        f"arrays: {title}": lambda p, n, value=value: n.save(value),
    })
    if not isinstance(value, bytearray):
        CASES[f"load: {title}"] = lambda p, n, value=value: n.load(value)
for title, index in INDEXES.items():
    for name in ("a", "scalar"):
        CASES[f"index {name}: {title}"] = lambda p, n, name=name, index=index: slice_of(p, name, index)
for title, index in TORCH_INDEXES.items():
    for backend in ("mmap", "pread"):
        CASES[f"torch: index, {backend}: {title}"] = \
            lambda p, n, index=index, backend=backend: slice_of(p, "a", index, "pt", backend)
for backend in ("mmap", "pread"):
    CASES.update({
        f"torch: F6, {backend}": lambda p, n, backend=backend: p.safe_open("F6_E2M3", "pt", backend=backend).get_tensor("a"),
        f"torch: odd F4, {backend}": lambda p, n, backend=backend: p.safe_open("odd", "pt", backend=backend).get_tensor("a"),
        f"torch: slice of odd F4, {backend}":
            lambda p, n, backend=backend: p.safe_open("odd", "pt", backend=backend).get_slice("a")[:],
        f"half a byte of F4, {backend}": lambda p, n, backend=backend: p.safe_open("F4", "np", backend=backend).get_slice("a")[:1],
    })
for what in ("zeros", "fake", "wrapper"):
    CASES[f"torch: save of {what}"] = lambda p, n, what=what: pt(p).save({"a": without_memory(what)})
    CASES[f"torch: save_file of {what}"] = lambda p, n, what=what: pt(p).save_file({"a": without_memory(what)}, "out")
for name in ("keys", "offset_keys", "metadata", "get_tensors"):
    CASES[f"closed: {name}"] = lambda p, n, name=name: getattr(closed(p, "good"), name)()
    CASES[f"an argument: {name}"] = lambda p, n, name=name: getattr(p.safe_open("good", "np"), name)(3)
for name in ("get_tensor", "get_slice"):
    CASES[f"closed: {name}"] = lambda p, n, name=name: getattr(closed(p, "good"), name)("a")
    CASES[f"closed: {name} of a number"] = lambda p, n, name=name: getattr(closed(p, "good"), name)(3)
for kind in ("object", "U4", "datetime64[s]", "complex128", "S3", "V4"):
    CASES[f"array of {kind}"] = lambda p, n, kind=kind: n.save({"a": numpy.zeros(2, kind)})
for dims in ([-1], [1 << 64], [1.0], ["a"], [None]):
    CASES[f"dimensions {dims}"] = lambda p, n, dims=dims: spec(p, shape=dims)
CASES.update({
    "no arguments": lambda p, n: p.safe_open(),
    "too many arguments": lambda p, n: p.safe_open("good", "np", "cpu", "mmap"),
    "an unknown argument": lambda p, n: p.safe_open("good", "np", x=1),
    "exit without arguments": lambda p, n: p.safe_open("good", "np").__exit__(),
    "a slice made by the caller": lambda p, n: type(p.safe_open("good", "np").get_slice("a"))(),
    "a file as a list": lambda p, n: p.safe_open("good", "np")["a"],
    "another size": lambda p, n: p.serialize({"a": spec(p, shape=[3])}),
    "another size, into a file": lambda p, n: p.serialize_file({"a": spec(p, shape=[3])}, "out"),
    "overflow": lambda p, n: p.serialize({"a": spec(p, shape=[1 << 63, 4])}),
    "spec by position": lambda p, n: p.TensorSpec("float32", [4], 1, 16),
    "load of F4": lambda p, n: n.load(pathlib.Path("F4").read_bytes()),
    "load of F6": lambda p, n: n.load(pathlib.Path("F6_E2M3").read_bytes()),
    "torch: load of F6": lambda p, n: pt(p).load(pathlib.Path("F6_E2M3").read_bytes()),
    "torch: device 2^63": lambda p, n: p.safe_open("good", "pt", 1 << 63).get_tensor("a"),
    "a framework that is missing": lambda p, n: p.safe_open("good", "mlx").keys(),
    "a file and a framework that are missing": lambda p, n: p.safe_open("nope", "mlx").keys(),
})


def kind(call, package, np_module):
    try:
        call(package, np_module)
    except Exception as problem:
        return type(problem)
    return None


def derived(mine, theirs):
    return any(base is theirs or base.__name__ == theirs.__name__ == "SafetensorError" for base in mine.__mro__)


@pytest.mark.skipif(os.name != "posix", reason="the names of files are those of POSIX")
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of a text as an index and of old functions
@pytest.mark.parametrize("case", CASES)
def test_exception_is_that_of_the_reference(reference, ours, tmp_path, monkeypatch, case):
    import safetensors.numpy
    import safetensors_c.numpy
    if case.startswith("torch: "):
        pytest.importorskip("torch")
    found = []
    for number, (package, np_module) in enumerate(((reference, safetensors.numpy), (ours, safetensors_c.numpy))):
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.chdir(place)
        safetensors_c.numpy.save_file({"a": numpy.zeros((3, 4), "f4"), "scalar": numpy.array(3.0)}, "good")
        for name, kind_of, shape, size in (("F4", "F4", [2], 1), ("odd", "F4", [2, 3], 3), ("F6_E2M3", "F6_E2M3", [4], 3)):
            header = f'{{"a":{{"dtype":"{kind_of}","shape":{shape},"data_offsets":[0,{size}]}}}}'.encode()
            pathlib.Path(name).write_bytes(len(header).to_bytes(8, "little") + header + b"x" * size)
        pathlib.Path("empty").touch()
        os.symlink("loop", "loop")
        if not case.startswith("save_file: a device"):
            found.append(kind(CASES[case], package, np_module))
    if not found or found[0] is found[1]:
        return
    theirs, mine = found
    assert theirs is not None and mine is not None, found
    assert derived(mine, theirs), found


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None  # as if it were not installed
from {package} import safe_open
from {package}.numpy import load, load_file
def load_bytes():
    with open("file", "rb") as file:
        return load(file.read())
for backend in ("mmap", "pread"):
    for call in (load_bytes, lambda: load_file("file", backend=backend),
                 lambda: safe_open("file", "np", backend=backend).get_tensor("a"),
                 lambda: safe_open("file", "np", backend=backend).get_slice("a")[:],
                 lambda: safe_open("file", "np", backend=backend).get_slice("a")[9]):
        try:
            call()
        except Exception as error:
            print(*(base.__name__ for base in type(error).__mro__))
"""


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3"])
def test_floats_without_ml_dtypes(reference, tmp_path, kind):
    header = f'{{"a":{{"dtype":"{kind}","shape":[4],"data_offsets":[0,{8 if kind == "BF16" else 4}]}}}}'.encode()
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header + b"x" * (8 if kind == "BF16" else 4))
    theirs, mine = ([line.split() for line in subprocess.check_output(
        [sys.executable, "-c", WITHOUT_ML_DTYPES.format(package=package)], cwd=tmp_path, text=True).splitlines()]
        for package in ("safetensors", "safetensors_c"))
    assert len(theirs) == 10 and all(one[0] in other for one, other in zip(theirs, mine, strict=True)), (theirs, mine)
