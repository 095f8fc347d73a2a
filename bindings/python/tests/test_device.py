"""Plans that fill devices, with the fake driver of tests/devices in the place of CUDA's: torch's part needs a GPU.

SPDX-License-Identifier: Apache-2.0
"""
import gc
import importlib
import os
import random
import threading
import time
from ctypes import CDLL, byref, c_size_t, c_void_p, create_string_buffer

import pytest

from safetensors_c import _device, _file, _library, _plan
from safetensors_c._errors import SafetensorError

FAKE = os.environ.get("ST_FAKE_CUDA")


@pytest.fixture
def driver():
    if not FAKE:
        pytest.skip("ST_FAKE_CUDA does not name the fake driver, which the tests' build makes")
    fake = CDLL(FAKE)
    fake.fake_reset()
    fake.fake_read.argtypes = (c_void_p, c_void_p, c_size_t)
    yield fake
    _device.forget()
    gc.collect()
    assert fake.fake_leaks() == 0 and fake.fake_depth() == 0


@pytest.fixture
def file(ours, path):
    noise, np = random.Random(1), pytest.importorskip("numpy")
    numpy_module = importlib.import_module("safetensors_c.numpy")
    numpy_module.save_file({f"t{i}": np.frombuffer(noise.randbytes(1 + 997 * i), "u1") for i in range(50)}, path)
    return _file.File(path)


def test_bytes_arrive(driver, file):
    device = _device.Device("cuda", 1, FAKE)
    rows = file.table.rows()
    places, memory = [], []
    for row in rows:
        out = c_void_p()
        _library.call(_library.st.st_device_alloc, device.value, row.nbytes, byref(out))
        memory.append(out.value)
        places.append((row.handle, out.value, row.nbytes))
    seen = []
    _plan.read(file, places, None, lambda done, total: seen.append((done, total)), device)
    for row, address in zip(rows, memory):
        got, wanted = create_string_buffer(row.nbytes), create_string_buffer(row.nbytes)
        driver.fake_read(address, got, row.nbytes)
        file.read(row, wanted)
        assert got.raw == wanted.raw, row.name
        _library.st.st_device_release(device.value, address)
    assert seen[-1] == (sum(row.nbytes for row in rows),) * 2


def test_a_failure_is_an_error_of_the_device(driver, file):
    device = _device.Device("cuda", 0, FAKE)
    row, out = file.table.row(49), c_void_p()
    _library.call(_library.st.st_device_alloc, device.value, row.nbytes, byref(out))
    driver.fake_fail_copy(0)
    with pytest.raises(SafetensorError) as raised:
        _plan.read(file, [(row.handle, out.value, row.nbytes)], 1, None, device)
    assert raised.value.status == "ST_ERR_DEVICE" and "700" in str(raised.value)
    driver.fake_reset()
    _library.st.st_device_release(device.value, out.value)
    del raised, device  # the exception's frames refer to the device
    gc.collect()


def test_without_a_driver_there_is_another_way(driver):
    driver.fake_set_devices(0)  # the fake is the driver that this process has
    assert _device.opened("cuda", 0) is None
    driver.fake_reset()
    with pytest.raises(SafetensorError, match="no device 7"):
        _device.Device("cuda", 7, FAKE)


def test_files_share_a_device(driver):
    first = _device.opened("cuda", 1)
    assert _device.opened("cuda", 1) is first and _device.opened("cuda", 0) is not first
    value = first.value
    del first
    gc.collect()
    assert _device.opened("cuda", 1).value == value  # for the next file
    _device.forget()
    gc.collect()
    assert driver.fake_leaks() == 0


