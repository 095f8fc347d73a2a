"""What safetensors.h declares, src has and the command offers is in every table that has to name it. CONTRIBUTING.md lists
these places under "Adding", and this finds those that are forgotten and break nothing else.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import sys

import api

ROOT = pathlib.Path(__file__).parents[2]
WITHOUT_CPP = {"st_version",  # the number: safetensors::version() returns the text
               "st_get_metadata", "st_get_metadata_n"}  # SafeOpen::metadata() returns all of it
INSTALLED_OTHERWISE = {"gcc", "g++",  # by the jobs that build
                       "nodejs",  # is of use with npm only, and Debian's has hundreds of packages
                       "php-ffi"}  # is a part of php-cli


def text_of(*places):
    """All files of these places, which are files or patterns."""
    return "\n".join(path.read_text(errors="replace") for place in places for path in sorted(ROOT.glob(place)) if path.is_file())


def has(text, word):
    return re.search(rf"\b{re.escape(word)}\b", text) is not None


def functions():
    tests, cpp = text_of("tests/capi/**/*", "tests/devices/*"), text_of("include/safetensors/safetensors.hpp")
    for name in sorted(api.functions()):
        twins = {name, name.removesuffix("_n"), f"{name}_n"}  # one that takes lengths of strings serves for both
        if not has(tests, name):
            yield f"no test in tests/capi or tests/devices calls {name}"
        if name not in WITHOUT_CPP and not any(has(cpp, twin) for twin in twins):
            yield f"safetensors.hpp has no form of {name}"


def statuses():
    tests, python = text_of("tests/capi/**/*", "tests/devices/*"), text_of("bindings/python/safetensors_c/_errors.py")
    rules = text_of("docs/format.md")
    for name, number in re.findall(r"^ST_STATUS\(\w+, (\w+), (\d+)\)$", text_of("src/base/statuses.def"), re.MULTILINE):
        if not has(tests, name):
            yield f"no test in tests/capi or tests/devices expects {name}"
        if number[0] == "3" and not has(rules, name.removeprefix("ST_ERR_")):
            yield f"docs/format.md has no rule that reports {name}"
        if number[0] == "3" and name != "ST_ERR_SHARD" and not has(python, name):
            yield f"bindings/python/safetensors_c/_errors.py has no words for {name}"


def formats():
    numbers = re.findall(r"^  ST_FORMAT_(\w+) = (\d+),", text_of("include/safetensors/safetensors.h"), re.MULTILINE)
    python = text_of("bindings/python/safetensors_c/_library.py")
    for name, number in numbers:
        if f'"{name.lower().replace("_", "-")}": {number}' not in python:
            yield f"bindings/python/safetensors_c/_library.py: FORMATS lacks {name.lower().replace('_', '-')}"
    for folder in sorted(path.parent.name for path in (ROOT / "src/format").glob("*/container.cpp")):
        if not re.search(rf"^## .*\b{folder}\b", text_of("docs/format.md"), re.MULTILINE):
            yield f"docs/format.md has no section for {folder}"
        if folder == "safetensors":
            continue  # whose tests are those of headers and of conformance/files
        for place in (f"tests/format/{folder}_test.cpp", f"tests/conformance/{folder}.cpp", f"tests/conformance/{folder}/expected.tsv",
                      f"fuzz/{folder}/{folder}.cpp", f"fuzz/{folder}/corpus"):
            if not (ROOT / place).exists():
                yield f"there is no {place}"
        for place in ("tests/core/check_test.cpp", "tests/format/finding_test.cpp", "tests/cli/verify_test.py",
                      "tests/conformance/run.py"):
            if not has(text_of(place), folder):
                yield f"{place} does not read the files of tests/conformance/{folder}"


def commands():
    manual, readme = text_of("docs/command.md"), text_of("README.md")
    for name in re.findall(r"^  add_(\w+)\(app\);$", text_of("cli/app.cpp"), re.MULTILINE):
        if not re.search(rf"^## .*\b{name}\b", manual, re.MULTILINE):
            yield f"docs/command.md has no section for {name}"
        if not re.search(rf"^- \[.*\b{name}\b.*\]\(#", manual, re.MULTILINE):
            yield f"the list at the top of docs/command.md lacks {name}"
        if not re.search(rf"^\| \[Command\].*`{name}`", readme, re.MULTILINE):
            yield f"the row of README.md that lists the commands lacks {name}"


def languages():
    manual = text_of("docs/languages.md")
    table = text_of("tests/consumers/languages.py")
    threads = re.search(r"^THREADS = \{(.*?)\}$", table, re.MULTILINE | re.DOTALL)[1]
    for folder in sorted(path for path in (ROOT / "tests/consumers").iterdir() if path.is_dir()):
        for path in [*folder.glob("[mM]odel.*"), *folder.glob("main.go")]:
            program = path.relative_to(ROOT / "tests/consumers").as_posix()
            if f"`{program}`" not in manual:
                yield f"docs/languages.md has no rules for {program}"
            if "--threads" in path.read_text() and f'"{folder.name}":' not in threads:
                yield f"tests/consumers/languages.py: THREADS lacks {folder.name}, which has --threads"
    packages = text_of("scripts/sources.sh").partition("\nlanguages() {")[2].partition("\n}")[0] + text_of("scripts/packages.sh")
    for package in sorted({*re.findall(r'need\("[\w+-]+", "([\w+-]+)"\)', table), *re.findall(r"Debian has it in ([\w+-]+)", table)}):
        if package not in INSTALLED_OTHERWISE and not has(packages, package):
            yield f"languages() of scripts/sources.sh lacks {package}"


def systems():
    """A source that amalgamate.py does not know for one of a system would be compiled on all of them."""
    copied = dict(re.findall(r'^    "(src/io/.*)": "(.*)",$', text_of("scripts/amalgamate.py"), re.MULTILINE))
    for folder in sorted(path.name for path in (ROOT / "src/io").iterdir() if path.is_dir()):
        place, portable = f"src/io/{folder}", "src/io/posix/system.cpp"
        if place not in copied:
            yield f"scripts/amalgamate.py: SYSTEMS lacks {place}"
        elif folder != "posix" and "io/posix/system.hpp" in text_of(f"{place}/*") and f"!{copied[place]}" not in copied[portable]:
            yield f"scripts/amalgamate.py: the row of {portable} does not exclude {place}"
        if not has(text_of("cmake/system.cmake"), place):
            yield f"cmake/system.cmake compiles {place} on no system"


def jobs():
    listed = re.search(r"^- Only (.*?) install\n?", text_of("CONTRIBUTING.md"), re.MULTILINE | re.DOTALL)[1]
    allowed = re.search(r"case \$verb in ([\w |]+)\) return 0", text_of("scripts/packages.sh"))[1]
    if set(re.findall(r"`(\w+)`", listed)) != set(allowed.split(" | ")):
        yield "CONTRIBUTING.md and may_install of scripts/packages.sh name different jobs"
    installed = text_of("scripts/packages.sh", "scripts/sources.sh")
    for needed in re.findall(r"^ +need\w* (.*)", text_of("dev"), re.MULTILINE):
        for package in re.findall(r"[\w.+-]+:([\w.+-]+)", needed):
            if not has(installed, package):
                yield f"install_everything of scripts/sources.sh lacks {package}, which a job in dev needs"


def sonames():
    """Names with the number of the soname agree with cmake/exports.cmake, and no name is made from the major version."""
    number = re.search(r"^set\(ST_SOVERSION (\d+)\)$", text_of("cmake/exports.cmake"), re.MULTILINE)[1]
    build = text_of("CMakeLists.txt", "cmake/*", "http/CMakeLists.txt")
    if "VERSION_MAJOR}" in build or build.count("SOVERSION ${ST_SOVERSION}") != 2:
        yield "cmake: a name does not follow ST_SOVERSION"
    found = 0
    for pattern in ("README.md", "docs/*.md", "scripts/*", "bindings/**/*.py", "tests/consumers/**/*", "tests/http/*.py"):
        for path in sorted(ROOT.glob(pattern)):
            names = re.findall(r"libsafetensors(?:-http)?(?:\.so\.(\d+)\b|\.(\d+)\.dylib)|libsafetensors-c(\d+)\b",
                               path.read_text(errors="replace") if path.is_file() else "")
            found += len(names)
            if any("".join(name) != number for name in names):
                yield f"{path.relative_to(ROOT)}: a library's name has another number than ST_SOVERSION, {number}"
    if found < 20:
        yield f"only {found} names of the library with its soname were found"


def guide():
    """The files that the lists of CONTRIBUTING.md name exist, by their whole path or by its end."""
    lists = text_of("CONTRIBUTING.md").partition("\n## Adding\n")[2].partition("\n## The ABI\n")[0]
    tops = [path for path in ROOT.iterdir() if not path.name.startswith((".", "build"))]
    places = {f"/{path.relative_to(ROOT).as_posix()}" for top in tops for path in (top, *top.rglob("*"))}
    for place in sorted(set(re.findall(r"`(\w[\w./-]*(?:/[\w-]+/?|\.(?:[ch]pp|c|h|py|sh|def|md|json|tsv|map|bt|cmake)))`", lists))):
        is_pattern = re.search("NAME|SUBJECT|EXTENSION", place) is not None
        if not is_pattern and not any(path.endswith(f"/{place.rstrip('/')}") for path in places):
            yield f"CONTRIBUTING.md names {place}, which does not exist"


found = [fault for check in (functions, statuses, formats, commands, languages, systems, jobs, sonames, guide) for fault in check()]
for fault in found:
    print(fault)
sys.exit(1 if found else 0)
