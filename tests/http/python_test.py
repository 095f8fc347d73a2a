"""safetensors_c on URLs. The server runs in this process, so no read may hold the interpreter's lock.

Every URL of `serve` has a secret query, which no message may contain.
SPDX-License-Identifier: Apache-2.0
"""
import copy
import json
import os
import pathlib
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import nginx
from server import Server, redirect, tls_context

os.environ["SAFETENSORS_C_LIBRARY"] = os.environ["ST_LIBRARY"]
os.environ["SAFETENSORS_C_HTTP_LIBRARY"] = os.environ["ST_HTTP_LIBRARY"]
PACKAGE = str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python")
sys.path.insert(0, PACKAGE)
sys.dont_write_bytecode = True

from safetensors_c import HttpOptions, SafetensorError, safe_open  # noqa: E402

try:
    import numpy as np
    from safetensors_c.numpy import load_file, save
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None

MIB = 1 << 20
LOCAL = HttpOptions(plain=True, private=True)
SECRETS = ("topsecret", "Bearer")


@unittest.skipIf(np is None, "numpy is not installed")
class UrlTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)

    def serve(self, data, path="/m.safetensors", query="?sig=topsecret"):
        self.server.files[path] = data
        return self.server.url(path, query)

    def serve_shards(self, count=5):
        arrays = {f"t{i}": np.full((4, 100 + i), i, np.float32) for i in range(count)}
        for name, array in arrays.items():
            self.serve(save({name: array}), f"/m/{name}.safetensors")
        index = {"weight_map": {name: f"{name}.safetensors" for name in arrays}}
        return arrays, self.serve(json.dumps(index).encode(), "/m/model.safetensors.index.json")

    def expect(self, kind, part, function, *arguments, **options):
        with self.assertRaises(kind) as caught:
            function(*arguments, **options)
        self.assertIs(type(caught.exception), kind)
        self.assertIn(part, str(caught.exception))
        for secret in SECRETS:
            self.assertNotIn(secret, str(caught.exception))
        return caught.exception

    def check(self, arrays, read):
        self.assertEqual(list(read), list(arrays))
        for name, array in arrays.items():
            self.assertEqual(read[name].dtype, array.dtype)
            self.assertTrue(np.array_equal(read[name], array), name)


