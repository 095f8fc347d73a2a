"""What does it cost to convert a torch checkpoint? The command beside the reference's converter, in turns.

    python3 bench/convert/run.py build/release/cli/safetensors build/bench-data/convert [GIGABYTES]

Needs torch and the package safetensors. Each conversion is a process of its own, files are in the page cache; the times are the
fastest of the rounds, memory is the peak of the resident set. What both wrote is compared. The reference's converter is what its
convert.py does: load, save, load again, compare each tensor; "without a check" leaves out the last two.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import subprocess
import sys
import time

ROUNDS = 3
BLOCK = 1 << 22

CONVERTER = """
import sys, torch
from collections import defaultdict
from safetensors.torch import _find_shared_tensors, _is_complete, load_file, save_file
loaded = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
loaded = loaded.get("state_dict", loaded)
for group in _find_shared_tensors(loaded):
    complete = sorted(name for name in group if _is_complete(loaded[name]))
    for name in sorted(group):
        if complete and name != complete[0]:
            del loaded[name]
loaded = {name: tensor.contiguous() for name, tensor in loaded.items()}
save_file(loaded, sys.argv[2], metadata={"format": "pt"})
if sys.argv[3] == "check":
    again = load_file(sys.argv[2])
    for name, tensor in loaded.items():
        if not torch.equal(tensor, again[name]):
            raise RuntimeError(name)
"""


def make(path, gigabytes):
    """Random values, in tensors of the sizes that a model has."""
    script = f"""
import torch
state = {{}}
left = {int(gigabytes * 1e9)}
for i in range(10 ** 6):
    rows = min(left // 8192, (4096, 11008, 1)[i % 3])
    if rows == 0:
        break
    state[f"model.layers.{{i}}.weight"] = torch.randint(0, 30000, (rows, 4096), dtype=torch.int16).view(torch.bfloat16)
    left -= rows * 8192
torch.save(state, {str(path)!r})
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def measure(command):
    """Returns seconds, seconds of CPU, and the peak of memory in bytes."""
    begin = time.monotonic()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(command)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def same(one, other):
    with open(one, "rb") as first, open(other, "rb") as second:
        while True:
            block = first.read(BLOCK)
            if block != second.read(BLOCK):
                return False
            if not block:
                return True


def main():
    command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    source, ours, theirs = (str(folder / name) for name in ("model.bin", "ours.safetensors", "theirs.safetensors"))
    if not os.path.exists(source):
        make(source, float(sys.argv[3]) if len(sys.argv) > 3 else 2)
    runs = {"safetensors convert": [command, "convert", source, ours, "--replace"],
            "the reference": [sys.executable, "-c", CONVERTER, source, theirs, "check"],
            "without a check": [sys.executable, "-c", CONVERTER, source, theirs, "no check"]}
    results = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, line in runs.items():
            results[name].append(measure(line))
    if not same(ours, theirs):
        raise RuntimeError("the files differ")
    best = {name: [min(column) for column in zip(*rows)] for name, rows in results.items()}
    base = best["safetensors convert"]
    print(f"{os.path.getsize(source) / 1e9:.2f} GB; the files written are the same")
    print(f"{'':22}{'s':>8}{'/ours':>8}{'CPU s':>8}{'/ours':>8}{'peak MB':>10}")
    for name, (seconds, cpu, peak) in best.items():
        print(f"{name:22}{seconds:8.2f}{seconds / base[0]:8.2f}{cpu:8.2f}{cpu / base[1]:8.2f}{peak / 1e6:10.1f}")
    for path in (ours, theirs):
        os.remove(path)


if __name__ == "__main__":
    main()
