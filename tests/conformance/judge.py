#!/usr/bin/env python3
"""Runs the corpus against another implementation: which files it takes that it should refuse, and the other way.

    judge.py [--rules reference|default|strict|bintensors] [--tensors] COMMAND [ARGUMENT...]

COMMAND is run once for each file, with the file's path as its last argument. It exits with 0 when it takes the file and
with 1 to 99 when it refuses it; a higher status, a signal or no end within ten seconds is a crash. With --tensors it
prints the number of tensors on the last line of what it prints for a file that it takes.

Every difference is a line: the file, the verdict expected, what came, and what the file is about. The status is 0 when
there is none, 1 when there are some, and 2 when the call is wrong. docs/format.md, section 4, has examples.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import csv
import os
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
RULES = ("reference", "default", "strict", "bintensors")
SECONDS = 10
FIRST_CRASH_STATUS = 100  # shells and runtimes use 101, 126, 127 and 128 + signal


def table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def cases(rules):
    """(path, "ok" or "err", number of tensors or None, what the file is about) of every file."""
    if rules == "bintensors":
        return [(FOLDER / "bintensors" / row["file"], row["verdict"], None, row["error of the original"])
                for row in table(FOLDER / "bintensors/expected.tsv")]
    about = {row["file"]: row for row in table(FOLDER / "expected.tsv")}
    found = []
    for row in table(FOLDER / "statuses.tsv"):
        verdict = "ok" if row[rules] == "ST_OK" else "err"
        tensors = about[row["file"]]["tensors"]
        found.append((FOLDER / "files" / row["file"], verdict, int(tensors) if verdict == "ok" else None,
                      about[row["file"]]["point"]))
    return found


def verdict_of(command, path, counts):
    """(verdict, number of tensors): "ok", "err", or what went wrong."""
    try:
        done = subprocess.run([*command, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} s", None
    if done.returncode < 0 or done.returncode >= FIRST_CRASH_STATUS:
        return f"crash: {f'signal {-done.returncode}' if done.returncode < 0 else f'status {done.returncode}'}", None
    if done.returncode != 0:
        return "err", None
    if not counts:
        return "ok", None
    last = done.stdout.split()[-1:] or [b""]
    return ("ok", int(last[0])) if last[0].isdigit() else ("ok without a number of tensors", None)


def difference(command, case, counts):
    path, expected, tensors, about = case
    verdict, number = verdict_of(command, path, counts)
    if verdict != expected:
        return f"{path.name}: expected {expected}, got {verdict} ({about})"
    if counts and tensors is not None and number != tensors:
        return f"{path.name}: expected {tensors} tensors, got {number} ({about})"
    return None


def main():
    parser = argparse.ArgumentParser(usage=__doc__.splitlines()[2].strip(), add_help=True)
    parser.add_argument("--rules", choices=RULES, default="reference")
    parser.add_argument("--tensors", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command or shutil.which(options.command[0]) is None:
        parser.error("which command?" if not options.command else f"no command {options.command[0]}")
    judged = cases(options.rules)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda case: difference(options.command, case, options.tensors), judged))
    found = [line for line in said if line]
    for line in found:
        print(line)
    print(f"{len(judged)} files, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
