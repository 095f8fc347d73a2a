"""Runs everything that needs a GPU: the tests of devices, on its driver; loads next to copies from pinned memory, the
reference and fastsafetensors; and single calls from Python next to the reference. Prints the results and two tables, or
one line if there is no GPU.

Exits with 0 if all went well or there is no GPU, and with 1 if a test failed or a byte was wrong.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import find

ROOT = pathlib.Path(__file__).parents[2]
GB = 10 ** 9
TEST_SECONDS = 300  # they take half a minute with a fake driver
CALLS = ("one call", "ours", "reference", "/reference")
COLUMNS = ("load", "ours", "pinned memcpy", "reference", "fastsafetensors", "/memcpy", "/reference", "pinned", "first tensor")


class Failed(Exception):
    pass


def memory_available():
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def reason_to_skip(bytes_wanted, data):
    """Why a checkpoint of this size cannot be measured here, or None."""
    if shutil.disk_usage(data).free < bytes_wanted + GB // 4:
        return "the disk is too full"
    if memory_available() < bytes_wanted * 1.3:
        return "memory is too small to cache the file"
    return None


def test(driver, built, tests):
    """Runs the tests of devices on the driver. Returns the lines to print, and whether they passed."""
    folder = built / "tests/devices"
    kind = driver.kind.upper()
    report = built / "gpu-tests.xml"
    environment = {**os.environ, f"ST_REAL_{kind}": driver.path,
                   f"ST_FAKE_{kind}": str(folder / f"libst_watched_{driver.kind}.so"),
                   "GTEST_OUTPUT": f"xml:{report}", "GTEST_BRIEF": "1"}
    other = "hip" if driver.kind == "cuda" else "cuda"
    environment.setdefault(f"ST_FAKE_{other.upper()}", str(folder / f"libst_fake_{other}.so"))
    words = {"cuda": "*/CUDA:CudaOpening.*:CppDevices.*", "hip": "*/HIP:HipOpening.*"}[driver.kind]
    if tests:
        words = ":".join(f"*{one}/{kind}" for one in tests.split(":"))
    report.unlink(missing_ok=True)
    try:
        ran = subprocess.run([folder / "st_devices", f"--gtest_filter={words}"], env=environment, cwd=folder,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             timeout=TEST_SECONDS, check=False)
    except subprocess.TimeoutExpired as ended:
        said = ended.stdout or ""  # bytes in some versions, whatever run() was asked for
        return [said.decode(errors="replace") if isinstance(said, bytes) else said, f"tests: st_devices had not ended after {TEST_SECONDS} s"], False
    if ran.returncode < 0 or not report.exists():
        return [ran.stdout, f"tests: st_devices ended with {ran.returncode}"], False
    cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    skipped = [(case, case.find("skipped")) for case in cases if case.find("skipped") is not None]
    failed = sum(case.find("failure") is not None for case in cases)
    lines = [ran.stdout] if failed else []
    lines.append(f"tests of devices: {len(cases) - len(skipped) - failed} passed, {failed} failed, "
                 f"{len(skipped)} not run on this driver")
    for case, why in skipped:
        name = f"{case.get('classname').split('/')[-1]}.{case.get('name').split('/')[0]}"
        lines.append(f"  not run: {name}: {why.get('message').strip().splitlines()[-1]}")
    return lines, ran.returncode == 0 and failed == 0 and len(cases) > len(skipped)


def python_environment(options):
    packages = [str(ROOT / "bindings/python"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "SAFETENSORS_C_LIBRARY": str(options.built / "libsafetensors.so"),
            "PYTHONPATH": os.pathsep.join(filter(None, packages)), "PYTHONDONTWRITEBYTECODE": "1"}


def test_torch(options, driver):
    """Runs the tests of torch on a GPU. Returns the lines to print, and whether they passed."""
    if why := reason_without_torch(options, driver):
        return [f"tests of torch: not run: {why}"], True
    environment = python_environment(options)
    if driver.is_fake:
        environment["ST_TEST_GPU"] = "cpu"
    ran = subprocess.run([options.python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                          ROOT / "bindings/python/tests/test_gpu.py"], env=environment, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TEST_SECONDS, check=False)
    lines = ran.stdout.strip().splitlines()
    if ran.returncode == 0:
        return [f"tests of torch: {lines[-1]}"], True
    if any("No module named pytest" in line for line in lines):
        return ["tests of torch: not run: this Python has no pytest"], True
    return [*lines, "tests of torch: failed"], False


def measure(options, driver, path, mebibytes):
    command = [options.built / "bench/gpu/bench_gpu", driver.kind, driver.path, path, str(mebibytes), "--rounds",
               str(options.rounds)] + (["--wrong-byte"] if options.wrong_byte else [])
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode != 0:
        raise Failed(f"bench_gpu ended with {ran.returncode}")
    return [line.split("\t") for line in ran.stdout.splitlines()]


def measure_python(options, path, device):
    """A figure per loader, and why others have none."""
    ran = subprocess.run([options.python, ROOT / "bench/gpu/load.py", path, device, str(options.rounds)],
                         env=python_environment(options), stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode != 0:
        raise Failed(f"load.py ended with {ran.returncode}")
    return {one["loader"]: one for one in map(json.loads, ran.stdout.splitlines())}


def rows_of_calls(options, driver, notes):
    """A row per kind of call from Python, as soon as it is measured."""
    if why := reason_to_skip(3 * GB, options.data):
        notes.append(f"no table of calls: {why}")
        return
    device = "cpu" if driver.is_fake else "cuda:0"
    with subprocess.Popen([options.python, ROOT / "bench/gpu/calls.py", options.data, device, str(options.rounds)],
                          env=python_environment(options), stdout=subprocess.PIPE, text=True) as running:
        for one in map(json.loads, running.stdout):
            if "skipped" in one:
                notes.append(f"no table of calls: {one['skipped']}")
                return
            yield one["case"], us(one["ours"]), us(one["reference"]), share(one["ours"], one["reference"])
    if running.returncode != 0:
        raise Failed(f"calls.py ended with {running.returncode}")


def reason_without_torch(options, driver):
    """Why there are no rows for Python, or None."""
    code = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 'torch has no GPU')"
    if driver.is_fake:
        code = "import torch"  # which then loads to the processor's memory
    ran = subprocess.run([options.python, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    return None if ran.returncode == 0 else (ran.stderr.strip().splitlines() or ["?"])[-1]


def rate(size, took):
    return f"{size / took / GB:.2f} GB/s" if took else "-"


def share(took, others):
    """How many times as fast as another."""
    return f"{others / took:.2f}" if took and others else "-"


def ms(took):
    return f"{took * 1e3:.1f} ms" if took else "-"


def us(took):
    return f"{took * 1e6:,.0f} µs"


def rows_of_size(options, driver, mebibytes, notes):
    size_name = f"{mebibytes * (1 << 20) / GB:.3g} GB"
    path = options.data / "checkpoint.safetensors"
    try:
        if why := reason_to_skip(mebibytes << 20, options.data):
            notes.append(f"{size_name}: skipped: {why}")
            return
        memcpy, size = None, 0
        for name, *figures in measure(options, driver, path, mebibytes):
            if name == "skipped":
                notes.append(f"{size_name}: skipped: {figures[0]}")
                return
            size, took, memcpy, pinned, first = (float(figure) for figure in figures)
            yield (f"{driver.kind.upper()}, {size_name}, {name}", rate(size, took), rate(size, memcpy), "-", "-",
                   share(took, memcpy), "-", f"{pinned / (1 << 20):.0f} MiB", ms(first))
        if driver.is_fake and driver.kind == "hip":
            return  # torch does not call the fakes: once is enough
        if why := reason_without_torch(options, driver):
            notes.append(f"no rows for Python: {why}")
            return
        device = "cpu" if driver.is_fake else "cuda:0"
        found = measure_python(options, path, device)
        took, first = ({name: one.get(what) for name, one in found.items()} for what in ("load", "first"))
        notes.extend(f"{name}: {one['why']}" for name, one in found.items() if one["why"])
        where = "host memory that maps the file" if driver.is_fake else "page cache"
        yield (f"{driver.kind.upper()}, {size_name}, torch, {where}", rate(size, took["ours"]),
               "-" if driver.is_fake else rate(size, memcpy), rate(size, took["reference"]),
               rate(size, took["fastsafetensors"]), "-" if driver.is_fake else share(took["ours"], memcpy),
               share(took["ours"], took["reference"]), "-", f"{ms(first['ours'])} (reference {ms(first['reference'])})")
    finally:
        path.unlink(missing_ok=True)


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))).rstrip())


def arguments():
    parser = argparse.ArgumentParser(prog="./dev gpu", description="Runs what needs a GPU, and prints tables.")
    parser.add_argument("--fake", action="store_true", help="use the fake drivers, which need no GPU: checks this job")
    parser.add_argument("--gigabytes", type=float, nargs="+", help="sizes of the checkpoints (1 4 20; with --fake 0.064)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", metavar="FILTER", help="run only these, as SUITE.CASE with wildcards; '-*' runs none")
    parser.add_argument("--wrong-byte", action="store_true", help="spoil the checkpoint, so that the job must fail")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/bench-data/gpu", help="where the files are made")
    parser.add_argument("--python", default=os.environ.get("ST_TEST_PYTHON") or shutil.which("python3") or sys.executable,
                        help="a Python with torch (ST_TEST_PYTHON, or python3)")
    parser.add_argument("--built", type=pathlib.Path, help="use what this build has, and build nothing")
    parser.add_argument("--find", action="store_true", help="only look for a GPU; without one exit with 3")
    return parser.parse_args()


def keep(table, rows):
    for row in rows:
        table.append(row)
        print(" | ".join(row), file=sys.stderr, flush=True)  # in case that the machine is taken away


def run(options, driver, rows, calls, notes):
    """Adds to the rows of both tables and to the notes below them. Returns whether all went well."""
    print(f"{driver.kind.upper()}, {driver.path}: {', '.join(driver.devices)}", flush=True)
    passed = True
    if options.tests != "-*":
        lines, passed = test(driver, options.built, options.tests)
        print("\n".join(lines), flush=True)
        if not options.tests and not (driver.is_fake and driver.kind == "hip"):
            lines, torch_passed = test_torch(options, driver)
            print("\n".join(lines), flush=True)
            passed = passed and torch_passed
    try:
        for gigabytes in options.gigabytes or ([0.064] if driver.is_fake else [1, 4, 20]):
            keep(rows, rows_of_size(options, driver, max(round(gigabytes * GB / (1 << 20)), 1), notes))
        if not (driver.is_fake and driver.kind == "hip") and not reason_without_torch(options, driver):
            keep(calls, rows_of_calls(options, driver, notes))
    except Failed as error:
        notes.append(f"FAILED: {driver.kind.upper()}: {error}")
        return False
    return passed


def main():
    options = arguments()
    if options.fake and not options.find:
        folder = options.built / "tests/devices"
        drivers = [find.Driver(kind, str((folder / f"libst_fake_{kind}.so").resolve()), ["fake devices"], True)
                   for kind in ("cuda", "hip")]
    else:
        driver, reasons = find.find()
        if driver is None:
            print("no GPU: " + "; ".join(reasons))
            return 3 if options.find else 0
        drivers = [driver]
    if options.find:
        return 0
    options.built = options.built.resolve()
    options.data.mkdir(parents=True, exist_ok=True)
    rows, calls, notes = [COLUMNS], [CALLS], []
    passed = [run(options, driver, rows, calls, notes) for driver in drivers]
    print_table(rows)
    if len(calls) > 1:
        print()
        print_table(calls)
    for note in dict.fromkeys(notes):
        print(note)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
