"""Tests the exit codes of docs/command.md: every command on the same bad inputs and outputs.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from sample import file_bytes, interfered, needs_interference, run

SUCCESS, BAD_FILE, USAGE, UNREADABLE, DEFECT, DIFFERS = range(6)
TENSORS = [("a", "F32", [2], 8), ("b", "F32", [1], 4)]

# A line for each command. FILE is the input and OUT the output.
COMMANDS = {
    "show": ["show", "FILE"],
    "verify": ["verify", "FILE"],
    "diff": ["diff", "FILE", "GOOD"],
    "stats": ["stats", "FILE"],
    "meta": ["meta", "FILE"],
    "meta get": ["meta", "FILE", "get", "k"],
    "meta set": ["meta", "FILE", "set", "k=v"],
    "meta rm": ["meta", "FILE", "rm", "k"],
    "cat": ["cat", "FILE", "a"],
    "extract": ["extract", "FILE", "a", "OUT.bin"],
    "extract --filter": ["extract", "FILE", "--filter", "a", "OUT.safetensors"],
    "set": ["set", "FILE", "b", "RAW"],
    "split": ["split", "FILE", "OUT"],
    "merge": ["merge", "FILE", "OUT.safetensors"],
    "rename": ["rename", "FILE", "a", "c", "OUT.safetensors"],
    "cast": ["cast", "FILE", "OUT.safetensors", "--to", "f16"],
    "convert": ["convert", "FILE", "OUT.bt"],
    "hash": ["hash", "FILE"],
}

SILENT = {"diff", "meta set", "meta rm", "set"}  # print nothing if they succeed


class ExitCodes(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_codes_"))
        self.addCleanup(shutil.rmtree, self.folder)
        good = file_bytes(TENSORS, {"k": "v"})
        self.files = {"good": good, "bad": good[:-1], "empty": b""}
        self.write()

    def write(self):
        for name, content in self.files.items():
            (self.folder / f"{name}.safetensors").write_bytes(content)
        (self.folder / "GOOD").write_bytes(self.files["good"])
        (self.folder / "RAW").write_bytes(b"1234")

    def words(self, name, file):
        paths = {"FILE": file, "GOOD": "GOOD", "RAW": "RAW"}
        return [str(self.folder / paths.get(word, word)) if word in paths or word.startswith("OUT") else word for word in COMMANDS[name]]

    def each(self, code, file, more=(), **options):
        """Runs every command and expects this code. A failed command prints one line and leaves no file."""
        for name in COMMANDS:
            with self.subTest(name):
                before = sorted(os.listdir(self.folder))
                result = run(*self.words(name, file), *more, **options)
                self.assertEqual(result.returncode, code, (result.stdout, result.stderr))
                if code in (SUCCESS, DIFFERS) or (name == "verify" and code == BAD_FILE):
                    self.assertEqual(result.stderr, b"")
                else:
                    self.assertRegex(result.stderr.decode(), r"\Asafetensors: [^\n]+\n\Z")
                    self.assertEqual(sorted(os.listdir(self.folder)), before)
                for path in self.folder.glob("OUT*"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.write()

    def test_a_good_file(self):
        self.each(SUCCESS, "good.safetensors")

    def test_a_file_that_breaks_the_format(self):
        self.each(BAD_FILE, "bad.safetensors")
        self.each(BAD_FILE, "empty.safetensors")

    def test_a_file_that_is_not_there(self):
        self.each(UNREADABLE, "none.safetensors")
        self.each(UNREADABLE, "good.safetensors/below")

    @needs_interference
    def test_a_defect(self):
        """failure_test.cpp tests the code of ST_ERR_INTERNAL, which all commands report in the same way."""
        result = run(*self.words("hash", "good.safetensors"), env=interfered("defect"))
        self.assertEqual((result.returncode, result.stdout, result.stderr),
                         (DEFECT, b"", b"safetensors: OpenSSL cannot compute this digest\n"))

    @needs_interference
    def test_threads_that_cannot_be_had_are_no_defect(self):
        """Commands work without a second thread, except rename, which needs its stack."""
        data = bytes(9 << 20)
        (self.folder / "long.safetensors").write_bytes(file_bytes([("a", "F32", [len(data) // 4], len(data))], data=data))
        for words in (["hash"], ["stats"], ["verify", "--values"]):
            with self.subTest(words):
                words = [*words, str(self.folder / "long.safetensors")]
                alone, usual = run(*words, env=interfered("threads")), run(*words)
                self.assertEqual((alone.returncode, alone.stdout, alone.stderr), (SUCCESS, usual.stdout, b""))
        result = run("rename", str(self.folder / "good.safetensors"), "a", "c", str(self.folder / "out.safetensors"),
                     env=interfered("threads"))
        self.assertEqual((result.returncode, result.stderr), (UNREADABLE, b"safetensors: cannot start a thread: Resource temporarily unavailable\n"))

    def test_every_command_is_in_the_table(self):
        """The tests of this file run the commands of the table only."""
        offered = re.search(r"\nsubcommands:\s*\n(.*?)\n\n", run("--help").stdout.decode(), re.IGNORECASE | re.DOTALL)[1]
        reads_no_file = {"fetch"}  # tests/http/fetch_test.py
        self.assertEqual({line.split()[0] for line in offered.splitlines() if line.strip()},
                         {name.split()[0] for name in COMMANDS} | reads_no_file)

    def test_an_option_that_is_none(self):
        self.each(USAGE, "good.safetensors", ["--no-such-option"])

    def test_wrong_usage_leads_to_the_help_of_the_command(self):
        for name in COMMANDS:
            command = name.split()[0]
            self.assertTrue(run(command, "--no-such-option").stderr.endswith(f" (safetensors {command} --help)\n".encode()), name)
        self.assertTrue(run("--no-such-option").stderr.endswith(b" (safetensors --help)\n"))
        self.assertEqual(run("stats", "FILE", "--filter").stderr,
                         b"safetensors: --filter: 1 required GLOB missing (safetensors stats --help)\n")

    def test_an_option_with_nothing_behind_it_is_empty(self):
        good, out = str(self.folder / "good.safetensors"), self.folder / "d.safetensors"
        for words in (["split", good, str(out), "--name=", "--dry-run"], ["rename", good, "a", "c", str(out), "--exclude=", "--dry-run"],
                      ["cast", good, str(out), "--to", "f16", "--exclude=", "--dry-run"]):
            run(*words)
            self.assertFalse(out.exists(), words)
        self.assertEqual(json.loads(run("show", good, "--filter=", "--json").stdout)["tensors"], [])

    def test_the_value_of_an_option_is_not_empty(self):
        """A variable of a script that is not set."""
        good, out = str(self.folder / "good.safetensors"), self.folder / "d.safetensors"
        for words in (["cast", good, str(out), "--to", "f16", "--from"], ["split", good, str(out), "--name"],
                      ["diff", good, good, "--rtol"], ["convert", good, str(out), "--key"]):
            result = run(*words, "")
            self.assertEqual((result.returncode, result.stdout), (USAGE, b""), words)
            self.assertIn(f"{words[-1]}: must not be empty", result.stderr.decode())
            self.assertFalse(out.exists(), words)

    def test_no_words_at_all(self):
        for name in COMMANDS:
            result = run(name.split()[0])
            self.assertEqual((result.returncode, result.stdout), (USAGE, b""), name)
            self.assertRegex(result.stderr.decode(), r"\Asafetensors: [^\n]+\n\Z")

    def test_output_that_cannot_be_written(self):
        """Printing to a full device fails."""
        for name in COMMANDS:
            if name in SILENT or any(word.startswith("OUT") for word in COMMANDS[name]):
                continue
            with self.subTest(name), open("/dev/full", "wb") as full:
                result = run(*self.words(name, "good.safetensors"), stdout=full, stderr=subprocess.PIPE)
                self.assertEqual((result.returncode, result.stderr),
                                 (UNREADABLE, b"safetensors: standard output: No space left on device\n"))

    def test_what_was_looked_for_was_found(self):
        (self.folder / "other.safetensors").write_bytes(file_bytes(TENSORS, {"k": "w"}))
        self.assertEqual(run("diff", str(self.folder / "other.safetensors"), str(self.folder / "GOOD")).returncode, DIFFERS)
        nan = file_bytes([("a", "F32", [1], 4)], data=b"\0\0\xc0\x7f")
        (self.folder / "nan.safetensors").write_bytes(nan)
        self.assertEqual(run("verify", "--values", str(self.folder / "nan.safetensors")).returncode, DIFFERS)


if __name__ == "__main__":
    unittest.main()
