"""safetensors_c and an imitation of S3 (moto): presigned URLs, and s3fs. Skipped without moto, or the tests of s3fs without it.
SPDX-License-Identifier: Apache-2.0
"""
import json
import logging
import os
import pathlib
import sys
import unittest

os.environ["SAFETENSORS_C_LIBRARY"] = os.environ["ST_LIBRARY"]
os.environ["SAFETENSORS_C_HTTP_LIBRARY"] = os.environ["ST_HTTP_LIBRARY"]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))
sys.dont_write_bytecode = True

try:
    import boto3
    import numpy as np
    from moto.server import ThreadedMotoServer
    from safetensors_c import HttpOptions, safe_open
    from safetensors_c.numpy import load_file, save
except ImportError as problem:
    boto3, missing = None, f"{problem.name} is not installed"
else:
    missing = ""
try:
    import s3fs
except ImportError:
    s3fs = None

from server import Server, redirect

MIB = 1 << 20
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "topsecret", "region_name": "us-east-1"}


@unittest.skipIf(missing, missing)
class S3(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it prints every request
        cls.moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        cls.moto.start()
        cls.addClassCleanup(cls.moto.stop)
        cls.endpoint = "http://%s:%d" % cls.moto.get_host_and_port()
        cls.client = boto3.client("s3", endpoint_url=cls.endpoint, **KEYS)
        cls.client.create_bucket(Bucket="bucket")
        cls.array = np.arange(24 * MIB, dtype=np.uint8).reshape(24, MIB)
        cls.put("m/model.safetensors", save({"t": cls.array}))
        for i in range(5):
            cls.put(f"m/{i}.safetensors", save({f"t{i}": np.full((10, 10), i, np.float32)}))
        cls.put("m/model.safetensors.index.json",
                json.dumps({"weight_map": {f"t{i}": f"{i}.safetensors" for i in range(5)}}).encode())

    @classmethod
    def put(cls, key, data):
        cls.client.put_object(Bucket="bucket", Key=key, Body=data)

    def signed(self, key="m/model.safetensors"):
        return self.client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": key}, ExpiresIn=600)

    def check(self, url, **options):
        with safe_open(url, framework="np", **options) as file:
            self.assertTrue(np.array_equal(file.get_slice("t")[3:5, ::7], self.array[3:5, ::7]))
            self.assertTrue(np.array_equal(file.get_tensors()["t"], self.array))
            return file.shards()


class Presigned(S3):
    LOCAL = HttpOptions(plain=True, private=True) if not missing else None

    def test_a_file(self):
        self.assertIn("Signature=", self.signed())
        self.assertEqual(self.check(self.signed(), http=self.LOCAL), [self.endpoint + "/bucket/m/model.safetensors"])

    def test_after_a_redirect_of_another_server(self):
        for status in (302, 307):
            server = Server()
            self.addCleanup(server.stop)
            server.fault = lambda request: redirect(self.signed(), status)
            self.check(server.url(), http=HttpOptions(plain=True, private=True, headers={"Authorization": "Bearer topsecret"}))
            self.assertEqual(len(server.requests), 1)

    def test_a_missing_key(self):
        with self.assertRaises(FileNotFoundError) as caught:
            safe_open(self.signed("m/absent.safetensors"), "np", http=self.LOCAL)
        self.assertNotIn("Signature", str(caught.exception))

    def test_an_object_that_is_replaced(self):
        self.put("new.safetensors", save({"t": np.zeros(MIB, np.uint8)}))
        with safe_open(self.signed("new.safetensors"), framework="np", http=self.LOCAL) as file:
            self.put("new.safetensors", save({"t": np.ones(MIB, np.uint8)}))
            with self.assertRaisesRegex(OSError, "has changed on the server"):
                file.get_tensors()


@unittest.skipIf(s3fs is None, "s3fs is not installed")
class ByFsspec(S3):
    def setUp(self):
        self.fs = s3fs.S3FileSystem(key=KEYS["aws_access_key_id"], secret=KEYS["aws_secret_access_key"], use_listings_cache=False,
                                    skip_instance_cache=True,
                                    client_kwargs={"endpoint_url": self.endpoint, "region_name": "us-east-1"})

    def test_a_file_object(self):
        with self.fs.open("bucket/m/model.safetensors") as file:
            self.check(file)

    def test_a_name(self):
        for name in ("bucket/m/model.safetensors", "s3://bucket/m/model.safetensors"):
            self.assertEqual(self.check(name, fs=self.fs), [name])

    def test_a_model_of_shards(self):
        loaded = load_file("s3://bucket/m/model.safetensors.index.json", fs=self.fs)
        self.assertEqual({name: array[3, 3] for name, array in loaded.items()}, {f"t{i}": i for i in range(5)})

    def test_a_missing_key(self):
        with self.assertRaises(FileNotFoundError):
            safe_open("bucket/m/absent.safetensors", "np", fs=self.fs)

    def test_an_object_that_is_replaced(self):
        """s3fs sends If-Match with each range."""
        self.put("new.safetensors", save({"t": np.zeros(MIB, np.uint8)}))
        with safe_open("bucket/new.safetensors", framework="np", fs=self.fs) as file:
            self.put("new.safetensors", save({"t": np.ones(MIB, np.uint8)}))
            with self.assertRaises(Exception) as caught:
                file.get_tensors()
        self.assertIsNotNone(caught.exception.__cause__)


if __name__ == "__main__":
    unittest.main()
