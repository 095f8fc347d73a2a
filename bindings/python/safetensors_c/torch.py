"""Saving and loading dictionaries of torch tensors, and models whose tensors share memory.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
from collections import defaultdict

import torch

from ._dtypes import BITS, SPELLING
from ._edit import deserialize as deserialize  # a name that the reference's module has
from ._errors import TorchError, UnknownDtype
from ._open import safe_open
from ._write import TensorSpec, serialize, serialize_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._http import HttpOptions


def save(tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors, which must be dense, contiguous and share no memory."""
    held: list[tuple[Any, torch.Tensor]] = []
    return serialize(_flatten_as_ptr(tensors, held), metadata=metadata)


def save_file(tensors: dict[str, torch.Tensor], filename: str | os.PathLike, metadata: dict[str, str] | None = None,
              **options) -> None:
    """Writes a safetensors file with these tensors, which must be dense, contiguous and share no memory.

    They must not change meanwhile. `options` are those of serialize_file.
    """
    held: list[tuple[Any, torch.Tensor]] = []
    serialize_file(_flatten_as_ptr(tensors, held), filename, metadata=metadata, **options)


def load(data: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file that lies in memory."""
    from ._source import check_bytes
    check_bytes(data)
    return load_file(data, backend="pread")


def load_file(filename, device="cpu", *, backend: str = "mmap", threads: int | None = None,
              progress=None, http: HttpOptions | None = None, fs=None, group=None,
              exchange_bytes: int | None = None) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint: anything that safe_open takes.

    On the CPU they are views of the file, mapped copy-on-write: what is written to them does not reach the file. With
    `threads`, `progress` (a function of the bytes that are read and all bytes, or True for a bar) or backend="pread"
    they own their memory, and the whole file is read before the call returns. So it is with a `group`, all of whose
    processes call this function and read together: see load_sharded.
    """
    if group is not None:
        return load_sharded(filename, None, group=group, device=device, threads=threads, progress=progress,
                            exchange_bytes=exchange_bytes, http=http, fs=fs)
    with safe_open(filename, framework="pt", device=device, backend=backend, http=http, fs=fs) as file:
        return file.get_tensors(threads=threads, progress=progress)


def load_sharded(filename, plan: Mapping[str, Any] | None, *, group=None, device="cpu", threads: int | None = None,
                 progress=None, exchange_bytes: int | None = None, http: HttpOptions | None = None,
                 fs=None) -> dict[str, torch.Tensor]:
    """The tensors that this process of a group wants, in the order of `plan`, in memory of their own.

    `plan` maps the names of tensors to an index, as in `get_slice(name)[index]`: a slice, an integer, or a tuple of them.
    None or `...` is the whole tensor. Without a plan (None) it is all tensors.

    `group` is a communicator of mpi4py or a group of torch.distributed; True is its default group. All its processes call
    this function, each with its own plan, which may be empty. They read what several want once, and send it. If one
    fails, so do the others (`error.status` is "ST_ERR_PEER"). `exchange_bytes` of memory are used for that (None: 256
    MiB). Without a group, this process reads alone.

    The other parameters are as in `load_file`.
    """
    from ._group import load
    return load(filename, plan, "pt", group, device=device, threads=threads, progress=progress,
                exchange_bytes=exchange_bytes, http=http, fs=fs)


def save_model(model: torch.nn.Module, filename: str, metadata: dict[str, str] | None = None,
               force_contiguous: bool = True) -> None:
    """Writes the state of a model. Of tensors that share memory one is kept; metadata names it for each of the others.

    With `force_contiguous` tensors of another layout are copied, else they are an error.
    """
    state = model.state_dict()
    for kept, dropped in _remove_duplicate_names(state).items():
        for name in dropped:
            metadata = {} if metadata is None else metadata
            metadata.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    try:
        save_file(state, filename, metadata=metadata)
    except ValueError as error:
        raise ValueError(f"{error} Or use save_model(..., force_contiguous=True), read the docs for potential "
                         "caveats.") from error


def load_model(model: torch.nn.Module, filename, strict: bool = True, device="cpu", *,
               backend: str = "mmap", http: HttpOptions | None = None, fs=None) -> tuple[set[str], list[str]]:
    """Loads a checkpoint into a model, whose tensors may share memory in another way than those of the model that was
    saved. Returns the names that the model has and the file lacks, and those that the file has and the model does not
    take; with `strict` these are a RuntimeError.
    """
    state = load_file(filename, device=device, backend=backend, http=http, fs=fs)
    duplicates = _remove_duplicate_names(model.state_dict(), preferred_names=state.keys())
    missing, unexpected = model.load_state_dict(state, strict=False)
    missing = set(missing)
    for name in (name for dropped in duplicates.values() for name in dropped):
        if name in missing:
            missing.remove(name)  # it got its values by the name that was kept
        else:
            unexpected.append(name)
    if strict and (missing or unexpected):
        said = f"Error(s) in loading state_dict for {type(model).__name__}:"
        if missing:
            said += "\n    Missing key(s) in state_dict: " + ", ".join(f'"{name}"' for name in sorted(missing))
        if unexpected:
            said += "\n    Unexpected key(s) in state_dict: " + ", ".join(f'"{name}"' for name in sorted(unexpected))
        raise RuntimeError(said)
    return missing, unexpected


# ---- the reference's private names, which other packages import ------------------------------------------------------------

_float8_e4m3fn = getattr(torch, "float8_e4m3fn", None)
_float8_e4m3fnuz = getattr(torch, "float8_e4m3fnuz", None)
_float8_e5m2 = getattr(torch, "float8_e5m2", None)
_float8_e5m2fnuz = getattr(torch, "float8_e5m2fnuz", None)
_float8_e8m0 = getattr(torch, "float8_e8m0fnu", None)
_float4_e2m1_x2 = getattr(torch, "float4_e2m1fn_x2", None)

_TYPES = {name: getattr(torch, spelling) for name, spelling in SPELLING.items() if hasattr(torch, spelling)}
_SIZE = {kind: BITS[name] // 8 or 1 for name, kind in _TYPES.items()}  # of an element of torch; two F4 are one


_SPELLED = {kind: SPELLING[name] for name, kind in _TYPES.items()}


def _getdtype(dtype_str: str) -> torch.dtype:
    return _TYPES[dtype_str]


def _view2torch(safeview: list[tuple[str, dict[str, Any]]]) -> dict[str, torch.Tensor]:
    """Makes tensors from the result of `deserialize`."""
    found = {}
    for name, tensor in safeview:
        kind, shape = _getdtype(tensor["dtype"]), list(tensor["shape"])
        if tensor["dtype"] == "F4":
            shape[-1] //= 2
        found[name] = (torch.frombuffer(tensor["data"], dtype=kind).reshape(shape) if len(tensor["data"])
                       else torch.empty(shape, dtype=kind))
    return found


# ---- tensors that share memory: these names are imported by other packages ----------------------------------------------

def storage_ptr(tensor: torch.Tensor) -> int:
    """The address of the tensor's storage; 0 where it has none."""
    try:
        return _storage(tensor).data_ptr()
    except (NotImplementedError, RuntimeError):
        return 0


def storage_size(tensor: torch.Tensor) -> int:
    """The size of the tensor's storage in bytes."""
    try:
        return _storage(tensor).nbytes()
    except (NotImplementedError, RuntimeError):
        return tensor.nelement() * tensor.element_size()


def _storage(tensor):
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    storage = tensor.storage()  # torch before 2.0
    return storage.untyped() if hasattr(storage, "untyped") else storage._untyped()


def _end_ptr(tensor: torch.Tensor) -> int:
    """The address behind the tensor's last element."""
    if not tensor.nelement():
        return tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr() + (last + 1) * tensor.element_size()


def _find_shared_tensors(state_dict: dict[str, torch.Tensor]) -> list[set[str]]:
    """The names, in sets: those of one set are tensors of one storage that overlap."""
    storages = defaultdict(set)
    for name, tensor in state_dict.items():
        device = tensor.device
        if device.type == "meta":
            continue
        try:
            storage = _storage(tensor)
            pointer, size = storage.data_ptr(), storage.nbytes()
        except (NotImplementedError, RuntimeError):
            pointer, size = storage_ptr(tensor), storage_size(tensor)
        if pointer and size:
            storages[device, pointer, size].add(name)
    found = []
    for names in storages.values():
        found.append(names)
    return _filter_shared_not_shared(found, state_dict)


def _filter_shared_not_shared(tensors: list[set[str]], state_dict: dict[str, torch.Tensor]) -> list[set[str]]:
    """Splits each set of names into sets of tensors that overlap."""
    return [part for names in tensors for part in ([names] if len(names) < 2 else _split(names, state_dict))]


def _split(names: set[str], state_dict: dict[str, torch.Tensor]) -> list[set[str]]:
    areas = sorted((state_dict[name].data_ptr(), _end_ptr(state_dict[name]), name) for name in names)
    groups: list[set[str]] = []
    reached = None
    for start, stop, name in areas:
        if reached is None or start >= reached:
            groups.append(set())
        groups[-1].add(name)
        reached = stop if reached is None else max(reached, stop)
    return groups


def _is_complete(tensor: torch.Tensor) -> bool:
    """Whether the tensor covers its whole storage."""
    return (tensor.data_ptr() == storage_ptr(tensor)
            and tensor.nelement() * tensor.element_size() == storage_size(tensor))


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether each element has its own place in memory, without gaps between them, in any order of the dimensions."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _remove_duplicate_names(state_dict: dict[str, torch.Tensor], *, preferred_names=None,
                            discard_names=None) -> dict[str, list[str]]:
    """Which name is kept of tensors that share memory, and which are dropped for it.

    The name that is kept covers the storage: one of `preferred_names` if there is such, else none of `discard_names`
    if possible, and of several the first.
    """
    preferred_names, discard_names = set(preferred_names or ()), set(discard_names or ())
    dropped = {}
    for shared in _find_shared_tensors(state_dict):
        complete = {name for name in shared if _is_complete(state_dict[name])}
        if len(shared) > 1:  # an expanded tensor may have the size of its storage, and only a part of its elements
            complete = {name for name in complete if _is_dense(state_dict[name])}
        if not complete:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no suitable name to keep for"
                f" saving amongst: {shared}. None is covering the entire storage.Refusing to save/load the model since"
                " you could be storing much more memory than needed. Please refer to"
                " https://huggingface.co/docs/safetensors/torch_shared_tensors for more information. Or open an issue.")
        kept = min((complete & preferred_names) or (complete - discard_names) or complete)
        others = sorted(shared - {kept})
        if others:
            dropped[kept] = others
    return dropped


