"""Checkpoints of real projects: every tensor's bytes are those which the reference reads, in each mode of opening.

The files are not part of this repository; without them the test is skipped.
SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import sys

from support import library_path, need_reference, skip
from support.library import REFERENCE, STRICT, Library

MODES = {"AUTO": 0, "MAP": 1, "COPY": 2, "READ": 3}
RULES = {"default": 0, "strict": STRICT, "reference": REFERENCE}
FILES = 3


def by_reference(package, path):
    tensors = {name: (tensor["dtype"], tensor["shape"], bytes(tensor["data"])) for name, tensor in package.deserialize(path.read_bytes())}
    with package.safe_open(str(path), "np") as file:
        return tensors, list(file.offset_keys()), file.metadata() or {}


def differences(library, package, path):
    tensors, order, metadata = by_reference(package, path)
    for rules, flags in RULES.items():
        for mode, io in MODES.items():
            file = library.open(str(path), flags, io)
            listed = library.tensors(file)
            found = {name: (dtype, shape, data) for name, (dtype, shape, _, data) in listed.items()}
            if found != tensors:
                yield f"{path.name}, {rules} rules, {mode}: tensors differ"
            if list(listed) != order:
                yield f"{path.name}, {rules} rules, {mode}: the order is {list(listed)}, the reference's {order}"
            if dict(library.metadata(file)) != metadata:
                yield f"{path.name}, {rules} rules, {mode}: metadata differs"
            library.so.st_free(file)
    print(f"{path.name}: {len(tensors)} tensors, {sum(len(data) for _, _, data in tensors.values())} bytes of data")


def main():
    package = need_reference()
    library = Library(library_path())
    folder = pathlib.Path(os.environ.get("ST_SHARED_REAL_DIR", ""))
    paths = sorted(folder.glob("*.safetensors"))
    if not os.environ.get("ST_SHARED_REAL_DIR") or not paths:
        skip("ST_SHARED_REAL_DIR names no folder with checkpoints")
    found = [what for path in paths for what in differences(library, package, path)]
    print("\n".join(found + [f"{len(paths)} files, {len(found)} differences"]))
    return 1 if found or len(paths) < FILES else 0


if __name__ == "__main__":
    sys.exit(main())
