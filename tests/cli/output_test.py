"""Tests output files: never the input, never incomplete, and nothing removed that the command did not create.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import unittest

from sample import COMMAND, INTERFERE, NOBODY, file_bytes, interfered, open_terminal, run, run_as_nobody

DATA = bytes(range(24))
MODEL = file_bytes([("a", "U8", [24], 24)], {"format": "pt"}, DATA)


def sparse_model(path, size):
    head = file_bytes([("big", "U8", [size], size)], data=b"")
    path.write_bytes(head)
    os.truncate(path, len(head) + size)


def size_limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_output_"))
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o777)
        self.model = self.folder / "model.safetensors"
        self.model.write_bytes(MODEL)
        self.out = self.folder / "out.bin"

    def extract(self, out, code=0, tensor="a", **options):
        result = run("extract", str(self.model), tensor, str(out), "--replace", **options)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr.decode()

    def check_folder(self, *names):
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(["model.safetensors", *names]))
        self.assertEqual(self.model.read_bytes(), MODEL)


class Input(Case):
    def test_no_name_of_the_input_is_an_output(self):
        hard = self.folder / "hard"
        os.link(self.model, hard)
        soft = self.folder / "soft"
        soft.symlink_to("model.safetensors")
        for out in (self.model, hard, soft, f"{self.folder}/./model.safetensors"):
            self.assertIn("is also an input", self.extract(out, 2))
            self.check_folder("hard", "soft")
        self.assertTrue(soft.is_symlink())

    def test_neither_shards_nor_their_index_are_outputs(self):
        shard = "model-00001-of-00001.safetensors"
        self.model.rename(self.folder / shard)
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": shard}}))
        before = index.read_bytes()
        for model in (index, self.folder):
            for out in (self.folder / shard, index):
                result = run("extract", str(model), "a", str(out))
                self.assertEqual(result.returncode, 2, result.stderr)
        for out in (self.folder / shard, index):
            for model in (index, self.folder):
                self.assertEqual(run("convert", str(model), str(out), "--to", "safetensors").returncode, 2, (model, out))
        self.assertEqual((index.read_bytes(), (self.folder / shard).read_bytes()), (before, MODEL))

    def test_standard_output_that_is_the_input(self):
        for arguments in (["cat", "a"], ["extract", "a", "/dev/stdout"], ["convert", "-", "--to", "safetensors"]):
            with open(self.model, "ab") as out:
                result = subprocess.run([COMMAND, arguments[0], self.model, *arguments[1:]], stdout=out, stderr=subprocess.PIPE)
            self.assertEqual(result.returncode, 2, arguments)
            self.check_folder()


class Regular(Case):
    def test_an_empty_name_is_not_standard_output(self):
        result = run("extract", str(self.model), "a", "")
        self.assertEqual((result.returncode, result.stdout), (2, b""))

    def test_one_model_is_not_named_as_an_index(self):
        index = self.folder / "model.safetensors.index.json"
        index.write_bytes(b"old")
        result = run("convert", str(self.model), str(index), "--to", "safetensors")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(index.read_bytes(), b"old")

    def test_a_new_file_has_the_mode_of_the_umask(self):
        self.extract(self.out, preexec_fn=lambda: os.umask(0o027))
        self.assertEqual(stat.S_IMODE(self.out.stat().st_mode), 0o640)
        self.assertEqual(self.out.read_bytes(), DATA)
        self.check_folder("out.bin")

    def test_a_replaced_file_hands_on_its_mode_and_keeps_its_other_names(self):
        for mode in (0o600, 0o664):
            self.out.write_bytes(b"old")
            self.out.chmod(mode)
            other = self.folder / "other"
            os.link(self.out, other)
            self.extract(self.out)
            self.assertEqual(stat.S_IMODE(self.out.stat().st_mode), mode)
            self.assertEqual((self.out.read_bytes(), other.read_bytes()), (DATA, b"old"))
            other.unlink()
            self.out.unlink()

    @unittest.skipIf(os.environ.get("ST_LINUX_IO") == "0", "POSIX has no access control lists")
    def test_nobody_gains_access_through_access_control_lists(self):
        def acl(group, named, mask):  # user::rw-, user:NOBODY:named, group::group, mask::mask, other::---
            entries = [(1, 6, 2**32 - 1), (2, named, NOBODY), (4, group, 2**32 - 1), (16, mask, 2**32 - 1), (32, 0, 2**32 - 1)]
            return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)

        name = "system.posix_acl_access"
        try:
            self.out.write_bytes(b"old")
            os.setxattr(self.out, name, acl(0, 4, 4))  # the mode is 0640, but the group has no rights
        except OSError:
            self.skipTest("no access control lists here")
        self.extract(self.out)
        self.assertEqual(os.getxattr(self.out, name), acl(0, 4, 4))
        # A default list of the folder must not widen the rights of a file without a list.
        os.setxattr(self.folder, "system.posix_acl_default", acl(4, 6, 6))
        os.removexattr(self.out, name)
        self.out.chmod(0o640)
        self.extract(self.out)
        self.assertNotIn(name, os.listxattr(self.out))
        self.assertEqual(stat.S_IMODE(self.out.stat().st_mode), 0o640)

    def test_a_link_stays_and_leads_to_the_new_file(self):
        self.out.write_bytes(b"old")
        link = self.folder / "link"
        link.symlink_to("out.bin")
        self.extract(link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.out.read_bytes(), DATA)
        self.out.unlink()
        self.extract(link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.out.read_bytes(), DATA)
        self.check_folder("link", "out.bin")

    @unittest.skipUnless(os.getuid() == 0, "needs root to become somebody else")
    def test_a_read_only_file_stays(self):
        self.out.write_bytes(b"old")
        os.chown(self.out, NOBODY, NOBODY)
        self.out.chmod(0o444)
        result = run_as_nobody("extract", str(self.model), "a", str(self.out), "--replace")
        self.assertEqual(result.returncode, 3)
        self.assertIn(b"Permission denied", result.stderr)
        self.assertEqual(self.out.read_bytes(), b"old")
        self.check_folder("out.bin")

    def test_a_write_error_leaves_what_was_there(self):
        sparse_model(self.model, 3_000_000)
        for old in (None, b"old"):
            if old:
                self.out.write_bytes(old)
            self.assertIn("too large", self.extract(self.out, 3, "big", preexec_fn=size_limit).lower())
            self.assertEqual(self.out.read_bytes() if self.out.exists() else None, old)
        self.assertEqual(sorted(os.listdir(self.folder)), ["model.safetensors", "out.bin"])

    def test_a_conversion_over_the_size_limit_is_an_error(self):
        sparse_model(self.model, 3_000_000)
        result = run("convert", str(self.model), str(self.folder / "b.bt"), preexec_fn=size_limit)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(os.listdir(self.folder), ["model.safetensors"])
        with open(self.out, "wb") as out:
            result = subprocess.run([COMMAND, "convert", self.model, "-", "--to", "safetensors"], stdout=out, stderr=subprocess.PIPE,
                                    preexec_fn=size_limit)
        self.assertEqual(result.returncode, 3, result.stderr)


    @unittest.skipUnless(os.getuid() == 0, "needs root to give a file away")
    def test_another_user_s_link_in_a_sticky_folder_is_not_followed(self):
        self.folder.chmod(0o1777)
        self.out.write_bytes(b"old")
        link = self.folder / "link"
        link.symlink_to("out.bin")
        os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
        self.extract(link, 3)
        self.assertEqual(self.out.read_bytes(), b"old")

    @unittest.skipUnless(os.getuid() == 0, "needs root to give a file away")
    def test_another_user_s_file_in_a_sticky_folder_stays(self):
        self.folder.chmod(0o1777)
        self.out.write_bytes(b"old")
        os.chown(self.out, NOBODY, NOBODY)
        self.extract(self.out, 3)
        self.assertEqual((self.out.read_bytes(), self.out.stat().st_uid), (b"old", NOBODY))


class Stream(Case):
    def test_a_fifo_whose_reader_leaves_stays(self):
        sparse_model(self.model, 3_000_000)
        os.mkfifo(self.out)
        for ignored in (False, True):
            process = subprocess.Popen([COMMAND, "extract", self.model, "big", self.out], stderr=subprocess.PIPE, restore_signals=not ignored)
            with open(self.out, "rb") as reader:
                reader.read(1)
            message = process.communicate(timeout=60)[1]
            self.assertEqual((process.returncode, b"Broken pipe" in message), (3, True) if ignored else (-signal.SIGPIPE, False))
            self.assertTrue(stat.S_ISFIFO(self.out.lstat().st_mode))

    def test_a_device_that_takes_no_bytes_stays(self):
        try:
            os.mknod(self.out, stat.S_IFCHR | 0o666, os.makedev(1, 7))  # full
            os.close(os.open(self.out, os.O_WRONLY))
        except OSError:
            self.skipTest("device nodes cannot be made here")
        self.assertIn("No space left", self.extract(self.out, 3))
        self.assertTrue(stat.S_ISCHR(self.out.lstat().st_mode))
        self.check_folder("out.bin")

    def test_a_descriptor_goes_on_where_it_is(self):
        self.out.write_bytes(b"before ")
        with open(self.out, "ab") as out:
            result = subprocess.run([COMMAND, "extract", self.model, "a", "/dev/stdout"], stdout=out)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(self.out.read_bytes(), b"before " + DATA)

    def test_no_command_writes_raw_bytes_to_a_terminal(self):
        parent, child = open_terminal()
        self.addCleanup(os.close, parent)
        self.addCleanup(os.close, child)
        name = os.ttyname(child)
        for arguments in (["cat", "a"], ["extract", "a", "/dev/stdout"], ["extract", "a", name], ["convert", "-", "--to", "bintensors"],
                          ["convert", name, "--to", "bintensors"], ["convert", "/dev/fd/1", "--to", "bintensors"]):
            result = subprocess.run([COMMAND, arguments[0], self.model, *arguments[1:]], stdout=child, stderr=subprocess.PIPE,
                                    timeout=60)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(b"terminal", result.stderr)

    def test_a_closed_standard_descriptor_is_not_taken_for_a_file(self):
        for closed in (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            result = subprocess.run(["sh", "-c", f'"$0" extract "$1" a "$2" --replace {closed}', COMMAND, self.model, self.out])
            self.assertEqual((result.returncode, self.out.read_bytes()), (0, DATA), closed)
            cat = subprocess.run(["sh", "-c", f'"$0" cat "$1" a {closed}', COMMAND, self.model], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(cat.returncode, 3 if ">&-" in closed.replace("2>&-", "") else 0, closed)
            self.check_folder("out.bin")


@unittest.skipUnless(INTERFERE or os.environ.get("ST_LINUX_IO") == "0", "a new file has no name until it is complete")
class Signals(Case):
    environment = interfered("names") if INTERFERE else os.environ

    def interrupted(self, number, arguments, **options):
        """Sends the signal as soon as the folder has a new file. Tries again if the command was faster."""
        before = set(os.listdir(self.folder))
        for _ in range(30):
            process = subprocess.Popen([COMMAND, *arguments], stderr=subprocess.DEVNULL, env=self.environment, **options)
            while process.poll() is None and set(os.listdir(self.folder)) == before:
                pass
            process.send_signal(number)
            if process.wait(60) != 0:
                return process.returncode
            for name in set(os.listdir(self.folder)) - before:
                (self.folder / name).unlink()
        self.fail("every run ended too soon")

    def test_a_signal_leaves_nothing_and_ends_the_command(self):
        sparse_model(self.model, 300_000_000)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGPIPE, signal.SIGPROF, signal.SIGUSR1,
                       signal.SIGUSR2, signal.SIGVTALRM):
            self.assertEqual(self.interrupted(number, ["extract", self.model, "big", self.out]), -number)
            self.assertEqual(os.listdir(self.folder), ["model.safetensors"], number)

    def test_a_signal_leaves_nothing_of_a_new_model(self):
        size = 200_000_000
        head = file_bytes([("big", "F32", [size // 4], size)], data=b"")
        self.model.write_bytes(head)
        os.truncate(self.model, len(head) + size)
        self.assertEqual(self.interrupted(signal.SIGINT, ["cast", self.model, self.folder / "new.safetensors", "--to", "f16"]), -signal.SIGINT)
        self.assertEqual(os.listdir(self.folder), ["model.safetensors"])

    @unittest.skipIf(os.name == "nt", "only POSIX systems convert arrays")
    def test_a_signal_leaves_nothing_of_a_converted_array(self):
        array = self.folder / "a.npy"
        size = 200_000_000
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % size
        array.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n")
        os.truncate(array, array.stat().st_size + size)
        self.assertEqual(self.interrupted(signal.SIGINT, ["convert", array, self.folder / "new.safetensors"]), -signal.SIGINT)
        self.check_folder("a.npy")

    def writes_a_temporary_file(self, process):
        """Whether it has one open, which has no name, or a name that begins with a dot."""
        for descriptor in os.scandir(f"/proc/{process.pid}/fd"):
            try:
                state = os.stat(descriptor.path)
                path = os.readlink(descriptor.path)
            except OSError:  # closed since
                continue
            if stat.S_ISREG(state.st_mode) and (state.st_nlink == 0 or ".st-new-" in path):
                return True
        return False

    def test_a_signal_leaves_a_shard_that_another_process_replaced(self):
        size, count = 1_000_000, 400  # enough shards for this process to look at one meanwhile
        head = file_bytes([(f"t{i}", "U8", [size], size) for i in range(count)], data=b"")
        self.model.write_bytes(head)
        os.truncate(self.model, len(head) + count * size)
        first = self.folder / "out" / "model-00001-of-00400.safetensors"
        for _ in range(30):
            process = subprocess.Popen([COMMAND, "split", self.model, self.folder / "out", "--max-size", "1MB", "--name", "model"],
                                       env=self.environment, stderr=subprocess.DEVNULL)
            # From the second shard on, the process knows that the first one is its own (docs/command.md).
            while process.poll() is None and not (first.exists() and self.writes_a_temporary_file(process)):
                pass
            self.out.write_bytes(b"other")
            self.out.rename(first)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            left = os.listdir(first.parent)
            if "model.safetensors.index.json" not in left:  # else it was complete
                self.assertEqual((process.returncode, left, first.read_bytes()), (-signal.SIGTERM, [first.name], b"other"))
                return
            shutil.rmtree(first.parent)
        self.fail("every run ended too soon")

    def test_an_input_that_is_overwritten_meanwhile_is_an_error(self):
        size = 100_000_000
        head = file_bytes([(name, "U8", [size], size) for name in "abcd"], data=b"")
        first = self.folder / "out" / "model-00001-of-00004.safetensors"
        for _ in range(30):
            self.model.write_bytes(head)
            os.truncate(self.model, len(head) + 4 * size)
            process = subprocess.Popen([COMMAND, "split", self.model, self.folder / "out", "--max-size", "100MB", "--name", "model"],
                                       env=self.environment, stderr=subprocess.PIPE, text=True)
            while process.poll() is None and not first.exists():
                pass
            with open(self.model, "r+b") as model:
                model.seek(len(head) + 4 * size - 1)
                model.write(b"x")
            error = process.communicate(timeout=60)[1]
            if process.returncode != 0:
                self.assertEqual(process.returncode, 3)
                self.assertRegex(error.splitlines()[-1], "model.safetensors' was overwritten in place after it was opened \\(ST_ERR_READ\\)$")
                self.assertEqual(os.listdir(self.folder), ["model.safetensors"])
                return
            shutil.rmtree(first.parent)
        self.fail("every run ended too soon")

    def test_an_ignored_signal_stays_ignored(self):
        sparse_model(self.model, 100_000_000)
        ignoring = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        process = subprocess.Popen([COMMAND, "extract", self.model, "big", self.out], preexec_fn=ignoring, env=self.environment)
        while process.poll() is None and os.listdir(self.folder) == ["model.safetensors"]:
            pass
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(self.out.stat().st_size, 100_000_000)


if __name__ == "__main__":
    unittest.main()
