"""Tests the parts of the command that are specific to Windows: arguments, standard output, paths, new files.

usage: windows_command.py WINE COMMAND

SPDX-License-Identifier: Apache-2.0
"""
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import termios
import unittest

WINE, COMMAND = sys.argv[1:3]
USAGE, UNREADABLE = 2, 3
DATA = bytes(range(256))  # a text stream would change 10, 13 and 26
HEADER = b'{"w":{"dtype":"U8","shape":[256],"data_offsets":[0,256]}}'
MODEL = len(HEADER).to_bytes(8, "little") + HEADER + DATA
NAME = "\u043c\u043e\u0434\u0435\u043b\u044c \u6a21\u578b \U0001f917.safetensors"


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="safetensors_windows_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.folder / "model.safetensors"
        self.model.write_bytes(MODEL)

    def run_command(self, *arguments, again=True):
        done = subprocess.run([WINE, COMMAND, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120)
        # If wine cannot load the program, its start.exe prints this and exits with 1. In CI, a run once ended like that.
        if again and done.stdout.startswith(b"Application could not be started"):
            return self.run_command(*arguments, again=False)
        return done

    def succeeds(self, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
        return done.stdout

    def fails(self, code, words, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual((done.returncode, done.stdout), (code, b""), done.stderr)
        self.assertRegex(done.stderr.decode(), r"\Asafetensors: [^\r\n]+\n\Z")
        self.assertIn(words, done.stderr.decode())

    def only_these_are_there(self, *names):
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"model.safetensors", *names})

    def has_begun(self, pattern):
        try:
            return any(path.stat().st_size for path in self.folder.glob(pattern))
        except FileNotFoundError:  # removed or renamed meanwhile
            return False

    def test_a_name_that_no_code_page_has(self):
        self.model.rename(self.folder / NAME)
        self.assertIn(b'"w"', self.succeeds("show", NAME, "--json"))
        self.assertIn(NAME.encode(), self.succeeds("hash", NAME))
        self.fails(UNREADABLE, NAME + "2", "show", NAME + "2")

    def test_bytes_and_lines_are_those_of_every_system(self):
        self.assertEqual(self.succeeds("cat", "model.safetensors", "w"), DATA)
        self.assertNotIn(b"\r", self.succeeds("show", "model.safetensors"))
        self.assertTrue(self.succeeds("show", "model.safetensors", "--json").endswith(b"}\n"))

    def test_a_tensor_is_replaced_by_the_bytes_of_standard_input(self):
        done = subprocess.run([WINE, COMMAND, "set", "model.safetensors", "w", "-"], cwd=self.folder, input=DATA[::-1],
                              capture_output=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
        self.assertEqual(self.model.read_bytes(), MODEL[:-len(DATA)] + DATA[::-1])
        self.only_these_are_there()

    def test_a_file_appears_whole_and_replaces_another(self):
        self.succeeds("extract", "model.safetensors", "w", "out.bin")
        (self.folder / "out.bin").write_bytes(b"old")
        self.fails(UNREADABLE, "already exists", "extract", "model.safetensors", "w", "OUT.BIN")
        self.succeeds("extract", "model.safetensors", "w", "OUT.BIN", "--replace")  # which is the same file
        self.assertEqual((self.folder / "out.bin").read_bytes(), DATA)
        self.only_these_are_there("out.bin")

    def test_the_file_that_is_read_is_not_overwritten(self):
        for path in ("model.safetensors", "MODEL.SAFETENSORS", ".\\model.safetensors", "./x/../model.safetensors"):
            self.fails(USAGE, "is also an input", "extract", "model.safetensors", "w", path)
        self.assertEqual(self.model.read_bytes(), MODEL)
        self.only_these_are_there()

    def test_a_path_beyond_260_characters(self):
        far = self.folder / "/".join(["a-folder-with-a-name-of-fifty-characters-or-so-0123"] * 6)
        far.mkdir(parents=True)
        (far / "model.safetensors").write_bytes(MODEL)
        path = str(far.relative_to(self.folder))
        self.succeeds("extract", path + "/model.safetensors", "w", path + "/out.bin")
        self.assertEqual((far / "out.bin").read_bytes(), DATA)
        self.fails(USAGE, "is also an input", "extract", path + "/model.safetensors", "w",
                   path + "/./model.safetensors")
        self.assertEqual((far / "model.safetensors").read_bytes(), MODEL)

    def test_a_device_is_written_to_and_a_folder_is_not(self):
        self.succeeds("extract", "model.safetensors", "w", "NUL")
        (self.folder / "sub").mkdir()
        self.fails(UNREADABLE, "sub", "extract", "model.safetensors", "w", "sub")
        self.only_these_are_there("sub")

    def test_a_pattern_is_not_taken_for_names_of_files(self):
        (self.folder / "v").touch()
        for pattern, count in (("[uvw]", 1), ("*", 1), ("[!w]*", 0), ("v", 0)):
            listed = json.loads(self.succeeds("show", "model.safetensors", "--json", "--filter", pattern))
            self.assertEqual(len(listed["tensors"]), count, pattern)

    def test_a_converted_file_comes_back(self):
        self.succeeds("convert", "model.safetensors", "model.bt")
        self.succeeds("convert", "model.bt", "again.safetensors")
        self.assertEqual(self.succeeds("cat", "again.safetensors", "w"), DATA)
        self.only_these_are_there("model.bt", "again.safetensors")

    def test_shards_come_together_to_the_same_bytes(self):
        self.succeeds("rename", "model.safetensors", "w", "x", "other.safetensors")
        self.succeeds("merge", "model.safetensors", "other.safetensors", "two.safetensors")
        self.succeeds("split", "two.safetensors", "shards", "--max-size", "256", "--name", NAME[:6])
        self.assertEqual({path.name for path in (self.folder / "shards").iterdir()},
                         {NAME[:6] + ".safetensors.index.json", *(f"{NAME[:6]}-0000{i}-of-00002.safetensors" for i in (1, 2))})
        self.succeeds("merge", "shards", "again.safetensors")
        self.assertEqual((self.folder / "again.safetensors").read_bytes(), (self.folder / "two.safetensors").read_bytes())
        self.assertEqual(self.succeeds("diff", "shards", "two.safetensors"), b"")
        self.fails(UNREADABLE, "already exists", "split", "two.safetensors", "shards", "--max-size", "256", "--name", NAME[:6])

    def test_ctrl_c_leaves_no_shard(self):
        """The first shard is done at once, the second takes a while."""
        size = 400 << 20
        (self.folder / "in").mkdir()
        for i, n in ((1, 4), (2, size)):
            header = json.dumps({f"w{i}": {"dtype": "F32", "shape": [n // 4], "data_offsets": [0, n]}}).encode()
            with open(self.folder / f"in/model-0000{i}-of-00002.safetensors", "wb") as file:
                file.write(len(header).to_bytes(8, "little") + header)
                file.truncate(8 + len(header) + n)
        master, slave = os.openpty()  # wine makes a console of it
        process = subprocess.Popen([WINE, COMMAND, "cast", "in", "out", "--to", "f8_e4m3"], cwd=self.folder, stdin=slave,
                                   stdout=slave, stderr=slave, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        # A new file is marked for deletion before anything is written to it; what is killed before that leaves it empty.
        while not self.has_begun("out/.model-00002-*") and process.poll() is None:
            pass
        self.assertTrue((self.folder / "out/model-00001-of-00002.safetensors").exists())
        os.write(master, b"\x03")
        process.wait(timeout=120)
        os.close(master)
        self.assertEqual(list((self.folder / "out").glob("*")), [])

    def test_everything_wrong_is_told_and_a_failed_cast_leaves_nothing(self):
        self.succeeds("verify", "model.safetensors")
        self.fails(USAGE, "--to", "cast", "model.safetensors", "out.safetensors", "--to", "bf61")
        (self.folder / "bad.safetensors").write_bytes(MODEL + b"more")
        done = self.run_command("verify", "bad.safetensors")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"4 more bytes", done.stdout + done.stderr)
        self.only_these_are_there("bad.safetensors")


unittest.main(argv=sys.argv[:1], verbosity=2)
