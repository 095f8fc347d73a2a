"""safetensors.h compiles without a warning under -Wpadded in every language version that it promises, with each compiler
found; so does every ST_INIT, which C and C++ spell differently, and the example in its first comment. No line of the public
headers is longer than 100 columns.

SPDX-License-Identifier: Apache-2.0
"""
import re
import shutil
import subprocess
import sys

import api

COMPILERS = [("gcc", "g++"), ("clang", "clang++"), ("clang-14", "clang++-14")]
LANGUAGES = [("c", "c99"), ("c", "c11"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++17"), ("c++", "c++20")]
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wpadded", "-Werror", "-fsyntax-only"]
MOST_COLUMNS = 100

text = api.HEADER.read_text()


def every_struct():
    structs = re.findall(r"^typedef struct (st_\w+) \{", text, re.MULTILINE)
    uses = "".join(f"  {{ {name} value = ST_INIT({name}); sum += value.struct_size; }}\n" for name in structs)
    return f"#include <safetensors/safetensors.h>\nint main(void) {{\n  size_t sum = 0;\n{uses}  return (int)sum;\n}}\n"


def example():
    """The program in the header's first comment, where its lines are indented by five spaces."""
    program = re.search(r"^ \* {5}#include.*?^ \* {5}\}$", text, re.MULTILINE | re.DOTALL)
    if not program:
        raise SystemExit(f"{api.HEADER.name}: no example in the first comment")
    return re.sub(r"^ \*(?: {5})?", "", program[0], flags=re.MULTILINE) + "\n"


def long_lines():
    for header in sorted(api.HEADER.parent.iterdir()):
        for number, line in enumerate(header.read_text().splitlines(), 1):
            if len(line) > MOST_COLUMNS:
                yield f"{header.name}:{number}: {len(line)} columns, at most {MOST_COLUMNS} are allowed"


passed = 0
faults = list(long_lines())
for language, standard in LANGUAGES:
    for pair in COMPILERS:
        compiler = shutil.which(pair[language == "c++"])
        if not compiler:
            continue
        command = [compiler, "-x", language, f"-std={standard}", *FLAGS, "-I", str(api.HEADER.parents[1]), "-"]
        for program in [every_struct(), example()]:
            run = subprocess.run(command, input=program, capture_output=True, text=True)
            passed += run.returncode == 0
            if run.returncode != 0:
                faults.append(f"{pair[language == 'c++']} -std={standard}:\n{run.stderr}")
for fault in faults:
    print(fault)
print(f"{passed} passed, {len(faults)} failed")
sys.exit(bool(faults) or passed == 0)
