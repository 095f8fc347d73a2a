"""safe_open: a checkpoint that is open, and what it is asked for.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os

from ._errors import SafetensorError

_FRAMEWORKS = {"pt": "pytorch", "torch": "pytorch", "pytorch": "pytorch", "np": "numpy", "numpy": "numpy",
               "tf": "tensorflow", "tensorflow": "tensorflow", "jax": "flax", "flax": "flax", "mlx": "mlx",
               "paddle": "paddle"}
_INDEXED = ("cuda", "musa", "npu", "xpu", "xla", "mlu", "hpu")


def _framework(given) -> str:
    if not isinstance(given, str):
        raise TypeError(f"argument 'framework': '{type(given).__name__}' object is not an instance of 'str'")
    if given not in _FRAMEWORKS:
        raise SafetensorError(f"framework {given} is invalid")
    return _FRAMEWORKS[given]


def _device(given):
    """The device in the words that frameworks take: "cpu", "mps", "cuda:0", or a number as it is."""
    if given is None:
        return "cpu"
    if isinstance(given, int) and given >= 0:
        return given
    if not isinstance(given, str):
        if not hasattr(given, "type"):  # a torch.device has one
            raise SafetensorError(f"device {given!r} is invalid")
        given = str(given)
    kind, *number = given.split(":")
    if given in ("cpu", "mps"):
        return given
    if kind == "mps" and len(number) == 1:
        if int(number[0]):
            raise SafetensorError(f"device {given} is invalid: only mps or mps:0 is supported")
        return "mps"
    if kind not in _INDEXED or len(number) > 1:
        raise SafetensorError(f"device {given} is invalid")
    return f"{kind}:{int(number[0]) if number else 0}"


def _maker(framework: str, device, backend: str):
    """What turns tensors of a file into those of the framework. Frameworks are imported here, and not before."""
    if device != "cpu" and framework not in ("pytorch", "paddle"):
        raise SafetensorError(f"Device {device} is not supported for framework {framework}")
    if framework == "pytorch":
        from ._torch import Tensors
        return Tensors(device, mapped=backend == "mmap")
    if framework == "paddle":
        from ._paddle import Tensors
        return Tensors(device)
    from ._arrays import Arrays
    if framework == "numpy":
        return Arrays()
    if framework == "flax":
        from jax.numpy import array as convert
    elif framework == "tensorflow":
        from tensorflow import convert_to_tensor as convert
    else:
        from mlx.core import array as convert
    return Arrays(convert)


class safe_open:
    """Opens a checkpoint lazily, and returns its tensors as they are asked for.

    Args:
        filename: the path of a safetensors or bintensors file, of the index of a model in several files, or of the
            folder of one; or the bytes of a file; or an object with `read` and `seek`.
        framework: "np", "pt", "jax" (or "flax"), "tf", "mlx" or "paddle".
        device: where tensors are put, for "pt" and "paddle": "cpu", "cuda:0", 0, ...
        backend: "mmap"; with "pread" tensors of torch own their memory, instead of being views of the mapped file.

    Example:
        with safe_open("model.safetensors", framework="pt", device="cuda") as f:
            for name in f.keys():
                tensor = f.get_tensor(name)
    """

    __module__ = "safetensors_c"
    __slots__ = ("_opened", "_make", "__weakref__")

    def __init__(self, filename, framework: str, device="cpu", *, backend: str = "mmap"):
        self._opened = None
        framework, device = _framework(framework), _device(device)
        if not isinstance(backend, str):
            raise TypeError(f"argument 'backend': '{type(backend).__name__}' object is not an instance of 'str'")
        if backend not in ("mmap", "pread"):
            raise SafetensorError(f'backend "{backend}" is invalid (expected one of: "mmap", "pread")')
        if isinstance(filename, (str, os.PathLike)) and not os.path.exists(filename):
            raise FileNotFoundError(f"No such file or directory: {os.fspath(filename)}")
        from ._file import open_file
        self._make = _maker(framework, device, backend)
        self._opened = open_file(filename, self._make.io)

    @property
    def _file(self):
        if self._opened is None:
            raise SafetensorError("File is closed")
        return self._opened

    def _find(self, name: str):
        if not isinstance(name, str):
            raise TypeError(f"argument 'name': '{type(name).__name__}' object is not an instance of 'str'")
        tensor = self._file.find(name)
        if tensor is None:
            raise SafetensorError(f"File does not contain tensor {name}")
        return tensor

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._file.table.names)

    def offset_keys(self) -> list[str]:
        """The names of the tensors, in the order of their data."""
        return list(self._file.table.names)

    def metadata(self) -> dict[str, str] | None:
        """The metadata of the file, or None if it has no map of metadata."""
        return self._file.metadata()

    def get_tensor(self, name: str):
        """The tensor of this name."""
        return self._make.tensor(self._file, self._find(name))

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
        return PySafeSlice(self._file, self._make, self._find(name))

    def shards(self) -> list[str]:
        """The paths of the files that the checkpoint consists of."""
        return self._file.shards()

    def warnings(self) -> list[str]:
        """What is odd about the checkpoint, such as tensors that its index does not list."""
        return self._file.warnings()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self._opened = None


class _safe_open_handle(safe_open):
    """The same for a file that is open: an object with a descriptor, whose position is neither used nor moved."""

    __slots__ = ()

    def __init__(self, f, framework: str, device="cpu", *, backend: str = "mmap"):
        from ._source import Descriptor
        super().__init__(Descriptor(f.fileno()), framework, device, backend=backend)


class PySafeSlice:
    """A tensor that is read only where it is indexed. It keeps the file open."""

    __module__ = "safetensors_c"
    __slots__ = ("_file", "_make", "_tensor")

    def __init__(self, file, make, tensor):
        self._file, self._make, self._tensor = file, make, tensor

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        return self._tensor.dtype

    def __getitem__(self, index):
        return self._make.slice(self._file, self._tensor, index)
