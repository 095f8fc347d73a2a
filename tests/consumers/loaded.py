"""What a foreign function interface does: dlopen, read a tensor, dlclose - after which the library is really gone.

Whoever loads plug-ins loads and unloads for as long as the process lives; what stays behind (a unique symbol, a
thread_local with a destructor) is a leak, and keeps an updated library from being loaded.
usage: loaded.py LIBRARY

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import struct
import sys
import _ctypes


class Error(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("status", ctypes.c_int32), ("os_error", ctypes.c_int32),
                ("reserved", ctypes.c_uint32), ("offset", ctypes.c_uint64), ("message", ctypes.c_char * 232)]


def mapped(path):
    with open("/proc/self/maps") as maps:
        return any(os.path.basename(path) in line for line in maps)


def use(library):
    library.st_get_tensor.restype = library.st_version_string.restype = ctypes.c_void_p
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    data = struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1.5, -2.0)
    error, file, values = Error(ctypes.sizeof(Error)), ctypes.c_void_p(), (ctypes.c_float * 2)()

    def opened(size):
        return library.st_open_memory(data, ctypes.c_size_t(size), None, None, None, ctypes.byref(file), ctypes.byref(error))

    assert opened(len(data) - 1) == 311 and error.message, error.message  # thrown and caught inside
    assert opened(len(data)) == 0, error.message
    tensor = ctypes.c_void_p(library.st_get_tensor(file, b"a"))
    assert library.st_tensor_read(tensor, values, ctypes.c_size_t(8), ctypes.byref(error)) == 0, error.message
    assert list(values) == [1.5, -2.0], list(values)
    library.st_free(file)


path = os.path.realpath(sys.argv[1])
for _ in range(3):
    library = ctypes.CDLL(path)
    assert mapped(path)
    use(library)
    _ctypes.dlclose(library._handle)
    assert not mapped(path), "still in /proc/self/maps after dlclose"
