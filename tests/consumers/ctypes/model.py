"""Uses libsafetensors through ctypes: see ../c/model.c for what it does.

Nothing but the standard library is needed; whoever wants arrays takes the package in bindings/python.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes as c
import os
import sys
import threading
import time


class Error(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("status", c.c_int32), ("os_error", c.c_int32), ("reserved", c.c_uint32),
                ("offset", c.c_uint64), ("message", c.c_char * 232)]


Progress = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_uint64, c.c_uint64)


class ReadOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("threads", c.c_uint32), ("cache", c.c_int32),
                ("chunk_bytes", c.c_uint64), ("gap_bytes", c.c_uint64), ("ctx", c.c_void_p), ("progress", Progress),
                ("parallel_for", c.c_void_p)]


ReadAt = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_uint64, c.c_void_p, c.c_size_t)


class Source(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("ctx", c.c_void_p), ("size", c.c_uint64),
                ("read_at", ReadAt), ("close", c.c_void_p)]


class List(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("count", c.c_uint64), ("names", c.c_void_p),
                ("name_offsets", c.c_void_p), ("dtypes", c.c_void_p), ("ranks", c.c_void_p), ("dims", c.c_void_p),
                ("dim_offsets", c.c_void_p), ("offsets", c.c_void_p), ("sizes", c.c_void_p), ("shards", c.c_void_p),
                ("data", c.c_void_p), ("tensors", c.c_void_p), ("reserved", c.c_void_p)]


F32, BF16 = 12, 11
SLICE_BEGIN, SLICE_END = -(1 << 63), (1 << 63) - 1
lib = c.CDLL(os.environ.get("SAFETENSORS_LIBRARY", "libsafetensors.so.0"))
ptr, size, u64 = c.c_void_p, c.c_size_t, c.c_uint64


def declare(name, restype, *argtypes):
    function = getattr(lib, name)
    function.restype, function.argtypes = restype, argtypes


def declare_failing(name, *argtypes):
    """A function whose last parameter is an st_error: it raises instead of returning a status."""
    function = getattr(lib, name)
    function.argtypes = (*argtypes, c.POINTER(Error))

    def call(*arguments):
        error = Error(c.sizeof(Error))
        if function(*arguments, c.byref(error)) != 0:
            raise OSError(f"{lib.st_status_name(error.status).decode()}: {error.message.decode()}")

    setattr(lib, name, call)


# ctypes takes an undeclared pointer for an int of 32 bits and cuts it, so every function is declared.
declare("st_status_name", c.c_char_p, c.c_int32)
declare("st_dtype_name", c.c_char_p, c.c_int32)
declare("st_get_metadata", c.c_char_p, ptr, c.c_char_p, ptr)
declare("st_free", None, ptr)
declare("st_count_tensors", size, ptr)
declare("st_get_tensor_at", ptr, ptr, size)
declare("st_get_tensor", ptr, ptr, c.c_char_p)
declare("st_tensor_name", ptr, ptr, c.POINTER(size))
declare("st_tensor_dtype", c.c_int32, ptr)
declare("st_tensor_rank", size, ptr)
declare("st_tensor_shape", c.POINTER(u64), ptr)
declare("st_tensor_bytes", u64, ptr)
declare("st_tensor_offset", u64, ptr)
declare("st_tensor_list_free", None, c.POINTER(List))
declare("st_plan_free", None, ptr)
declare("st_writer_free", None, ptr)
declare_failing("st_open", c.c_char_p, ptr, c.POINTER(ptr))
declare_failing("st_open_source", c.POINTER(Source), ptr, c.POINTER(ptr))
declare_failing("st_list_tensors", ptr, c.c_uint32, c.POINTER(c.POINTER(List)))
declare_failing("st_tensor_read", ptr, ptr, size)
declare_failing("st_tensor_slice", ptr, ptr, ptr, ptr, ptr, c.POINTER(u64), ptr)
declare_failing("st_tensor_read_slice", ptr, ptr, ptr, ptr, ptr, size)
declare_failing("st_plan_new", ptr, c.POINTER(ptr))
declare_failing("st_plan_add", ptr, ptr, ptr, ptr, ptr, ptr, size)
declare_failing("st_plan_run", ptr, c.POINTER(ReadOptions))
declare_failing("st_convert", c.c_int32, ptr, c.c_int32, ptr, size)
declare_failing("st_writer_new", c.POINTER(ptr))
declare_failing("st_writer_copy_metadata", ptr, ptr)
declare_failing("st_writer_add_tensor", ptr, c.c_char_p, size, ptr)
declare_failing("st_writer_add", ptr, c.c_char_p, c.c_int32, size, c.POINTER(u64), ptr, c.POINTER(size))
declare_failing("st_writer_begin", ptr, c.c_char_p, ptr)
declare_failing("st_writer_put", ptr, size, u64, ptr, size)
declare_failing("st_writer_finish", ptr)


def open_model(path):
    file = ptr()
    lib.st_open(os.fsencode(path), None, c.byref(file))
    return file


def text(values):
    return " ".join(f"{value:g}" for value in values)


def by_columns(file):
    """Rows of (name, dtype, shape, bytes, offset). The columns are copied at once, so that no view outlives the list."""
    pointer = c.POINTER(List)()
    lib.st_list_tensors(file, 0, c.byref(pointer))
    row = pointer.contents
    count = row.count

    def column(address, code, rows):
        return memoryview((c.c_char * (rows * c.sizeof(code))).from_address(address)).cast("B").cast(code._type_).tolist()

    ends = column(row.name_offsets, u64, count + 1)
    names = c.string_at(row.names, ends[-1])
    dim_ends = column(row.dim_offsets, u64, count + 1)
    dims = column(row.dims, u64, dim_ends[-1]) if dim_ends[-1] else []
    dtypes, sizes, offsets = (column(address, code, count) for address, code in
                              [(row.dtypes, c.c_int32), (row.sizes, u64), (row.offsets, u64)])
    lib.st_tensor_list_free(pointer)
    return [(names[ends[i]:ends[i + 1] - 1].decode(), dtypes[i], dims[dim_ends[i]:dim_ends[i + 1]], sizes[i], offsets[i])
            for i in range(count)]


def by_getters(file):
    rows, length = [], size()
    for i in range(lib.st_count_tensors(file)):
        tensor = lib.st_get_tensor_at(file, i)
        name = lib.st_tensor_name(tensor, c.byref(length))
        shape = lib.st_tensor_shape(tensor)[:lib.st_tensor_rank(tensor)]
        rows.append((c.string_at(name, length.value).decode(), lib.st_tensor_dtype(tensor), shape,
                     lib.st_tensor_bytes(tensor), lib.st_tensor_offset(tensor)))
    return rows


def read_slice(file):
    """weight[1:3, ::-1]"""
    weight, pair = lib.st_get_tensor(file, b"weight"), c.c_int64 * 2
    part = pair(1, SLICE_END), pair(3, SLICE_BEGIN), pair(1, -1)
    nbytes = u64()
    lib.st_tensor_slice(weight, *part, None, c.byref(nbytes), None)
    values = (c.c_float * (nbytes.value // 4))()
    lib.st_tensor_read_slice(weight, *part, values, nbytes.value)
    print("weight[1:3, ::-1]:", text(values))


def read_many(file):
    plan, last = ptr(), []
    weight, bias = (c.c_float * 12)(), (c.c_float * 3)()  # the plan keeps their addresses: they are named until it has run

    def progress(_, done, total):
        last[:] = done, total
        return 0  # an exception here would be printed, and count as 0

    options = ReadOptions(c.sizeof(ReadOptions), threads=1, progress=Progress(progress))  # keeps the callback alive
    lib.st_plan_new(file, c.byref(plan))
    try:
        for name, values in [(b"weight", weight), (b"bias", bias)]:
            lib.st_plan_add(plan, lib.st_get_tensor(file, name), None, None, None, values, c.sizeof(values))
        lib.st_plan_run(plan, c.byref(options))
    finally:
        lib.st_plan_free(plan)
    print(f"plan: {last[0]} of {last[1]} bytes, the last weight is {weight[11]:g}")


def write_and_read_back(file):
    writer, index, doubled = ptr(), size(), (c.c_float * 3)(1, -2.5, 4)
    lib.st_writer_new(c.byref(writer))
    try:
        lib.st_writer_copy_metadata(writer, file)
        lib.st_writer_add_tensor(writer, None, 0, lib.st_get_tensor(file, b"scale"))
        lib.st_writer_add(writer, b"doubled", F32, 1, (u64 * 1)(3), None, c.byref(index))
        lib.st_writer_begin(writer, b"written.safetensors", None)
        lib.st_writer_put(writer, index, 0, doubled, c.sizeof(doubled))  # copied: doubled may go afterwards
        lib.st_writer_finish(writer)
    finally:
        lib.st_writer_free(writer)
    written, values = open_model("written.safetensors"), (c.c_float * 3)()
    lib.st_tensor_read(lib.st_get_tensor(written, b"doubled"), values, c.sizeof(values))
    print("written.safetensors, doubled:", text(values))
    lib.st_free(written)


def tour():
    file = open_model("model.safetensors")
    rows = by_columns(file)
    print(f"model.safetensors: {len(rows)} tensors, format {lib.st_get_metadata(file, b'format', None).decode()}")
    for name, dtype, shape, nbytes, _ in rows:
        print(f"  {name} {lib.st_dtype_name(dtype).decode()} {shape} {nbytes} bytes")
    bias = (c.c_float * 3)()
    lib.st_tensor_read(lib.st_get_tensor(file, b"bias"), bias, c.sizeof(bias))
    print("bias:", text(bias))
    read_slice(file)
    read_many(file)
    halves, scale = (c.c_uint16 * 2)(), (c.c_float * 2)()
    lib.st_tensor_read(lib.st_get_tensor(file, b"scale"), halves, c.sizeof(halves))
    lib.st_convert(BF16, halves, F32, scale, 2)
    print("scale as F32:", text(scale))
    write_and_read_back(file)
    try:
        open_model("truncated.safetensors")
    except OSError as error:
        print(error)
    lib.st_free(file)


def time_listing(path):
    file = open_model(path)
    start = time.perf_counter()
    getters = by_getters(file)
    middle = time.perf_counter()
    columns = by_columns(file)
    end = time.perf_counter()
    assert getters == columns
    print(f"getters {(middle - start) * 1e3:.1f} ms, columns {(end - middle) * 1e3:.1f} ms")
    lib.st_free(file)


def run_on(path, threads):
    """Reads through a function of Python. With several threads, its call on this thread waits for one on another."""
    with open(path, "rb") as stream:
        content = stream.read()
    caller, called, running, elsewhere = threading.get_ident(), set(), False, threading.Event()

    def read_at(_, offset, dst, n):
        called.add(threading.get_ident())
        c.memmove(dst, content[offset:offset + n], n)
        if threading.get_ident() != caller:
            elsewhere.set()
        elif running and threads > 1:
            elsewhere.wait()
        return 0

    def progress(_, done, total):
        assert threading.get_ident() == caller
        return 0

    source = Source(c.sizeof(Source), size=len(content), read_at=ReadAt(read_at))  # lives as long as the file
    file, plan = ptr(), ptr()
    lib.st_open_source(c.byref(source), None, c.byref(file))
    data = lib.st_get_tensor(file, b"data")
    values = c.create_string_buffer(lib.st_tensor_bytes(data))
    options = ReadOptions(c.sizeof(ReadOptions), threads=threads, chunk_bytes=1 << 16, progress=Progress(progress))
    lib.st_plan_new(file, c.byref(plan))
    lib.st_plan_add(plan, data, None, None, None, values, len(values))
    running = True
    lib.st_plan_run(plan, c.byref(options))
    lib.st_plan_free(plan)
    lib.st_free(file)
    assert values.raw == content[-len(values):]
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
