"""Torch on a GPU, beside the reference. Without one, ST_TEST_GPU=cpu runs what also works there; ./dev gpu runs all.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes
import gc
import os
import random
import subprocess
import sys
import threading

import pytest

import safetensors_c
from safetensors_c import _device

torch = pytest.importorskip("torch")
reference = pytest.importorskip("safetensors.torch")
ours = pytest.importorskip("safetensors_c.torch")
DEVICE = os.environ.get("ST_TEST_GPU") or ("cuda:0" if torch.cuda.is_available() else "")
if not DEVICE:
    pytest.skip("torch has no GPU", allow_module_level=True)
on_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
DTYPES = [getattr(torch, name) for name in (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64 float8_e4m3fn float8_e5m2 "
    "float8_e8m0fnu complex64").split() if hasattr(torch, name)]


def content(tensor):
    apart = tensor.cpu().clone(memory_format=torch.contiguous_format).reshape(-1)  # a view of one element keeps its stride
    return tensor.dtype, tuple(tensor.shape), ctypes.string_at(apart.data_ptr(), apart.numel() * apart.element_size())


def made(noise, shape, dtype):
    count = 1
    for size in shape:
        count *= size
    raw = torch.frombuffer(bytearray(noise.randbytes(count * dtype.itemsize) or b"0"), dtype=torch.uint8)
    raw = raw[:count * dtype.itemsize] & (1 if dtype == torch.bool else 255)
    return raw.view(dtype).reshape(shape)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A checkpoint of all dtypes and of both sides of the size from which plans read, and its tensors on the CPU."""
    noise = random.Random(3)
    tensors = {f"t{i}": made(noise, [noise.randrange(41) for _ in range(noise.randrange(5))], DTYPES[i % len(DTYPES)])
               for i in range(4 * len(DTYPES))}
    tensors |= {"large": made(noise, [1500, 3000], torch.float32), "odd": made(noise, [700, 5, 1111], torch.bfloat16)}
    path = tmp_path_factory.mktemp("gpu") / "model.safetensors"
    reference.save_file(tensors, path)
    return path, tensors


def load(path, **arguments):
    return ours.load_file(path, device=DEVICE, **arguments)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("threads", [None, 1, 5])
def test_all_tensors(stored, backend, threads):
    path, tensors = stored
    loaded = load(path, backend=backend, threads=threads)
    assert {name: content(tensor) for name, tensor in loaded.items()} == {name: content(one) for name, one in tensors.items()}
    assert {tensor.device for tensor in loaded.values()} == {torch.device(DEVICE)}


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_tensors_and_slices_one_by_one(stored, backend):
    path, tensors = stored
    noise = random.Random(backend)
    with safetensors_c.safe_open(path, "pt", device=DEVICE, backend=backend) as file:
        for name, tensor in tensors.items():
            assert content(file.get_tensor(name)) == content(tensor)
            if not all(tensor.shape):
                continue
            for _ in range(20):
                index = tuple(noise.randrange(-size, size) if noise.random() < 0.2 else
                              slice(noise.randrange(-size, size), noise.choice((None, noise.randrange(-size, size))),
                                    noise.choice((None, 1, 2))) for size in tensor.shape[:noise.randrange(5)])
                got = file.get_slice(name)[index]
                assert content(got) == content(tensor[index]) and got.device == torch.device(DEVICE), (name, index)


def test_an_index_too_many(stored):
    with safetensors_c.safe_open(stored[0], "pt", device=DEVICE) as file, pytest.raises(IndexError):
        file.get_slice("large")[:, :, 0]


@on_gpu
@pytest.mark.parametrize("device", ["cuda", 0, torch.device("cuda", 0)])
def test_words_for_a_device(stored, device):
    path, tensors = stored
    assert ours.load_file(path, device=device)["large"].device == torch.device("cuda:0")


def test_saves_are_the_references(stored):
    moved = {name: tensor.to(DEVICE) for name, tensor in stored[1].items()}
    assert ours.save(moved) == reference.save(moved)


@on_gpu
def test_prefetch_while_the_memory_is_used_by_another_stream(stored):
    path, tensors = stored
    found = {}
    with safetensors_c.safe_open(path, "pt", device=DEVICE) as file, file.prefetch() as loading:
        with torch.cuda.stream(torch.cuda.Stream()):
            for name, tensor in loading:
                torch.cuda._sleep(1_000_000)
                found[name] = tensor.clone()
                del tensor  # torch may use its memory for the next one at once
    torch.cuda.synchronize()
    assert {name: content(tensor) for name, tensor in found.items()} == {name: content(one) for name, one in tensors.items()}


@on_gpu
@pytest.mark.parametrize("own_stream", [False, True])
def test_a_load_comes_after_the_work_of_its_stream(stored, own_stream):
    path, tensors = stored
    with torch.cuda.stream(torch.cuda.Stream() if own_stream else torch.cuda.default_stream()):
        before = torch.empty(1500, 3000, device=DEVICE)
        torch.cuda._sleep(200_000_000)
        before.fill_(7)
        del before  # its memory is that of the tensor that is loaded now
        with safetensors_c.safe_open(path, "pt", device=DEVICE) as file:
            assert content(file.get_tensor("large")) == content(tensors["large"])


@on_gpu
def test_nothing_is_kept(stored):
    load(stored[0])
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), len(os.listdir("/proc/self/fd")), torch.cuda.mem_get_info()[0]
    for _ in range(50):
        load(stored[0])
    gc.collect()
    torch.cuda.empty_cache()
    after = torch.cuda.memory_allocated(), len(os.listdir("/proc/self/fd")), torch.cuda.mem_get_info()[0]
    assert after[:2] == before[:2] and abs(after[2] - before[2]) < 8 << 20
    _device.forget()


@on_gpu
def test_a_gpu_without_memory(stored):
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(10e6 / torch.cuda.mem_get_info()[1])
    try:
        with safetensors_c.safe_open(stored[0], "pt", device=DEVICE) as file:
            for read in (lambda: load(stored[0]), lambda: file.get_tensor("large"), lambda: file.get_slice("large")[:, :2900]):
                with pytest.raises(torch.OutOfMemoryError):
                    read()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert content(load(stored[0])["large"]) == content(stored[1]["large"])


def test_threads(stored):
    path, tensors = stored
    wanted = {name: content(tensor) for name, tensor in tensors.items()}
    wrong = []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()) if DEVICE != "cpu" else contextlib.nullcontext():
            for _ in range(4):
                try:
                    if {name: content(tensor) for name, tensor in load(path).items()} != wanted:
                        wrong.append("bytes")
                except Exception as error:
                    wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "threading.Thread(target=load).start()"])
def test_the_end_of_a_process(stored, end):
    code = f"""
import sys, threading
from safetensors_c import safe_open, torch
def load(): return torch.load_file({str(stored[0])!r}, device={DEVICE!r})
kept, file = load(), safe_open({str(stored[0])!r}, "pt", device={DEVICE!r})
if {DEVICE != "cpu"}:
    loading = file.prefetch()
    loading.take("large")
{end}
"""
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                         check=False)
    assert ran.returncode == 0 and not ran.stdout
