"""Compiles group.c with mpicc, and runs it in several processes. Skipped without MPI.

usage: run.py LIBRARY     the shared library

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

LIBRARY = pathlib.Path(sys.argv[1]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
A, B = 1024 * 1200, 3_000_000

if shutil.which("mpicc") is None or shutil.which("mpiexec") is None:
    print("skipped: mpicc and mpiexec are missing (mpich or openmpi-bin and libopenmpi-dev)")
    sys.exit(77)
as_root = ["--allow-run-as-root", "--oversubscribe"]
openmpi = "Open MPI" in subprocess.run(["mpiexec", "--version"], capture_output=True, text=True).stdout
with tempfile.TemporaryDirectory(prefix="safetensors_mpi_") as folder:
    program, file = pathlib.Path(folder) / "group", pathlib.Path(folder) / "m.safetensors"
    header = json.dumps({"a": {"dtype": "U8", "shape": [1024, 1200], "data_offsets": [0, A]},
                         "b": {"dtype": "U8", "shape": [B], "data_offsets": [A, A + B]}}).encode()
    data = bytes((i * 31 + i // 257) & 255 for i in range(A + B))
    file.write_bytes(len(header).to_bytes(8, "little") + header + data)
    subprocess.run(["mpicc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{HERE.parents[1] / 'include'}",
                    HERE / "group.c", "-o", program, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"], check=True)
    for processes in (1, 2, 3, 4):
        subprocess.run(["mpiexec", *(as_root if openmpi else []), "-n", str(processes), program, file], check=True, timeout=120)
print("groups of 1 to 4 processes, by", "Open MPI" if openmpi else "another MPI")
