"""What does it cost if n processes read one checkpoint, on storage of limited speed?

usage: run.py LIBRARY [--mb 384] [--speed 200] [--rounds 3] [--processes 1 2 4 8] [--mpi mpich|openmpi|...]

Each way takes its turn in each round. The figures are medians. A mount by FUSE limits the speed to --speed MB/s for all
processes together and counts the bytes that they read.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import contextlib
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIDE = 4096  # of the square matrices
PLANS = ("replicated", "columns", "rows", "mixed", "disjoint")


def write_model(path, matrices):
    size = SIDE * SIDE
    header = json.dumps({f"layer.{i:03}.weight": {"dtype": "U8", "shape": [SIDE, SIDE], "data_offsets": [i * size, (i + 1) * size]}
                         for i in range(matrices)}).encode()
    header += b" " * (-len(header) % 8)
    block = bytes((i * 31 + i // 257) & 255 for i in range(65521))  # a prime number: no two places look alike
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        left = matrices * size
        while left > 0:
            left -= file.write(block[:left])


@contextlib.contextmanager
def mounted(program, folder, at, bytes_per_second):
    process = subprocess.Popen([program, folder, str(bytes_per_second), at, "-f"])
    try:
        while not (at / ".bytes_read").exists():
            if process.poll() is not None:
                raise SystemExit("the mount failed")
            time.sleep(0.05)
        yield
    finally:
        subprocess.run(["fusermount3", "-u", at], check=False)
        process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--mb", type=int, default=384)
    parser.add_argument("--speed", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--plans", nargs="+", default=PLANS)
    parser.add_argument("--mpi", default="", help="the suffix of mpicc and mpiexec")
    given = parser.parse_args()
    suffix = "." + given.mpi if given.mpi else ""
    for program in ("mpicc" + suffix, "mpiexec" + suffix, "fusermount3"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is missing (packages mpich or openmpi-bin and libopenmpi-dev, libfuse3-dev, fuse3)")
    version = subprocess.run(["mpiexec" + suffix, "--version"], capture_output=True, text=True, check=True).stdout
    start = ["mpiexec" + suffix, *(["--allow-run-as-root", "--oversubscribe"] if "Open" in version else [])]
    with tempfile.TemporaryDirectory(prefix="safetensors_group_", dir="build") as name:
        scratch = pathlib.Path(name).resolve()
        folder, at = scratch / "files", scratch / "mount"
        folder.mkdir()
        at.mkdir()
        library = given.library.resolve()
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=True).stdout
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", HERE / "mount.c", "-o", scratch / "through", *flags.split(), "-lpthread"],
                       check=True)
        subprocess.run(["mpicc" + suffix, "-O2", "-std=c99", "-Wall", "-Wextra", f"-I{HERE.parents[1] / 'include'}",
                        HERE / "group.c", "-o", scratch / "group", library, f"-Wl,-rpath,{library.parent}"], check=True)
        matrices = given.mb * 10**6 // SIDE**2
        write_model(folder / "m.safetensors", matrices)
        wanted = matrices * SIDE**2  # by all processes together, whatever the plan

        def measure(processes, way, plan):
            (at / ".bytes_read").read_bytes()
            run = subprocess.run([*start, "-n", str(processes), scratch / "group", at / "m.safetensors", folder / "m.safetensors",
                                  way, plan], capture_output=True, text=True, timeout=600)
            if run.returncode != 0:
                raise SystemExit(f"{way} {plan} of {processes}: {run.stdout}{run.stderr}")
            figures = json.loads(run.stdout.splitlines()[-1])
            figures["counted"] = int((at / ".bytes_read").read_bytes())
            return figures

        print(f"{wanted / 1e6:.0f} MB at {given.speed:.0f} MB/s, {version.splitlines()[0].strip(':')}")
        print("plan        n   one reader    group  /one    each  /one   MPI-IO  /group   read by group  sent  memory (of exchange)")
        with mounted(scratch / "through", folder, at, given.speed * 1e6):
            for plan in given.plans:
                for n in given.processes:
                    ways = [("one", "replicated"), ("group", plan), ("each", plan), *([("mpiio", plan)] if plan == "replicated" else [])]
                    found = {way: [] for way, _ in ways}
                    for _ in range(given.rounds):
                        for way, of in ways:
                            found[way].append(measure(n, way, of))
                    times = {way: statistics.median(one["seconds"] for one in all) for way, all in found.items()}
                    group = found["group"]
                    mpiio = f"{times['mpiio']:7.2f} s {times['mpiio'] / times['group']:5.2f}" if "mpiio" in times else " " * 15
                    print(f"{plan:10} {n:2} {times['one']:10.2f} s {times['group']:6.2f} s {times['group'] / times['one']:5.2f}"
                          f" {times['each']:5.2f} s {times['each'] / times['one']:5.2f} {mpiio}"
                          f" {max(one['counted'] for one in group) / wanted:10.4f}"
                          f" {max(one['bytes_sent'] for one in group) / wanted:8.2f}"
                          f" {max(one['peak_mib'] for one in group):7.0f} MiB ({group[0]['exchange_mib']:.0f})", flush=True)


main()
