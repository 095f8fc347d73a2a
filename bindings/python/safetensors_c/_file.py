"""An open checkpoint: the handle of the library, and its table of tensors as Python values.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
from array import array
from ctypes import (PYFUNCTYPE, byref, c_int64, c_size_t, c_uint8, c_uint64, c_void_p, py_object, pythonapi, sizeof,
                    string_at)
from functools import partial
from operator import attrgetter

from . import _library
from ._dtypes import NAMES
from ._errors import SafetensorError
from ._library import call, path_of, quick, st
from ._source import Descriptor, FileObject, Opener, memory_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._index import Selection

_HAS_LISTS = hasattr(quick, "st_list_tensors")
_POINTER = "Q" if sizeof(c_void_p) == 8 else "I"


class Tensor:
    """One tensor: its handle (owned by the file), its properties, and its position in its shard."""

    __slots__ = ("handle", "name", "dtype", "shape", "nbytes", "shard", "offset")

    def __init__(self, handle: int, name: str, dtype: str, shape: list[int], nbytes: int, shard: int, offset: int):
        self.handle, self.name, self.dtype, self.shape, self.nbytes = handle, name, dtype, shape, nbytes
        self.shard, self.offset = shard, offset


def open_file(source, writable: bool) -> File:
    """Opens a checkpoint: with `writable` mapped copy-on-write, if it is a file that the system can map."""
    if not writable or not isinstance(source, (str, os.PathLike, Descriptor)):
        return File(source)
    try:
        return File(source, _library.IO_COPY)
    except SafetensorError as error:
        if error.status != "ST_ERR_MAP":
            raise
        return File(source, _library.IO_READ)


_untrack = (PYFUNCTYPE(None, py_object)(("PyObject_GC_UnTrack", pythonapi))
            if hasattr(pythonapi, "PyObject_GC_UnTrack") else lambda _: None)


class _Handle:
    """Owns what the library opened, and the memory that the library refers to. Freed when nothing refers to it.

    All of `__del__` is C. At the first line of a Python function the handler of a signal may run, such as Ctrl-C: its
    exception would be lost there, and the memory too.

    It is hidden from the collector of cycles, unless `keep` may refer to the file. The collector calls finalizers in any
    order, and a finalizer of the program may still read from the file.
    """

    __slots__ = ("keep", "_free")

    def __init__(self, opened: c_void_p):
        self._free = partial(st.st_free, opened)
        self.keep: object = None

    __del__ = property(attrgetter("_free"))


# The options of st_open by the kind of access. The library copies them.
_OPTIONS = [_library.new(_library.OpenOptions, io=io) for io in range(4)]


class _Once:
    """The table of a file, made at the first access. cached_property has a lock before Python 3.12, which would stay locked
    in a forked process if another thread was making a table."""

    def __get__(self, file: File, _kind=None) -> Table:
        return file.__dict__.setdefault("table", Table(file.handle))


class File:
    """An open checkpoint. Arrays that lie in its mapping keep it open."""

    def __init__(self, source, io: int = _library.IO_AUTO):
        self._regions: dict[int, Any] = {}
        self.views: dict[int, Any] = {}  # the regions as arrays of a framework, by shard
        self.writable = io == _library.IO_COPY
        self.in_memory = False
        self.opener: Opener | None = None  # its reads are requests, or calls of Python
        out, options = c_void_p(), _OPTIONS[io]
        self._owner = _Handle(out)
        if isinstance(source, Descriptor):
            call(st.st_open_fd, source.handle, 0, 0, byref(options), byref(out), context="header",
                 size=os.fstat(source.number).st_size)
        elif isinstance(source, (str, os.PathLike)):
            path = path_of(source, FileNotFoundError(f"No such file or directory: {os.fspath(source)!r}"))
            call(st.st_open, path, byref(options), byref(out), context="header", path=path)
        elif isinstance(source, (bytes, bytearray, memoryview)):
            address, size, self._owner.keep = memory_of(source)
            self.in_memory = True
            call(st.st_open_memory, address, size, None, None, byref(options), byref(out), context="bytes", size=size)
        elif isinstance(source, Opener):
            self.opener = source
            source.open(options, out)
        elif hasattr(source, "read") and hasattr(source, "seek"):
            self.opener = FileObject(source)
            self.opener.open(options, out)
        else:
            raise TypeError("argument 'filename': expected str, bytes or os.PathLike object, not "
                            + type(source).__name__)
        kept = getattr(source, "obj", source) if self.in_memory else None
        if kept is None or type(kept) in (bytes, bytearray):
            _untrack(self._owner)
        self.handle = out.value or 0

    table = _Once()

    def find(self, name: str) -> Tensor | None:
        if "table" in self.__dict__:
            return self.table.get(name)
        text = str.encode(name, "utf-8", "surrogatepass")
        handle = quick.st_get_tensor_n(self.handle, text, len(text))
        if not handle:
            return None
        return Tensor(handle, name, NAMES[quick.st_tensor_dtype(handle)], _shape(handle), quick.st_tensor_bytes(handle),
                      quick.st_tensor_shard(handle), quick.st_tensor_offset(handle))

    def count(self) -> int:
        return quick.st_count_tensors(self.handle)

    def metadata(self) -> dict[str, str] | None:
        if not quick.st_has_metadata(self.handle):
            return None
        pairs, key_len, value, value_len = {}, c_size_t(), c_void_p(), c_size_t()
        for i in range(quick.st_count_metadata(self.handle)):
            key = quick.st_get_metadata_at(self.handle, i, byref(key_len), byref(value), byref(value_len))
            pairs[string_at(key, key_len.value).decode()] = string_at(value.value or 0, value_len.value).decode()
        return pairs

    def shards(self) -> list[str]:
        return [os.fsdecode(quick.st_get_shard_path(self.handle, i))
                for i in range(quick.st_count_shards(self.handle))]

    def warnings(self) -> list[str]:
        return [quick.st_get_warning(self.handle, i).decode() for i in range(quick.st_count_warnings(self.handle))]

    def region(self, tensor: Tensor):
        """The mapping of the tensor's shard, to which can be written, and the tensor's place in it; None if there is no
        such mapping. The mapping has the buffer interface, and keeps the file open.
        """
        region = self.memory(tensor.shard, tensor.handle, tensor.offset) if self.writable else None
        return None if region is None else (region, tensor.offset)

    def memory(self, shard: int, handle: int, offset: int):
        """The bytes of a shard, mapped or in memory, by one of its tensors; None if it is neither. They keep the file
        open. Only a copy-on-write mapping may be written to. Touching a mapping raises SIGBUS if the file has become
        shorter since.
        """
        region = self._regions.get(shard)
        if region is None:
            address = st.st_tensor_data(handle)
            if not address:
                return None
            region = (c_uint8 * quick.st_get_shard_size(self.handle, shard)).from_address(address - offset)
            region.owner = self._owner
            region = self._regions.setdefault(shard, region)  # another thread may have been first
        return region

    def read(self, tensor: Tensor, address: int) -> None:
        """Copies the bytes of a tensor to where there is room for them."""
        if self._reads_at_once(tensor.nbytes):
            from . import _plan
            _plan.read(self, [(tensor.handle, address, tensor.nbytes)])
        else:
            self.call(st.st_tensor_read, tensor.handle, address, tensor.nbytes)

    def read_slice(self, tensor: Tensor, part: Selection, address: int, size: int) -> None:
        """Copies the bytes of a slice, `size` of them, to where there is room for them."""
        if self._reads_at_once(size):
            from . import _plan
            _plan.read(self, [(tensor.handle, address, size)], parts=[part])
        elif size:
            kind = c_int64 * len(part.begin)
            self.call(st.st_tensor_read_slice, tensor.handle, kind(*part.begin), kind(*part.end), kind(*part.step), address,
                      size)

    def call(self, function, *arguments) -> None:
        """Calls a function that reads from this file."""
        (call if self.opener is None else self.opener.call)(function, *arguments)

    def _reads_at_once(self, size: int) -> bool:
        """Whether a plan reads bytes by several requests at the same time. A small slice is one request, or it is several
        that do not depend on each other."""
        return size > 0 and self.opener is not None and self.opener.threads != 1


class _List:
    """A list of the library, which is freed when nothing refers to it, all in C as for _Handle."""

    __slots__ = ("rows", "_free")

    def __init__(self, file: int):
        out = c_void_p()
        self._free = partial(quick.st_tensor_list_free, out)
        _untrack(self)
        call(quick.st_list_tensors, file, 0, byref(out))
        self.rows = _library.TensorList.from_address(out.value or 0)

    __del__ = property(attrgetter("_free"))


class Table:
    """All tensors of a file in the order of their data, in columns; `index` finds a row by name.

    The names and shapes are Python values from the start, the other columns when they are first asked for.
    """

    __slots__ = ("names", "dims", "ends", "dtypes", "sizes", "handles", "shards", "offsets", "_index", "_firsts", "_list")

    names: list[str]
    dims: list[int]
    ends: list[int]
    dtypes: list[int]
    sizes: list[int]
    handles: list[int]
    shards: list[int]
    offsets: list[int]

    def __init__(self, file: int):
        self._index: dict[str, int] | None = None
        self._firsts: dict[int, int] | None = None
        if _HAS_LISTS:
            self._list = _List(file)
            self._copy(self._list.rows)
        else:
            self._ask_for_each(file)

    def _copy(self, rows) -> None:
        count = rows.count
        last = c_uint64.from_address(rows.name_offsets + sizeof(c_uint64) * count).value if count else 0
        text = string_at(rows.names, last) if last else b""
        self.names = text.decode().split("\0")[:-1]
        if len(self.names) != count:  # a name holds a NUL
            starts = _column("Q", rows.name_offsets, count + 1)
            self.names = [text[begin:end - 1].decode() for begin, end in zip(starts, starts[1:])]
        self.ends = _column("Q", rows.dim_offsets, count + 1)
        self.dims = _column("Q", rows.dims, self.ends[count])

    def __getattr__(self, name: str):
        code = _LATER.get(name)
        if code is None:
            raise AttributeError(f"'Table' object has no attribute {name!r}")
        rows = self._list.rows
        values = _column(code, getattr(rows, "tensors" if name == "handles" else name), rows.count)
        setattr(self, name, values)
        return values

    def _ask_for_each(self, file: int) -> None:
        """For libraries before 0.2, which have no lists."""
        count, length = quick.st_count_tensors(file), c_size_t()
        self.handles = [quick.st_get_tensor_at(file, i) for i in range(count)]
        self.names = [string_at(quick.st_tensor_name(each, byref(length)), length.value).decode() if each else ""
                      for each in self.handles]
        self.dtypes = [quick.st_tensor_dtype(each) for each in self.handles]
        self.sizes = [quick.st_tensor_bytes(each) for each in self.handles]
        self.shards = [quick.st_tensor_shard(each) for each in self.handles]
        self.offsets = [quick.st_tensor_offset(each) for each in self.handles]
        self.dims, self.ends = [], [0]
        for each in self.handles:
            self.dims += _shape(each)
            self.ends.append(len(self.dims))

    @property
    def index(self) -> dict[str, int]:
        if self._index is None:
            self._index = dict(zip(self.names, range(len(self.names))))
        return self._index

    @property
    def firsts(self) -> dict[int, int]:
        """The first row of each shard."""
        if self._firsts is None:
            firsts: dict[int, int] = {}
            for row, shard in enumerate(self.shards):
                firsts.setdefault(shard, row)
            self._firsts = firsts
        return self._firsts

    def dtype(self, i: int) -> str:
        return NAMES[self.dtypes[i]]

    def shape(self, i: int) -> list[int]:
        return self.dims[self.ends[i]:self.ends[i + 1]]

    def shapes(self) -> list[list[int]]:
        dims = self.dims
        return [dims[begin:end] for begin, end in zip(self.ends, self.ends[1:])]

    def row(self, i: int) -> Tensor:
        return Tensor(self.handles[i], self.names[i], self.dtype(i), self.shape(i), self.sizes[i], self.shards[i],
                      self.offsets[i])

    def get(self, name: str) -> Tensor | None:
        i = self.index.get(name)
        return None if i is None else self.row(i)

    def rows(self) -> list[Tensor]:
        return [self.row(i) for i in range(len(self.names))]


class Maker:
    """Makes tensors of a framework. Each framework has `tensor`, `tensors` and `slice`. `row` and `part` are by the row of the
    table, where that is faster. `prepare` and `device` are for a plan of several tensors and slices."""

    def tensor(self, file: File, tensor: Tensor):
        raise NotImplementedError

    def slice(self, file: File, tensor: Tensor, index):
        raise NotImplementedError

    def row(self, file: File, i: int):
        return self.tensor(file, file.table.row(i))

    def part(self, file: File, i: int, index):
        return self.slice(file, file.table.row(i), index)

    def prepare(self, tensor: Tensor, index) -> tuple:
        """Allocates a tensor for an index, or for all of it (None). Returns the address and the size of its memory, the
        Selection that a plan reads to it or None, and a function that returns the tensor after the run."""
        raise NotImplementedError

    def device(self) -> tuple:
        """The device for plans whose memory `prepare` allocates, or None, and its stream."""
        return None, 0


# The columns that not every program asks for, by the type of their values.
_LATER = {"dtypes": "i", "sizes": "Q", "shards": "I", "offsets": "Q", "handles": _POINTER}


def _column(code: str, address: int | None, count: int) -> list[int]:
    return memoryview(string_at(address, count * _SIZES[code])).cast(code).tolist() if count else []


_SIZES = {code: array(code).itemsize for code in "iIQ"}


def _shape(tensor: int) -> list[int]:
    rank = quick.st_tensor_rank(tensor)
    return (c_uint64 * rank).from_address(quick.st_tensor_shape(tensor))[:] if rank else []
