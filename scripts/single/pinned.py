"""What CMake pins of other libraries: lists the releases, and unpacks one that cmake/dependencies.cmake pins.

    python3 -m single.pinned NAME DIRECTORY    (in scripts/; NAME is as in st_declare)

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import io
import pathlib
import re
import sys
import tarfile
import tempfile
import typing
import urllib.request

DEPENDENCIES = pathlib.Path(__file__).resolve().parents[2] / "cmake/dependencies.cmake"


def pinned(name, text):
    """Returns the address and the SHA-256 of the library's archive."""
    variables = dict(re.findall(r"^\s*set\((\w+) (\S+)\)", text, re.MULTILINE))
    found = re.search(rf"\bst_declare\({name}\s+\S+\s+(\S+)\s+([0-9a-f]{{64}})\b", text)
    return re.sub(r"\$\{(\w+)\}", lambda variable: variables[variable[1]], found[1]), found[2]


class Release(typing.NamedTuple):
    version: str
    address: str
    sha256: str


def pinned_releases():
    """Returns the release of each library, by its name in lower case."""
    text = "".join((DEPENDENCIES.parent / f"{name}.cmake").read_text() for name in ("dependencies", "command_libraries"))
    found = {}
    for name in re.findall(r"\bst_declare\((\w+)\s", text):
        address, sha256 = pinned(name, text)
        found[name.lower()] = Release(re.search(r"v?([\d.]+)\.tar\.gz$", address)[1], address, sha256)
    return found


def unpack(name, directory, text):
    """Creates the directory. Leaves nothing there if the archive is another one."""
    address, expected = pinned(name, text)
    with urllib.request.urlopen(address, timeout=20) as answer:
        archive = answer.read()
    if (found := hashlib.sha256(archive).hexdigest()) != expected:
        sys.exit(f"{address} has the SHA-256 {found}, and cmake/dependencies.cmake pins {expected}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.12 may lack it
            tar.extractall(scratch)
        top, = pathlib.Path(scratch).iterdir()
        top.rename(directory)


if __name__ == "__main__":
    try:
        unpack(sys.argv[1], pathlib.Path(sys.argv[2]), DEPENDENCIES.read_text())
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
