"""Tests `safetensors show`: its output, its exit codes, and the escapes on a terminal.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import textwrap
import time
import unicodedata
import unittest

from sample import COMMAND, file_bytes, open_terminal, read_terminal, run

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
U64_MAX = 2**64 - 1

SMALL = file_bytes(
    [("wte.weight", "F32", [3, 2], 24), ("h.0.attn.bias", "BF16", [2, 2, 2, 2], 32), ("h.0.mask", "BOOL", [], 1)],
    {"format": "pt"})

# Everything a name can do to a terminal or to a table.
HOSTILE = ["\x1b[2J\x1b]0;owned\x07", "a\nb", "\r", "tab\there", "", " edge ", "\x7f", "\x9b31m", "\u202egnp.exe", "nul\0nul",
           "\u200bzero", "\U000e0041tag", 'quo"te\x01', "漢字.重み", "é", "x" * 65536, "\u2028"]


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_show_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def file(self, content, name="model.safetensors"):
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def show(self, content, *options):
        result = run("show", self.file(content), *options)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout.decode()

    def fault(self, code, *arguments, **options):
        """Runs the command and expects this code and one line on standard error. Returns the line."""
        result = run(*arguments, **options)
        line = result.stderr.decode()
        self.assertEqual(result.returncode, code, line)
        self.assertEqual(result.stdout, b"")
        self.assertRegex(line, r"\Asafetensors: [^\n]+\n\Z")
        return line


class Table(Case):
    def test_a_small_file(self):
        offset = 8 + int.from_bytes(SMALL[:8], "little")
        self.assertEqual(self.show(SMALL), textwrap.dedent(f"""\
            DTYPE  SHAPE         SIZE  OFFSET  NAME
            F32    [3, 2]        24 B  {offset:6}  wte.weight
            BF16   [2, 2, 2, 2]  32 B  {offset + 24:6}  h.0.attn.bias
            BOOL   []             1 B  {offset + 56:6}  h.0.mask

            METADATA
            format  pt

            DTYPE  TENSORS  PARAMETERS  SIZE
            BF16         1          16  32 B
            F32          1           6  24 B
            BOOL         1           1   1 B
            total        3          23  57 B
            """))

    def test_no_tensors(self):
        self.assertTrue(self.show(file_bytes([])).startswith("no tensors\n"))

    def test_numbers_for_people(self):
        for size, text, exact in [(999, "999 B", "999"), (1000, "1.0 kB", "1000"), (1150, "1.2 kB", "1150"), (999_949, "999.9 kB", "999949"),
                                  (999_950, "1.0 MB", "999950"), (3_100_000, "3.1 MB", "3100000")]:
            content = file_bytes([("a", "U8", [size], size)])
            self.assertIn(f"  {text}  ", self.show(content))
            self.assertIn(f"  {exact}  ", self.show(content, "--exact"))
        self.assertIn("       3.1 M  3.1 MB\n", self.show(content))  # parameters

    def test_limit_counts_the_rest(self):
        text = self.show(file_bytes([(f"t{i}", "U8", [1], 1) for i in range(1234)]), "--limit", "2")
        self.assertIn("  t1\n… 1,232 more\n", text)
        self.assertRegex(text, r"total +1,234 +1\.2 K +1\.2 kB\n")

    def test_filter(self):
        names = ["h.0.w", "h.0.b", "h.1.w", "a/b", "A\\B", "nul\0w"]
        content = file_bytes([(name, "U8", [1], 1) for name in names])
        for options, fit in [(["h.*"], {"h.0.w", "h.0.b", "h.1.w"}), (["*.w", "a*"], {"h.0.w", "h.1.w", "a/b"}),
                             (["h.[1-9].?"], {"h.1.w"}), (["A\\B"], {"A\\B"}), (["nul*w"], {"nul\0w"}), (["nul"], set())]:
            arguments = [word for pattern in options for word in ("--filter", pattern)]
            found = json.loads(self.show(content, "--json", *arguments))
            self.assertEqual({tensor["name"] for tensor in found["tensors"]}, fit, options)
            self.assertEqual(found["total"]["tensors"], len(fit))

    def test_columns_stay_in_line(self):
        content = file_bytes([(name, "U8", [1] * rank, 1) for name, rank in zip(HOSTILE, [1, 20000] * 20)])
        lines = self.show(content).split("\n\n")[0].split("\n")
        column = lines[0].index("NAME")
        for line, name in zip(lines[1:], HOSTILE, strict=True):
            self.assertEqual(line[column - 2:column], "  ", line[:200])
            self.assertNotEqual(line[column], " ")
            self.assertLess(len(line), column + 300)
        self.assertIn("… 20000 dims]", lines[2])
        self.assertTrue(lines[1 + HOSTILE.index("漢字.重み")].endswith("  漢字.重み"))
        self.assertTrue(lines[1 + HOSTILE.index("")].endswith('  ""'))
        self.assertTrue(lines[1 + HOSTILE.index("a\nb")].endswith('  "a\\nb"'))
        self.assertTrue(lines[1 + HOSTILE.index("x" * 65536)].endswith("x … (65,536 bytes)"))

    def test_wide_metadata_keys_stay_in_line(self):
        text = self.show(file_bytes([], {"漢字": "value", "plain": "v" * 5000, "": "line\nbreak"}))
        rows = text.split("METADATA\n")[1].split("\n\n")[0].split("\n")
        columns = {width(row[:re.search(r"  +", row).end()]) for row in rows}
        self.assertEqual(len(columns), 1, rows)
        self.assertIn("v … (5,000 bytes)", text)
        self.assertIn('"line\\nbreak"', text)


def width(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Json(Case):
    def test_a_small_file(self):
        offset = 8 + int.from_bytes(SMALL[:8], "little")
        path = str(self.folder / "model.safetensors")
        self.assertEqual(json.loads(self.show(SMALL, "--json")), {
            "path": path,
            "shards": [{"path": path, "header_bytes": offset - 8}],
            "metadata": {"format": "pt"},
            "total": {"tensors": 3, "parameters": 23, "bytes": 57},
            "dtypes": {"BF16": {"tensors": 1, "parameters": 16, "bytes": 32}, "F32": {"tensors": 1, "parameters": 6, "bytes": 24},
                       "BOOL": {"tensors": 1, "parameters": 1, "bytes": 1}},
            "tensors": [
                {"name": "wte.weight", "dtype": "F32", "shape": [3, 2], "parameters": 6, "bytes": 24, "offset": offset, "shard": 0},
                {"name": "h.0.attn.bias", "dtype": "BF16", "shape": [2, 2, 2, 2], "parameters": 16, "bytes": 32,
                 "offset": offset + 24, "shard": 0},
                {"name": "h.0.mask", "dtype": "BOOL", "shape": [], "parameters": 1, "bytes": 1, "offset": offset + 56, "shard": 0}]})

    def test_keys_are_those_of_the_manual(self):
        manual = (DOCS / "command.md").read_text().split("### JSON")[1].split("\n## ")[0]
        said = set(re.findall(r"^\| `([^`]+)` \|", manual, re.M))

        def paths(value, path):
            if path == "metadata" or not isinstance(value, (dict, list)) or value and isinstance(value, list) and not isinstance(value[0], dict):
                yield path
            elif isinstance(value, list):
                for item in value:
                    yield from paths(item, path + "[]")
            else:
                for key, item in value.items():
                    key = "NAME" if path == "dtypes" else key
                    yield from paths(item, f"{path}.{key}" if path else key)

        content = file_bytes([("a", "U8", [1], 1)], {"k": "v"})
        self.assertEqual(set(paths(json.loads(self.show(content, "--json")), "")), said)

    def test_integers_are_exact(self):
        shapes = [[0, U64_MAX], [U64_MAX, 0], [0, 2**53 + 1]]
        text = self.show(file_bytes([(f"t{i}", "U8", shape, 0) for i, shape in enumerate(shapes)]), "--json")
        self.assertEqual([tensor["shape"] for tensor in json.loads(text)["tensors"]], shapes)
        self.assertIn("18446744073709551615", text)

    def test_hostile_names_come_back_exactly_and_in_ascii(self):
        content = file_bytes([(name, "U8", [1], 1) for name in HOSTILE], {name: name for name in HOSTILE if "\0" not in name})
        text = self.show(content, "--json")
        self.assertTrue(set(text) <= {"\n"} | {chr(c) for c in range(0x20, 0x7F)})
        found = json.loads(text)
        self.assertEqual([tensor["name"] for tensor in found["tensors"]], HOSTILE)
        self.assertEqual(found["metadata"], {name: name for name in HOSTILE if "\0" not in name})

    def test_no_tensors(self):
        self.assertEqual(json.loads(self.show(file_bytes([]), "--json"))["tensors"], [])

    @unittest.skipUnless(shutil.which("jq"), "needs jq")
    def test_jq_reads_it(self):
        path = self.file(SMALL)
        shown = subprocess.run(f"'{COMMAND}' show '{path}' --json | jq -r '.total.parameters, .tensors[2].name'", shell=True,
                               capture_output=True, check=True)
        self.assertEqual(shown.stdout, b"23\nh.0.mask\n")


class Shell(Case):
    def test_files_that_break_the_format_are_1(self):
        hole = file_bytes([("a", "U8", [1], 1)]).replace(b"[0,1]", b"[1,2]") + b"x"
        for content, words in [(b"1234567", ["ST_ERR_TRUNCATED"]), (SMALL + b"x", ["ST_ERR_COVERAGE"]), (SMALL[:-1], ["ST_ERR_COVERAGE"]),
                               (hole, ["ST_ERR_OFFSETS", "'a'", "1..2", "byte"]), (b"PK\3\4" + bytes(60), ["ST_ERR_FORMAT"]),
                               (b"\2\0\0\0\0\0\0\0{]", ["ST_ERR_JSON", "byte 9"])]:
            line = self.fault(1, "show", self.file(content, "bad.safetensors"))
            for word in ["bad.safetensors': ", *words]:
                self.assertIn(word, line)
            self.assertLessEqual(len(re.findall(r"byte 9\b", line)), 1)  # the offset occurs once

    def test_a_truncated_file_is_told_its_sizes_once(self):
        path = self.file(SMALL[:-1])
        self.assertEqual(self.fault(1, "show", path), f"safetensors: '{path}': truncated download? the file has "
                         f"{len(SMALL) - 1} of {len(SMALL)} bytes (ST_ERR_COVERAGE)\n")
        whole = file_bytes([("a", "U8", [5000], 5000)])
        path = self.file(whole[:-1000])
        self.assertIn(f" ({len(whole) - 1000} of {len(whole)} bytes) (ST_ERR_COVERAGE)", self.fault(1, "show", path))

    def test_files_that_cannot_be_read_are_3(self):
        os.mkfifo(self.folder / "pipe")
        made_by_the_kernel = ["/proc/self/status"] if os.environ.get("ST_LINUX_IO") != "0" else []
        for path in [str(self.folder / "absent"), str(self.folder / "pipe"), "/dev/null", *made_by_the_kernel]:
            self.assertIn(path, self.fault(3, "show", path))

    def test_wrong_usage_is_2(self):
        path = self.file(SMALL)
        for arguments in [[], ["show"], ["bogus"], ["show", path, path], ["show", path, "--limit", "x"], ["show", path, "--limit", "-1"],
                          ["show", path, "--bogus"], ["show", path, "--filter"]]:
            self.fault(2, *arguments)

    def test_a_bad_pattern_is_an_error_and_not_a_search_without_finds(self):
        path = self.file(file_bytes([("a[", "U8", [1], 1), ("h.0]", "U8", [1], 1)]))
        for pattern in ["[", "a[", "[!", "[]", "[a-", "h.[0-9", "[[:alpha:]", "[[:letter:]]", "*[x]["]:
            self.assertIn("--filter", self.fault(2, "show", path, "--filter", pattern))
        for pattern, count in [("a[[]", 1), ("*[]]", 1), ("*[[:digit:]]*", 1), ("[!]]*", 2), ("]", 0), ("*[]a]*", 2)]:
            found = json.loads(run("show", path, "--json", "--filter", pattern).stdout)
            self.assertEqual(found["total"]["tensors"], count, pattern)

    def test_a_number_out_of_range_is_answered_in_one_short_line(self):
        path = self.file(SMALL)
        for arguments in [["show", path, "--limit"], ["meta", path, "set", "a=1", "--reserve"]]:
            for number in ["-1", "1.5", "", "0x10", "99999999999999999999999", "9" * 5000, "1 "]:
                line = self.fault(2, *arguments, number)
                self.assertIn("18446744073709551615", line)
                self.assertLess(len(line), 200)
        for number, count in [("010", 3), ("2", 2), (str(U64_MAX), 3)]:
            self.assertEqual(len(json.loads(run("show", path, "--json", "--limit", number).stdout)["tensors"]), count)

    def test_version_and_help(self):
        self.assertRegex(run("--version").stdout.decode(), r"\Asafetensors \d+\.\d+\.\d+ \(.+\)\n\Z")
        for arguments in [["--help"], ["show", "--help"]]:
            self.assertIn(b"Examples:", run(*arguments).stdout)
            self.assertEqual(run(*arguments).returncode, 0)

    def test_the_examples_of_the_help_run(self):
        self.file(SMALL)
        path = {"PATH": os.path.dirname(COMMAND) + ":" + os.environ["PATH"]}
        for arguments in [["--help"], ["show", "--help"]]:
            examples = re.findall(r"^  (safetensors show .*)$", run(*arguments).stdout.decode(), re.M)
            self.assertTrue(examples)
            for example in examples:
                if "jq" in example and not shutil.which("jq"):
                    continue
                result = subprocess.run(example, shell=True, cwd=self.folder, env=os.environ | path, capture_output=True)
                self.assertEqual((result.returncode, result.stderr), (0, b""), example)

    def test_names_of_files_are_shown_safely_too(self):
        line = self.fault(3, "show", "\x1b[31mred\n\udcff")
        self.assertNotIn("\x1b", line)
        line = self.fault(1, "show", self.file(b"", "\x1b]0;x\x07"))
        self.assertTrue(set(line[:-1]) & {chr(c) for c in range(32)} == set(), line)

    def test_a_line_names_its_file_once_and_in_full(self):
        for name in ("plain.bad", "long" * 40 + ".bad", "line\nbreak.bad"):
            line = self.fault(1, "show", self.file(b"{", name))
            self.assertEqual(line.count(str(self.folder)), 1, line)
            self.assertEqual(line.count(name.replace("\n", "\\x0a")), 1, line)
            self.assertEqual(line.count(".bad"), 1, line)
        path = self.file(file_bytes([("a", "U8", [1], 1)]))
        self.assertEqual(self.fault(2, "cat", path, "absent").count(path), 1)

    def test_a_reader_that_leaves_is_an_error_only_if_the_signal_is_ignored(self):
        path = self.file(file_bytes([(f"tensor.{i:06}", "U8", [1], 1) for i in range(100_000)]))
        for options in ["", "--json"]:
            for ignored in [False, True]:
                sigpipe = (lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)) if ignored else None
                result = subprocess.run(f"'{COMMAND}' show '{path}' {options} | head -n 3", shell=True, capture_output=True,
                                        preexec_fn=sigpipe, restore_signals=not ignored)
                self.assertEqual(result.stderr, b"safetensors: standard output: Broken pipe\n" if ignored else b"")
                self.assertEqual(result.stdout.count(b"\n"), 3)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_full_disk_is_3(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([COMMAND, "show", self.file(SMALL)], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, rb"\Asafetensors: standard output: [^\n]+\n\Z")


class Terminal(Case):
    """The output on a terminal equals the output in a pipe, and has no control sequences."""

    def on_a_terminal(self, *arguments):
        controller, terminal = open_terminal()
        process = subprocess.Popen([COMMAND, *arguments], stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        output = read_terminal(controller)
        process.wait(60)
        return output.decode()

    def test_no_control_reaches_a_terminal(self):
        path = self.file(file_bytes([(name, "U8", [1], 1) for name in HOSTILE], {name: name for name in HOSTILE if "\0" not in name}))
        text = self.on_a_terminal("show", path)
        bad = {c for c in text.replace("\r\n", "") if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs")}
        self.assertEqual(bad, set())
        self.assertEqual(text.replace("\r\n", "\n"), run("show", path).stdout.decode())

    def test_no_invisible_character_is_printed(self):
        """A terminal shows nothing for format characters, so two names would look the same."""
        invisible = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) in ("Cf", "Zl", "Zp")]
        path = self.file(file_bytes([(f"a{c}b", "U8", [1], 1) for c in invisible], {f"k{c}": c for c in invisible}))
        for arguments in (["show"], ["show", "--tree"], ["stats"], ["meta"]):
            text = run(arguments[0], path, *arguments[1:]).stdout.decode()
            self.assertEqual([f"{ord(c):x}" for c in invisible if c in text], [], arguments)

    def test_no_control_of_a_bad_file_reaches_a_terminal(self):
        for name in HOSTILE:
            path = self.file(file_bytes([(name, "U8", [2], 1)]))
            text = self.on_a_terminal("show", path)
            self.assertTrue(text.endswith("\r\n") and text.count("\n") == 1, text)
            bad = {c for c in text[:-2] if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs")}
            self.assertEqual(bad, set(), repr(name))

    @unittest.skipUnless(shutil.which("tmux"), "needs tmux")
    def test_the_screen(self):
        names = ["wte.weight", "漢字.重み", "\x1b[2J\x1b[Hgone", "h.0.attn.bias"]
        path = self.file(file_bytes([(name, "F32", [n, 1000], 4000 * n) for n, name in enumerate(names, 1)], {"format": "pt"}))
        socket = str(self.folder / "tmux")
        tmux = ["tmux", "-S", socket, "-f", "/dev/null"]
        command = f"'{COMMAND}' show '{path}'; touch '{socket}.done'; sleep 60"
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        subprocess.run([*tmux, "-u", "new-session", "-d", "-x", "80", "-y", "24", command], check=True, env=environment)
        try:
            for _ in range(600):
                if os.path.exists(socket + ".done"):
                    break
                time.sleep(0.05)
            time.sleep(0.3)  # tmux draws after the process has written
            screen = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, check=True, env=environment).stdout.decode()
        finally:
            subprocess.run([*tmux, "kill-server"])
        self.assertEqual(screen.rstrip().split("\n"), run("show", path).stdout.decode().rstrip().split("\n"))
        self.assertIn('"\\u001b[2J\\u001b[Hgone"', screen)


class Shards(Case):
    def test_a_missing_shard_is_3_and_the_line_names_the_index(self):
        name = "model-0000{}-of-00002.safetensors"
        os.mkdir(self.folder / "model")
        self.file(file_bytes([("t1", "U8", [1], 1)]), "model/" + name.format(1))
        line = self.fault(3, "show", "model", cwd=self.folder)
        self.assertIn("directory 'model': shard 2 of 2", line)
        weights = {f"t{i}": name.format(i) for i in (1, 2)}
        self.file(json.dumps({"metadata": {}, "weight_map": weights}).encode(), "model/model.safetensors.index.json")
        for path in ("model", "model/model.safetensors.index.json"):
            line = self.fault(3, "show", path, cwd=self.folder)
            self.assertTrue(line.startswith(f"safetensors: {path}: "), line)
            self.assertIn("'model.safetensors.index.json'", line)
            self.assertIn(name.format(2), line)

    def test_a_line_names_the_file_also_where_a_tensor_has_its_name(self):
        for name in ("m", "ten"):
            path = self.file(file_bytes([(name, "U8", [2], 1)]), name)
            self.assertTrue(self.fault(1, "show", name, cwd=self.folder).startswith(f"safetensors: {name}: "))

    def test_each_file_of_a_model_has_its_heading(self):
        weights = {}
        for i in (1, 2):
            name = f"model-0000{i}-of-00002.safetensors"
            self.file(file_bytes([(f"t{i}", "U8", [i], i)]), name)
            weights[f"t{i}"] = name
        index = self.file(json.dumps({"metadata": {"total_size": 3}, "weight_map": weights}).encode(), "model.safetensors.index.json")
        result = run("show", index)
        text = result.stdout.decode()
        for i in (1, 2):
            self.assertRegex(text, rf"\n\n\S*model-0000{i}-of-00002\.safetensors\n[^\n]*  t{i}\n")
        self.assertRegex(text, r"total +2 +3 +3 B\n")
        found = json.loads(run("show", index, "--json").stdout)
        self.assertEqual([tensor["shard"] for tensor in found["tensors"]], [0, 1])
        self.assertEqual(len(found["shards"]), 2)


if __name__ == "__main__":
    unittest.main()
