"""What a checkpoint can be opened from besides a path: a descriptor, memory, an object that reads and seeks, and a
filesystem of fsspec. _http.py opens URLs.

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

_PARALLEL = {"parallel": 16, "chunk_bytes": 8 << 20, "gap_bytes": 128 << 10}  # requests to a server, as by libsafetensors-http


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


class Opener:
    """What opens a checkpoint, and is kept while the library refers to it. The library has no mapping of such files."""

    threads = 0  # that read, unless the caller requests a number; 0: as many as suit the library
    slow = False  # a read can take so long that Ctrl-C must end it

    def open(self, options, out: c_void_p) -> None:
        raise NotImplementedError

    def call(self, function, *arguments, **context) -> None:
        """Calls a function that reads the files."""
        call(function, *arguments, **context)


class _Called(Opener):
    """Has functions of Python that the library calls. Their exceptions become the cause of the error. Exceptions that end the
    program, such as KeyboardInterrupt, are raised as they are."""

    _raised: _Raised

    def __init__(self) -> None:
        self._raised = _Raised()
        self._ranges: list[_Ranges] = []

    def call(self, function, *arguments, **context) -> None:
        self._call(function, *arguments, **context)
        for reader in self._ranges:
            reader.check()

    def _call(self, function, *arguments, **context) -> None:
        error, raised = None, self._raised
        before, mine = raised.here.call, []
        raised.here.call = mine
        try:
            with _callbacks.kept(mine):
                call(function, *arguments, **context)
        except Exception as problem:
            error = problem
        finally:
            raised.here.call = before
        try:
            cause = mine.pop() if mine else raised.of_library() if error is not None else None
            mine.clear()
            if cause is not None and (error is None or not isinstance(cause, Exception)):
                raise cause
            if error is not None:
                raise error from cause
        finally:
            error = cause = None  # which hold this frame by their tracebacks


class _Raised:
    """What callbacks raise, for the calls in which they do: several threads may read at the same time."""

    def __init__(self) -> None:
        self.here = _Here()
        self._elsewhere: list[BaseException] = []  # in threads of the library, which may be those of any call

    def append(self, problem: BaseException) -> None:
        (self._elsewhere if self.here.call is None else self.here.call).append(problem)

    def of_library(self) -> BaseException | None:
        raised, self._elsewhere = self._elsewhere, []
        return raised[-1] if raised else None


class _Here(threading.local):
    call: list[BaseException] | None = None  # that this thread makes


class FileObject(_Called):
    """Lets the library read an object that has `read` and `seek`: one call at a time, or several if it belongs to a
    filesystem of fsspec that can do that."""

    def __init__(self, file):
        super().__init__()
        reader = _reader(file, self._raised, _Turn())
        self._read_at = _library.READ_AT(reader.copy)
        if reader.parallel:
            self._ranges.append(reader)
            self._source = _library.new(_library.ParallelSource, size=reader.size, read_at=self._read_at, **_PARALLEL)
        else:
            self.threads = 1
            # Without ST_SOURCE_SERIAL: the library's lock would stay locked in a process forked during a read.
            self._source = _library.new(_library.Source, size=reader.size, read_at=self._read_at)

    def open(self, options, out: c_void_p) -> None:
        self._call(st.st_open_source, byref(self._source), byref(options), byref(out), context="header",
                   size=self._source.size)


class Store(_Called):
    """Lets the library open files of a filesystem of fsspec by their names, such as the shards of an index."""

    def __init__(self, filesystem, name):
        if not isinstance(name, str):
            raise TypeError(f"with fs=, the name of a file is 'str', not '{type(name).__name__}'")
        if not hasattr(filesystem, "open"):
            raise TypeError(f"fs: '{type(filesystem).__name__}' object is not a filesystem of fsspec")
        if not _library.HAS_STORES:
            raise ImportError(f"fs= needs libsafetensors 0.3; {_library.path} is older")
        super().__init__()
        self._name = _library.path_of(name)
        if not _is_parallel(filesystem):
            self.threads = 1
        self._files = _Files(filesystem, self._raised, self._ranges)
        self._store = _library.new(_library.Store, open=_library.OPEN(self._files.open),
                                   parallel=_PARALLEL["parallel"] if self.threads == 0 else 1)

    def open(self, options, out: c_void_p) -> None:
        chosen = _library.new(_library.OpenOptions, io=options.io, threads=self.threads)
        self._call(st.st_open_store, byref(self._store), self._name, byref(chosen), byref(out), context="header",
                   path=self._name)


class _Files:
    """The open files of a Store. Apart from it, as _Reader from FileObject."""

    def __init__(self, filesystem, raised: _Raised, ranges: list[_Ranges]):
        self._filesystem, self._raised, self._ranges, self._turn = filesystem, raised, ranges, _Turn()
        self._callbacks: list = []  # the library calls them

    def open(self, _, name: bytes, source: int, error: int) -> int:
        try:
            file = self._filesystem.open(name.decode(), "rb")
            reader = _reader(file, self._raised, self._turn)
            read_at = _library.READ_AT(reader.copy)
            self._callbacks.append(read_at)
            given = _library.ParallelSource.from_address(source)
            given.size, given.read_at = reader.size, read_at
            if reader.parallel:
                self._ranges.append(reader)
                for member, value in _PARALLEL.items():
                    setattr(given, member, value)
            return 0
        except FileNotFoundError as problem:
            self._raised.append(problem)
            return _library.ERR_NOT_FOUND
        except BaseException as problem:
            self._raised.append(problem)
            return _library.ERR_CALLBACK


def _is_parallel(filesystem) -> bool:
    """Whether several threads may use a filesystem of fsspec at the same time: its requests run in a loop of asyncio."""
    fsspec = sys.modules.get("fsspec.asyn")
    # Some filesystems have the attributes of one in `fs`, such as async_impl, but are not asynchronous themselves.
    if fsspec is None or not issubclass(type(filesystem), fsspec.AsyncFileSystem) or filesystem.asynchronous:
        return False
    inner = getattr(filesystem, "fs", None)
    return _library.HAS_STORES and (inner is None or _is_parallel(inner))


def _reader(file, raised: _Raised, turn: _Turn) -> _Reader | _Ranges:
    fsspec = sys.modules.get("fsspec.spec")  # if the file belongs to it, it has been imported
    # Other caches keep parts of the file on purpose: reads go through them.
    if (fsspec is not None and isinstance(file, fsspec.AbstractBufferedFile) and _is_parallel(file.fs)
            and getattr(getattr(file, "cache", None), "name", None) in ("none", "readahead", "bytes")
            and isinstance(file.size, int)):
        return _Ranges(file, raised)
    return _Reader(file, raised, turn)


class _Turn:
    """Lets one thread at a time call methods of file objects. The thread that holds the lock may lock it again: the handler of
    a signal, which reads the same checkpoint, may run right behind that. While `reads` is set, that is an error."""

    def __init__(self) -> None:
        self.lock, self.process, self.reads = threading.RLock(), os.getpid(), False

    def check(self, file) -> None:
        if self.process != os.getpid():
            if not isinstance(file, io.BytesIO):
                raise RuntimeError("the file object was opened before a fork, and shares its position with other processes: "
                                   "open the file again")
            self.lock, self.process, self.reads = threading.RLock(), os.getpid(), False  # another thread may have held it


class _Reader:
    """Apart from FileObject, which would hold itself by its callback."""

    parallel = False

    def __init__(self, file, raised: _Raised, turn: _Turn):
        self._file, self._raised, self._turn = file, raised, turn
        size = file.seek(0, io.SEEK_END)
        self.size = file.tell() if size is None else size
        if not 0 <= self.size < 1 << 63:
            raise ValueError(f"the file object's size is {self.size}")

    def copy(self, _, offset: int, destination: int, count: int) -> int:
        try:
            turn = self._turn
            turn.check(self._file)
            with turn.lock:
                if turn.reads:
                    raise RuntimeError("the file object's methods read the checkpoint that is read from the object")
                try:
                    turn.reads = True
                    self._fill(offset, destination, count)
                finally:
                    turn.reads = False
            return 0
        except BaseException as problem:
            self._raised.append(problem)
            return 1

    def _fill(self, offset: int, destination: int, count: int) -> None:
        self._file.seek(offset)
        while count:
            size = _put(self._file.read(count), destination, count, f"read({count})")
            destination, count = destination + size, count - size


class _Ranges:
    """Reads a file of fsspec by requests for ranges. Its position is neither used nor moved."""

    parallel = True

    def __init__(self, file, raised: _Raised):
        self._file, self._raised, self.size = file, raised, file.size
        self._process = os.getpid()
        # HTTPFileSystem gives a file nothing but its size.
        self._version, self._has_changed = _version(file.details) or _version(file.fs.info(file.path)), False
        self._read = self._checked = object()  # the last range, by which check() sees that there are more
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises if the file has changed since it was opened, which few filesystems notice. This is one request after all
        ranges of a call."""
        if self._process != os.getpid():  # the lock may be held for ever; what reads bytes raises
            return
        with self._lock:
            read = self._read
            if self._version and read is not self._checked and not self._has_changed:
                try:
                    now = _version(self._file.fs.info(self._file.path))
                except Exception as problem:
                    raise OSError(f"'{self._file.path}': cannot find out whether the file has changed") from problem
                self._has_changed = now != self._version
                self._checked = read
            if self._has_changed:
                raise OSError(f"'{self._file.path}': the file has changed since it was opened")

    def copy(self, _, offset: int, destination: int, count: int) -> int:
        try:
            if self._process != os.getpid():  # where the thread that runs the requests is missing
                raise RuntimeError("the filesystem was used before a fork: make another one, and open the file again")
            while count:
                end = offset + count
                size = _put(self._file._fetch_range(offset, end), destination, count, f"range {offset}-{end}")
                self._read = object()
                offset, destination, count = offset + size, destination + size, count - size
            return 0
        except BaseException as problem:
            self._raised.append(problem)
            return 1


def _version(info: dict) -> dict:
    """What a filesystem of fsspec knows about the version of a file. Empty if that is only its size."""
    return {key: info[key] for key in ("ETag", "etag", "Last-Modified", "LastModified", "last_modified", "updated", "mtime")
            if info.get(key)}


def _put(data, destination: int, count: int, asked: str) -> int:
    """Copies what a file object returned, and returns the number of bytes."""
    size = bytes.__len__(data) if isinstance(data, bytes) else 0  # a subclass may override len()
    if not 0 < size <= count:
        raise OSError(f"{asked} returned {data!r:.60} where {count} bytes should be")
    memmove(destination, data, size)
    return size
