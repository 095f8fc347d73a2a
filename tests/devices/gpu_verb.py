"""./dev gpu with what is built: its table has figures, it fails if a byte is wrong or no test runs, and without a GPU it says
so and exits with 0.

usage: gpu_verb.py BUILD_FOLDER
SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
BUILT = sys.argv[1]
TESTS = "DevicePlans.NeighboursInOne*:DevicePlans.CopiesWait*:DeviceOpening.TheLibraryThatIsLoaded*"
ROW = re.compile(r"^(?:CUDA|HIP), (?P<name>.*?)  +(?P<ours>[\d.]+) GB/s +(?P<memcpy>[\d.]+) GB/s +- +- +(?P<share>[\d.]+) +- +"
                 r"(?P<pinned>\d+) MiB +(?P<first>[\d.]+) ms$", re.MULTILINE)


def gpu(folder, *arguments, **variables):
    # No other Python: torch takes longer to import than all the rest.
    ran = subprocess.run(["sh", ROOT / "dev", "gpu", "--built", BUILT, "--data", folder, "--python", "false", *arguments],
                         env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         check=False)
    return ran.returncode, ran.stdout


def check(holds, what, output):
    if not holds:
        print(output)
        sys.exit(f"gpu_verb: {what}")


with tempfile.TemporaryDirectory() as folder:
    quick = ("--fake", "--gigabytes", "0.02", "--rounds", "1")
    code, output = gpu(folder, *quick, "--tests", TESTS)
    check(code == 0, f"exited with {code}", output)
    rows = [row.groupdict() for row in ROW.finditer(output)]
    check(len(rows) == 6, f"{len(rows)} rows have figures", output)
    for row in rows:
        check(all(float(row[key]) > 0 for key in ("ours", "memcpy", "share", "pinned", "first")), "a figure is 0", output)
        check(int(row["pinned"]) <= 64, "too much is pinned", output)
    check(output.count("2 passed, 0 failed, 1 not run on this driver") == 2, "the tests did not run", output)
    check(output.count("not run: DeviceOpening.TheLibraryThatIsLoadedComesFirst: only a fake driver has") == 2,
          "what did not run is not listed", output)

    code, output = gpu(folder, *quick, "--tests=-*", "--wrong-byte")
    check(code == 1, f"exited with {code} although a byte was wrong", output)
    check("byte 9961472 of the data is wrong on the GPU" in output, "does not name the byte", output)
    check(not os.listdir(folder), "left its file", output)

    code, output = gpu(folder, *quick, "--tests", "NoSuchTest*")
    check(code == 1, f"exited with {code} although no test ran", output)

    code, output = gpu(folder, CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="-1")
    check(code == 0 and re.fullmatch(r"no GPU: CUDA: .*; HIP: .*\n", output), f"without a GPU exited with {code}", output)
