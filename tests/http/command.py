"""Runs the command on URLs of a test server.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from library import data_of, model
from server import Server

COMMAND = os.environ["ST_COMMAND"]
MIB = 1 << 20
FIRST = 128 << 10
SUCCESS, BAD_FILE, USAGE, UNREADABLE = range(4)
SECRETS = (b"topsecret", b"Bearer")


def environment(**variables):
    """Allows what the test server needs, unless a variable says otherwise."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("SAFETENSORS_", "HF_"))}
    return {**usual, "SAFETENSORS_HTTP_ALLOW": "plain,private", **variables}


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_http_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def serve(self, data, path="/m.safetensors"):
        self.server.files[path] = data
        self.server.etags.pop(path, None)
        return self.server.url(path)

    def serve_model(self, bytes_of_shard, count=3, seed=0):
        """A model of shards, at /models/m.safetensors.index.json. Returns its URL and {name: bytes} of its files."""
        files = {}
        names = [f"m-{i + 1:05}-of-{count:05}.safetensors" for i in range(count - 1)] + ["sub/a b+ü%2F.safetensors"]
        weights = {}
        for i, name in enumerate(names):
            files[name] = model({f"t{i}": ((bytes_of_shard,), data_of(bytes_of_shard, seed + i))})
            weights[f"t{i}"] = name
        files["m.safetensors.index.json"] = json.dumps({"metadata": {"a": "b"}, "weight_map": weights}).encode()
        for name, content in files.items():
            self.serve(content, "/models/" + name)
        return self.server.url("/models/m.safetensors.index.json"), files

    def put(self, files, folder="local"):
        for name, content in files.items():
            path = self.folder / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return self.folder / folder

    def run_command(self, *words, code=SUCCESS, text="", **variables):
        """Expects an exit code, a text on standard error, and no secret anywhere."""
        done = subprocess.run([COMMAND, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                              env=environment(**variables))
        for secret in SECRETS:
            self.assertNotIn(secret, done.stdout + done.stderr)
        self.assertEqual(done.returncode, code, (words, done.stdout[-2000:], done.stderr))
        self.assertIn(text, done.stderr.decode())
        if code not in (SUCCESS, 5):
            self.assertLessEqual(done.stderr.count(b"\n"), 1, done.stderr)
        return done.stdout

    def files_in(self, folder):
        """The contents by name, without those of fetch."""
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in pathlib.Path(folder).rglob("*")
                if path.is_file() and ".safetensors-fetch" not in path.parts}
