"""Times single calls that load to a GPU with torch, by our package and the reference in turns. Prints a line of JSON per
case, with the seconds of one call. If it cannot measure, it prints the reason as "skipped".

usage: calls.py FOLDER DEVICE ROUNDS; SAFETENSORS_C_LIBRARY and PYTHONPATH say where our package is.
SPDX-License-Identifier: Apache-2.0
"""
import importlib
import json
import pathlib
import sys
import time

import torch

from load import finish

KIB, MIB = 1 << 10, 1 << 20
NEEDED = 3 << 30  # bytes of GPU memory; the largest case takes 2 GiB, half for each package
PACKAGES = {"ours": "safetensors_c", "reference": "safetensors"}
# Name, number of tensors, their shape in F32, and the part to load. None: load_file loads all tensors in one call.
CASES = (
    ("load_file, 160 x 4 KiB", 160, (KIB,), None),
    ("load_file, 1,000 x 4 KiB", 1000, (KIB,), None),
    ("load_file, 10,000 x 4 KiB", 10_000, (KIB,), None),
    ("load_file, 1,000 x 1 MiB", 1000, (256, KIB), None),
    ("get_tensor, 4 KiB", 64, (KIB,), ...),
    ("get_tensor, 256 KiB", 64, (64, KIB), ...),
    ("get_tensor, 1 MiB", 64, (256, KIB), ...),
    ("get_tensor, 4 MiB", 32, (1024, KIB), ...),
    ("get_tensor, 6 MiB", 32, (1536, KIB), ...),
    ("get_tensor, 16 MiB", 16, (4096, KIB), ...),
    ("rows, 16 of 64 MiB", 4, (4096, 4096), slice(1024, 2048)),
    ("columns, 64 KiB of 64 MiB", 4, (4096, 4096), (slice(None), slice(8, 12))),
    ("columns, 1 of 64 MiB", 4, (4096, 4096), (slice(None), slice(64, 128))),
    ("columns, 16 of 64 MiB", 4, (4096, 4096), (slice(None), slice(1024, 2048))),
)


def timed(package, path, device, part):
    """The seconds per call, and the tensors."""
    if part is None:
        load = importlib.import_module(f"{package}.torch").load_file
        finish(device)
        begin = time.perf_counter()
        found = load(path, device=device)
        finish(device)
        return time.perf_counter() - begin, [found[name] for name in sorted(found)]
    with importlib.import_module(package).safe_open(path, framework="pt", device=device) as file:
        names = sorted(file.keys())
        file.get_tensor(names[0])  # starts the driver, and pins memory
        finish(device)
        begin = time.perf_counter()
        if part is ...:
            found = [file.get_tensor(name) for name in names]
        else:
            found = [file.get_slice(name)[part] for name in names]
        finish(device)
        return (time.perf_counter() - begin) / len(names), found


def measure(path, device, rounds, part):
    best = dict.fromkeys(PACKAGES, float("inf"))
    for turn in range(rounds + 1):
        found = {}
        for name, package in PACKAGES.items():
            took, found[name] = timed(package, path, device, part)
            if turn:
                best[name] = min(best[name], took)
        if not turn and not all(one.equal(other) for one, other in zip(*found.values(), strict=True)):
            raise SystemExit(f"{path}: the tensors on the GPU differ")
    return best


def main():
    folder, device, rounds = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if device != "cpu" and (free := torch.cuda.mem_get_info(device)[0]) < NEEDED:
        print(json.dumps({"skipped": f"the GPU has {free // MIB} MiB of free memory"}))
        return
    try:
        save = importlib.import_module("safetensors.torch").save_file
    except ImportError as error:
        print(json.dumps({"skipped": f"the reference cannot be imported: {error}"}))
        return
    path = folder / "calls.safetensors"
    made = None
    try:
        for name, count, shape, part in CASES:
            if made != (count, shape):
                save({f"model.layers.{i}.weight": torch.randn(shape) for i in range(count)}, path)
                made = (count, shape)
            print(json.dumps({"case": name, **measure(path, device, rounds, part)}), flush=True)
    finally:
        path.unlink(missing_ok=True)


main()
