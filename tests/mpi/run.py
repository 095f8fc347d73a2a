"""Compiles group.c and failures.c with each MPI of the machine, and runs them in several processes. Skipped without MPI.

usage: run.py LIBRARY [RUNS]     the shared library, and how often failures.c runs (20)

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

LIBRARY = pathlib.Path(sys.argv[1]).resolve()
RUNS = sys.argv[2] if len(sys.argv) > 2 else "20"
HERE = pathlib.Path(__file__).resolve().parent
A, B = 1024 * 1200, 3_000_000

# Debian can install several. The one without a suffix is one of them.
compilers = {}
for suffix in (".mpich", ".openmpi", ""):
    compiler, start = shutil.which("mpicc" + suffix), shutil.which("mpiexec" + suffix)
    if compiler and start:
        compilers.setdefault(pathlib.Path(compiler).resolve(), (compiler, start))
if not compilers:
    print("skipped: mpicc and mpiexec are missing (mpich or openmpi-bin and libopenmpi-dev)")
    sys.exit(77)

with tempfile.TemporaryDirectory(prefix="safetensors_mpi_") as folder:
    file = pathlib.Path(folder) / "m.safetensors"
    header = json.dumps({"a": {"dtype": "U8", "shape": [1024, 1200], "data_offsets": [0, A]},
                         "b": {"dtype": "U8", "shape": [B], "data_offsets": [A, A + B]}}).encode()
    data = bytes((i * 31 + i // 257) & 255 for i in range(A + B))
    file.write_bytes(len(header).to_bytes(8, "little") + header + data)
    for compiler, start in compilers.values():
        version = subprocess.run([start, "--version"], capture_output=True, text=True, check=True).stdout
        options = ["--allow-run-as-root", "--oversubscribe"] if "Open" in version else []
        for name, arguments in (("group", [file]), ("failures", [file, RUNS])):
            program = pathlib.Path(folder) / name
            subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{HERE.parents[1] / 'include'}",
                            HERE / f"{name}.c", "-o", program, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"], check=True)
            for processes in (1, 2, 4, 8):
                subprocess.run([start, *options, "-n", str(processes), program, *arguments], check=True, timeout=600)
        print("groups of 1 to 8 processes, by", version.splitlines()[0])
