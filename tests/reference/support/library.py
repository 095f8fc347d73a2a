"""The library through ctypes, as far as the tests here need it: open bytes, list what is in them.

Bound by hand and in full types, so that a pointer never passes as an int.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

STRICT, REFERENCE, UNKNOWN_DTYPES = 1, 2, 4
OK = 0
NOWHERE = 2**64 - 1


class Error(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("status", c_int32), ("os_error", c_int32), ("reserved", c_uint32),
                ("offset", c_uint64), ("message", ctypes.c_char * 232)]


class OpenOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("io", c_int32), ("threads", c_uint32),
                ("max_header_bytes", c_uint64), ("allocator", c_void_p)]


FUNCTIONS = {
    "st_status_name": (c_char_p, [c_int32]),
    "st_version_string": (c_char_p, []),
    "st_open": (c_int32, [c_char_p, c_void_p, c_void_p, c_void_p]),
    "st_open_memory": (c_int32, [c_char_p, c_size_t, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "st_free": (None, [c_void_p]),
    "st_count_tensors": (c_size_t, [c_void_p]),
    "st_get_tensor_at": (c_void_p, [c_void_p, c_size_t]),
    "st_get_tensor_n": (c_void_p, [c_void_p, c_char_p, c_size_t]),
    "st_tensor_name": (c_void_p, [c_void_p, c_void_p]),
    "st_tensor_dtype_name": (c_char_p, [c_void_p]),
    "st_tensor_rank": (c_size_t, [c_void_p]),
    "st_tensor_shape": (POINTER(c_uint64), [c_void_p]),
    "st_tensor_bytes": (c_uint64, [c_void_p]),
    "st_tensor_offset": (c_uint64, [c_void_p]),
    "st_tensor_data": (c_void_p, [c_void_p]),
    "st_tensor_read": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "st_count_metadata": (c_size_t, [c_void_p]),
    "st_get_metadata_at": (c_void_p, [c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "st_get_metadata": (c_void_p, [c_void_p, c_char_p, c_void_p]),
}


class Refused(Exception):
    def __init__(self, status, error):
        super().__init__(f"{status}: {error.message.decode('utf-8', 'replace')} (offset {error.offset})")
        self.status = status
        self.offset = error.offset


class Library:
    def __init__(self, path):
        self.so = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.so, name)
            function.restype, function.argtypes = result, arguments

    def open_memory(self, data, flags=0):
        """A handle, to be freed; `data` must outlive it."""
        out, options, error = self._arguments(flags)
        status = self.so.st_open_memory(data, len(data), None, None, byref(options), byref(out), byref(error))
        return self._handle(status, out, error)

    def open(self, path, flags=0, io=0):
        out, options, error = self._arguments(flags, io)
        status = self.so.st_open(path.encode(), byref(options), byref(out), byref(error))
        return self._handle(status, out, error)

    @staticmethod
    def _arguments(flags, io=0):
        options = OpenOptions(struct_size=ctypes.sizeof(OpenOptions), flags=flags, io=io)
        return c_void_p(), options, Error(struct_size=ctypes.sizeof(Error))

    def _handle(self, status, out, error):
        if status != OK:
            raise Refused(self.so.st_status_name(status).decode(), error)
        return out

    def tensors(self, file):
        """{name: (dtype, shape, offset in the file, bytes)} in data order."""
        so, listed, size = self.so, {}, c_size_t()
        for i in range(so.st_count_tensors(file)):
            tensor = so.st_get_tensor_at(file, i)
            name_at = so.st_tensor_name(tensor, byref(size))
            name = ctypes.string_at(name_at, size.value)
            shape = so.st_tensor_shape(tensor)[: so.st_tensor_rank(tensor)]
            data = ctypes.create_string_buffer(max(1, so.st_tensor_bytes(tensor)))
            status = so.st_tensor_read(tensor, data, so.st_tensor_bytes(tensor), None)
            assert status == OK, name
            assert so.st_get_tensor_n(file, name, len(name)) == tensor, f"{name} is not found by its name"
            listed[name.decode()] = (so.st_tensor_dtype_name(tensor).decode(), shape, so.st_tensor_offset(tensor),
                                     data.raw[: so.st_tensor_bytes(tensor)])
        return listed

    def metadata(self, file):
        """[(key, value)]"""
        key_size, value, size, pairs = c_size_t(), c_void_p(), c_size_t(), []
        for i in range(self.so.st_count_metadata(file)):
            key = self.so.st_get_metadata_at(file, i, byref(key_size), byref(value), byref(size))
            key = ctypes.string_at(key, key_size.value)
            pairs.append((key.decode(), ctypes.string_at(value.value, size.value).decode()))
        return pairs
