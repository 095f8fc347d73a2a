"""`safetensors fetch`: what arrives, what is sent again, and what remains if it ends early.

    fetch_test.py --kills N    kills N downloads at random points, and prints how many bytes were sent

SPDX-License-Identifier: Apache-2.0
"""
import base64
import hashlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from command import BAD_FILE, COMMAND, FIRST, MIB, SUCCESS, UNREADABLE, CommandTest, environment
from library import data_of, model, simple
from server import redirect

KILLS = 15


class FetchTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.new = self.folder / "new"

    def fetch(self, url, *words, **options):
        return self.run_command("fetch", url, self.new, *words, **options)

    def expect_files(self, files):
        """Compares digests, because unittest takes minutes to describe how megabytes differ."""
        def digests(contents):
            return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        self.assertEqual(digests(self.files_in(self.new)), digests(files))

    def start(self, url, **variables):
        return subprocess.Popen([COMMAND, "fetch", url, self.new], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=environment(**variables))

    def slow_down(self, bytes_per_second):
        self.server.piece = 64 << 10
        self.server.pause = self.server.piece / bytes_per_second

    def part(self, name="m.safetensors"):
        return self.new / ".safetensors-fetch" / (name + ".part")

    def wait_for_part(self, size, name="m.safetensors"):
        end = time.monotonic() + 60
        while not self.part(name).exists() or self.part(name).stat().st_size < size:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)

    def ended_early(self, url, size, by=signal.SIGKILL, name="m.safetensors", **variables):
        """Starts a slow download, and ends it when so many bytes are there. Returns what it has printed."""
        self.slow_down(20 * MIB)
        process = self.start(url, **variables)
        try:
            self.wait_for_part(size, name)
        finally:
            process.send_signal(by)
            output = b"".join(process.communicate(timeout=60))
        self.assertEqual(process.returncode, -by, output)
        self.server.pause = 0
        self.expect_files({})
        return output

    def shim(self, more="", **errors):
        """A library for LD_PRELOAD, in which the functions fail."""
        shim = self.folder / "shim.so"
        source = "#include <errno.h>\n" + "".join(f"int {name}() {{ errno = {error}; return -1; }}\n" for name, error in errors.items())
        compiler = os.environ.get("CC", "cc")
        if shutil.which(compiler) is None or sys.platform != "linux":
            self.skipTest("needs a C compiler and LD_PRELOAD")
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", shim], input=(source + more).encode(), check=True)
        return shim


