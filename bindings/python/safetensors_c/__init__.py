"""Reads and writes safetensors files, by the C library libsafetensors.

The names are those of the package `safetensors`, so that a program changes one import; `patch()` puts this package in
that one's place for programs that shall not be changed at all. Names are imported when they are first asked for.

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

__version__ = "0.8.0"  # of the interface, which is that of the reference; `library_version` tells that of the library

__all__ = ["HttpOptions", "PrefetchLoader", "SafetensorError", "TensorMeta", "TensorSpec", "deserialize", "edit_metadata",
           "library_version", "patch", "safe_open", "serialize", "serialize_file", "write_tensor"]

_PLACES = {
    "SafetensorError": "_errors", "safe_open": "_open", "_safe_open_handle": "_open", "PySafeSlice": "_open",
    "TensorSpec": "_write", "serialize": "_write", "serialize_file": "_write", "deserialize": "_edit",
    "edit_metadata": "_edit", "library_version": "_edit", "patch": "_patch",
    "write_tensor": "_edit", "PrefetchLoader": "_prefetch", "TensorMeta": "_prefetch", "HttpOptions": "_http",
    "_safetensors_rust": "_safetensors_rust",  # a module
}

for _variable in ("SAFETENSORS_C_LIBRARY", "SAFETENSORS_C_HTTP_LIBRARY"):
    _named = os.environ.get(_variable, "")
    if os.path.dirname(_named) and not os.path.isabs(_named):  # loaded later, when another directory may be current
        from contextlib import suppress

        from ._open import absolute
        with suppress(OSError):  # there may be no current directory
            os.environ[_variable] = absolute(_named)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._edit import deserialize, edit_metadata, library_version, write_tensor
    from ._errors import SafetensorError
    from ._http import HttpOptions
    from ._open import PySafeSlice, _safe_open_handle, safe_open
    from ._patch import patch
    from ._prefetch import PrefetchLoader, TensorMeta
    from ._write import TensorSpec, serialize, serialize_file


def _finish_imports() -> None:
    """Before a fork: waits for imports of this package's modules in other threads, which would never end in the child.

    Then imports what those threads would import next.
    """
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", sys.modules)  # of what is being imported
    done: set[str] = set()
    while found := {name for name in tuple(locks) if name.startswith(_OWN)} - done:
        for name in (*found, *("safetensors_c." + name for name, needed in _NEXT.items() if needed in sys.modules)):
            try:
                __import__(name)
            except Exception:  # there may be no such framework
                pass
        done |= found


_OWN = ("safetensors_c.", "safetensors.")  # the latter by patch()
_NEXT = {"_file": "safetensors_c._open", "_plan": "safetensors_c._open", "_progress": "safetensors_c._open",
         "_writer": "safetensors_c._write", "_numpy": "safetensors_c.numpy", "_torch": "safetensors_c.torch"}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_imports)


def __getattr__(name: str):
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = __import__("safetensors_c." + place, fromlist=[name])  # importlib would have to be imported itself
    value = globals()[name] = module if name == place else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_PLACES))
