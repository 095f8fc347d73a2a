"""Runs the program of tests/consumers/ctypes, as tests/consumers/languages.py does, with a Python for Windows.

usage: ctypes_model.py DLL COMMAND...     what starts that Python

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import sys
import tempfile

CONSUMERS = pathlib.Path(__file__).resolve().parents[1] / "consumers"
sys.path.append(str(CONSUMERS))
from languages import ERROR, EXPECTED, THREADS, make_files, run  # noqa: E402

library, *command = sys.argv[1:]
command.append(f"Z:{CONSUMERS}/ctypes/model.py")
env = {**os.environ, "SAFETENSORS_LIBRARY": f"Z:{library}", "SAFETENSORS_JSON": f"Z:{CONSUMERS.parents[1]}/bindings/safetensors.json"}
with tempfile.TemporaryDirectory(prefix="safetensors_ctypes_") as folder:
    make_files(pathlib.Path(folder))
    body, _, last = run(command, folder, env).rstrip("\n").rpartition("\n")
    assert body + "\n" == EXPECTED, body
    assert last.startswith(ERROR) and "truncated.safetensors" in last, last
    threads = run([*command, "--threads", "threads.safetensors"], folder, env)
    assert threads == THREADS["ctypes"], threads
    for file in ("empty.safetensors", "odd.safetensors"):
        run([*command, "--list", file], folder, env)
print("it prints what it prints elsewhere")
