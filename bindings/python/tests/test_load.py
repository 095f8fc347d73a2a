"""Files with many small tensors: their buffers, the library's calls, and what is read by which backend.

SPDX-License-Identifier: Apache-2.0
"""
import gc
import json
import os
import sys

import numpy as np
import pytest

from safetensors_c import _load, safe_open
from safetensors_c import numpy as mine

BACKENDS = ["mmap", "pread"]
MAPS = "/proc/self/maps"


def written(path, tensors):
    """Writes tensors one after another, as no careful writer does: a name, a dtype, a shape and the bytes of each."""
    header, data = {}, b""
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def many(count=3000):
    """Tensors of all sizes around the limits, of several dtypes, with empty ones."""
    random = np.random.default_rng(0)
    kinds = [np.float32, np.int8, np.float64, np.float16, np.uint8]
    sizes = [0, 1, 3, 16, 1000, _load.SMALL - 1, _load.SMALL, _load.SMALL + 1]
    return {f"t{i}": random.integers(0, 100, (sizes[i // 5 % 8] if i < 100 else i % 7, 1)).astype(kinds[i % 5])
            for i in range(count)}


def same(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype and np.array_equal(array, right[name]), name


def sources(path):
    with open(path, "rb") as file:
        content = file.read()
    return {"path": path, "bytes": content, "bytearray": bytearray(content), "file object": open(path, "rb")}


@pytest.mark.parametrize("options", [{}, {"backend": "pread"}, {"threads": 2}, {"progress": lambda *_: None}], ids=str)
@pytest.mark.parametrize("source", ["path", "bytes", "bytearray", "file object"])
def test_many_tensors(path, source, options):
    arrays = many()
    mine.save_file(arrays, path)
    given = sources(path)[source]
    loaded = mine.load_file(given, **options)
    same(loaded, arrays)
    for name, array in loaded.items():
        assert array.flags.writeable and array.flags.aligned
        array[:] = 0
        same({name: array}, {name: np.zeros_like(arrays[name])})
    same(mine.load_file(sources(path)[source], **options), arrays)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("framework", ["np", "pt"])
def test_load_makes_no_call_of_the_library_per_tensor(path, calls, framework, backend):
    if framework == "pt":
        pytest.importorskip("torch")
    mine.save_file(many(1000), path)
    calls.clear()
    with safe_open(path, framework, backend=backend) as file:
        assert len(file.get_tensors()) == 1000
    add = calls.pop("st_plan_add", 0)
    assert (add > 0) == (backend == "pread") and sum(calls.values()) < 30, calls


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_names_shapes_and_tensors_one_by_one_make_no_call_of_the_library_per_tensor(path, calls, framework):
    if framework == "pt":
        pytest.importorskip("torch")
    arrays = many(1000)
    mine.save_file(arrays, path)
    calls.clear()
    with safe_open(path, framework) as file:
        for name in file.keys():
            part = file.get_slice(name)
            assert part.get_shape() == list(arrays[name].shape)
            if arrays[name].size:
                assert bytes(np.asarray(file.get_tensor(name))) == bytes(np.asarray(part[:])) == arrays[name].tobytes()
    assert sum(calls.values()) < 30, calls


def test_buffer_is_writable_and_as_small_as_promised_and_outlives_the_others(path):
    mine.save_file({f"t{i}": np.full(100, i, np.float32) for i in range(5000)}, path)
    loaded = mine.load_file(path)
    buffers = {id(array.base): array.base for array in loaded.values()}
    assert 1 < len(buffers) < 20 and max(buffer.nbytes for buffer in buffers.values()) <= _load.CHUNK + 16
    survivor = loaded["t4321"]
    del loaded, buffers
    gc.collect()
    survivor += 1
    assert (survivor == 4322).all()


def test_tensor_that_is_large_or_that_a_buffer_would_not_align_has_its_own_memory(path):
    written(path, [("a", "U8", [3], b"abc"), ("b", "F32", [2], np.array([1, 2], "<f4").tobytes()), ("c", "U8", [1], b"d"),
                   ("d", "F64", [1], np.array([3.], "<f8").tobytes()),
                   ("e", "U8", [_load.SMALL + 1], bytes(_load.SMALL + 1)), ("f", "I16", [2], b"\1\0\2\0")])
    for backend in BACKENDS:
        loaded = mine.load_file(path, backend=backend)
        assert all(array.flags.aligned for array in loaded.values())
        assert loaded["b"].tolist() == [1, 2] and loaded["d"].tolist() == [3] and loaded["f"].tolist() == [1, 2]
        assert loaded["e"].base is None and loaded["b"].base is None and loaded["a"].tobytes() == b"abc"
        with safe_open(path, "np", backend=backend) as file:
            for name, array in loaded.items():
                single, part = file.get_tensor(name), file.get_slice(name)[:]
                assert single.flags.aligned and part.flags.aligned and single.flags.writeable and part.flags.writeable
                same({"whole": single, "part": part}, {"whole": array, "part": array})


@pytest.mark.parametrize("count", [1, 3, 40, 500])
def test_tensors_one_by_one_without_a_listing(path, count):
    arrays = many(count)
    mine.save_file(arrays, path)
    for backend in BACKENDS:
        with safe_open(path, "np", backend=backend) as file:
            same({name: file.get_tensor(name) for name in arrays}, arrays)


@pytest.mark.skipif(sys.platform == "win32" or not os.path.exists(MAPS), reason="needs /proc")  # Wine shows it, too
@pytest.mark.parametrize("backend", BACKENDS)
def test_only_mmap_maps_the_file(path, backend):
    def mapped():
        with open(MAPS) as file:
            return os.path.realpath(path) in file.read()
    mine.save_file(many(100), path)
    with safe_open(path, "np", backend=backend) as file:
        assert not mapped()
        tensors = file.get_tensors(), file.get_tensor("t5"), file.get_slice("t5")[0:1]
        assert mapped() == (backend == "mmap")
    del file
    assert not mapped() and tensors[0]


def test_file_that_is_truncated_is_an_error_with_pread(path):
    mine.save_file({f"t{i}": np.zeros(5000) for i in range(100)}, path)
    with safe_open(path, "np", backend="pread") as file:
        file.get_tensor("t1"), file.get_slice("t1")[3:5]
        os.truncate(path, os.path.getsize(path) // 2)
        for read in (file.get_tensors, lambda: file.get_tensor("t99"), lambda: file.get_slice("t99")[3:5]):
            with pytest.raises(Exception, match="shorter|truncated|bytes"):
                read()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not truncate a file that is mapped")
def test_file_that_is_truncated_ends_the_process_with_mmap_as_with_the_reference(path):
    import signal
    import subprocess
    mine.save_file({"a": np.zeros(1 << 20)}, path)
    code = """
import os, sys
from {} import safe_open
file = safe_open(sys.argv[1], "np")
file.get_slice("a")[:]
os.truncate(sys.argv[1], 1 << 16)
file.get_tensor("a")
"""
    for package in ("safetensors", "safetensors_c"):
        if package == "safetensors":
            pytest.importorskip("safetensors")
        mine.save_file({"a": np.zeros(1 << 20)}, path)
        done = subprocess.run([sys.executable, "-c", code.format(package), path], capture_output=True)
        assert done.returncode == -signal.SIGBUS, done.stderr


def test_model_of_several_files(tmp_path):
    arrays = many(200)
    index = {}
    for shard in range(3):
        part = {name: array for i, (name, array) in enumerate(arrays.items()) if i % 3 == shard}
        mine.save_file(part, tmp_path / f"{shard}.safetensors")
        index.update(dict.fromkeys(part, f"{shard}.safetensors"))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    for backend in BACKENDS:
        same(mine.load_file(tmp_path, backend=backend), arrays)
        with safe_open(tmp_path, "np", backend=backend) as file:
            same({name: file.get_tensor(name) for name in file.keys()}, arrays)
            same({name: file.get_slice(name)[:] for name in file.keys()}, arrays)


@pytest.mark.parametrize("how", ["mmap", "pread", "bytes", "bytes by safe_open"])
def test_tensors_of_torch_share_nothing_but_the_buffer(path, how):
    torch = pytest.importorskip("torch")
    import io
    from safetensors_c import torch as ours
    kinds = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float16, torch.uint8, torch.complex64]
    kinds += [kind for kind in (getattr(torch, name, None) for name in ("uint16", "uint32", "uint64", "float8_e4m3fn")) if kind]
    tensors = {f"t{i}": torch.ones(i % 4, 3).to(kinds[i % len(kinds)]) for i in range(200)}
    tensors["scalar"] = torch.tensor(3, dtype=torch.bfloat16)
    ours.save_file(tensors, path)
    with open(path, "rb") as file:
        content = file.read()
    loaded = (ours.load(content) if how == "bytes" else safe_open(content, "pt").get_tensors() if how.startswith("bytes")
              else ours.load_file(path, backend=how))
    assert loaded.keys() == tensors.keys()
    for name, tensor in loaded.items():
        assert tensor.dtype == tensors[name].dtype and tensor.shape == tensors[name].shape
        assert tensor.contiguous().reshape(-1).view(torch.uint8).tolist() == tensors[name].reshape(-1).view(torch.uint8).tolist()
        assert tensor.untyped_storage().nbytes() == tensor.nelement() * tensor.element_size() and tensor.storage_offset() == 0
    before = {name: tensor._version for name, tensor in loaded.items()}
    loaded["t3"].zero_()
    assert {name: tensor._version for name, tensor in loaded.items() if name != "t3"} == {
        name: version for name, version in before.items() if name != "t3"}
    assert loaded["t14"].to(torch.float32).sum() == 6 and loaded["t25"].to(torch.float32).sum() == 3
    stored = io.BytesIO()
    torch.save(loaded["t14"], stored)
    assert len(stored.getvalue()) < 4096
    assert not ours._find_shared_tensors(loaded) or all(len(names) == 1 for names in ours._find_shared_tensors(loaded))
    with open(path, "rb") as file:
        assert file.read() == content


def test_torch_without_numpy(path, monkeypatch):
    torch = pytest.importorskip("torch")
    from safetensors_c import _torch
    from safetensors_c import torch as ours
    tensors = {"a": torch.arange(6).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16), "c": torch.empty(0, 2)}
    ours.save_file(tensors, path)
    monkeypatch.setattr(_torch, "numpy", None)
    for backend in BACKENDS:
        loaded = ours.load_file(path, backend=backend)
        assert loaded.keys() == tensors.keys() and all(torch.equal(loaded[name], tensors[name]) for name in tensors)
        with safe_open(path, "pt", backend=backend) as file:
            assert torch.equal(file.get_tensor("a"), tensors["a"]) and torch.equal(file.get_slice("a")[1], tensors["a"][1])
