"""The README, executed: its programs are compiled and run with the installed library, and its output has to be true.

A block of code whose first line is a comment with a file's name becomes that file. In a console block each `$ ` line
is run, and the lines below it are what it has to print.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from sample import COMMAND

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
BUILD = pathlib.Path(COMMAND).resolve().parents[1]
FILE = re.compile(r"(?:/\*|//|#) ([\w.]+)(?: \*/)?")


def setting(name):
    """What CMake was told for this build."""
    return re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M).group(1)


class Readme(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_readme_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.blocks = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.M | re.S)

    def environment(self):
        prefix = self.folder / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
        library = next(prefix.rglob("libsafetensors.so")).parent
        tools = self.folder / "tools"  # cc and c++ are those of this build
        tools.mkdir()
        for name, compiler in [("cc", setting("CMAKE_C_COMPILER")), ("c++", setting("CMAKE_CXX_COMPILER"))]:
            (tools / name).symlink_to(compiler)
        return {**os.environ, "PKG_CONFIG_PATH": f"{library}/pkgconfig", "LD_LIBRARY_PATH": str(library),
                "CMAKE_PREFIX_PATH": str(prefix), "PATH": f"{tools}:{prefix}/bin:{os.environ['PATH']}"}

    def test_the_programs_and_their_output(self):
        if "-fsanitize" in setting("CMAKE_CXX_FLAGS"):
            self.skipTest("a program built by the README's lines cannot load an instrumented library")
        work = self.folder / "work"
        work.mkdir()
        environment = self.environment()
        files = commands = 0
        for kind, text in self.blocks:
            if named := FILE.fullmatch(text.split("\n")[0]):
                (work / named[1]).write_text(text)
                files += 1
            if kind == "console":
                for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M):
                    shown = subprocess.run(command, shell=True, cwd=work, env=environment, capture_output=True, text=True)
                    self.assertEqual((shown.returncode, shown.stderr, shown.stdout), (0, "", expected), command)
                    commands += 1
        self.assertEqual((files, commands), (7, 9))

    def test_its_links_lead_somewhere(self):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text()):
            self.assertTrue((README.parent / link).exists(), link)


if __name__ == "__main__":
    unittest.main()
