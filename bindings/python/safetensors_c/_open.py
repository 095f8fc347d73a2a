"""safe_open: a checkpoint that is open, and what it is asked for.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
from contextlib import suppress
from operator import index as as_integer

from ._errors import SafetensorError, TorchError, not_an_instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._http import HttpOptions
    from ._prefetch import PrefetchLoader, TensorMeta

# Windows commits memory for a whole copy-on-write mapping, so tensors of torch are read there.
_MAPS = os.name != "nt"

_FRAMEWORKS = {"pt": "pytorch", "torch": "pytorch", "pytorch": "pytorch", "np": "numpy", "numpy": "numpy",
               "tf": "tensorflow", "tensorflow": "tensorflow", "jax": "flax", "flax": "flax", "mlx": "mlx",
               "paddle": "paddle"}
_INDEXED = ("cuda", "musa", "npu", "xpu", "xla", "mlu", "hpu")


def _framework(given) -> str:
    if not isinstance(given, str):
        raise not_an_instance("framework", given)
    if given not in _FRAMEWORKS:
        given.encode()  # UnicodeEncodeError, if it is not text
        raise SafetensorError(f"framework {given} is invalid")
    return _FRAMEWORKS[given]


def _device(given):
    """The device in the words that frameworks take: "cpu", "mps", "cuda:0", or a number as it is."""
    if given is None:
        return "cpu"
    if not isinstance(given, str):
        try:
            number = as_integer(given)
        except TypeError:
            number = -1
        if 0 <= number < 1 << 63:
            return number
        if not hasattr(given, "type"):  # a torch.device has one
            raise TorchError(f"device {given!r} is invalid")
        given = str(given)
    kind, *number = given.split(":")
    if given in ("cpu", "mps"):
        return given
    if kind == "mps" and len(number) == 1:
        if _unsigned(number[0]):
            raise SafetensorError(f"device {given} is invalid: only mps or mps:0 is supported")
        return "mps"
    if kind not in _INDEXED or len(number) > 1:
        raise SafetensorError(f"device {given} is invalid")
    return f"{kind}:{_unsigned(number[0]) if number else 0}"


def _unsigned(text: str) -> int:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):  # int() takes signs, spaces and underscores
        raise ValueError("invalid digit found in string" if text else "cannot parse integer from empty string")
    if int(digits) >> 64:
        raise ValueError("number too large to fit in target type")
    return int(digits)


_URLS = ("https://", "http://", "hf://")

# Imported when the first file is opened. To say so in each function that needs them takes 1 us per call.
_file = _source = None
_makers: dict[str, Any] = {}


def _import() -> None:
    global _file, _source
    from . import _file, _source


def _maker(framework: str, device, mapped: bool, copied: bool):
    """What turns tensors of a file into those of the framework. Torch and paddle are imported here, the others for the
    first tensor, as by the reference.

    `mapped`: tensors of torch are views of the mapping, and slices for a GPU are copied from it. `copied`: tensors may be
    copied from the mapping, or from the memory that holds the file; otherwise they are read.
    """
    kind = _makers.get(framework)
    if kind is None:
        if framework == "pytorch":
            from ._torch import Tensors as kind
        elif framework == "paddle":
            from ._paddle import Tensors as kind
        else:
            from ._numpy import Arrays as kind
        _makers[framework] = kind
    if framework == "pytorch":
        return kind(device, mapped, copied)
    return kind(device) if framework == "paddle" else kind(_FROM_NUMPY.get(framework), copied)


def absolute(path) -> str:
    """The path from the root of the filesystem. On POSIX `..` stays: behind a symbolic link it leads elsewhere."""
    path = os.fsdecode(path)
    if os.name == "nt":
        return os.path.abspath(path)
    return path if path[:1] == "/" else os.path.join(os.getcwd(), path)  # there may be no current directory


def _to_flax(array):
    import jax.numpy
    return jax.numpy.array(array)


def _to_tensorflow(array):
    import tensorflow
    return tensorflow.convert_to_tensor(array)


def _to_mlx(array):
    import mlx.core
    return mlx.core.array(array)


_FROM_NUMPY = {"flax": _to_flax, "tensorflow": _to_tensorflow, "mlx": _to_mlx}


class safe_open:
    """Opens a checkpoint lazily, and returns its tensors as they are asked for.

    Args:
        filename: the path of a safetensors or bintensors file, of the index of a model in several files, or of the
            folder of one; or the bytes of a file; or an object with `read` and `seek`; or the URL of a file or an index,
            for which the system needs libsafetensors-http: "https://...", or "hf://OWNER/MODEL[@REVISION][/FILE]".
        framework: "np", "pt", "jax" (or "flax"), "tf", "mlx" or "paddle".
        device: where tensors are put, for "pt" and "paddle": "cpu", "cuda:0", 0, ...
        backend: "mmap" copies from a mapping of the file, and tensors of torch are views of it; "pread" reads, so that
            they own their memory and a file that is truncated meanwhile is an error instead of a SIGBUS. URLs and file
            objects are read in both cases.
        http: options for URLs. Other sources ignore them.
        fs: a filesystem of fsspec. `filename` is then the name of a file or an index there.

    Example:
        with safe_open("model.safetensors", framework="pt", device="cuda") as f:
            for name in f.keys():
                tensor = f.get_tensor(name)
    """

    __module__ = "safetensors_c"
    __slots__ = ("_opened", "_make", "_of", "_rows", "_found", "_arguments", "_kind", "__weakref__")

    def __init__(self, filename, framework: str, device="cpu", *, backend: str = "mmap", http: HttpOptions | None = None,
                 fs=None):
        self._opened = self._of = None
        self._arguments = None  # to open it once more, if it has a path
        self._rows: dict[str, int] = {}
        self._found = 0
        framework, device = _framework(framework), _device(device)
        if not isinstance(backend, str):
            raise not_an_instance("backend", backend)
        if backend not in ("mmap", "pread"):
            backend.encode()
            raise SafetensorError(f'backend "{backend}" is invalid (expected one of: "mmap", "pread")')
        if device != "cpu" and framework not in ("pytorch", "paddle"):
            raise SafetensorError(f"Device {device} is not supported for framework {framework}")
        if _file is None:
            _import()
        if type(filename) is not str and fs is None and _source.may_be_path(filename):
            raise TypeError(f"argument 'filename': '{type(filename).__name__}' object is not an instance of 'str', and not "
                            "the content of a file")
        viewed = framework == "pytorch" and device == "cpu" and backend == "mmap" and _MAPS
        source, is_url = filename, False
        if fs is not None:
            source = _source.Store(fs, filename)
        elif isinstance(filename, str) and filename[:8].lower().startswith(_URLS):
            from ._http import Url
            source, is_url = Url(filename, http), True
        opened = _file.open_file(source, viewed)
        copied = opened.in_memory or backend == "mmap" and framework != "pytorch"
        self._make = _maker(framework, device, viewed or device != "cpu" and backend == "mmap", copied)
        self._opened, self._kind = opened, (framework, device)
        if is_url:
            self._arguments = filename, framework, device, backend, http
        elif isinstance(filename, (str, os.PathLike)) and fs is None:
            with suppress(OSError):  # there may be no current directory
                self._arguments = absolute(filename), framework, device, backend

    @property
    def _file(self):
        if self._opened is None:
            raise SafetensorError("File is closed")
        return self._opened

    @staticmethod
    def _missing(name) -> Exception:
        if isinstance(name, str):
            name.encode()  # UnicodeEncodeError, if it is not text
            return SafetensorError(f"File does not contain tensor {name}")
        return not_an_instance("name", name)

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._file.table.names)

    def offset_keys(self) -> list[str]:
        """The names of the tensors, in the order of their data."""
        return list(self._file.table.names)

    def metadata(self) -> dict[str, str] | None:
        """The metadata of the file, or None if it has no map of metadata."""
        return self._file.metadata()

    def get_tensor(self, name: str) -> Any:
        """The tensor of this name."""
        try:
            row = self._rows[name]
        except (KeyError, TypeError):
            if not isinstance(name, str):
                raise self._missing(name) from None
            file = self._file
            self._found += 1
            # A table of all tensors takes as long as some 2% of them take one by one.
            if "table" not in file.__dict__ and self._found < 4 + file.count() // 50:
                tensor = file.find(name)
                if tensor is None:
                    raise self._missing(name) from None
                return self._make.tensor(file, tensor)
            row = self._row(name)
        of = self._of
        if of is None:  # another thread closes the file
            raise SafetensorError("File is closed")
        return of.make.row(of.file, row)

    def get_tensors(self, *, threads: int | None = None, progress=None) -> dict:
        """All tensors by name, in the order of their data.

        `threads` read them (None: as many as suit), and `progress` is called with the bytes that are read and all
        bytes; True shows a bar.
        """
        from ._progress import shown
        with shown(progress) as report:
            return self._make.tensors(self._file, threads, report)

    def get_slice(self, name: str) -> PySafeSlice:
        """A tensor that is read only where it is indexed: `get_slice(name)[:, ::8]`."""
        try:
            row = self._rows[name]
        except (KeyError, TypeError):
            row = self._row(name)
        of = self._of
        if of is None:  # another thread closes the file
            raise SafetensorError("File is closed")
        part = _new(PySafeSlice)
        part._of, part._row = of, row
        return part

    def get_tensor_meta(self, name: str) -> TensorMeta:
        """The dtype and shape of a tensor, and where its bytes are in the data of its file. Reads none of them."""
        from ._prefetch import meta
        table = self._file.table
        if not isinstance(name, str) or name not in table.index:
            raise self._missing(name)
        return meta(table, table.index[name])

    def prefetch(self, plan: dict[str, slice | None] | None = None, *, device=None, threads: int = 8) -> PrefetchLoader:
        """Loads tensors of torch to a GPU of CUDA by a thread, while the program goes on.

        `plan` has the names of tensors, each with None for all of it or with a slice of its first dimension; without a
        plan all tensors are loaded. `device`: None for that of this file. `threads` read the file.
        """
        from ._prefetch import prefetch
        file, framework, of = self._file, *self._kind
        return prefetch(file, framework, of if device is None else _device(device), plan, threads)

    def _row(self, name) -> int:
        """The row of a tensor, and from then on `_rows` for all of them."""
        if not isinstance(name, str):
            raise self._missing(name)
        file = self._file
        table = file.table
        if name not in table.index:
            raise self._missing(name) from None
        self._of, self._rows = _Sliced(file, self._make, table), table.index
        if self._opened is None:  # another thread has closed the file meanwhile
            self._of, self._rows = None, {}
            raise SafetensorError("File is closed")
        return table.index[name]

    def shapes(self) -> dict[str, list[int]]:
        """The shapes of all tensors by name, in the order of their data."""
        table = self._file.table
        return dict(zip(table.names, table.shapes()))

    def dtypes(self) -> dict[str, str]:
        """The dtypes of all tensors by name, as the format spells them, in the order of their data."""
        table = self._file.table
        return dict(zip(table.names, map(table.dtype, range(len(table.names)))))

    def shards(self) -> list[str]:
        """The paths of the files that the checkpoint consists of."""
        return self._file.shards()

    def warnings(self) -> list[str]:
        """What is odd about the checkpoint, such as tensors that its index does not list."""
        return self._file.warnings()

    def __enter__(self) -> safe_open:
        return self

    def __reduce__(self):
        if self._opened is None or self._arguments is None:
            raise TypeError(f"cannot pickle '{type(self).__name__}' object that is closed or has no path")
        if len(self._arguments) > 4:
            from ._http import check_pickled
            check_pickled(self._arguments[0], self._arguments[4])
        return _reopened, (type(self), *self._arguments)

    def __exit__(self, _exc_type, _exc_value, _traceback) -> None:
        self._opened, self._of, self._rows = None, None, {}


def _reopened(kind, path: str, framework: str, device, backend: str, http: HttpOptions | None = None) -> safe_open:
    return kind(path, framework, device, backend=backend, http=http)


class _safe_open_handle(safe_open):
    """The same for a file that is open: an object with a descriptor, whose position is neither used nor moved."""

    __slots__ = ()

    def __init__(self, f, framework: str, device="cpu", *, backend: str = "mmap"):
        from ._source import Descriptor
        super().__init__(Descriptor(f.fileno()), framework, device, backend=backend)


_new = object.__new__


class _Sliced:
    """What all slices of one open checkpoint share."""

    __slots__ = ("file", "make", "table", "dims", "ends")

    def __init__(self, file, make, table):
        self.file, self.make, self.table, self.dims, self.ends = file, make, table, table.dims, table.ends


class PySafeSlice:
    """A tensor that is read only where it is indexed. It keeps the file open."""

    # Set by get_slice: a constructor would take longer than all else that get_slice does.
    __module__ = "safetensors_c"
    __slots__ = ("_of", "_row")

    def __new__(cls):
        raise TypeError("cannot create 'PySafeSlice' instances")

    def get_shape(self) -> list[int]:
        """The shape of the whole tensor."""
        of, row = self._of, self._row
        ends = of.ends
        return of.dims[ends[row]:ends[row + 1]]

    def get_dtype(self) -> str:
        """The dtype of the tensor, as the format spells it: "F32"."""
        return self._of.table.dtype(self._row)

    def __reduce__(self):
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def __getitem__(self, index):
        of = self._of
        return of.make.part(of.file, self._row, index)
