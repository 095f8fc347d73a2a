"""The originals of bintensors (reference/crates, built by cargo) through ctypes: write a table, digest it, list a file.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
from ctypes import POINTER, byref, c_bool, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p

from . import skip

CRATES = pathlib.Path(__file__).parents[1] / "crates"
READ, REFUSED, PANICS, ALIASED = range(4)

FUNCTIONS = {
    "table_new": (c_void_p, [c_bool]),
    "table_pair": (None, [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t]),
    "table_add": (None, [c_void_p, c_char_p, c_size_t, c_uint32, c_void_p, c_size_t, c_char_p, c_size_t]),
    "table_write": (c_void_p, [c_void_p, c_bool, c_void_p]),
    "table_digest": (c_void_p, [c_void_p, c_bool, c_bool, c_void_p]),
    "table_free": (None, [c_void_p]),
    "file_list": (c_void_p, [c_char_p, c_size_t, c_bool, POINTER(c_uint32), c_void_p]),
    "bytes_free": (None, [c_void_p, c_size_t]),
}


def build(folder):
    cargo = shutil.which("cargo")
    if not cargo:
        skip("no cargo to build the crates to compare with")
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}  # a sanitizer is for us alone
    command = [cargo, "build", "--release", "--locked", "--quiet", "--target-dir", str(folder)]
    run = subprocess.run(command, cwd=CRATES, env=environment, capture_output=True, text=True)
    if run.returncode != 0:
        skip(f"the crates to compare with cannot be built: {run.stderr.strip()[-300:]}")
    return folder / "release" / "libreference_crates.so"


class Table:
    """What is to be written: tensors (name, code, shape, data) and the metadata, or None."""

    def __init__(self, so, tensors, metadata):
        self.so = so
        self.table = so.table_new(metadata is not None)
        for key, value in (metadata or {}).items():
            key, value = key.encode(), value.encode()
            so.table_pair(self.table, key, len(key), value, len(value))
        for name, code, shape, data in tensors:
            name, dims = name.encode(), (c_uint64 * max(1, len(shape)))(*shape)
            so.table_add(self.table, name, len(name), code, dims, len(shape), data, len(data))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.so.table_free(self.table)

    def _taken(self, function, *arguments):
        return taken(self.so, function(self.table, *arguments, byref(size := c_size_t())), size)

    def write(self, older):
        return self._taken(self.so.table_write, older)

    def digest(self, older, sha256):
        return self._taken(self.so.table_digest, older, sha256)


def taken(so, pointer, size):
    answer = ctypes.string_at(pointer, size.value)
    so.bytes_free(pointer, size)
    return answer


class Originals:
    def __init__(self, folder):
        self.so = ctypes.CDLL(str(build(folder)))
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.so, name)
            function.restype, function.argtypes = result, arguments

    def table(self, tensors, metadata):
        return Table(self.so, tensors, metadata)

    def list(self, data, older):
        """(verdict, what the file holds)."""
        verdict, size = c_uint32(), c_size_t()
        pointer = self.so.file_list(data, len(data), older, byref(verdict), byref(size))
        return verdict.value, taken(self.so, pointer, size)
