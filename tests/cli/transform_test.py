"""Tests `split`, `merge`, `rename` and `extract --filter`: their files, errors and interruptions.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from sample import COMMAND, file_bytes, interfered, needs_interference, run

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "conformance"
LAYERS = [(f"model.layers.{i}.weight", "F32", [16, 16], 1024) for i in range(6)] + [
    (f"model.layers.{i}.bias", "BF16", [16], 32) for i in range(6)]


def random_data(tensors, seed=1):
    return random.Random(seed).randbytes(sum(size for *_, size in tensors))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_transform_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return str(self.folder / name)

    def model(self, name="model.safetensors", tensors=LAYERS, metadata=None, data=None):
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(file_bytes(tensors, metadata, random_data(tensors) if data is None else data))
        return self.path(name)

    def content(self, name):
        return (self.folder / name).read_bytes()

    def names(self, name):
        return sorted(path.name for path in (self.folder / name).iterdir())

    def ok(self, *arguments):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
        return result.stdout.decode()

    def refused(self, code, *arguments):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, b""), arguments)
        self.assertRegex(result.stderr.decode(), r"\Asafetensors: [^\n]+\n\Z")
        return result.stderr.decode()

    def shown(self, name):
        return json.loads(self.ok("show", self.path(name), "--json"))


class SplitAndMerge(Case):
    def test_the_shards_and_their_index(self):
        path = self.model(metadata={"format": "pt", "title": "A model"})
        self.assertEqual(self.ok("split", path, self.path("shards"), "--max-size", "3KB"), "")
        self.assertEqual(self.names("shards"), ["model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                                "model-00003-of-00003.safetensors", "model.safetensors.index.json"])
        index = json.loads(self.content("shards/model.safetensors.index.json"))
        self.assertEqual(index["metadata"], {"format": "pt", "title": "A model", "total_size": 6 * 1056})
        self.assertEqual(list(index["weight_map"]), sorted(name for name, *_ in LAYERS))
        self.assertEqual(index["weight_map"]["model.layers.4.weight"], "model-00003-of-00003.safetensors")
        self.assertEqual(self.shown("shards/model-00002-of-00003.safetensors")["metadata"], {"format": "pt"})

    def test_split_then_merge_gives_the_same_bytes(self):
        """Every file of the corpus, as the reference's writer produces it, at several shard sizes."""
        same = 0
        for path in sorted((CORPUS / "files").iterdir()) + sorted((CORPUS / "writer").glob("*.safetensors")):
            if path.stat().st_size > 100_000 or run("show", str(path), "--json").returncode != 0:
                continue
            self.ok("convert", str(path), self.path("plain.safetensors"), "--replace")
            for size in ("1B", "64B", "5GB"):
                self.ok("split", self.path("plain.safetensors"), self.path("shards"), "--max-size", size, "--name", "part")
                self.ok("merge", self.path("shards"), self.path("back.safetensors"), "--replace")
                self.assertEqual(self.content("back.safetensors"), self.content("plain.safetensors"), (path.name, size))
                shutil.rmtree(self.path("shards"))
                same += 1
            if same >= 150:
                break
        self.assertGreaterEqual(same, 100)

    def test_keys_that_an_index_has_of_its_own_are_kept(self):
        for metadata in ({}, {"total_size": "7"}, {"total_size": "seven"}, {"total_parameters": "3", "format": "np"}):
            path = self.model(metadata=metadata)
            self.ok("split", path, self.path("shards"), "--max-size", "2KB")
            self.ok("merge", self.path("shards/model.safetensors.index.json"), self.path("back.safetensors"), "--replace")
            self.assertEqual(self.shown("back.safetensors")["metadata"], metadata)
            self.assertEqual(b"__metadata__" in self.content("back.safetensors"), True)
            shutil.rmtree(self.path("shards"))

    def test_a_model_that_fits_is_one_file_without_an_index(self):
        path = self.model("small.safetensors", metadata={"format": "pt"})
        self.ok("split", path, self.path("out"))
        self.assertEqual(self.names("out"), ["small.safetensors"])
        self.assertEqual(self.content("out/small.safetensors"), self.content("small.safetensors"))

    def test_splitting_shards_anew(self):
        self.ok("split", self.model(), self.path("a"), "--max-size", "1KB")
        self.ok("split", self.path("a"), self.path("b"), "--max-size", "4KB")
        self.assertEqual(len(self.names("b")), 3)
        self.ok("merge", self.path("b"), self.path("back.safetensors"))
        self.assertEqual(self.content("back.safetensors"), self.content("model.safetensors"))

    def test_words_in_brackets_are_not_split(self):
        """CLI11 would parse such words as lists."""
        a = self.model("[a,b]", LAYERS[:3], {"format": "pt"})
        b = self.model("[b]", LAYERS[3:6])
        (self.folder / "SUMS").write_bytes(subprocess.run(["sha256sum", "[a,b]", "[b]"], cwd=self.folder, capture_output=True, check=True).stdout)
        def ok(*arguments):
            result = run(*arguments, cwd=self.folder)
            self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
            return result.stdout.decode()
        self.assertEqual(ok("hash", "[a,b]", "[b]"), (self.folder / "SUMS").read_text())
        self.assertEqual(ok("verify", "[a,b]", "[b]", "--against", "SUMS").count(": valid"), 2)
        ok("merge", "[a,b]", "[b]", "all.safetensors")
        self.assertEqual(self.shown("all.safetensors")["total"]["tensors"], 6)
        ok("meta", "all.safetensors", "set", "[k,l]=[1,2]")
        self.assertEqual(self.shown("all.safetensors")["metadata"], {"format": "pt", "[k,l]": "[1,2]"})
        self.assertEqual(ok("meta", "all.safetensors", "get", "[k,l]"), "[1,2]\n")
        ok("meta", "all.safetensors", "rm", "[k,l]")
        self.assertEqual(self.shown("all.safetensors")["metadata"], {"format": "pt"})
        self.assertNotIn(b"u0000", run("show", a, b).stderr)

    def test_several_files_become_one(self):
        a = self.model("a.safetensors", LAYERS[:3], {"format": "pt", "from": "a"})
        b = self.model("b.safetensors", LAYERS[3:6], {"format": "pt", "from": "b"})
        result = run("merge", a, b, self.path("all.safetensors"))
        self.assertEqual(result.returncode, 0)
        self.assertIn("metadata key from is dropped", result.stderr.decode())
        shown = self.shown("all.safetensors")
        self.assertEqual((shown["total"]["tensors"], shown["metadata"]), (6, {"format": "pt", "from": "a"}))
        name = json.loads(run("show", "--json", a).stdout)["tensors"][0]["name"]
        self.assertIn(f"two tensors are named {name}: one in {a} and one in {self.path('all.safetensors')}",
                      self.refused(2, "merge", a, self.path("all.safetensors"), self.path("twice.safetensors")))
        self.assertFalse(os.path.exists(self.path("twice.safetensors")))

    def test_what_exists_is_not_replaced_by_shards(self):
        path = self.model()
        for name in ("model.safetensors.index.json", "model-00002-of-00007.safetensors"):
            os.mkdir(self.path("shards"))
            (self.folder / "shards" / name).write_text("mine")
            self.assertIn("already exists", self.refused(3, "split", path, self.path("shards"), "--max-size", "1KB"))
            self.assertEqual(self.names("shards"), [name])
            self.assertEqual((self.folder / "shards" / name).read_text(), "mine")
            shutil.rmtree(self.path("shards"))

    def test_an_output_that_is_read_is_refused(self):
        self.ok("split", self.model(), self.path("s"), "--max-size", "2KB")
        shard = self.path("s/" + self.names("s")[0])
        before = pathlib.Path(shard).read_bytes()
        self.assertIn("is also an input", self.refused(2, "merge", self.path("s"), shard))
        self.assertEqual(pathlib.Path(shard).read_bytes(), before)

    def test_a_dry_run_writes_nothing(self):
        path = self.model()
        out = self.ok("split", path, self.path("shards"), "--max-size", "3KB", "--dry-run")
        self.assertEqual(out.splitlines()[0], f"{self.path('shards')}/model-00001-of-00003.safetensors: 2 tensors, 2.0 kB")
        self.assertEqual(out.splitlines()[-1], f"{self.path('shards')}/model.safetensors.index.json: the index")
        self.assertIn("12 tensors", self.ok("merge", path, self.path("out.safetensors"), "--dry-run"))
        self.assertEqual(os.listdir(self.folder), ["model.safetensors"])

    def test_a_dry_run_fails_as_the_run_does(self):
        path = self.model()
        four = self.model("four.safetensors", [("a", "F4", [2], 1)])
        self.ok("split", path, self.path("shards"), "--max-size", "3KB")
        self.model("out.safetensors")
        before = sorted(self.folder.rglob("*"))
        bt = self.path("out.bt")
        for code, words in ((3, ["split", path, self.path("shards"), "--max-size", "3KB"]), (3, ["merge", path, "OUT"]), (3, ["rename", path, "model", "m", "OUT"]),
                            (3, ["cast", path, "OUT", "--to", "f16"]), (3, ["extract", path, "OUT", "--filter", "*.0.*"]),
                            (3, ["cast", self.path("shards"), self.path("shards"), "--to", "f16"]), (2, ["merge", self.path("shards"), self.path("shards/model-00001-of-00003.safetensors")]),
                            (2, ["merge", four, bt]), (2, ["cast", four, bt, "--to", "f16"]), (2, ["extract", four, bt, "--filter", "a"]),
                            (2, ["rename", path, "model.layers.0.weight", "__metadata__", self.path("new.safetensors")])):
            words = [self.path("out.safetensors") if word == "OUT" else word for word in words]
            wanted, dry = run(*words), run(*words, "--dry-run")
            self.assertEqual((wanted.returncode, dry.returncode, dry.stderr), (code, code, wanted.stderr), words)
            self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_parents_of_a_new_folder_are_made_and_removed_again(self):
        path = self.model()
        self.ok("split", path, self.path("a/b/c/"), "--max-size", "3KB")
        self.assertEqual(len(self.names("a/b/c")), 4)
        shutil.rmtree(self.path("a"))
        result = run("cast", path, self.path("a/b"), "--to", "f64", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        self.assertEqual((result.returncode, os.listdir(self.folder)), (3, ["model.safetensors"]), result.stderr)

    def test_names_of_shards_that_are_none(self):
        path = self.model()
        for name in ("../up", "a/b", "a\\b", "..", ".", b"a\xff", b"\xed\xa0\x80"):
            self.assertIn("--name", self.refused(2, "split", path, self.path("shards"), "--max-size", "3KB", "--name", name))
        self.assertEqual(os.listdir(self.folder), ["model.safetensors"])
        self.ok("split", path, self.path("shards"), "--max-size", "3KB", "--name", "größer…")
        self.assertIn("größer…-00001-of-00003.safetensors", self.names("shards"))

    def test_a_model_whose_name_no_index_can_hold(self):
        path = os.fsencode(self.model()).replace(b"model.safetensors", b"a\xff.safetensors")
        os.rename(self.path("model.safetensors"), path)
        self.assertIn("not UTF-8", self.refused(2, "split", path, self.path("shards"), "--max-size", "3KB"))
        self.assertFalse(os.path.exists(self.path("shards")))
        self.ok("split", path, self.path("shards"), "--max-size", "3KB", "--name", "a")

    def test_sizes_that_are_none(self):
        for size in ("", "0", "GB", "-1", "1.GB", ".5GB", "1.5.5GB", "1.-5GB", "1.12345678GB", "0.1B", "5XB", "99999999999GB"):
            self.refused(2, "split", self.model(), self.path("shards"), f"--max-size={size}")

    def test_sizes_with_decimals(self):
        path = self.model()
        def files(size):
            return self.ok("split", path, self.path("shards"), "--dry-run", "--max-size", size)
        for size, same in (("2.1KB", "2100"), ("0.0000021GB", "2100B"), ("1.5 KiB", "1536"), ("0.002MiB", "2097"), ("2100.9", "2100")):
            self.assertEqual(files(size), files(same), size)
        self.assertNotEqual(files("2.1KB"), files("2KB"))

    def test_nothing_is_left_if_a_shard_cannot_be_written(self):
        path = self.model(tensors=[("a", "U8", [10], 10), ("b", "U8", [100_000], 100_000)], data=bytes(100_010))
        for made in (False, True):
            if made:
                os.mkdir(self.path("shards"))
            result = run("split", path, self.path("shards"), "--max-size", "50KB",
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)))
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertEqual(os.path.exists(self.path("shards")), made)
            self.assertEqual(self.names("shards") if made else [], [])

    def test_no_new_folder_is_left_if_a_shard_cannot_be_written(self):
        for folder in ("in/a", "in/b", "out"):
            os.makedirs(self.path(folder))
        for name in ("a/x", "b/y"):
            self.model(f"in/{name}.safetensors", [(name[-1], "F32", [1], 4)])
        with open(self.path("in/m.safetensors.index.json"), "w") as file:
            json.dump({"weight_map": {"x": "a/x.safetensors", "y": "b/y.safetensors"}}, file)
        with open(self.path("out/b"), "w"):
            pass
        self.refused(3, "cast", self.path("in"), self.path("out"), "--to", "f16")
        self.assertEqual(os.listdir(self.path("out")), ["b"])

    def test_an_output_that_cannot_be_made_is_named_alone(self):
        line = self.refused(3, "rename", self.model(), "a", "c", "/proc/x.safetensors")
        self.assertTrue(line.startswith("safetensors: a file next to '/proc/x.safetensors': "), line)

    @needs_interference
    def test_an_index_of_somebody_who_was_faster_stays(self):
        result = run("split", self.model(), self.path("shards"), "--max-size", "3KB", env=interfered("index"))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("File exists", result.stderr.decode())
        self.assertEqual(os.listdir(self.path("shards")), ["model.safetensors.index.json"])
        with open(self.path("shards/model.safetensors.index.json")) as file:
            self.assertEqual(file.read(), "theirs")

    def test_nothing_is_left_of_an_interrupted_model(self):
        """The first shard is complete at once, and the second takes a while."""
        size = 400 << 20
        os.mkdir(self.path("in"))
        shards = {"model-00001-of-00002.safetensors": [("a", "F32", [1], 4)],
                  "model-00002-of-00002.safetensors": [("b", "F32", [size // 4], size)]}
        for name, tensors in shards.items():
            header = file_bytes(tensors, data=b"")
            with open(self.path(f"in/{name}"), "wb") as file:
                file.write(header)
                file.truncate(len(header) + tensors[0][3])
        process = subprocess.Popen([COMMAND, "cast", self.path("in"), self.path("out"), "--to", "f8_e4m3"])
        first = self.path("out/model-00001-of-00002.safetensors")
        while not os.path.exists(first) and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        if process.returncode == 0:
            self.skipTest("it was done before the signal came")
        self.assertEqual(process.returncode, -signal.SIGINT)
        if os.environ.get("ST_LINUX_IO") == "0" and os.path.isdir(self.path("out")):
            # Without O_TMPFILE, a named temporary file remains, which the next writer in the folder removes.
            self.assertTrue(all(name.startswith(".") for name in os.listdir(self.path("out"))))
        else:
            self.assertEqual(os.listdir(self.folder), ["in"])

    @needs_interference
    def test_a_signal_leaves_nothing_but_what_somebody_else_has_made(self):
        for what, left in (("signal", []), ("shard+signal", ["theirs"])):
            with self.subTest(what):
                folder = pathlib.Path(self.path(what))
                folder.mkdir()
                result = run("split", self.model(), str(folder), "--max-size", "3KB", env=interfered(what))
                self.assertEqual(result.returncode, -signal.SIGINT, result.stderr)
                self.assertEqual([path.read_text() for path in folder.glob("[!.]*")], left)


@unittest.skipUnless(os.geteuid() == 0 and os.access("/dev/fuse", os.W_OK) and shutil.which("bindfs"), "needs root and bindfs")
class Mount(Case):
    def test_an_input_is_known_through_another_mount(self):
        real, mounted = self.folder / "real", self.folder / "mounted"
        mounted.mkdir()
        path = self.model("real/model.safetensors")
        before = self.content("real/model.safetensors")
        server = subprocess.Popen(["bindfs", "-f", str(real), str(mounted)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        while not os.path.ismount(mounted):
            if server.poll() is not None:
                self.skipTest("mounting is not allowed")
            time.sleep(0.01)
        self.refused(2, "extract", path, LAYERS[0][0], str(mounted / "model.safetensors"), "--replace")
        self.assertEqual(self.content("real/model.safetensors"), before)
        if os.environ.get("ST_LINUX_IO") == "0":
            return  # POSIX has no way to ask the server of a mount anew
        self.ok("show", str(mounted / "model.safetensors"))  # from here on, the mount shows old times for a second
        self.ok("meta", path, "set", "format=pt")
        before = self.content("real/model.safetensors")
        self.refused(2, "extract", path, LAYERS[0][0], str(mounted / "model.safetensors"), "--replace")
        self.assertEqual(self.content("real/model.safetensors"), before)


class OldModels(Case):
    """New files next to another model, which opening the folder would open instead."""

    def test_the_index_of_another_model_is_refused(self):
        self.ok("split", self.model(), self.path("out"), "--max-size", "3KB", "--name", "model")
        other = self.model("other.safetensors")
        before = sorted(os.listdir(self.folder / "out"))
        for words in (["cast", other, self.path("out"), "--to", "bf16"], ["split", other, self.path("out"), "--name", "model"],
                      ["rename", other, "^model", "m", self.path("out")]):
            if words[0] != "split":
                shutil.copy(other, self.folder / "model.safetensors")
                words[1] = self.path("model.safetensors")
            stderr = self.refused(3, *words)
            self.assertIn("model.safetensors.index.json: already exists, and would hide the new model.safetensors", stderr)
        self.assertEqual(sorted(os.listdir(self.folder / "out")), before)

    def test_a_note_names_the_model_that_is_opened_instead(self):
        path = self.model("out/model.safetensors")
        for name in ("model", "foo"):
            result = run("split", path, self.path("out"), "--max-size", "3KB", "--name", name)
            note = b"" if name == "model" else f"safetensors: note: opening the directory opens {self.path('out')}/model-00001-of-00003.safetensors, not the new model\n".encode()
            self.assertEqual((result.returncode, result.stderr), (0, note))


    def test_a_file_named_by_the_user_is_written_with_a_note(self):
        self.ok("split", self.model(), self.path("out"), "--max-size", "3KB", "--name", "model")
        for words in (["cast", self.path("out"), "--to", "bf16"], ["merge", self.path("out")], ["convert", self.path("model.safetensors")]):
            out = self.path("out/model.safetensors")
            result = run(words[0], words[1], out, *words[2:])
            self.assertEqual((result.returncode, result.stderr.decode()), (0, f"safetensors: note: opening the directory opens {out}.index.json, not the new file\n"))
            os.remove(out)

    def test_a_directory_with_two_models(self):
        self.model("out/old.safetensors")
        result = run("cast", self.model("new.safetensors"), self.path("out"), "--to", "bf16")
        self.assertEqual((result.returncode, result.stderr), (0, b"safetensors: note: the directory cannot be opened; open the new model by its own path\n"))

    def test_names_that_no_index_may_have(self):
        for name, why in (("a\\b", "contains a backslash"), ("C:x", "begins with a drive letter"), ("._x", "begins with '._'")):
            path = self.model(name + ".safetensors")
            self.assertIn(why, self.refused(2, "split", path, self.path("out"), "--max-size", "3KB"))
            self.assertFalse(os.path.exists(self.path("out")))


@unittest.skipUnless(os.uname().sysname == "Linux" and os.geteuid() == 0, "needs root")
class Overlay(Case):
    """A file of a container's image."""

    def test_a_file_of_a_lower_layer_is_replaced_in_place(self):
        place = self.folder / "layers"
        for name in ("upper", "work", "mounted"):
            (place / name).mkdir(parents=True)
        self.model("layers/lower/model.safetensors")
        options = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work"
        if subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(place / "mounted")], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("mounting is not allowed")
        self.addCleanup(subprocess.run, ["umount", str(place / "mounted")], check=True)
        path = str(place / "mounted" / "model.safetensors")
        self.ok("rename", path, "^model", "m", path, "--replace")
        self.assertTrue(all(tensor["name"].startswith("m.") for tensor in json.loads(self.ok("show", path, "--json"))["tensors"]))


class Rename(Case):
    def test_groups_and_what_is_kept(self):
        path = self.model(metadata={"format": "pt"})
        self.ok("rename", path, r"^model\.layers\.(\d+)\.", "h.$1.", self.path("out.safetensors"))
        shown = self.shown("out.safetensors")
        self.assertEqual([tensor["name"] for tensor in shown["tensors"]][:2], ["h.0.weight", "h.1.weight"])
        self.assertEqual(shown["metadata"], {"format": "pt"})
        self.ok("rename", self.path("out.safetensors"), r"^h\.", "model.layers.", self.path("back.safetensors"))
        self.assertEqual(self.content("back.safetensors"), self.content("model.safetensors"))

    def test_patterns_match_characters(self):
        path = self.model("u.safetensors", [("\u00e9.w", "U8", [1], 1), ("\u5c64.\u0411", "U8", [1], 1), ("\U0001f600x", "U8", [1], 1)])
        for pattern, replacement, names in (("[\u00e9\u0451]+", "e", ["e.w", "\u5c64.\u0411", "\U0001f600x"]),
                                            ("^.", "", [".w", ".\u0411", "x"]),
                                            ("^(.)(.)(.*)$", "$2$1$3", [".\u00e9w", ".\u5c64\u0411", "x\U0001f600"]),
                                            ("[^a-z.]$", "\u00df", ["\u00e9.w", "\u5c64.\u00df", "\U0001f600x"])):
            self.ok("rename", path, pattern, replacement, self.path("out.safetensors"), "--replace")
            self.assertEqual(sorted(tensor["name"] for tensor in self.shown("out.safetensors")["tensors"]), sorted(names))
        self.refused(2, "rename", path, "\\xa9", "_", self.path("out.safetensors"), "--replace")  # a byte of two of the names
        self.assertIn("not valid UTF-8", self.refused(2, "rename", path, b"w\xff", "_", self.path("out.safetensors"), "--replace"))
        self.assertIn("not valid UTF-8", self.refused(2, "rename", path, "w", b"\xff", self.path("out.safetensors"), "--replace"))

    def test_in_place_and_for_some(self):
        path = self.model()
        self.ok("rename", path, "model", "m", path, "--filter", "*.3.*", "--replace")
        names = [tensor["name"] for tensor in self.shown("model.safetensors")["tensors"]]
        self.assertEqual(sorted(name for name in names if name.startswith("m.")), ["m.layers.3.bias", "m.layers.3.weight"])

    def test_a_model_keeps_its_shards(self):
        self.ok("split", self.model(metadata={"format": "pt", "title": "T"}), self.path("a"), "--max-size", "3KB")
        self.ok("rename", self.path("a"), "^model", "m", self.path("b"))
        self.assertEqual(self.names("b"), self.names("a"))
        index = json.loads(self.content("b/model.safetensors.index.json"))
        self.assertEqual(index["weight_map"]["m.layers.5.weight"], "model-00003-of-00003.safetensors")
        self.assertEqual(index["metadata"], {"format": "pt", "title": "T", "total_size": 6 * 1056})

    def test_the_metadata_of_an_index_of_one_shard_is_kept(self):
        self.model("one/model.safetensors", metadata={"format": "pt"})
        weight_map = {name: "model.safetensors" for name, *_ in LAYERS}
        (self.folder / "one/model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"license": "mit", "total_size": 6336}, "weight_map": weight_map}))
        index = self.path("one/model.safetensors.index.json")
        self.ok("rename", index, "^model", "m", self.path("two"))
        self.assertEqual(self.shown("two/model.safetensors")["metadata"], {"format": "pt", "license": "mit"})
        self.model("plain.safetensors", metadata={"format": "pt", "license": "mit"})
        self.assertEqual(self.ok("diff", index, self.path("plain.safetensors")), "")

    def test_names_of_shards_do_not_depend_on_the_spelling_of_the_path(self):
        (self.folder / "a/x").mkdir(parents=True)
        self.ok("split", self.model(), self.path("a/x"), "--max-size", "3KB")
        weight_map = json.loads(self.content("a/x/model.safetensors.index.json"))["weight_map"]
        text = json.dumps({"weight_map": {name: f"x/{shard}" for name, shard in weight_map.items()}})
        (self.folder / "a/model.safetensors.index.json").write_text(text)
        for i, spelling in enumerate(("a", "a/", "./a/model.safetensors.index.json", "a/../a//model.safetensors.index.json")):
            result = run("rename", spelling, "^model", "m", f"out{i}", cwd=self.folder)
            self.assertEqual((result.returncode, result.stderr), (0, b""), spelling)
            self.assertEqual(self.names(f"out{i}/x"), self.names("a/x")[:3])
        result = run("rename", "model.safetensors.index.json", "^model", "m", "../out", cwd=self.folder / "a")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(set(json.loads(self.content("out/model.safetensors.index.json"))["weight_map"].values()),
                         {f"x/{shard}" for shard in weight_map.values()})

    def test_numbered_shards_without_tensors(self):
        for i in (1, 2):
            self.model(f"a/model-0000{i}-of-00002.safetensors", [], {"part": str(i)})
        self.ok("cast", self.path("a"), self.path("b"), "--to", "f16")
        self.assertEqual(self.names("b"), self.names("a"))
        for name in self.names("a"):
            self.assertEqual(self.content(f"b/{name}"), self.content(f"a/{name}"))
        self.assertEqual(self.ok("diff", self.path("a"), self.path("b")), "")

    def test_what_is_refused(self):
        path = self.model()
        out = self.path("out.safetensors")
        self.assertIn("two tensors would be named x: model.layers.0.weight and model.layers.1.weight",
                      self.refused(2, "rename", path, "model.*weight", "x", out))
        self.assertIn("changes no name", self.refused(2, "rename", path, "decoder", "x", out))
        self.assertIn("PATTERN (model", self.refused(2, "rename", path, "(model", "x", out))
        self.assertIn("__metadata__", self.refused(2, "rename", path, "model.layers.0.weight", "__metadata__", out))
        for pattern in ("(n{1000}){1000}", "n{99999999999999999999}", "(" * 501 + ")" * 501):
            self.assertIn("with its repetitions written out", self.refused(2, "rename", path, pattern, "x", out))
        self.assertFalse(os.path.exists(out))

    def test_long_names_do_not_overflow_the_stack(self):
        out = self.path("out.safetensors")
        self.ok("rename", self.model("nested.safetensors", [("n" * 4096, "U8", [1], 1)]), "((((((((((n))))))))))+", "x", out)
        long = self.model("long.safetensors", [("n" * 40_000, "U8", [1], 1)])
        self.ok("rename", long, "(n|m)+", "x", out, "--replace")
        self.assertEqual([tensor["name"] for tensor in self.shown("out.safetensors")["tensors"]], ["x"])
        self.assertIn("this PATTERN allows at most 8192", self.refused(2, "rename", long, "((()*)*n)*" + "|" * 22, "x", out))
        worst = self.model("worst.safetensors", [("n" * 26_000, "U8", [1], 1)])
        self.ok("rename", worst, "((()*)*n)*", "x", out, "--replace")
        self.ok("rename", self.model(), "(" * 333 + "w" + ")" * 333 + "(?=e)", "W", out, "--replace")

    def test_a_dry_run_lists_the_names(self):
        out = self.ok("rename", self.model(), r"layers\.2", "l.2", self.path("out.safetensors"), "--dry-run")
        self.assertEqual(out.splitlines()[:2], ["model.layers.2.weight -> model.l.2.weight",
                                                "model.layers.2.bias -> model.l.2.bias"])
        self.assertEqual(os.listdir(self.folder), ["model.safetensors"])


class Existing(Case):
    """An OUT that exists is an error without --replace."""

    def commands(self):
        path = self.model()
        name = LAYERS[0][0]
        return path, {"extract": ["extract", path, name, "OUT"], "extract --filter": ["extract", path, "--filter", "*", "OUT"],
                      "merge": ["merge", path, "OUT"], "rename": ["rename", path, "model", "m", "OUT"],
                      "cast": ["cast", path, "OUT", "--to", "f64"], "convert": ["convert", path, "OUT"]}

    def test_every_command(self):
        _, commands = self.commands()
        commands["show"] = ["show", self.path("model.safetensors"), "--map", "OUT"]
        for name, words in commands.items():
            out = self.path("out.svg" if name == "show" else "out.safetensors")
            arguments = [out if word == "OUT" else word for word in words]
            pathlib.Path(out).write_bytes(b"old")
            for option in ([], ["--no-replace"]):
                self.assertIn("already exists; --replace replaces it", self.refused(3, *arguments, *option))
                self.assertEqual(pathlib.Path(out).read_bytes(), b"old")
            self.refused(2, *arguments, "--replace", "--no-replace")
            self.ok(*arguments, "--replace")
            self.assertNotEqual(pathlib.Path(out).read_bytes(), b"old", name)
            os.unlink(out)
            self.ok(*arguments, "--no-replace")
            os.unlink(out)
            os.symlink("nowhere", out)
            self.refused(3, *arguments)
            self.assertEqual(sorted(os.listdir(self.folder)), sorted(["model.safetensors", os.path.basename(out)]))
            os.unlink(out)

    def test_the_input_as_the_output(self):
        path, commands = self.commands()
        before = self.content("model.safetensors")
        for name, words in commands.items():
            arguments = [path if word == "OUT" else word for word in words]
            self.refused(2 if name == "extract" else 3, *arguments)
            self.assertEqual(self.content("model.safetensors"), before)
        self.refused(2, *[path if word == "OUT" else word for word in commands["extract"]], "--replace")
        self.ok("cast", path, path, "--to", "f64", "--replace")
        self.assertEqual(self.shown("model.safetensors")["dtypes"].keys(), {"F64"})

    def test_streams_are_not_existing_files(self):
        path, commands = self.commands()
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        for name, words in commands.items():
            for out in [fifo, "/dev/null", "/dev/stdout"] + ([] if name == "extract" else ["-"]):
                reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE) if out == fifo else None
                if reader:
                    self.addCleanup(reader.kill)
                result = run(*[out if word == "OUT" else word for word in words], *(["--to", "bintensors"] if name == "convert" else []))
                self.assertEqual((result.returncode, result.stderr), (0, b""), (name, out))
                if reader:
                    self.assertGreater(len(reader.communicate(timeout=60)[0]), 1000)
                elif out != "/dev/null":
                    self.assertGreater(len(result.stdout), 1000, (name, out))

    def test_merge_with_a_forgotten_output(self):
        files = [self.model(f"{name}.safetensors", [LAYERS[i]]) for i, name in enumerate("abc")]
        last = self.content("c.safetensors")
        self.assertIn("c.safetensors: already exists", self.refused(3, "merge", *files))
        self.assertEqual(self.content("c.safetensors"), last)
        self.refused(2, "merge", *files, files[0], "--replace")
        self.assertIn("is also an input", self.refused(2, "merge", *files, files[0]))

    def test_another_shard_of_the_input(self):
        self.ok("split", self.model(), self.path("s"), "--max-size", "2KB")
        shards = [self.path(f"s/{name}") for name in self.names("s")][:3]
        before = [pathlib.Path(shard).read_bytes() for shard in shards]
        for option in ([], ["--replace"]):
            for words in (["merge", *shards], ["cast", shards[0], shards[1], "--to", "f16"], ["convert", shards[0], shards[2]],
                          ["extract", shards[0], LAYERS[0][0], shards[1]]):
                self.assertIn("belongs to the model of an input", self.refused(2, *words, *option))
        self.assertEqual([pathlib.Path(shard).read_bytes() for shard in shards], before)
        self.model("best-1st-of-2.safetensors")
        self.ok("cast", self.path("best-1st-of-2.safetensors"), self.path("best-2nd-of-2.safetensors"), "--to", "f64")
        os.mkdir(self.path("other"))
        self.ok("cast", shards[0], self.path("other/" + os.path.basename(shards[1])), "--to", "f64")
        self.ok("cast", shards[0], shards[0], "--to", "f64", "--replace")

    def test_a_folder(self):
        self.ok("split", self.model(), self.path("s"), "--max-size", "2KB")
        self.ok("cast", self.path("s"), self.path("t"), "--to", "f64")
        for words in (["cast", self.path("s"), self.path("t"), "--to", "f32"], ["rename", self.path("s"), "m", "n", self.path("t")],
                      ["extract", self.path("s"), "--exclude", "x", self.path("t")]):
            self.assertIn("already exists", self.refused(3, *words))
            self.assertIn("--replace is for a single file", self.refused(2, *words, "--replace"))
        self.assertEqual(self.shown("t")["dtypes"].keys(), {"F64"})


class Out(Case):
    def test_names_that_are_no_folder(self):
        path = self.model()
        for arguments in (("cast", path, "OUT", "--to", "f16"), ("rename", path, "m", "n", "OUT"), ("extract", path, "OUT", "--filter", "*")):
            for out, words in ((self.path("out.pt"), "not .safetensors"), ("", "OUT is empty")):
                self.assertIn(words, self.refused(2, *[out if word == "OUT" else word for word in arguments]))
        self.assertIn('safetensors: ""', self.refused(2, "merge", path, ""))
        self.assertIn("FOLDER is empty", self.refused(2, "split", path, ""))
        self.assertEqual(os.listdir(self.folder), ["model.safetensors"])
        os.mkdir(self.path("was.pt"))
        self.ok("cast", path, self.path("was.pt"), "--to", "f64")

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_help_that_cannot_be_written(self):
        for arguments in (["--help"], ["show", "--help"], ["--version"]):
            with open("/dev/full", "w") as full:
                result = subprocess.run([COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
            self.assertEqual((result.returncode, result.stderr), (3, b"safetensors: standard output: No space left on device\n"))

    def test_help_whose_reader_is_gone(self):
        for signals_are_ignored, wanted in ((False, (-signal.SIGPIPE, b"")), (True, (3, b"safetensors: standard output: Broken pipe\n"))):
            reader, writer = os.pipe()
            os.close(reader)
            result = subprocess.run([COMMAND, "--help"], stdout=writer, stderr=subprocess.PIPE, check=False, restore_signals=not signals_are_ignored)
            os.close(writer)
            self.assertEqual((result.returncode, result.stderr), wanted)


class Overwritten(Case):
    @needs_interference
    def test_an_input_that_is_overwritten_before_it_is_copied(self):
        for words in (["merge", "IN", "OUT"], ["rename", "IN", "^", "x.", "OUT"], ["cast", "IN", "OUT", "--to", "f16"],
                      ["split", "IN", "FOLDER", "--max-size", "3KB"], ["extract", "IN", "a", "OUT"], ["extract", "IN", "--filter", "a", "OUT"],
                      ["convert", "IN", "BT"]):
            with self.subTest(words):
                path = self.model(tensors=[("a", "F32", [1000], 4000), ("b", "F32", [1000], 4000)])
                os.utime(path, (1, 1))  # so that its time differs afterwards, however coarse the clock is
                names = {"IN": path, "OUT": self.path("out.safetensors"), "FOLDER": self.path("out"), "BT": self.path("out.bt")}
                result = run(*(names.get(word, word) for word in words), env={**interfered("overwrite"), "ST_INPUT": path})
                self.assertEqual((result.returncode, result.stdout), (3, b""), result.stderr)
                self.assertRegex(result.stderr.decode(), "overwritten in place|changed while being read")
                self.assertEqual(os.listdir(self.folder), ["model.safetensors"])


    @needs_interference
    def test_an_input_that_is_the_output_and_is_replaced_meanwhile(self):
        for what, words in (("replace", ["merge"]), ("replace", ["rename", "^", "x."]), ("replace", ["extract", "--filter", "a"]),
                            ("replace", ["convert"]), ("replace+read", ["cast", "--to", "f16"])):
            with self.subTest(words):
                path = self.model(tensors=[("a", "F32", [1000], 4000), ("b", "F32", [1000], 4000)])
                theirs = self.model("theirs.safetensors", [("c", "U8", [1], 1)])
                wanted = self.content("theirs.safetensors")
                arguments = [words[0], path, *([] if words[0] in ("cast", "extract") else words[1:]), path,
                             *(words[1:] if words[0] in ("cast", "extract") else []), "--replace"]
                result = run(*arguments, env={**interfered(what), "ST_INPUT": path, "ST_RENAMED": theirs})
                self.assertEqual((result.returncode, result.stdout), (3, b""), result.stderr)
                self.assertIn("replaced", result.stderr.decode())
                self.assertEqual(self.content("model.safetensors"), wanted)
                self.assertEqual(os.listdir(self.folder), ["model.safetensors"])

    @needs_interference
    def test_an_input_that_is_overwritten_while_it_is_read(self):
        for renamed in (False, True):
            for words in (["cast", "IN", "OUT", "--to", "f16"], ["stats", "IN"], ["hash", "IN"], ["verify", "--values", "IN"],
                          ["diff", "IN", "OTHER"], ["diff", "OTHER", "IN"]):
                with self.subTest(words, renamed=renamed):
                    path = self.model(tensors=[("a", "F32", [1500000], 6000000)])  # more than a block
                    shutil.copy(path, self.path("other.safetensors"))
                    os.utime(path, (1, 1))
                    names = {"IN": path, "OUT": self.path("out.safetensors"), "OTHER": self.path("other.safetensors")}
                    environment = {**interfered("overwrite+read"), "ST_INPUT": path}
                    if renamed:
                        environment["ST_RENAMED"] = self.path("renamed")
                    result = run(*(names.get(word, word) for word in words), env=environment)
                    self.assertEqual(result.returncode, 3, result.stderr)
                    self.assertIn("was overwritten in place after it was opened", result.stderr.decode())
                    self.assertFalse(os.path.exists(names["OUT"]))


class Extract(Case):
    def test_the_tensors_that_fit(self):
        path = self.model(metadata={"format": "pt"})
        self.ok("extract", path, "--filter", "*.1.*", "--filter", "*.2.bias", self.path("some.safetensors"))
        shown = self.shown("some.safetensors")
        self.assertEqual([tensor["name"] for tensor in shown["tensors"]],
                         ["model.layers.1.weight", "model.layers.1.bias", "model.layers.2.bias"])
        self.assertEqual(shown["metadata"], {"format": "pt"})
        self.assertEqual(self.content("some.safetensors")[-32:], self.content("model.safetensors")[-128:-96])

    def test_what_is_refused(self):
        path = self.model()
        out = self.path("out.safetensors")
        self.assertIn("no tensor matches", self.refused(2, "extract", path, out, "--filter", "nothing"))
        self.assertIn("is not closed", self.refused(2, "extract", path, out, "--filter", "[a"))
        self.assertIn("either TENSOR, or --filter", self.refused(2, "extract", path, "a", out, "--filter", "*"))
        self.assertIn("needs --filter", self.refused(2, "extract", path, "a", out, "--dry-run"))
        self.assertFalse(os.path.exists(out))


class ClosedPipe(Case):
    def test_a_reader_that_goes_ends_the_command_by_the_signal(self):
        """Otherwise `set -o pipefail` would not notice that the output is truncated."""
        size = 1 << 20
        path = self.model(tensors=[("w", "F32", [size // 4], size)], data=bytes(size))
        for arguments in (["merge", path, "-"], ["cast", path, "-", "--to", "f16"], ["convert", path, "-", "--to", "bintensors"]):
            with subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                process.stdout.read(10)
                process.stdout.close()
                self.assertEqual((process.stderr.read(), process.wait(timeout=60)), (b"", -signal.SIGPIPE), arguments)


    def test_one_who_ignores_the_signal_is_told_of_lost_output(self):
        size = 1 << 20
        path = self.model(tensors=[("w", "F32", [size // 4], size)], data=bytes(size), metadata={"k": "v" * size})
        for arguments in (["merge", path, "-"], ["cat", path, "w"], ["meta", path, "--json"]):
            with subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, restore_signals=False) as process:
                process.stdout.read(10)
                process.stdout.close()
                self.assertIn(b"Broken pipe", process.stderr.read(), arguments)
                self.assertEqual(process.wait(timeout=60), 3, arguments)


class Mistakes(Case):
    def test_a_suggestion_for_what_is_nearly_right(self):
        path = self.model()
        for arguments, suggestion in [(("shwo", path), "unknown command 'shwo', did you mean 'show'?"),
                                      (("show", "--fitler", "x", path), "did you mean '--filter'?"),
                                      (("cat", path, "model.layers.0.wieght"), "did you mean 'model.layers.0.weight'?"),
                                      (("cast", path, self.path("o.safetensors"), "--to", "bf61"), "did you mean 'BF16'?")]:
            self.assertIn(suggestion, self.refused(2, *arguments))
        self.assertNotIn("did you mean", self.refused(2, "frobnicate", path))


if __name__ == "__main__":
    unittest.main()
