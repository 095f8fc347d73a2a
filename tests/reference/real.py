"""Checkpoints of real projects: every tensor's bytes are those which the reference reads, in each mode of opening.

The files are not part of this repository; without them the test is skipped. recorded/real.txt has a line for each, so
that they need no reference:

    real.py
    real.py --record | --recorded    (support/recorded.py)

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import sys

from support import library_path, need_reference, skip
from support.library import REFERENCE, STRICT, Library
from support.recorded import FOLDER, digest, mode

MODES = {"AUTO": 0, "MAP": 1, "COPY": 2, "READ": 3}
RULES = {"default": 0, "strict": STRICT, "reference": REFERENCE}
FILES = 3
TABLE = FOLDER / "real.txt"


def digests(tensors, order, metadata):
    return f"{digest(sorted(tensors.items()), 16)} {digest(order, 16)} {digest(sorted(metadata.items()), 16)}"


def by_reference(package, path):
    tensors = {name: (tensor["dtype"], tensor["shape"], bytes(tensor["data"])) for name, tensor in package.deserialize(path.read_bytes())}
    with package.safe_open(str(path), "np") as file:
        return digests(tensors, list(file.offset_keys()), file.metadata() or {})


def by_us(library, path, flags, io):
    file = library.open(str(path), flags, io)
    listed = library.tensors(file)
    found = {name: (dtype, shape, data) for name, (dtype, shape, _, data) in listed.items()}
    said = digests(found, list(listed), dict(library.metadata(file)))
    library.so.st_free(file)
    return said


def differences(library, path, expected):
    for rules, flags in RULES.items():
        for name, io in MODES.items():
            parts = zip(("tensors", "their order", "metadata"), by_us(library, path, flags, io).split(), expected.split())
            for what, mine, theirs in parts:
                if mine != theirs:
                    yield f"{path.name}, {rules} rules, {name}: {what} differ"


def main():
    chosen = mode()
    folder = pathlib.Path(os.environ.get("ST_SHARED_REAL_DIR", ""))
    paths = sorted(folder.glob("*.safetensors"))
    if not os.environ.get("ST_SHARED_REAL_DIR") or not paths:
        skip("ST_SHARED_REAL_DIR names no folder with checkpoints")
    files = {digest(path.read_bytes(), 16): path for path in paths}
    if chosen == "--recorded":
        rows = (line.split(maxsplit=1) for line in TABLE.read_text().splitlines())
        expected = {file: answer for file, answer in rows if file in files}
    else:
        package = need_reference()
        expected = {file: by_reference(package, path) for file, path in files.items()}
    if chosen == "--record":
        TABLE.write_text("".join(f"{file} {answer}\n" for file, answer in expected.items()))
    library = Library(library_path())
    found = [what for file, answer in expected.items() for what in differences(library, files[file], answer)]
    print("\n".join(found + [f"{len(expected)} files, {len(found)} differences"]))
    return 1 if found or len(expected) < FILES else 0


if __name__ == "__main__":
    sys.exit(main())
