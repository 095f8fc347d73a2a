#!/usr/bin/env python3
"""The writer's bytes beside the reference's: random tables through both, compared byte for byte.

Every dtype that the reference's Python package can write (it lacks the two of six bits, which conformance/writer
covers), names and values with escapes, empty names, scalars, empty tensors, no metadata, an empty map, one key. With
several keys the reference's order is random: there the headers must be equal once both are read.

    writer.py
    writer.py --record | --recorded    (support/recorded.py)

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import json
import os
import random
import sys
import tempfile

from support import need_reference
from support.recorded import Recorded, Recorder, digest, mode

TABLES = int(os.environ.get("ST_TABLES", "3000"))
SEED = 20240911
RECORDED_TABLES, RECORDED_SEED = 600, 20240912

# ours, the reference's name for it, bits
DTYPES = [
    ("BOOL", "bool", 8), ("U8", "uint8", 8), ("I8", "int8", 8), ("U16", "uint16", 16), ("I16", "int16", 16),
    ("U32", "uint32", 32), ("I32", "int32", 32), ("U64", "uint64", 64), ("I64", "int64", 64), ("F16", "float16", 16),
    ("BF16", "bfloat16", 16), ("F32", "float32", 32), ("F64", "float64", 64), ("C64", "complex64", 64),
    ("F8_E4M3", "float8_e4m3fn", 8), ("F8_E5M2", "float8_e5m2", 8), ("F8_E8M0", "float8_e8m0fnu", 8),
    ("F8_E4M3FNUZ", "float8_e4m3fnuz", 8), ("F8_E5M2FNUZ", "float8_e5m2fnuz", 8), ("F4", "float4_e2m1fn_x2", 4),
]


class Error(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("status", ctypes.c_int32), ("os_error", ctypes.c_int32),
                ("reserved", ctypes.c_uint32), ("offset", ctypes.c_uint64), ("message", ctypes.c_char * 232)]


def load():
    library = ctypes.CDLL(os.environ["ST_LIBRARY"])
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    library.st_dtype_from_name.argtypes = [text, size]
    library.st_writer_new.argtypes = [pointer, pointer]
    library.st_writer_set_metadata.argtypes = [pointer, text, text, pointer]
    library.st_writer_set_metadata_n.argtypes = [pointer, text, size, text, size, pointer]
    library.st_writer_add_n.argtypes = [pointer, text, size, ctypes.c_int32, size, pointer, pointer, pointer, pointer]
    library.st_writer_begin.argtypes = [pointer, text, pointer, pointer]
    library.st_writer_finish.argtypes = [pointer, pointer]
    library.st_writer_free.argtypes = [pointer]
    return library


def ours(library, path, tensors, metadata):
    error = Error(ctypes.sizeof(Error))

    def call(function, *arguments):
        if function(*arguments, ctypes.byref(error)) != 0:
            raise AssertionError(error.message.decode())

    writer = ctypes.c_void_p()
    call(library.st_writer_new, ctypes.byref(writer))
    try:
        if metadata is not None:
            call(library.st_writer_set_metadata, writer, None, None)
            for key, value in metadata.items():
                key, value = key.encode(), value.encode()
                call(library.st_writer_set_metadata_n, writer, key, len(key), value, len(value))
        for name, (dtype, _, _), shape, data in tensors:
            name = name.encode()
            call(library.st_writer_add_n, writer, name, len(name), library.st_dtype_from_name(dtype.encode(), len(dtype)),
                 len(shape), (ctypes.c_uint64 * len(shape))(*shape), ctypes.cast(data, ctypes.c_void_p), None)
        call(library.st_writer_begin, writer, path.encode(), None)
        call(library.st_writer_finish, writer)
    finally:
        library.st_writer_free(writer)
    with open(path, "rb") as file:
        return file.read()


def reference(tensors, metadata):
    from safetensors._safetensors_rust import TensorSpec, serialize
    specs = {}
    for name, (_, dtype, bits), shape, data in tensors:
        # Its Python layer counts F4 in pairs along the last dimension.
        shape = shape[:-1] + [shape[-1] // 2] if bits == 4 else shape
        specs[name] = TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(data), data_len=len(data) - 1)
    return bytes(serialize(specs, metadata))


PIECES = ["model", "layers", ".", "-", "_", "weight", "bias", "q_proj", "0", "1", "10", "2", " ", "/", '"', "\\", "\b", "\f",
          "\n", "\r", "\t", "\0", "\x01", "\x1f", "\x7f", "é", "ß", "漢字", "😀", "\u2028", "\ufeff", "\uffff", "A", "a", "~"]


def random_text(rng, most):
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(most)))


def random_shape(rng, bits):
    shape = [rng.choice([0, 1, 1, 2, 3, 4, 5, 7, 8, 16]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 7]))]
    if bits == 4:
        shape = shape or [2]
        shape[-1] *= 2
    return shape


def random_tensors(rng):
    names = {random_text(rng, 8) for _ in range(rng.choice([0, 1, 2, 3, 5, 10, 30]))} - {"__metadata__"}
    tensors = []
    for name in rng.sample(sorted(names), len(names)):
        dtype = rng.choice(DTYPES)
        shape = random_shape(rng, dtype[2])
        elements = 1
        for dim in shape:
            elements *= dim
        if elements * dtype[2] > 1 << 16:
            shape, elements = [2], 2
        data = ctypes.create_string_buffer(rng.randbytes(elements * dtype[2] // 8))
        tensors.append((name, dtype, shape, data))
    return tensors


def random_metadata(rng):
    count = rng.choice([None, None, 0, 1, 1, 1, 2, 5])
    if count is None:
        return None
    return {random_text(rng, 6): random_text(rng, 12) for _ in range(count)}


def split(file):
    length = int.from_bytes(file[:8], "little")
    return json.loads(file[8:8 + length], object_pairs_hook=list), file[8 + length:], length


def same_but_for_order(a, b):
    (header_a, data_a, length_a), (header_b, data_b, length_b) = split(a), split(b)
    keys = [key for key, _ in header_a[0][1]]
    sort = lambda header: [("__metadata__", sorted(header[0][1]))] + header[1:]
    return keys == sorted(keys, key=str.encode) and sort(header_a) == sort(header_b) and (data_a, length_a) == (data_b, length_b)


def random_table(rng):
    tensors, metadata = random_tensors(rng), random_metadata(rng)
    if not tensors and metadata == {}:
        metadata = None  # what the reference writes then is no file
    return tensors, metadata


# ---- recorded answers --------------------------------------------------------------------------------------------------

def in_one_order(file, metadata):
    if metadata is None or len(metadata) < 2:
        return file
    (first, *rest), data, length = split(file)
    return (first[0], sorted(first[1])), rest, data, length


def recorded_answer(tensors, metadata):
    return digest(in_one_order(reference(tensors, metadata), metadata))


def compare_recorded(library, answers):
    rng, differences = random.Random(RECORDED_SEED), 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(RECORDED_TABLES):
            tensors, metadata = random_table(rng)
            case = [(name, dtype, shape, data.raw) for name, dtype, shape, data in tensors], metadata
            answer = answers.answer(case, tensors, metadata)
            mine = ours(library, os.path.join(folder, "x.safetensors"), tensors, metadata)
            if digest(in_one_order(mine, metadata)) != answer:
                differences += 1
                print(f"table {number} differs from {answer}: {mine[:400]}")
    answers.finish()
    print(f"{RECORDED_TABLES} tables against digests of what the reference wrote: {differences} differences")
    return 1 if differences else 0


def main():
    chosen, library = mode(), load()
    if chosen == "--recorded":
        return compare_recorded(library, Recorded("writer"))
    need_reference()
    if chosen == "--record":
        return compare_recorded(library, Recorder("writer", recorded_answer))
    rng = random.Random(SEED)
    identical = reordered = 0
    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        for number in range(TABLES):
            tensors, metadata = random_table(rng)
            seen.update(dtype[0] for _, dtype, _, _ in tensors)
            mine, theirs = ours(library, path, tensors, metadata), reference(tensors, metadata)
            if mine == theirs:
                identical += 1
            elif metadata is not None and len(metadata) > 1 and same_but_for_order(mine, theirs):
                reordered += 1
            else:
                print(f"table {number} differs:\n ours      {mine[:400]}\n reference {theirs[:400]}")
                return 1
    assert seen == {dtype[0] for dtype in DTYPES}, seen
    print(f"{TABLES} tables: {identical} byte for byte, {reordered} but for the order of their metadata keys")
    return 0 if identical >= TABLES * 2 // 3 else 1


if __name__ == "__main__":
    sys.exit(main())
