"""safetensors.h compiles without a warning, of padding or conversions too, in every language version that it promises, with
each compiler found; so does every ST_INIT, which C and C++ spell differently, every use of a constant where it belongs, and
the example in its first comment. No constant but 64-bit ones and versions is a macro, and the enumerators of a type are as
signed as the type. Nothing is said to be there since a later version. No line of the public headers is longer than 100
columns. All symbols of safetensors.hpp are in the inline namespace of the minor version.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import api

COMPILERS = [("gcc", "g++"), ("clang", "clang++"), ("clang-14", "clang++-14")]
LANGUAGES = [("c", "c99"), ("c", "c11"), ("c", "c17"), ("c", "c2x"),
             ("c++", "c++11"), ("c++", "c++17"), ("c++", "c++20"), ("c++", "c++2b")]
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wpadded", "-Werror", "-fsyntax-only"]
MACROS = {"ST_INIT", "ST_API", "ST_SLICE_BEGIN", "ST_SLICE_END", "ST_VERSION_MAJOR", "ST_VERSION_MINOR", "ST_VERSION_PATCH",
          "ST_VERSION_NUMBER"}
ELEMENTS = {"st_device_copy"}  # of arrays, which have no struct_size
MOST_COLUMNS = 100
USER = api.HEADER.parents[2] / "tests/capi/cpp_api.cpp"  # of all of safetensors.hpp

text = api.HEADER.read_text()


def every_struct():
    structs = [name for name in re.findall(r"^typedef struct (st_\w+) \{", text, re.MULTILINE) if name not in ELEMENTS]
    uses = "".join(f"  {{ {name} value = ST_INIT({name}); sum += value.struct_size; }}\n" for name in structs)
    return f"#include <safetensors/safetensors.h>\nint main(void) {{\n  size_t sum = 0;\n{uses}  return (int)sum;\n}}\n"


def enumerations():
    """(the integer type whose values the enumerators are, or '' for flags; their names), of each enum."""
    for typedef, body in re.findall(r"^(?:typedef (int32_t) st_\w+;\n)?enum \{\n(.*?)^\};$", text, re.MULTILINE | re.DOTALL):
        names = re.findall(r"^ *(ST_\w+) = ", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL), re.MULTILINE)
        if names:
            yield "int32_t" if typedef or "ST_OK" in names else "", names


def every_constant():
    """Each enumerator assigned and compared as its type, flags also together, chosen from and removed."""
    lines = []
    for integer, names in enumerations():
        for name in names:
            lines.append(f"  {{ const {integer or 'uint32_t'} value = {name}; sum += value == {name}; }}")
            if not integer:
                lines += [f"  flags |= {name};", f"  flags = (flags & {name}) ? {name} : 0;", f"  flags &= ~(uint32_t){name};"]
        if not integer and len(names) > 1:
            lines.append(f"  flags = {' | '.join(names)};")
    return ("#include <safetensors/safetensors.h>\nint main(void) {\n  size_t sum = 0;\n  uint32_t flags = 0;\n"
            + "\n".join(lines) + "\n  return (int)(sum + flags);\n}\n")


def wrong_constants():
    for macro in re.findall(r"^#define (ST_[A-Z]\w*)\b", text, re.MULTILINE):
        if macro not in MACROS:
            yield f"{macro} is a macro, which tools that read headers do not see"
    found = list(enumerations())
    if len(found) < 10:
        yield f"only {len(found)} enumerations were understood"
    for integer, names in found:
        if bool(integer) != any(name.endswith("SIGNED_") for name in names):
            yield f"the type of {names[0]} and its like is not {integer or 'uint32_t'}"


def later_versions():
    """What the header says of versions beyond its own, and what packages say of another than that."""
    version = ".".join(re.findall(r"^#define ST_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text, re.MULTILINE))
    if f'"{version} (simdjson ' not in text:
        yield f"{api.HEADER.name}: the example of st_version_string is not {version}"
    for named in re.findall(r"[Ss]ince version[\s*]+(\d+\.\d+\.\d+)", text):
        if [int(part) for part in named.split(".")] > [int(part) for part in version.split(".")]:
            yield f"{api.HEADER.name}: something is there since version {named}, and this is {version}"
    top = api.HEADER.parents[2]
    for place, written in (("bindings/python/pyproject.toml", f'version = "{version}"'),
                           ("packaging/vcpkg/vcpkg.json", f'"version": "{version}"'),
                           ("docs/building.md", f'requires("libsafetensors/{version}")')):
        if written not in (top / place).read_text():
            yield f"{place} has another version than {version}"


def other_namespaces():
    """Each symbol of safetensors.hpp is in the inline namespace of this minor version, because one program may contain files
    compiled with two versions.
    """
    major, minor = re.findall(r"^#define ST_VERSION_(?:MAJOR|MINOR) (\d+)$", text, re.MULTILINE)
    namespace, header = f"v{major}_{minor}", api.HEADER.with_suffix(".hpp")
    if header.read_text().count(f"\nnamespace safetensors {{\ninline namespace {namespace} {{") != 1:
        yield f"{header.name}: the inline namespace is not {namespace}"
        return
    with tempfile.TemporaryDirectory() as folder:
        compiled = pathlib.Path(folder) / "user.o"
        compiler = next(found for _, name in COMPILERS if (found := shutil.which(name)))
        subprocess.run([compiler, "-std=c++20", "-c", "-I", header.parents[1], USER, "-o", compiled], check=True)
        symbols = subprocess.run(["nm", compiled], check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = [line.split()[-1] for line in symbols if "11safetensors" in line]
    if len(symbols) < 100:
        yield f"only {len(symbols)} symbols of {header.name} were found"
    for symbol in symbols:
        if symbol.count("11safetensors") != symbol.count(f"11safetensors{len(namespace)}{namespace}"):
            yield f"{header.name}: {symbol} is not in {namespace}"


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
faults = [*long_lines(), *wrong_constants(), *later_versions(), *other_namespaces()]
for language, standard in LANGUAGES:
    for pair in COMPILERS:
        compiler = shutil.which(pair[language == "c++"])
        if not compiler:
            continue
        command = [compiler, "-x", language, f"-std={standard}", *FLAGS, "-I", str(api.HEADER.parents[1]), "-"]
        for program in [every_struct(), every_constant(), example()]:
            run = subprocess.run(command, input=program, capture_output=True, text=True)
            passed += run.returncode == 0
            if run.returncode != 0:
                faults.append(f"{pair[language == 'c++']} -std={standard}:\n{run.stderr}")
for fault in faults:
    print(fault)
print(f"{passed} passed, {len(faults)} failed")
sys.exit(bool(faults) or passed == 0)
