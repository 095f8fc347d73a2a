"""Slices against numpy: random shapes, slices and dtypes, read one by one and through plans, byte for byte.

The tensors go through every way that the engine has: from the page cache, around it (the file evicted first), from a
mapping, from memory and from callbacks. conformance/slices has the cases that were measured with the reference.

    slices.py
    slices.py --record | --recorded    (support/recorded.py; numpy is the reference)

SPDX-License-Identifier: Apache-2.0
"""
import ctypes as c
import json
import math
import os
import random
import struct
import sys
import tempfile

from support import skip
from support.recorded import Recorded, Recorder, digest, mode

try:
    import numpy as np
except ImportError:
    np = None

LIBRARY = os.environ["ST_LIBRARY"]
CASES = int(os.environ.get("ST_SLICE_CASES", "50000"))
RECORDED_CASES, RECORDED_SEED = 1400, 20240301
DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "u2", "I16": "i2", "F16": "f2", "BF16": "u2", "U32": "u4", "I32": "i4",
          "F32": "f4", "U64": "u8", "I64": "i8", "F64": "f8", "C64": "c8", "F8_E4M3": "u1", "F8_E5M2": "u1"}
BYTES = {dtype: 1 if code == "?" else int(code[1:]) for dtype, code in DTYPES.items()}
MISALIGNED = "misaligned"
SUB_BYTE = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}

st = c.CDLL(LIBRARY)
I64P = c.POINTER(c.c_int64)


class Error(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("status", c.c_int32), ("os_error", c.c_int32), ("reserved", c.c_uint32),
                ("offset", c.c_uint64), ("message", c.c_char * 232)]


class ReadOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("threads", c.c_uint32), ("cache", c.c_int32),
                ("chunk_bytes", c.c_uint64), ("gap_bytes", c.c_uint64),
                ("ctx", c.c_void_p), ("progress", c.c_void_p), ("parallel_for", c.c_void_p)]


for name, result, arguments in [
        ("st_open", c.c_int32, [c.c_char_p, c.c_void_p, c.POINTER(c.c_void_p), c.POINTER(Error)]),
        ("st_free", None, [c.c_void_p]),
        ("st_get_tensor", c.c_void_p, [c.c_void_p, c.c_char_p]),
        ("st_tensor_slice", c.c_int32, [c.c_void_p, I64P, I64P, I64P, c.POINTER(c.c_uint64), c.POINTER(c.c_uint64),
                                        c.POINTER(c.c_void_p), c.POINTER(Error)]),
        ("st_tensor_read_slice", c.c_int32, [c.c_void_p, I64P, I64P, I64P, c.c_void_p, c.c_size_t, c.POINTER(Error)]),
        ("st_plan_new", c.c_int32, [c.c_void_p, c.POINTER(c.c_void_p), c.POINTER(Error)]),
        ("st_plan_add", c.c_int32, [c.c_void_p, c.c_void_p, I64P, I64P, I64P, c.c_void_p, c.c_size_t, c.POINTER(Error)]),
        ("st_plan_run", c.c_int32, [c.c_void_p, c.POINTER(ReadOptions), c.POINTER(Error)]),
        ("st_plan_free", None, [c.c_void_p])]:
    getattr(st, name).restype = result
    getattr(st, name).argtypes = arguments


def call(function, *arguments):
    error = Error(struct_size=c.sizeof(Error))
    status = getattr(st, function)(*arguments, c.byref(error))
    return status, error.message.decode()


def must(function, *arguments):
    status, message = call(function, *arguments)
    assert status == 0, f"{function}: {status} {message}"


def array(values):
    return None if values is None else (c.c_int64 * len(values))(*values)


def write_file(path, tensors):
    header, at = {}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, _, data in tensors:
            file.write(data)
        file.flush()
        os.fsync(file.fileno())


def evict(path):
    if not hasattr(os, "posix_fadvise"):  # Windows has no such call
        return
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def random_shape(rng):
    rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5])
    return tuple(rng.choice([0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 33]) if rank > 2 else rng.choice([0, 1, 2, 3, 17, 64, 257, 1000])
                 for _ in range(rank))


def random_position(rng, length):
    edges = [0, -1, 1, length, length - 1, length + 1, -length, -length - 1, 2**63 - 1, -2**63, 2**40]
    return rng.choice(edges) if rng.random() < 0.3 else rng.randint(-length - 2, length + 2)


def random_slice(rng, shape):
    begin = [random_position(rng, n) for n in shape]
    end = [random_position(rng, n) for n in shape]
    for d, n in enumerate(shape):  # whole dimensions and small steps are what people use
        if rng.random() < 0.35:
            begin[d], end[d] = 0, n
        elif rng.random() < 0.6 and begin[d] > end[d]:
            begin[d], end[d] = end[d], begin[d]
    step = [rng.choice([1, 1, 1, 1, 2, 3, 5, -1, -2, 2**62, -2**63]) for _ in shape]
    return (begin if rng.random() < 0.9 else None, end if rng.random() < 0.9 else None, step if rng.random() < 0.8 else None)


def numpy_index(shape, begin, end, step):
    return tuple(slice(None if begin is None else begin[d], None if end is None else end[d], None if step is None else step[d])
                 for d in range(len(shape)))


