"""libsafetensors-http against a server whose every answer can be wrong.

Every URL here has a secret query, and library.Failed checks that no message contains it.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import tempfile
import threading
import time
import unittest

import library
import nginx
from library import ST, File, data_of, model, simple
from server import Closed, Server, redirect, tls_context

MIB = 1 << 20
FIRST = 128 << 10


class ServerTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.requests = self.server.requests

    def serve(self, data, path="/m.safetensors"):
        self.server.files[path] = data
        return self.server.url(path)

    def expect(self, status, part, url, **options):
        with self.assertRaises(library.Failed) as caught:
            File(url, **options)
        self.assertEqual(caught.exception.status, status, caught.exception.message)
        self.assertIn(part, caught.exception.message)
        return caught.exception.message

    def ranges(self):
        return [request.range for request in self.requests]


class Opening(ServerTest):
    def test_one_get_of_the_first_bytes(self):
        url = self.serve(simple(MIB))
        with File(url) as file:
            self.assertEqual(file.names(), ["t"])
            self.assertEqual([r.method for r in self.requests], ["GET"])
            self.assertEqual(self.ranges(), [(0, FIRST - 1)])
            self.assertEqual(self.server.bodies, FIRST)
            self.assertEqual(file.shard_path(0), url.partition("?")[0])

    def test_a_long_header_takes_its_excess_only(self):
        with File(self.serve(simple(MIB, header_bytes=300_000))):
            self.assertEqual(self.ranges(), [(0, FIRST - 1), (FIRST, 300_007)])
            self.assertIn("if-match", self.requests[1].headers)

    def test_a_small_file_is_never_asked_for_again(self):
        with File(self.serve(simple(1000))) as file:
            self.assertEqual(file.read("t"), data_of(1000))
        self.assertEqual(len(self.requests), 1)

    def test_the_environment_is_not_read(self):
        os.environ["http_proxy"] = os.environ["all_proxy"] = "http://127.0.0.1:9"
        self.addCleanup(os.environ.pop, "http_proxy")
        self.addCleanup(os.environ.pop, "all_proxy")
        with File(self.serve(simple(10))):
            pass
        os.environ["no_proxy"] = "*"  # would connect directly, without a check of the address
        self.addCleanup(os.environ.pop, "no_proxy")
        self.expect(library.OPEN, "", self.server.url(), flags=library.PLAIN, proxy=b"http://127.0.0.1:1", tries=1)
        self.assertEqual(len(self.requests), 1)

    def test_the_password_of_a_proxy_is_not_in_messages(self):
        for proxy in (b"user:topsecret@127.0.0.1:99999", b"user:topsecret@ba d"):
            self.expect(library.OPEN, "", self.server.url(), proxy=proxy, tries=1)

    @unittest.skipUnless(shutil.which("openssl"), "the command openssl is not installed")
    def test_authorities_of_a_proxy(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        certificate, key = (pathlib.Path(folder.name) / name for name in ("cert.pem", "key.pem"))
        nginx.make_certificate(certificate.parent)
        proxy = Server(tls=tls_context(certificate, key))
        self.addCleanup(proxy.stop)
        proxy.files["http://example.com/m.safetensors"] = simple(10)
        options = {"proxy": f"https://127.0.0.1:{proxy.port}".encode(), "tries": 1}
        url = "http://example.com/m.safetensors?sig=topsecret"
        self.expect(library.OPEN, "certificate", url, **options)
        with File(url, ca_file=os.fsencode(certificate), **options) as file:
            self.assertEqual(file.read("t"), data_of(10))

    def test_a_forked_process_reads_nothing(self):
        """It has the sockets of its parent, and perhaps a lock that nobody will release."""
        url = self.serve(simple(4 * MIB))
        self.server.delay = 0.3
        with File(url, connections=1) as file:
            reading = threading.Thread(target=lambda: self.assertEqual(file.read("t"), data_of(4 * MIB)))
            reading.start()
            time.sleep(0.1)
            child = os.fork()
            if child == 0:
                try:
                    file.read("t")
                    os._exit(1)
                except library.Failed as failed:
                    ST.st_free(file.file)
                    os._exit(0 if failed.status == library.STATE else 2)
            _, status = os.waitpid(child, 0)
            self.assertEqual(os.waitstatus_to_exitcode(status), 0)
            reading.join()
            self.assertEqual(file.read("t"), data_of(4 * MIB))

    def test_closing_in_several_threads_leaves_sigpipe_alone(self):
        """The signal belongs to the program. Python does not know what libcurl does to it."""
        process = ctypes.CDLL(None)
        process.signal.argtypes, process.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
        self.addCleanup(signal.signal, signal.SIGPIPE, signal.signal(signal.SIGPIPE, lambda *_: None))
        handler = process.signal(signal.SIGPIPE, signal.SIG_IGN)
        process.signal(signal.SIGPIPE, handler)
        url = self.serve(simple(10))
        together = threading.Barrier(8)

        def close(files):
            together.wait()
            for file in files:
                file.__exit__()
        threads = [threading.Thread(target=close, args=([File(url) for _ in range(10)],)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(process.signal(signal.SIGPIPE, handler), handler)

    def test_what_is_not_there(self):
        self.expect(library.OPEN, "/m.safetensors': the server answers with status 404", self.server.url())
        self.expect(library.OPEN, "404", self.server.url("/m.safetensors.index.json"))

    def test_an_empty_file(self):
        self.expect(300, "", self.serve(b""))

    def test_only_https_unless_asked(self):
        url = self.serve(simple(10))
        self.expect(library.UNSUPPORTED, "the scheme 'http' are not read: only https is (ST_HTTP_PLAIN or SAFETENSORS_HTTP_ALLOW=plain allows it)", url, flags=library.PRIVATE)
        for bad in ("file:///etc/passwd?topsecret", "ftp://localhost/x?topsecret", "gopher://x/y"):
            self.expect(library.UNSUPPORTED, "scheme", bad)
        self.assertEqual(self.server.connections, 0)

    def test_addresses_that_are_not_public(self):
        url = self.serve(simple(10))
        for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
            self.expect(library.OPEN, "is not public (ST_HTTP_PRIVATE or SAFETENSORS_HTTP_ALLOW=private allows it)", url.replace("127.0.0.1", host), flags=library.PLAIN, tries=1)
        self.assertEqual(self.server.connections, 0)

    def test_a_url_with_a_length(self):
        url = self.serve(simple(10)).encode()
        with library.open_with_length(url + b"&more", len(url)) as file:
            self.assertEqual(file.names(), ["t"])
        for bad in (url + b"\0", b"hf://owner/model/m.safetensors\0", b"hf://owner/model\0/m.safetensors"):
            with self.assertRaisesRegex(library.Failed, "the URL contains a NUL") as caught:
                library.open_with_length(bad, len(bad))
            self.assertEqual(caught.exception.status, library.ARGUMENT)
        with self.assertRaisesRegex(library.Failed, "the URL contains a NUL"):
            library.open_with_length(url, 2**64 - 1)
        with self.assertRaisesRegex(library.Failed, "url is NULL"):
            library.open_with_length(None, 0)
        with self.assertRaisesRegex(library.Failed, "not a valid URL"):
            library.open_with_length(url, 0)
        self.assertEqual(len(self.requests), 1)

    def test_bad_arguments(self):
        self.expect(library.ARGUMENT, "user name", "http://user:topsecret@127.0.0.1/x")
        self.expect(library.ARGUMENT, "not a valid URL", "http://")
        self.expect(library.ARGUMENT, "is not the URL of a file", self.server.url("/directory/"))
        self.expect(library.ARGUMENT, "hf://OWNER", "hf://owner?topsecret")
        for header in ("topsecret", "A: topsecret\r\nHost: x", "A: topsecret\nX: y", ": topsecret", "Range: topsecret", "if-match: topsecret",
                       "Range : topsecret", "Range;a: topsecret", "Host : topsecret"):
            self.expect(library.ARGUMENT, "header", self.server.url(), headers=[header])

    def test_a_model_of_shards(self):
        names = [f"m-{i:05}-of-00040.safetensors" for i in range(1, 40)] + ["sub/a b+ü%2F.safetensors"]
        for i, name in enumerate(names):
            self.serve(simple(1000 + i, f"t{i}", i), "/models/x/" + name)
        index = {"weight_map": {f"t{i}": name for i, name in enumerate(names)}}
        url = self.serve(json.dumps(index).encode(), "/models/x/m.safetensors.index.json")
        with File(url) as file:
            self.assertEqual(len(self.requests), 41)
            self.assertTrue(all(r.target.endswith("?sig=topsecret") for r in self.requests))
            self.assertLessEqual(self.server.connections, 16)
            for i in range(40):
                self.assertEqual(file.read(f"t{i}"), data_of(1000 + i, i))
            self.assertTrue(file.shard_path(39).endswith("/models/x/sub/a%20b%2B%C3%BC%252F.safetensors"), file.shard_path(39))
        index["weight_map"]["t0"] = "x" * 9_000_000
        self.expect(library.OPEN, "xxx': not a valid URL", self.serve(json.dumps(index).encode(), "/models/x/n.safetensors.index.json"))
        del self.server.files["/models/x/" + names[7]]
        self.expect(library.SHARD, f"shard '{names[7]}' is missing", url)


class Reading(ServerTest):
    def test_a_plan_reads_ranges_of_8_mib(self):
        data = data_of(40 * MIB)
        with File(self.serve(model({"t": ((40 * MIB,), data)}))) as file:
            self.requests.clear()
            self.assertEqual(bytes(file.plan()["t"]), data)
            sizes = [last - first + 1 for first, last in self.ranges()]
            self.assertEqual(sum(sizes), 40 * MIB)
            self.assertLessEqual(max(sizes), 8 * MIB)
            self.assertLessEqual(len(sizes), 6)
            self.assertTrue(all(r.headers["if-match"] == self.server.etag("/m.safetensors") for r in self.requests))

    def test_small_tensors_are_read_together(self):
        tensors = {f"t{i:04}": ((5000,), data_of(5000, i)) for i in range(400)}
        with File(self.serve(model(tensors))) as file:
            self.requests.clear()
            for name, got in file.plan().items():
                self.assertEqual(bytes(got), tensors[name][1])
            self.assertLessEqual(len(self.requests), 2)

    def test_a_slice_fetches_its_rows_only(self):
        data = data_of(16 * MIB)
        with File(self.serve(model({"t": ((4096, 4096), data)}))) as file:
            self.server.bodies = 0
            got = file.plan(ranges={"t": (1000, 1500, 500 * 4096)})["t"]
            self.assertEqual(bytes(got), data[1000 * 4096:1500 * 4096])
            self.assertLessEqual(self.server.bodies, 1.1 * 500 * 4096)

    def test_one_call_reads_everything(self):
        data = data_of(20 * MIB)
        with File(self.serve(model({"t": ((20 * MIB,), data)}))) as file:
            self.assertEqual(file.read("t"), data)

    def test_connections_are_kept_and_limited(self):
        data = data_of(64 * MIB)
        self.server.delay = 0.01
        with File(self.serve(model({"t": ((64 * MIB,), data)})), connections=3) as file:
            for _ in range(3):
                self.assertEqual(bytes(file.plan(threads=12)["t"]), data)
        self.assertLessEqual(self.server.connections, 3)


class Faults(ServerTest):
    temporary = ("503", "429", "500", "reset", "reset_within", "short")

    def test_each_temporary_fault_at_opening(self):
        url = self.serve(simple(MIB))
        for fault in (*self.temporary, "stall", "silence"):
            with self.subTest(fault):
                first = len(self.requests)
                self.server.fault = lambda request: fault if request.number == first else None
                with File(url, stall_ms=1000) as file:
                    self.assertEqual(file.read("t"), data_of(MIB))
                self.assertLessEqual(len(self.requests) - first, 3)

    def test_ten_percent_of_faults(self):
        data = data_of(96 * MIB)
        url = self.serve(model({"t": ((96 * MIB,), data)}))
        chance = random.Random(1)
        usual = 0
        with File(url) as file:
            self.requests.clear()
            file.plan()
            usual = len(self.requests)
        faulty = {n for n in range(100_000) if chance.random() < 0.1}
        self.requests.clear()
        self.server.fault = lambda request: self.temporary[request.number % 6] if request.number in faulty else None
        runs = 4
        with File(url) as file:
            for _ in range(runs):
                self.assertEqual(bytes(file.plan()["t"]), data)
        print(f"{len(self.requests)} requests with faults, {runs * usual + 1} without")
        self.assertLessEqual(len(self.requests), 1.2 * (runs * usual + 1) + 2)

    def test_tries_are_limited_and_pause(self):
        url = self.serve(simple(MIB))
        self.server.fault = lambda request: "503"
        began = time.monotonic()
        self.expect(library.READ, "status 503", url, tries=3)
        self.assertEqual(len(self.requests), 3)
        self.assertGreaterEqual(time.monotonic() - began, 0.7)

    def test_a_server_that_restarts(self):
        """It refuses connections for a moment."""
        def restart(connection, request):
            self.server.restart(0.6)
            self.server.fault_reset_within(connection, request)
        url = self.serve(simple(4 * MIB))
        self.server.fault = lambda request: restart if request.number == 1 else None
        with File(url) as file:
            self.assertEqual(file.read("t"), data_of(4 * MIB))

    def test_a_server_that_is_not_there(self):
        url = self.serve(simple(4 * MIB))
        with File(url) as file:
            self.server.restart(3600)
            self.server.fault = lambda request: "reset"  # on the connection that is still open
            began = time.monotonic()
            with self.assertRaises(library.Failed) as caught:
                file.read("t")
            self.assertEqual(caught.exception.status, library.READ)
            self.assertGreaterEqual(time.monotonic() - began, 0.25 + 0.5 + 1 + 2)
        began = time.monotonic()
        self.expect(library.OPEN, "", url)
        self.assertLess(time.monotonic() - began, 0.25)

    def test_a_server_may_ask_for_a_pause(self):
        url = self.serve(simple(MIB))
        self.server.fault = lambda request: "429" if request.number == 0 else None
        began = time.monotonic()
        File(url).__exit__()
        self.assertGreaterEqual(time.monotonic() - began, 1)
        for seconds, shown in ((100_000, 100_000), (10**20, 1_000_000)):
            self.server.fault = lambda request: lambda connection, _: self.server.send(
                connection, 503, {"Content-Length": 0, "Retry-After": seconds})
            self.requests.clear()
            self.expect(library.READ, f"asks to wait for {shown} s", url)
            self.assertEqual(len(self.requests), 1)

    def test_a_cancelled_plan_finishes_its_range_with_all_tries(self):
        url = self.serve(simple(40 * MIB))
        for fault, status, requests in (("fault_503", library.READ, 3), ("correct", library.CANCELLED, 1)):
            self.server.fault = lambda request: None
            with File(url, tries=3) as file:
                self.requests.clear()

                def answer(connection, request):
                    ST.st_plan_cancel(file.running)
                    getattr(self.server, fault)(connection, request)
                self.server.fault = lambda request: answer
                with self.assertRaises(library.Failed) as caught:
                    file.plan(threads=1)
                self.assertEqual(caught.exception.status, status, caught.exception.message)
                self.assertEqual(len(self.requests), requests)

    def test_errors_that_are_not_temporary_are_not_repeated(self):
        url = self.serve(simple(MIB))
        for status in (400, 401, 403, 404, 410, 418, 501):
            self.requests.clear()
            self.server.fault = lambda request: lambda connection, _: self.server.send(connection, status, {"Content-Length": 0})
            self.expect(library.OPEN, f"status {status}", url)
            self.assertEqual(len(self.requests), 1)

    def test_a_proxy_that_refuses_is_asked_once(self):
        """Its password may be wrong, and an account may be locked after some tries. The server is a proxy here."""
        for status, requests in ((403, 1), (407, 1), (501, 1), (503, 2)):
            self.requests.clear()
            self.server.fault = lambda request: lambda connection, _: self.server.send(connection, status, {"Content-Length": 0})
            self.expect(library.READ if requests > 1 else library.OPEN, str(status), "https://example.com/m.safetensors?sig=topsecret",
                        proxy=f"http://user:topsecret@127.0.0.1:{self.server.port}".encode(), tries=2)
            self.assertEqual([request.method for request in self.requests], ["CONNECT"] * requests)

    def test_a_server_without_ranges(self):
        url = self.serve(simple(MIB))
        self.server.fault = lambda request: "whole"
        self.expect(library.UNSUPPORTED, "does not send ranges", url)
        with File(self.serve(simple(100_000), "/small.safetensors")) as file:  # which needs no range
            self.assertEqual(file.read("t"), data_of(100_000))
        self.server.fault = lambda request: "whole" if request.number != 3 else None
        self.requests.clear()
        self.server.fault = lambda request: "whole" if request.range[0] != 0 else None
        with File(url) as file:
            with self.assertRaises(library.Failed) as caught:
                file.read("t")
            self.assertEqual(caught.exception.status, library.READ)

    def test_an_interrupted_whole_file_begins_again(self):
        url = self.serve(simple(100_000))

        def half(connection, request):
            data = self.server.files[request.path]
            self.server.send(connection, 200, {"Content-Length": len(data)}, data[:50_000])
            raise Closed
        self.server.fault = lambda request: half if request.number == 0 else "whole" if request.number == 1 else None
        with File(url) as file:
            self.assertEqual(file.read("t"), data_of(100_000))
        self.assertEqual(self.ranges(), [(0, FIRST - 1)] * 2)

    def test_ranges_that_are_not_those_asked_for(self):
        url = self.serve(simple(MIB))
        size = len(self.server.files["/m.safetensors"])
        for change in ({"Content-Range": f"bytes 1-{FIRST}/{size}"}, {"Content-Range": f"bytes 0-{FIRST}/{size}"},
                       {"Content-Range": f"bytes 0-{FIRST - 1}/*"}, {"Content-Range": None}, {"Content-Range": "bytes x"},
                       {"Content-Range": f"bytes 0-{FIRST - 1}/{FIRST - 1}"}, {"Content-Range": f"bytes 5-4/{size}"},
                       {"Content-Range": f"bytes 0-99999999999999999999/{size}"}, {"Content-Encoding": "gzip"},
                       {"Content-Range": f"bytes 0-{FIRST - 1}/99999999999999999999999"}, {"Content-Length": FIRST - 1}):
            with self.subTest(change):
                self.server.fault = lambda request: lambda connection, _: self.server.correct(connection, request, change)
                self.expect(library.OPEN, "", url, tries=1)
        self.server.fault = lambda request: "more"
        self.expect(library.OPEN, "more bytes than", url)

    def test_a_size_that_is_a_lie_allocates_nothing(self):
        url = self.serve(simple(1000))
        self.server.fault = lambda request: lambda connection, _: self.server.correct(
            connection, request, {"Content-Range": f"bytes 0-{len(self.server.files[request.path]) - 1}/{2**63}"})
        self.expect(library.READ, "", url, tries=2)

    def test_the_unit_of_ranges_in_upper_case(self):
        data = simple(1000)
        url = self.serve(data)
        self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, {"Content-Range": f"Bytes 0-{len(data) - 1}/{len(data)}"})
        with File(url) as file:
            self.assertEqual(file.read("t"), data_of(1000))

    def test_a_header_without_a_value(self):
        url = self.serve(simple(1000))
        self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, {"Content-Encoding": ""})
        with File(url) as file:
            self.assertEqual(file.read("t"), data_of(1000))

    def test_less_than_asked_for_is_completed(self):
        url = self.serve(simple(MIB))

        def some(connection, request):
            first, last = request.range
            request.headers["range"] = f"bytes={first}-{first + (last - first) // 2}"
            self.server.correct(connection, request)
        self.server.fault = lambda request: some if request.number % 2 == 0 else None
        with File(url) as file:
            self.assertEqual(file.read("t"), data_of(MIB))

    def test_a_server_may_limit_the_length_of_ranges(self):
        data = data_of(8 * MIB)
        url = self.serve(model({"t": ((8 * MIB,), data)}))

        def some(connection, request):
            first, last = request.range
            request.headers["range"] = f"bytes={first}-{min(last, first + MIB - 1)}"
            self.server.correct(connection, request)
        self.server.fault = lambda request: some
        began = time.monotonic()
        with File(url) as file:
            self.assertEqual(file.read("t"), data)
        self.assertLess(len(self.requests), 11)
        self.assertLess(time.monotonic() - began, 2)  # without pauses

    def test_headers_that_occur_twice(self):
        url = self.serve(simple(MIB))
        size = len(self.server.files["/m.safetensors"])
        good = f"bytes 0-{FIRST - 1}/{size}"
        for more in (f"{good}\r\nContent-Range: x\r\nContent-Range: {good}", f"{good}\r\nContent-Encoding: gzip\r\nContent-Encoding: identity"):
            self.server.fault = lambda request: lambda connection, _: self.server.correct(connection, request, {"Content-Range": more})
            self.expect(library.OPEN, "", url, tries=1)

    def test_a_weak_etag_alone_says_nothing_about_bytes(self):
        for before, after in (({"Last-Modified": "yesterday"}, {"Last-Modified": "today"}), ({"Last-Modified": "yesterday"}, {})):
            url = self.serve(simple(4 * MIB))
            same = {"ETag": 'W/"1"'}
            self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, {**same, **before})
            with File(url) as file:
                self.serve(simple(4 * MIB, seed=3))
                self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, {**same, **after})
                with self.assertRaises(library.Failed) as caught:
                    file.plan()
                self.assertIn("has changed on the server", caught.exception.message)

    def test_a_server_whose_changes_would_go_unnoticed(self):
        for headers in ({"ETag": None}, {"ETag": 'W/"1"'}, {"ETag": '""'}, {"ETag": None, "Last-Modified": ""}):
            self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, headers)
            self.expect(library.UNSUPPORTED, "neither a strong ETag nor Last-Modified", self.serve(simple(MIB)))
            with File(self.serve(simple(1000))) as file:  # in one answer
                self.assertEqual(file.read("t"), data_of(1000))

    def test_files_that_are_not_kept_in_memory_must_show_their_changes(self):
        """All files together may take 64 MiB: what exceeds them is requested again."""
        names = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"]
        for i, name in enumerate(names):
            self.serve(simple(40 * MIB, f"t{i}"), "/models/" + name)
        url = self.serve(json.dumps({"weight_map": {f"t{i}": name for i, name in enumerate(names)}}).encode(),
                         "/models/m.safetensors.index.json")
        self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, {"ETag": None})
        with File(self.server.url("/models/" + names[0]), first_bytes=64 * MIB) as file:
            self.assertEqual(file.read("t0"), data_of(40 * MIB))
        self.expect(library.UNSUPPORTED, "neither a strong ETag nor Last-Modified", url, first_bytes=64 * MIB)

    def test_a_file_that_changes_is_an_error(self):
        new = simple(4 * MIB, seed=3)
        for kind in ("etag", "if-match", "length", "weak etag", "time", "no etag any more"):
            with self.subTest(kind):
                url = self.serve(simple(4 * MIB))
                self.server.etags.clear()
                self.server.fault = lambda request: None
                modified = {"ETag": None, "Last-Modified": "yesterday"}
                if kind == "weak etag":
                    self.server.etags["/m.safetensors"] = 'W/"1"'
                    self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, {"Last-Modified": "yesterday"})
                if kind == "time":
                    self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, dict(modified))
                with File(url) as file:
                    self.server.etags.clear()
                    self.server.files["/m.safetensors"] = new + (b"x" if kind == "length" else b"")
                    if kind != "if-match":  # the server ignores it
                        modified["Last-Modified"] = "today"
                        more = {"time": modified, "no etag any more": {"ETag": None}, "weak etag": {"ETag": 'W/"2"', "Last-Modified": "yesterday"}}.get(kind, {})

                        def answer(connection, request):
                            request.headers.pop("if-match", None)
                            self.server.correct(connection, request, more)
                        self.server.fault = lambda request: answer
                    with self.assertRaises(library.Failed) as caught:
                        file.plan()
                    self.assertEqual(caught.exception.status, library.READ, kind)
                    self.assertIn("has changed on the server", caught.exception.message)

    def test_a_file_that_changes_between_two_tries_of_its_first_bytes(self):
        url = self.serve(simple(MIB))

        def short(connection, request):
            try:
                self.server.fault_short(connection, request)
            finally:
                self.server.files["/m.safetensors"] = simple(MIB, seed=5)
                self.server.etags.clear()
        self.server.fault = lambda request: short if request.number == 0 else None
        self.expect(library.READ, "has changed", url)


class Redirects(ServerTest):
    def setUp(self):
        super().setUp()
        self.other = Server()
        self.addCleanup(self.other.stop)
        self.other.files["/blob"] = simple(4 * MIB)
        self.target = self.other.url("/blob", "?X-Signature=topsecret")
        self.url = self.server.url()
        self.server.fault = lambda request: redirect(self.target)
        self.headers = ["Authorization: Bearer topsecret"]

    def test_they_are_resolved_once(self):
        with File(self.url, headers=self.headers) as file:
            for _ in range(3):
                self.assertEqual(bytes(file.plan()["t"]), data_of(4 * MIB))
        self.assertEqual(len(self.requests), 1)

    def test_headers_go_to_the_own_origin_only(self):
        with File(self.url, headers=self.headers) as file:
            file.plan()
        self.assertTrue(all(r.headers["authorization"] == "Bearer topsecret" for r in self.requests))
        self.assertFalse(any("authorization" in r.headers for r in self.other.requests))
        self.assertGreater(len(self.other.requests), 1)

    def test_headers_do_not_come_back_with_a_redirect(self):
        self.server.files["/blob"] = simple(10)
        self.server.fault = lambda request: redirect(self.target) if request.path == "/m.safetensors" else None
        self.other.fault = lambda request: redirect(self.server.url("/blob"))
        File(self.url, headers=self.headers).__exit__()
        self.assertEqual(["authorization" in r.headers for r in self.requests], [True, False])

    def test_headers_follow_inside_the_origin(self):
        self.server.files["/there"] = simple(10)
        self.server.fault = lambda request: redirect("there?x=topsecret") if request.path == "/m.safetensors" else None
        File(self.url, headers=self.headers).__exit__()
        self.assertEqual(["authorization" in r.headers for r in self.requests], [True, True])
        self.assertEqual(self.requests[1].target, "/there?x=topsecret")

    def test_they_are_resolved_again_after_403(self):
        valid = ["1"]

        def sign(connection, request):
            redirect(self.other.url("/blob", f"?X-Signature=topsecret{valid[0]}"))(connection, request)
        self.server.fault = lambda request: sign
        self.other.fault = lambda request: None if request.target.endswith(valid[0]) else (
            lambda connection, _: self.other.send(connection, 403, {"Content-Length": 7}, b"expired"))
        data = data_of(64 * MIB)
        self.other.files["/blob"] = model({"t": ((64 * MIB,), data)})
        with File(self.url) as file:
            valid[0] = "2"
            self.assertEqual(bytes(file.plan()["t"]), data)
            # Every thread may have met the 403, but only one of them resolves.
            self.assertEqual(len(self.requests), 2)
            self.other.fault = lambda request: lambda connection, _: self.other.send(connection, 403, {"Content-Length": 0})
            self.requests.clear()
            with self.assertRaises(library.Failed) as caught:
                file.plan(threads=1)
            self.assertEqual(caught.exception.status, library.READ)
            self.assertEqual(len(self.requests), 1)

    def expires(self, etag, stated=(None, None)):
        """The redirect leads to /1, which expires within the file, and then to /2, which has the same ETag."""
        tensors = [data_of(24 * MIB, seed) for seed in (1, 2)]
        for i, tensor in enumerate(tensors):
            self.other.files[f"/{i + 1}"] = model({"t": ((24 * MIB,), tensor)})
            self.other.etags[f"/{i + 1}"] = etag
        now = [0]

        def lead(connection, _):
            self.server.send(connection, 302, {"Location": self.other.url(f"/{now[0] + 1}"), "X-Linked-ETag": stated[now[0]], "Content-Length": 0})

        def expired(connection, request):
            now[0] = 1
            self.other.send(connection, 403, {"Content-Length": 0})
        self.server.fault = lambda request: lead
        self.other.fault = lambda request: expired if request.path == "/1" and request.range[0] >= 8 * MIB else None
        with File(self.url) as file:
            self.assertEqual(file.read("t")[-MIB:], tensors[1][-MIB:])

    def test_another_target_is_another_version(self):
        digests = ['"%s"' % (digit * 64) for digit in "ab"]
        for stated in ((None, None), (digests[0], digests[1]), (digests[0], None), (None, digests[0])):
            for etag in ('"1-1000050"', '"%s"' % ("a" * 32)):  # Starlette's is the MD5 digest of time and size
                with self.assertRaises(library.Failed) as caught:
                    self.expires(etag, stated)
                self.assertEqual(caught.exception.status, library.READ)
                self.assertIn("has changed on the server: its URL leads to another file", caught.exception.message)

    def test_another_target_with_the_same_digest_is_the_same_version(self):
        self.expires('"1-1000050"', ('"%s"' % ("a" * 64),) * 2)

    def test_a_redirect_that_disappears(self):
        """The URL itself then serves another file with the same ETag and length."""
        self.other.fault = lambda request: lambda c, r: self.other.send(c, 404, {"Content-Length": 0}) if r.range[0] else self.other.correct(c, r)
        self.other.etags["/blob"] = self.server.etags["/m.safetensors"] = '"1-1000050"'
        self.serve(simple(4 * MIB, seed=3))
        self.server.fault = lambda request: None if request.number else redirect(self.target)
        with File(self.url) as file:
            with self.assertRaises(library.Failed) as caught:
                file.read("t")
            self.assertIn("has changed on the server: its URL leads to another file", caught.exception.message)

    def test_a_redirect_that_disappears_between_two_tries_of_the_first_bytes(self):
        self.other.fault = lambda request: "short"
        self.other.etags["/blob"] = self.server.etags["/m.safetensors"] = '"1-1000050"'
        self.serve(simple(4 * MIB, seed=3))
        self.server.fault = lambda request: None if request.number else redirect(self.target)
        self.expect(library.READ, "its URL leads to another file", self.url)

    def test_a_target_that_redirects_later(self):
        """Without an expiry: the target itself leads to another file."""
        for i in (1, 2):
            self.other.files[f"/{i}"] = simple(24 * MIB, seed=i)
            self.other.etags[f"/{i}"] = '"1-1000050"'
        self.server.fault = lambda request: redirect(self.other.url("/1"))
        self.other.fault = lambda request: redirect("/2") if request.path == "/1" and request.range[0] >= 8 * MIB else None
        with File(self.url) as file:
            with self.assertRaises(library.Failed) as caught:
                file.read("t")
            self.assertIn("has changed on the server", caught.exception.message)

    def test_threads_do_not_wait_for_one_another_after_403(self):
        valid = ["1"]
        self.server.fault = lambda request: redirect(self.other.url("/blob", f"?X-Signature=topsecret{valid[0]}"))
        self.other.fault = lambda request: None if request.target.endswith(valid[0]) else (
            lambda connection, _: self.other.send(connection, 403, {"Content-Length": 0}))
        data = data_of(128 * MIB)
        self.other.files["/blob"] = model({"t": ((128 * MIB,), data)})
        with File(self.url) as file:
            file.plan()
            self.other.delay = 0.3
            valid[0] = "2"
            began = time.monotonic()
            self.assertEqual(bytes(file.plan()["t"]), data)
            self.assertLess(time.monotonic() - began, 16 * 0.3)

    def test_one_origin_does_not_choose_headers_for_another(self):
        for etag in ('"a\rX-Injected: yes\rY: "', '"good"'):
            self.server.fault = lambda request: redirect(self.target)
            self.other.fault = lambda request: lambda c, r: self.other.correct(c, r, {"ETag": etag})
            with File(self.url, headers=self.headers) as file:
                self.requests.clear()
                self.other.fault = lambda request: lambda connection, _: self.other.send(connection, 403, {"Content-Length": 0})
                with self.assertRaises(library.Failed):
                    file.plan(threads=1)
                self.assertTrue(self.requests)
                self.assertFalse(any("if-match" in request.headers or "x-injected" in request.headers for request in self.requests))

    def test_targets_that_are_not_allowed(self):
        for to in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "dict://127.0.0.1:11211/x"):
            self.server.fault = lambda request: redirect(to)
            self.expect(library.UNSUPPORTED, "a redirect: URLs with the scheme", self.url)
        for to in ("http://user:topsecret@127.0.0.1/", "http://", "http://[", "http://a b/"):
            self.server.fault = lambda request: redirect(to)
            self.expect(library.OPEN, "", self.url, tries=1)

    def test_endless_redirects(self):
        self.server.fault = lambda request: redirect(f"/m.safetensors?topsecret={request.number}", body=b"x" * 10_000)
        self.expect(library.OPEN, "more than 5 redirects", self.url)
        self.assertEqual(len(self.requests), 6)
        self.assertEqual(self.server.connections, 1)

    def test_a_redirect_with_a_long_body(self):
        self.server.files["/there"] = simple(10)
        self.server.fault = lambda request: redirect("/there", body=b"x" * MIB) if request.path == "/m.safetensors" else None
        File(self.url).__exit__()


class Hostile(ServerTest):
    """Each costs bounded time and memory."""

    def setUp(self):
        super().setUp()
        self.url = self.serve(simple(MIB))
        self.began = time.monotonic()
        self.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def tearDown(self):
        self.assertLess(time.monotonic() - self.began, 30)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.memory
        self.assertLess(grown, 64 << 10, "KiB of memory")

    def test_an_endless_header(self):
        self.server.fault = lambda request: "endless_header"
        self.expect(library.OPEN, "", self.url)

    def test_an_endless_line_of_a_header(self):
        self.server.fault = lambda request: "endless_line"
        self.expect(library.OPEN, "", self.url)

    def test_endless_interim_responses(self):
        self.server.fault = lambda request: "endless_100"
        self.expect(library.OPEN, "", self.url)

    def test_a_slow_drip(self):
        self.server.fault = lambda request: "drip"
        self.expect(library.READ, "stalled", self.url, stall_ms=1000, tries=2, first_bytes=16384)

    def test_a_file_that_ends_one_byte_at_a_time(self):
        def one(connection, request):
            self.server.correct(connection, request, body=lambda part: part[:1])
            raise Closed
        self.server.fault = lambda request: one
        self.expect(library.READ, "ended early", self.url)
        self.assertEqual(len(self.requests), 5)

    def test_garbage(self):
        for text in (b"\0" * 1000, b"HTTP/9.9 206 X\r\n\r\n", b"SSH-2.0-x\r\n", b"HTTP/1.1 206 X\r\nContent-Length: -5\r\n\r\n"):
            def answer(connection, request):
                connection.sendall(text)
                raise Closed
            self.server.fault = lambda request: answer
            with self.assertRaises(library.Failed):
                File(self.url, tries=1)


if __name__ == "__main__":
    unittest.main()
