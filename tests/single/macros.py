"""A host's macros change nothing in safetensors.cpp: the compiler sees the same text with and without them.

usage: macros.py DIRECTORY COMPILER...    (./dev amalgamate wrote the directory)
SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import subprocess
import sys
import tempfile

# Macros of libraries and systems, from headers that hosts include before each source.
HOST = """
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define check(assertion) host_check(assertion)
#define require(assertion, label) if (!(assertion)) goto label
#define small char
#define slots
#if !defined(_WIN32)  // whose headers have such members
#define Status int
#endif
"""
OPTIONS = {"ST_PREFIX", "ST_MINIMAL", "ST_STATIC", "ST_BUILDING", "ST_API", "ST_VISIBLE_INTERNALS"}
LIBRARIES = "FMT_|XXH|SIMDJSON_|simdjson_"
OWN = {"ST_F_": ["FMT_"], "ST_X": ["XXH"], "ST_S_": ["SIMDJSON_", "simdjson_"]}  # names of scripts/amalgamate.py


def macros(text):
    """Those that the file defines or asks for, and the names that they have in fmt, simdjson and xxHash."""
    directives = re.findall(r"^[ \t]*#[ \t]*(?:define[ \t]+(\w+)|(?:if|elif|ifdef|ifndef)\b(.*))", text, re.MULTILINE)
    names = {name for defined, condition in directives for name in re.findall(r"[A-Za-z_]\w*", defined or condition)}
    originals = {original + name[len(prefix):] for name in names for prefix, list_ in OWN.items() if name.startswith(prefix)
                 for original in list_}
    ours = {name for name in names - OPTIONS if name.startswith("ST_") and not any(map(name.startswith, OWN))}
    return originals | ours | {name for name in names if re.match(f"{LIBRARIES}|.*GCC_GET_CPUID|NO_CLANG_BUILTIN|DEBUGLEVEL", name)}


def preprocessed(compiler, folder, options):
    result = subprocess.run([*compiler, "-std=c++17", "-E", "-P", "-Wall", "-Werror", *options, folder / "safetensors.cpp"],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0 or result.stderr:
        sys.exit(f"safetensors.cpp with the macros of a host:\n{result.stderr}")
    return result.stdout


folder, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
names = sorted(macros((folder / "safetensors.cpp").read_text()))
with tempfile.TemporaryDirectory() as scratch:
    host = pathlib.Path(scratch) / "host.h"
    host.write_text(HOST)
    expected = preprocessed(compiler, folder, [])
    found = preprocessed(compiler, folder, ["-include", host, *(f"-D{name}=host_macro" for name in names)])
for number, (without, with_) in enumerate(zip(expected.splitlines(), found.splitlines())):
    if without != with_:
        sys.exit(f"a macro of the host changes safetensors.cpp, in line {number} of what the compiler sees:\n{without}\n{with_}")
if expected != found:
    sys.exit("a macro of the host adds lines to safetensors.cpp")
print(f"safetensors.cpp is the same with {len(names)} macros of a host")
