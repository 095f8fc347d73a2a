"""Runs the programs of the README and the manual with the installed library, and compares their output.

A block of code whose first line is a comment with a file's name becomes that file. In a console block each `$ ` line
is a command, and the lines below it are its expected output. The pages share a directory, in this order.

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

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["docs/c.md", "docs/cpp.md", "docs/languages.md", "docs/building.md", "README.md"]
BUILD = pathlib.Path(COMMAND).resolve().parents[1]
FILE = re.compile(r"(?:/\*|//|#) ([\w.]+)(?: \*/)?")


def setting(name):
    """What CMake was told for this build."""
    return re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M).group(1)


class Readme(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_readme_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.blocks = [block for page in PAGES
                       for block in re.findall(r"^```(\w+)\n(.*?)^```$", (TOP / page).read_text(), re.M | re.S)]

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

    def test_links_lead_to_files(self):
        pages = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md"))]
        for page in pages:
            for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text()):
                self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")


if __name__ == "__main__":
    unittest.main()
