"""Devices whose memory plans fill: GPUs of CUDA and of HIP.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import os
import weakref
from ctypes import byref, c_void_p

from . import _library
from ._errors import SafetensorError
from ._library import call, st


class Device:
    """A GPU as this process uses it. What it has pinned, 64 MiB at most, is given back with it."""

    __slots__ = ("value", "_free", "__weakref__")

    def __init__(self, kind: str, ordinal: int, library: str | os.PathLike | None = None):
        self.value: int = 0
        if not _library.HAS_DEVICES:
            raise SafetensorError(f"{_library.path} is too old for devices")
        self._free = st.st_device_free
        out, options = c_void_p(), _library.new(_library.DeviceOptions, ordinal=ordinal)
        if library is not None:
            options.library = os.fsencode(library)
        call(st.st_device_open_hip if kind == "hip" else st.st_device_open_cuda, byref(options), byref(out))
        self.value = out.value or 0

    def __del__(self):
        if self.value:
            self._free(self.value)


_in_use: weakref.WeakValueDictionary[tuple[str, int], Device] = weakref.WeakValueDictionary()


def opened(kind: str, ordinal: int) -> Device | None:
    """The device, or None where this library has no way to it: no driver, or a library before 0.2.

    All files that are open share it, so that memory is pinned once.
    """
    if not _library.HAS_DEVICES:
        return None
    device = _in_use.get((kind, ordinal))
    if device is not None:
        return device
    try:
        device = _in_use[kind, ordinal] = Device(kind, ordinal)
        return device
    except SafetensorError as error:
        if error.status != "ST_ERR_UNSUPPORTED":
            raise
        return None
