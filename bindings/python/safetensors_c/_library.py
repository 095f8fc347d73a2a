"""The C library: where it is found, its structs, and the prototypes of the functions that this package calls.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
import sys
from ctypes import (CDLL, CFUNCTYPE, POINTER, PyDLL, Structure, byref, c_char, c_char_p, c_int32, c_int64, c_size_t,
                    c_ssize_t, c_uint32, c_uint64, c_void_p, cast, sizeof)

from . import _errors

FILE_NAME = {"darwin": "libsafetensors.dylib", "win32": "safetensors.dll"}.get(sys.platform, "libsafetensors.so")
_SYSTEM_NAME = {"darwin": "libsafetensors.0.dylib", "win32": "safetensors.dll"}.get(sys.platform, "libsafetensors.so.0")

IO_AUTO, IO_MAP, IO_COPY, IO_READ = range(4)
CACHE_AUTO, CACHE_THROUGH, CACHE_AROUND, CACHE_MAPPED = range(4)
ERR_NOT_FOUND, ERR_CALLBACK = 103, 205
REDUCE_SUM, REDUCE_MIN, REDUCE_MAX = 1, 2, 3
FORMATS = {"safetensors": 1, "bintensors": 2, "bintensors-old": 3}
BUFFER_LAZY = 1
WRITE_SYNC, WRITE_KEEP_ORDER, WRITE_NO_REPLACE, WRITE_REPLACE_LINK = 1, 2, 4, 8
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


class Error(Structure):
    _fields_ = [("struct_size", c_uint32), ("status", c_int32), ("os_error", c_int32), ("reserved", c_uint32),
                ("offset", c_uint64), ("message", c_char * 232)]


class OpenOptions(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("io", c_int32), ("threads", c_uint32),
                ("max_header_bytes", c_uint64), ("allocator", c_void_p)]


READ_AT = CFUNCTYPE(c_int32, c_void_p, c_uint64, c_void_p, c_size_t)
RELEASE = CFUNCTYPE(None, c_void_p)
PROGRESS = CFUNCTYPE(c_int32, c_void_p, c_uint64, c_uint64)


class Source(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("ctx", c_void_p), ("size", c_uint64),
                ("read_at", READ_AT), ("close", RELEASE)]


class ParallelSource(Source):
    """Libraries before 0.3 have no such fields."""

    _fields_ = [("read", c_void_p), ("name", c_char_p), ("parallel", c_uint32), ("reserved", c_uint32),
                ("chunk_bytes", c_uint64), ("gap_bytes", c_uint64)]


OPEN = CFUNCTYPE(c_int32, c_void_p, c_char_p, c_void_p, c_void_p)


class Store(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("ctx", c_void_p), ("open", OPEN), ("close", RELEASE),
                ("parallel", c_uint32), ("reserved", c_uint32)]


class ReadOptions(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("threads", c_uint32), ("cache", c_int32),
                ("chunk_bytes", c_uint64), ("gap_bytes", c_uint64), ("ctx", c_void_p), ("progress", PROGRESS),
                ("parallel_for", c_void_p)]  # without `ready`, so that older libraries take it


ALLREDUCE = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, c_size_t)
ALLTOALLV = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)


class Group(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("ctx", c_void_p), ("rank", c_uint32), ("size", c_uint32),
                ("allreduce", ALLREDUCE), ("alltoallv", ALLTOALLV)]


class GroupReadOptions(ReadOptions):
    """Only for a run with a group: libraries before 0.3 have no such fields."""

    _fields_ = [("ready", c_void_p), ("group", c_void_p), ("exchange_bytes", c_uint64)]


class DeviceOptions(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("ordinal", c_int32), ("queues", c_uint32),
                ("staging_bytes", c_uint64), ("context", c_void_p), ("library", c_char_p)]


class WriteOptions(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("format", c_int32), ("reserved", c_uint32),
                ("data_alignment", c_uint64), ("header_reserve", c_uint64)]


class ReportingWriteOptions(WriteOptions):
    """Only for a save with progress: libraries before 0.3 have no such fields."""

    _fields_ = [("ctx", c_void_p), ("progress", PROGRESS)]


class TensorList(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("count", c_uint64), ("names", c_void_p),
                ("name_offsets", c_void_p), ("dtypes", c_void_p), ("ranks", c_void_p), ("dims", c_void_p),
                ("dim_offsets", c_void_p), ("offsets", c_void_p), ("sizes", c_void_p), ("shards", c_void_p),
                ("data", c_void_p), ("tensors", c_void_p), ("reserved", c_void_p)]


def new(struct, **members):
    """What ST_INIT does, with members."""
    return struct(struct_size=sizeof(struct), **members)


_FILE = _TENSOR = _PLAN = _WRITER = _OUT = _ERROR = c_void_p
_STATUS = c_int32

# These may wait for a disk or copy data, and are called without the interpreter's lock.
_SLOW = {
    "st_open": (_STATUS, c_char_p, c_void_p, _OUT, _ERROR),
    "st_open_memory": (_STATUS, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, _OUT, _ERROR),
    "st_open_fd": (_STATUS, c_ssize_t, c_uint64, c_uint64, c_void_p, _OUT, _ERROR),
    "st_open_source": (_STATUS, c_void_p, c_void_p, _OUT, _ERROR),
    "st_free": (None, _FILE),
    "st_tensor_data": (c_void_p, _TENSOR),
    "st_tensor_read": (_STATUS, _TENSOR, c_void_p, c_size_t, _ERROR),
    "st_tensor_read_slice": (_STATUS, _TENSOR, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, _ERROR),
    "st_plan_run": (_STATUS, _PLAN, c_void_p, _ERROR),
    "st_buffer_new": (_STATUS, c_uint64, c_uint32, c_uint32, _OUT, _ERROR),
    "st_buffer_free": (None, c_void_p),
    "st_writer_begin": (_STATUS, _WRITER, c_char_p, c_void_p, _ERROR),
    "st_writer_finish": (_STATUS, _WRITER, _ERROR),
    "st_writer_free": (None, _WRITER),
    "st_edit_metadata": (_STATUS, c_char_p, c_void_p, c_void_p, c_size_t, c_void_p, _ERROR),
}

# These only look at memory. Giving the interpreter's lock away would take longer than they do.
_QUICK = {
    "st_version": (c_uint32,),
    "st_version_string": (c_char_p,),
    "st_status_name": (c_char_p, c_int32),
    "st_count_tensors": (c_size_t, _FILE),
    "st_get_tensor_at": (c_void_p, _FILE, c_size_t),
    "st_get_tensor_n": (c_void_p, _FILE, c_char_p, c_size_t),
    "st_tensor_name": (c_void_p, _TENSOR, POINTER(c_size_t)),
    "st_tensor_dtype": (c_int32, _TENSOR),
    "st_tensor_rank": (c_size_t, _TENSOR),
    "st_tensor_shape": (c_void_p, _TENSOR),
    "st_tensor_bytes": (c_uint64, _TENSOR),
    "st_tensor_offset": (c_uint64, _TENSOR),
    "st_tensor_shard": (c_size_t, _TENSOR),
    "st_get_format": (c_int32, _FILE),
    "st_has_metadata": (c_int32, _FILE),
    "st_count_metadata": (c_size_t, _FILE),
    "st_get_metadata_at": (c_void_p, _FILE, c_size_t, POINTER(c_size_t), POINTER(c_void_p), POINTER(c_size_t)),
    "st_count_shards": (c_size_t, _FILE),
    "st_get_shard_path": (c_char_p, _FILE, c_size_t),
    "st_get_shard_size": (c_uint64, _FILE, c_size_t),
    "st_count_warnings": (c_size_t, _FILE),
    "st_get_warning": (c_char_p, _FILE, c_size_t),
    "st_plan_new": (_STATUS, _FILE, _OUT, _ERROR),
    "st_plan_add": (_STATUS, _PLAN, _TENSOR, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, _ERROR),
    "st_plan_cancel": (None, _PLAN),
    "st_plan_free": (None, _PLAN),
    "st_writer_new": (_STATUS, _OUT, _ERROR),
    "st_writer_set_metadata_n": (_STATUS, _WRITER, c_char_p, c_size_t, c_char_p, c_size_t, _ERROR),
    "st_writer_add_n": (_STATUS, _WRITER, c_char_p, c_size_t, c_int32, c_size_t, c_void_p, c_void_p, c_void_p, _ERROR),
}

_SINCE_0_2 = {
    "st_list_tensors": (_STATUS, _FILE, c_uint32, _OUT, _ERROR),
    "st_tensor_list_free": (None, c_void_p),
}

_SINCE_0_3 = {  # slow
    "st_open_store": (_STATUS, c_void_p, c_char_p, c_void_p, _OUT, _ERROR),
    "st_tensor_write_n": (_STATUS, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p, c_size_t, c_void_p, _ERROR),
}

_DEVICES = {
    "st_device_open_cuda": (_STATUS, c_void_p, _OUT, _ERROR),
    "st_device_open_hip": (_STATUS, c_void_p, _OUT, _ERROR),
    "st_device_alloc": (_STATUS, c_void_p, c_uint64, _OUT, _ERROR),
    "st_device_release": (None, c_void_p, c_void_p),
    "st_device_free": (None, c_void_p),
    "st_plan_add_device": (_STATUS, _PLAN, c_void_p, c_void_p, _TENSOR, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t,
                           _ERROR),
}


def _find() -> str:
    """The library that SAFETENSORS_C_LIBRARY names, else the one in this package, else the system's."""
    named = os.environ.get("SAFETENSORS_C_LIBRARY")
    if named:
        return named
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), FILE_NAME)
    return beside if os.path.exists(beside) else _SYSTEM_NAME


