"""scripts/bom.py writes valid bills of materials, with the versions in the headers that it finds. tests/checks/bom.py finds
bills that do not match a library.
usage: bills.py LIBRARY SELF_CONTAINED STATIC_RUNTIME     the last two as CMake says them: 0 or 1

SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import bom

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/bom.py"
LIBRARY, SELF_CONTAINED, STATIC_RUNTIME = sys.argv[1], sys.argv[2] == "1", sys.argv[3] == "1"
HEADERS = {"fmt/core.h": "#define FMT_VERSION {}\n", "xxhash.h": "#define XXH_VERSION_MAJOR 0\n#define XXH_VERSION_MINOR  8\n"
           "#define XXH_VERSION_RELEASE  99\n", "simdjson.h": '#define SIMDJSON_VERSION "3.0.99"\n',
           "zlib.h": '#define ZLIB_VERSION "1.2.3"\n'}


class Bills(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        sys.path.insert(0, str(SCRIPT.parent))
        from single.pinned import pinned_releases
        self.pins = pinned_releases()
        self.headers(*map(int, self.pins["fmt"].version.split(".")))

    def headers(self, major, minor, patch):
        for name, text in HEADERS.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text.replace("{}", str(major * 10000 + minor * 100 + patch)))

    def write(self, *arguments, name="out.spdx.json", **environment):
        out = self.folder / name
        done = subprocess.run([sys.executable, SCRIPT, out, "libsafetensors", *arguments], capture_output=True, text=True,
                              env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **environment})
        return done.stderr if done.returncode else out

    def bill(self, *arguments):
        return json.loads(self.write(*arguments).read_text())

    def fmt(self, *arguments):
        return next(package for package in self.bill(*arguments, "contains:fmt")["packages"] if package["name"] == "fmt")

    def test_sources_have_what_cmake_pins(self):
        fmt, pin = self.fmt(f"--include={self.folder}"), self.pins["fmt"]
        self.assertEqual((fmt["versionInfo"], fmt["downloadLocation"]), (pin.version, pin.address))
        self.assertEqual(fmt["checksums"], [{"algorithm": "SHA256", "checksumValue": pin.sha256}])
        self.assertEqual(self.bill("contains:fmt=pinned")["packages"][1], fmt)

    def test_an_installed_package_and_another_version_have_no_checksum(self):
        self.assertNotIn("checksums", self.fmt(f"--system={self.folder}"))
        self.headers(9, 1, 99)
        fmt = self.fmt(f"--include={self.folder}")
        self.assertEqual((fmt["versionInfo"], fmt["downloadLocation"], "checksums" in fmt), ("9.1.99", "NOASSERTION", False))

    def test_the_first_directory_counts(self):
        other = self.folder / "other"
        (other / "fmt").mkdir(parents=True)
        (other / "fmt/core.h").write_text('#include "base.h"\n')  # as in fmt 11 and newer
        (other / "fmt/base.h").write_text("#define FMT_VERSION 120304\n")
        self.assertEqual(self.fmt(f"--include={other}", f"--include={self.folder}")["versionInfo"], "12.3.4")

    def test_the_same_arguments_give_the_same_bytes(self):
        one, other = (self.write("contains:GCC-runtime=1", name=f"{name}.spdx.json", TZ=zone, LC_ALL=locale).read_bytes()
                      for name, zone, locale in (("a", "UTC0", "C"), ("b", "<+1245>-12:45", "C.UTF-8")))
        self.assertEqual(one, other)
        self.assertIn(b'"created": "2023-11-14T22:13:20Z"', one)
        self.assertNotEqual(one, self.write("contains:GCC-runtime=2").read_bytes())

    def test_wrong_arguments(self):
        self.assertIn("no header of CLI11", self.write(f"--include={self.folder}", "contains:CLI11"))
        self.assertIn("'has:fmt'", self.write("has:fmt"))
        self.assertIn("'links:qt'", self.write("links:qt"))
        self.assertIn("CMake pins no zlib", self.write("links:zlib=pinned"))

    @unittest.skipUnless(importlib.util.find_spec("spdx_tools"), "no spdx-tools (./dev deps fetches it)")
    def test_is_valid(self):
        folder = f"--include={self.folder}"
        out = self.write(folder, "contains:fmt", "links:simdjson", "needs:xxHash", "contains:LLVM-runtime=1", "links:zlib")
        self.assertEqual(bom.invalid(out), [])
        out.write_text(out.read_text().replace('"MIT"', '"Mine"'))
        self.assertNotEqual(bom.invalid(out), [])

    def test_what_is_untrue_of_the_library(self):
        binary = pathlib.Path(LIBRARY).read_bytes()
        simdjson, runtime = "contains:simdjson" if SELF_CONTAINED else "links:simdjson", "contains:GCC-runtime=1"
        true = [f"--include={self.folder}", "contains:fmt", simdjson, *[runtime] * STATIC_RUNTIME]
        self.assertEqual(list(bom.untrue(self.bill(*true), binary)), [])
        lies = [[part for part in true if part != simdjson], [*true, "links:zlib"],
                [*true, "links:simdjson" if SELF_CONTAINED else "contains:simdjson"],
                [part for part in true if part != runtime] + [runtime] * (not STATIC_RUNTIME)]
        for lie in lies:
            self.assertNotEqual(list(bom.untrue(self.bill(*lie), binary)), [], lie)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
