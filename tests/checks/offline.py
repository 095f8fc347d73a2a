"""Configures the library without a network and without installed dependencies.

CMake must stop at once and name the packages to install. With local sources of the dependencies it must succeed; this
part is skipped if .deps/ has no sources.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPS = ROOT / ".deps"
SOURCES = {"SIMDJSON": DEPS / "simdjson", "FMT": DEPS / "fmtlib", "XXHASH": DEPS / "xxhash"}
NEEDED = {"libsimdjson-dev", "libfmt-dev", "libxxhash-dev"}
LONGEST = 30  # seconds. It takes one. CMake's own attempts take 86.


def configure(folder, *options, **environment):
    """Sends all downloads to a closed port of this machine."""
    closed = "http://127.0.0.1:9"
    environment = {**os.environ, "http_proxy": closed, "https_proxy": closed, "HTTPS_PROXY": closed, **environment}
    started = time.monotonic()
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DST_BUILD_CLI=OFF", "-DST_BUILD_TESTS=OFF", "-DST_BUILD_BENCH=OFF",
         "-DST_BUILD_FUZZ=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_simdjson=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON",
         "-DCMAKE_IGNORE_PATH=/usr/include;/usr/local/include", *options],
        env=environment, capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split()), time.monotonic() - started


def main():
    faults = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, options in (("refused", ()), ("disconnected", ("-DFETCHCONTENT_FULLY_DISCONNECTED=ON",))):
            status, output, seconds = configure(f"{scratch}/{name}", *options)
            if status == 0 or seconds > LONGEST:
                faults.append(f"{name}: status {status} after {seconds:.0f} s")
            if not NEEDED <= set(re.findall(r"lib\w+-dev", output)):
                faults.append(f"{name}: the packages are not named: {output[-600:]}")
            faults += [f"{name}: the variable for {library} is not named" for library in SOURCES
                       if f"-DFETCHCONTENT_SOURCE_DIR_{library}=" not in output]
        if all(path.is_dir() for path in SOURCES.values()):
            here = [f"-DFETCHCONTENT_SOURCE_DIR_{library}={path}" for library, path in SOURCES.items()]
            status, output, _ = configure(f"{scratch}/sources", *here)
            if status != 0:
                faults.append(f"with the sources: {output[-600:]}")
        else:
            print("skipped: the sources of the libraries are not in .deps (./dev deps fetches them)")
    for fault in faults:
        print(fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
