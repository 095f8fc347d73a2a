"""Dependence points down only: capi -> core -> {format, device} -> io -> base, where format does without io.
The command (cli) includes io and base only, and uses models through the public header.

A layer that includes what stands above or beside it cannot be tested, fuzzed or read alone, and the way back is long.
The system is asked in src/io/SYSTEM only, in src/io/posix for nothing that POSIX.1-2008 does not have, and which folder
is compiled is CMake's choice.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[2]
BELOW = {
    "base": {"base"},
    "format": {"format", "base"},
    "io": {"io", "base"},
    "device": {"device", "io", "base"},
    "core": {"core", "device", "format", "io", "base"},
    "capi": {"capi", "core", "device", "format", "io", "base"},
    "cli": {"io", "base"},  # models go through the public header
}
CONTAINERS = [p.parent.name for p in sorted((ROOT / "src" / "format").glob("*/container.cpp"))]
POSIX = {f"{name}.h" for name in (
    "dirent dlfcn fcntl poll pthread signal stdio unistd sys/mman sys/resource sys/stat sys/types sys/uio "
    "sys/file"  # flock(), which POSIX does not have, but every system of its family
    .split())}
COMMAND = {"output.hpp", "progress.hpp", "system.hpp"}
WITH_COMMAND = {"import.cpp", "index.cpp", "write.cpp"}  # the other files of cli/import read, and are fuzzed alone
LIBRARIES = {"simdjson.h", "xxhash.h", "fmt/core.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def layer_of(path):
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "src" else parts[0]


def faults(path, layer, include):
    target, beside = include.split("/")[0], (path.parent / include).exists()
    if target in BELOW and target not in BELOW[layer] and not beside:
        yield f"{layer} may not include {include}"
    if path.relative_to(ROOT).parts[0] == "src" and include.split("/")[-1] in ("safetensors.h", "safetensors.hpp"):
        yield "nothing in src/ includes the public header"
    if path.parent == ROOT / "cli/import" and path.name not in WITH_COMMAND and include in COMMAND:
        yield f"the fuzzers link the readers of cli/import without {include}"
    container = re.match(f"format/({'|'.join(CONTAINERS)})/", include)
    if container and path.parent.name != container.group(1):
        yield f"code outside of {container.group(1)} goes through format/container.hpp"
    system = path.parent.name if path.parent.parent.name in ("io", "cli") else ""
    if layer in ("base", "format", "io", "device", "core") and re.search(r"\.h$", include) and include not in LIBRARIES:
        if not system:
            yield f"{include} belongs into a folder of src/io"
        if system == "posix" and include not in POSIX:
            yield f"POSIX.1-2008 has no {include}"
    if include.startswith("io/linux/") or (re.match("io/[a-z0-9]+/", include) and not system):
        yield f"only a folder of a system sees {include}"
    if include.endswith("simdjson.h") and not (layer == "format" and path.suffix == ".cpp"):
        yield "simdjson.h belongs into a .cpp of src/format only"


files = [p for folder in ("src", "capi", "cli") for p in sorted((ROOT / folder).rglob("*.[ch]pp"))]
found = 0
for path in files:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if path.parts[len(ROOT.parts)] == "src" and "__linux__" in line:
            print(f"{path.relative_to(ROOT)}:{number}: CMake chooses the system")
            found += 1
        match = INCLUDE.match(line)
        for fault in faults(path, layer_of(path), match.group(1)) if match else ():
            print(f"{path.relative_to(ROOT)}:{number}: {fault}")
            found += 1
print(f"{len(files)} files, {found} faults")
sys.exit(found != 0 or not files)
