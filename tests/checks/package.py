"""Checks the content of an archive and a wheel of ./dev package.

Both contain the same library, without debug information and with the protections of hardening.py. The archive contains
the headers, the static library, and the files for CMake and pkg-config. Both contain the license, the notices and the
bill of materials, and no path of the build machine.
usage: package.py ARCHIVE WHEEL TAG

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import re
import sys
import tarfile
import tempfile
import zipfile

import bom
import hardening

archive, wheel, tag = sys.argv[1:]
texts = ["LICENSE", "notices.txt"]
wanted = ["include/safetensors/safetensors.h", "include/safetensors/safetensors.hpp", "lib/libsafetensors.a",
          "lib/pkgconfig/safetensors.pc", "lib/cmake/safetensors/safetensorsConfig.cmake", "share/safetensors/safetensors.json",
          "share/doc/safetensors/libsafetensors.spdx.json", *(f"share/doc/safetensors/{text}" for text in texts)]
LIBRARY = re.compile(r"(lib/libsafetensors\.(so[\d.]+|[\d.]+dylib)|bin/safetensors\.dll)$")

with tarfile.open(archive) as packed:
    files = {name.split("/", 1)[1]: packed.getmember(name) for name in packed.getnames() if "/" in name}
    contents = {name: packed.extractfile(file).read() for name, file in files.items() if file.isfile()}
libraries = [content for name, content in contents.items() if LIBRARY.match(name)]
with zipfile.ZipFile(wheel) as packed:
    names = packed.namelist()
    carried = [packed.read(name) for name in names if re.search(r"/(lib)?safetensors\.(so|dylib|dll)$", name)]
    contents |= {name: packed.read(name) for name in names}
own = [str(folder).encode() + b"/" for folder in (pathlib.Path(__file__).resolve().parents[2], pathlib.Path.home())
       if len(folder.parts) > 1]

faults = [f"the archive has no {name}" for name in wanted if name not in files]
faults += [f"the wheel has no {text}" for text in texts if f"safetensors_c/{text}" not in names]
if len(libraries) != 1 or carried != libraries:
    faults.append(f"{len(libraries)} libraries in the archive, {len(carried)} in the wheel, or another one")
if any(b"debug_info" in library for library in libraries + carried):
    faults.append("the library has debug information")
faults += [f"{name} has a path of this machine, under {folder.decode()}" for name, content in contents.items()
           for folder in own if folder in content]
objects = contents.get("lib/libsafetensors.a", b"")
faults += [f"the library {fault}" for library in libraries
           for fault in hardening.faults(library, "--compiled", objects)]
bills = [content for name, content in contents.items() if name.endswith("/libsafetensors.spdx.json")]
if len(bills) != 2 or len(set(bills)) != 1:
    faults.append(f"{len(bills)} bills of materials in archive and wheel, or different ones")
for bill in bills[:1]:
    with tempfile.NamedTemporaryFile(suffix=".spdx.json") as copy:
        copy.write(bill)
        copy.flush()
        faults += [f"the bill of materials: {message}" for message in bom.invalid(copy.name)]
    for library in libraries:
        if library[:4] == b"\x7fELF":
            faults += [f"the bill of materials {fault}" for fault in bom.untrue(json.loads(bill), library)]
if not wheel.endswith(f"-py3-none-{tag}.whl"):
    faults.append(f"the wheel is not for {tag}")
print(*(f"{archive}: {fault}" for fault in faults), sep="\n", end="\n" * bool(faults))
sys.exit(bool(faults))
