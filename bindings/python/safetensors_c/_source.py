"""What a checkpoint can be opened from besides a path: a descriptor, memory, and an object that reads and seeks.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import io
import os
import sys
import threading
from ctypes import addressof, byref, c_uint8, c_void_p, memmove

from . import _callbacks, _library
from ._errors import not_an_instance
from ._library import call, st


class Descriptor:
    """An open descriptor, which the library duplicates; on Windows it takes the HANDLE instead."""

    def __init__(self, number: int):
        self.number = self.handle = number
        if sys.platform == "win32":
            import msvcrt
            self.handle = msvcrt.get_osfhandle(number)


def memory_of(data) -> tuple[int | None, int, object]:
    """The address and size of the bytes of an object, and what keeps them in place."""
    if isinstance(data, bytes):  # whose address ctypes tells though it cannot be written to
        return _library.address_of_bytes(data), bytes.__len__(data), data  # a subclass may override len()
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError("the memory is not contiguous")
    if view.nbytes == 0:
        return None, 0, view
    if view.readonly:  # ctypes gives no address of it
        numpy = sys.modules.get("numpy")  # importing it would take longer than the copy
        if numpy is None:
            return memory_of(bytes(view))
        return numpy.frombuffer(view, numpy.uint8).ctypes.data, view.nbytes, view
    held = (c_uint8 * view.nbytes).from_buffer(view)
    return addressof(held), view.nbytes, held


def check_bytes(data) -> None:
    """For functions that take the content of a file, where safe_open would also take a path."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise not_an_instance("bytes", data, "bytes")
    if may_be_path(data):
        from ._file import File
        File(data)  # fails


def may_be_path(data) -> bool:
    """Whether bytes cannot be the content of a file: its first eight bytes are a number below 2^32, with zeros."""
    return isinstance(data, (bytes, bytearray, memoryview)) and 0 not in bytes(data[:8])


class FileObject:
    """Lets the library read an object that has `read` and `seek`, one call at a time."""

    def __init__(self, file):
        reader = _Reader(file)
        self._raised, self._read_at = reader.raised, _library.READ_AT(reader.copy)
        size = file.seek(0, io.SEEK_END)
        size = file.tell() if size is None else size
        # Without ST_SOURCE_SERIAL: the library's lock would stay locked in a process forked during a read.
        self._source = _library.new(_library.Source, size=size, read_at=self._read_at)

    def open(self, options, out: c_void_p) -> None:
        self.call(st.st_open_source, byref(self._source), byref(options), byref(out), context="header",
                  size=self._source.size)

    def call(self, function, *arguments, **context) -> None:
        """Calls a function that reads the file. What the file raises is the cause of the error, or raised itself if it
        is to end the program.
        """
        error = None
        try:
            with _callbacks.kept(self._raised):
                call(function, *arguments, **context)
        except Exception as problem:
            error = problem
        try:
            cause = self._raised.pop() if self._raised else None
            self._raised.clear()
            if cause is not None and (error is None or not isinstance(cause, Exception)):
                raise cause
            if error is not None:
                raise error from cause
        finally:
            error = cause = None  # which hold this frame by their tracebacks


class _Reader:
    """Apart from FileObject, which would hold itself by its callback."""

    def __init__(self, file):
        self._file, self._lock, self._process = file, threading.Lock(), os.getpid()
        self._thread: int | None = None  # which holds the lock
        self.raised: list[BaseException] = []

    def copy(self, _, offset: int, destination: int, count: int) -> int:
        try:
            if self._process != os.getpid():  # another thread may have held the lock at the fork
                self._lock, self._process, self._thread = threading.Lock(), os.getpid(), None
            if self._thread == threading.get_ident():
                raise RuntimeError("the file object's methods read the checkpoint that is read from the object")
            with self._lock:
                self._thread = threading.get_ident()
                try:
                    self._fill(offset, destination, count)
                finally:
                    self._thread = None
            return 0
        except BaseException as problem:
            self.raised.append(problem)
            return 1

    def _fill(self, offset: int, destination: int, count: int) -> None:
        self._file.seek(offset)
        while count:
            data = self._file.read(count)
            size = bytes.__len__(data) if isinstance(data, bytes) else 0  # a subclass may override len()
            if not 0 < size <= count:
                raise OSError(f"read({count}) returned {data!r:.60} where {count} bytes should be")
            memmove(destination, data, size)
            destination, count = destination + size, count - size
