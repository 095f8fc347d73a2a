"""libsafetensors-http through ctypes, and models to serve.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes as c
import json
import os
import struct

ST = c.CDLL(os.environ["ST_LIBRARY"])
HTTP = c.CDLL(os.environ["ST_HTTP_LIBRARY"])
PLAIN, PRIVATE = 1, 2
OPEN, READ, SHARD, UNSUPPORTED, ARGUMENT, HEADER_SIZE, STATE, CANCELLED = 201, 202, 312, 102, 100, 301, 106, 107
SECRETS = ("topsecret", "Bearer")  # in queries and headers; no message may contain them


class Error(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("status", c.c_int32), ("os_error", c.c_int32), ("reserved", c.c_uint32),
                ("offset", c.c_uint64), ("message", c.c_char * 232)]


class HttpOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("headers", c.POINTER(c.c_char_p)),
                ("header_count", c.c_size_t), ("ca_file", c.c_char_p), ("proxy", c.c_char_p), ("connections", c.c_uint32),
                ("redirects", c.c_uint32), ("tries", c.c_uint32), ("stall_ms", c.c_uint32), ("first_bytes", c.c_uint64),
                ("gap_bytes", c.c_uint64)]


class ReadOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("threads", c.c_uint32), ("cache", c.c_int32),
                ("chunk_bytes", c.c_uint64), ("gap_bytes", c.c_uint64), ("ctx", c.c_void_p), ("progress", c.c_void_p),
                ("parallel_for", c.c_void_p), ("ready", c.c_void_p)]


HTTP.st_open_url.argtypes = [c.c_char_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p]
HTTP.st_open_url_n.argtypes = [c.c_char_p, c.c_size_t, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p]
for name in ("st_get_tensor", "st_get_tensor_at"):
    getattr(ST, name).restype = c.c_void_p
ST.st_get_tensor.argtypes = [c.c_void_p, c.c_char_p]
ST.st_get_tensor_at.argtypes = [c.c_void_p, c.c_size_t]
ST.st_count_tensors.argtypes = ST.st_count_shards.argtypes = ST.st_free.argtypes = [c.c_void_p]
ST.st_count_tensors.restype = ST.st_count_shards.restype = c.c_size_t
ST.st_tensor_bytes.argtypes = [c.c_void_p]
ST.st_tensor_bytes.restype = c.c_uint64
ST.st_tensor_name.argtypes = [c.c_void_p, c.c_void_p]
ST.st_tensor_name.restype = c.c_char_p
ST.st_tensor_read.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p]
ST.st_get_shard_path.argtypes = [c.c_void_p, c.c_size_t]
ST.st_get_shard_path.restype = c.c_char_p
ST.st_plan_new.argtypes = [c.c_void_p, c.c_void_p, c.c_void_p]
ST.st_plan_add.argtypes = [c.c_void_p] * 6 + [c.c_size_t, c.c_void_p]
ST.st_plan_run.argtypes = [c.c_void_p, c.c_void_p, c.c_void_p]
ST.st_plan_cancel.argtypes = ST.st_plan_free.argtypes = [c.c_void_p]


class Failed(Exception):
    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message
        for secret in SECRETS:
            assert secret not in message, f"{secret} in {message}"


def check(status, error):
    if status != 0:
        assert error.status == status
        raise Failed(status, error.message.decode())


def open_with_length(url, length):
    """Returns what st_open_url_n opens: the first bytes of the URL."""
    error = Error(struct_size=c.sizeof(Error))
    given = HttpOptions(struct_size=c.sizeof(HttpOptions), flags=PLAIN | PRIVATE)
    opened = File.__new__(File)
    opened.file = c.c_void_p()
    check(HTTP.st_open_url_n(url, length, c.byref(given), None, c.byref(opened.file), c.byref(error)), error)
    return opened


class File:
    """An open checkpoint. Without `flags`, what the test server needs: plain HTTP on this machine."""

    def __init__(self, url, flags=PLAIN | PRIVATE, headers=(), ca_file=None, **options):
        given = HttpOptions(struct_size=c.sizeof(HttpOptions), flags=flags, ca_file=ca_file, **options)
        lines = (c.c_char_p * len(headers))(*[line.encode() for line in headers])
        given.headers, given.header_count = c.cast(lines, c.POINTER(c.c_char_p)), len(headers)
        error = Error(struct_size=c.sizeof(Error))
        self.file = c.c_void_p()
        check(HTTP.st_open_url(url.encode(), c.byref(given), None, c.byref(self.file), c.byref(error)), error)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ST.st_free(self.file)
        self.file = None

    def names(self):
        return [ST.st_tensor_name(ST.st_get_tensor_at(self.file, i), None).decode()
                for i in range(ST.st_count_tensors(self.file))]

    def shard_path(self, i):
        return ST.st_get_shard_path(self.file, i).decode()

    def tensor(self, name):
        found = ST.st_get_tensor(self.file, name.encode())
        assert found, name
        return found

    def read(self, name):
        tensor = self.tensor(name)
        memory = c.create_string_buffer(ST.st_tensor_bytes(tensor))
        error = Error(struct_size=c.sizeof(Error))
        check(ST.st_tensor_read(tensor, memory, len(memory), c.byref(error)), error)
        return memory.raw

    def plan(self, names=None, threads=0, ranges=None):
        """Reads tensors, or {name: (begin, end, bytes)} of their rows, by one plan. Lists begin and end in each dimension.

        Meanwhile, `running` is the plan.
        """
        error = Error(struct_size=c.sizeof(Error))
        self.running = plan = c.c_void_p()
        check(ST.st_plan_new(self.file, c.byref(plan), c.byref(error)), error)
        results = {}
        try:
            for name in (ranges or names or self.names()):
                tensor = self.tensor(name)
                begin = end = None
                size = ST.st_tensor_bytes(tensor)
                if ranges:
                    first, last, size = ranges[name]
                    begin, end = ((c.c_int64 * 2)(*(at if isinstance(at, list) else (at, rest)))
                                  for at, rest in ((first, 0), (last, 2**63 - 1)))
                results[name] = bytearray(size)
                to = (c.c_char * size).from_buffer(results[name]) if size else None
                check(ST.st_plan_add(plan, tensor, begin, end, None, to, size, c.byref(error)), error)
            options = ReadOptions(struct_size=c.sizeof(ReadOptions), threads=threads)
            check(ST.st_plan_run(plan, c.byref(options), c.byref(error)), error)
        finally:
            ST.st_plan_free(plan)
        return results


def data_of(size, seed=0):
    block = bytes((7 * i + i // 256 + seed) % 256 for i in range(65536 + seed % 7))
    return (block * (size // len(block) + 1))[:size]


def model(tensors, header_bytes=0):
    """The bytes of a file with {name: (shape, bytes)} of U8."""
    header, at = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "U8", "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * max(header_bytes - len(text), -len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values())


def simple(size, name="t", seed=0, header_bytes=0):
    return model({name: ((size,), data_of(size, seed))}, header_bytes)
