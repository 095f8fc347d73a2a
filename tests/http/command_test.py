"""The command reads URLs as it reads files.
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import pathlib
import shutil
import socket
import subprocess
import threading
import unittest

from command import BAD_FILE, COMMAND, MIB, UNREADABLE, USAGE, CommandTest, environment
from library import data_of, model, simple
from server import Server, redirect, tls_context

DIFFERS = 5


class Reading(CommandTest):
    def setUp(self):
        super().setUp()
        data = data_of(3 * MIB)
        self.data = model({"a": ((1000, 3), data[:3000]), "b.weight": ((3 * MIB - 3000,), data[3000:])})
        self.url = self.serve(self.data, "/models/one.safetensors")
        self.index, self.files = self.serve_model(400_000)
        self.local = self.put({**self.files, "one.safetensors": self.data})
        self.base = self.server.url("/models", "").encode()

    def as_local(self, output):
        """Output for URLs, with their paths on this machine instead."""
        return output.replace(self.base, str(self.local).encode()).replace(b"a%20b%2B%C3%BC%252F", "a b+ü%2F".encode())

    def test_show_sends_one_request_for_each_file(self):
        for options in ([], ["--json"], ["--tree"], ["--map"], ["--sort", "size", "--exact"], ["--filter", "t*", "--limit", "1"]):
            with self.subTest(options):
                self.server.requests.clear()
                found = self.run_command("show", self.url, *options)
                self.assertEqual(len(self.server.requests), 1)
                expected = self.run_command("show", self.local / "one.safetensors", *options)
                if "--json" in options:  # where a path has another length
                    found, expected = self.as_local(found), expected.replace("ü".encode(), b"\\u00fc")
                self.assertEqual(self.as_local(found), expected)
                self.server.requests.clear()
                self.run_command("show", self.index, *options)
                self.assertEqual(len(self.server.requests), 1 + len(self.files) - 1)

    def test_the_query_is_in_every_request(self):
        self.run_command("show", self.index)
        self.assertTrue(all(request.target.endswith("?sig=topsecret") for request in self.server.requests))

    def test_each_command_that_reads(self):
        """Output and files are the same as for a file."""
        out = "OUT"
        commands = [["hash"], ["hash", "--content", "--sha1"], ["verify"], ["verify", "--values"], ["verify", "--json", "--strict"],
                    ["stats"], ["stats", "--json"], ["meta"], ["meta", "--json"], ["show", "--map", "out.svg"]]
        written = [["split", "FILE", out, "--max-size", "1MB"], ["merge", "FILE", out + ".safetensors"],
                   ["rename", "FILE", "^", "x.", out + ".safetensors"], ["rename", "FILE", "^", "x.", out],
                   ["cast", "FILE", out + ".safetensors", "--to", "f16"], ["convert", "FILE", out + ".bt"],
                   ["extract", "FILE", "--filter", "*", out], ["extract", "FILE", "--exclude", "q", out + ".safetensors"]]
        for url, path in ((self.url, self.local / "one.safetensors"), (self.index, self.local / "m.safetensors.index.json")):
            for command, *options in commands:
                with self.subTest(command, url=url):
                    options = [str(self.folder / f"{pathlib.Path(url).name[:3]}.svg") if o == "out.svg" else o for o in options]
                    if "--strict" in options:  # finds notes, which need the whole file
                        self.run_command(command, url, *options)
                        continue
                    found = self.run_command(command, url, *options, *(["--replace"] if "--map" in options else []))
                    expected = self.run_command(command, path, *options, *(["--replace"] if "--map" in options else []))
                    if command == "verify":
                        expected = b"".join(line for line in expected.splitlines(True) if b"note" not in line)
                    self.assertEqual(self.as_local(found), expected)
            for words in written:
                with self.subTest(words, url=url):
                    results = []
                    for source in (url, path):
                        place = self.folder / f"results{len(list(self.folder.iterdir()))}"
                        place.mkdir()
                        words_here = [str(source) if w == "FILE" else str(place / w) if w.startswith(out) else w for w in words]
                        self.run_command(*words_here)
                        results.append(self.files_in(place))
                    self.assertTrue(results[0])
                    self.assertEqual(results[0].keys(), results[1].keys())
                    self.assertEqual(results[0], results[1])

    def test_one_tensor(self):
        file = self.local / "one.safetensors"
        for words in (["a"], ["a", "--slice", "10:20, 1", "--npy"], ["b.weight", "--slice", "::3"]):
            self.assertEqual(self.run_command("cat", self.url, *words), self.run_command("cat", file, *words))
        self.run_command("extract", self.url, "a", self.folder / "a.npy")
        self.run_command("extract", file, "a", self.folder / "b.npy")
        self.assertEqual((self.folder / "a.npy").read_bytes(), (self.folder / "b.npy").read_bytes())

    def test_models_that_differ(self):
        local = self.local / "one.safetensors"
        self.run_command("diff", self.url, local)
        self.run_command("diff", local, self.url)
        changed = bytearray(self.data)
        changed[-1] ^= 1
        other = self.server.url("/models/one.safetensors", "?sig=topsecret2")  # the same URL but for its query

        def serve_other(connection, request):
            request.target = "/other"
            self.server.correct(connection, request)
        self.server.fault = lambda request: serve_other if request.target.endswith("2") else None
        self.serve(bytes(changed), "/other")
        found = self.run_command("diff", self.url, other, code=DIFFERS)
        self.assertIn(b"1 of 3,142,728 bytes differ", found)

    def test_a_list_of_digests(self):
        sums = self.folder / "SHA256SUMS"
        sums.write_bytes(self.run_command("hash", self.url))
        self.run_command("verify", self.url, "--against", sums)
        self.server.files["/models/one.safetensors"] = self.data[:-1] + b"x"
        self.server.etags.clear()
        self.assertIn(b"error: ", self.run_command("verify", self.url, "--against", sums, code=BAD_FILE))


class Refused(CommandTest):
    def test_commands_that_change_a_file(self):
        url = self.serve(simple(10))
        new = self.put({"in": b"x" * 10}) / "in"
        for words in (["meta", url, "set", "a=b"], ["meta", url, "rm", "a"], ["set", url, "t", new], ["set", new, "t", url]):
            self.run_command(*words, code=USAGE, text="files, not URLs")
        self.assertEqual(self.server.connections, 0)

    def test_checkpoints_of_other_programs(self):
        for name in ("m.bin", "m.pt", "m.npz", "m.gguf", "pytorch_model.bin.index.json"):
            self.run_command("convert", self.serve(b"x", "/" + name), self.folder / "out.safetensors", code=USAGE, text="not from URLs")
        self.assertEqual(self.server.connections, 0)

    def test_an_invalid_file(self):
        url = self.serve(simple(1000)[:-1])
        for command in (["show"], ["hash"], ["stats"], ["fetch", self.folder / "new"]):
            self.run_command(command[0], url, *command[1:], code=BAD_FILE, text="m.safetensors")
        self.assertIn(b"m.safetensors: error: ", self.run_command("verify", url, code=BAD_FILE))
        self.assertIn(b'"kind":"error"', self.run_command("verify", "--json", url, code=BAD_FILE))
        self.assertFalse((self.folder / "new").exists())

    def test_addresses_that_are_not_public(self):
        url = self.serve(simple(10))
        for words in (["show", url], ["fetch", url, self.folder / "new"], ["diff", url, url]):
            self.run_command(*words, code=UNREADABLE, text="is not public", SAFETENSORS_HTTP_ALLOW="plain")
            self.run_command(*words, code=USAGE, text="only https is", SAFETENSORS_HTTP_ALLOW="private")
            self.run_command(*words, code=USAGE, text="only https is", SAFETENSORS_HTTP_ALLOW="")
            self.run_command(*words, code=USAGE, text="neither plain nor private", SAFETENSORS_HTTP_ALLOW="plain everything")
        self.assertEqual(self.server.connections, 0)
        self.assertFalse((self.folder / "new").exists())

    def test_messages_without_queries(self):
        """run_command() finds a secret in any output."""
        url = self.serve(simple(10))
        absent = self.server.url("/absent.safetensors")
        with_password = url.replace("http://", "http://user:topsecret@")
        for words, code in ((["show", absent], UNREADABLE), (["show", "--map", absent], UNREADABLE),
                            (["show", "HTTP" + absent[4:]], UNREADABLE), (["show", "Hf://owner?topsecret"], USAGE),
                            (["show", "--map", url, url], USAGE), (["show", url, url], USAGE), ([url], USAGE),
                            (["show", with_password], USAGE), (["show", f"--{url}"], USAGE),
                            (["show", "http://user:a/topsecret@127.0.0.1/x"], USAGE), (["show", "hf://o?topsecret/m"], USAGE),
                            (["show", "http://user:topsecret?b@127.0.0.1/x"], USAGE),
                            (["show", "--limit", url, url], USAGE),
                            (["show", self.server.url("/directory/")], USAGE), (["cat", url, "absent"], USAGE),
                            (["meta", url, "get", "absent"], USAGE), (["stats", url, "--filter", "absent"], USAGE),
                            (["rename", url, "absent", "", self.folder / "x.safetensors"], USAGE),
                            (["merge", url, url, self.folder / "x.safetensors"], USAGE), (["merge", url], USAGE),
                            (["show", "hf://owner?topsecret"], USAGE), (["hash", absent, absent + "2"], UNREADABLE),
                            (["fetch", absent, self.folder / "new"], UNREADABLE), (["fetch", url, url], USAGE),
                            (["fetch", url], USAGE), (["split", url, url], USAGE), (["rename", url, "t", "u", url], USAGE),
                            (["convert", url, url], USAGE), (["extract", url, "--filter", "*", url], USAGE),
                            (["merge", url, url], USAGE), (["extract", url, "t", url], USAGE),
                            (["verify", url, "--against", with_password], USAGE), (["show", "hf://user:topsecret@o/m"], USAGE)):
            with self.subTest(words):
                done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, timeout=60, env=environment())
                self.assertNotIn(b"topsecret", done.stdout + done.stderr)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertTrue(done.stderr)
        self.run_command("show", "http://[::1]/a:b@c.safetensors", code=UNREADABLE, text="http://[::1]/a:b@c.safetensors")
        self.assertNotIn(b"topsecret", self.run_command("show", url, "--json"))
        self.assertNotIn(b"topsecret", self.run_command("show", "HTTP" + url[4:], "--json"))


class Credentials(CommandTest):
    def setUp(self):
        super().setUp()
        self.other = Server()
        self.addCleanup(self.other.stop)
        self.other.files["/blob"] = self.data = simple(4 * MIB)
        self.url = self.server.url()
        self.server.fault = lambda request: redirect(self.other.url("/blob"))
        self.header = f"http://127.0.0.1:{self.server.port} Authorization: Bearer topsecret"

    def test_they_go_to_their_origin_only(self):
        for words in (["show", self.url], ["hash", self.url], ["fetch", self.url, self.folder / "new"],
                      ["diff", self.url, self.other.url("/blob")]):
            self.run_command(*words, SAFETENSORS_HTTP_HEADER=f"https://example.com X: topsecret\n{self.header}\n", HF_TOKEN="topsecret")
        self.assertTrue(all(request.headers["authorization"] == "Bearer topsecret" for request in self.server.requests))
        self.assertFalse(any("x" in request.headers for request in self.server.requests))
        self.assertTrue(self.other.requests)
        self.assertFalse(any("authorization" in request.headers for request in self.other.requests))
        self.assertEqual((self.folder / "new/m.safetensors").read_bytes(), self.data)

    def test_headers_that_are_wrong(self):
        for value in ("Authorization: Bearer topsecret", "https://x", "topsecret"):
            self.run_command("show", self.url, code=USAGE, text="SAFETENSORS_HTTP_HEADER", SAFETENSORS_HTTP_HEADER=value)
        for header in ("Range: topsecret", "topsecret"):
            value = f"http://127.0.0.1:{self.server.port} {header}"
            self.run_command("fetch", self.url, self.folder / "new", code=USAGE, text="header", SAFETENSORS_HTTP_HEADER=value)
        self.assertEqual(self.server.connections, 0)


@unittest.skipUnless(shutil.which("openssl"), "the command openssl is not installed")
class Hub(CommandTest):
    """hf:// through a proxy on this machine, which answers in the hub's place."""

    def setUp(self):
        super().setUp()
        names = "DNS:huggingface.co,DNS:storage.example"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x", "-addext",
                        f"subjectAltName={names}", "-keyout", self.folder / "key.pem", "-out", self.folder / "cert.pem"],
                       check=True, capture_output=True)
        self.hub = Server(tls=tls_context(self.folder / "cert.pem", self.folder / "key.pem"))
        self.storage = Server(tls=self.hub.tls)
        self.addCleanup(self.hub.stop)
        self.addCleanup(self.storage.stop)
        self.proxy = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.proxy.close)
        threading.Thread(target=self.accept, daemon=True).start()
        self.variables = {"SAFETENSORS_HTTP_PROXY": f"http://127.0.0.1:{self.proxy.getsockname()[1]}",
                          "SAFETENSORS_HTTP_CA_FILE": str(self.folder / "cert.pem"), "HF_TOKEN": "topsecret\n",
                          "SAFETENSORS_HTTP_ALLOW": ""}

    def accept(self):
        while True:
            try:
                connection, _ = self.proxy.accept()
            except OSError:
                return
            text = b""
            while b"\r\n\r\n" not in text:
                text += connection.recv(1000)
            server = {b"huggingface.co:443": self.hub, b"storage.example:443": self.storage}[text.split(b" ")[1]]
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            with server.lock:
                server.connections += 1
            threading.Thread(target=server.serve, args=(connection,), daemon=True).start()

    def test_a_model_with_a_token(self):
        self.storage.files["/blob"] = data = simple(MIB)
        digest = hashlib.sha256(data).hexdigest()

        def answer(connection, request):
            if request.path != "/owner/model/resolve/v1/model.safetensors":
                return self.hub.send(connection, 404, {"Content-Length": 0})
            self.hub.send(connection, 302, {"Location": "https://storage.example/blob?topsecret", "Content-Length": 0,
                                            "X-Linked-ETag": f'"{digest}"'})
        self.hub.fault = lambda request: answer
        self.storage.etags["/blob"] = '"%s"' % ("0" * 64)  # which is no digest
        self.assertIn(b"total", self.run_command("show", "hf://owner/model@v1", **self.variables))
        out = self.run_command("fetch", "hf://owner/model@v1", self.folder / "new", **self.variables)
        self.assertIn(b"SHA-256 matches", out)
        self.assertEqual(self.files_in(self.folder / "new"), {"model.safetensors": data})
        self.assertTrue(all(request.headers["authorization"] == "Bearer topsecret" for request in self.hub.requests))
        self.assertFalse(any("authorization" in request.headers for request in self.storage.requests))
        digest = digest[::-1]
        self.run_command("fetch", "hf://owner/model@v1", self.folder / "wrong", code=BAD_FILE, text="SHA-256", **self.variables)


if __name__ == "__main__":
    unittest.main()
