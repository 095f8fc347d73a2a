"""Tests `safetensors set`: it replaces the bytes of one tensor, and everything else in the file stays as it is.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from sample import COMMAND, file_bytes, interfered, needs_interference, run

TENSORS = [("first", "U8", [3], 3), ("m", "F32", [2, 3], 24), ("b", "BF16", [2], 4), ("none", "F32", [0, 3], 0),
           ("four", "F4", [4], 2), ("yes", "BOOL", [], 1), ("last", "I64", [1], 8)]
DATA = bytes(range(42))
BEGIN = {"first": 0, "m": 3, "b": 27, "none": 31, "four": 31, "yes": 33, "last": 34}


def npy(descr, shape, data, fortran="False", version=1):
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + data


class Set(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_set_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = self.folder / "model.safetensors"
        self.content = file_bytes(TENSORS, {"k": "v"}, DATA)
        self.model.write_bytes(self.content)
        self.inode = self.model.stat().st_ino

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def changed(self, name, data):
        """The content with other bytes of a tensor."""
        begin = len(self.content) - len(DATA) + BEGIN[name]
        return self.content[:begin] + data + self.content[begin + len(data):]

    def sets(self, name, data, *words, **options):
        self.model.write_bytes(self.content)
        result = run("set", str(self.model), name, *words, **options)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""), words)
        self.assertEqual(self.model.read_bytes(), self.changed(name, data))
        self.assertEqual(self.model.stat().st_ino, self.inode)

    def refuses(self, code, says, name, *words, model=None):
        result = run("set", str(model or self.model), name, *words)
        self.assertEqual((result.returncode, result.stdout), (code, b""), (words, result.stderr))
        self.assertRegex(result.stderr.decode(), r"\Asafetensors: [^\n]+\n\Z")
        self.assertIn(says, result.stderr.decode())
        self.assertEqual(self.model.read_bytes(), self.content)

    def test_bytes(self):
        for name, _, _, size in TENSORS:
            data = os.urandom(size)
            path = self.file("in.bin", data)
            self.sets(name, data, path)
            self.sets(name, data, path, "--sync")
        self.assertEqual(sorted(os.listdir(self.folder)), ["in.bin", "model.safetensors"])

    def test_standard_input(self):
        for data, words in ((b"x" * 24, []), (npy("<f4", "(2, 3)", b"y" * 24), ["--npy"])):
            self.model.write_bytes(self.content)
            result = subprocess.run([COMMAND, "set", str(self.model), "m", "-", *words], input=data, capture_output=True, timeout=60)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))
            self.assertEqual(self.model.read_bytes(), self.changed("m", data[-24:]))

    def test_arrays(self):
        for name, descr, shape, size in (("m", "<f4", "(2, 3)", 24), ("first", "|u1", "(3,)", 3), ("first", "<u1", "(3,)", 3),
                                         ("b", "|V2", "(2,)", 4), ("b", "<V2", "(2,)", 4), ("none", "<f4", "(0, 3)", 0),
                                         ("yes", "|b1", "()", 1), ("last", "<i8", "(1,)", 8)):
            data = os.urandom(size)
            for version in (1, 2, 3):
                self.sets(name, data, self.file("in.npy", npy(descr, shape, data, version=version)))
        data = bytes(8)
        self.sets("last", data, self.file("in.npy", npy("<i8", "(1,)", data, fortran="True")))
        self.sets("m", b"z" * 24, self.file("other", npy("<f4", "(2, 3)", b"z" * 24)), "--npy")

    def test_what_extract_writes_can_be_set(self):
        for name in BEGIN:
            for suffix in ("bin", "npy"):
                if (name, suffix) == ("four", "npy"):
                    continue
                path = str(self.folder / f"{name}.{suffix}")
                self.assertEqual(run("extract", str(self.model), name, path).returncode, 0)
                self.sets(name, b"", path)

    def test_bytes_of_another_length(self):
        self.refuses(2, "tensor m has 24 bytes, but the input has 23", "m", self.file("in", bytes(23)))
        self.refuses(2, "tensor m has 24 bytes, but the input has 25", "m", self.file("in", bytes(25)))
        self.refuses(2, "tensor m has 24 bytes, but the input has 0", "m", "-")
        self.refuses(2, "tensor none has 0 bytes, but the input has 1", "none", self.file("in", b"x"))

    def test_standard_input_of_another_length(self):
        for size, says in ((23, "has 23"), (25, "has more")):
            result = subprocess.run([COMMAND, "set", str(self.model), "m", "-"], input=bytes(size), capture_output=True, timeout=60)
            self.assertEqual((result.returncode, self.model.read_bytes()), (2, self.content))
            self.assertIn(f"tensor m has 24 bytes, but the input {says}", result.stderr.decode())

    def test_the_rest_of_a_file_as_standard_input(self):
        with open(self.file("in", b"skipped" + b"x" * 24), "rb") as file:
            os.lseek(file.fileno(), 7, os.SEEK_SET)
            result = subprocess.run([COMMAND, "set", str(self.model), "m", "-"], stdin=file, capture_output=True, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(self.model.read_bytes(), self.changed("m", b"x" * 24))

    def test_a_short_file_for_a_huge_tensor_takes_no_memory(self):
        size = 1 << 40
        head = file_bytes([("huge", "U8", [size], size)], data=b"")
        path = pathlib.Path(self.file("huge.safetensors", head))
        os.truncate(path, len(head) + size)
        result = run("set", str(path), "huge", self.file("in", b"x"))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(f"tensor huge has {size} bytes, but the input has 1", result.stderr.decode())

    @needs_interference
    def test_an_input_that_is_overwritten_while_it_is_read(self):
        for word in ("IN", "-"):
            path = self.file("in", b"x" * 24)
            os.utime(path, (1, 1))  # so that its time differs afterwards, however coarse the clock is
            with open(path, "rb") as file:
                result = subprocess.run([COMMAND, "set", str(self.model), "m", path if word == "IN" else "-"], stdin=file,
                                        capture_output=True, timeout=60, env={**interfered("overwrite+stream"), "ST_INPUT": path})
            self.assertEqual((result.returncode, result.stdout), (3, b""), result.stderr)
            self.assertRegex(result.stderr.decode(), "(in|-): was changed while it was read\\n")
            self.assertEqual(self.model.read_bytes(), self.content)

    def set_while(self, path, name, data, change):
        """Sets a tensor from a pipe, and calls `change` after the command has begun to read it."""
        with subprocess.Popen([COMMAND, "set", str(path), name, "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdin.write(data[:-1])  # more than a pipe holds, so this waits for the reader
            process.stdin.flush()
            change()
            process.stdin.write(data[-1:])
            process.stdin.close()
            return process.wait(timeout=60), process.stderr.read().decode()

    def test_a_file_that_is_replaced_while_the_input_is_read(self):
        size = 4 << 20
        for dtype, shape in (("I32", [size // 4]), ("F32", [2, size // 8])):
            path = pathlib.Path(self.file("big.safetensors", file_bytes([("big", "F32", [size // 4], size)])))
            other = self.file("other", file_bytes([("big", dtype, shape, size)]))
            expected = pathlib.Path(other).read_bytes()
            code, says = self.set_while(path, "big", b"x" * size, lambda: os.replace(other, path))
            self.assertEqual(code, 3, says)
            self.assertIn("the dtype or the shape of tensor big changed while the input was read", says)
            self.assertEqual(path.read_bytes(), expected)

    def test_a_tensor_that_moves_to_another_shard_while_the_input_is_read(self):
        size = 4 << 20
        index = self.folder / "model.safetensors.index.json"
        for shard, tensors in (("one", [("big", "U8", [size], size), ("a", "U8", [1], 1)]), ("two", [("b", "U8", [1], 1)])):
            self.file(f"{shard}.safetensors", file_bytes(tensors))
        index.write_text(json.dumps({"weight_map": {"big": "one.safetensors", "a": "one.safetensors", "b": "two.safetensors"}}))

        def move():
            for shard, tensors in (("one", [("a", "U8", [1], 1)]), ("two", [("big", "U8", [size], size), ("b", "U8", [1], 1)])):
                os.replace(self.file("new", file_bytes(tensors)), self.folder / f"{shard}.safetensors")
            new_index = {"weight_map": {"big": "two.safetensors", "a": "one.safetensors", "b": "two.safetensors"}}
            os.replace(self.file("new", json.dumps(new_index).encode()), index)

        self.assertEqual(self.set_while(index, "big", b"x" * size, move), (0, ""))
        self.assertEqual(run("cat", str(index), "big").stdout, b"x" * size)

    def test_arrays_of_another_type_or_shape(self):
        for name, descr, shape, says in (
                ("m", "<f8", "(2, 3)", "tensor m is <f4 [2, 3], but the array is <f8 [2, 3]"),
                ("m", "<i4", "(2, 3)", "but the array is <i4 [2, 3]"), ("m", ">f4", "(2, 3)", "but the array is >f4 [2, 3]"),
                ("m", "<f4", "(3, 2)", "but the array is <f4 [3, 2]"), ("m", "<f4", "(6,)", "but the array is <f4 [6]"),
                ("b", "<u2", "(2,)", "tensor b is |V2 [2], but the array is <u2 [2]"), ("yes", "|b1", "(1,)", "tensor yes is |b1 []"),
                ("four", "|u1", "(2,)", "tensor four: .npy has no type for F4; use raw bytes instead")):
            self.refuses(2, says, name, self.file("in.npy", npy(descr, shape, bytes(24))))
        self.refuses(2, "is in Fortran order", "m", self.file("in.npy", npy("<f4", "(2, 3)", bytes(24), fortran="True")))
        self.refuses(2, "tensor m has 24 bytes, but the input has 20", "m", self.file("in.npy", npy("<f4", "(2, 3)", bytes(20))))

    def test_damaged_arrays(self):
        for content in (b"", b"\x93NUMPY", b"not an array", npy("<f4", "(2, 3)", b"")[:40], npy("<f4", "(2, 3", bytes(24)),
                        npy("<f4", "(2, 3)", bytes(24), version=9)):
            self.refuses(1, "in.npy: ", "m", self.file("in.npy", content))

    def test_wrong_names_and_paths(self):
        path = self.file("in", bytes(24))
        self.refuses(2, "no tensor 'firs'", "firs", path)
        self.refuses(2, "did you mean 'first'?", "firs", path)
        self.refuses(3, "absent: No such file", "m", str(self.folder / "absent"))
        self.refuses(3, "Is a directory", "m", str(self.folder / "."))
        self.refuses(3, "No such file", "m", path, model=self.folder / "none.safetensors")
        converted = self.folder / "small.bt"
        small = self.file("small.safetensors", file_bytes([("m", "U8", [24], 24)]))
        self.assertEqual(run("convert", small, str(converted)).returncode, 0)
        self.refuses(2, "only tensors of safetensors files", "m", path, model=converted)

    def test_a_model_of_several_files(self):
        shards = self.folder / "shards"
        self.assertEqual(run("split", str(self.model), str(shards), "--max-size", "24B").returncode, 0)
        before = {path: path.read_bytes() for path in shards.iterdir()}
        self.assertGreater(len(before), 3)
        for model in (shards, shards / "model.safetensors.index.json"):
            data = os.urandom(24)
            self.assertEqual(run("set", str(model), "m", self.file("in", data)).returncode, 0)
            different = [path for path in before if path.read_bytes() != before[path]]
            holder = shards / json.loads((shards / "model.safetensors.index.json").read_text())["weight_map"]["m"]
            self.assertEqual(different, [holder])
            self.assertEqual(run("cat", str(model), "m").stdout, data)

    def test_a_link_is_followed(self):
        link = self.folder / "link.safetensors"
        link.symlink_to("model.safetensors")
        self.assertEqual(run("set", str(link), "first", self.file("in", b"abc")).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.model.read_bytes(), self.changed("first", b"abc"))


if __name__ == "__main__":
    unittest.main()
