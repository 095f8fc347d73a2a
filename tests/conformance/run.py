#!/usr/bin/env python3
"""Runs a reader on every file of the corpus and counts its wrong verdicts. README.md describes both.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import csv
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
FIRST_CRASH_STATUS = 100  # Rust exits with 101 after a panic, a shell with 128 + the signal


def table(name):
    return list(csv.DictReader((FOLDER / name).read_text("utf-8").split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE))


def cases(rules):
    """(path, whether a reader must accept it) of every file that these rules decide."""
    if rules == "bintensors":
        return [(FOLDER / rules / row["file"], row["verdict"] == "ok") for row in table("bintensors/expected.tsv")]
    decided_by = {row["file"]: row["decided_by"] for row in table("expected.tsv")}
    return [(FOLDER / "files" / row["file"], row["reference" if rules == "format" else rules] == "ST_OK")
            for row in table("statuses.tsv") if rules != "format" or decided_by[row["file"]] == "format"]


def mistake(command, path, valid):
    try:
        status = subprocess.run([*command, path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, timeout=60).returncode
    except subprocess.TimeoutExpired:
        return "crashed"
    if not 0 <= status < FIRST_CRASH_STATUS:
        return "crashed"
    return None if valid == (status == 0) else "wrongly refused" if valid else "wrongly accepted"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage="%(prog)s [-h] [--list] [--rules RULES] COMMAND [ARGUMENT...]")
    parser.add_argument("--rules", choices=("format", "reference", "default", "strict", "bintensors"), default="format")
    parser.add_argument("--list", action="store_true", help="print the names of the files, too")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="gets the path of a file as its last argument")
    options = parser.parse_args()
    if shutil.which("".join(options.command[:1])) is None:
        parser.error("which command?")
    files = cases(options.rules)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda case: mistake(options.command, *case), files))
    for what in ("wrongly accepted", "wrongly refused", "crashed"):
        print(f"{what}: {found.count(what)} of {len(files)}")
        names = [path.name for (path, _), mistaken in zip(files, found) if mistaken == what]
        print("".join(f"  {name}\n" for name in names if options.list), end="")
    sys.exit(any(found))
