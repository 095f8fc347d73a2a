"""Tests the progress bar: only on a terminal, after half a second, never wider than the terminal, and erased at the end.

interfere.c advances the clock by a fifth of a second at each reading.

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

from sample import COMMAND, file_bytes, interfered, needs_interference, open_terminal, read_terminal

BYTES = 40 << 20  # ten blocks
ERASE = "\r\x1b[K"
FULL = re.compile(r"hashing \[(=*)( *)\] +(\d+)% (\S+) MB of 41\.9 MB, (\S+) MB/s, (\d+) s left")
NO_BAR = re.compile(r"hashing +(\d+)% \S+ MB of 41\.9 MB, \S+ MB/s, \d+ s left")


@needs_interference
class ProgressBar(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_progress_"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.model = cls.folder / "model.safetensors"
        head = file_bytes([("a", "U8", [BYTES], BYTES)], data=b"")
        cls.model.write_bytes(head)
        os.truncate(cls.model, len(head) + BYTES)
        cls.small = cls.folder / "small.safetensors"
        cls.small.write_bytes(file_bytes([("a", "U8", [1], 1)]))

    def run_on_terminal(self, columns, *arguments):
        """Returns the terminal's standard error and the pipe's standard output."""
        environment = {name: value for name, value in interfered("time").items() if name != "COLUMNS"}
        controller, terminal = open_terminal()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=terminal, env=environment)
        os.close(terminal)
        drawn = read_terminal(controller)
        printed, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, drawn)
        return drawn.decode(), printed

    def hash(self, columns, model):
        return self.run_on_terminal(columns, "hash", model)

    def frames(self, columns):
        """Returns the lines drawn over each other. The last output erases them."""
        drawn, printed = self.hash(columns, self.model)
        self.assertRegex(printed, rb"\A[0-9a-f]{64}  [^\n]+\n\Z")
        self.assertTrue(drawn.endswith(ERASE), drawn)
        lines = drawn.removesuffix(ERASE).removeprefix("\r").removesuffix("\x1b[K").split("\x1b[K\r")
        for line in lines:
            self.assertLess(len(line), columns)  # one that fills it would move the cursor to the next
            self.assertNotRegex(line, r"[\x00-\x1f]")
        return lines

    def test_it_says_share_rate_and_time_left(self):
        lines = self.frames(100)
        self.assertGreaterEqual(len(lines), 5)
        self.assertLess(len(lines), 10)  # nothing in the first half second
        shares, passed = [], 0.5  # seconds
        for line in lines:
            match = FULL.fullmatch(line)
            self.assertIsNotNone(match, line)
            full, empty, share = len(match[1]), len(match[2]), int(match[3])
            self.assertEqual(full + empty, 30)
            self.assertAlmostEqual(full, share * 0.3, delta=1)
            done, rate, left = float(match[4]), float(match[5]), int(match[6])
            self.assertGreater(done / rate, passed)
            self.assertAlmostEqual((41.9 - done) / rate, left, delta=0.6)
            passed = done / rate
            shares.append(share)
        self.assertEqual(shares, sorted(shares))
        self.assertEqual(shares[-1], 100)
        self.assertIn("100% 41.9 MB of", lines[-1])
        self.assertIn(", 0 s left", lines[-1])
        self.assertGreater(int(FULL.fullmatch(lines[0])[6]), 0)

    def test_the_bar_goes_first_where_there_is_no_room(self):
        for line in self.frames(72):
            self.assertRegex(line, NO_BAR)

    def test_the_rest_is_cut(self):
        for line in self.frames(20):
            self.assertRegex(line, r"\A *\d+% \S+ MB of")

    def check_bar(self, what, *arguments, total="41.9"):
        """Runs a command that writes a new model, and checks its bar."""
        drawn, printed = self.run_on_terminal(100, *arguments)
        self.assertEqual(printed, b"")
        self.assertTrue(drawn.endswith(ERASE), drawn)
        self.assertEqual(drawn.count(ERASE), 1, drawn)  # one bar, however many files
        lines = drawn.removesuffix(ERASE).removeprefix("\r").removesuffix("\x1b[K").split("\x1b[K\r")
        self.assertGreaterEqual(len(lines), 3)
        shares = []
        for line in lines:
            match = re.fullmatch(rf"{what} \[=* *\] +(\d+)% \S+ MB of {re.escape(total)} MB, \S+ MB/s, \d+ s left", line)
            self.assertIsNotNone(match, line)
            shares.append(int(match[1]))
        self.assertEqual(shares, sorted(shares))
        self.assertEqual(shares[-1], 100)
        self.assertLess(shares[0], 100)

    def test_commands_that_write_show_one(self):
        out = self.folder / "out"
        out.mkdir()
        parts = self.folder / "parts.safetensors"
        head = file_bytes([(f"t{i}", "F32", [BYTES // 16], BYTES // 4) for i in range(4)], data=b"")
        parts.write_bytes(head)
        os.truncate(parts, len(head) + BYTES)
        index = out / "shards" / "parts.safetensors.index.json"
        self.check_bar("writing", "split", parts, index.parent, "--max-size", str(BYTES // 4))
        self.assertEqual(len(list(index.parent.iterdir())), 5)
        self.check_bar("writing", "merge", index, out / "merged.safetensors")
        self.check_bar("writing", "rename", parts, "^t", "u", out / "renamed.safetensors")
        self.check_bar("writing", "extract", parts, "--filter", "t*", out / "extracted.safetensors")
        self.check_bar("writing", "cast", parts, out / "cast.safetensors", "--to", "F16", total="21.0")
        self.check_bar("converting", "convert", parts, out / "converted.bt")

    def test_short_work_shows_none(self):
        drawn, printed = self.hash(100, self.small)
        self.assertIn(b"small.safetensors\n", printed)
        self.assertEqual(drawn, "")

    def test_a_pipe_gets_none(self):
        result = subprocess.run([COMMAND, "hash", self.model], stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                                env=interfered("time"))
        self.assertEqual((result.returncode, result.stderr), (0, b""))


if __name__ == "__main__":
    unittest.main()
