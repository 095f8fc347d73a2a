"""The other frameworks, each where it is installed: jax, tensorflow, paddle, mlx.

SPDX-License-Identifier: Apache-2.0
"""
import importlib

import numpy as np
import pytest

ARRAYS = {"f": np.arange(12, dtype=np.float32).reshape(3, 4), "h": np.arange(6, dtype=np.float16), "i": np.arange(5, dtype=np.int32),
          "empty": np.zeros((2, 0), np.float32), "bool": np.array([True, False])}
FRAMEWORKS = {  # the module, the library, what makes its tensor
    "flax": ("jax.numpy", "array"), "jax": ("jax.numpy", "array"), "tensorflow": ("tensorflow", "constant"),
    "paddle": ("paddle", "to_tensor"), "mlx": ("mlx.core", "array"),
}


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    library, make = FRAMEWORKS[request.param]
    make = getattr(pytest.importorskip(library), make)
    return request.param, importlib.import_module("safetensors_c." + request.param), make


def same(tensors, names):
    assert set(tensors) == set(names)
    for name, tensor in tensors.items():
        array = np.asarray(tensor)
        assert array.dtype == ARRAYS[name].dtype and list(array.shape) == list(ARRAYS[name].shape), name
        assert np.array_equal(array, ARRAYS[name]), name


def test_tensors_come_back(framework, path):
    name, module, make = framework
    tensors = {key: make(array) for key, array in ARRAYS.items() if array.size or name != "paddle"}
    given = dict(tensors)
    module.save_file(tensors, path, metadata={"format": name})
    same(module.load(module.save(tensors)), tensors)
    same(module.load_file(path), tensors)
    seen = []
    same(module.load_file(path, threads=2, progress=lambda done, total: seen.append(total)), tensors)
    assert seen and all(tensors[key] is given[key] for key in given)  # what is saved stays as it is


def test_safe_open(framework, ours, path):
    name, module, make = framework
    module.save_file({"f": make(ARRAYS["f"])}, path)
    with ours.safe_open(path, framework=name) as file:
        same({"f": file.get_tensor("f")}, ["f"])
        assert np.array_equal(np.asarray(file.get_slice("f")[1:, ::2]), ARRAYS["f"][1:, ::2])
        assert type(file.get_tensor("f")) is type(file.get_slice("f")[:])


def test_bfloat16(framework, path):
    name, module, _ = framework
    library = importlib.import_module(FRAMEWORKS[name][0])
    one = {"tensorflow": lambda: library.cast(library.constant([1.0, -2.5]), library.bfloat16),
           "paddle": lambda: library.to_tensor([1.0, -2.5]).astype("bfloat16"),
           "mlx": lambda: None}.get(name, lambda: library.array([1.0, -2.5], dtype=library.bfloat16))()
    if one is None:
        pytest.skip("mlx hands no bfloat16 to numpy")
    module.save_file({"a": one}, path)
    assert module.load_file(path)["a"].dtype == one.dtype
    with open(path, "rb") as file:
        assert file.read().endswith(b"\x80\x3f\x20\xc0")
