"""Uses libsafetensors through ctypes: see ../c/model.c for what it does.

Nothing is declared by hand: SAFETENSORS_JSON names the installed safetensors.json. Nothing but the standard library is needed;
whoever wants arrays takes the package in bindings/python.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes as c
import json
import os
import sys
import threading
import time


with open(os.environ["SAFETENSORS_JSON"], encoding="utf-8") as stream:
    API = json.load(stream)  # share/safetensors/safetensors.json: all that follows is made from it
lib = c.CDLL(os.environ.get("SAFETENSORS_LIBRARY", "libsafetensors.so.0"))
CONSTANTS = {constant["name"]: constant["value"] for enum in API["enums"] for constant in enum["constants"]}
CONSTANTS.update((macro["name"], int(macro["value"])) for macro in API["macros"])
TYPES = {"void": None, "char": c.c_char, "int32_t": c.c_int32, "uint32_t": c.c_uint32, "int64_t": c.c_int64, "uint64_t": c.c_uint64,
         "size_t": c.c_size_t, "intptr_t": c.c_ssize_t, **{enum["name"]: c.c_int32 for enum in API["enums"]}}
OPAQUE = {"void", *(handle["name"] for handle in API["handles"])}
CALLBACKS, ptr, size, u64 = {}, c.c_void_p, c.c_size_t, c.c_uint64


def type_of(type, text=c.c_char_p):
    """text: what const char * is."""
    if "callback" in type:
        return CALLBACKS[type["callback"]]
    if "array" in type:
        return type_of(type["array"]) * type["length"]
    if "pointer" not in type:
        return TYPES[type["name"]]
    to = type["pointer"]
    if to == {"name": "char", "const": True}:
        return text
    return ptr if to.get("name") in OPAQUE else c.POINTER(type_of(to))


def declare_structs():
    for struct in API["structs"]:  # all names first: callbacks take pointers to them, and they hold callbacks
        TYPES[struct["name"]] = type(struct["name"], (c.Structure,), {})
    for callback in API["callbacks"]:
        parameters = [type_of(parameter["type"]) for parameter in callback["parameters"]]
        CALLBACKS[callback["name"]] = c.CFUNCTYPE(type_of(callback["returns"]["type"]), *parameters)
    layout = next(name for name, one in API["layouts"].items()
                  if (one["pointer"], one["align_of_64_bits"]) == (c.sizeof(ptr), c.alignment(u64)))
    for struct in API["structs"]:
        made = TYPES[struct["name"]]
        # A c_char_p would end at the first NUL when it is read.
        made._fields_ = [(field["name"], type_of(field["type"], c.POINTER(c.c_char))) for field in struct["fields"]]
        assert c.sizeof(made) == struct["layouts"][layout]["size"], struct["name"]
        for field in struct["fields"]:
            assert getattr(made, field["name"]).offset == field["offset"][layout], f"{struct['name']}.{field['name']}"


def declare(function):
    """ctypes takes an undeclared pointer for an int of 32 bits and cuts it. A function with an st_error raises instead."""
    declared, returns = getattr(lib, function["name"]), function["returns"]
    declared.argtypes = [type_of(parameter["type"]) for parameter in function["parameters"]]
    declared.restype = type_of(returns["type"], ptr if "length" in returns else c.c_char_p)  # as above
    if returns["type"].get("name") != "st_status":
        return

    def call(*arguments):
        error = fresh("st_error")
        if declared(*arguments, c.byref(error)) != CONSTANTS["ST_OK"]:
            raise OSError(f"{lib.st_status_name(error.status).decode()}: {error.message.decode()}")

    setattr(lib, function["name"], call)


def fresh(struct, **members):
    return TYPES[struct](c.sizeof(TYPES[struct]), **members)


declare_structs()
for function in API["functions"]:
    declare(function)
F32, BF16, SLICE_BEGIN, SLICE_END = (CONSTANTS[f"ST_{name}"] for name in ("F32", "BF16", "SLICE_BEGIN", "SLICE_END"))


def open_model(path):
    file = ptr()
    lib.st_open(os.fsencode(path), None, c.byref(file))
    return file


def text(values):
    return " ".join(f"{value:g}" for value in values)


def by_columns(file):
    """Rows of (name, dtype, shape, bytes, offset). The columns are copied at once, so that no view outlives the list."""
    pointer = c.POINTER(TYPES["st_tensor_list"])()
    lib.st_list_tensors(file, 0, c.byref(pointer))
    row = pointer.contents
    count = row.count
    ends, dim_ends = row.name_offsets[:count + 1], row.dim_offsets[:count + 1]
    names, dims = row.names[:ends[-1]], row.dims[:dim_ends[-1]] if dim_ends[-1] else []
    dtypes, sizes, offsets = (column[:count] if count else [] for column in (row.dtypes, row.sizes, row.offsets))
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

    options = fresh("st_read_options", threads=1, progress=CALLBACKS["st_read_options.progress"](progress))  # keeps it alive
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
    print(f"model.safetensors: {len(rows)} tensors, format {c.string_at(lib.st_get_metadata(file, b'format', None)).decode()}")
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

    source = fresh("st_source", size=len(content), read_at=CALLBACKS["st_source.read_at"](read_at))  # lives as long as the file
    file, plan = ptr(), ptr()
    lib.st_open_source(c.byref(source), None, c.byref(file))
    data = lib.st_get_tensor(file, b"data")
    values = c.create_string_buffer(lib.st_tensor_bytes(data))
    options = fresh("st_read_options", threads=threads, chunk_bytes=1 << 16, progress=CALLBACKS["st_read_options.progress"](progress))
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
