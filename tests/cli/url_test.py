"""A command that was built without HTTP names the option that adds it. tests/http has the tests with HTTP.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import shutil
import tempfile
import unittest

from sample import file_bytes, run

USAGE = 2
URLS = ("https://example.com/m.safetensors?sig=topsecret", "http://user:topsecret@example.com/m.safetensors#topsecret",
        "HTTPS://example.com/m.safetensors?sig=topsecret", "hf://owner/model", "hF://owner/model@v1/m.safetensors")


@unittest.skipIf(os.environ.get("ST_BUILD_HTTP", "0") != "0", "the command was built with HTTP")
class WithoutHttp(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_url_"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "good").write_bytes(file_bytes([("a", "F32", [2], 8)]))

    def expect(self, words, part):
        done = run(*words)
        self.assertEqual((done.returncode, done.stdout), (USAGE, b""), done.stderr)
        self.assertRegex(done.stderr.decode(), r"\Asafetensors: [^\n]+\n\Z")
        self.assertIn(part, done.stderr.decode())
        self.assertNotIn(b"topsecret", done.stderr)

    def test_every_command_that_reads(self):
        good, out = str(self.folder / "good"), str(self.folder / "out.safetensors")
        for url in URLS:
            for words in (["show", url], ["show", "--map", url], ["verify", url], ["diff", url, good], ["diff", good, url],
                          ["stats", url], ["meta", url], ["meta", url, "get", "k"], ["cat", url, "a"],
                          ["extract", url, "a", out + ".bin"], ["extract", url, "--filter", "a", out],
                          ["split", url, str(self.folder / "new")], ["merge", url, out], ["merge", good, url, out],
                          ["rename", url, "a", "b", out], ["cast", url, out, "--to", "f16"], ["convert", url, out],
                          ["hash", url], ["fetch", url, str(self.folder / "new")]):
                with self.subTest(words):
                    self.expect(words, "without HTTP: build it with -DST_BUILD_HTTP=ON")
        self.assertEqual(os.listdir(self.folder), ["good"])

    def test_commands_that_change_a_file(self):
        for url in URLS:
            for words in (["meta", url, "set", "a=b"], ["meta", url, "rm", "a"], ["set", url, "a", str(self.folder / "good")]):
                self.expect(words, "files, not URLs")


class Words(unittest.TestCase):
    def test_fetch_needs_a_url(self):
        for path in ("model.safetensors", "ftp://example.com/m.safetensors", "https:/example.com/m.safetensors", ""):
            done = run("fetch", path, "new")
            self.assertEqual(done.returncode, USAGE)
            self.assertIn(b"not a URL", done.stderr)
        self.assertIn(b"FOLDER is empty", run("fetch", URLS[0], "").stderr)

    def test_outputs_that_are_urls(self):
        for words in (["split", "x", URLS[0]], ["rename", "x", "a", "b", URLS[1]], ["cast", "x", URLS[0], "--to", "f16"],
                      ["convert", "x", URLS[0]], ["extract", "x", "--filter", "a", URLS[0]], ["extract", "x", "a", URLS[1]],
                      ["merge", "x", URLS[0]],
                      ["fetch", URLS[0], URLS[1]]):
            done = run(*words)
            self.assertEqual(done.returncode, USAGE)
            self.assertIn(b" is a URL, which cannot be written", done.stderr)
            self.assertNotIn(b"topsecret", done.stderr)

    def test_no_message_of_the_parser_has_a_query(self):
        for words in ([URLS[0]], ["show", "--nothing", URLS[0]], ["show", "x", URLS[0], URLS[1]], ["fetch", URLS[0]],
                      ["cast", URLS[0], URLS[1]], ["show", "--limit", URLS[0], "x"], ["convert", "x", "y", "--to", URLS[1]]):
            done = run(*words)
            self.assertEqual(done.returncode, USAGE)
            self.assertNotIn(b"topsecret", done.stderr, words)


if __name__ == "__main__":
    unittest.main()
