"""Lists names, dtypes, shapes, offsets and sizes of all tensors of a file through ctypes, in two ways that end in the same
Python values: getters, which take a call per answer, and the columns of st_list_tensors.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes as c
import json
import struct
import sys
import time

st = c.CDLL(sys.argv[1])
TENSORS = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
ROUNDS = 7


class List(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("count", c.c_uint64)] + \
        [(name, c.c_void_p) for name in "names name_offsets dtypes ranks dims dim_offsets offsets sizes shards data tensors reserved".split()]


P, SIZE, U64P = c.c_void_p, c.c_size_t, c.POINTER(c.c_uint64)
for name, result, arguments in [
        ("st_open_memory", c.c_int32, [c.c_char_p, SIZE, P, P, P, c.POINTER(P), P]), ("st_free", None, [P]),
        ("st_count_tensors", SIZE, [P]), ("st_get_tensor_at", P, [P, SIZE]), ("st_tensor_name", P, [P, c.POINTER(SIZE)]),
        ("st_tensor_dtype", c.c_int32, [P]), ("st_tensor_rank", SIZE, [P]), ("st_tensor_shape", U64P, [P]),
        ("st_tensor_offset", c.c_uint64, [P]), ("st_tensor_bytes", c.c_uint64, [P]),
        ("st_list_tensors", c.c_int32, [P, c.c_uint32, c.POINTER(c.POINTER(List)), P]), ("st_tensor_list_free", None, [P])]:
    getattr(st, name).restype, getattr(st, name).argtypes = result, arguments


def sample():
    header = {f"model.layers.{i // 12}.block.{i % 12}.weight": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [4 * i, 4 * i + 4]}
              for i in range(TENSORS)}
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4 * TENSORS)


def by_getters(file):
    rows, length = [], SIZE()
    for i in range(st.st_count_tensors(file)):
        tensor = st.st_get_tensor_at(file, i)
        text = st.st_tensor_name(tensor, c.byref(length))
        shape = st.st_tensor_shape(tensor)[:st.st_tensor_rank(tensor)]
        rows.append((c.string_at(text, length.value).decode(), st.st_tensor_dtype(tensor), shape,
                     st.st_tensor_offset(tensor), st.st_tensor_bytes(tensor)))
    return rows


def column(address, kind, count):
    return (kind * count).from_address(address)[:] if count else []


def by_columns(file):
    out = c.POINTER(List)()
    assert st.st_list_tensors(file, 0, c.byref(out), None) == 0
    all_of, count = out.contents, out.contents.count
    ends = column(all_of.name_offsets, c.c_uint64, count + 1)
    text = c.string_at(all_of.names, ends[-1])
    if text.count(0) == count:  # no name holds a NUL
        names = text.decode().split("\0")[:count]
    else:
        names = [text[a:b - 1].decode() for a, b in zip(ends, ends[1:])]
    begins = column(all_of.dim_offsets, c.c_uint64, count + 1)
    dims = column(all_of.dims, c.c_uint64, begins[-1])
    shapes = [dims[a:b] for a, b in zip(begins, begins[1:])]
    rows = list(zip(names, column(all_of.dtypes, c.c_int32, count), shapes, column(all_of.offsets, c.c_uint64, count),
                    column(all_of.sizes, c.c_uint64, count)))
    st.st_tensor_list_free(out)
    return rows


whole = sample()
file = P()
assert st.st_open_memory(whole, len(whole), None, None, None, c.byref(file), None) == 0
assert by_getters(file) == by_columns(file)
for name, function in [("a call per answer", by_getters), ("columns", by_columns)]:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        rows = function(file)
        times.append(time.perf_counter() - begin)
        del rows
    print(f"{name:20} {min(times) * 1e3:8.1f} ms for {TENSORS} tensors (best of {ROUNDS}; the worst {max(times) * 1e3:.1f})")
st.st_free(file)
