"""safetensors.h compiles without a warning under -Wpadded in every language version that it promises, with each compiler
found; so does every ST_INIT, which C and C++ spell differently.

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

structs = re.findall(r"^typedef struct (st_\w+) \{", api.HEADER.read_text(), re.MULTILINE)
uses = "".join(f"  {{ {name} value = ST_INIT({name}); sum += value.struct_size; }}\n" for name in structs)
program = f"#include <safetensors/safetensors.h>\nint main(void) {{\n  size_t sum = 0;\n{uses}  return (int)sum;\n}}\n"

passed = failed = 0
for language, standard in LANGUAGES:
    for pair in COMPILERS:
        compiler = shutil.which(pair[language == "c++"])
        if not compiler:
            continue
        command = [compiler, "-x", language, f"-std={standard}", *FLAGS, "-I", str(api.HEADER.parents[1]), "-"]
        run = subprocess.run(command, input=program, capture_output=True, text=True)
        passed += run.returncode == 0
        failed += run.returncode != 0
        if run.returncode != 0:
            print(f"{pair[language == 'c++']} -std={standard}:\n{run.stderr}")
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0 or passed == 0)
