"""Cases run with the reference and with ours: the reference shows that a case is right, and ours has to pass it.

SPDX-License-Identifier: Apache-2.0
"""
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
