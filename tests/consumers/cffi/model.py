"""Uses libsafetensors through cffi in ABI mode: see ../c/model.c for what it does.

SAFETENSORS_CDEF names the header as `cc -E -P -DST_API= safetensors.h` prints it.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
import threading
import time

import cffi

ffi = cffi.FFI()
with open(os.environ["SAFETENSORS_CDEF"]) as header:
    ffi.cdef(header.read())
st = ffi.dlopen(os.environ.get("SAFETENSORS_LIBRARY", "libsafetensors.so.0"))
NULL = ffi.NULL
SLICE_BEGIN, SLICE_END = -(1 << 63), (1 << 63) - 1


def fresh(struct):
    value = ffi.new(f"{struct} *")
    value.struct_size = ffi.sizeof(struct)
    return value


def string(pointer):
    return ffi.string(pointer).decode()


def check(function, *arguments):
    """Calls a function whose last parameter is an st_error."""
    error = fresh("st_error")
    if function(*arguments, error) != st.ST_OK:
        raise OSError(f"{string(st.st_status_name(error.status))}: {string(error.message)}")


def make(free, kind, function, *arguments):
    """Calls a function that returns an object, which is freed with the variable that holds it."""
    out = ffi.new(f"{kind} **")
    check(function, *arguments, out)
    return ffi.gc(out[0], free)


def open_model(path):
    return make(st.st_free, "st_file", st.st_open, os.fsencode(path), NULL)


def text(values):
    return " ".join(f"{value:g}" for value in values)


def by_columns(file):
    rows = make(st.st_tensor_list_free, "st_tensor_list", st.st_list_tensors, file, 0)
    n = rows.count
    ends, dim_ends = ffi.unpack(rows.name_offsets, n + 1), ffi.unpack(rows.dim_offsets, n + 1)
    names = ffi.unpack(rows.names, ends[n])
    dims = ffi.unpack(rows.dims, dim_ends[n])
    columns = zip(ffi.unpack(rows.dtypes, n), ffi.unpack(rows.sizes, n), ffi.unpack(rows.offsets, n))
    return [(names[ends[i]:ends[i + 1] - 1].decode(), dtype, dims[dim_ends[i]:dim_ends[i + 1]], size, offset)
            for i, (dtype, size, offset) in enumerate(columns)]


def by_getters(file):
    rows, length = [], ffi.new("size_t *")
    for i in range(st.st_count_tensors(file)):
        tensor = st.st_get_tensor_at(file, i)
        name = ffi.unpack(st.st_tensor_name(tensor, length), length[0]).decode()
        rank = st.st_tensor_rank(tensor)
        shape = ffi.unpack(st.st_tensor_shape(tensor), rank) if rank else []
        rows.append((name, st.st_tensor_dtype(tensor), shape, st.st_tensor_bytes(tensor), st.st_tensor_offset(tensor)))
    return rows


def read(tensor, kind, count):
    values = ffi.new(f"{kind}[]", count)
    check(st.st_tensor_read, tensor, values, ffi.sizeof(values))
    return values


def read_slice(file):
    """weight[1:3, ::-1]"""
    weight, nbytes = st.st_get_tensor(file, b"weight"), ffi.new("uint64_t *")
    part = [ffi.new("int64_t[]", pair) for pair in [(1, SLICE_END), (3, SLICE_BEGIN), (1, -1)]]
    check(st.st_tensor_slice, weight, *part, NULL, nbytes, NULL)
    values = ffi.new("float[]", nbytes[0] // 4)
    check(st.st_tensor_read_slice, weight, *part, values, ffi.sizeof(values))
    print("weight[1:3, ::-1]:", text(values))


def read_many(file):
    last = []

    @ffi.callback("int32_t(void *, uint64_t, uint64_t)", error=1)  # an exception cancels the run
    def progress(_, done, total):
        last[:] = done, total
        return 0

    options = fresh("st_read_options")
    options.threads, options.progress = 1, progress
    plan = make(st.st_plan_free, "st_plan", st.st_plan_new, file)
    weight, bias = ffi.new("float[12]"), ffi.new("float[3]")  # owned by these names; the plan has only the addresses
    for name, values in [(b"weight", weight), (b"bias", bias)]:
        check(st.st_plan_add, plan, st.st_get_tensor(file, name), NULL, NULL, NULL, values, ffi.sizeof(values))
    check(st.st_plan_run, plan, options)
    print(f"plan: {last[0]} of {last[1]} bytes, the last weight is {weight[11]:g}")


def write_and_read_back(file):
    index, doubled = ffi.new("size_t *"), ffi.new("float[]", [1, -2.5, 4])
    writer = make(st.st_writer_free, "st_writer", st.st_writer_new)
    check(st.st_writer_copy_metadata, writer, file)
    check(st.st_writer_add_tensor, writer, NULL, 0, st.st_get_tensor(file, b"scale"))
    check(st.st_writer_add, writer, b"doubled", st.ST_F32, 1, ffi.new("uint64_t[]", [3]), NULL, index)
    check(st.st_writer_begin, writer, b"written.safetensors", NULL)
    check(st.st_writer_put, writer, index[0], 0, doubled, ffi.sizeof(doubled))
    check(st.st_writer_finish, writer)
    written = open_model("written.safetensors")
    print("written.safetensors, doubled:", text(read(st.st_get_tensor(written, b"doubled"), "float", 3)))


def tour():
    file = open_model("model.safetensors")
    rows = by_columns(file)
    print(f"model.safetensors: {len(rows)} tensors, format {string(st.st_get_metadata(file, b'format', NULL))}")
    for name, dtype, shape, nbytes, _ in rows:
        print(f"  {name} {string(st.st_dtype_name(dtype))} {shape} {nbytes} bytes")
    print("bias:", text(read(st.st_get_tensor(file, b"bias"), "float", 3)))
    read_slice(file)
    read_many(file)
    scale = ffi.new("float[2]")
    check(st.st_convert, st.ST_BF16, read(st.st_get_tensor(file, b"scale"), "uint16_t", 2), st.ST_F32, scale, 2)
    print("scale as F32:", text(scale))
    write_and_read_back(file)
    try:
        open_model("truncated.safetensors")
    except OSError as error:
        print(error)


def time_listing(path):
    file = open_model(path)
    start = time.perf_counter()
    getters = by_getters(file)
    middle = time.perf_counter()
    columns = by_columns(file)
    end = time.perf_counter()
    assert getters == columns
    print(f"getters {(middle - start) * 1e3:.1f} ms, columns {(end - middle) * 1e3:.1f} ms")


def run_on(path, threads):
    """Reads through a function of Python. With several threads, its call on this thread waits for one on another."""
    with open(path, "rb") as stream:
        content = stream.read()
    caller, called, running, elsewhere = threading.get_ident(), set(), False, threading.Event()

    @ffi.callback("int32_t(void *, uint64_t, void *, size_t)", error=1)
    def read_at(_, offset, dst, n):
        called.add(threading.get_ident())
        ffi.memmove(dst, content[offset:offset + n], n)
        if threading.get_ident() != caller:
            elsewhere.set()
        elif running and threads > 1:
            elsewhere.wait()
        return 0

    @ffi.callback("int32_t(void *, uint64_t, uint64_t)", error=1)
    def progress(_, done, total):
        assert threading.get_ident() == caller
        return 0

    source, options = fresh("st_source"), fresh("st_read_options")
    source.size, source.read_at = len(content), read_at  # the function lives as long as the file
    file = make(st.st_free, "st_file", st.st_open_source, source, NULL)
    data = st.st_get_tensor(file, b"data")
    values = ffi.new("char[]", st.st_tensor_bytes(data))
    options.threads, options.chunk_bytes, options.progress = threads, 1 << 16, progress
    plan = make(st.st_plan_free, "st_plan", st.st_plan_new, file)
    check(st.st_plan_add, plan, data, NULL, NULL, NULL, values, len(values))
    running = True
    check(st.st_plan_run, plan, options)
    assert ffi.buffer(values)[:] == content[-len(values):]
    return called - {caller}


def show_threads(path):
    print(f"threads = 1: calls on {'other threads too' if run_on(path, 1) else 'the calling thread'}")
    print(f"threads = 4: calls on {'other threads too' if run_on(path, 4) else 'the calling thread'}")


sys.stdout.reconfigure(encoding="utf-8")
if sys.argv[1:2] == ["--list"]:
    time_listing(sys.argv[2])
elif sys.argv[1:2] == ["--threads"]:
    show_threads(sys.argv[2])
else:
    tour()
