"""Compiles the sources against newer headers of their libraries, as far as -fsyntax-only does.

Only files that name fmt, simdjson, CLI11 or GoogleTest in an #include of their own are compiled. All others reach these
libraries through a header that one of these files includes. Each is compiled by every compiler, except that the files
with GoogleTest alone, which take the most time, are dealt out among the compilers.
usage: newest.py INCLUDE BUILD...
  INCLUDE is searched before the system's headers. Each BUILD is configured by CMake and names one compiler.

SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "capi", "cli", "tests")
SHOWN = 20  # lines of a compiler's output
LIBRARY = re.compile(r"^\s*#\s*include\s*<(fmt/|simdjson\.h|CLI/|gtest/|gmock/)", re.M)
# Of the headers of ours that include a library, fmt's is included nearly everywhere: these files stand for the rest.
THROUGH_HEADERS = {"src/base/text.cpp", "src/core/open_shards.cpp", "capi/file.cpp", "cli/show_json.cpp"}


def libraries(path):
    return set(LIBRARY.findall((ROOT / path).read_text()))


def commands(build):
    """For each C++ file its command, once: some files are compiled for several programs."""
    found = {}
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        path = os.path.relpath(entry["file"], ROOT)
        if path.endswith(".cpp") and path.startswith(tuple(folder + "/" for folder in FOLDERS)):
            found.setdefault(path, (shlex.split(entry["command"]), entry["directory"]))
    return found


def jobs(include, builds):
    """(file, command, folder), the slow ones first."""
    with_library, with_tests = [], []
    dealt = 0
    for path in sorted(commands(builds[0])):
        if libraries(path) <= {"gtest/", "gmock/"} and libraries(path):
            with_tests.append((path, builds[dealt % len(builds)]))
            dealt += 1
        elif libraries(path) or path in THROUGH_HEADERS:
            with_library += [(path, build) for build in builds]
    by_build = {build: commands(build) for build in builds}
    for path, build in with_tests + with_library:
        command, folder = by_build[build][path]
        yield path, [command[0], "-fsyntax-only", "-isystem", include, *command[1:]], folder


def compile_one(job):
    path, command, folder = job
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return path, command[0], result.returncode, result.stdout


def main():
    include, builds = sys.argv[1], sys.argv[2:]
    all_jobs = list(jobs(include, builds))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, compiler, code, output in pool.map(compile_one, all_jobs):
            if code != 0:
                failed += 1
                lines = output.splitlines()
                print(f"FAILED {path} ({compiler})", *lines[:SHOWN], sep="\n", flush=True)
    print(f"{len(all_jobs)} compilations with -fsyntax-only, {failed} failed")
    return failed > 0 or not all_jobs


if __name__ == "__main__":
    sys.exit(main())
