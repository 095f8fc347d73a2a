"""Maps the format's dtypes to numpy's. This module loads neither the library nor ctypes.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import numpy as np

from ._dtypes import SPELLING
from ._errors import UnknownDtype

_known: dict[str, np.dtype] = {}
_spelled: dict[np.dtype, str] = {}


def dtype(name: str) -> np.dtype:
    """numpy's dtype for one of the format's. Those that numpy lacks come from ml_dtypes."""
    found = _known.get(name)
    if found is None:
        found = _known[name] = _look_up(name)
    return found


def _look_up(name: str) -> np.dtype:
    spelling = SPELLING.get(name)
    if spelling is None:
        raise UnknownDtype(f"Dtype not understood: {name}")
    if name == "F4":  # ml_dtypes gives each F4 a byte of its own
        raise UnknownDtype("Dtype not understood: F4: numpy has no packed type of 4 bits")
    if spelling.startswith(("bfloat", "float8")):
        try:
            import ml_dtypes
        except ImportError:
            raise UnknownDtype(f"data type {spelling!r} not understood by numpy alone: install ml_dtypes") from None
        return np.dtype(getattr(ml_dtypes, spelling))
    return np.dtype(spelling)


def spelling(kind: np.dtype) -> str:
    """numpy's name for a dtype, which numpy puts together anew each time."""
    name = _spelled.get(kind)
    if name is None:
        name = _spelled[kind] = kind.name
    return name
