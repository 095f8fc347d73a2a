"""The package as programs meet it: what importing costs, patch(), and how the library is found.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import typing

import pytest


def python(code, *arguments, **environment):
    done = subprocess.run([sys.executable, "-c", code, *arguments], env={**os.environ, **environment}, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_no_framework_and_no_library():
    loaded = python("import sys; before = set(sys.modules); from safetensors_c import SafetensorError, safe_open, serialize_file\n"
                    "print(*sorted(set(sys.modules) - before))").split()
    assert not {"numpy", "torch", "ctypes", "safetensors_c._library", "typing"} & set(loaded), loaded


def test_patch_replaces_the_reference():
    assert python("""
import safetensors_c
safetensors_c.patch()
safetensors_c.patch()
import safetensors, safetensors.numpy, safetensors_c.numpy
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from safetensors._safetensors_rust import SafetensorError as rust
assert safetensors is safetensors_c and safetensors.numpy is safetensors_c.numpy and rust is SafetensorError
assert safe_open.__module__ == "safetensors_c" and safetensors.__version__
import importlib.util
assert importlib.util.find_spec("safetensors") is not None
try:
    import safetensors.nothing
except ModuleNotFoundError as error:
    print(error)
""") == "No module named 'safetensors.nothing'"


def test_patch_after_the_reference_was_imported():
    pytest.importorskip("safetensors")
    python("import safetensors, safetensors.numpy, safetensors_c; safetensors_c.patch(); import safetensors as again\n"
           "import safetensors.numpy as numpy; assert again is safetensors_c and numpy.__name__ == 'safetensors_c.numpy'")


def test_program_is_run_with_the_patch(tmp_path):
    (tmp_path / "program.py").write_text("import sys, safetensors; print(safetensors.__name__, __name__, sys.argv[1:])")
    for command in (["program.py"], ["-m", "program"]):
        done = subprocess.run([sys.executable, "-m", "safetensors_c", *command, "x"], cwd=tmp_path, text=True,
                              capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert done.stdout == "safetensors_c __main__ ['x']\n", done.stderr
    assert subprocess.run([sys.executable, "-m", "safetensors_c"], capture_output=True).returncode == 1


def test_library_that_is_none(tmp_path):
    (tmp_path / "none.so").write_text("")
    assert "set SAFETENSORS_C_LIBRARY" in python(
        "import safetensors_c\ntry:\n  safetensors_c.library_version()\nexcept ImportError as error:\n  print(error)",
        SAFETENSORS_C_LIBRARY=str(tmp_path / "none.so"))


def test_names(ours):
    assert set(ours.__all__) <= set(dir(ours))
    for name in ours.__all__:
        assert getattr(ours, name).__doc__, name
    with pytest.raises(AttributeError):
        ours.nothing


def test_names_of_the_reference_are_all_there(reference, ours):
    for name in reference.__dict__:
        assert name.startswith("__") or hasattr(ours, name) or name == "_safetensors_rust", name
    for method in [name for name in dir(reference.safe_open) if not name.startswith("_")]:
        assert hasattr(ours.safe_open, method), method


def test_version(ours):
    assert ours.library_version().split()[0].count(".") == 2


def test_type_of_what_with_gives(ours):
    assert typing.get_type_hints(ours.safe_open.__enter__) == {"return": ours.safe_open}  # without it, Any
