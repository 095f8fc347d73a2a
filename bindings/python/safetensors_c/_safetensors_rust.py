"""The names of the reference's extension module, which some programs import from there.

SPDX-License-Identifier: Apache-2.0
"""
from . import __version__
from ._edit import deserialize
from ._errors import SafetensorError
from ._open import PySafeSlice, _safe_open_handle, safe_open
from ._prefetch import PrefetchLoader, TensorMeta
from ._write import TensorSpec, serialize, serialize_file

__all__ = ["PrefetchLoader", "PySafeSlice", "SafetensorError", "TensorMeta", "TensorSpec", "__version__",
           "_safe_open_handle", "deserialize", "safe_open", "serialize", "serialize_file"]
