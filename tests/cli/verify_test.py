"""Tests the output and exit codes of `verify`, `diff` and `stats`.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import math
import os
import pathlib
import resource
import shutil
import struct
import tempfile
import unittest

from sample import file_bytes, run

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "conformance" / "files"
NAN, INF = math.nan, math.inf


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_verify_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return str(self.folder / name)

    def file(self, name, tensors, metadata=None, data=None):
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(file_bytes(tensors, metadata, data))
        return self.path(name)

    def floats(self, name, values, metadata=None):
        return self.file(name, [("w", "F32", [len(values)], 4 * len(values))], metadata, struct.pack(f"<{len(values)}f", *values))

    def ends(self, code, *arguments):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stderr), (code, b""), (arguments, result.stdout))
        return result.stdout.decode().replace(str(self.folder) + "/", "").splitlines()


class Verify(Case):
    def test_the_exit_code_is_that_of_opening(self):
        """For every file of the corpus, the first error is the error of opening it."""
        refused = 0
        for path in sorted([*CORPUS.iterdir(), *(CORPUS.parent / "bintensors").iterdir()]):
            if path.stat().st_size > 500_000:
                continue
            opened, checked = run("show", str(path), "--json"), run("verify", str(path))
            self.assertEqual(checked.returncode, opened.returncode, path.name)
            self.assertEqual(b": error: " in checked.stdout, opened.returncode != 0, path.name)
            self.assertEqual(checked.stdout.endswith(b"\n"), True)
            if opened.returncode:
                refused += 1
                status = opened.stderr.decode().rstrip(")\n").split()[-1].lstrip("(")
                self.assertIn(status, checked.stdout.decode().splitlines()[0], path.name)
        self.assertGreater(refused, 100)

    def test_all_faults_of_a_file(self):
        header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
                             "b": {"dtype": "X8", "shape": [1], "data_offsets": [6, 7]}}).encode()
        (self.folder / "bad.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(10))
        lines = self.ends(1, "verify", self.path("bad.safetensors"))
        self.assertEqual(len(lines), 4)
        self.assertIn("dtype 'X8' is unknown", lines[0])
        self.assertEqual(lines[1], "bad.safetensors: error: tensor 'a': F32 [2] needs 8 bytes, but offsets 0..4 span 4 "
                                   f"(byte {len(header) + 8}, ST_ERR_TENSOR_SIZE)")
        self.assertIn("leave a hole", lines[2])
        self.assertIn("3 more bytes", lines[3])
        rows = [json.loads(line) for line in self.ends(1, "verify", "--json", self.path("bad.safetensors"))]
        self.assertEqual([row.get("tensor") for row in rows], ["b", "a", "b", None])
        self.assertEqual(rows[1]["status"], "ST_ERR_TENSOR_SIZE")

    def write(self, name, header, data):
        with open(self.path(name), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + bytes(data))
        return self.path(name)

    def test_every_fault_of_a_bintensors_file(self):
        path = self.write("bad.bt", b"\0\3\1a\x10\1\1\0\1\1b\1\1\2\2\4\1b\1\1\1\4\5", 9)
        rows = [json.loads(line) for line in self.ends(1, "verify", "--json", path)]
        self.assertEqual([(row["status"], row.get("tensor")) for row in rows],
                         [("ST_ERR_DTYPE", "a"), ("ST_ERR_DUPLICATE", "b"), ("ST_ERR_OFFSETS", "b"), ("ST_ERR_COVERAGE", None)])
        path = self.write("gzip.bt", (b"\0\3" + b"\xff" * (0x88b1f - 2)), 8)
        self.assertEqual([json.loads(line)["status"] for line in self.ends(1, "verify", "--json", path)], ["ST_ERR_FORMAT"])

    def test_all_that_strict_rules_refuse_is_noted(self):
        path = self.write("odd.safetensors", b'    {"__metadata__":null}', 0)
        text = "\n".join(self.ends(0, "verify", path))
        self.assertIn("begins with white space", text)
        self.assertIn("__metadata__ is not an object", text)
        path = self.write("odd.bt", b"\1\2\1k\1v\1k\1w\1\1a\1\1\4\0\4-", 4)
        text = "\n".join(self.ends(0, "verify", path))
        self.assertIn("metadata key 'k' occurs twice", text)
        self.assertIn("not padded with spaces", text)

    def test_notes_and_strict(self):
        path = self.file("odd.safetensors", [("a", "U8", [1], 1), ("b", "F32", [1], 4)])
        lines = self.ends(0, "verify", path)
        self.assertIn("odd.safetensors: note: tensor ", lines[0])
        self.assertIn("not in the order of the reference's writer", lines[1])
        self.assertIn("odd.safetensors: valid, 2 tensors", lines[2])
        self.ends(1, "verify", "--strict", path)

    def test_index_and_shards_both_ways(self):
        self.file("m/a.safetensors", [("x", "U8", [1], 1), ("y", "U8", [1], 1)])
        self.file("m/b.safetensors", [("y", "U8", [1], 1)])
        index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "b.safetensors", "q": "c.safetensors"}}
        (self.folder / "m/model.safetensors.index.json").write_text(json.dumps(index))
        text = "\n".join(self.ends(3, "verify", self.path("m")))
        self.assertIn("shard 'c.safetensors' is missing", text)
        self.assertIn("tensor 'y' is in two shards", text)
        self.assertIn("tensor 'z' is not in its shard 'b.safetensors'", text)
        self.assertIn("note: tensor 'y' is not listed in the index", text)

    def test_the_index_of_a_variant(self):
        self.file("m/model.fp16-00001-of-00001.safetensors", [("x", "U8", [1], 1)])
        index = self.folder / "m/model.safetensors.index.fp16.json"
        index.write_text(json.dumps({"weight_map": {"x": "model.fp16-00001-of-00001.safetensors"}}))
        self.assertIn("valid, 1 tensor", self.ends(0, "verify", index)[-1])

    def test_findings_are_bounded(self):
        """A file of a few megabytes can contain a million errors."""
        header = ("{" + ",".join(f'"{i}":0' for i in range(300_000)) + "}").encode()
        (self.folder / "bad.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
        lines = self.ends(1, "verify", self.path("bad.safetensors"))
        self.assertEqual(len(lines), 1001)
        self.assertIn("more than 1000 findings; the rest is omitted", lines[-1])
        self.file("m/a.safetensors", [("x", "U8", [1], 1)])
        index = {"weight_map": {"x": "a.safetensors", **{f"t{i}": "a.safetensors" for i in range(5000)}}}
        (self.folder / "m/model.safetensors.index.json").write_text(json.dumps(index))
        lines = self.ends(1, "verify", self.path("m"))
        self.assertEqual(len(lines), 1001)
        self.assertIn("more than 1000 findings", lines[-1])

    def test_notes_hide_no_error(self):
        """A file with 1499 notes about a metadata key, and one error: its tensor is also in the other shard."""
        pairs = b"\1\xfb" + (1500).to_bytes(2, "little") + b"\1k\1v" * 1500
        self.file("m/model-00001-of-00002.safetensors", [("x", "U8", [1], 1)])
        self.write("m/model-00002-of-00002.safetensors", pairs + b"\1\1x\1\1\1\0\1", 1)
        rows = [json.loads(line) for line in self.ends(1, "verify", "--json", self.path("m"))]
        self.assertEqual([(row["kind"], row["tensor"]) for row in rows if row["kind"] == "error"], [("error", "x")])
        self.assertEqual(len(rows), 1002)

    def test_more_shards_than_may_be_open(self):
        index = {"weight_map": {f"t{i}": f"{i}.safetensors" for i in range(200)}}
        for i in range(200):
            self.file(f"m/{i}.safetensors", [(f"t{i}", "U8", [8], 8)])
        (self.folder / "m/model.safetensors.index.json").write_text(json.dumps(index))
        result = run("verify", self.path("m"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        self.assertEqual(result.stdout.count(b": error: "), 0)
        self.assertEqual(result.returncode, 0)

    def test_values(self):
        path = self.floats("w.safetensors", [1, NAN, INF, -INF, 1e-40, 0])
        self.assertEqual(len(self.ends(0, "verify", path)), 1)
        lines = self.ends(5, "verify", "--values", path)
        self.assertEqual(lines[0], "w.safetensors: values: tensor w: 1 NaN, 2 infinite, 1 denormal of 6")
        self.assertEqual(len(self.ends(0, "verify", "--values", self.floats("d.safetensors", [1e-40, -2]))), 2)

    def test_digests(self):
        path = self.floats("w.safetensors", [1, 2])
        digest = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        sums = self.folder / "SHA256SUMS"
        for text, code, words in [(f"{digest}  w.safetensors\n", 0, "valid"), (f"{digest.upper()} *w.safetensors\n", 0, "valid"),
                                  (f"{'0' * 64}  w.safetensors\n", 1, f"has the digest {digest}, expected 000"),
                                  (f"{digest}  w.safetensors\n{'0' * 64}  w.safetensors\n", 1, "expected 000"),
                                  (f"{digest}  w.safetensors\n" * 2, 0, "valid"),
                                  (f"{digest}  other.safetensors\n", 1, "is not listed in")]:
            sums.write_text(text)
            self.assertIn(words, self.ends(code, "verify", path, "--against", str(sums))[0])
        # sha256sum was run in the folder below. Its first line must not count for the file below.
        other = self.folder / "a/w.safetensors"
        other.parent.mkdir()
        other.write_bytes(pathlib.Path(self.floats("v.safetensors", [3])).read_bytes())
        below = hashlib.sha256(other.read_bytes()).hexdigest()
        (self.folder / "a/SUMS").write_text(f"{digest}  ../w.safetensors\n{below}  w.safetensors\n")
        result = run("verify", "w.safetensors", "a/w.safetensors", "--against", "a/SUMS", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stdout)
        sums.write_text("nonsense\n")
        self.assertEqual(run("verify", path, "--against", str(sums)).returncode, 2)
        for unreadable in (self.path("absent"), str(self.folder)):
            result = run("verify", path, "--against", unreadable)
            self.assertEqual((result.returncode, result.stdout), (3, b""), result.stderr)
        self.assertEqual(run("verify", path, "--against", "").returncode, 3)  # an unset variable of the shell

    def test_the_digest_of_an_index(self):
        self.file("m/a.safetensors", [("x", "U8", [1], 1)])
        index = self.folder / "m/model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"x": "a.safetensors"}}))
        sums = self.folder / "m/SUMS"
        lines = [f"{hashlib.sha256((self.folder / 'm' / name).read_bytes()).hexdigest()}  {name}\n" for name in ("a.safetensors", index.name)]
        for path in self.path("m"), str(index):
            sums.write_text("".join(lines))
            self.ends(0, "verify", path, "--against", str(sums))
            sums.write_text(f"{lines[0]}{'0' * 64}  {index.name}\n")
            self.assertIn("index.json: error: has the digest", self.ends(1, "verify", path, "--against", str(sums))[0])
            sums.write_text(lines[0])
            self.ends(0, "verify", path, "--against", str(sums))

    def test_the_digest_of_the_content(self):
        path = self.floats("w.safetensors", [1, 2])
        data = struct.pack("<2f", 1, 2)
        sha256, sha1 = hashlib.sha256(data).hexdigest(), hashlib.sha1(data).hexdigest()
        for change in ([], ["set", "k=short"], ["set", "k=" + "long" * 5000]):
            run("meta", path, *change)
            for digest in (sha256, sha256.upper(), "0x" + sha256, "0X" + sha256, sha256[:12], sha256[:12].upper(), sha1):
                self.assertEqual(len(self.ends(0, "verify", path, "--content", digest)), 1)
            for digest in ("0" * 64, "0" * 12):
                self.assertEqual(self.ends(1, "verify", path, "--content", digest),
                                 [f"w.safetensors: error: has the content digest {sha256}, expected {digest}"])
            self.assertEqual(self.ends(1, "verify", "--content", "F" * 40, path),
                             [f"w.safetensors: error: has the content digest {sha1}, expected {'f' * 40}"])
        row, = map(json.loads, self.ends(1, "verify", "--json", path, "--content", "0" * 64))
        self.assertEqual((row["path"].rpartition("/")[2], row["kind"]), ("w.safetensors", "error"))
        self.assertIn(sha256, row["message"])

    def test_what_is_no_digest_of_one_file(self):
        path = self.floats("w.safetensors", [1])
        digest = hashlib.sha256(struct.pack("<f", 1)).hexdigest()
        for given in ("", "0x", digest[:-1], digest + "0", "g" * 64, digest[:11], "model.safetensors"):
            result = run("verify", path, "--content", given)
            self.assertEqual((result.returncode, result.stdout), (2, b""), given)
            self.assertIn(b"is not a digest: expected 64, 40 or 12 hexadecimal digits", result.stderr)
        result = run("verify", path, path, "--content", digest)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (2, b"", b"safetensors: --content expects one file, not 2\n"))
        self.assertEqual(run("verify", self.path("absent"), "--content", digest).returncode, 3)
        (self.folder / "bad.safetensors").write_bytes(b"\2" + bytes(7) + b"[]")
        self.ends(1, "verify", self.path("bad.safetensors"), "--content", digest)

    def test_the_files_after_a_bad_one(self):
        good = self.floats("good.safetensors", [1])
        result = run("verify", self.path("absent"), good)
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr.decode(), r"\Asafetensors: [^\n]*absent[^\n]+\n\Z")
        self.assertIn(b"good.safetensors: valid", result.stdout)


    def test_the_code_of_the_worst_file(self):
        odd = self.floats("nan.safetensors", [NAN])
        (self.folder / "bad.safetensors").write_bytes(b"\2" + bytes(7) + b"[]")
        self.ends(1, "verify", "--values", self.path("bad.safetensors"), odd)
        self.ends(1, "verify", "--values", odd, self.path("bad.safetensors"))
        self.assertEqual(run("verify", "--values", odd, self.path("absent"), self.path("bad.safetensors")).returncode, 3)

    def test_what_strict_refuses_is_not_called_valid(self):
        path = self.file("odd.safetensors", [("a", "U8", [1], 1), ("b", "F32", [1], 4)], None, b"\0" + struct.pack("<f", NAN))
        lines = self.ends(1, "verify", "--strict", "--values", path)
        self.assertNotIn(": valid", "\n".join(lines))
        self.assertIn("1 NaN", lines[-1])

    def test_the_digest_of_an_older_bintensors(self):
        path = CORPUS.parent / "bintensors" / "worked_two_tensors_alpha.bt"
        for line in (run("hash", str(path)).stdout, f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}\n".encode()):
            (self.folder / "SUMS").write_bytes(line.replace(b"\n", b"\r\n"))
            self.assertEqual(len(self.ends(0, "verify", str(path), "--against", self.path("SUMS"))), 1)


    def test_the_json_of_a_file_that_is_not_there(self):
        good = self.floats("good.safetensors", [1])
        rows = [json.loads(line) for line in self.ends(3, "verify", "--json", self.path("none"), good, self.path("no/ne"))]
        self.assertEqual([(row["path"], row["kind"], row["status"]) for row in rows],
                         [("none", "error", "ST_ERR_OPEN"), ("no/ne", "error", "ST_ERR_OPEN")])
        self.assertIn("No such file", rows[0]["message"])


class Diff(Case):
    def test_metadata_of_every_shard(self):
        for name, value in (("a", "1"), ("b", "2")):
            self.file(f"{name}/x.safetensors", [("x", "U8", [1], 1)], {"k": "1", "same": "s"})
            self.file(f"{name}/y.safetensors", [("y", "U8", [1], 1)], {"k": value, "same": "s", "other": value})
            index = {"weight_map": {"x": "x.safetensors", "y": "y.safetensors"}}
            (self.folder / name / "model.safetensors.index.json").write_text(json.dumps(index))
        self.assertEqual(self.ends(5, "diff", self.path("a"), self.path("b")),
                         ["~ metadata k: 1 -> 1 | 2", "~ metadata other: 1 -> 2"])
        for first, second in (("2", "1"), ("1", "1 | 2")):
            self.file("c/x.safetensors", [("x", "U8", [1], 1)], {"k": first, "same": "s"})
            self.file("c/y.safetensors", [("y", "U8", [1], 1)], {"k": second, "same": "s", "other": "2"})
            (self.folder / "c/model.safetensors.index.json").write_text(json.dumps(index))
            self.ends(0 if first == "2" else 5, "diff", self.path("b"), self.path("c"))
        result = run("merge", self.path("b"), self.path("one.safetensors"))
        self.assertEqual(result.stderr.decode(),
                         "safetensors: note: shards have different values for metadata key k; the first one is kept\n")
        self.assertEqual(json.loads(run("meta", self.path("one.safetensors"), "--json").stdout), {"k": "1", "same": "s", "other": "2"})

    def test_a_filter_that_no_name_fits(self):
        path = self.floats("w.safetensors", [1])
        other = self.file("v.safetensors", [("v", "U8", [1], 1)])
        for arguments in (("diff", path, path), ("stats", path), ("cast", path, self.path("o.safetensors"), "--to", "f16")):
            result = run(*arguments, "--filter", "x*")
            self.assertEqual((result.returncode, result.stdout), (2, b""), arguments)
            self.assertIn(b"no tensor matches --filter", result.stderr)
        self.assertIn(b"did you mean 'w'?", run("stats", path, "--filter", "W").stderr)
        self.ends(5, "diff", path, other, "--filter", "v")

    def test_excluded_tensors(self):
        a = self.file("a.safetensors", [("a.w", "F32", [1], 4), ("b.w", "F32", [1], 4), ("b.bias", "F32", [1], 4)], data=bytes(12))
        b = self.file("b.safetensors", [("a.w", "F32", [1], 4), ("b.w", "F32", [1], 4), ("c", "F32", [1], 4)], data=b"\1" * 12)
        out = self.path("out.safetensors")
        def names(path, *options):
            return [tensor["name"] for tensor in json.loads(run("show", path, "--json", *options).stdout)["tensors"]]
        self.assertEqual(names(a, "--exclude", "a*"), ["b.w", "b.bias"])
        self.assertEqual(names(a, "--filter", "*.w", "--exclude", "a*", "--exclude", "z"), ["b.w"])
        self.assertEqual([line[:5] for line in self.ends(5, "diff", a, b, "--exclude", "b*")], ["+ c  ", "~ a.w"])
        rows = self.ends(0, "stats", a, "--json", "--exclude", "*bias")
        self.assertEqual([json.loads(row)["name"] for row in rows], ["a.w", "b.w"])
        self.ends(0, "extract", a, "--exclude", "a*", out)
        self.assertEqual(sorted(names(out)), ["b.bias", "b.w"])
        os.unlink(out)
        self.ends(0, "cast", a, out, "--to", "f16", "--exclude", "b*")
        self.assertEqual([tensor["dtype"] for tensor in json.loads(run("show", out, "--json", "--sort", "name").stdout)["tensors"]],
                         ["F16", "F32", "F32"])
        os.unlink(out)
        self.ends(0, "rename", a, "w", "weight", out, "--exclude", "a*")
        self.assertEqual(sorted(names(out)), ["a.w", "b.bias", "b.weight"])
        result = run("stats", a, "--exclude", "*")
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertIn(b"--filter and --exclude leave no tensors", result.stderr)
        self.assertIn(b"--exclude [a: ", run("stats", a, "--exclude", "[a").stderr)

    def test_values_within_a_tolerance(self):
        a = self.floats("a.safetensors", [100, 1, NAN, INF, -INF, 0])
        b = self.floats("b.safetensors", [101, 1, NAN, INF, -INF, 1e-9])
        for options, differ in ((["--rtol", "0.01"], 1), (["--atol", "1"], 0), (["--rtol=0.01", "--atol=1e-8"], 0),
                                (["--rtol", "0.009"], 2), (["--rtol", "0"], 2), (["--atol", "0.5"], 1)):
            lines = self.ends(5 if differ else 0, "diff", a, b, *options)
            self.assertEqual(lines[:1], [f"~ w  {differ} of 6 values differ, " + lines[0].split("differ, ")[1]] if differ else [], options)
        # The tolerance is relative to B, and infinity is not close to any number.
        self.ends(0, "diff", self.floats("c", [100]), self.floats("d", [200]), "--rtol", "0.5")
        self.ends(5, "diff", self.path("d"), self.path("c"), "--rtol", "0.5")
        for values in ([1], [-INF], [NAN]):
            self.ends(5, "diff", self.floats("e", values), self.floats("f", [INF]), "--rtol", "1e300", "--atol", "1e300")
            self.ends(5, "diff", self.path("f"), self.path("e"), "--rtol", "1e300", "--atol", "1e300")
        for bad in ("x", "-1", "nan", "inf", "1e", "1 "):
            self.assertEqual(run("diff", a, b, f"--rtol={bad}").returncode, 2, bad)
        self.assertEqual(run("diff", a, b, "--rtol", "1", "--headers").returncode, 2)

    def test_differences_as_json(self):
        a = self.file("a.safetensors", [("same", "U8", [1], 1), ("bytes", "U8", [3], 3), ("gone", "F16", [2, 1], 4), ("w", "F32", [2], 8)],
                      {"k": "1", "old": "o"}, b"\0" + b"abc" + bytes(4) + struct.pack("<2f", 1, 2))
        b = self.file("b.safetensors", [("same", "U8", [1], 1), ("bytes", "U8", [3], 3), ("new\n", "U8", [], 1), ("w", "F32", [2], 8)],
                      {"k": "2", "new": "n"}, b"\0" + b"axc" + b"\0" + struct.pack("<2f", 1, INF))
        rows = [json.loads(line) for line in self.ends(5, "diff", a, b, "--json", "--values")]
        self.assertEqual(rows, [
            {"kind": "metadata", "name": "k", "a": "1", "b": "2"}, {"kind": "metadata", "name": "old", "a": "o"},
            {"kind": "metadata", "name": "new", "b": "n"}, {"kind": "tensor", "name": "gone", "a": {"dtype": "F16", "shape": [2, 1]}},
            {"kind": "tensor", "name": "new\n", "b": {"dtype": "U8", "shape": []}},
            {"kind": "bytes", "name": "bytes", "different": 1, "bytes": 3, "first": 1},
            {"kind": "values", "name": "w", "different": 1, "values": 2, "nan": 0, "absolute": None, "relative": 1.0}])
        wide = self.file("c.safetensors", [("same", "I8", [1], 1)])
        row = json.loads(self.ends(5, "diff", a, wide, "--json", "--filter", "same")[-1])
        self.assertEqual(row, {"kind": "tensor", "name": "same", "a": {"dtype": "U8", "shape": [1]}, "b": {"dtype": "I8", "shape": [1]}})
        self.assertEqual(self.ends(0, "diff", a, a, "--json"), [])

    def test_nothing_between_formats_and_shards(self):
        path = self.file("m.safetensors", [("a", "F32", [4], 16), ("b", "I64", [2], 16)], {"format": "pt"}, os.urandom(32))
        run("convert", path, self.path("m.bt"))
        run("split", path, self.path("s"), "--max-size", "16B")
        for other in (path, self.path("m.bt"), self.path("s"), self.path("s/m.safetensors.index.json")):
            self.assertEqual(self.ends(0, "diff", path, other), [])
            self.assertEqual(self.ends(0, "diff", other, path, "--values"), [])

    def test_every_kind_of_difference(self):
        a = self.file("a.safetensors", [("s", "F32", [2], 8), ("t", "F32", [2, 1], 8), ("gone", "U8", [1], 1), ("z", "U8", [3], 3)],
                      {"k": "1", "old": "x"}, bytes(17) + b"abc")
        b = self.file("b.safetensors", [("s", "F16", [2], 4), ("t", "F32", [2], 8), ("new", "U8", [1], 1), ("z", "U8", [3], 3)],
                      {"k": "2", "n": "y"}, bytes(13) + b"axx")
        self.assertEqual(self.ends(5, "diff", a, b), [
            "~ metadata k: 1 -> 2", "- metadata old: x", "+ metadata n: y", "~ s  F32 [2] -> F16 [2]", "~ t  F32 [2, 1] -> F32 [2]",
            "- gone  U8 [1]", "+ new  U8 [1]", "~ z  2 of 3 bytes differ, the first at 1"])
        self.assertEqual(self.ends(0, "diff", a, a, "--headers"), [])
        self.assertEqual(len(self.ends(5, "diff", a, b, "--filter", "[sz]")), 5)
        self.assertEqual(run("diff", a, self.path("absent")).returncode, 3)

    def test_values_of_floats(self):
        a = self.floats("a.safetensors", [1.0, 2.0, NAN, 0.0, NAN, 8.0])
        b = self.floats("b.safetensors", [1.0, 2.5, NAN, -0.0, 3.0, 8.0])
        self.assertEqual(self.ends(5, "diff", a, b, "--values"),
                         ["~ w  2 of 6 values differ, by at most 0.5 (relative 0.2), 1 of them NaN in only one tensor"])
        run("cast", a, self.path("c.safetensors"), "--to", "bf16")
        self.assertEqual(self.ends(5, "diff", a, self.path("c.safetensors"), "--values"), ["~ w  F32 [6] -> BF16 [6]"])
        same = self.floats("d.safetensors", [1.0, 2.0, NAN, -0.0, NAN, 8.0])
        self.assertEqual(self.ends(0, "diff", a, same, "--values"), [])

    def test_a_complex_number_is_two_values(self):
        def complex_numbers(name, *values):
            return self.file(name, [("w", "C64", [2], 16)], None, struct.pack("<4f", *values))
        a, same = complex_numbers("a", 0.0, NAN, 1.0, 2.0), complex_numbers("same", -0.0, -NAN, 1.0, 2.0)
        self.assertEqual(self.ends(0, "diff", a, same, "--values"), [])
        other = complex_numbers("other", 0.0, NAN, 1.0, 2.5)
        self.assertEqual(self.ends(5, "diff", a, other, "--values"), ["~ w  1 of 4 values differ, by at most 0.5 (relative 0.2)"])
        self.assertEqual(self.ends(0, "diff", a, other, "--atol", "0.5"), [])
        self.assertEqual(json.loads(self.ends(5, "diff", a, other, "--values", "--json")[0])["values"], 4)


class Stats(Case):
    def rows(self, path, *arguments):
        return [json.loads(line) for line in self.ends(0, "stats", path, "--json", *arguments)]

    def test_floats(self):
        rows = self.rows(self.floats("w.safetensors", [1, -2.5, NAN, INF, 0, -0.0, 1e-40, 4.5]))
        self.assertEqual(len(rows), 1)
        self.assertEqual({key: rows[0][key] for key in ("min", "max", "zeros", "nan", "infinite", "denormal", "count")},
                         {"min": -2.5, "max": 4.5, "zeros": 2, "nan": 1, "infinite": 1, "denormal": 1, "count": 8})
        self.assertAlmostEqual(rows[0]["mean"], 3 / 6)

    def test_every_small_float(self):
        """Compares all values of 8 and 16 bits with their casts to F64."""
        for dtype, bits in [("F8_E4M3", 8), ("F8_E5M2", 8), ("F8_E4M3FNUZ", 8), ("F8_E5M2FNUZ", 8), ("F8_E8M0", 8), ("F16", 16), ("BF16", 16)]:
            data = b"".join(i.to_bytes(bits // 8, "little") for i in range(2**bits))
            path = self.file(f"{dtype}.safetensors", [("w", dtype, [2**bits], len(data))], None, data)
            run("cast", path, self.path("wide.safetensors"), "--to", "f64", "--replace")
            wide = struct.unpack(f"<{2**bits}d", run("cat", self.path("wide.safetensors"), "w").stdout)
            finite = [x for x in wide if math.isfinite(x)]
            row = self.rows(path)[0]
            self.assertEqual((row["min"], row["max"], row["zeros"]), (min(finite), max(finite), sum(x == 0 for x in wide)), dtype)
            self.assertEqual((row["nan"], row["infinite"]), (sum(map(math.isnan, wide)), sum(map(math.isinf, wide))), dtype)
            if dtype != "BF16":  # its positive and negative values cancel
                self.assertAlmostEqual(row["mean"], math.fsum(finite) / len(finite), 6)

    def test_integers_are_exact(self):
        big = [("i", "I64", [2], 16), ("u", "U64", [2], 16), ("b", "BOOL", [3], 3), ("n", "I8", [2], 2), ("e", "F32", [0], 0), ("q", "F4", [2], 1)]
        data = struct.pack("<2q2Q", -2**63, 2**63 - 1, 5, 2**64 - 1) + b"\1\0\1" + b"\xf0\xff" + b"\0"
        rows = {row["name"]: row for row in self.rows(self.file("i.safetensors", big, None, data))}
        self.assertEqual((rows["i"]["min"], rows["i"]["max"]), (-2**63, 2**63 - 1))
        self.assertEqual((rows["u"]["min"], rows["u"]["max"]), (5, 2**64 - 1))
        self.assertEqual((rows["b"]["zeros"], rows["n"]["min"], rows["n"]["max"]), (1, -16, -1))
        self.assertNotIn("min", rows["e"])
        self.assertNotIn("count", rows["q"])

    def test_large_integers_of_one_sign(self):
        tensors = [("n", "I64", [2], 16), ("u", "U64", [2], 16)]
        data = struct.pack("<2q2Q", -2**63 + 1, -2**62 - 1, 2**63 + 1, 2**63 + 3)
        path = self.file("i.safetensors", tensors, None, data)
        rows = {row["name"]: row for row in self.rows(path)}
        self.assertEqual((rows["n"]["min"], rows["n"]["max"]), (-2**63 + 1, -2**62 - 1))
        self.assertEqual((rows["u"]["min"], rows["u"]["max"]), (2**63 + 1, 2**63 + 3))
        self.assertEqual(self.ends(0, "stats", path)[-1].split()[2:4], [str(-2**63 + 1), str(2**63 + 3)])

    def test_the_mean_of_the_largest_numbers(self):
        largest = 1.7976931348623157e308
        for values, mean in ([largest] * 3, largest), ([largest, largest, -largest, -largest], 0), ([-largest] * 5000, -largest):
            row = self.rows(self.file("d.safetensors", [("w", "F64", [len(values)], 8 * len(values))], None, struct.pack(f"<{len(values)}d", *values)))[0]
            self.assertEqual(row["mean"], mean)

    def test_the_table(self):
        path = self.file("t.safetensors", [("a", "F32", [2], 8), ("b", "U8", [2], 2)], None, struct.pack("<2f", -1.5, 0) + b"\7\0")
        lines = self.ends(0, "stats", path)
        self.assertEqual([line.split() for line in lines],
                         [["DTYPE", "SHAPE", "MIN", "MAX", "MEAN", "ZEROS", "NAN", "INF", "NAME"],
                          ["F32", "[2]", "-1.5", "0", "-0.75", "1", "0", "0", "a"], ["U8", "[2]", "0", "7", "3.5", "1", "0", "0", "b"],
                          ["total", "4", "-1.5", "7", "1.375", "2", "0", "0"]])
        self.assertEqual(len(self.ends(0, "stats", path, "--filter", "a")), 3)

    def test_a_tensor_of_many_blocks(self):
        n = 3_000_001
        values = bytes(4 * (n - 1)) + struct.pack("<f", 6.0)
        row = self.rows(self.file("m.safetensors", [("w", "F32", [n], 4 * n)], None, values))[0]
        self.assertEqual((row["count"], row["max"], row["zeros"]), (n, 6.0, n - 1))
        self.assertAlmostEqual(row["mean"], 6.0 / n)


if __name__ == "__main__":
    unittest.main()