class Reading(UrlTest):
    ARRAYS = {"b": np.arange(300_000, dtype=np.float64).reshape(1000, 300) if np else None,
              "a": np.ones((3, 4), np.int16) if np else None, "c": np.zeros((0, 2), np.uint8) if np else None}

    def test_everything_that_a_file_has(self):
        url = self.serve(save(self.ARRAYS, {"format": "np"}))
        for backend in ("mmap", "pread"):
            with safe_open(url, framework="np", backend=backend, http=LOCAL) as file:
                self.assertEqual((file.keys(), file.metadata()), (["a", "b", "c"], {"format": "np"}))
                self.assertEqual(file.shapes()["b"], [1000, 300])
                self.assertEqual(file.dtypes(), {"b": "F64", "a": "I16", "c": "U8"})
                self.assertEqual(file.shards(), [url.partition("?")[0]])
                self.assertEqual(file.get_tensor_meta("a").data_offsets, (2_400_000, 2_400_024))
                self.check(self.ARRAYS, {name: file.get_tensor(name) for name in self.ARRAYS})
                self.check(self.ARRAYS, file.get_tensors())
                for index in (np.s_[5], np.s_[-7:, 3], np.s_[..., ::-2], np.s_[10:900:11, 7:9], np.s_[3, 3], np.s_[:0]):
                    self.assertTrue(np.array_equal(file.get_slice("b")[index], self.ARRAYS["b"][index]), index)
                self.assertEqual(file.get_slice("b").get_shape(), [1000, 300])

    def test_load_file(self):
        reports = []
        url = self.serve(save(self.ARRAYS))
        self.check(self.ARRAYS, load_file(url, http=LOCAL))
        self.check(self.ARRAYS, load_file(url, http=LOCAL, threads=2, progress=lambda *report: reports.append(report)))
        self.assertEqual(reports[-1], (2_400_024, 2_400_024))

    def test_a_model_of_shards(self):
        arrays, url = self.serve_shards()
        self.check(arrays, load_file(url, http=LOCAL))
        with safe_open(url, framework="np", http=LOCAL) as file:
            self.assertEqual(len(file.shards()), 5)
            self.assertTrue((file.get_slice("t3")[1] == 3).all())

    def test_a_slice_fetches_its_bytes(self):
        array = np.arange(32 * MIB, dtype=np.uint8).reshape(64, MIB // 2)
        url = self.serve(save({"t": array}))
        for framework in ["np"] + ["pt"] * bool(torch):
            for index in (np.s_[10:14], np.s_[3], np.s_[::2], np.s_[5:9, ::-1], np.s_[:, 1000:101_000]):
                if framework == "pt" and index == np.s_[5:9, ::-1]:
                    continue
                with safe_open(url, framework=framework, http=LOCAL) as file:
                    before = self.server.bodies
                    read = np.asarray(file.get_slice("t")[index])
                self.assertTrue(np.array_equal(read, array[index]))
                self.assertLessEqual(self.server.bodies - before, 1.1 * read.nbytes, (framework, index))
                self.assertGreaterEqual(self.server.bodies - before, read.nbytes)

    def test_narrow_columns_fetch_their_gaps_unless_told_otherwise(self):
        array = np.arange(200 * 5000, dtype=np.uint32).reshape(200, 5000)
        url = self.serve(save({"t": array}))
        for gap_bytes, least, most in ((0, 150 * 20_000 - 40_000, 150 * 20_000), (1, 150 * 28, 150 * 28)):
            options = HttpOptions(plain=True, private=True, gap_bytes=gap_bytes)
            with safe_open(url, framework="np", http=options) as file:
                before = self.server.bodies
                self.assertTrue(np.array_equal(file.get_slice("t")[50:, 40:47], array[50:, 40:47]))
            self.assertGreaterEqual(self.server.bodies - before, least)
            self.assertLessEqual(self.server.bodies - before, most)

    def test_a_large_slice_uses_several_connections(self):
        url = self.serve(save({"t": np.zeros((64, MIB), np.uint8)}))
        changed = threading.Condition()

        def wait_for_two_others(request):
            with changed:
                changed.notify_all()
                if request.number > 0 and not changed.wait_for(lambda: len(self.server.requests) >= 4, timeout=30):
                    return "500"
        self.server.fault = wait_for_two_others
        with safe_open(url, framework="np", http=HttpOptions(plain=True, private=True, tries=1)) as file:
            self.assertEqual(file.get_slice("t")[1:33].nbytes, 32 * MIB)

    def test_several_threads_use_one_file(self):
        array = np.arange(4 * MIB, dtype=np.uint8).reshape(64, -1)
        wrong = []
        with safe_open(self.serve(save({"t": array})), framework="np", http=LOCAL) as file:
            def read(i):
                if not np.array_equal(file.get_slice("t")[i], array[i]):
                    wrong.append(i)
            threads = [threading.Thread(target=read, args=(i,)) for i in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        url = self.serve(save(self.ARRAYS))
        for backend in ("mmap", "pread"):
            with safe_open(url, framework="pt", backend=backend, http=LOCAL) as file:
                self.check(self.ARRAYS, {name: tensor.numpy() for name, tensor in file.get_tensors().items()})
                self.check(self.ARRAYS, {name: file.get_tensor(name).numpy() for name in self.ARRAYS})
                whole = torch.from_numpy(self.ARRAYS["b"])
                for index in (5, slice(-7, None), (slice(None), None, 3), whole > 299_990, torch.tensor(True), slice(0, 5000)):
                    self.assertTrue(torch.equal(file.get_slice("b")[index], whole[index]), index)

    def test_a_url_by_patch(self):
        code = ("import safetensors_c, sys; safetensors_c.patch(); from safetensors import safe_open;"
                "print(safe_open(sys.argv[1], 'np', http=safetensors_c.HttpOptions(plain=True, private=True)).keys())")
        done = subprocess.run([sys.executable, "-B", "-c", code, self.serve(save(self.ARRAYS))], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": PACKAGE})
        self.assertEqual(done.stdout, "['a', 'b', 'c']\n", done.stderr)


class Errors(UrlTest):
    def test_types(self):
        url = self.serve(save({"a": np.zeros(2)}))
        absent = self.server.url("/absent.safetensors")
        error = self.expect(FileNotFoundError, "/absent.safetensors': the server answers with status 404", load_file, absent, http=LOCAL)
        self.assertEqual(error.errno, 2)
        self.expect(OSError, "is not public", safe_open, url, "np", http=HttpOptions(plain=True))
        error = self.expect(SafetensorError, "only https", safe_open, url, "np")
        self.assertEqual(error.status, "ST_ERR_UNSUPPORTED")
        self.server.fault = lambda request: "503"
        self.expect(OSError, "503", safe_open, url, "np", http=HttpOptions(plain=True, private=True, tries=1))
        self.server.fault = lambda request: None
        error = self.expect(SafetensorError, "Error while deserializing header: invalid JSON in header", safe_open,
                            self.serve(b"\x05" + bytes(7) + b"hello", "/bad"), "np", http=LOCAL)
        self.assertEqual(error.status, "ST_ERR_JSON")
        self.server.stop()
        self.expect(OSError, "", safe_open, url.replace("127.0.0.1", "127.0.0.2"), "np",
                    http=HttpOptions(plain=True, private=True, tries=1))

    def test_a_shard_that_is_missing(self):
        _, url = self.serve_shards()
        del self.server.files["/m/t3.safetensors"]
        self.expect(FileNotFoundError, "t3.safetensors", load_file, url, http=LOCAL)

    def test_a_file_that_changes(self):
        url = self.serve(save({"a": np.zeros(MIB, np.uint8)}))
        with safe_open(url, framework="np", http=LOCAL) as file:
            self.server.etags["/m.safetensors"] = '"another"'
            for read in (file.get_tensors, lambda: file.get_tensor("a"), lambda: file.get_slice("a")[1:]):
                self.expect(OSError, "has changed on the server", read)

    def test_an_interrupt_ends_a_read(self):
        array = np.arange(300 * 5000, dtype=np.uint8).reshape(300, 5000)
        url = self.serve(save({"t": array}))
        with safe_open(url, framework="np", http=HttpOptions(plain=True, private=True, gap_bytes=1, connections=1)) as file:
            self.server.delay = 0.02
            for times in (1, 2):
                first = len(self.server.requests)
                third = range(first + 3, first + 3 + times)
                self.server.fault = lambda request: request.number in third and os.kill(os.getpid(), signal.SIGINT) or None
                with self.assertRaises(KeyboardInterrupt):
                    file.get_slice("t")[:, :2]
                self.assertLess(len(self.server.requests) - first, 100)
            self.server.fault = lambda request: None
            self.assertTrue(np.array_equal(file.get_tensors()["t"], array))

    def test_a_daemon_thread_that_reads_when_the_program_ends(self):
        url = self.serve(save({"t": np.zeros((300, 5000), np.uint8)}))
        program = """
import sys, threading, time
from safetensors_c import HttpOptions, safe_open
file = safe_open(sys.argv[1], "np", http=HttpOptions(plain=True, private=True, gap_bytes=1))
def read():
    while True:
        file.get_slice("t")[:, :2]
threading.Thread(target=read, daemon=True).start()
time.sleep(0.3)
"""
        self.server.delay = 0.002
        done = subprocess.run([sys.executable, "-B", "-c", program, url], stderr=subprocess.PIPE, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": PACKAGE})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_forked_process(self):
        url = self.serve(save({"a": np.zeros(MIB, np.uint8)}))
        with safe_open(url, framework="np", http=LOCAL) as file:
            child = os.fork()
            if child == 0:
                try:
                    file.get_tensor("a")
                    os._exit(1)
                except SafetensorError as error:
                    os._exit(0 if error.status == "ST_ERR_STATE" else 2)
                finally:
                    os._exit(3)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(file.get_tensor("a").nbytes, MIB)

    def test_paths_that_look_like_urls(self):
        for path in ("https:/example.com/x", pathlib.Path("https://example.com/x"), "s3://bucket/x", "file:///etc/passwd"):
            self.expect(FileNotFoundError, "No such file or directory", safe_open, path, "np", http=LOCAL)
        with self.assertRaises(TypeError):
            safe_open(self.server.url().encode(), "np", http=LOCAL)
        self.assertEqual(self.server.connections, 0)


class Options(UrlTest):
    def headers(self, http):
        del self.server.requests[:]
        with safe_open(self.serve(save({"a": np.zeros(2)})), "np", http=http):
            return self.server.requests[0].headers

    def test_headers(self):
        for headers in ({"X-One": "1", "X-Two": "b c"}, ["X-One: 1", "X-Two: b c"], ("X-One:1", "X-Two:b c")):
            sent = self.headers(HttpOptions(plain=True, private=True, headers=headers))
            self.assertEqual((sent["x-one"], sent["x-two"]), ("1", "b c"))

    def test_every_option_reaches_the_library(self):
        file = save({"a": np.zeros(MIB, np.uint8)})
        url = self.serve(file)
        with safe_open(url, "np", http=HttpOptions(plain=True, private=True, first_bytes=20_000)):
            self.assertEqual(self.server.requests[-1].range, (0, 19_999))
        self.server.fault = lambda request: "500"
        before = len(self.server.requests)
        self.expect(OSError, "500", safe_open, url, "np", http=HttpOptions(plain=True, private=True, tries=2))
        self.assertEqual(len(self.server.requests), before + 2)
        self.server.fault = lambda request: redirect(f"/again{request.number}")
        self.expect(OSError, "more than 3 redirects", safe_open, url, "np", http=HttpOptions(plain=True, private=True, redirects=3))
        self.server.fault = lambda request: "silence"
        self.expect(OSError, "", safe_open, url, "np", http=HttpOptions(plain=True, private=True, tries=1, stall_ms=1000))
        self.expect(OSError, "", safe_open, url, "np", http=HttpOptions(plain=True, private=True, tries=1, proxy="127.0.0.1:1"))
        self.server.fault = lambda request: None
        connections = self.server.connections
        url = self.serve(save({"a": np.zeros(24 * MIB, np.uint8)}), "/large")
        with safe_open(url, "np", http=HttpOptions(plain=True, private=True, connections=1)) as file:
            file.get_tensors()
        self.assertEqual(self.server.connections, connections + 1)

    def test_values_that_are_wrong(self):
        for kind, options in ((TypeError, {"headers": "Authorization: Bearer topsecret"}), (TypeError, {"headers": {"topsecret": None}}),
                              (TypeError, {"headers": [b"X: topsecret"]}), (ValueError, {"headers": {"X": "topsecret\0"}}),
                              (ValueError, {"tries": -1}), (ValueError, {"stall_ms": 1 << 32}), (TypeError, {"tries": "5"}),
                              (TypeError, {"proxy": b"topsecret"}), (ValueError, {"proxy": "topsecret\0"})):
            self.expect(kind, next(iter(options)), HttpOptions, **options)
        for http in ({"plain": True}, "plain", 1):
            self.expect(TypeError, "HttpOptions", safe_open, self.server.url(), "np", http=http)
        for header in ("topsecret", "A: topsecret\r\nX: y", "Range: topsecret"):
            error = self.expect(SafetensorError, "header", safe_open, self.server.url(), "np",
                                http=HttpOptions(plain=True, private=True, headers=[header]))
            self.assertEqual(error.status, "ST_ERR_ARGUMENT")
        self.expect(ValueError, "filename", safe_open, self.server.url() + "\0", "np", http=LOCAL)

    def test_no_secret_is_shown(self):
        shown = repr(HttpOptions(headers={"Authorization": "Bearer topsecret"}, proxy="http://a:topsecret@b", tries=3))
        self.assertIn("tries=3", shown)
        for secret in SECRETS:
            self.assertNotIn(secret, shown)

    def test_other_sources_ignore_them(self):
        self.assertEqual(safe_open(save({"a": np.zeros(2)}), "np", http=LOCAL).keys(), ["a"])

    def test_copies(self):
        url = self.serve(save({"a": np.ones(2)}), query="")
        with safe_open(url, framework="np", http=LOCAL) as file:
            for other in (pickle.loads(pickle.dumps(file)), copy.copy(file), copy.deepcopy(file)):
                self.assertEqual(other.get_tensor("a").tolist(), [1, 1])

    def test_secrets_are_not_pickled(self):
        for query, options, part in (("?sig=topsecret", {}, "query"), ("", {"headers": ["Authorization: Bearer topsecret"]}, "headers"),
                                     ("", {"headers": {"X": "topsecret"}}, "headers")):
            http = HttpOptions(plain=True, private=True, **options)
            with safe_open(self.serve(save({"a": np.ones(2)}), query=query), framework="np", http=http) as file:
                self.expect(TypeError, part, pickle.dumps, file)
                self.expect(TypeError, part, copy.copy, file)


class Tunnel:
    """A proxy for HTTPS that leads every connection to one server."""

    def __init__(self, port):
        self.port, self.targets = port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.connect, args=(client,), daemon=True).start()

    def connect(self, client):
        with client, socket.create_connection(("127.0.0.1", self.port)) as server:
            text = b""
            while b"\r\n\r\n" not in text:
                text += client.recv(65536)
            self.targets.append(text.split(b"\r\n")[0].decode())
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            upwards = threading.Thread(target=self.pass_on, args=(client, server), daemon=True)
            upwards.start()
            self.pass_on(server, client)
            upwards.join()

    @staticmethod
    def pass_on(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@unittest.skipIf(np is None, "numpy is not installed")
@unittest.skipUnless(shutil.which("openssl"), "the command openssl is not installed")
class Hub(unittest.TestCase):
    """hf://, with a server that has a certificate for the hub's name."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        folder = pathlib.Path(folder.name)
        nginx.make_certificate(folder, "DNS:huggingface.co,DNS:example.com")
        self.server = Server(tls=tls_context(folder / "cert.pem", folder / "key.pem"))
        self.addCleanup(self.server.stop)
        self.tunnel = Tunnel(self.server.port)
        self.addCleanup(self.tunnel.listener.close)
        self.ca_file = folder / "cert.pem"
        self.server.files["/o/m/resolve/main/model.safetensors"] = save({"a": np.ones(2)})
        self.server.files["/m.safetensors"] = save({"a": np.ones(2)})
        token = os.environ.pop("HF_TOKEN", None)
        self.addCleanup(lambda: os.environ.pop("HF_TOKEN", None) if token is None else os.environ.update(HF_TOKEN=token))

    def authorizations(self, url="hf://o/m", **options):
        """Returns the values of the header Authorization in the requests for a URL."""
        del self.server.requests[:]
        with safe_open(url, "np", http=HttpOptions(proxy=self.tunnel.url, ca_file=self.ca_file, **options)) as file:
            self.assertEqual(file.get_tensor("a").tolist(), [1, 1])
            with self.assertRaisesRegex(TypeError, "proxy|headers"):
                pickle.dumps(file)
        return {request.headers.get("authorization") for request in self.server.requests}

    def test_the_token_of_the_environment(self):
        self.assertEqual(self.authorizations(), {None})
        self.assertEqual({request.path for request in self.server.requests},
                         {"/o/m/resolve/main/model.safetensors.index.json", "/o/m/resolve/main/model.safetensors"})
        self.assertIn("CONNECT huggingface.co:443 HTTP/1.1", self.tunnel.targets)
        os.environ["HF_TOKEN"] = "hf_topsecret\n"
        self.assertEqual(self.authorizations(), {"Bearer hf_topsecret"})
        self.assertEqual(self.authorizations(headers={}), {None})
        self.assertEqual(self.authorizations(headers=["X: y"]), {None})
        self.assertEqual(self.authorizations(headers={"Authorization": "Bearer mine"}), {"Bearer mine"})
        self.assertEqual(self.authorizations("https://example.com/m.safetensors"), {None})
        os.environ["HF_TOKEN"] = ""
        self.assertEqual(self.authorizations(), {None})


@unittest.skipIf(np is None, "numpy is not installed")
class Libraries(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.server.files["/m.safetensors"] = save({"a": np.ones(2)})

    def run_program(self, code=None, **environment):
        """Returns what a program prints that opens a URL in a process of its own."""
        code = code or ("import sys, safetensors_c\ntry:\n  print(safetensors_c.safe_open(sys.argv[1], 'np', "
                        "http=safetensors_c.HttpOptions(plain=True, private=True)).keys())\n"
                        "except ImportError as error:\n  print(error)")
        wanted = {**os.environ, "PYTHONPATH": PACKAGE, **environment}
        done = subprocess.run([sys.executable, "-B", "-c", code, self.server.url()], capture_output=True, text=True, cwd=self.folder,
                              env={name: value for name, value in wanted.items() if value is not None})
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_the_library_next_to_libsafetensors(self):
        os.symlink(os.path.realpath(os.environ["ST_LIBRARY"]), self.folder / "libsafetensors.so")
        os.symlink(os.path.realpath(os.environ["ST_HTTP_LIBRARY"]), self.folder / "libsafetensors-http.so.0")
        for library in (self.folder / "libsafetensors.so", "./libsafetensors.so"):
            self.assertEqual(self.run_program(SAFETENSORS_C_LIBRARY=str(library), SAFETENSORS_C_HTTP_LIBRARY=None), "['a']\n")

    def test_a_relative_path_in_the_environment(self):
        os.symlink(os.path.realpath(os.environ["ST_HTTP_LIBRARY"]), self.folder / "h.so")
        code = ("import os, sys, safetensors_c; os.chdir('/')\nprint(safetensors_c.safe_open(sys.argv[1], 'np', "
                "http=safetensors_c.HttpOptions(plain=True, private=True)).keys())")
        self.assertEqual(self.run_program(code, SAFETENSORS_C_HTTP_LIBRARY="./h.so"), "['a']\n")

    def test_it_is_loaded_for_a_url_only(self):
        code = ("import sys, safetensors_c\nprint(safetensors_c.safe_open(b'\\x02' + bytes(7) + b'{}', 'np').keys(), "
                "'safetensors_c._http' in sys.modules, 'safetensors-http' in open('/proc/self/maps').read())")
        if sys.platform == "linux":
            self.assertEqual(self.run_program(code), "[] False False\n")

    def test_another_libsafetensors(self):
        """An open file of one copy must not be given to another copy."""
        content = pathlib.Path(os.environ["ST_LIBRARY"]).read_bytes()
        renamed = content.replace(b"libsafetensors.so.0\0", b"libsafetensors.so.X\0")
        self.assertNotEqual(content, renamed)
        (self.folder / "libother.so").write_bytes(renamed)
        self.assertIn("uses another libsafetensors than this package", self.run_program(SAFETENSORS_C_LIBRARY=str(self.folder / "libother.so")))


if __name__ == "__main__":
    unittest.main()
