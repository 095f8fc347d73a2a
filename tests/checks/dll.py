"""The DLL exports exactly the functions of safetensors.h, and wants nothing but libraries that Windows has. Files are made
for ASLR and for data that is never executed.

Where a runtime of the compiler is missing, the loader names no function, and no program that loads the library starts.
usage: dll.py OBJDUMP DLL [PROGRAM...]

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import subprocess
import sys

import api
import hardening

SYSTEM = {"kernel32.dll", "msvcrt.dll", "advapi32.dll", "bcrypt.dll", "shell32.dll", "user32.dll", "ntdll.dll",
          "ucrtbase.dll"}


def headers(objdump, path):
    return subprocess.run([objdump, "-p", path], check=True, capture_output=True, text=True).stdout


def exported(text):
    table = text.partition("[Ordinal/Name Pointer] Table")[2].partition("\n\n")[0]
    return set(re.findall(r"^\s*\[\s*\d+\] (?:\+base\[\s*\d+\]\s+\w+ )?(\S+)$", table, re.MULTILINE))


def wanted(text):
    return {name.lower() for name in re.findall(r"DLL Name: (\S+)", text)}


faults = 0
objdump, library, *programs = sys.argv[1:]
functions = api.functions()
exports = exported(headers(objdump, library))
for name in sorted(exports ^ functions):
    print(f"{pathlib.Path(library).name}: {name} is {'too many' if name in exports else 'missing'}")
    faults += 1
for path in [library, *programs]:
    own = {pathlib.Path(library).name.lower()} if path != library else set()
    imports = wanted(headers(objdump, path))
    for name in sorted(imports - SYSTEM - own):
        if not name.startswith("api-ms-win-"):
            print(f"{pathlib.Path(path).name}: wants {name}, which Windows does not have")
            faults += 1
    for fault in hardening.faults(pathlib.Path(path).read_bytes()):
        print(f"{pathlib.Path(path).name}: {fault}")
        faults += 1
print(f"{len(functions)} functions, {1 + len(programs)} files, {faults} faults")
sys.exit(faults != 0)
