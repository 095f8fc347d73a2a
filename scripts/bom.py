#!/usr/bin/env python3
"""Writes the bill of materials of a package, the libraries that it contains and links, as SPDX 2.3 in JSON.

    scripts/bom.py OUT NAME [--include DIRECTORY]... [--system DIRECTORY]... [RELATION:LIBRARY[=VERSION]]...

RELATION is "contains" (compiled in), "links" (loaded at run time) or "needs" (not part of the package). No version is
written here. VERSION is a number, or "pinned" for the release that CMake pins. Without it, the version is read from the
library's header, in the first of the given directories that has it. A header in an --include has the address and SHA-256
that CMake pins, if its version is the pinned one. A header in a --system belongs to a package, which may be patched.
The C library and a shared runtime of the compiler belong to the system and are not listed.

The same arguments, headers and SOURCE_DATE_EPOCH give the same bytes.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from single.pinned import pinned_releases  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
RELATIONS = {"contains": "CONTAINS", "links": "DYNAMIC_LINK", "needs": "DEPENDS_ON"}

# License, home, headers that state the version (the first that exists), and the pattern of its parts.
LIBRARIES = {
    "simdjson": ("Apache-2.0 AND BSD-3-Clause", "https://simdjson.org",
                 ("simdjson.h", "singleheader/simdjson.h"), r"define SIMDJSON_VERSION \"?([\d.]+)"),
    "fmt": ("MIT", "https://fmt.dev", ("fmt/core.h", "fmt/base.h"), r"define FMT_VERSION (\d+)"),
    "xxHash": ("BSD-2-Clause", "https://xxhash.com", ("xxhash.h",),
               r"define XXH_VERSION_(?:MAJOR|MINOR|RELEASE) +(\d+)"),
    "CLI11": ("BSD-3-Clause", "https://github.com/CLIUtils/CLI11", ("CLI/Version.hpp", "CLI/CLI.hpp"),
              r"define CLI11_VERSION \"([\d.]+)"),
    "nlohmann_json": ("MIT", "https://json.nlohmann.me", ("nlohmann/detail/abi_macros.hpp", "nlohmann/json.hpp"),
                      r"define NLOHMANN_JSON_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)"),
    "OpenSSL": ("Apache-2.0", "https://www.openssl.org", ("openssl/opensslv.h",), r"define OPENSSL_VERSION_STR \"([\d.]+)"),
    "zlib": ("Zlib", "https://zlib.net", ("zlib.h",), r"define ZLIB_VERSION \"([\d.]+)"),
    "libcurl": ("curl", "https://curl.se", ("curl/curlver.h",), r"define LIBCURL_VERSION \"([\d.]+)"),
    "winpthreads": ("MIT", "https://www.mingw-w64.org", ("_mingw_mac.h",),
                    r"define __MINGW64_VERSION_(?:MAJOR|MINOR|BUGFIX)\s+(\d+)"),
    # libstdc++ and libgcc; libc++, libc++abi, libunwind and compiler-rt. Their version is the compiler's.
    "GCC-runtime": ("GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org", (), ""),
    "LLVM-runtime": ("Apache-2.0 WITH LLVM-exception", "https://llvm.org", (), ""),
}


def die(message):
    sys.exit(f"bom.py: {message}")


def header_of(library, folders):
    """The first header that states the library's version, and its version."""
    _, _, headers, pattern = LIBRARIES[library]
    for path in (pathlib.Path(folder, header) for folder in folders for header in headers):
        if path.is_file() and (parts := re.findall(pattern, path.read_text(errors="replace"))):
            if library == "fmt":  # 90100 is 9.1.0
                parts = [str(int(parts[0]) // part % 100) for part in (10000, 100, 1)]
            return path, ".".join(parts[:3])
    return None


def package(name, version, licence, home, **more):
    return {"SPDXID": f"SPDXRef-{name.replace('_', '-')}", "name": name, "versionInfo": version, "homepage": home,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": licence,
            "licenseDeclared": licence, "copyrightText": "NOASSERTION", "supplier": "NOASSERTION", **more}


def library_package(library, version, folders, system):
    licence, home, headers, _ = LIBRARIES[library]
    release = pinned_releases().get(library.lower())
    if version == "pinned":
        if release is None:
            die(f"CMake pins no {library}")
        return pinned_package(library, release)
    if version:
        return package(library, version, licence, home)
    found = header_of(library, [*folders, *system])
    if found is None:
        die(f"no header of {library} states its version: {', '.join(headers) or 'state it as =VERSION'}")
    path, version = found
    if any(path.is_relative_to(folder) for folder in system):
        return package(library, version, licence, home, sourceInfo="a package that is installed on the build machine")
    if release is None or release.version != version:
        return package(library, version, licence, home, sourceInfo="another version than the pinned one")
    return pinned_package(library, release)


def pinned_package(library, release):
    licence, home, _, _ = LIBRARIES[library]
    return package(library, release.version, licence, home, downloadLocation=release.address,
                   checksums=[{"algorithm": "SHA256", "checksumValue": release.sha256}])


def own_version():
    header = (ROOT / "include/safetensors/safetensors.h").read_text()
    return ".".join(re.findall(r"define ST_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", header))


def commit():
    """The commit of this checkout. Nothing in an unpacked archive."""
    if not (ROOT / ".git").exists():
        return {}
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], cwd=ROOT,
                          capture_output=True, text=True)
    return {"sourceInfo": f"commit {done.stdout.strip()}"} if done.returncode == 0 else {}


def bill(name, parts, folders, system):
    packages = [package(name, own_version(), "Apache-2.0", "NOASSERTION", **commit())]
    relationships = [("SPDXRef-DOCUMENT", "DESCRIBES", packages[0]["SPDXID"])]
    for part in parts:
        relation, _, rest = part.partition(":")
        library, _, version = rest.partition("=")
        if relation not in RELATIONS or library not in LIBRARIES:
            die(f"'{part}': RELATION is one of {', '.join(RELATIONS)}, LIBRARY one of {', '.join(LIBRARIES)}")
        packages.append(library_package(library, version, folders, system))
        relationships.append((packages[0]["SPDXID"], RELATIONS[relation], packages[-1]["SPDXID"]))
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.datetime.now().timestamp())
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "creationInfo": {"created": created, "creators": ["Tool: libsafetensors-bom"]}, "packages": packages,
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                          for one, kind, other in relationships],
    }
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document))
    return {**document, "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{own_version()}-{identity}"}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.splitlines()[2].strip())
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("name")
    parser.add_argument("parts", nargs="*")
    for kind in ("--include", "--system"):
        parser.add_argument(kind, action="append", default=[])
    given = parser.parse_intermixed_args()
    text = json.dumps(bill(given.name, given.parts, given.include, given.system), indent=1) + "\n"
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_bytes(text.encode())


if __name__ == "__main__":
    main()
