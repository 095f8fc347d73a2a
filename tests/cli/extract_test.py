"""Tests `safetensors cat` and `extract`: bytes, .npy files, slices, and rejected arguments.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from sample import COMMAND, file_bytes, open_terminal, read_terminal, run

DATA = bytes(range(24)) + bytes(range(100, 116)) + bytes([1]) + bytes(range(200, 208)) + bytes(range(8))
MODEL = file_bytes([("m", "U8", [4, 6], 24), ("half", "BF16", [2, 4], 16), ("yes", "BOOL", [], 1), ("f4", "F4", [4, 4], 8),
                    ("v", "F32", [2], 8), ("none", "F32", [0, 3], 0)], data=DATA)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_extract_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = self.folder / "model.safetensors"
        self.model.write_bytes(MODEL)

    def cat(self, tensor, *options):
        result = run("cat", str(self.model), tensor, *options)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout

    def fault(self, code, words, *arguments):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, b""), result.stderr)
        self.assertRegex(result.stderr.decode(), r"\Asafetensors: [^\n]+\n\Z")
        self.assertIn(words, result.stderr.decode())


class Bytes(Case):
    def test_whole_tensors(self):
        self.assertEqual(self.cat("m"), DATA[:24])
        self.assertEqual(self.cat("yes"), b"\1")
        self.assertEqual(self.cat("none"), b"")

    def test_slices(self):
        m = [list(DATA[6 * r:6 * r + 6]) for r in range(4)]
        for text, wanted in [("1", m[1]), ("-1", m[3]), ("1:3, 0", [m[1][0], m[2][0]]), (":, 2", [r[2] for r in m]),
                             ("[::2, ::-1]", m[0][::-1] + m[2][::-1]), ("..., -2:", [x for r in m for x in r[-2:]]),
                             ("3:1", []), ("", DATA[:24]), ("9:", []), ("-1,-1", [m[3][5]])]:
            self.assertEqual(self.cat("m", "--slice", text), bytes(wanted), text)
        self.assertEqual(self.cat("f4", "--slice", ":, 2:"), bytes([201, 203, 205, 207]))

    def test_into_a_file(self):
        out = self.folder / "m.bin"
        result = run("extract", str(self.model), "m", str(out), "--slice", "2")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))
        self.assertEqual(out.read_bytes(), DATA[12:18])

    def test_a_tensor_of_many_blocks(self):
        rows, columns = 5, 50_000_003  # 250 MB, cut along both dimensions
        data = bytes(range(251)) * (rows * columns // 251 + 1)
        data = data[:rows * columns]
        self.model.write_bytes(file_bytes([("big", "U8", [rows, columns], rows * columns)], data=data))
        self.assertEqual(self.cat("big"), data)
        out = self.folder / "back.bin"
        self.assertEqual(run("extract", str(self.model), "big", str(out), "--slice", "::-1, 1::2").returncode, 0)
        wanted = b"".join(data[r * columns + 1:(r + 1) * columns:2] for r in reversed(range(rows)))
        self.assertEqual(out.read_bytes(), wanted)


class Npy(Case):
    def load(self, tensor, *options):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        out = self.folder / "out.npy"
        result = run("extract", str(self.model), tensor, str(out), "--replace", *options)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(out.read_bytes(), self.cat(tensor, "--npy", *options))
        return numpy.load(out)

    def test_shapes_and_types(self):
        array = self.load("m")
        self.assertEqual((array.shape, array.dtype.str, array.tobytes()), ((4, 6), "|u1", DATA[:24]))
        array = self.load("m", "--slice", "1, 2:4")
        self.assertEqual((array.shape, array.tolist()), ((2,), [8, 9]))
        self.assertEqual(self.load("yes").shape, ())
        self.assertEqual(self.load("none").shape, (0, 3))
        self.assertEqual(self.load("v").dtype.str, "<f4")
        array = self.load("half", "--slice", ":1")
        self.assertEqual((array.shape, array.dtype.str, array.tobytes()), ((1, 4), "|V2", DATA[24:32]))

    def test_types_below_a_byte_have_none(self):
        out = self.folder / "f4.npy"
        self.fault(2, "f4", "extract", str(self.model), "f4", str(out))
        self.assertFalse(out.exists())


class Refused(Case):
    def test_names_and_slices(self):
        model = str(self.model)
        self.fault(2, "no tensor 'x'", "cat", model, "x")
        for text in ["4", "-5", "0, 0, 0", "a:b", "1:2:0", "1:2:3:4", "..., ...", "1.5"]:
            self.fault(2, "slice", "cat", model, "m", "--slice", text)
        self.fault(2, "inside a byte", "cat", model, "f4", "--slice", ":, :1")

    def test_files(self):
        self.fault(3, "absent", "cat", str(self.folder / "absent.safetensors"), "m")
        self.fault(3, "absent", "extract", str(self.model), "m", str(self.folder / "absent" / "out.bin"))
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([COMMAND, "cat", str(self.model), "m"], stdout=full, stderr=subprocess.PIPE)
            self.assertEqual(result.returncode, 3)

    def test_a_new_file_that_did_not_become_whole_is_removed(self):
        size = 300_000_000
        self.model.write_bytes(file_bytes([("big", "U8", [size], size)], data=b""))
        with open(self.model, "r+b") as file:
            length = 8 + int.from_bytes(file.read(8), "little")
            file.truncate(length + size)
        out = self.folder / "out.bin"
        limited = subprocess.run(["sh", "-c", 'ulimit -f 100000; trap "" XFSZ; exec "$0" "$@"', COMMAND, "extract", str(self.model),
                                  "big", str(out)], capture_output=True)
        self.assertEqual(limited.returncode, 3, limited.stderr)
        self.assertFalse(out.exists())

    def test_raw_bytes_to_a_terminal(self):
        parent, child = open_terminal()
        result = subprocess.run([COMMAND, "cat", str(self.model), "m"], stdout=child, stderr=subprocess.PIPE)
        os.close(child)
        os.close(parent)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"terminal", result.stderr)


class Terminal(Case):
    def test_a_bar_when_it_is_long_and_nothing_left_of_it(self):
        size = 3_000_000_000
        with open(self.model, "wb") as file:
            head = file_bytes([("big", "U8", [size], size)], data=b"")
            file.write(head)
            file.truncate(len(head) + size)
        parent, child = open_terminal()
        process = subprocess.Popen([COMMAND, "cat", str(self.model), "big"], stdout=subprocess.PIPE, stderr=child)
        os.close(child)
        while process.stdout.read(1 << 20):
            pass
        process.stdout.close()
        self.assertEqual(process.wait(), 0)
        drawn = read_terminal(parent)
        if drawn:  # on a machine where 3 GB take half a second
            self.assertIn(b"3.0 GB", drawn)
            self.assertTrue(drawn.endswith(b"\r\x1b[K"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
