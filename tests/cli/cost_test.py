"""Doubling the input at most doubles the work and the memory of the command. count_work.c counts them.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import random
import shutil
import struct
import tempfile
import unittest
import zipfile

from pickles import NONE, archive, dict_of, stacked, storage, tensor, text
from sample import READS_ZIP, file_bytes, run

COUNTER = os.environ.get("ST_COUNT_WORK", "")
KEYS = 4000
SLACK = 400_000  # bytes that do not depend on the input: the parser of the options, buffers, the loader


@unittest.skipUnless(COUNTER, "count_work is not built here (sanitizers, or no glibc)")
class Cost(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_cost_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def count(self, content, *arguments, called="model.safetensors", error=b""):
        """-> bytes moved, bytes compared, most bytes held, bytes read. error: words of the message, if it is to fail."""
        path, counts = self.folder / called, self.folder / "counts"
        path.write_bytes(content)
        words = [str(path) if word == "FILE" else word for word in arguments]
        result = run(*words, env={**os.environ, "LD_PRELOAD": COUNTER, "ST_COUNTS": str(counts)})
        if error:
            self.assertIn(error, result.stderr)
        self.assertEqual((result.returncode, result.stderr if not error else b""), (1 if error else 0, b""))
        return [int(number) for number in counts.read_text().split()]

    def test_metadata(self):
        keys = [f"key.{i:06}" for i in range(2 * KEYS)]
        random.Random(1).shuffle(keys)
        once, twice = (file_bytes([("a", "U8", [1], 1)], {key: "v" for key in keys[:n]}) for n in (KEYS, 2 * KEYS))
        out = [str(self.folder / "b.bt"), "--replace"]
        for arguments in (["show", "FILE"], ["show", "FILE", "--json"], ["meta", "FILE"], ["meta", "FILE", "--json"],
                          ["meta", "FILE", "get", keys[0]], ["convert", "FILE", *out], ["convert", "FILE", "-", "--to", "safetensors"]):
            for what, a, b in zip(("moved", "compared", "held"), self.count(once, *arguments), self.count(twice, *arguments)):
                self.assertLess(b, 2.3 * a + SLACK, (arguments, what, a))  # 2.3: searches in what is sorted take a step more

    def test_tensors(self):
        once, twice = (file_bytes([(f"layer.{i:06}", "U8", [1], 1) for i in range(n)]) for n in (KEYS, 2 * KEYS))
        for arguments in (["show", "FILE"], ["show", "FILE", "--json"], ["show", "FILE", "--filter", "*7*1"],
                          ["convert", "FILE", str(self.folder / "b.bt"), "--replace"]):
            for what, a, b in zip(("moved", "compared", "held"), self.count(once, *arguments), self.count(twice, *arguments)):
                self.assertLess(b, 2.3 * a + SLACK, (arguments, what, a))

    def test_the_json_of_a_long_shape_needs_no_more_memory_than_its_row(self):
        content = file_bytes([("a", "U8", [1] * 300_000, 1)])
        row = self.count(content, "show", "FILE")[2]
        self.assertLess(self.count(content, "show", "FILE", "--json")[2], row + 2 * len(content) + SLACK)  # the header is shown, too

    def test_a_tree_takes_a_small_multiple_of_the_header(self):
        """Each name has 60 parts that no other name has, or many siblings."""
        deep = [(".".join(f"{i:x}{chr(97 + k % 26)}" for k in range(60)), "U8", [0], 0) for i in range(2000)]
        for tensors in (deep, [(f"{i:x}", "U8", [0], 0) for i in range(6000)], [(f"{i}.w", "U8", [0, i], 0) for i in range(6000)]):
            content = file_bytes(tensors, data=b"")
            row = self.count(content, "show", "FILE")[2]
            self.assertLess(self.count(content, "show", "FILE", "--tree")[2], row + 4 * len(content) + SLACK, tensors[0])

    @unittest.skipUnless(READS_ZIP, "the command was built without ST_ZIP")
    def test_a_storage_is_checked_and_unpacked_once_for_all_of_its_views(self):
        size, views = 4 << 20, 50
        data = random.Random(1).randbytes(size // 16) * 16
        for stride in (1, 3):
            body = dict_of([(f"w{i:02}", tensor(storage("0", size // 4), [2], [stride], first=10 * i)) for i in range(views)])
            for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                content = archive(body, {"0": data}, compression)
                for out in (["-", "--to", "safetensors"], [str(self.folder / "out.safetensors"), "--replace"]):
                    moved, _, _, was_read = self.count(content, "convert", "FILE", *out)
                    self.assertLess(moved + was_read, 5 * size, (stride, compression, out))

    @unittest.skipUnless(READS_ZIP, "the command was built without ST_ZIP")
    def test_a_local_header_is_read_once(self):
        """Many entries of a zip name one local header, with the longest field of extra data."""
        entries, extra = 2000, b"\x99\x99\0\0" * 16383
        local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0, 1, 0, 0, 1, len(extra)) + b"a" + extra
        entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
        end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, entries, entries, entries * len(entry), len(local), 0)
        content = local + entry * entries + end
        was_read = self.count(content, "convert", "FILE", "-", "--to", "safetensors", called="model.pt", error=b"overlaps")[3]
        self.assertLess(was_read, 10 * len(content))

    def test_a_long_key_that_a_dictionary_has_many_times_is_not_copied(self):
        key = text("k" * 1_000_000) + b"q\x01"
        content = stacked(b"}(" + key + NONE + (b"h\x01" + NONE) * 300 + text("m") + b"}u", {})
        moved = self.count(content, "convert", "FILE", "-", "--to", "safetensors", "--key", "m")[0]
        self.assertLess(moved, 10 * len(content))

    def test_an_index_of_many_tensors(self):
        def index(n):
            names = [f"layer.{i:06}" for i in range(n)]
            body = dict_of([(name, tensor(storage("0", n), [1], [1], first=i)) for i, name in enumerate(names)])
            (self.folder / "a.bin").write_bytes(stacked(body, {"0": bytes(4 * n)}))
            return json.dumps({"weight_map": {name: "a.bin" for name in names}}).encode()
        once, twice = (self.count(index(n), "convert", "FILE", str(self.folder / f"new{n}"), called="m.bin.index.json") for n in (KEYS, 2 * KEYS))
        for what, a, b in zip(("moved", "compared", "held", "read"), once, twice):
            self.assertLess(b, 2.3 * a + SLACK, (what, a))


if __name__ == "__main__":
    unittest.main()
