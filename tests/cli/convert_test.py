"""Tests `safetensors convert`, there and back over the whole corpus, and `safetensors hash`.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from sample import COMMAND, file_bytes, open_terminal, run

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "conformance"
WORKED = CORPUS / "bintensors"
LACKING = ("C64", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4")


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_convert_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return str(self.folder / name)

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return self.path(name)

    def content(self, name):
        return (self.folder / name).read_bytes()

    def convert(self, *arguments):
        result = run("convert", "--replace", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
        return result.stdout

    def refused(self, code, *arguments):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, b""), arguments)
        self.assertRegex(result.stderr.decode(), r"\Asafetensors: [^\n]+\n\Z")
        return result.stderr.decode()


class Convert(Case):
    def test_the_worked_example(self):
        for name in ("worked_two_tensors.safetensors", "worked_two_tensors.bt", "worked_two_tensors_alpha.bt"):
            self.convert(str(WORKED / name), self.path("a.bt"))
            self.assertEqual(self.content("a.bt"), (WORKED / "worked_two_tensors.bt").read_bytes())
            self.convert(str(WORKED / name), self.path("a.safetensors"))
            self.assertEqual(self.content("a.safetensors"), (WORKED / "worked_two_tensors.safetensors").read_bytes())

    def test_a_model_keeps_the_metadata_of_all_its_shards(self):
        """As merge does: the first value of a key, and no total_size of the index."""
        self.file("model-00001-of-00002.safetensors", file_bytes([("a", "U8", [1], 1)], {"format": "pt", "both": "1"}))
        self.file("model-00002-of-00002.safetensors", file_bytes([("b", "U8", [1], 1)], {"head": "b", "both": "2"}))
        index = {"metadata": {"total_size": 2}, "weight_map": {name: f"model-0000{i}-of-00002.safetensors"
                                                                for i, name in enumerate("ab", 1)}}
        self.file("model.safetensors.index.json", json.dumps(index).encode())
        for model in ("", "model.safetensors.index.json"):
            with self.subTest(model):
                result = run("convert", self.path(model), self.path("one.bt"), "--to", "bintensors")
                self.assertEqual((result.returncode, result.stdout), (0, b""))
                self.assertRegex(result.stderr, rb"\Asafetensors: note: [^\n]* metadata key both; [^\n]*\n\Z")
                shown = json.loads(run("show", self.path("one.bt"), "--json").stdout)
                self.assertEqual(shown["metadata"], {"format": "pt", "both": "1", "head": "b"})
                os.remove(self.path("one.bt"))

    def test_there_and_back_is_the_same_file(self):
        """Converts every file of the corpus, in the form that the reference's writer produces."""
        same = plain = refused = 0
        for path in sorted([*(CORPUS / "files").iterdir(), *(CORPUS / "writer").glob("*.safetensors")]):
            if path.stat().st_size > 200_000 or run("show", str(path), "--json").returncode != 0:
                continue
            self.convert(str(path), self.path("plain.safetensors"))
            result = run("convert", self.path("plain.safetensors"), self.path("there.bt"), "--replace")
            if result.returncode != 0:
                self.assertRegex(result.stderr.decode(), f"has no dtype ({'|'.join(LACKING)}) ", path.name)
                self.assertFalse((self.folder / "there.bt").exists(), path.name)
                refused += 1
                continue
            self.convert(self.path("there.bt"), self.path("back.safetensors"))
            self.assertEqual(self.content("back.safetensors"), self.content("plain.safetensors"), path.name)
            plain += 1
            same += self.content("plain.safetensors") == path.read_bytes()
            os.remove(self.path("there.bt"))
        print(f"{plain} files there and back unchanged, {same} of them as they lie in the corpus; {refused} refused for a dtype")
        self.assertGreater(same, 5)
        self.assertGreater(plain, 50)
        self.assertGreater(refused, 5)

    def test_no_metadata_and_an_empty_map_are_not_the_same(self):
        for metadata in (None, {}, {"k": "v"}):
            before = file_bytes([("a", "F32", [1], 4)], metadata)
            self.convert(self.file("a.safetensors", before), self.path("a.bt"))
            self.assertEqual(self.content("a.bt")[8], metadata is not None)
            self.convert(self.path("a.bt"), self.path("b.safetensors"))
            self.assertEqual(self.content("b.safetensors"), before)

    def test_what_cannot_be_carried_is_refused_by_name(self):
        path = self.file("c.safetensors", file_bytes([("spectrum", "C64", [1], 8)]))
        kept = self.file("kept.bt", b"old")
        self.assertIn("tensor 'spectrum': bintensors has no dtype C64", self.refused(2, "convert", path, kept, "--replace"))
        self.assertEqual(self.content("kept.bt"), b"old")
        header = b"\0\1\x0c__metadata__\1\1\1\0\1" + b" " * 3
        path = self.file("m.bt", len(header).to_bytes(8, "little") + header + b"x")
        self.assertIn("'__metadata__'", self.refused(2, "convert", path, self.path("m.safetensors")))
        self.assertFalse((self.folder / "m.safetensors").exists())

    def test_the_format_is_that_of_the_extension_or_as_said(self):
        path = self.file("a.safetensors", file_bytes([("a", "F32", [1], 4)], None))
        for name, options, first in (("a.bintensors", (), 0), ("A.BT", (), 0), ("a.bin", ("--to", "bintensors"), 0),
                                     ("b.bt", ("--to", "safetensors"), ord("{"))):
            self.convert(path, self.path(name), *options)
            self.assertEqual(self.content(name)[8], first, name)
        self.assertIn("--to", self.refused(2, "convert", path, self.path("a.bin")))
        self.refused(2, "convert", path, self.path("a.bt"), "--to", "gguf")
        self.assertEqual(self.convert(path, "-", "--to", "safetensors"), pathlib.Path(path).read_bytes())

    def test_a_file_over_itself(self):
        path = self.file("a.bt", (WORKED / "worked_two_tensors_alpha.bt").read_bytes())
        self.convert(path, path)
        self.assertEqual(self.content("a.bt"), (WORKED / "worked_two_tensors.bt").read_bytes())

    def test_no_replace(self):
        path = self.file("a.safetensors", file_bytes([("a", "F32", [1], 4)]))
        self.assertEqual(run("convert", path, self.path("a.bt"), "--no-replace").returncode, 0)
        self.refused(3, "convert", path, self.path("a.bt"), "--no-replace")

    def test_a_dry_run_prints_and_writes_nothing(self):
        path = self.file("a.safetensors", file_bytes([("b", "F32", [2, 3], 24), ("a", "U8", [1], 1)], {"k": "v"}))
        out = self.path("a.bt")
        printed = self.convert(path, out, "--dry-run").decode()
        self.assertEqual(printed, f"{out}: 2 tensors, 25 B\n  F32  [2, 3]  24 B  b\n  U8  [1]  1 B  a\n  metadata  k: v\n")
        path = self.file("c.safetensors", file_bytes([("spectrum", "C64", [1], 8)]))
        self.assertIn("bintensors has no dtype C64", self.refused(2, "convert", path, out, "--dry-run"))
        self.assertIn("--key: only torch", self.refused(2, "convert", path, self.path("b.safetensors"), "--key", "model"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.safetensors", "c.safetensors"])

    def test_bad_and_absent_files(self):
        line = self.refused(1, "convert", str(WORKED / "bad_hole.bt"), self.path("a.safetensors"))
        self.assertIn("bad_hole.bt", line)
        self.refused(3, "convert", self.path("absent.bt"), self.path("a.safetensors"))
        self.assertEqual(os.listdir(self.folder), [])


class Hash(Case):
    def hash(self, *arguments):
        result = run("hash", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout.decode()

    def test_a_file_is_digested_whole(self):
        content = file_bytes([("a", "U8", [3_000_001], 3_000_001)])
        path = self.file("a.safetensors", content)
        self.assertEqual(self.hash(path), f"{hashlib.sha256(content).hexdigest()}  {path}\n")
        self.assertEqual(self.hash("--sha256", path), self.hash(path))
        self.assertEqual(self.hash("--sha1", path), f"{hashlib.sha1(content).hexdigest()}  {path}\n")

    def test_of_the_older_layout_the_data_alone(self):
        paths = [str(WORKED / name) for name in ("worked_two_tensors.bt", "worked_two_tensors_alpha.bt")]
        current, older = (pathlib.Path(path).read_bytes() for path in paths)
        lines = self.hash(*paths).splitlines()
        self.assertEqual(lines[0].split()[0], hashlib.sha256(current).hexdigest())
        self.assertEqual(lines[1].split()[0], hashlib.sha256(older[-1216:]).hexdigest())

    @unittest.skipUnless(shutil.which("sha256sum"), "needs sha256sum")
    def test_sha256sum_reads_every_name(self):
        content = file_bytes([("a", "U8", [1], 1)])
        for name in ("tab\there", "line\nbreak", "back\\slash", "\\n", "return\r", "\x1b[31mred", " edge ", "漢字\u0085\u2028", "\udcff"):
            path = self.folder / name
            path.write_bytes(content)
            listed = run("hash", str(path)).stdout
            theirs = subprocess.run(["sha256sum", str(path)], capture_output=True).stdout
            if b"\r" in theirs:
                continue  # coreutils before 9 leave it as it is
            self.assertEqual(listed, theirs)
            checked = subprocess.run(["sha256sum", "-c", "--strict"], input=listed, capture_output=True)
            self.assertEqual(checked.returncode, 0, (name, listed, checked.stderr))

    def test_no_name_acts_on_a_terminal(self):
        path = self.file("\x1b[31m\u202e", file_bytes([("a", "U8", [1], 1)]))
        parent, child = open_terminal()
        subprocess.run([COMMAND, "hash", path], stdout=child, check=True)
        os.close(child)
        self.assertIn(rb"\u001b[31m\u202e", os.read(parent, 65536))
        os.close(parent)

    def test_a_bad_file_does_not_keep_the_next_from_its_turn(self):
        good = self.file("good.safetensors", file_bytes([("a", "U8", [1], 1)]))
        bad = self.file("bad.safetensors", b"{")
        line = self.hash(good)
        for paths, code in (((bad, good), 1), ((good, bad, good), 1), ((self.path("absent"), good), 3), ((bad, self.path("absent"), good, bad), 3)):
            result = run("hash", *paths)
            self.assertEqual(result.returncode, code)
            self.assertEqual(result.stdout.decode(), line * paths.count(good))
            self.assertEqual(result.stderr.count(b"\n"), len(paths) - paths.count(good))

    def test_the_content_is_what_follows_the_header(self):
        """AutoV3: the digest of all bytes after 8 + length of the header. Edits of the metadata do not change it."""
        data = bytes(range(256)) * 20_000
        path = self.file("a.safetensors", file_bytes([("a", "U8", [len(data)], len(data))], {"format": "pt"}, data))
        sha256, sha1 = hashlib.sha256(data).hexdigest(), hashlib.sha1(data).hexdigest()
        wholes = set()
        for change in ([], ["set", "k=short"], ["set", "k=" + "long" * 5000], ["set", "modelspec.hash_sha256=0x" + sha256], ["rm", "k"]):
            if change:
                self.assertEqual(run("meta", path, *change).returncode, 0)
            self.assertEqual(self.hash("--content", path), f"{sha256}  {path}\n", change)
            self.assertEqual(self.hash("--content", "--sha1", path), f"{sha1}  {path}\n", change)
            wholes.add(self.hash(path))
        self.assertEqual(len(wholes), 5)
        for name in ("worked_two_tensors.bt", "worked_two_tensors_alpha.bt", "worked_two_tensors.safetensors"):
            content = (WORKED / name).read_bytes()
            begin = 8 + int.from_bytes(content[:8], "little")
            self.assertEqual(self.hash("--content", str(WORKED / name)).split()[0], hashlib.sha256(content[begin:]).hexdigest())

    def test_the_content_of_each_shard(self):
        shards = [("model-00001-of-00002.safetensors", "a", b"1"), ("model-00002-of-00002.safetensors", "b", b"2")]
        for name, tensor, data in shards:
            self.file(name, file_bytes([(tensor, "U8", [1], 1)], None, data))
        index = {"weight_map": {tensor: name for name, tensor, _ in shards}}
        self.file("model.safetensors.index.json", json.dumps(index).encode())
        self.assertEqual([line.split()[0] for line in self.hash("--content", str(self.folder)).splitlines()],
                         [hashlib.sha256(data).hexdigest() for _, _, data in shards])
        digest = hashlib.sha256(b"1").hexdigest()
        self.assertIn("not a model of 2 shards", self.refused(2, "verify", "--content", digest, str(self.folder)))
        self.assertEqual(run("verify", "--content", digest, self.path(shards[0][0])).returncode, 0)

    def test_of_a_broken_file_there_is_none(self):
        self.refused(1, "hash", str(WORKED / "bad_missing_tail.bt"))
        self.refused(3, "hash", self.path("absent"))
        self.refused(2, "hash", "--sha1", "--sha256", str(WORKED / "worked_two_tensors.bt"))


if __name__ == "__main__":
    unittest.main()
