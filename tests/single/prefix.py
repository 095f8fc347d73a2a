"""A source can include one copy of the header, any number of times. Another one with another prefix is an error that says so.

usage: prefix.py DIRECTORY C_COMPILER C++_COMPILER    (./dev amalgamate wrote the directory)
SPDX-License-Identifier: Apache-2.0
"""
import subprocess
import sys

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wredundant-decls", "-Werror", f"-I{sys.argv[1]}"]
LANGUAGES = {"c99": ("c", sys.argv[2]), "c11": ("c", sys.argv[2]), "c++17": ("c++", sys.argv[3])}
NONE, A, B = "#undef ST_PREFIX\n", "#undef ST_PREFIX\n#define ST_PREFIX a_\n", "#undef ST_PREFIX\n#define ST_PREFIX b_\n"
USE_A = "int main(void) { st_free(0); a_free(0); return 0; }\n"


def messages(standard, source):
    language, compiler = LANGUAGES[standard]
    return subprocess.run([compiler, f"-std={standard}", f"-x{language}", *FLAGS, "-"], input=source, stderr=subprocess.PIPE,
                          text=True, check=False).stderr


def include(*settings, header="safetensors.h"):
    return "".join(f'{setting}#include "{header}"\n' for setting in settings)


failed = False
for standard, source, expected in [
    *((standard, include(NONE, NONE), "") for standard in LANGUAGES),
    *((standard, include(A, A) + USE_A, "") for standard in LANGUAGES),
    ("c++17", include(A, A, header="safetensors.hpp"), ""),
    *((standard, include(A, NONE), "A copy with ST_PREFIX was included before") for standard in LANGUAGES),
    *((standard, include(NONE, A), "A safetensors.h without ST_PREFIX was included before") for standard in LANGUAGES),
    *((standard, include(A, B), "st_two_prefixes_are_included_in_one_source") for standard in ("c11", "c++17")),
    ("c++17", include(A, B, header="safetensors.hpp"), "st_two_prefixes_are_included_in_one_source"),
]:
    found = messages(standard, source)
    if expected not in found or (not expected and found):
        print(f"{standard}:\n{source}is expected to print: {expected or 'nothing'}\nand prints: {found or 'nothing'}")
        failed = True
sys.exit(failed)