# ---- writing --------------------------------------------------------------------------------------------------------------

def _flatten_as_ptr(tensors: dict[str, torch.Tensor],
                    keep_alive_buffer: list[tuple[Any, torch.Tensor]]) -> dict[str, TensorSpec]:
    """Returns the specs to write. The caller keeps `keep_alive_buffer` until they are written."""
    _evaluate_tensors_for_save(tensors)
    specs = {}
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you are"
                " trying to save tensors which are reference of each other in which case it's recommended to save only"
                " the full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it"
                " before saving.")
        # What a view of torch conjugates or negates is not so in memory.
        if tensor.is_conj() or tensor.is_neg() or tensor.device.type != "cpu":
            tensor = tensor.detach().resolve_conj().resolve_neg().cpu()
        keep_alive_buffer.append((None, tensor))
        kind = tensor.dtype
        if kind not in _SPELLED:
            raise UnknownDtype(f"Unknown dtype {kind} of tensor `{name}`. Supported dtypes: " + ", ".join(SPELLING.values()))
        address, size = tensor.data_ptr(), tensor.nelement() * tensor.element_size()
        if size and not address:
            raise TorchError(f"You are trying to save a tensor without memory of its own: `{name}` is a {type(tensor)}")
        specs[name] = TensorSpec(dtype=_SPELLED[kind], shape=tensor.shape, data_ptr=address, data_len=size)
    return specs


def _to_ndarray(tensor: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """The bytes of a contiguous tensor as an array of numpy, and the tensor on the CPU that holds them."""
    tensor = tensor.detach().cpu()
    return tensor.reshape(-1).view(torch.uint8).numpy(), tensor


def _evaluate_tensors_for_save(tensors: dict[str, torch.Tensor]) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
    sparse = [name for name, tensor in tensors.items() if tensor.layout != torch.strided]
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support. You can make it a"
            " dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than needed.")
    shared = [names for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            "\n            Some tensors share memory, this will lead to duplicate memory on disk and potential differences"
            f" when loading them again: {shared}.\n            A potential way to correctly save your model is to use"
            " `save_model`.\n            More information at"
            " https://huggingface.co/docs/safetensors/torch_shared_tensors\n            ")