class Complete(FetchTest):
    def test_a_file(self):
        data = simple(20 * MIB)
        out = self.fetch(self.serve(data))
        self.expect_files({"m.safetensors": data})
        self.assertIn(b"m.safetensors: 21.0 MB\n", out)
        self.assertEqual(self.server.bodies, len(data))
        self.assertEqual(os.listdir(self.new / ".safetensors-fetch").count("m.safetensors.part"), 0)

    def test_a_model(self):
        url, files = self.serve_model(3 * MIB)
        self.fetch(url)
        self.expect_files(files)
        self.assertEqual(self.server.bodies, sum(map(len, files.values())))
        self.run_command("verify", self.new)

    def test_a_note_on_an_old_index_that_hides_the_new_file(self):
        self.new.mkdir()
        (self.new / "m.safetensors.index.json").write_text("{}")
        result = subprocess.run([COMMAND, "fetch", self.serve(simple(10)), self.new], capture_output=True, env=environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"m.safetensors.index.json, not the new file\n", result.stderr)

    def test_a_second_run_sends_one_request_for_each_file(self):
        url, files = self.serve_model(3 * MIB)
        self.fetch(url)
        before = {name: (self.new / name).stat() for name in files}
        self.server.requests.clear()
        self.assertEqual(self.fetch(url).count(b"already there"), len(files))
        self.assertEqual(len(self.server.requests), len(files))
        self.assertEqual(before, {name: (self.new / name).stat() for name in files})

    def test_files_of_others_are_kept(self):
        url, files = self.serve_model(MIB)
        self.put({"m-00002-of-00003.safetensors": b"mine"}, "new")
        self.fetch(url, code=UNREADABLE, text="m-00002-of-00003.safetensors: already exists; --replace replaces it")
        self.expect_files({"m-00002-of-00003.safetensors": b"mine"})
        self.fetch(url, "--replace")
        self.expect_files(files)

    def test_a_file_that_was_edited(self):
        url = self.serve(simple(MIB))
        self.fetch(url)
        (self.folder / "in").write_bytes(bytes(MIB))
        self.run_command("set", self.new / "m.safetensors", "t", self.folder / "in")  # the length stays the same
        edited = self.files_in(self.new)
        self.fetch(url, code=UNREADABLE, text="already exists")
        self.expect_files(edited)
        self.fetch(url, "--replace")
        self.expect_files({"m.safetensors": simple(MIB)})

    def test_a_new_version(self):
        url, _ = self.serve_model(3 * MIB)
        self.fetch(url)
        url, files = self.serve_model(3 * MIB, seed=5)
        self.fetch(url, code=UNREADABLE, text="already exists")
        self.fetch(url, "--replace")
        self.expect_files(files)

    def test_a_server_without_etags(self):
        """Last-Modified identifies the version. A server that sends neither can serve short files only."""
        data = simple(MIB)
        url = self.serve(data)
        headers = {"ETag": None, "Last-Modified": "yesterday"}
        self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, headers)
        self.fetch(url)
        self.assertIn(b"already there", self.fetch(url))
        headers["Last-Modified"] = "today"
        self.fetch(url, code=UNREADABLE, text="already exists")
        headers["Last-Modified"] = None
        self.fetch(url, "--replace", code=2, text="neither a strong ETag nor Last-Modified")
        small = self.serve(simple(1000), "/small.safetensors")
        self.fetch(small)
        self.expect_files({"m.safetensors": data, "small.safetensors": simple(1000)})

    def test_faults_are_retried(self):
        url, files = self.serve_model(3 * MIB)
        faults = ("503", "reset_within", "short", "reset")
        self.server.fault = lambda request: faults[request.number // 2 % 4] if request.number % 2 else None
        self.fetch(url)
        self.expect_files(files)

    def test_names_that_lead_out_of_the_folder(self):
        for name in ("..%2Fm.safetensors", "a%2fm.safetensors", "%2e%2e%2fm", ".safetensors-fetch"):
            path = self.server.url("/x/" + name)
            self.server.fault = lambda request: lambda c, r: (setattr(r, "target", "/m.safetensors"), self.server.correct(c, r))
            self.serve(simple(10))
            self.fetch(path, code=BAD_FILE, text="is not the name of a file")
        self.assertEqual(os.listdir(self.folder), [])

    def test_names_that_clash(self):
        """Some file systems do not distinguish upper case."""
        for names in (("A.safetensors", "a.safetensors"), ("X.safetensors/a.safetensors", "x.safetensors")):
            weights = {f"t{i}": name for i, name in enumerate(names)}
            for i, name in enumerate(names):
                self.serve(simple(1000, f"t{i}"), "/models/" + name)
            url = self.serve(json.dumps({"weight_map": weights}).encode(), "/models/m.safetensors.index.json")
            self.fetch(url, code=BAD_FILE, text="clashes with another name")
        self.assertEqual(os.listdir(self.folder), [])

    def test_names_that_other_programs_would_obey(self):
        for name in (".Safetensors-Fetch/m.safetensors", ".ssh/m.safetensors", "a/.m.safetensors", ".m.safetensors", ".xsessionrc",
                     "authorized_keys", "a.safetensors/Makefile", "M.safetensors.index.json"):
            self.serve(simple(1000), "/models/" + name)
            url = self.serve(json.dumps({"weight_map": {"t": name}}).encode(), "/models/m.safetensors.index.json")
            self.fetch(url, code=BAD_FILE, text="is not the name of a shard")
        self.fetch(self.serve(simple(1000), "/.m.safetensors"), code=BAD_FILE, text="is not the name of a file")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_folder_below_others_that_are_missing(self):
        self.new = self.folder / "a" / "b" / "c"
        self.fetch(self.serve(simple(1000)))
        self.expect_files({"m.safetensors": simple(1000)})

    def test_long_names(self):
        """The file of the part has a longer name."""
        for length in (239, 240, 241, 255):
            name = ("x" * 255 + ".safetensors")[-length:]
            self.fetch(self.serve(simple(MIB), "/" + name))
            self.assertTrue((self.new / name).exists())
        self.fetch(self.serve(simple(MIB), "/" + "x" * 250 + ".safetensors"), code=UNREADABLE, text="File name too long")

    def test_shards_are_printed_in_order(self):
        url, files = self.serve_model(1000, 30)
        self.server.fault = lambda request: time.sleep(random.random() / 20)
        out = self.fetch(url).decode()
        self.assertEqual([line.partition(": ")[0] for line in out.splitlines()],  # the index is the last
                         [str(self.new / name) for name in sorted(files, key=lambda name: (name.endswith(".json"), name))])

    def test_subfolders_are_synced(self):
        url, _ = self.serve_model(1000)
        shim = self.shim("""
            #include <fcntl.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <unistd.h>
            int fsync(int fd) {
              char link[100], text[1000];
              snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
              ssize_t n = readlink(link, text, sizeof text - 1);
              text[n] = 10;
              int log = open(getenv("SYNCED"), O_WRONLY | O_CREAT | O_APPEND, 0666);
              n = write(log, text, n + 1);
              return close(log);
            }""")
        self.fetch(url, LD_PRELOAD=str(shim), SYNCED=str(self.folder / "synced"))
        synced = (self.folder / "synced").read_text().splitlines()
        self.assertEqual(synced[-2:], [str(self.new / "sub"), str(self.new)])

    def test_many_shards(self):
        """Their beginnings are kept in memory, up to 64 MiB. The others are requested again."""
        count, size = 530, 130_000
        url, files = self.serve_model(size, count)
        self.fetch(url)
        self.expect_files(files)
        extra = len(self.server.requests) - len(files)
        self.assertGreater(extra, 0)
        self.assertLess(extra, count - (64 * MIB // size) + 20)

    def test_a_bar_on_a_terminal(self):
        self.slow_down(4 * MIB)
        controller, terminal = os.openpty()
        process = subprocess.Popen([COMMAND, "fetch", self.serve(simple(5 * MIB)), self.new], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=terminal, env=environment(COLUMNS="120"))
        os.close(terminal)
        text = b""
        while select.select([controller], [], [], 60)[0]:
            try:
                text += os.read(controller, 1000)
            except OSError:
                break
        os.close(controller)
        self.assertEqual(process.wait(), SUCCESS)
        self.assertRegex(text, rb"fetching \[=+ +\] +\d+% .* of 5\.\d MB, .*/s")


class Versions(FetchTest):
    def test_two_urls_with_one_etag_are_two_files(self):
        one = simple(2 * MIB)
        two = one[:-MIB] + bytes(MIB)
        urls = [self.serve(one, "/a/m.safetensors"), self.serve(two, "/b/m.safetensors")]
        for path in ("/a/m.safetensors", "/b/m.safetensors"):
            self.server.etags[path] = '"1-2"'
        self.fetch(urls[0])
        self.fetch(urls[1], code=UNREADABLE, text="already exists")
        self.assertNotIn(b"already there", self.fetch(urls[1], "--replace"))
        self.expect_files({"m.safetensors": two})
        (self.new / "m.safetensors").unlink()
        self.ended_early(urls[0], MIB)
        self.fetch(urls[1])
        self.expect_files({"m.safetensors": two})

    def test_a_redirect_that_leads_to_another_file(self):
        """Both have the same ETag. A part of one must not be continued with the other."""
        for etag in ('"1-1000050"', '"%s"' % ("a" * 32)):  # Starlette's is the MD5 digest of time and size
            self.lead_to_another_file(etag)
            shutil.rmtree(self.new)

    def test_versions_that_differ_in_a_byte_that_is_not_ascii(self):
        for header, before, after in (("ETag", '"v\xff1"', '"v\xfe1"'), ("Last-Modified", "\xff", "\xfe")):
            self.serve(simple(8 * MIB, seed=1))
            headers = {"ETag": None, header: before}

            def answer(connection, request):
                request.headers.pop("if-match", None)
                self.server.correct(connection, request, headers)
            self.server.fault = lambda request: answer
            url = self.server.url()
            self.ended_early(url, 2 * MIB)
            data = simple(8 * MIB, seed=2)
            self.serve(data)
            headers[header] = after
            self.fetch(url)
            self.expect_files({"m.safetensors": data})
            shutil.rmtree(self.new)

    def lead_to_another_file(self, etag):
        files = {"/v1": simple(16 * MIB, seed=1), "/v2": simple(16 * MIB, seed=2)}
        for path, data in files.items():
            self.serve(data, path)
            self.server.etags[path] = etag
        now = ["/v1"]
        self.server.fault = lambda request: redirect(now[0]) if request.path == "/latest.safetensors" else None
        url = self.server.url("/latest.safetensors")
        self.ended_early(url, 4 * MIB, name="latest.safetensors")
        now[0] = "/v2"
        self.fetch(url)
        self.expect_files({"latest.safetensors": files["/v2"]})
        now[0] = "/v1"
        self.fetch(url, code=UNREADABLE, text="already exists")

    def test_a_folder_for_parts_that_others_may_write_to(self):
        url = self.serve(simple(MIB))
        parts = self.new / ".safetensors-fetch"
        parts.mkdir(parents=True)
        parts.chmod(0o777)
        self.fetch(url, code=UNREADABLE, text="only this user may write to")
        parts.rmdir()
        (self.folder / "elsewhere").mkdir()
        parts.symlink_to(self.folder / "elsewhere")
        self.fetch(url, code=UNREADABLE, text="only this user may write to")
        self.assertEqual(os.listdir(self.folder / "elsewhere"), [])

    def test_the_mode_of_a_file_stays(self):
        url = self.serve(simple(MIB))
        self.put({"m.safetensors": b"old"}, "new")
        (self.new / "m.safetensors").chmod(0o600)
        self.fetch(url, "--replace")
        self.assertEqual((self.new / "m.safetensors").stat().st_mode & 0o777, 0o600)

    def test_the_modes_of_a_model_stay(self):
        url, files = self.serve_model(MIB)
        self.put({name: b"old" for name in files}, "new")
        for name in files:
            (self.new / name).chmod(0o660)
        self.fetch(url, "--replace")
        self.assertEqual({(self.new / name).stat().st_mode & 0o7777 for name in files}, {0o660})

    def test_an_index_that_stays_while_its_shards_change(self):
        url, files = self.serve_model(MIB)
        self.fetch(url)
        name = "m-00001-of-00003.safetensors"
        self.server.etags["/models/" + name] = '"another"'
        self.server.files["/models/" + name] = files[name][:-1] + b"\xff"
        out = self.fetch(url, "--replace")
        self.assertEqual(out.count(b"already there"), len(files) - 2)  # the index is put back
        self.expect_files({**files, name: files[name][:-1] + b"\xff"})


class SharedFolders(FetchTest):
    """Other users may be able to write to the folder, or to the folder of parts."""

    def hold(self, name):
        """The server sends the first bytes of this file, and the others after an event. Returns the event."""
        event = threading.Event()
        self.addCleanup(event.set)

        def wait(connection, request):
            event.wait(60)
            self.server.correct(connection, request)
        self.server.fault = lambda request: wait if name in request.path and request.range[0] else None
        return event

    def test_the_folder_of_parts_is_exchanged(self):
        """A part of the new folder leads to a file of this user, whose access rights must stay as they are."""
        url, files = self.serve_model(MIB)
        first, second, third, index = files
        self.put({name: b"old" for name in files}, "new")
        for name in files:
            (self.new / name).chmod(0o666)
        secret = self.folder / "secret"
        secret.write_bytes(b"private")
        secret.chmod(0o600)
        event = self.hold("m-00002")
        process = subprocess.Popen([COMMAND, "fetch", "--replace", url, self.new], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        self.wait_for_part(len(files[first]), first)
        parts = self.new / ".safetensors-fetch"
        parts.rename(self.new / "moved")
        parts.mkdir()
        (parts / (first + ".part")).symlink_to(secret)
        event.set()
        out = process.communicate(timeout=60)
        self.assertEqual(process.returncode, SUCCESS, out)
        self.assertEqual(secret.stat().st_mode & 0o777, 0o600)
        self.assertFalse((self.new / first).is_symlink())
        self.assertEqual((self.new / first).read_bytes(), files[first])

    def test_a_folder_of_shards_that_is_a_link(self):
        url, files = self.serve_model(MIB)
        outside = self.put({"a b+ü%2F.safetensors": b"mine"}, "outside")
        self.new.mkdir()
        (self.new / "sub").symlink_to(outside)
        self.fetch(url, "--replace", code=UNREADABLE, text="new/sub: ")
        self.assertEqual(self.files_in(outside), {"a b+ü%2F.safetensors": b"mine"})

    def test_files_that_appear_during_the_download(self):
        url, files = self.serve_model(MIB)
        for name in ("m.safetensors.index.json", "m-00001-of-00003.safetensors"):
            event = self.hold("m-00002")
            process = self.start(url)
            self.wait_for_part(1, "m-00002-of-00003.safetensors")
            (self.new / name).write_bytes(b"mine")
            event.set()
            self.assertIn(b"already exists", process.communicate(timeout=60)[1])
            self.assertEqual(process.returncode, UNREADABLE)
            self.expect_files({name: b"mine"})
            (self.new / name).unlink()

    def test_a_file_that_appears_on_a_file_system_without_links(self):
        """Neither link() nor the rename that replaces nothing is there."""
        shim = self.shim(link="EPERM", linkat="EPERM", renameat2="EINVAL")
        data = simple(MIB)
        url = self.serve(data)
        self.fetch(url, LD_PRELOAD=str(shim))
        self.expect_files({"m.safetensors": data})
        (self.new / "m.safetensors").unlink()

        def appear(connection, request):
            (self.new / "m.safetensors").write_bytes(b"mine")
            self.server.correct(connection, request)
        self.server.fault = lambda request: appear if request.range[0] else None
        self.fetch(url, code=UNREADABLE, text="already exists", LD_PRELOAD=str(shim))
        self.expect_files({"m.safetensors": b"mine"})

    def test_a_folder_for_parts_that_a_group_may_write_to(self):
        url = self.serve(simple(MIB))
        parts = self.new / ".safetensors-fetch"
        parts.mkdir(parents=True)
        parts.chmod(0o770)
        self.fetch(url, code=UNREADABLE, text="only this user may write to: delete it")

    def test_parts_and_records_of_others(self):
        """Left from a time when others could write to the folder: they are dropped."""
        data = simple(4 * MIB)
        url = self.serve(data)
        wrong = data[:-1] + b"x"

        def link(path):
            os.link(path, self.folder / "another name")

        def fifo(path):
            path.unlink()
            os.mkfifo(path)

        def give(path):
            os.chown(path, 1002, 1002)
        changes = [lambda path: path.chmod(0o620), lambda path: path.chmod(0o602), link, fifo]
        if os.geteuid() == 0:
            changes.append(give)
        for change in changes:
            for suffix in (".part", ".version"):
                self.ended_early(url, MIB)
                self.part().write_bytes(wrong)
                change(self.part().with_suffix(suffix))
                self.fetch(url)
                self.expect_files({"m.safetensors": data})
                (self.new / "m.safetensors").unlink()
                (self.folder / "another name").unlink(missing_ok=True)
        self.ended_early(url, MIB)
        (self.new / ".safetensors-fetch" / "lock").chmod(0o666)
        self.fetch(url, code=UNREADABLE, text="/.safetensors-fetch: contains files that are not this user's: delete it")

    def test_a_part_that_has_the_name_of_the_file(self):
        """The process was killed when it had linked the part to its name. Then a program edits the file."""
        data = simple(MIB)
        url = self.serve(data)
        self.fetch(url)
        os.link(self.new / "m.safetensors", self.part())
        (self.folder / "in").write_bytes(bytes(MIB))
        self.run_command("set", self.new / "m.safetensors", "t", self.folder / "in")
        self.fetch(url, code=UNREADABLE, text="already exists")
        self.fetch(url, "--replace")
        self.expect_files({"m.safetensors": data})

    def test_a_file_system_without_modes(self):
        """All files show the same owner and mode, and no other can be set."""
        data = simple(16 * MIB)
        url = self.serve(data)
        source = """
            #include <sys/stat.h>
            #include <sys/syscall.h>
            #include <unistd.h>
            int fchmod(int fd, mode_t mode) {
              errno = EPERM;
              return -1;
            }
            int fstat(int fd, struct stat* status) {
              const int result = syscall(SYS_fstat, fd, status);
              CHANGE;
              return result;
            }
            int fstat64(int fd, void* status) { return fstat(fd, status); }
            """
        for change in ("status->st_mode |= 0777", "status->st_uid = geteuid() + 1"):
            shim = str(self.shim(source.replace("CHANGE", change)))
            self.ended_early(url, 4 * MIB, LD_PRELOAD=shim)
            have = self.part().stat().st_size
            self.server.requests.clear()
            self.fetch(url, LD_PRELOAD=shim)
            self.expect_files({"m.safetensors": data})
            self.assertEqual([request.range[0] for request in self.server.requests], [0, have])
            self.assertIn(b"already there", self.fetch(url, LD_PRELOAD=shim))
            shutil.rmtree(self.new)

    @unittest.skipIf(os.geteuid() != 0, "needs files of another user")
    def test_a_file_of_another_user_in_a_sticky_folder(self):
        url, files = self.serve_model(MIB)
        name = "m-00002-of-00003.safetensors"
        old = {name: b"theirs", "m-00001-of-00003.safetensors": b"mine"}
        self.put(old, "new")
        self.new.chmod(0o1777)
        os.chown(self.new / name, 1002, 1002)
        self.server.requests.clear()
        self.fetch(url, "--replace", code=UNREADABLE, text="belongs to user 1002, in a sticky directory")
        self.expect_files(old)
        self.assertEqual(len(self.server.requests), len(files))  # it is found out before the download

    def test_the_mode_of_new_files(self):
        url = self.serve(simple(MIB))
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        self.fetch(url)
        self.assertEqual((self.new / "m.safetensors").stat().st_mode & 0o777, 0o640)


class Digests(FetchTest):
    def answer(self, headers):
        self.server.fault = lambda request: lambda c, r: self.server.correct(c, r, headers)

    def test_a_digest_that_matches(self):
        data = simple(3 * MIB)
        digest = hashlib.sha256(data)
        url = self.serve(data)
        for headers in ({"X-Linked-ETag": f'"{digest.hexdigest()}"'}, {"Repr-Digest": f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"}):
            self.answer(headers)
            self.assertIn(b"SHA-256 matches", self.fetch(url, "--replace"))
            self.expect_files({"m.safetensors": data})
            (self.new / "m.safetensors").unlink()

    def test_a_digest_that_does_not_match(self):
        url, files = self.serve_model(MIB)
        self.answer({"X-Linked-ETag": '"%s"' % ("0" * 64)})
        self.fetch(url, code=BAD_FILE, text="the server states " + "0" * 64)
        self.expect_files({})
        self.server.fault = lambda request: None
        self.fetch(url)
        self.expect_files(files)

    def test_bytes_that_are_wrong_are_requested_again(self):
        data = simple(MIB)
        url = self.serve(data)
        digest = hashlib.sha256(data).hexdigest()
        self.answer({"X-Linked-ETag": f'"{digest}"'})
        self.server.etags["/m.safetensors"] = '"1"'  # is the same for both
        self.server.files["/m.safetensors"] = data[:-1] + b"x"
        self.fetch(url, code=BAD_FILE, text="SHA-256")
        self.assertFalse(self.part().exists())
        self.server.files["/m.safetensors"] = data
        self.fetch(url)
        self.expect_files({"m.safetensors": data})


class EndedEarly(FetchTest):
    def test_the_rest_is_requested(self):
        data = simple(16 * MIB)
        url = self.serve(data)
        self.ended_early(url, 6 * MIB)
        have = self.part().stat().st_size
        self.assertTrue(self.part().read_bytes() == data[:have])
        self.server.requests.clear()
        self.server.bodies = 0
        self.fetch(url)
        self.expect_files({"m.safetensors": data})
        self.assertEqual([request.range[0] for request in self.server.requests], [0, have])
        self.assertLessEqual(self.server.bodies, FIRST + len(data) - have + 4 * self.server.piece)  # some of the first run
        self.assertEqual(self.server.requests[1].headers["if-match"], self.server.etag("/m.safetensors"))

    def test_ctrl_c(self):
        url = self.serve(simple(16 * MIB))
        output = self.ended_early(url, 2 * MIB, by=signal.SIGINT)
        self.assertEqual(output, b"safetensors: interrupted; to continue, run the same command again\n")
        self.fetch(url)
        self.expect_files({"m.safetensors": simple(16 * MIB)})

    def test_ctrl_c_while_the_server_is_silent(self):
        url = self.serve(simple(MIB))
        self.server.fault = lambda request: "silence" if request.number else None
        process = self.start(url)
        self.wait_for_part(FIRST)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertLess(time.monotonic() - began, 10)

    def test_a_file_that_has_changed_starts_over(self):
        url = self.serve(simple(16 * MIB))
        self.ended_early(url, 4 * MIB)
        data = simple(16 * MIB, seed=9)
        self.serve(data)
        self.server.requests.clear()
        self.fetch(url)
        self.expect_files({"m.safetensors": data})
        self.assertEqual([request.range[0] for request in self.server.requests], [0, FIRST])

    def test_a_file_that_changes_meanwhile(self):
        url = self.serve(simple(16 * MIB))
        new = simple(16 * MIB, seed=9)

        def changed(connection, request):
            self.server.fault_short(connection, request) if request.number == 1 else self.server.correct(connection, request)
        self.server.fault = lambda request: self.serve(new) and None if request.number == 2 else changed
        self.fetch(url, code=UNREADABLE, text="has changed on the server")
        self.expect_files({})
        self.server.fault = lambda request: None
        self.fetch(url)
        self.expect_files({"m.safetensors": new})

    def test_a_part_that_could_not_be_synced_is_dropped(self):
        """Linux reports an error of writing once."""
        data = simple(MIB)
        url = self.serve(data)
        self.fetch(url, code=UNREADABLE, text="Input/output error", LD_PRELOAD=str(self.shim(fsync="EIO", fdatasync="EIO")))
        self.server.requests.clear()
        self.fetch(url)
        self.expect_files({"m.safetensors": data})
        self.assertEqual([request.range[0] for request in self.server.requests], [0, FIRST])

    def test_a_part_that_is_not_what_its_record_says(self):
        data = simple(8 * MIB)
        url = self.serve(data)
        for content, record in ((data + b"x", None), (b"x" * 1000, ""), (b"x" * 1000, "{\n\n"), (b"x" * 1000, "\0" * 100)):
            self.ended_early(url, MIB)
            self.part().write_bytes(content)
            if record is not None:
                self.part().with_suffix(".version").write_text(record)
            self.fetch(url)
            self.expect_files({"m.safetensors": data})
            (self.new / "m.safetensors").unlink()

    def test_a_model_gets_no_name_before_all_is_there(self):
        url, files = self.serve_model(4 * MIB)
        self.server.fault = lambda request: "404" if "00002" in request.path and request.range[0] else None
        self.server.fault_404 = lambda connection, request: self.server.send(connection, 404, {"Content-Length": 0})
        self.fetch(url, code=UNREADABLE, text="status 404")
        self.expect_files({})
        self.server.fault = lambda request: None
        self.fetch(url)
        self.expect_files(files)

    def test_killed_while_the_files_get_their_names(self):
        """All parts are complete, and some have their names."""
        url, files = self.serve_model(4 * MIB)
        self.fetch(url)
        first, second, third, index = files
        (self.new / third).rename(self.part(third.replace("%", "%25").replace("/", "%2F")))
        (self.new / index).rename(self.part(index))
        os.link(self.new / first, self.part(first))
        self.server.bodies = 0
        self.assertEqual(self.fetch(url).count(b"already there"), 2)
        self.expect_files(files)
        self.assertEqual(self.server.bodies, 3 * FIRST + len(files[index]))
        self.assertEqual(list(self.new.glob(".safetensors-fetch/*.part")), [])

    def test_two_at_once(self):
        url = self.serve(simple(16 * MIB))
        self.slow_down(8 * MIB)
        first = self.start(url)
        self.wait_for_part(MIB)
        self.fetch(url, code=UNREADABLE, text="another fetch is writing to this folder")
        first.communicate(timeout=60)
        self.assertEqual(first.returncode, SUCCESS)
        self.expect_files({"m.safetensors": simple(16 * MIB)})

    def test_killed_at_random_points(self):
        """Each download is killed once and run again. All bytes that the server sends for both count."""
        chance = random.Random(KILLS)
        # On a busy machine, each of 16 connections loses a full receive buffer of the system: 4 MB in all.
        url, files = self.serve_model(48 * MIB, seed=3)
        total = sum(map(len, files.values()))
        self.slow_down(60 * MIB)
        ratios, with_part = [], 0
        for _ in range(KILLS):
            self.server.bodies = 0
            process = self.start(url)
            time.sleep(chance.uniform(0, 0.9))
            process.kill()
            process.communicate()
            with_part += any(path.stat().st_size for path in self.new.glob(".safetensors-fetch/*.part"))
            found = self.files_in(self.new)
            self.assertTrue(found.items() <= files.items())
            if "m.safetensors.index.json" in found:
                self.expect_files(files)
            self.fetch(url)
            self.expect_files(files)
            ratios.append(self.server.bodies / total)
            self.run_command("verify", self.new)
            for path in sorted(self.new.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        print(f"{KILLS} kills, {with_part} within the download: {min(ratios):.3f} to {max(ratios):.3f} times the bytes, "
              f"{sum(ratios) / len(ratios):.3f} on average")
        self.assertGreater(with_part, KILLS // 2)
        self.assertLessEqual(max(ratios), 1.05)


if __name__ == "__main__":
    if "--kills" in sys.argv:
        at = sys.argv.index("--kills")
        KILLS = int(sys.argv[at + 1])
        sys.argv[at:] = ["EndedEarly.test_killed_at_random_points"]
    unittest.main()
