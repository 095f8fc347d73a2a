"""Tests `safetensors meta`: list, get, set and remove. The bytes of tensors never change.

SPDX-License-Identifier: Apache-2.0
"""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from sample import COMMAND, file_bytes, run, run_as_nobody

TENSORS = [("a", "U8", [5], 5), ("b", "F32", [2], 8)]
DATA = bytes(range(13))


class Meta(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_meta_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = self.folder / "model.safetensors"

    def write(self, metadata):
        self.path.write_bytes(file_bytes(TENSORS, metadata, DATA))

    def meta(self, *arguments, code=0, note=False):
        result = run("meta", str(self.path), *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(bool(result.stderr), code != 0 or note, result.stderr)
        return result.stdout.decode()

    def listed(self):
        return json.loads(self.meta("--json"))

    def check_tensors(self):
        bytes_now = self.path.read_bytes()
        self.assertEqual(bytes_now[-len(DATA):], DATA)
        self.assertEqual((8 + int.from_bytes(bytes_now[:8], "little")) % 8, 0)
        self.assertEqual(sorted(os.listdir(self.folder)), ["model.safetensors"])

    def test_nothing_is_an_empty_object(self):
        for metadata in (None, {}):
            self.write(metadata)
            self.assertEqual(self.meta("--json"), "{}\n")
            self.assertEqual(self.meta(), "")

    def test_the_help_says_how_to_set_a_key(self):
        for words in (["meta", "set", "--help"], ["meta", "x", "set", "--help"], ["meta", "--help", "set"]):
            usage = run(*words).stdout.decode()
            self.assertIn("safetensors meta FILE set [OPTIONS] PAIR...\n", usage, words)
            self.assertIn("PAIR KEY=VALUE ...", usage)
        self.assertIn("safetensors show ", run("show", "--help").stdout.decode())
        self.assertIn("safetensors [OPTIONS] SUBCOMMAND", run("--help").stdout.decode())

    def test_listing(self):
        self.write({"format": "pt", "long key": "a\tb"})
        self.assertEqual(self.meta(), "format    pt\nlong key  \"a\\tb\"\n")
        self.assertEqual(self.listed(), {"format": "pt", "long key": "a\tb"})

    def test_get_gives_the_very_bytes(self):
        self.write({"k": "line\nline\x1b[0m é"})
        self.assertEqual(self.meta("get", "k"), "line\nline\x1b[0m é\n")
        self.assertEqual(json.loads(self.meta("get", "k", "--json")), "line\nline\x1b[0m é")
        self.assertEqual(self.meta("get", "absent", code=2), "")

    def test_what_a_file_cannot_hold_is_wrong_usage_and_no_fault_of_the_file(self):
        self.write({})
        before = self.path.read_bytes()
        for arguments in (["\udcff=v"], ["k=\udcff"], ["k=" + "v" * 5000, "--reserve", "100000000"]):
            self.meta("set", *arguments, code=2)
            self.assertEqual(self.path.read_bytes(), before)
        self.path.write_bytes(before[:-1])
        self.meta("set", "k=v", code=1)

    def test_set_and_remove(self):
        self.write({"format": "pt"})
        self.meta("set", "a=1", "b==2=", "c=")
        self.assertEqual(self.listed(), {"format": "pt", "a": "1", "b": "=2=", "c": ""})
        self.check_tensors()
        self.meta("rm", "a", "c", "never there")
        self.assertEqual(self.listed(), {"format": "pt", "b": "=2="})
        self.check_tensors()
        self.meta("set", "--sync", "--reserve", "300", "note=" + "n" * 200)
        inode = self.path.stat().st_ino
        self.meta("set", "more=" + "m" * 200)
        if os.environ.get("ST_LINUX_IO") != "0":  # elsewhere there are no locks for an edit in place
            self.assertEqual(self.path.stat().st_ino, inode)
        self.assertEqual(self.listed()["more"], "m" * 200)
        self.check_tensors()

    def test_a_note_where_transformers_would_refuse_the_file(self):
        self.write(None)
        self.meta("set", "a=1", note=True)
        self.write(None)
        self.meta("set", "a=1", "format=pt")

    @unittest.skipUnless(os.getuid() == 0, "needs root to become somebody else")
    def test_a_read_only_file_is_refused_in_the_words_of_the_system(self):
        self.write({})
        os.chmod(self.folder, 0o755)
        self.path.chmod(0o444)
        result = run_as_nobody("meta", str(self.path), "set", "a=1")
        self.assertEqual(result.returncode, 3)
        message = result.stderr.splitlines()[0]  # gcov adds a message that it cannot write its counts
        self.assertIn(b"Permission denied", message)
        self.assertNotIn(b"again", message)
        self.assertEqual(self.listed(), {})

    def test_a_file_that_another_process_is_editing(self):
        self.write({})
        with open(self.path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            result = run("meta", str(self.path), "set", "a=1")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn(b"another process", result.stderr)
        self.assertEqual(self.listed(), {})

    def test_two_dashes_before_the_file(self):
        """As scripts write them, and as names that begin with a dash need them."""
        self.write({"format": "pt"})
        self.assertEqual(run("meta", "--", str(self.path), "set", "a=b").returncode, 0)
        self.assertEqual(run("meta", "--", str(self.path), "rm", "format").returncode, 0)
        self.assertEqual(self.listed(), {"a": "b"})
        shutil.copy(self.path, self.folder / "-x.safetensors")
        self.assertEqual(run("meta", "--", "-x.safetensors", "get", "a", cwd=self.folder).stdout, b"b\n")
        self.assertEqual(json.loads(run("meta", "--json", "--", str(self.path), "get", "a").stdout), "b")
        self.assertEqual(run("meta", "--", str(self.path)).stdout, self.meta().encode())

    @unittest.skipUnless(hasattr(fcntl, "F_OFD_SETLK") and os.environ.get("ST_LINUX_IO") != "0", "no locks of open files")
    def test_an_interrupted_edit_leaves_no_file(self):
        """It waits for a reader's lock when its new file already has a name."""
        self.write({"format": "pt"})
        with open(self.path, "rb") as reader:
            fcntl.fcntl(reader, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 1 << 62, 1, 0))
            process = subprocess.Popen([COMMAND, "meta", str(self.path), "set", "a=" + "b" * 5000], stderr=subprocess.DEVNULL)
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            self.assertNotEqual(process.wait(), 0)
        self.assertEqual(os.listdir(self.folder), [self.path.name])

    def test_a_model_is_no_file_to_change(self):
        self.write({})
        before = self.path.read_bytes()
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"a": self.path.name, "b": self.path.name}}))
        for path in (self.folder, index):
            self.assertEqual(run("meta", str(path)).returncode, 0)
            for change in (["set", "a=1"], ["rm", "a"]):
                result = run("meta", str(path), *change)
                self.assertEqual((result.returncode, result.stderr.decode()),
                                 (2, f"safetensors: {path}: set and rm change one file; name one of the model's files\n"))
        self.path.unlink()
        for change in (["set", "a=1"], ["rm", "a"]):
            self.assertEqual(run("meta", str(index), *change).returncode, 3)
        self.path.write_bytes(before)

    def test_wrong_usage(self):
        self.write({})
        before = self.path.read_bytes()
        self.meta("set", "no equals sign", code=2)
        self.meta("set", code=2)
        self.meta("rm", code=2)
        self.assertEqual(self.path.read_bytes(), before)
        self.path.write_bytes(b"not a file of tensors")
        self.meta("set", "a=1", code=1)
        self.path.unlink()
        self.meta("set", "a=1", code=3)


if __name__ == "__main__":
    unittest.main()
