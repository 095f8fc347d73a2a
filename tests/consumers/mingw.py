"""Uses the installed DLL and the installed archive for Windows from C, as pkg-config says, under wine.

usage: mingw.py CMAKE BUILD CC WINE

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

MAIN = pathlib.Path(__file__).parent / "c/main.c"
cmake, build, compiler, wine = sys.argv[1:]


def run(*command, **environment):
    done = subprocess.run([str(part) for part in command], env={**os.environ, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def flags(folder, *arguments):
    # pkgconf takes other prefixes for the system's, and adds those of the build machine.
    return shlex.split(run("pkg-config", *arguments, "--cflags", "--libs", "safetensors", PKG_CONFIG_LIBDIR=folder))


with tempfile.TemporaryDirectory(prefix="safetensors_mingw_") as folder:
    prefix = pathlib.Path(folder) / "prefix"
    run(cmake, "--install", build, "--prefix", prefix)
    there = {path.name for path in prefix.rglob("*")}
    wanted = {"safetensors.dll", "safetensors.exe", "libsafetensors.dll.a", "libsafetensors.a", "safetensors.pc",
              "safetensors.h", "safetensors.hpp", "safetensors.json", "safetensorsConfig.cmake"}
    if wanted - there:
        sys.exit(f"not installed: {sorted(wanted - there)}")
    pkgconfig = next(prefix.rglob("safetensors.pc")).parent

    shared = prefix / "bin/consumer.exe"  # a program finds the library beside it
    run(compiler, MAIN, "-o", shared, *flags(pkgconfig))
    run(wine, shared)
    (prefix / "bin/safetensors.dll").unlink()
    if subprocess.run([wine, str(shared)], capture_output=True).returncode == 0:
        sys.exit("the program runs without the DLL")

    archive = pathlib.Path(folder) / "static.exe"
    run(compiler, "-static", MAIN, "-o", archive, *flags(pkgconfig, "--static"))
    shutil.rmtree(prefix)
    run(wine, archive)
print("the DLL and the archive are found, linked and run")
