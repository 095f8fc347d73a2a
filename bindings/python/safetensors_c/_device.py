"""Devices whose memory plans fill: GPUs of CUDA and of HIP.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import atexit
import os
import threading
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


_open: dict[tuple[str, int], Device] = {}
_lock = threading.Lock()


def opened(kind: str, ordinal: int) -> Device | None:
    """The device, or None where this library has no way to it: no driver, or a library before 0.2.

    All files share it, also one that is opened after the last was closed, so that memory is pinned once: a model of many
    shards may be read file by file. It stays open until forget() or the end of the process.
    """
    if not _library.HAS_DEVICES:
        return None
    with _lock:
        device = _open.get((kind, ordinal))
        if device is not None:
            return device
        try:
            device = _open[kind, ordinal] = Device(kind, ordinal)
            return device
        except SafetensorError as error:
            if error.status != "ST_ERR_UNSUPPORTED":
                raise
            return None


def forget() -> None:
    """Closes the devices as soon as no open file uses them, which gives back what they have pinned."""
    with _lock:
        _open.clear()


def _leave_to_the_parent() -> None:
    """No driver works in a forked process: there, nothing is given back to it."""
    global _lock
    _lock = threading.Lock()  # another thread may have held it
    for device in _open.values():
        device.value = 0
    _open.clear()


atexit.register(forget)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)
