#!/usr/bin/env python3
"""Writes the library as files to copy: safetensors.h and .cpp, .hpp, LICENSE, example.c, SHA256SUMS.

    scripts/amalgamate.py OUT SIMDJSON FMT XXHASH    (OUT is a directory, the others are source trees of the pinned versions)

safetensors.cpp contains every source of src/ and capi/, and what they use of simdjson, fmt and xxHash. It includes only
headers of the C and C++ standard libraries and of the system, all at its top. All else is in an unnamed namespace, except
the functions of safetensors.h. Two copies in one program therefore share nothing, and the compiler drops what a copy does
not use.

The sources stay as they are. Only these are changed in them:
- std::X becomes cxx20::X for each X that scripts/single/cxx20.hpp declares, since C++17 lacks it.
- The namespaces fmt and simdjson become st_fmt and st_simdjson. Macros get other names, also those of xxHash, because the
  host may define them, or include these libraries before each source.
- Comments and alignment of simdjson, fmt and xxHash are removed, and what scripts/single/changes.py lists.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import pathlib
import re
import sys

from single.changes import FMT_CHANGES, SIMDJSON_CHANGES, UNUSED, XXHASH_CHANGES
from single.cpp_text import IDENTIFIER, definitions, without_comments, without_spaces_after_commas, without_unused

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = ROOT / "scripts/single"
SYSTEMS = {  # a source of such a directory is compiled on that system only, as in cmake/system.cmake
    "src/io/win32": "defined(_WIN32)",
    "src/io/posix": "!defined(_WIN32)",
    "src/io/linux": "defined(__linux__)",
    "src/io/posix/system.cpp": "!defined(_WIN32) && !defined(__linux__)",
    **{f"capi/{name}.cpp": "!defined(ST_MINIMAL)" for name in ("check", "device", "edit", "plan")},
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">].*\n', re.MULTILINE)


def die(message):
    sys.exit(f"amalgamate.py: {message}")


# ---- our own sources ----------------------------------------------------------------------------------------------------

def own_sources():
    """Every source that CMakeLists.txt compiles into the library, on any system."""
    return sorted((ROOT / "src").rglob("*.cpp")) + sorted((ROOT / "capi").glob("*.cpp"))


def system_of(path):
    name = path.relative_to(ROOT).as_posix()
    return next((SYSTEMS[key] for key in sorted(SYSTEMS, reverse=True) if name.startswith(key)), "")


def find_own(path, include):
    return next((p / include for p in (path.parent, *(ROOT / f for f in ("src", "capi", "include"))) if (p / include).exists()), None)


class Sources:
    """Collects sources in an order in which each comes after the headers that it includes."""

    def __init__(self):
        self.system_headers = {}  # condition -> lines, each once
        self.text = []
        self.seen = set()

    def add_header_line(self, condition, line):
        lines = self.system_headers.setdefault(condition, [])
        if line not in lines and line not in self.system_headers.get("", []):
            lines.append(line)

    def add(self, path):
        if path in self.seen:
            return
        self.seen.add(path)
        condition = system_of(path)
        text = path.read_text().replace("#pragma once\n", "")
        text = re.sub(r"^#define _CRT_RAND_S.*\n", "", text, flags=re.MULTILINE)  # is in begin.hpp
        # A condition around system headers moves to the top with them.
        for block in re.findall(r"^#if[^\n]*\n(?:[^\n]*\n)*?#endif[^\n]*\n", text, re.MULTILINE):
            if INCLUDE.search(block):
                self.add_header_line(condition, block)
                text = text.replace(block, "")
        for kind, name in INCLUDE.findall(text):
            own = find_own(path, name) if kind == '"' else None
            if kind == '"' and own is None:
                die(f"{path} includes {name}, which does not exist")
            if own is not None and own.suffix == ".hpp":
                self.add(own)
            elif kind == "<" and name not in ("simdjson.h", "xxhash.h", "fmt/core.h", "bit", "span"):
                self.add_header_line(condition, f"#include <{name}>\n")
        text = INCLUDE.sub(lambda found: in_place(find_own(path, found[2]) if found[1] == '"' else None), text)
        self.text.append(section(path.relative_to(ROOT).as_posix(), condition, renamed(text)))


def in_place(path):
    """A table, without its comments, since it is included several times."""
    return re.sub(r"(?m)^//.*\n", "", path.read_text()) if path is not None and path.suffix == ".def" else ""


def section(name, condition, text):
    """One source. Functions of the C API stay outside the unnamed namespace."""
    text = re.sub(r"^// SPDX-License-Identifier:.*\n+|^ +//.*\n|(?<=\S)  // .*", "", text.strip(), flags=re.MULTILINE)
    inside, api, outside = text.partition('extern "C" {\n')
    if api:
        outside = f"{api}{outside}\n"
    text = f"ST_BEGIN\n{inside.rstrip()}\nST_END\n{outside}"
    if name == "src/base/convert.cpp":
        text = f"ST_OPTIMIZE_LOOPS\n{text}ST_OPTIMIZE_AS_BEFORE\n"
    if condition:
        text = f"#if {condition}\n{text}#endif\n"
    return f"\n// ==== {name}\n{text}"


def cxx20_names():
    return re.search(r"^// Names: (.*)$", (PARTS / "cxx20.hpp").read_text(), re.MULTILINE)[1].split()


def renamed(text):
    text = re.sub(r"\bstd::(%s)\b" % "|".join(cxx20_names()), r"cxx20::\1", text)
    text = re.sub(r"\bfmt::", "st_fmt::", text)
    return re.sub(r"\b(?<!_)simdjson(?=::)", "st_simdjson", text)


# ---- the libraries ------------------------------------------------------------------------------------------------------

class Library:
    """A library in one text, in which each header takes the place where it is included."""

    def __init__(self, folders, headers):
        self.folders, self.headers, self.once = folders, headers, set()

    def text(self, name, beside=None):
        path = next((f / name for f in [beside, *self.folders] if f is not None and (f / name).exists()), None)
        if path is None:
            die(f"there is no {name} in {self.folders[0]}")
        if path in self.once or UNUSED.search(path.as_posix()):
            return ""
        text = path.read_text()
        # Headers without a guard are made to be included many times.
        if "#pragma once" in text or re.search(r"^#ifndef (\w+_H(PP)?_*)\n#define \1", text, re.MULTILINE):
            self.once.add(path)
        return INCLUDE.sub(lambda found: self.include(found, path), without_comments(text))

    def include(self, found, path):
        kind, name = found[1], found[2]
        if kind == '"':
            return self.text(name, path.parent)
        if not re.search(r"[./]|^(bit|locale)$", name):  # all others are in scripts/single/begin.hpp
            self.headers.add_header_line("", f"#include <{name}>\n")
        return ""


def without_floats(part):
    name, lines = part
    end = [i for i, line in enumerate(lines) if "!is_supported_floating_point(value)" in line]
    return name, [*lines[:end[0]], "WITHOUT_FLOATS", "}"] if end else lines


def changed(text, changes):
    for pattern, replacement in changes:
        if not re.search(pattern, text):
            die(f"a library has nothing that matches this pattern: {pattern}")
        text = re.sub(pattern, replacement, text)
    return text


def fmt_text(folder, headers):
    text = Library([folder / "include/fmt"], headers).text("format.h")
    text = "".join("\n".join(lines) + "\n" for _, lines in map(without_floats, definitions(text)))
    return "#define FMT_HEADER_ONLY 1\n" + changed(text, FMT_CHANGES)


def xxhash_text(folder, headers):
    return "#define XXH_INLINE_ALL\n" + changed(Library([folder], headers).text("xxhash.h"), XXHASH_CHANGES)


def simdjson_text(folder, headers):
    library = Library([folder / "include", folder / "src"], headers)
    text = "".join(library.text(f"simdjson/{name}.h") for name in ("simdjson_version", "base", "implementations"))
    return changed(text + library.text("simdjson.cpp"), SIMDJSON_CHANGES)


def check_version(name, folder, file, pattern):
    """Requires the pinned version: the result is then the same everywhere."""
    pinned = (ROOT / "cmake/dependencies.cmake").read_text()
    wanted = re.search(r"set\(simdjson_minimum (.*)\)" if name == "simdjson" else rf"{name}/archive/v?(.*)\.tar", pinned)[1]
    if not (folder / file).is_file():
        die(f"{folder} is not {name} {wanted}, which cmake/dependencies.cmake pins: it has no {file}")
    if (found := ".".join(re.findall(pattern, (folder / file).read_text(), re.MULTILINE))) != wanted:
        die(f"{folder} is {name} {found}, and cmake/dependencies.cmake pins {wanted}")
    return f"{name} {wanted}"


# ---- the six files ------------------------------------------------------------------------------------------------------

def public_functions(header):
    return re.findall(r"^ST_API [^;(]*?\b(st_\w+)\(", header, re.MULTILINE)


def header_text(header):
    names = [*public_functions(header), "st_init_"]
    renames = "".join(f"#define ST_RENAMED_{name[3:]}(prefix) prefix##{name[3:]}\n"
                      f"#define {name} ST_APPLIED_(ST_RENAMED_{name[3:]}, ST_PREFIX)\n" for name in names)
    options, _, end = (PARTS / "header.in").read_text().replace("@RENAMES@\n", renames).partition("@FUNCTIONS@\n")
    before, line, after = header.partition('#ifdef __cplusplus\nextern "C" {\n')
    return before + options + line + after.replace("<safetensors/safetensors.h>", '"safetensors.h"') + end


def hpp_text(header):
    """With another namespace in each copy that has a prefix, so the inline functions of two versions stay apart."""
    guard = "#ifndef LIBSAFETENSORS_HPP\n#define LIBSAFETENSORS_HPP\n"
    header = header.replace(f'{guard}\n#include "safetensors.h"\n', f'#include "safetensors.h"\n\n{guard}', 1)
    header = header.replace("\nnamespace safetensors {\n",
                            "\nnamespace safetensors {\n#ifdef ST_PREFIX\ninline namespace ST_PREFIX {\n#endif\n", 1)
    return header.replace("\n}  // namespace safetensors\n", "\n#ifdef ST_PREFIX\n}\n#endif\n}  // namespace safetensors\n")


def licences(libraries):
    text = (ROOT / "LICENSE").read_text()
    for name, path in libraries:
        found = path.read_text().strip()
        if "Apache License" in found[:200]:
            found = "The Apache License 2.0, as above.\n" + re.search(r"Copyright \d.*\S", found)[0]
        if name == "simdjson":
            part = (path.parent / "include/simdjson/internal/isadetection.h").read_text()
            found += "\n\nThe detection of the processor's instructions in it has another licence:\n\n" + re.search(r"\A/\* (.*?)\n\*/", part, re.DOTALL)[1]
        text += f"\n{'=' * 80}\nsafetensors.cpp contains parts of {name}, which has this licence:\n\n{found}\n"
    return text


def main(*folders):
    out, simdjson, fmt, xxhash = map(pathlib.Path, folders)
    header = (ROOT / "include/safetensors/safetensors.h").read_text()
    version = ".".join(re.findall(r"define ST_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", header))
    libraries = [
        check_version("simdjson", simdjson, "include/simdjson/simdjson_version.h", r"SIMDJSON_VERSION_(?:M\w+|REV\w+) = (\d+)"),
        check_version("fmt", fmt, "ChangeLog.rst", r"\A(\d+\.\d+\.\d+) "),
        check_version("xxHash", xxhash, "xxhash.h", r"#define XXH_VERSION_(?:MAJOR|MINOR|RELEASE) +(\d+)"),
    ]
    sources = Sources()
    for path in own_sources():
        if path.parent.name != "static_runtime":
            sources.add(path)
    mentioned = set(IDENTIFIER.findall("".join(sources.text)))
    parts = [(f"{libraries[1]}, MIT", fmt_text(fmt, sources)),
             (f"{libraries[2]}, BSD-2-Clause", xxhash_text(xxhash, sources)),
             (f"{libraries[0]}, Apache-2.0", simdjson_text(simdjson, sources))]
    text = (PARTS / "begin.hpp").read_text().replace("@VERSION@", version)
    for condition, lines in sorted(sources.system_headers.items()):
        lines = "".join(sorted(lines))
        text += f"\n#if {condition}\n{lines}#endif\n" if condition else lines
    text += '\n#include "safetensors.h"\n' + (PARTS / "libraries.hpp").read_text()
    for name, part in parts:
        text += f"\n// ==== {name}\nST_BEGIN\n{without_spaces_after_commas(without_unused(part, mentioned))}ST_END\n"
    text += (PARTS / "own.hpp").read_text() + section("scripts/single/cxx20.hpp", "", (PARTS / "cxx20.hpp").read_text())
    text += re.sub(r" -{5,}\n", "\n", "".join(sources.text)) + "\n" + (PARTS / "end.hpp").read_text()  # rules of headings
    text = re.sub(r"(?<![\w\"])(?:FMT(?=_)|XXH|SIMDJSON(?=_))", lambda found: f"ST_{found[0][0]}", text)

    files = {"safetensors.h": header_text(header), "safetensors.cpp": text, "example.c": (PARTS / "example.c").read_text(),
             "safetensors.hpp": hpp_text((ROOT / "include/safetensors/safetensors.hpp").read_text()),
             "LICENSE": licences((("simdjson", simdjson / "LICENSE"), ("fmt", fmt / "LICENSE.rst"), ("xxHash", xxhash / "LICENSE")))}
    sums = "".join(f"{hashlib.sha256(files[name].encode()).hexdigest()}  {name}\n" for name in sorted(files))
    out.mkdir(parents=True, exist_ok=True)
    for name, content in {**files, "SHA256SUMS": sums}.items():
        (out / name).write_bytes(content.encode())
    print(sums, end="")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        die("usage: amalgamate.py OUT SIMDJSON FMT XXHASH")
    main(*sys.argv[1:])
