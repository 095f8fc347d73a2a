"""libsafetensors-http against nginx with TLS. Skipped without nginx.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import tempfile
import time
import unittest

import library
import nginx
from library import File, data_of, model, simple

MIB = 1 << 20


@unittest.skipIf(nginx.missing(), nginx.missing())
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = nginx.Nginx(cls.folder.name)
        cls.addClassCleanup(cls.server.stop)

    def put(self, name, data):
        (self.server.files / name).write_bytes(data)
        return self.server.url(name)

    def open(self, url, **options):
        return File(url, flags=library.PRIVATE, ca_file=self.server.ca_file, **options)

    def test_a_file(self):
        data = data_of(40 * MIB)
        url = self.put("m.safetensors", model({"t": ((40 * MIB,), data)}))
        before = len(self.server.log())
        with self.open(url) as file:
            self.assertEqual(len(self.server.log()), before + 1)
            self.assertEqual(bytes(file.plan()["t"]), data)
        self.assertTrue(all('"GET ' in line and '" 206 ' in line for line in self.server.log()[before:]))

    def test_a_model_of_shards(self):
        for i in range(30):
            self.put(f"s{i}.safetensors", simple(200_000, f"t{i}", i))
        url = self.put("m.index.json", json.dumps({"weight_map": {f"t{i}": f"s{i}.safetensors" for i in range(30)}}).encode())
        before = len(self.server.log())
        with self.open(url) as file:
            self.assertEqual(len(self.server.log()), before + 31)
            for name, got in file.plan().items():
                self.assertEqual(bytes(got), data_of(200_000, int(name[1:])))

    def test_a_certificate_that_nobody_vouches_for(self):
        url = self.put("small.safetensors", simple(10))
        for options in ({}, {"ca_file": b"/absent/ca.pem"}):
            with self.assertRaises(library.Failed) as caught:
                File(url, flags=library.PRIVATE, tries=1, **options)
            self.assertEqual(caught.exception.status, library.OPEN)
            self.assertRegex(caught.exception.message, "certificate|CAfile")

    def test_a_file_that_is_replaced(self):
        url = self.put("new.safetensors", simple(MIB))
        with self.open(url) as file:
            os.unlink(self.server.files / "new.safetensors")
            time.sleep(1.1)  # nginx makes an ETag of the time in seconds and the length
            self.put("new.safetensors", simple(MIB, seed=1))
            with self.assertRaises(library.Failed) as caught:
                file.plan()
            self.assertEqual(caught.exception.status, library.READ)
            self.assertIn("has changed on the server", caught.exception.message)


if __name__ == "__main__":
    unittest.main()
