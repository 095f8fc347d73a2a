#!/usr/bin/env python3
"""How long does a Python program wait? safetensors_c beside the package safetensors, in turns in one process.

usage: run.py FOLDER [--rounds N] [--only TEXT]     FOLDER: for the files, 3 GB, on a disk

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import importlib
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import layouts

THEIRS, OURS = "safetensors", "safetensors_c"
GIB = 1 << 30


def module(package, name=""):
    return importlib.import_module(package + name)


def seconds(work, before=None):
    if before:
        before()
    begin = time.perf_counter()
    result = work()
    passed = time.perf_counter() - begin
    del result
    return passed


def in_turns(works, rounds, before=None):
    """The seconds of each work in each round; the order changes with the round."""
    taken = {name: [] for name in works}
    for turn in range(rounds):
        for name in sorted(works, reverse=turn % 2 == 1):
            taken[name].append(seconds(works[name], before))
    return taken


def report(what, taken, scale, unit):
    theirs, ours = min(taken[THEIRS]), min(taken[OURS])
    medians = statistics.median(taken[THEIRS]) / statistics.median(taken[OURS])
    print(f"{what:58} {theirs * scale:10.3f} {ours * scale:10.3f} {unit:3} {theirs / ours:7.2f} x {medians:9.2f} x", flush=True)


# ---- the questions -----------------------------------------------------------------------------------------------------

def listing(folder, rounds, _):
    for name, table in (("GPT-2, 160 tensors", layouts.gpt2()), ("1,000 tensors", layouts.long_names(1000)),
                        ("10,000 tensors", layouts.long_names(10_000))):
        path = folder / f"{len(table)}.safetensors"
        if not path.exists():
            layouts.write_safetensors(path, table, {"format": "pt"})

        def shapes(package, path=str(path)):
            with module(package).safe_open(path, "np") as file:
                return {name: file.get_slice(name).get_shape() for name in file.keys()}

        def in_one_call(path=str(path)):
            with module(OURS).safe_open(path, "np") as file:
                return file.shapes()

        assert shapes(THEIRS) == shapes(OURS) == in_one_call()
        count = max(5, 20_000 // len(table)) * rounds
        report(f"open, keys and shapes: {name}", in_turns({each: lambda each=each: shapes(each) for each in (THEIRS, OURS)}, count),
               1e3, "ms")
        report("    by shapes(), which the reference lacks",
               in_turns({THEIRS: lambda: shapes(THEIRS), OURS: in_one_call}, count), 1e3, "ms")


def big(folder):
    path = folder / "1GiB.safetensors"
    if not path.exists():
        random = np.random.default_rng(0)
        arrays = {f"layers.{i}.{name}": random.standard_normal(shape, np.float32)
                  for i in range(13) for name, shape in (("attn", (2048, 2048)), ("up", (2048, 8000)), ("norm", (2048,)))}
        module(OURS, ".numpy").save_file(arrays, path, sync=True)
    return path


def loading(folder, rounds, package_module):
    path = big(folder)
    works = {each: lambda each=each: module(each, package_module).load_file(path) for each in (THEIRS, OURS)}
    one, other = (work() for work in works.values())
    assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    del one, other

    def evict():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    size = os.path.getsize(path)
    for state, before in (("hot", None), ("cold", evict)):
        taken = in_turns(works, 3 * rounds, before)
        report(f"load_file of {size / GIB:.2f} GiB, {state}", taken, 1, "s")


def saving(folder, rounds, package_module):
    arrays = module(OURS, package_module).load_file(big(folder))
    paths = {each: folder / f"saved-{each}.safetensors" for each in (THEIRS, OURS)}

    def remove():
        for path in paths.values():
            path.unlink(missing_ok=True)
        os.sync()  # what an earlier turn left to be written must not slow this one

    for what, before in (("save_file, a new file", remove), ("save_file, over a file", os.sync)):
        taken = in_turns({each: lambda each=each: module(each, package_module).save_file(arrays, paths[each])
                          for each in paths}, 3 * rounds, before)
        report(what, taken, 1, "s")
    assert paths[THEIRS].read_bytes() == paths[OURS].read_bytes()
    remove()


def frameworks():
    return [name for name in ("numpy", "torch") if importlib.util.find_spec(name)]


def small_loading(folder, rounds, _):
    """Loads of many small tensors, which are mostly the making of Python objects."""
    for count in (160, 1000, 10_000):
        path = str(folder / f"small-{count}.safetensors")
        module(OURS, ".numpy").save_file({f"layers.{i}.weight": np.full((4, 4), i, np.float32) for i in range(count)}, path)
        with open(path, "rb") as file:
            content = file.read()
        turns = max(5, 10_000 // count) * rounds
        for framework in frameworks():
            kind = {"numpy": "np", "torch": "pt"}[framework]

            def one_by_one(package, path=path, kind=kind):
                with module(package).safe_open(path, kind) as file:
                    return {name: file.get_tensor(name) for name in file.keys()}

            for what, work in (
                    ("load_file", lambda package: module(package, "." + framework).load_file(path)),
                    ('load_file, backend="pread"', lambda package: module(package, "." + framework).load_file(path, backend="pread")),
                    ("keys and get_tensor", one_by_one),
                    ("load of bytes", lambda package: module(package, "." + framework).load(content))):
                report(f"{framework}, {count:,} of 64 bytes: {what}",
                       in_turns({each: lambda each=each: work(each) for each in (THEIRS, OURS)}, turns), 1e3, "ms")


def middle_loading(folder, rounds, _):
    """Loads of files whose tensors are neither small nor large."""
    for count, shape in ((1000, (32, 32)), (1000, (64, 64)), (500, (128, 127)), (100, (512, 256)), (20, (1024, 1024))):
        size = 4 * shape[0] * shape[1]
        path = str(folder / f"middle-{count}.safetensors")
        module(OURS, ".numpy").save_file({f"layers.{i}.weight": np.full(shape, i, np.float32) for i in range(count)}, path)
        report(f"numpy, {count:,} of {size:,} bytes: load_file",
               in_turns({each: lambda each=each: module(each, ".numpy").load_file(path) for each in (THEIRS, OURS)},
                        20 * rounds), 1e3, "ms")


def slicing(folder, rounds, _):
    """Slices of 8 matrices in the page cache, through one handle."""
    path = folder / "matrices.safetensors"
    side, names = 4096, [f"layers.{i}.weight" for i in range(8)]
    if not path.exists():
        module(OURS, ".numpy").save_file({name: np.full((side, side), i, np.float32) for i, name in enumerate(names)}, path)
    for framework in frameworks():
        kind = {"numpy": "np", "torch": "pt"}[framework]
        files = {each: module(each).safe_open(str(path), kind) for each in (THEIRS, OURS)}
        for what, index in (("1 column", (slice(None), slice(7, 8))), *((f"{width:,} columns", (slice(None), slice(64, 64 + width)))
                            for width in (64, 256, 1024)), ("every 8th column", (slice(None), slice(None, None, 8))),
                            ("100 rows", slice(100, 200)), ("a row", 7)):
            def parts(file, index=index):
                return [file.get_slice(name)[index] for name in names]

            same = [np.asarray(part) for part in parts(files[THEIRS])], [np.asarray(part) for part in parts(files[OURS])]
            assert all(map(np.array_equal, *same))
            report(f"{framework}, slices: {what}",
                   in_turns({each: lambda each=each: parts(files[each]) for each in files}, 20 * rounds), 1e3, "ms")


def saving_bytes(folder, rounds, _):
    for count, shape in ((160, (4, 4)), (1000, (4, 4)), (10_000, (4, 4)), (100, (512, 512)), (4, (4096, 4096))):
        arrays = {f"layers.{i}.weight": np.full(shape, i, np.float32) for i in range(count)}
        for framework in frameworks():
            tensors = arrays if framework == "numpy" else {name: module("torch").from_numpy(arrays[name]) for name in arrays}
            works = {each: lambda each=each: module(each, "." + framework).save(tensors) for each in (THEIRS, OURS)}
            assert works[THEIRS]() == works[OURS]()
            report(f"{framework}, save {count:,} of {4 * shape[0] * shape[1]:,} bytes to bytes",
                   in_turns(works, max(5, min(100, 10_000 // count)) * rounds if count > 100 else 6 * rounds), 1e3, "ms")


def saving_small(folder, rounds, _):
    for count in (160, 1000, 10_000):
        arrays = {f"layers.{i}.weight": np.full((4, 4), i, np.float32) for i in range(count)}
        works = {each: lambda each=each: module(each, ".numpy").save_file(arrays, folder / f"saved-{each}.safetensors")
                 for each in (THEIRS, OURS)}
        report(f"numpy, save_file {count:,} of 64 bytes", in_turns(works, max(5, 5000 // count) * rounds), 1e3, "ms")


def importing(folder, rounds, _):
    # Both find compiled modules in one place, which the first start of each fills.
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    settings["PYTHONPYCACHEPREFIX"] = str((folder / "pycache").resolve())

    def start(code):
        subprocess.run([sys.executable, "-c", code], check=True, env=settings)

    for what, code in (("import", "import {}"), ("from ... import safe_open", "from {} import safe_open"),
                       ("from ....numpy import load_file", "from {}.numpy import load_file")):
        works = {each: lambda each=each: start(code.format(each)) for each in (THEIRS, OURS)}
        in_turns(works, 1)
        taken = in_turns(works, 10 * rounds)
        report(f"a process that does: {what}", taken, 1e3, "ms")


def processor():
    """The number of processors, their name, and the widest vectors that they have."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
        name = next(line.split(": ")[1] for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        text, name = "", "unknown processors"
    vectors = next((each for each in ("avx512f", "avx2") if each in text), "no AVX2")
    return f"{os.cpu_count()} x {name}, {vectors}"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print(f"safetensors {module(THEIRS).__version__}; libsafetensors {module(OURS).library_version()}; numpy {np.__version__}; "
          f"Python {sys.version.split()[0]}; {processor()}; {os.uname().release}; load {os.getloadavg()[0]:.1f}")
    print(f"{'':58} {'reference':>10} {'ours':>10} {'':3} {'of best':>9} {'of median':>11}")
    for question in (importing, listing, small_loading, middle_loading, slicing, saving_bytes, saving_small, loading, saving):
        if given.only in question.__name__:
            question(given.folder, given.rounds, ".numpy")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
