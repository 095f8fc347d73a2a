"""Tests `show --tree`, `--sort` and `--map`, and the generated manual pages and completions.

SPDX-License-Identifier: Apache-2.0
"""
import fcntl
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import termios
import unittest
import xml.dom.minidom

from sample import COMMAND, file_bytes, open_terminal, read_terminal, run

PAGES = pathlib.Path(COMMAND).parent / "pages"
BLOCK = [("attn.q", "F16", [4, 4], 32), ("attn.k", "F16", [4, 4], 32), ("mlp", "F32", [8], 32)]
LAYERS = [("embed.weight", "F16", [10, 4], 80)] + [
    (f"model.layers.{i}.{name}", dtype, shape, size) for i in range(3) for name, dtype, shape, size in BLOCK] + [
    ("model.layers.3.mlp", "F32", [8], 32), ("norm", "BF16", [4], 8)]


def terminal_output(arguments, columns, **environment):
    """Returns the output on a terminal of this width."""
    parent, child = open_terminal()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    environment = {**{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}, "TERM": "xterm", **environment}
    with subprocess.Popen([COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=child, stderr=child, env=environment) as process:
        os.close(child)
        text = read_terminal(parent)
    return process.returncode, text.decode().replace("\r\n", "\n")


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_pictures_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def file(self, tensors=LAYERS, name="m.safetensors", metadata=None):
        (self.folder / name).write_bytes(file_bytes(tensors, metadata))
        return str(self.folder / name)

    def shown(self, *arguments):
        result = run("show", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
        return result.stdout.decode()


class Tree(Case):
    def test_blocks_that_are_alike_are_folded(self):
        path = self.file()
        self.assertEqual(self.shown(path, "--tree").replace(path, "m"), """\
   408 B  m
    80 B  ├─ embed.weight  F16 [10, 4]
   320 B  ├─ model.layers
   288 B  │  ├─ 0-2  3 × 96 B
    64 B  │  │  ├─ attn
    32 B  │  │  │  ├─ q  F16 [4, 4]
    32 B  │  │  │  └─ k  F16 [4, 4]
    32 B  │  │  └─ mlp  F32 [8]
    32 B  │  └─ 3.mlp  F32 [8]
     8 B  └─ norm  BF16 [4]
""")

    def test_a_tensor_that_is_a_folder_too(self):
        path = self.file([("a", "U8", [1], 1), ("a.b", "U8", [2], 2), ("a..c", "U8", [0], 0)])
        self.assertEqual([line[10:] for line in self.shown(path, "--tree").splitlines()[1:]],
                         ["└─ a  U8 [1]", "   ├─ b  U8 [2]", "   └─ .c  U8 [0]"])

    def test_names_of_thousands_of_parts(self):
        self.assertEqual(len(self.shown(self.file([("a." * 30000 + "b", "U8", [1], 1)]), "--tree").splitlines()), 2)
        deep = [(".".join(["x"] * 500 + [str(i)]) + tail, "U8", [1], 1) for i in range(50) for tail in ("", ".y")]
        self.assertGreater(len(self.shown(self.file(deep), "--tree").splitlines()), 50)

    def test_filter_and_limit(self):
        path = self.file()
        self.assertEqual(len(self.shown(path, "--tree", "--filter", "*mlp").splitlines()), 4)
        self.assertEqual(self.shown(path, "--tree", "--limit", "1").splitlines()[-1], "… 11 more")


class Sort(Case):
    def names(self, *arguments):
        lines = self.shown(self.file(), *arguments).splitlines()
        return [line.split()[-1] for line in lines[1:lines.index("")]]

    def test_each_key(self):
        self.assertEqual(self.names("--sort", "name"), sorted(name for name, *_ in LAYERS))
        self.assertEqual(self.names("--sort", "size")[0], "embed.weight")
        self.assertEqual(self.names("--sort", "size")[-1], "norm")
        self.assertEqual(self.names("--sort", "dtype")[0], "norm")
        self.assertEqual(self.names("--sort", "shape")[:2], ["norm", "model.layers.0.attn.q"])
        self.assertEqual(run("show", self.file(), "--sort", "nothing").returncode, 2)

    def test_the_limit_comes_after_the_order(self):
        shown = self.shown(self.file(), "--sort", "size", "--limit", "1").splitlines()
        self.assertEqual((shown[1].split()[-1], shown[2]), ("embed.weight", "… 11 more"))


class Map(Case):
    def test_cells(self):
        path = self.file([("a", "F32", [1000], 4000), ("b", "F32", [1000], 4000), ("c", "U8", [9000], 9000)])
        lines = subprocess.run([COMMAND, "show", path, "--map"], capture_output=True, text=True, check=True,
                               env={**os.environ, "COLUMNS": "41"}).stdout.splitlines()
        cells = "".join(lines[1:9])
        self.assertEqual([len(line) for line in lines[1:9]], [40] * 8)
        self.assertEqual(set(cells), set("#AbB"))
        self.assertAlmostEqual(cells.count("B") / len(cells), 4000 / 17200, 1)
        self.assertEqual(cells.lstrip("#").lstrip("B").lstrip("b").strip("A"), "")
        self.assertEqual(lines[-2:], ["A  U8  9.0 kB in 1 tensor", "B  F32  8.0 kB in 2 tensors"])

    def test_shards_are_bars_of_their_length(self):
        path = self.file([("a", "U8", [1000], 1000), ("b", "U8", [9000], 9000)])
        run("split", path, str(self.folder / "s"), "--max-size", "2KB")
        lines = self.shown(str(self.folder / "s"), "--map").splitlines()
        self.assertEqual(len(lines[3]), 79)
        self.assertLess(len(lines[1]), 15)

    def test_colors_on_a_terminal_only_if_wanted(self):
        path = self.file()
        code, text = terminal_output(["show", path, "--map"], 60)
        self.assertEqual((code, "\x1b[34m" in text), (0, True))
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn("\x1b", terminal_output(["show", path, "--map"], 60, **environment)[1])
        self.assertEqual(len(terminal_output(["show", path, "--map"], 60, NO_COLOR="1")[1].splitlines()[1]), 59)
        self.assertNotIn("\x1b", self.shown(path, "--map"))

    def test_svg(self):
        path = self.file([("<a> & \"b\"\x1b", "F32", [1000], 4000), ("c", "U8", [8000], 8000)], metadata={"format": "pt"})
        out = str(self.folder / "out.svg")
        for arguments in ((path, "--map", out), ("--map", out, path)):
            self.assertEqual(self.shown(*arguments), "")
            picture = xml.dom.minidom.parse(out)
            self.assertGreaterEqual(len(picture.getElementsByTagName("rect")), 6)
            titles = [node.firstChild.data for node in picture.getElementsByTagName("title")]
            self.assertTrue(any(title.startswith('"<a> & \\"b\\"\\u001b" F32') for title in titles), titles)
            os.remove(out)
        self.assertEqual(self.shown("--map", path).splitlines()[-1], "B  F32  4.0 kB in 1 tensor")
        self.assertEqual(run("show", path, "--map", str(self.folder / "out.png")).returncode, 2)
        self.assertEqual(run("show").returncode, 2)

    def test_the_file_that_is_read_is_not_drawn_over(self):
        path = self.file(name="m.svg")
        before = pathlib.Path(path).read_bytes()
        self.assertEqual(run("show", path, "--map", path).returncode, 2)
        self.assertEqual(pathlib.Path(path).read_bytes(), before)


class Pages(unittest.TestCase):
    def setUp(self):
        if not PAGES.is_dir():
            self.skipTest("the manual pages were not built beside this command")
        help_text = run("--help").stdout.decode()
        # CLI11 2.5 and later write the heading in capitals and wrap long descriptions.
        listed = re.search("^subcommands:\n(.*)^exit codes:", help_text, re.M | re.S | re.I)[1]
        self.commands = re.findall(r"^  (\S+)", listed, re.M)

    def test_every_command_has_a_page_and_completions(self):
        self.assertGreater(len(self.commands), 12)
        for name in ("safetensors.bash", "_safetensors", "safetensors.fish", "safetensors.1"):
            text = (PAGES / name).read_text()
            for command in self.commands:
                self.assertIn(command, text, name)
        for command in self.commands:
            page = (PAGES / f"safetensors-{command}.1").read_text()
            self.assertIn('.SH "EXAMPLES"', page, command)
            self.assertIn("\\-\\-help", page)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_has_no_complaint(self):
        for page in PAGES.glob("*.1"):
            result = subprocess.run(["groff", "-man", "-ww", "-z", page], capture_output=True, check=True)
            self.assertEqual(result.stderr, b"", page.name)

    @unittest.skipUnless(shutil.which("bash"), "bash is not installed")
    def test_bash_completes(self):
        def completed(*words):
            script = (f"source {PAGES}/safetensors.bash; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
                      'COMP_WORDS[COMP_CWORD]=${COMP_WORDS[COMP_CWORD]#_}; _safetensors; echo "${COMPREPLY[@]}"')
            return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

        self.assertEqual(completed("safetensors", "sp"), ["split"])
        self.assertEqual(completed("safetensors", "show", "--ma"), ["--map"])
        self.assertEqual(completed("safetensors", "show", "--sort", "s"), ["size", "shape"])
        self.assertEqual(completed("safetensors", "meta", "--s"), ["--sync"])
        self.assertEqual(completed("safetensors", "--v"), ["--version"])
        self.assertEqual(completed("safetensors", "--f"), [])

    @unittest.skipUnless(shutil.which("bash"), "bash is not installed")
    def test_bash_completes_names_with_spaces(self):
        with tempfile.TemporaryDirectory(prefix="safetensors_pages_") as folder:
            (pathlib.Path(folder) / "a model.safetensors").touch()
            script = (f"source {PAGES}/safetensors.bash; COMP_WORDS=(safetensors meta a); COMP_CWORD=2; _safetensors; "
                      'printf "%s\\n" "${COMPREPLY[@]}"')
            result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=folder)
            self.assertEqual(result.stdout, "a model.safetensors\n")

    def test_what_the_parser_shows_of_inner_commands(self):
        for name in ("safetensors.bash", "_safetensors"):
            self.assertIn("--reserve", (PAGES / name).read_text())
        self.assertIn("-l reserve", (PAGES / "safetensors.fish").read_text())
        self.assertIn("\\-\\-reserve", (PAGES / "safetensors-meta.1").read_text())
        self.assertIn("... OUT", (PAGES / "safetensors-merge.1").read_text())
        meta = (PAGES / "safetensors-meta.1").read_text()
        self.assertIn("\\fBsafetensors meta\\fR [\\fIOPTION\\fR]... \\fIFILE\\fR [\\fICOMMAND\\fR ...]\n", meta)
        self.assertIn("\\fBsafetensors meta\\fR \\fIFILE\\fR \\fBset\\fR [\\fIOPTION\\fR]... \\fIKEY=VALUE ...\\fR\n", meta)

    def test_the_page_of_the_program_has_no_options_of_commands(self):
        options = (PAGES / "safetensors.1").read_text().split(".SH OPTIONS")[1].split(".SH")[0]
        self.assertIn("\\-\\-version", options)
        self.assertNotIn("\\-\\-filter", options)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_reads_its_file(self):
        subprocess.run(["zsh", "-n", PAGES / "_safetensors"], check=True)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_reads_its_file(self):
        subprocess.run(["fish", "-n", PAGES / "safetensors.fish"], check=True)


if __name__ == "__main__":
    unittest.main()