def _bind(library, prototypes) -> None:
    for name, (result, *arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


path = _find()
try:
    st = CDLL(path)  # every function gives the interpreter's lock away
    quick = PyDLL(path, handle=st._handle)  # none does
    _bind(st, _SLOW)
    _bind(quick, _QUICK)
    if hasattr(quick, "st_list_tensors"):
        _bind(quick, _SINCE_0_2)
    HAS_STORES = hasattr(st, "st_open_store")
    if HAS_STORES:
        _bind(st, _SINCE_0_3)
    HAS_DEVICES = hasattr(st, "st_plan_add_device")
    if HAS_DEVICES:
        _bind(st, _DEVICES)
except (OSError, AttributeError) as problem:
    raise ImportError(f"{path} is no library that safetensors_c can use: {problem}; "
                      f"set SAFETENSORS_C_LIBRARY to the path of {FILE_NAME}") from problem


def address_of_bytes(data: bytes) -> int:
    """Where the characters of a bytes object are. They stay there as long as it lives."""
    return cast(c_char_p(data), c_void_p).value or 0


def path_of(given, on_nul: Exception | None = None) -> bytes:
    """A path for the library, to which a NUL would be its end: `on_nul` is raised instead."""
    path = os.fsencode(given)
    if b"\0" in path:
        raise on_nul or ValueError("embedded null byte")
    return path


def failure(error: Error, context: str = "", size: int | None = None, path: bytes | None = None) -> Exception:
    """The exception for a call that filled `error`."""
    offset = None if error.offset == (1 << 64) - 1 else error.offset
    return _errors.from_status(quick.st_status_name(error.status).decode(), error.message.decode(errors="replace"),
                               offset, error.os_error, context, size, path)


def call(function, *arguments, context: str = "", size: int | None = None, path: bytes | None = None) -> None:
    """Calls a function that ends with `st_error *`, and raises what it reports."""
    error = new(Error)
    if function(*arguments, byref(error)):
        raise failure(error, context, size, path)
