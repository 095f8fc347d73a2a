"""Bills of materials are valid SPDX 2.3, and match the library or program that they describe.

usage: bom.py BOM [BINARY]     BINARY is an ELF file; exit code 77 if the Python has no spdx-tools

SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

from hardening import Elf

LINKED = {"simdjson": "libsimdjson.so", "OpenSSL": "libcrypto.so", "zlib": "libz.so", "libcurl": "libcurl.so"}
SYSTEM = ("libc.so", "libc.musl-", "libm.so", "libgcc_s.so", "libpthread.so", "libdl.so", "ld-linux", "libsafetensors.so")
CPP_RUNTIMES = ("libstdc++.so", "libc++.so")
# Text that a library leaves in what it is compiled into: the name of a type that has virtual functions.
TRACES = {"simdjson": b"simdjson14implementationE\0"}


def invalid(path):
    """Returns the errors that spdx-tools finds."""
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
    return [message.validation_message for message in validate_full_spdx_document(parse_file(str(path)), "SPDX-2.3")]


def parts(document, relation):
    names = {package["SPDXID"]: package["name"] for package in document["packages"]}
    return {names[one["relatedSpdxElement"]] for one in document["relationships"] if one["relationshipType"] == relation}


def untrue(document, binary):
    """Compares the document with the ELF file that it describes."""
    links, contains = parts(document, "DYNAMIC_LINK"), parts(document, "CONTAINS")
    needed = [name for name in Elf(binary).needed() if not name.startswith(SYSTEM)]
    own_runtime = not any(name.startswith(CPP_RUNTIMES) for name in needed)
    needed = [name for name in needed if not name.startswith(CPP_RUNTIMES)]
    for name in needed:
        if not any(name.startswith(LINKED[part]) for part in links):
            yield f"does not name {name}, which is linked"
    for part in links:
        if not any(name.startswith(LINKED[part]) for name in needed):
            yield f"names {part}, which is not linked"
    for part, trace in TRACES.items():
        if (part in contains) != (trace in binary):
            yield f"{'names' if part in contains else 'does not name'} {part} as compiled in"
    if own_runtime != bool(contains & {"GCC-runtime", "LLVM-runtime"}):
        yield f"{'does not name' if own_runtime else 'names'} a C++ runtime as compiled in"


def main(path, *binaries):
    try:
        import spdx_tools  # noqa: F401
    except ImportError:
        print("skipped: no spdx-tools (./dev deps fetches it)")
        return 77
    with open(path) as file:
        document = json.load(file)
    found = invalid(path)
    for binary in binaries:
        with open(binary, "rb") as file:
            found += untrue(document, file.read())
    print(*(f"{path}: {fault}" for fault in found), sep="\n", end="\n" * bool(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
