"""safetensors.hpp compiles without a warning in the oldest and the newest version of C++, with each compiler found, and the
program that users of earlier C++ bindings have compiles unchanged and prints what it printed. Types without a dtype are
refused.

usage: standards.py LIBRARY     the shared library, to link with

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
INCLUDE = HERE.parents[1] / "include"
COMPILERS = {pathlib.Path(found).resolve(): name for name in ["g++", "clang++-14", "clang++"] if (found := shutil.which(name))}
STANDARDS = ["c++17", "c++2b"]  # tests/capi/cpp_api.cpp is C++20
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
EXPECTED = "Shape: [2, 3"  # that program does not close the bracket


def model():
    header = json.dumps({"weight1": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(24)


def taken_types(frame):
    """Says which types in the last lines of types.cpp have a dtype and should not."""
    source = HERE / "cpp/types.cpp"
    run = subprocess.run([*frame, "-fsyntax-only", "-DREFUSED", source], capture_output=True, text=True)
    lines = source.read_text().partition("#if defined(REFUSED)\n")
    first = lines[0].count("\n") + 2
    types = {number: line for number, line in enumerate(lines[2].splitlines(), first) if "dtype_of<" in line}
    taken = [line.split(",")[0].strip() for number, line in types.items() if f"{source.name}:{number}:" not in run.stderr]
    return f"{', '.join(taken)} should be refused" if taken or not types else ""


def fault_of(compiler, standard, folder):
    """What is wrong, or nothing."""
    program = folder / f"{compiler}-{standard}"
    frame = [compiler, f"-std={standard}", *WARNINGS, "-I", INCLUDE]
    if fault := taken_types(frame):
        return fault
    link = ["-o", program, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"]
    for command in [[*frame, "-fsyntax-only", HERE / "cpp/main.cpp", HERE / "cpp/types.cpp"], [*frame, HERE / "cpp/earlier.cpp", *link]]:
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            return run.stderr
    run = subprocess.run([program], cwd=folder, capture_output=True, text=True)
    said = (run.returncode, run.stdout, run.stderr)
    return "" if said == (0, EXPECTED, "") else f"it ends with {said}"


passed = failed = 0
with tempfile.TemporaryDirectory(prefix="safetensors_standards_") as name:
    folder = pathlib.Path(name)
    (folder / "model.safetensors").write_bytes(model())
    for compiler in COMPILERS.values():
        for standard in STANDARDS:
            fault = fault_of(compiler, standard, folder)
            passed += not fault
            failed += bool(fault)
            if fault:
                print(f"{compiler} -std={standard}: {fault}")
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0 or passed == 0)
