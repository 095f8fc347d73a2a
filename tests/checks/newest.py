"""Compiles the sources against newer headers of their libraries, as far as -fsyntax-only does.

Only files that name fmt, simdjson, CLI11 or GoogleTest in an #include of their own are compiled, and those that CMake
joined with them. All others reach these libraries through a header that one of these files includes. Each is compiled by
every compiler, except that the files with GoogleTest alone, which take the most time, are dealt out among the compilers.
usage: newest.py INCLUDE BUILD...
  INCLUDE is searched before the system's headers. Each BUILD is configured by CMake and names one compiler; with
  ST_UNITY=ON, which joins sources, it takes two thirds of the time.

SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import itertools
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
JOINED = re.compile(r'^#include "(.+)"$', re.M)  # in the files that CMake makes
# Of the headers of ours that include a library, fmt's is included nearly everywhere: these files stand for the rest.
THROUGH_HEADERS = {"src/base/text.cpp", "src/core/open_shards.cpp", "capi/file.cpp", "cli/show_json.cpp"}


def sources(file):
    """The sources of this project that a file is, or joins."""
    names = JOINED.findall(pathlib.Path(file).read_text()) if file.endswith("_cxx.cxx") else [file]
    if not names:
        sys.exit(f"{file} joins no source that is understood")
    paths = (os.path.relpath(name, ROOT) for name in names)
    return tuple(path for path in paths if path.endswith(".cpp") and path.split("/")[0] in FOLDERS)


def libraries(paths):
    return {name for path in paths for name in LIBRARY.findall((ROOT / path).read_text())}


def commands(build):
    """For each tuple of C++ sources their command, once: some are compiled for several programs."""
    found = {}
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        if paths := sources(entry["file"]):
            found.setdefault(paths, (shlex.split(entry["command"]), entry["directory"]))
    return found


def only_tests(paths):
    return libraries(paths) and libraries(paths) <= {"gtest/", "gmock/"}


def jobs(include, builds):
    """(files, command, folder), the slow ones first. A compiler may have sources of its own that CMake does not join."""
    found = {build: commands(build) for build in builds}
    tests = [paths for paths in sorted(found[builds[0]]) if only_tests(paths)]
    dealt = [(paths, build if paths in found[build] else builds[0])
             for paths, build in zip(tests, itertools.cycle(builds))]
    others = [(paths, build) for build in builds for paths in sorted(found[build])
              if not only_tests(paths) and (libraries(paths) or THROUGH_HEADERS.intersection(paths))]
    for paths, build in dealt + others:
        command, folder = found[build][paths]
        yield " ".join(paths), [command[0], "-fsyntax-only", "-isystem", include, *command[1:]], folder


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