def test_threads_open_a_device_once(monkeypatch):
    class Slow:
        opened = []

        def __init__(self, *asked):
            Slow.opened.append(asked)
            time.sleep(0.02)

    monkeypatch.setattr(_device, "Device", Slow)
    monkeypatch.setattr(_device._library, "HAS_DEVICES", True)
    found = []
    threads = [threading.Thread(target=lambda: found.append(_device.opened("cuda", 9))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _device.forget()
    assert len(Slow.opened) == 1 and found == found[:1] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork()")
def test_a_forked_process_leaves_devices_alone(driver):
    device = _device.opened("cuda", 0)
    child = os.fork()
    if child == 0:
        os._exit(0 if device.value == 0 and not _device._open else 1)
    assert os.waitpid(child, 0)[1] == 0 and device.value != 0


@pytest.mark.parametrize("device, index", [("cuda", 1), ("cuda:0", 0), (1, 1), ("cuda:1", 1)])
def test_cuda_without_a_number_is_the_current_device(monkeypatch, device, index):
    torch = pytest.importorskip("torch")
    from safetensors_c import _torch
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(_device, "opened", lambda kind, ordinal: asked.append(ordinal) or "a GPU")
    tensors = _torch.Tensors(device)
    assert not asked  # a context is not made before it is needed
    assert tensors._opened_gpu() == "a GPU" and tensors._opened_gpu() == "a GPU"
    assert asked == [index] and tensors._device == torch.device("cuda", index)


def test_torch_allocates_and_a_plan_fills(file, monkeypatch):
    """On a machine without a GPU: memory of the host is filled in its place, and what a plan is told is looked at."""
    torch = pytest.importorskip("torch")
    from safetensors_c import _torch
    told = []

    def read(file, places, threads, progress, device, stream):
        told.append((device, stream))
        fill(file, places, threads, progress)

    class Stream:
        cuda_stream = 0  # torch's default stream, which has the number 1 here

    fill, gpu = _plan.read, object()
    monkeypatch.setattr(_plan, "read", read)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream)
    tensors = _torch.Tensors("cpu", mapped=False)
    tensors._device, tensors._gpu = "cpu:0", gpu  # as if it were one
    found = tensors.tensors(file)
    monkeypatch.setattr(Stream, "cuda_stream", 77)
    one = tensors.tensor(file, file.table.row(30))
    monkeypatch.undo()
    assert told == [(gpu, 1), (gpu, 77)]
    for name, tensor in _torch.Tensors("cpu").tensors(file).items():
        assert found[name].equal(tensor), name
    assert one.equal(found[file.table.names[30]])


SLICES = [3, -1, slice(1, 4), (slice(None), 2), (slice(0, 5, 2), slice(3, None, 3)), (..., slice(1, 2)), slice(2, 2), ...,
          (slice(None, None, -1), slice(5, 1, -2)), (1, 1), []]
OTHERS = [None, True, slice(0, 100), (None, slice(1))]  # what only torch knows


@pytest.mark.parametrize("index", SLICES + OTHERS, ids=str)
def test_a_slice_of_torch_is_planned_straight_to_the_gpu(ours, path, monkeypatch, index):
    torch, np = pytest.importorskip("torch"), pytest.importorskip("numpy")
    from safetensors_c import _torch
    values = np.arange(7 * 11, dtype="i4").reshape(7, 11)
    importlib.import_module("safetensors_c.numpy").save_file({"t": values}, path)
    file, told = _file.File(path), []

    def read(file, places, threads=None, progress=None, device=None, stream=0, parts=None, cache=0):
        told.append((device, stream, sum(place[2] for place in places)))
        fill(file, places, threads, progress, parts=parts)

    class Stream:
        cuda_stream = 55

    fill, gpu = _plan.read, object()
    monkeypatch.setattr(_plan, "read", read)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream)
    tensors = _torch.Tensors("cpu", mapped=False)
    tensors._device, tensors._gpu = "cpu:0", gpu  # as if it were one
    row = file.table.row(0)
    found = tensors.slice(file, row, index)
    backwards = isinstance(index, tuple) and index[0] == slice(None, None, -1)
    wanted = torch.from_numpy(values[index].copy()) if backwards else torch.from_numpy(values)[index]
    assert found.shape == wanted.shape and found.dtype == wanted.dtype and found.equal(wanted)
    if index not in OTHERS:
        assert told == [(gpu, 55, wanted.numel() * 4)]  # and no more than that
