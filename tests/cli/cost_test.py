"""Twice the input is at most about twice the work and the memory of the command, as counted by count_work.c.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import random
import shutil
import tempfile
import unittest

from sample import file_bytes, run

COUNTER = os.environ.get("ST_COUNT_WORK", "")
KEYS = 4000
SLACK = 400_000  # bytes that do not depend on the input: the parser of the options, buffers, the loader


@unittest.skipUnless(COUNTER, "count_work is not built here (sanitizers, or no glibc)")
class Cost(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_cost_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def count(self, content, *arguments):
        """-> bytes moved, bytes compared, most bytes held."""
        path, counts = self.folder / "model.safetensors", self.folder / "counts"
        path.write_bytes(content)
        words = [str(path) if word == "FILE" else word for word in arguments]
        result = run(*words, env={**os.environ, "LD_PRELOAD": COUNTER, "ST_COUNTS": str(counts)})
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return [int(number) for number in counts.read_text().split()]

    def test_metadata(self):
        keys = [f"key.{i:06}" for i in range(2 * KEYS)]
        random.Random(1).shuffle(keys)
        once, twice = (file_bytes([("a", "U8", [1], 1)], {key: "v" for key in keys[:n]}) for n in (KEYS, 2 * KEYS))
        out = str(self.folder / "b.bt")
        for arguments in (["show", "FILE"], ["show", "FILE", "--json"], ["meta", "FILE"], ["meta", "FILE", "--json"],
                          ["meta", "FILE", "get", keys[0]], ["convert", "FILE", out], ["convert", "FILE", "-", "--to", "safetensors"]):
            for what, a, b in zip(("moved", "compared", "held"), self.count(once, *arguments), self.count(twice, *arguments)):
                self.assertLess(b, 2.3 * a + SLACK, (arguments, what, a))  # 2.3: searches in what is sorted take a step more

    def test_tensors(self):
        once, twice = (file_bytes([(f"layer.{i:06}", "U8", [1], 1) for i in range(n)]) for n in (KEYS, 2 * KEYS))
        for arguments in (["show", "FILE"], ["show", "FILE", "--json"], ["show", "FILE", "--filter", "*7*1"],
                          ["convert", "FILE", str(self.folder / "b.bt")]):
            for what, a, b in zip(("moved", "compared", "held"), self.count(once, *arguments), self.count(twice, *arguments)):
                self.assertLess(b, 2.3 * a + SLACK, (arguments, what, a))

    def test_the_json_of_a_long_shape_needs_no_more_memory_than_its_row(self):
        content = file_bytes([("a", "U8", [1] * 300_000, 1)])
        row = self.count(content, "show", "FILE")[2]
        self.assertLess(self.count(content, "show", "FILE", "--json")[2], row + 2 * len(content) + SLACK)  # the header is shown, too


if __name__ == "__main__":
    unittest.main()