def sub_byte_answer(bits, shape, data, index):
    """The bytes of a slice of elements below a byte, or None where it begins, ends or jumps inside a byte."""
    elements = int(np.prod(shape))
    positions = np.arange(elements).reshape(shape)[index]
    if positions.size == 0:
        return positions.shape, b""
    flat = positions.ravel()
    breaks = np.flatnonzero(np.diff(flat) != 1)
    firsts = np.concatenate(([flat[0]], flat[breaks + 1]))
    lasts = np.concatenate((flat[breaks], [flat[-1]]))
    if ((firsts * bits) % 8).any() or (((lasts + 1) * bits) % 8).any():
        return positions.shape, None
    return positions.shape, b"".join(data[a * bits // 8:(b + 1) * bits // 8] for a, b in zip(firsts, lasts))


def spelled(shape, data):
    return f"{','.join(map(str, shape))} {digest(data)}"


def by_numpy(tensor, begin, end, step):
    name, dtype, shape, data = tensor
    index = numpy_index(shape, begin, end, step)
    if dtype in SUB_BYTE:
        part_shape, part = sub_byte_answer(SUB_BYTE[dtype], shape, data, index)
        return MISALIGNED if part is None else spelled(part_shape, part)
    part = np.frombuffer(data, DTYPES[dtype]).reshape(shape)[index]
    return spelled(part.shape, part.tobytes())


def check(handle, tensor, case, expected, counts):
    """What the slice holds, or None if it begins or ends inside a byte."""
    begin, end, step = case
    rank = len(tensor[2])
    got_shape, got_bytes, view = (c.c_uint64 * max(rank, 1))(), c.c_uint64(), c.c_void_p()
    status, message = call("st_tensor_slice", handle, array(begin), array(end), array(step), got_shape, c.byref(got_bytes),
                           c.byref(view))
    where = f"{tensor[1]} {tensor[2]} {begin} {end} {step}: {message}"
    if expected == MISALIGNED:
        assert status == 309, where
        counts["misaligned"] += 1
        return None
    assert status == 0, where
    buffer = c.create_string_buffer(got_bytes.value + 1)
    must("st_tensor_read_slice", handle, array(begin), array(end), array(step), buffer, got_bytes.value)
    data = buffer.raw[:-1]
    assert spelled(got_shape[:rank], data) == expected and buffer.raw[-1] == 0, where
    if view.value:
        assert c.string_at(view.value, len(data)) == data, where
        counts["contiguous"] += 1
    counts["equal"] += 1
    return data


def run_plan(file, wanted, options):
    plan = c.c_void_p()
    must("st_plan_new", file, c.byref(plan))
    buffers = []
    for handle, (begin, end, step), data in wanted:
        buffers.append(c.create_string_buffer(len(data) + 1))
        must("st_plan_add", plan, handle, array(begin), array(end), array(step), buffers[-1], len(data))
    must("st_plan_run", plan, c.byref(options))
    st.st_plan_free(plan)
    for buffer, (_, case, data) in zip(buffers, wanted):
        assert buffer.raw[:-1] == data and buffer.raw[-1] == 0, f"plan: {case}"


def random_tensor(rng, name):
    shape = random_shape(rng)
    if rng.random() < 0.12:
        dtype = rng.choice(list(SUB_BYTE))
        shape += (8,)  # whole bytes in all
        size = math.prod(shape) * SUB_BYTE[dtype] // 8
    else:
        dtype = rng.choice(list(DTYPES))
        size = math.prod(shape) * BYTES[dtype]
    data = bytes(b & 1 for b in rng.randbytes(size)) if dtype == "BOOL" else rng.randbytes(size)
    return name, dtype, shape, data


def compare(rng, cases, slices_of_each, answers):
    counts = {"equal": 0, "misaligned": 0, "contiguous": 0, "planned": 0}
    with tempfile.TemporaryDirectory(dir=os.environ.get("ST_SCRATCH_DIR")) as folder:
        path = os.path.join(folder, "slices.safetensors")
        while counts["equal"] + counts["misaligned"] < cases:
            tensors = [random_tensor(rng, f"t{i}") for i in range(24)]
            write_file(path, tensors)
            file = c.c_void_p()
            must("st_open", path.encode(), None, c.byref(file))
            wanted = []
            for tensor in tensors:
                handle = st.st_get_tensor(file, tensor[0].encode())
                for _ in range(slices_of_each):
                    case = random_slice(rng, tensor[2])
                    expected = answers.answer((tensor, case), tensor, *case) if answers else by_numpy(tensor, *case)
                    data = check(handle, tensor, case, expected, counts)
                    if data is not None and rng.random() < 0.2:
                        wanted.append((handle, case, data))
            rng.shuffle(wanted)
            if rng.random() < 0.5:
                evict(path)
            run_plan(file, wanted, ReadOptions(struct_size=c.sizeof(ReadOptions), threads=rng.choice([0, 1, 3]),
                                               cache=rng.choice([0, 0, 1, 2]), chunk_bytes=rng.choice([0, 0, 65536])))
            counts["planned"] += len(wanted)
            st.st_free(file)
    if answers:
        answers.finish()
    print(f"{counts['equal']} slices equal to numpy's ({counts['contiguous']} of them contiguous views), "
          f"{counts['misaligned']} refused inside a byte; {counts['planned']} read again through plans")


def main():
    chosen = mode()
    if chosen != "--recorded" and np is None:
        skip("numpy is not installed")
    if not chosen:
        return compare(random.Random(20240229), CASES, 60, None)
    answers = Recorded("slices") if chosen == "--recorded" else Recorder("slices", by_numpy)
    compare(random.Random(RECORDED_SEED), RECORDED_CASES, 4, answers)


main()
