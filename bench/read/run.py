#!/usr/bin/env python3
"""Runs the loaders of bench/read in turns and compares them: every byte in the caller's memory, checksums equal.

Each load is a process of its own. Hot means that the files were read just before; cold that they were evicted and at
most 1 % of them is resident, which is asked and not assumed.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
LAYER = [("attn_q", [2048, 2048]), ("attn_norm", [2048]), ("up", [2048, 8192]), ("down", [8192, 2048]), ("bias", [8192]),
         ("scale", [1]), ("attn_out", [2048, 2048])]
WIDE, THIN = "column:embed", "column:layers.0.down"  # rows of 512 KiB, of 8 KiB; a quarter of the columns is read


# ---- the files ---------------------------------------------------------------------------------------------------------

def write_file(path, tensors):
    """Random data, so that no disk can be clever about it."""
    header, at = {}, 0
    for name, shape in tensors:
        size = 4
        for dim in shape:
            size *= dim
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at > 0:
            file.write(random.randbytes(min(at, 1 << 24)))
            at -= 1 << 24
        file.flush()
        os.fsync(file.fileno())
    return list(header)


def tensors_of(first, count, embed=False):
    layers = [(f"layers.{i}.{name}", shape) for i in range(first, first + count) for name, shape in LAYER]
    return ([("embed", [512, 131072])] if embed else []) + layers


def make_models(folder):
    """One file of 2.1 GB, and the same amount in four shards."""
    folder.mkdir(parents=True, exist_ok=True)
    single, shards = folder / "one.safetensors", folder / "shards"
    if not single.exists():
        write_file(folder / "part", tensors_of(0, 11, embed=True))
        (folder / "part").rename(single)
    index = shards / "model.safetensors.index.json"
    names = [f"model-{i:05}-of-00004.safetensors" for i in range(1, 5)]
    if not index.exists():
        shards.mkdir(exist_ok=True)
        weights = {}
        for i, name in enumerate(names):
            weights.update({tensor: name for tensor in write_file(shards / name, tensors_of(3 * i, 3))})
        index.write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    return {"one file": (single, [single]), "four shards": (index, [shards / name for name in names])}


# ---- loads -------------------------------------------------------------------------------------------------------------

class Bench:
    def __init__(self, options):
        self.program = options.build / "bench/read/bench_read"
        self.crate = options.build / "bench/read/reference/release/bench-read-reference"
        self.rounds = options.rounds
        self.absent = set()

    def command(self, loader, what, model):
        path, files = model
        if loader == "crate":
            return [self.crate, what, *files]
        if loader in ("safetensors", "runai"):
            return [sys.executable, HERE / "loaders.py", loader, what, *files]
        name, _, memory = loader.partition("/")
        return [self.program, name, what, memory or "reused", path, *files]

    def prepare(self, model, cold):
        everything = ["all", "reused", model[0], *model[1]]
        if not cold:
            for path in model[1]:
                with open(path, "rb") as file:
                    while file.read(1 << 24):
                        pass
            return
        subprocess.run([self.program, "evict", *everything], check=True)
        resident = float(subprocess.run([self.program, "resident", *everything], check=True, capture_output=True, text=True).stdout)
        if resident > 0.01:
            raise SystemExit(f"{resident:.1%} of the files stays resident: this is no cold read")

    def load(self, loader, what, model, cold):
        self.prepare(model, cold)
        done = subprocess.run(self.command(loader, what, model), capture_output=True, text=True)
        if done.returncode != 0:
            self.absent.add(loader)
            print(f"  {loader}: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}")
            return None
        return json.loads(done.stdout)

    def compare(self, title, loaders, what, model, cold):
        """{loader: medians}; all loaders in every round, in an order that changes."""
        costs = {loader: [] for loader in loaders if loader not in self.absent}
        for turn in range(self.rounds):
            order = list(costs)
            for loader in order[turn % len(order):] + order[:turn % len(order)]:
                cost = self.load(loader, what, model, cold) if loader not in self.absent else None
                if cost is not None:
                    costs[loader].append(cost)
        result = {loader: median(costs[loader]) for loader in costs if costs[loader]}
        if len({cost["checksum"] for cost in result.values() if int(cost["checksum"], 16) != 0}) > 1:
            raise SystemExit(f"{title}: the loaders do not agree on the bytes")
        show(title, result)
        return result


def median(costs):
    middle = {key: statistics.median(cost[key] for cost in costs) for key in ("seconds", "cpu", "faults", "disk", "read")}
    return middle | {"bytes": costs[0]["bytes"], "checksum": costs[0]["checksum"], "best": min(cost["seconds"] for cost in costs)}


def show(title, result):
    print(f"\n{title}\n  {'':24}{'GB/s':>8}{'best':>8}{'CPU s/GB':>10}{'faults':>9}{'disk':>7}{'calls':>7}")
    for loader, cost in result.items():
        size = cost["bytes"] / 1e9
        print(f"  {loader:24}{size / cost['seconds']:8.2f}{size / cost['best']:8.2f}{cost['cpu'] / size:10.3f}{cost['faults']:9.0f}"
              f"{cost['disk'] / cost['bytes']:7.2f}{cost['read'] / cost['bytes']:7.2f}")


def rate(result, loader):
    return result[loader]["bytes"] / result[loader]["seconds"] if loader in result else None


class Goals:
    """What was asked for, beside what was measured."""

    def __init__(self):
        self.lines = []

    def add(self, what, value, wanted, at_most=False):
        if value is None:
            return
        met = value <= wanted if at_most else value >= wanted
        self.lines.append(f"  {'yes' if met else 'NO':4}{value:8.2f}  ({'at most' if at_most else 'at least'} {wanted})  {what}")

    def ratio(self, what, result, ours, theirs, wanted):
        mine, others = rate(result, ours), [rate(result, loader) for loader in theirs if loader in result]
        if mine is not None and others:
            self.add(what, mine / max(others), wanted)


def hot(bench, goals, name, model):
    users = ["crate", "safetensors"]
    result = bench.compare(f"hot, {name}: all", ["memcpy", "plan", "loop", "memcpy/fresh", "plan/fresh", *users], "all", model, False)
    goals.ratio(f"hot, {name}: plan of the memcpy roof, reused memory", result, "plan", ["memcpy"], 0.9)
    goals.ratio(f"hot, {name}: plan of the memcpy roof, fresh memory", result, "plan/fresh", ["memcpy/fresh"], 0.9)
    for user in users:
        goals.ratio(f"hot, {name}: plan/fresh over {user}", result, "plan/fresh", [user], 3)


def cold(bench, goals, name, model):
    roofs = ["buffered", "buffered-1", "direct", "io_uring"]
    result = bench.compare(f"cold, {name}: all", [*roofs, "plan", "crate", "safetensors", "runai"], "all", model, True)
    goals.ratio(f"cold, {name}: plan of the best roof", result, "plan", roofs, 0.9)
    goals.ratio(f"cold, {name}: plan of buffered", result, "plan", roofs[:2], 0.95)
    least = min(result[loader]["cpu"] for loader in roofs[:2] if loader in result)
    goals.add(f"cold, {name}: CPU time of plan, of the thriftier buffered", result["plan"]["cpu"] / least, 0.2, at_most=True)


def parts(bench, goals, name, model):
    for what, is_cold in [("tenth", True), ("tenth", False), (WIDE, True), (WIDE, False), (THIN, True), (THIN, False)]:
        if what == WIDE and name != "one file":
            continue
        title = f"{'cold' if is_cold else 'hot'}, {name}: {what}"
        loaders = ["plan", *(["plan-exact"] if is_cold else []), "loop", "crate", "safetensors"]
        result = bench.compare(title, loaders, what, model, is_cold)
        goals.add(f"{title}: bytes of the {'disk' if is_cold else 'calls'}, of those needed",
                  result["plan"]["disk" if is_cold else "read"] / result["plan"]["bytes"], 1.1, at_most=True)
        goals.ratio(f"{title}: plan over the faster reference", result, "plan", ["crate", "safetensors"], 1)


def reduced(bench, goals, model, folder):
    for is_cold in (True, False):
        title = f"{'cold' if is_cold else 'hot'}: less than the whole machine"
        result = bench.compare(title, ["plain-loop", "plan-1", "plan-host", "plan-through"], "all", model, is_cold)
        for loader in ("plan-1", "plan-host", "plan-through"):
            goals.ratio(f"{title}: {loader} of a plain pread loop", result, loader, ["plain-loop"], 1)
    if folder is None:
        return
    copy = folder / "bench_read.safetensors"
    try:
        write_file(copy, tensors_of(0, 3))
        result = bench.compare("tmpfs, no direct reads", ["plain-loop", "plan", "plan-1", "plan-around"], "all", (copy, [copy]), False)
        for loader in ("plan", "plan-1"):
            goals.ratio(f"tmpfs: {loader} of a plain pread loop", result, loader, ["plain-loop"], 1)
    finally:
        copy.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description="Compares ways to bring a checkpoint into memory.")
    parser.add_argument("build", type=pathlib.Path, help="the build folder that holds bench/read")
    parser.add_argument("data", type=pathlib.Path, help="where the files are made, once: 4.3 GB on a real disk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["hot", "cold", "parts", "reduced"])
    parser.add_argument("--model", choices=["one file", "four shards"])
    options = parser.parse_args()
    bench, goals = Bench(options), Goals()
    models = make_models(options.data)
    for name, model in models.items():
        if options.model not in (None, name):
            continue
        for section, run in (("hot", hot), ("cold", cold), ("parts", parts)):
            if options.only in (None, section):
                run(bench, goals, name, model)
    if options.only in (None, "reduced"):
        memory = pathlib.Path("/dev/shm")
        reduced(bench, goals, models["one file"], memory if os.access(memory, os.W_OK) else None)
    print("\nwhat was asked for")
    print("\n".join(goals.lines))


main()
