"""Cases run with the reference and with ours: the reference shows that a case is right, and ours has to pass it.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import importlib
import importlib.util

import pytest

BOTH = ("safetensors", "safetensors_c")


@pytest.fixture(params=BOTH)
def package(request):
    """The package under test: the reference, which is skipped where it is not installed, and ours."""
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return importlib.import_module(request.param)


@pytest.fixture
def np_module(package):
    return importlib.import_module(package.__name__ + ".numpy")


@pytest.fixture
def pt_module(package):
    pytest.importorskip("torch")
    return importlib.import_module(package.__name__ + ".torch")


@pytest.fixture
def ours():
    return importlib.import_module("safetensors_c")


@pytest.fixture
def reference():
    return pytest.importorskip("safetensors")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "model.safetensors")


@pytest.fixture
def calls(monkeypatch):
    """Counts the calls of the library, by name."""
    import collections
    from safetensors_c import _file, _plan, _writer
    counts = collections.Counter()

    class Counted:
        def __init__(self, library):
            self._library = library

        def __getattr__(self, name):
            function = getattr(self._library, name)
            return lambda *arguments: (counts.update([name]), function(*arguments))[1]

    for module in (_file, _plan, _writer):
        for name in ("st", "quick"):
            monkeypatch.setattr(module, name, Counted(getattr(module, name)))
    return counts


@contextlib.contextmanager
def held_alone(path):
    """On Windows, while nobody else may have the file open: PermissionError if somebody has."""
    import ctypes
    kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel32.CreateFileW.restype, kernel32.CloseHandle.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    generic_read, share_nothing, open_existing = 0x80000000, 0, 3
    handle = kernel32.CreateFileW(ctypes.c_wchar_p(path), generic_read, share_nothing, None, open_existing, 0, None)
    if handle == ctypes.c_void_p(-1).value:
        raise ctypes.WinError(ctypes.get_last_error())
    try:
        yield
    finally:
        kernel32.CloseHandle(handle)
