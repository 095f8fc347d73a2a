"""Tests `safetensors convert` of torch's, numpy's and llama.cpp's files. They are built here, so torch is not needed.

SPDX-License-Identifier: Apache-2.0
"""
import bisect
import io
import json
import os
import pathlib
import pickle as python_pickle
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile
import zlib

from pickles import (NONE, ORDERED, archive, call, dict_of, gguf, gguf_text, list_of, name, npy, number, pickle, stacked, storage,
                     tensor, text, tuple_of)
from sample import COMMAND, READS_ZIP, interfered, needs_interference, run


needs_zip = unittest.skipUnless(READS_ZIP, "the command was built without ST_ZIP")


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def read(path):
    """Returns tensors by name as (dtype, shape, bytes), and the metadata."""
    raw = pathlib.Path(path).read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__", None)
    data = raw[8 + length :]
    return {key: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]) for key, entry in header.items()}, metadata


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_import_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = str(self.folder / "out.safetensors")

    def file(self, called, content):
        path = self.folder / called
        path.write_bytes(content)
        return str(path)

    def convert(self, content, *options, called="a.bin", said=b""):
        result = run("convert", self.file(called, content), self.out, "--replace", *options)
        self.assertEqual((result.returncode, result.stdout), (0, b""), result.stderr)
        if said is not None:
            self.assertEqual(result.stderr, said)
        return read(self.out)

    def refused(self, content, code, *words, options=()):
        result = run("convert", self.file("a.bin", content), self.out, *options)
        line = result.stderr.decode()
        self.assertEqual((result.returncode, result.stdout), (code, b""), line)
        self.assertRegex(line, r"\Asafetensors: [^\n]*a\.bin: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, line)
        self.assertEqual(os.listdir(self.folder), ["a.bin"])


@unittest.skipIf(READS_ZIP, "the command was built with ST_ZIP")
class WithoutZip(Case):
    def test_archives_are_refused_by_name_and_the_older_form_is_read(self):
        self.refused(archive(b"}", {}), 2, "zip archive, which this build cannot read")
        body = dict_of([("w", tensor(storage("0", 6), [6], [1]))])
        self.assertEqual(self.convert(stacked(body, {"0": ABC}))[0], {"w": ("F32", [6], ABC)})


ABC = floats(0, 1, 2, 3, 4, 5)
SHARED = dict_of([("b", tensor(storage("0", 6), [2, 3], [3, 1])), ("a", tensor(storage("0", 6), [6], [1]))])


@needs_zip
class Torch(Case):
    def both(self, body, storages, *options, **more):
        """Converts the zip form and the stacked form, which must give the same file."""
        first = self.convert(archive(body, storages), *options, **more)
        content = pathlib.Path(self.out).read_bytes()
        self.convert(stacked(body, storages), *options, **more)
        self.assertEqual(pathlib.Path(self.out).read_bytes(), content)
        return first

    def test_a_state_dict(self):
        body = dict_of([("w", tensor(storage("0", 6), [2, 3], [3, 1])), ("x.y", tensor(storage("1", 1), [], []))])
        tensors, metadata = self.both(body, {"0": ABC, "1": floats(7)})
        self.assertEqual(tensors, {"w": ("F32", [2, 3], ABC), "x.y": ("F32", [], floats(7))})
        self.assertEqual(metadata, {"format": "pt"})

    def test_the_file_is_the_reference_writers(self):
        """Sorted by dtype and name, the header padded to 8."""
        body = dict_of([("b", tensor(storage("0", 1), [1], [1])), ("a", tensor(storage("1", 1), [1], [1])),
                        ("c", tensor(storage("2", 1, "LongStorage"), [1], [1]))])
        self.convert(archive(body, {"0": floats(1), "1": floats(2), "2": struct.pack("<q", 3)}))
        header = (b'{"__metadata__":{"format":"pt"},"c":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},'
                  b'"a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}')
        header += b" " * (-len(header) % 8)
        self.assertEqual(pathlib.Path(self.out).read_bytes(),
                         struct.pack("<Q", len(header)) + header + struct.pack("<q", 3) + floats(2, 1))

    def test_strides_are_written_out(self):
        body = dict_of([("t", tensor(storage("0", 6), [3, 2], [1, 3])), ("e", tensor(storage("1", 1), [2, 2], [0, 0])),
                        ("s", tensor(storage("2", 6), [2], [3], first=1))])
        tensors, _ = self.both(body, {"0": ABC, "1": floats(9), "2": ABC})
        self.assertEqual(tensors["t"], ("F32", [3, 2], floats(0, 3, 1, 4, 2, 5)))
        self.assertEqual(tensors["e"], ("F32", [2, 2], floats(9, 9, 9, 9)))
        self.assertEqual(tensors["s"], ("F32", [2], floats(1, 4)))

    def test_a_part_of_a_storage_is_written_alone(self):
        body = dict_of([("p", tensor(storage("0", 6), [2], [1], first=3))])
        tensors, metadata = self.both(body, {"0": ABC})
        self.assertEqual(tensors, {"p": ("F32", [2], floats(3, 4))})
        self.assertEqual(metadata, {"format": "pt"})

    def test_of_shared_tensors_the_first_name_is_kept(self):
        tensors, metadata = self.both(SHARED, {"0": ABC}, said=None)
        self.assertEqual(tensors, {"a": ("F32", [6], ABC)})
        self.assertEqual(metadata, {"format": "pt", "b": "a"})

    def test_a_dropped_part_of_another_tensor_is_said(self):
        result = run("convert", self.file("a.bin", archive(SHARED, {"0": ABC})), self.out)
        self.assertEqual(result.returncode, 0)
        self.assertIn("left out tensors that are parts or reshaped views of others: 1 (first: 'b'); --keep-shared",
                      result.stderr.decode())

    def test_equal_views_are_dropped_without_a_word(self):
        body = dict_of([("b", tensor(storage("0", 6), [6], [1])), ("a", tensor(storage("0", 6), [6], [1]))])
        _, metadata = self.both(body, {"0": ABC}, said=b"")
        self.assertEqual(metadata, {"format": "pt", "b": "a"})

    def test_a_shared_tensor_with_the_name_of_a_metadata_key_is_kept(self):
        """Metadata has a key "format" of its own, so it cannot map that name to another."""
        body = dict_of([("a", tensor(storage("0", 6), [6], [1])), ("format", tensor(storage("0", 6), [6], [1])),
                        ("z", tensor(storage("0", 6), [6], [1]))])
        tensors, metadata = self.both(body, {"0": ABC}, said=b"")
        self.assertEqual((tensors, metadata), ({"format": ("F32", [6], ABC)}, {"format": "pt", "a": "format", "z": "format"}))

    def test_a_dropped_tensor_that_metadata_cannot_name_is_said(self):
        """Here "format" is only a part of the storage."""
        body = dict_of([("format", tensor(storage("0", 6), [3], [1])), ("a", tensor(storage("0", 6), [6], [1]))])
        result = run("convert", self.file("a.bin", archive(body, {"0": ABC})), self.out)
        self.assertEqual(result.returncode, 0)
        self.assertIn("1 (first: 'format'); --keep-shared", result.stderr.decode())
        self.assertEqual(read(self.out)[1], {"format": "pt"})

    def test_keep_shared_copies(self):
        tensors, metadata = self.both(SHARED, {"0": ABC}, "--keep-shared")
        self.assertEqual(tensors, {"a": ("F32", [6], ABC), "b": ("F32", [2, 3], ABC)})
        self.assertEqual(metadata, {"format": "pt"})

    def test_parts_that_do_not_overlap_are_all_written(self):
        body = dict_of([("a", tensor(storage("0", 6), [3], [1])), ("b", tensor(storage("0", 6), [3], [1], first=3))])
        tensors, metadata = self.both(body, {"0": ABC})
        self.assertEqual({key: value[2] for key, value in tensors.items()}, {"a": floats(0, 1, 2), "b": floats(3, 4, 5)})
        self.assertEqual(metadata, {"format": "pt"})

    def test_overlapping_parts_of_which_none_is_whole(self):
        body = dict_of([("a", tensor(storage("0", 6), [4], [1])), ("b", tensor(storage("0", 6), [4], [1], first=2))])
        self.refused(archive(body, {"0": ABC}), 2, "'a' and 'b' share elements", "--keep-shared")
        os.remove(self.folder / "a.bin")
        self.both(body, {"0": ABC}, "--keep-shared")

    def test_state_dict_is_unwrapped(self):
        inner = dict_of([("w", tensor(storage("0", 6), [6], [1]))])
        body = dict_of([("epoch", number(3)), ("state_dict", inner), ("lr", b"G" + struct.pack(">d", 0.1))])
        tensors, _ = self.both(body, {"0": ABC})
        self.assertEqual(list(tensors), ["w"])

    def test_other_dictionaries_and_lists_are_flattened(self):
        leaf = tensor(storage("0", 6), [6], [1])
        body = dict_of([("model", dict_of([("w", leaf)])), ("epoch", number(3)),
                        ("list", list_of(tensor(storage("1", 1), [1], [1]), NONE))])
        tensors, _ = self.convert(archive(body, {"0": ABC, "1": floats(1)}), said=None)
        self.assertEqual(list(tensors), ["list.0", "model.w"])

    OBJECTS = {
        "an argparse.Namespace": (name("argparse", "Namespace") + b")\x81" + dict_of([("lr", b"K\x01")]) + b"b", "argparse.Namespace"),
        "a Counter": (call("collections", "Counter", dict_of([("a", b"K\x01")])), "collections.Counter"),
        "a set of protocol 2": (call("__builtin__", "set", list_of(b"K\x01")), "__builtin__.set"),
        "a set": (b"\x8f(K\x01\x90", "set"), "a frozenset": (b"(K\x01\x91", "frozenset"),
        "a bytearray of protocol 2": (call("__builtin__", "bytearray", text("a"), text("latin-1")), "__builtin__.bytearray"),
        "a complex": (call("__builtin__", "complex", b"G" + bytes(8), b"G" + bytes(8)), "__builtin__.complex"),
        "bytes of protocol 2": (call("_codecs", "encode", text("a"), text("latin1")), "_codecs.encode"),
        "a device": (call("torch", "device", text("cpu")), "torch.device"),
        "a class itself": (name("argparse", "Namespace"), "argparse.Namespace"),
        "an object of NEWOBJ_EX": (name("a", "B") + b")}\x92", "a.B"),
        "a list subclass": (name("a", "List") + b")\x81(K\x01K\x02e", "a.List"),
        "a dict subclass": (name("a", "Dict") + b")\x81(" + text("k") + b"K\x01u", "a.Dict"),
        "an object made by an object": (call("functools", "partial", name("a", "b")) + b")R", "functools.partial"),
        "an object of protocol 1": (call("copy_reg", "_reconstructor", name("a", "B"), name("__builtin__", "object"), NONE), "a.B"),
        "an array of numpy": (call("numpy.core.multiarray", "_reconstruct", name("numpy", "ndarray"), b"K\x00\x85", text("b")), "numpy.ndarray"),
        "a call that would run a program": (call("os", "system", text("touch CANARY")), "os.system"),
        "an object of Python 2": (b"(" + text("x") + b"ia\nOld\n" + b"}b", "a.Old"),
        "another object of Python 2": (b"(" + name("a", "Old") + b"o}b", "a.Old"),
    }

    def test_objects_are_left_out_with_one_line(self):
        good = tensor(storage("0", 6), [6], [1])
        for called, (value, words) in self.OBJECTS.items():
            with self.subTest(called):
                body = dict_of([("args", value), ("model", dict_of([("w", good)]))])
                content = archive(body, {"0": ABC})
                said = f"safetensors: {self.folder}/a.bin: left out values that are not tensors: 1 (first: 'args'), among them {words}\n"
                self.assertEqual(self.convert(content, said=said.encode())[0], {"model.w": ("F32", [6], ABC)})
                self.convert(stacked(body, {"0": ABC}), said=said.encode())
                self.convert(stacked(dict_of([("state_dict", dict_of([("w", good)])), ("args", value)]), {"0": ABC}), said=b"")
                self.assertEqual(sorted(os.listdir(self.folder)), ["a.bin", "out.safetensors"])

    def test_a_bytearray_of_protocol_5(self):
        body = dict_of([("b", b"\x96" + struct.pack("<Q", 2) + b"ab"), ("w", tensor(storage("0", 6), [6], [1]))])
        self.assertEqual(self.convert(archive(body, {"0": ABC}, protocol=5), said=None)[0], {"w": ("F32", [6], ABC)})

    def test_a_dictionary_with_default_values(self):
        body = call("collections", "defaultdict", name("__builtin__", "list")) + b"(" + text("w") + tensor(storage("0", 6), [6], [1]) + b"u"
        self.assertEqual(self.both(body, {"0": ABC})[0], {"w": ("F32", [6], ABC)})

    def test_a_dictionary_made_from_a_factory_and_pairs_has_the_pairs(self):
        w = tensor(storage("0", 6), [6], [1])
        factories = (name("__builtin__", "list"), call("functools", "partial", name("collections", "defaultdict")))
        for factory in factories:
            for contents in (dict_of([("w", w)]), list_of(tuple_of(text("w"), w))):
                body = call("collections", "defaultdict", factory, contents)
                self.assertEqual(self.convert(archive(body, {"0": ABC}))[0], {"w": ("F32", [6], ABC)})

    def test_what_an_object_with_tensors_makes_is_refused(self):
        """A bound method is pickled so, as is functools.partial(f, tensor)."""
        w = tensor(storage("0", 6), [6], [1])
        partial = call("functools", "partial", name("a", "f"), w)
        for made in (partial + b")R", partial + b")\x81", call("__builtin__", "getattr", partial, text("make")) + b")R"):
            body = dict_of([("ema", made), ("w", w)])
            self.refused(archive(body, {"0": ABC}), 2, "'ema' is an object of", "contains tensors")

    def test_a_long_name_in_a_line_is_cut(self):
        body = dict_of([("k" * 1_000_000, b"N"), ("w", tensor(storage("0", 6), [6], [1]))])
        result = run("convert", self.file("a.bin", archive(body, {"0": ABC})), self.out)
        self.assertEqual(result.returncode, 0, result.stderr[-200:])
        self.assertLess(len(result.stderr), 2000)
        body = dict_of([("k" * 1_000_000, tensor(storage("0", 6), [7], [1]))])
        result = run("convert", self.file("a.bin", archive(body, {"0": ABC})), self.out, "--replace")
        self.assertEqual(result.returncode, 1)
        self.assertLess(len(result.stderr), 6000)

    def test_an_object_that_contains_a_tensor_is_refused_by_name(self):
        body = dict_of([("model", dict_of([("w", tensor(storage("0", 6), [6], [1]))])),
                        ("ema", name("a", "EMA") + b")\x81" + dict_of([("shadow", list_of(tensor(storage("1", 6), [6], [1])))]) + b"b")])
        for content in (archive(body, {"0": ABC, "1": ABC}), stacked(body, {"0": ABC, "1": ABC})):
            self.refused(content, 2, "'ema' is an object of a.EMA and contains tensors", "--key")
            self.assertEqual(self.convert(content, "--key", "model")[0], {"w": ("F32", [6], ABC)})
            os.remove(self.out)

    def test_tensors_that_safetensors_cannot_hold_are_named(self):
        for function, words in (("_rebuild_qtensor", "tensor 'm.w' is quantized (torch._utils._rebuild_qtensor)"),
                                ("_rebuild_sparse_tensor", "tensor 'm.w' is created by torch._utils._rebuild_sparse_tensor"),
                                ("_rebuild_meta_tensor_no_storage", "tensor 'm.w' is created by torch._utils._rebuild_meta")):
            value = call("torch._utils", function, storage("0", 6), number(0))
            self.refused(archive(dict_of([("m", dict_of([("w", value)]))]), {"0": ABC}), 2, words)
            value = call("torch._utils", "_rebuild_parameter", value, b"\x88", ORDERED)
            self.refused(archive(dict_of([("m", dict_of([("w", value)]))]), {"0": ABC}), 2, words)

    def test_a_tensor_of_another_class(self):
        value = call("torch._tensor", "_rebuild_from_type_v2", name("torch._utils", "_rebuild_tensor_v2"), name("a", "Image"),
                     tuple_of(storage("0", 6), number(0), tuple_of(number(6)), tuple_of(number(1)), b"\x89", ORDERED), b"}")
        self.refused(archive(dict_of([("w", value)]), {"0": ABC}), 2, "tensor 'w' has the class a.Image")

    def test_a_module_of_an_old_torch_is_refused_by_its_class(self):
        """Before torch 1.6, the pickle refers to the source of the module's class by a persistent id."""
        source = tuple_of(text("module"), name("a", "Net"), text("net.py"), text("class Net: pass")) + b"Q"
        body = source + b")R" + dict_of([("w", tensor(storage("0", 6), [6], [1]))]) + b"b"
        self.refused(stacked(body, {"0": ABC}), 2, "found a Python object (a class with source code): save its state_dict()")

    def test_valid_checkpoints_that_safetensors_cannot_hold_are_usage_errors(self):
        w, other = tensor(storage("0", 6), [6], [1]), tensor(storage("1", 6), [6], [1])
        for body, words in (
                (w, "found a tensor: save a dictionary of tensors instead"), (list_of(w, w), "found a list: save a dictionary"),
                (tuple_of(w, w), "found a tuple: save a dictionary"), (dict_of([("state_dict", list_of(w))]), "state_dict: expected a dictionary"),
                (b"}" + tuple_of(number(1), number(2)) + w + b"s", "the key of a tensor is a tuple"), (b"}\x88" + w + b"s", "the key of a tensor is a boolean"),
                (b"}G" + struct.pack(">d", 1.5) + w + b"s", "the key of a tensor is a float"), (dict_of([("epoch", number(1))]), "found no tensors"),
                (dict_of([("a", dict_of([("b", w)])), ("a.b", other)]), "two tensors are named 'a.b'")):
            storages = {key: ABC for key in "01" if text(key) in body}
            for content in (archive(body, storages), stacked(body, storages)):
                self.refused(content, 2, words)
        body = dict_of([("w", w)])
        self.refused(stacked(body, {"0": ABC}, machine=pickle(dict_of([("little_endian", b"\x89")]))), 2, "unsupported byte order 'big'")
        part = storage("0", 6, more=tuple_of(text("1"), b"K\0", b"K\6"))
        self.refused(stacked(dict_of([("w", tensor(part, [6], [1]))]), {"0": ABC}), 2, "is part of another storage")
        self.refused(archive(body, {"0": ABC}, zipfile.ZIP_LZMA), 2, "has compression method 14")

    def test_a_torchscript_program(self):
        self.refused(archive(b"}", {}, entries={"archive/constants.pkl": pickle(b")")}), 2, "TorchScript program: save its state_dict()")

    def test_tensors_outside_of_the_state_dict_are_said(self):
        first, other = tensor(storage("0", 6), [6], [1]), tensor(storage("1", 6), [6], [1])
        state = dict_of([("w", first + b"q\x07")])
        body = dict_of([("state_dict", state), ("ema", dict_of([("shadow", list_of(other, other)), ("same", b"h\x07")]))])
        said = f"safetensors: {self.folder}/a.bin: left out tensors outside 'state_dict': 2 (first: 'ema.shadow.0'); --key chooses another dictionary\n"
        storages = {"0": ABC, "1": ABC}
        self.assertEqual(self.both(body, storages, said=said.encode())[0], {"w": ("F32", [6], ABC)})
        self.both(body, storages, "--key", "state_dict", said=b"")

    def test_a_dictionary_by_its_key(self):
        first, other = tensor(storage("0", 6), [6], [1]), tensor(storage("1", 1), [1], [1])
        body = dict_of([("state_dict", dict_of([("a", first)])), ("model.ema", dict_of([("b", other)])), ("list", list_of(dict_of([("c", other)]))),
                        ("7", number(1)), ("model", dict_of([("inner", dict_of([("d", first)]))]))])
        storages = {"0": ABC, "1": floats(1)}
        for key, names in (("state_dict", ["a"]), ("model.ema", ["b"]), ("list.0", ["c"]), ("model.inner", ["d"]), ("model", ["inner.d"])):
            with self.subTest(key):
                self.assertEqual(list(self.both(body, storages, "--key", key)[0]), names)
        for file in self.folder.iterdir():
            file.unlink()
        self.refused(archive(body, storages), 2, "--key: no dictionary 'none'; there are: state_dict, model.ema, model", options=("--key", "none"))
        self.refused(archive(body, storages), 2, "--key: no dictionary 'model.x'; there are: inner", options=("--key", "model.x"))
        self.refused(archive(body, storages), 2, "7: expected a dictionary, found a integer", options=("--key", "7"))
        self.refused(gguf(([("w", [6], 0, 0)], ABC)), 2, "--key: only torch checkpoints", options=("--key", "a"))
        twice = b"}(" + text("m") + b"}" + text("m") + b"}u"
        self.refused(archive(twice, {}), 1, "has the key 'm' twice", options=("--key", "m"))

    def test_a_dry_run_prints_and_writes_nothing(self):
        body = dict_of([("w", tensor(storage("0", 6), [2, 3], [3, 1])), ("n", number(1)), ("i", tensor(storage("1", 2, "LongStorage"), [2], [1]))])
        path = self.file("a.bin", archive(body, {"0": ABC, "1": bytes(16)}))
        result = run("convert", path, self.out, "--dry-run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.decode(), f"{self.out}: 2 tensors, 40 B\n  I64  [2]  16 B  i\n  F32  [2, 3]  24 B  w\n  metadata  format: pt\n")
        self.assertIn(b"left out values that are not tensors: 1 (first: 'n')", result.stderr)
        self.assertEqual(os.listdir(self.folder), ["a.bin"])
        body = dict_of([("w", tensor(storage("0", 3, "ComplexFloatStorage"), [3], [1]))])
        path = self.file("a.bin", archive(body, {"0": ABC}))
        result = run("convert", path, str(self.folder / "a.bt"), "--dry-run")
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertIn(b"bintensors has no dtype C64", result.stderr)
        pathlib.Path(self.out).write_text("mine")
        result = run("convert", path, self.out, "--dry-run", "--no-replace")
        self.assertEqual((result.returncode, result.stdout), (3, b""))
        self.assertIn(b"already exists", result.stderr)
        self.assertEqual(pathlib.Path(self.out).read_text(), "mine")

    def test_an_archive_without_checksums(self):
        """torch.serialization.set_crc32_options(False) writes 0 in the place of each."""
        content = bytearray(archive(dict_of([("w", tensor(storage("0", 6), [6], [1]))]), {"0": ABC}))
        places = []
        for mark, at in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
            begin = content.find(mark)
            while begin >= 0:
                places.append(begin + at)
                begin = content.find(mark, begin + 1)
        self.assertEqual(len(places), 4)
        for place in places:
            content[place : place + 4] = bytes(4)
        self.assertEqual(self.convert(bytes(content))[0], {"w": ("F32", [6], ABC)})

    def test_an_archive_with_64_bit_sizes_in_a_local_header(self):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as target:
            target.writestr("archive/data.pkl", pickle(dict_of([("w", tensor(storage("0", 6), [6], [1]))])))
            with target.open(zipfile.ZipInfo("archive/data/0"), "w", force_zip64=True) as entry:
                entry.write(ABC)
        self.assertEqual(self.convert(file.getvalue())[0], {"w": ("F32", [6], ABC)})

    def test_dimensions_of_size_one_and_those_that_one_stride_walks_through(self):
        for shape, strides, places in (([3, 1, 2, 1], [1, 9, 3, 9], (0, 3, 1, 4, 2, 5)), ([2, 1, 2], [0, 4, 0], (0, 0, 0, 0)),
                                       ([1, 2, 1, 2, 1], [5, 2, 7, 1, 5], (0, 1, 2, 3)), ([2, 2, 1], [0, 1, 3], (0, 1, 0, 1)),
                                       ([2, 2], [1, 1], (0, 1, 1, 2)),
                                       ([2] + [1] * 100, [3] + [1] * 100, (0, 3)), ([1, 1], [4, 4], (0,))):
            with self.subTest(shape=shape):
                body = dict_of([("w", tensor(storage("0", 6), shape, strides))])
                expected = b"".join(ABC[4 * at:4 * at + 4] for at in places)
                self.assertEqual(self.convert(archive(body, {"0": ABC}))[0], {"w": ("F32", shape, expected)})

    def test_an_input_that_changes_while_elements_are_gathered(self):
        """Its pages are mapped. Touching one beyond the end raises SIGBUS; other changes raise nothing."""
        size = 32 << 20
        body = dict_of([("t", tensor(storage("0", size // 4), [4096, size // 4 // 4096], [1, 4096]))])
        content = stacked(body, {"0": bytes(size)})

        def overwrite(path):
            with open(path, "r+b") as file:
                file.seek(len(content) - 100)
                file.write(b"x" * 100)

        for change, words in ((lambda path: os.truncate(path, 4096), "truncated"), (overwrite, "changed"),
                              (lambda path: os.truncate(path, len(content) - 100), "truncated")):
            path = self.file("a.bin", content)
            with subprocess.Popen([COMMAND, "convert", path, "-", "--to", "safetensors"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                process.stdout.read(1000)
                change(path)
                process.stdout.read()
                line = process.stderr.read().decode()
            self.assertEqual(process.returncode, 3, line)
            self.assertIn(f"a.bin: file was {words} while being read", line)

    def test_what_is_no_tensor_is_left_out_and_said(self):
        body = dict_of([("epoch", number(3)), ("w", tensor(storage("0", 6), [6], [1]))])
        result = run("convert", self.file("a.bin", archive(body, {"0": ABC})), self.out)
        self.assertEqual((result.returncode, result.stderr.decode().split("a.bin: ")[1]),
                         (0, "left out values that are not tensors: 1 (first: 'epoch')\n"))

    def test_a_parameter_and_the_attributes_of_a_state_dict(self):
        parameter = call("torch._utils", "_rebuild_parameter", tensor(storage("0", 6), [6], [1]), b"\x88", ORDERED)
        body = ORDERED + b"(" + text("w") + parameter + b"u" + dict_of([("_metadata", ORDERED)]) + b"b"
        tensors, _ = self.both(body, {"0": ABC})
        self.assertEqual(list(tensors), ["w"])

    def test_a_parameter_with_attributes(self):
        """Torch stores their state as a fourth argument."""
        parameter = call("torch._utils", "_rebuild_parameter_with_state", tensor(storage("0", 6), [6], [1]), b"\x88", ORDERED,
                         dict_of([("tag", number(1))]))
        self.assertEqual(self.both(dict_of([("w", parameter)]), {"0": ABC})[0], {"w": ("F32", [6], ABC)})

    def test_a_checkpoint_of_python_2_and_torch_0_3(self):
        """Like torchvision's first checkpoints: parameters get a state, and dictionaries are made from lists of pairs."""
        source = tuple_of(b"U\x07storage", name("torch", "FloatStorage"), b"U\x010", b"U\x03cpu", b"K\x06", NONE) + b"Q"
        plain = call("torch._utils", "_rebuild_tensor", source, b"K\x00", b"K\x02K\x03\x86", b"K\x03K\x01\x86")
        parameter = call("torch.nn.parameter", "Parameter", plain) + tuple_of(b"\x88", b"\x89", call("collections", "OrderedDict", b"]")) + b"b"
        body = call("collections", "OrderedDict", list_of(list_of(b"U\x01w", parameter)))
        self.assertEqual(self.both(body, {"0": ABC})[0], {"w": ("F32", [2, 3], ABC)})
        more = call("torch.nn.parameter", "Parameter", plain, b"\x89")
        self.assertEqual(self.both(dict_of([("w", more)]), {"0": ABC})[0], {"w": ("F32", [2, 3], ABC)})

    def test_a_tensor_with_attributes(self):
        for module, called in (("_rebuild_from_type_v2", "Tensor"), ("_rebuild_from_type", "Tensor")):
            inner = tensor(storage("0", 6), [6], [1])
            arguments = inner[inner.index(b"\n", inner.index(b"\n") + 1) + 1 : -1]
            value = call("torch._tensor", module, name("torch._utils", "_rebuild_tensor_v2"), name("torch", called), arguments,
                         dict_of([("tag", number(1))]))
            self.assertEqual(self.both(dict_of([("w", value)]), {"0": ABC})[0], {"w": ("F32", [6], ABC)})

    def test_keys_that_are_no_names(self):
        """They matter only if a tensor needs one."""
        odd = b"}(" + tuple_of(number(1)) + number(2) + NONE + number(3) + b"\x88" + number(4) + b"u"
        body = dict_of([("w", tensor(storage("0", 6), [6], [1])), ("odd", odd)])
        self.assertEqual(self.both(body, {"0": ABC}, said=None)[0], {"w": ("F32", [6], ABC)})
        self.refused_last(body=dict_of([("w", b"}(" + NONE + tensor(storage("0", 6), [6], [1]) + b"u")]))

    def refused_last(self, body):
        for file in self.folder.iterdir():
            file.unlink()
        self.refused(archive(body, {"0": ABC}), 2, "the key of a tensor is a None, expected a string or an integer")

    def test_a_tensor_that_repeats_elements_is_not_kept_for_all_of_them(self):
        """It is as long as the storage, and comes first by name."""
        body = dict_of([("a", tensor(storage("0", 6), [2, 3], [0, 1])), ("b", tensor(storage("0", 6), [6], [1]))])
        tensors, metadata = self.both(body, {"0": ABC}, said=None)
        self.assertEqual((tensors, metadata), ({"b": ("F32", [6], ABC)}, {"format": "pt", "a": "b"}))
        for file in self.folder.iterdir():
            file.unlink()
        body = dict_of([("a", tensor(storage("0", 4), [2, 2], [0, 3])), ("b", tensor(storage("0", 4), [2, 2], [0, 1]))])
        self.refused(stacked(body, {"0": ABC[:16]}), 2, "'b' and 'a' share elements")

    def test_a_transposed_tensor_is_all_of_its_storage(self):
        body = dict_of([("a", tensor(storage("0", 6), [3, 1, 2], [1, 0, 3])), ("b", tensor(storage("0", 6), [2], [1]))])
        tensors, _ = self.both(body, {"0": ABC}, said=None)
        self.assertEqual(tensors, {"a": ("F32", [3, 1, 2], floats(0, 3, 1, 4, 2, 5))})

    def test_the_stride_of_a_single_element_says_nothing(self):
        body = dict_of([("a", tensor(storage("0", 6), [6, 1], [1, 1])), ("b", tensor(storage("0", 6), [6, 1], [1, (1 << 63) - 1]))])
        _, metadata = self.both(body, {"0": ABC}, said=b"")
        self.assertEqual(metadata, {"format": "pt", "b": "a"})

    def test_a_name_that_cannot_be_written_is_of_the_file_that_is_read(self):
        for called, code in ((b"\xff", 1), (b"\xed\xa0\x80", 1), (b"__metadata__", 2)):
            self.refused(archive(dict_of([(called, tensor(storage("0", 6), [6], [1]))]), {"0": ABC}), code, "a tensor")

    def test_numbers_and_values_that_are_thrown_away(self):
        """Every encoding of an integer; POP, POP_MARK, SETITEM; a memo that is written twice and then continued."""
        first = b"J\x01\x00\x00\x00"
        item = tensor(storage("0", 6), [], []).replace(number(0), first, 1)
        thrown = b"J\xff\xff\xff\xff0" + b"(K\x01M\x02\x011" + b"B\x02\x00\x00\x00ab0" + b"\x8e\x02" + bytes(7) + b"ab0"
        body = b"}" + thrown + text("w") + item + b"s" + text("n") + b"J\xff\xff\xff\xffs"
        tensors, _ = self.both(body, {"0": ABC}, said=None)
        self.assertEqual(tensors, {"w": ("F32", [], floats(1))})
        body = b"}" + text("w") + b"\x94\x94" + text("v") + b"q\x000" + text("u") + b"\x940h\x00" + b"0h\x020" + NONE + b"s"
        body += text("x") + item + b"s"
        self.assertEqual(self.convert(archive(body, {"0": ABC}), said=None)[0], {"x": ("F32", [], floats(1))})

    def test_protocol_1_and_numbers_as_text(self):
        """Python 2 writes numbers beyond 32 bits as text in every protocol."""
        item = tensor(storage("0", 6), [6], [1]).replace(b"\x89", b"I00\n")
        body = b"}(I4294967296\n" + item + b"I-4294967297\n" + item + b"L7L\n" + item + b"L-9223372036854775808L\n" + item
        body += b"L9223372036854775808L\nI01\nL-" + b"9" * 99 + b"L\nNu"
        expected = {key: ("F32", [6], ABC) for key in ("4294967296", "-4294967297", "7", "-9223372036854775808")}
        headers = {"magic": python_pickle.dumps(0x1950A86A20F9469CFC6C, 1), "version": python_pickle.dumps(1001, 1),
                   "machine": python_pickle.dumps({"little_endian": True, "protocol_version": 1001}, 1),
                   "keys": python_pickle.dumps(["0"], 1)}
        for whole in (archive(body, {"0": ABC}, protocol=1) if READS_ZIP else None, stacked(body, {"0": ABC}, protocol=1, **headers),
                      stacked(body, {"0": ABC}, magic=pickle(b"L119547037146038801333356L\n"))):
            if whole is not None:
                tensors, _ = self.convert(whole, "--keep-shared", said=None)
                self.assertEqual(tensors, expected)
        self.file("a.bin", stacked(body, {"0": ABC}, protocol=1, **{**headers, "magic": python_pickle.dumps(-0x1950A86A20F9469CFC6C, 1)}))
        result = run("convert", str(self.folder / "a.bin"), self.out)
        self.assertEqual(result.returncode, 1)

    def test_protocol_4_with_frames_and_names_from_the_stack(self):
        def short(value):
            return b"\x8c" + bytes([len(value)]) + value.encode()

        def stack_name(module, attribute):
            return short(module) + short(attribute) + b"\x93"
        source = tuple_of(short("storage"), stack_name("torch", "FloatStorage"), short("0"), short("cpu"), b"K\x06") + b"Q"
        body = b"\x95" + struct.pack("<Q", 20) + b"}\x94" + short("w") + stack_name("torch._utils", "_rebuild_tensor_v2")
        body += tuple_of(source, b"K\x00", b"K\x06\x85", b"K\x01\x85", b"\x89", stack_name("collections", "OrderedDict") + b")R")
        tensors, _ = self.convert(archive(body + b"Rs", {"0": ABC}, protocol=4))
        self.assertEqual(tensors, {"w": ("F32", [6], ABC)})

    def test_empty_things(self):
        self.assertEqual(self.both(b"}", {}), ({}, {"format": "pt"}))
        body = dict_of([("z", tensor(storage("0", 0), [0, 3], [3, 1])), ("y", tensor(storage("0", 0), [0], [1]))])
        tensors, metadata = self.both(body, {"0": b""})
        self.assertEqual(tensors, {"z": ("F32", [0, 3], b""), "y": ("F32", [0], b"")})
        self.assertEqual(metadata, {"format": "pt"})

    def test_packed_entries(self):
        body = dict_of([("w", tensor(storage("0", 6), [6], [1])), ("t", tensor(storage("1", 6), [3, 2], [1, 3]))])
        tensors, _ = self.convert(archive(body, {"0": ABC, "1": ABC}, zipfile.ZIP_DEFLATED))
        self.assertEqual((tensors["w"][2], tensors["t"][2]), (ABC, floats(0, 3, 1, 4, 2, 5)))

    def test_a_packed_storage_without_elements(self):
        body = dict_of([("w", tensor(storage("0", 0), [0], [1]))])
        self.assertEqual(self.convert(archive(body, {"0": b""}, zipfile.ZIP_DEFLATED))[0], {"w": ("F32", [0], b"")})

    def test_views_of_a_packed_storage_in_a_stream(self):
        body = dict_of([("c", tensor(storage("0", 6), [2], [1], first=4)), ("a", tensor(storage("0", 6), [2], [2])),
                        ("b", tensor(storage("0", 6), [2], [1], first=3))])
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            tensors, _ = self.convert(archive(body, {"0": ABC}, compression), "--keep-shared")
            self.assertEqual({key: value[2] for key, value in tensors.items()}, {"a": floats(0, 2), "b": floats(3, 4), "c": floats(4, 5)})
            result = run("convert", str(self.folder / "a.bin"), "-", "--to", "safetensors", "--keep-shared")
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertEqual(result.stdout, pathlib.Path(self.out).read_bytes())

    def test_an_unpacked_storage_lies_where_tmpdir_says(self):
        path = self.file("a.bin", archive(dict_of([("t", tensor(storage("0", 6), [3, 2], [1, 3]))]), {"0": ABC}, zipfile.ZIP_DEFLATED))
        result = run("convert", path, self.out, env={**os.environ, "TMPDIR": str(self.folder / "none")})
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn(f"{self.folder}/none: temporary file: No such file", result.stderr.decode())
        self.assertFalse(os.path.exists(self.out))
        (self.folder / "some").mkdir()
        result = run("convert", path, self.out, env={**os.environ, "TMPDIR": str(self.folder / "some")})
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(os.listdir(self.folder / "some"), [])
        self.assertEqual(read(self.out)[0], {"t": ("F32", [3, 2], floats(0, 3, 1, 4, 2, 5))})

    @needs_interference
    def test_an_unpacked_storage_without_files_without_names(self):
        path = self.file("a.bin", archive(dict_of([("t", tensor(storage("0", 6), [3, 2], [1, 3]))]), {"0": ABC}, zipfile.ZIP_DEFLATED))
        (self.folder / "some").mkdir()
        result = run("convert", path, self.out, env={**interfered("names"), "TMPDIR": str(self.folder / "some")})
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(os.listdir(self.folder / "some"), [])
        self.assertEqual(read(self.out)[0], {"t": ("F32", [3, 2], floats(0, 3, 1, 4, 2, 5))})

    @needs_interference
    def test_what_is_not_as_it_was_written_is_told_and_not_removed(self):
        path = self.file("a.bin", archive(dict_of([("w", tensor(storage("0", 6), [6], [1]))]), {"0": ABC}))
        result = run("convert", path, self.out, env=interfered("reads"))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("tensor 'w' differs from the written data", result.stderr.decode())
        self.assertTrue(os.path.exists(self.out))  # it may be another process's file

    def test_an_archive_with_a_comment(self):
        content = archive(dict_of([("w", tensor(storage("0", 6), [6], [1]))]), {"0": ABC})
        comment = b"PK\x05\x06 and words"
        self.assertEqual(self.convert(content[:-2] + struct.pack("<H", len(comment)) + comment)[0], {"w": ("F32", [6], ABC)})

    def test_a_type_that_safetensors_lacks(self):
        body = dict_of([("w", tensor(storage("0", 1, "ComplexDoubleStorage"), [1], [1]))])
        self.refused(archive(body, {"0": bytes(16)}), 2, "tensor 'w': safetensors has no dtype for torch's ComplexDoubleStorage")
        body = dict_of([("w", tensor(storage("0", 1, "QUInt8Storage"), [1], [1]))])
        self.refused(archive(body, {"0": bytes(1)}), 2, "QUInt8Storage")

    def test_a_stream_gets_the_same_bytes(self):
        body = dict_of([("b", tensor(storage("0", 6), [2], [1], first=4)), ("a", tensor(storage("0", 6), [3], [1])),
                        ("i", tensor(storage("1", 2, "LongStorage"), [2], [1]))])
        content = archive(body, {"0": ABC, "1": struct.pack("<qq", 1, 2)})
        self.convert(content)
        result = run("convert", str(self.folder / "a.bin"), "-", "--to", "safetensors")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(result.stdout, pathlib.Path(self.out).read_bytes())

    def test_standard_output_in_a_file_is_written_in_order(self):
        """It is a regular file, but also a stream."""
        content = archive(dict_of([("f", tensor(storage("0", 6), [6], [1])), ("i", tensor(storage("1", 1, "LongStorage"), [1], [1]))]),
                          {"0": ABC, "1": struct.pack("<q", 1)})
        self.convert(content)
        with open(self.folder / "redirected", "wb") as file:
            subprocess.run([COMMAND, "convert", str(self.folder / "a.bin"), "-", "--to", "safetensors"], stdout=file, check=True, timeout=60)
        self.assertEqual((self.folder / "redirected").read_bytes(), pathlib.Path(self.out).read_bytes())

    def test_to_bintensors(self):
        self.file("a.bin", archive(SHARED, {"0": ABC}))
        self.assertEqual(run("convert", str(self.folder / "a.bin"), str(self.folder / "a.bt")).returncode, 0)
        self.assertEqual(run("convert", str(self.folder / "a.bt"), self.out).returncode, 0)
        self.assertEqual(read(self.out)[0], {"a": ("F32", [6], ABC)})

    def test_an_output_that_is_the_input(self):
        path = self.file("a.bin", archive(SHARED, {"0": ABC}))
        os.link(path, self.folder / "b.safetensors")
        result = run("convert", path, str(self.folder / "b.safetensors"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("is also an input", result.stderr.decode())

    def test_a_header_of_640_bytes_is_no_pickle(self):
        """Its first two bytes are those of a pickle of protocol 2."""
        header = b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'.ljust(640)
        tensors, _ = self.convert(struct.pack("<Q", 640) + header)
        self.assertEqual(tensors, {"a": ("U8", [0], b"")})


@unittest.skipUnless(os.geteuid() == 0 and os.access("/dev/fuse", os.W_OK) and shutil.which("bindfs"), "needs root and bindfs")
@unittest.skipIf(os.environ.get("ST_LINUX_IO") == "0", "this build cannot ask the server of a mount")
class Mount(Case):
    def setUp(self):
        super().setUp()
        self.real, self.mounted = self.folder / "real", self.folder / "mounted"
        self.real.mkdir()
        self.mounted.mkdir()
        server = subprocess.Popen(["bindfs", "-f", "-o", "ro,attr_timeout=60,entry_timeout=60", str(self.real), str(self.mounted)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        while not os.path.ismount(self.mounted):
            if server.poll() is not None:
                self.skipTest("mounting is not allowed")
            time.sleep(0.01)

    @needs_interference
    def test_an_input_that_changes_behind_a_mount(self):
        """The mount answers from its cache what the file was a minute ago."""
        body = dict_of([("w", tensor(storage("0", 6), [6], [1]))])
        path = self.file("real/a.bin", stacked(body, {"0": ABC}))
        os.utime(path, (1, 1))
        result = run("convert", str(self.mounted / "a.bin"), self.out, env={**interfered("overwrite"), "ST_INPUT": path})
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("a.bin: file was changed while being read", result.stderr.decode())
        self.assertFalse(os.path.exists(self.out))

    def test_a_mount_whose_cache_is_older_than_the_file(self):
        body = dict_of([("w", tensor(storage("0", 6), [6], [1]))])
        path = self.file("real/a.bin", stacked(body, {"0": ABC}))
        os.utime(path, (1, 1))
        os.stat(self.mounted / "a.bin")
        os.utime(path, (2, 2))
        result = run("convert", str(self.mounted / "a.bin"), self.out)
        self.assertEqual((result.returncode, result.stderr), (0, b""))


@needs_zip
class LargeArchive(Case):
    def test_an_archive_beyond_4_gib(self):
        """The storage is a hole with the CRC of zeros, so the file takes no space. Only the small storage is used."""
        hole = (4 << 30) + 64
        body = dict_of([("w", tensor(storage("1", 6), [6], [1]))])
        path = self.folder / "a.bin"
        with open(path, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as target:
                target.writestr("archive/data.pkl", pickle(body))
            small = path.read_bytes()
        # By hand: local header of the hole, the hole, the small storage, a directory with 64-bit numbers.
        def local(called, size, crc):
            extra = struct.pack("<HHQQ", 1, 16, size, size)
            return struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(called),
                               len(extra)) + called + extra
        def entry(called, size, crc, at):
            extra = struct.pack("<HHQQQ", 1, 24, size, size, at)
            return struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(called),
                               len(extra), 0, 0, 0, 0, 0xFFFFFFFF) + called + extra
        pickled = pickle(body)
        self.assertIn(pickled, small)
        parts = [(b"archive/data/0", hole, None), (b"archive/data.pkl", len(pickled), pickled),
                 (b"archive/data/1", len(ABC), ABC)]
        directory = b""
        with open(path, "wb") as file:
            for called, size, data in parts:
                at = file.tell()
                crc = 0 if data is None else zlib.crc32(data)
                file.write(local(called, size, crc))
                file.seek(hole, os.SEEK_CUR) if data is None else file.write(data)
                directory += entry(called, size, crc, at)
            begin = file.tell()
            file.write(directory)
            end = file.tell()
            file.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 3, 3, len(directory), begin))
            file.write(struct.pack("<IIQI", 0x07064B50, 0, end, 1))
            file.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))
        with zipfile.ZipFile(path) as check:
            self.assertEqual(check.read("archive/data/1"), ABC)
        result = run("convert", str(path), self.out)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(read(self.out)[0], {"w": ("F32", [6], ABC)})


@needs_zip
class Shards(Case):
    def setUp(self):
        super().setUp()
        self.source = self.folder / "old"
        self.source.mkdir()
        one = archive(dict_of([("a", tensor(storage("0", 6), [6], [1])), ("b", tensor(storage("0", 6), [6], [1]))]), {"0": ABC})
        two = stacked(dict_of([("c", tensor(storage("9", 1), [1], [1]))]), {"9": floats(1)})
        self.index = {"metadata": {"total_size": 1, "kept": "yes"},
                      "weight_map": {"c": "pytorch_model-00002-of-00002.bin", "a": "pytorch_model-00001-of-00002.bin",
                                     "b": "pytorch_model-00001-of-00002.bin"}}
        (self.source / "pytorch_model-00001-of-00002.bin").write_bytes(one)
        (self.source / "pytorch_model-00002-of-00002.bin").write_bytes(two)
        self.write_index()

    def write_index(self):
        self.path = self.source / "pytorch_model.bin.index.json"
        self.path.write_text(json.dumps(self.index))

    def test_a_model_in_shards(self):
        into = self.folder / "new"
        result = run("convert", str(self.path), str(into))
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(sorted(os.listdir(into)), ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                                    "model.safetensors.index.json"])
        index = json.loads((into / "model.safetensors.index.json").read_text())
        self.assertEqual(index, {"metadata": {"total_size": 28, "kept": "yes"},
                                 "weight_map": {"c": "model-00002-of-00002.safetensors", "a": "model-00001-of-00002.safetensors"}})
        self.assertEqual(read(into / "model-00001-of-00002.safetensors"),
                         ({"a": ("F32", [6], ABC)}, {"format": "pt", "b": "a"}))
        shown = json.loads(run("show", str(into), "--json").stdout)
        self.assertEqual(shown["total"], {"tensors": 2, "parameters": 7, "bytes": 28})

    def test_a_tensor_that_its_shard_does_not_hold(self):
        for ghost in ("ghost", "format"):  # the shard's metadata has a key "format"
            with self.subTest(ghost):
                self.index["weight_map"] = {**self.index["weight_map"], ghost: "pytorch_model-00002-of-00002.bin"}
                self.write_index()
                result = run("convert", str(self.path), str(self.folder / "new"))
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"'{ghost}' is not in pytorch_model-00002-of-00002.bin", result.stderr.decode())
                self.assertEqual(os.listdir(self.folder), ["old"])
                del self.index["weight_map"][ghost]

    @needs_interference
    def test_new_shards_that_differ_when_read_back_are_removed(self):
        result = run("convert", str(self.path), str(self.folder / "new"), env=interfered("reads"))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(os.listdir(self.folder), ["old"])

    def test_a_tensor_that_the_index_has_twice(self):
        """If only the last entry counted, the shard of the first would be omitted."""
        names = '"c": "pytorch_model-00001-of-00002.bin", "c": "pytorch_model-00002-of-00002.bin"'
        self.path.write_text('{"metadata": {}, "weight_map": {' + names + "}}")
        result = run("convert", str(self.path), str(self.folder / "new"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("key 'c' occurs twice", result.stderr.decode())
        self.assertEqual(os.listdir(self.folder), ["old"])

    def test_an_index_of_many_objects_takes_no_quadratic_time(self):
        self.path.write_text('{"weight_map": {"a": "x.bin"}, "z": [' + "{}," * 640_000 + "{}]}")
        result = run("convert", str(self.path), str(self.folder / "new"))
        self.assertEqual(result.returncode, 3, result.stderr)  # a second; it took more than a minute
        self.assertIn("x.bin", result.stderr.decode())

    def test_of_a_model_that_fails_nothing_new_stays(self):
        bad = self.source / "pytorch_model-00002-of-00002.bin"
        good = bad.read_bytes()
        bad.write_bytes(good[:-1])
        self.assertEqual(run("convert", str(self.path), str(self.folder / "new")).returncode, 1)
        self.assertEqual(os.listdir(self.folder), ["old"])
        into = self.folder / "mine"
        into.mkdir()
        (into / "model-00002-of-00002.safetensors").write_text("mine")
        self.assertEqual(run("convert", str(self.path), str(into)).returncode, 3)
        self.assertEqual(os.listdir(into), ["model-00002-of-00002.safetensors"])
        (into / "model-00002-of-00002.safetensors").unlink()
        bad.write_bytes(good)
        self.assertEqual(run("convert", str(self.path), str(into)).returncode, 0)
        self.assertEqual(sorted(os.listdir(into)), ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                                    "model.safetensors.index.json"])

    def test_an_older_conversion_is_not_mixed_with_a_new_one(self):
        """Shards of two models under one index would pass for a valid model."""
        into = self.folder / "new"
        self.assertEqual(run("convert", str(self.path), str(into)).returncode, 0)
        before = {path.name: path.read_bytes() for path in into.iterdir()}
        one = archive(dict_of([("a", tensor(storage("0", 6), [6], [1]))]), {"0": floats(6, 5, 4, 3, 2, 1)})
        (self.source / "pytorch_model-00001-of-00002.bin").write_bytes(one)
        (self.source / "pytorch_model-00002-of-00002.bin").write_bytes(b"bad")
        for options, code, words in (([], 3, "already exists"), (["--no-replace"], 3, "already exists"),
                                     (["--replace"], 2, "--replace is for a single file")):
            result = run("convert", str(self.path), str(into), *options)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(words, result.stderr.decode())
            self.assertEqual({path.name: path.read_bytes() for path in into.iterdir()}, before)

    def test_a_reader_of_messages_that_leaves_leaves_no_shards(self):
        """The first shard causes two messages."""
        (self.source / "pytorch_model-00001-of-00002.bin").write_bytes(archive(dict_of([
            ("a", tensor(storage("0", 6), [6], [1])), ("b", tensor(storage("0", 6), [2, 3], [3, 1])), ("n", number(1))]), {"0": ABC}))
        self.assertEqual(run("convert", str(self.path), str(self.folder / "new")).stderr.count(b"\n"), 2)
        shutil.rmtree(self.folder / "new")
        reader, writer = os.pipe()
        os.close(reader)
        process = run("convert", str(self.path), str(self.folder / "new"), stdout=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        self.assertEqual((process.returncode, os.listdir(self.folder)), (-signal.SIGPIPE, ["old"]))

    @needs_interference
    def test_shards_of_two_versions_are_not_mixed(self):
        """A download of another version, for example, overwrites a shard before its turn comes."""
        for name in ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"):
            with self.subTest(name):
                self.setUp()
                os.utime(self.source / name, (1, 1))
                result = run("convert", str(self.path), str(self.folder / "new"), env={**interfered("overwrite"), "ST_INPUT": str(self.source / name)})
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertRegex(result.stderr.decode(), name + ": (was changed or replaced while the model was|file was changed while)")
                self.assertEqual(os.listdir(self.folder), ["old"])

    @needs_interference
    def test_a_shard_of_another_version_that_is_put_back(self):
        """At both ends of the conversion the names lead to one version, but in between the second shard is of another."""
        shard = self.source / "pytorch_model-00002-of-00002.bin"
        other = self.folder / "other.bin"
        other.write_bytes(stacked(dict_of([("c", tensor(storage("9", 1), [1], [1]))]), {"9": floats(2)}))
        result = run("convert", str(self.path), str(self.folder / "new"),
                     env={**interfered("exchange"), "ST_INPUT": str(shard), "ST_RENAMED": str(other)})
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn(shard.name + ": was changed or replaced while the model was being converted", result.stderr.decode())
        self.assertEqual(sorted(os.listdir(self.folder)), ["old", "other.bin"])

    @needs_interference
    def test_an_input_that_is_gone_at_the_end(self):
        self.index["weight_map"] = {"c": "pytorch_model-00002-of-00002.bin"}
        self.write_index()
        for name in ("pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"):
            gone = self.folder / "gone"
            gone.symlink_to("nowhere")
            result = run("convert", str(self.path), str(self.folder / "new"),
                         env={**interfered("exchange"), "ST_INPUT": str(self.source / name), "ST_RENAMED": str(gone)})
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn(name + ": No such file or directory", result.stderr.decode())
            self.assertEqual(sorted(os.listdir(self.folder)), ["gone", "old"])
            os.replace(gone, self.source / name)

    @needs_interference
    def test_a_file_of_somebody_who_was_faster_stays(self):
        for what, theirs in (("index", "model.safetensors.index.json"), ("shard", "model-00002-of-00002.safetensors")):
            with self.subTest(what):
                into = self.folder / what
                result = run("convert", str(self.path), str(into), env=interfered(what))
                self.assertEqual(result.returncode, 3, result.stderr)
                self.assertIn("File exists", result.stderr.decode())
                self.assertEqual(os.listdir(into), [theirs])
                self.assertEqual((into / theirs).read_text(), "theirs")

    def test_an_index_that_is_the_output(self):
        os.mkdir(self.folder / "new")
        result = run("convert", str(self.path), "new/x.safetensors.index.json", cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertIn("x.safetensors.index.json", os.listdir(self.folder / "new"))
        result = run("convert", str(self.path), "x.safetensors.index.json", cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertIn("model-00001-of-00002.safetensors", os.listdir(self.folder))

    def test_an_index_with_other_metadata(self):
        for metadata in (None, "text", [1]):
            self.index["metadata"] = metadata
            self.write_index()
            self.assertEqual(run("convert", str(self.path), str(self.folder / "new")).returncode, 0)
            index = json.loads((self.folder / "new" / "model.safetensors.index.json").read_text())
            self.assertEqual(index["metadata"], {"total_size": 28})
            shutil.rmtree(self.folder / "new")

    def test_a_shard_behind_a_link_that_leaves_the_folder(self):
        """As for the library's own shards, only the cache of a model hub may have such links."""
        shard = self.source / "pytorch_model-00002-of-00002.bin"
        os.rename(shard, self.folder / "outside.bin")
        os.symlink("../outside.bin", shard)
        result = run("convert", str(self.path), str(self.folder / "new"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("'pytorch_model-00002-of-00002.bin' is a link that leaves the directory of its index", result.stderr.decode())
        self.assertFalse((self.folder / "new").exists())
        hub = self.folder / "models--a--b"
        (hub / "blobs").mkdir(parents=True)
        snapshot = hub / "snapshots" / "0123456789012345678901234567890123456789"
        snapshot.mkdir(parents=True)
        for number_of, name_of in enumerate(sorted(os.listdir(self.source))):
            blob = hub / "blobs" / f"{number_of}"
            blob.write_bytes((self.source / name_of).read_bytes())
            os.symlink(f"../../blobs/{number_of}", snapshot / name_of)
        result = run("convert", str(snapshot), str(self.folder / "new"))
        self.assertEqual((result.returncode, result.stderr), (0, b""))

    def test_a_folder_and_a_dry_run(self):
        into = self.folder / "new"
        result = run("convert", str(self.source), str(into), "--dry-run")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        lines = result.stdout.decode().splitlines()
        self.assertEqual([line for line in lines if not line.startswith("  ")],
                         [f"{into}/model-00001-of-00002.safetensors: 1 tensor, 24 B", f"{into}/model-00002-of-00002.safetensors: 1 tensor, 4 B",
                          f"{into}/model.safetensors.index.json: index of 2 tensors, 28 B"])
        self.assertEqual(os.listdir(self.folder), ["old"])
        result = run("convert", str(self.source), str(into))
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(len(os.listdir(into)), 3)

    def test_every_shard_is_missing(self):
        for file in self.source.glob("*.bin"):
            file.unlink()
        result = run("convert", str(self.path), str(self.folder / "new"))
        self.assertEqual(result.returncode, 3)
        self.assertIn("pytorch_model-00001-of-00002.bin: No such file", result.stderr.decode())

    def test_a_shard_outside_of_the_folder(self):
        (self.folder / "evil.bin").write_bytes((self.source / "pytorch_model-00002-of-00002.bin").read_bytes())
        self.index["weight_map"] = {"c": "../evil.bin"}
        self.write_index()
        result = run("convert", str(self.path), str(self.folder / "new"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("'../evil.bin' is not in the same folder", result.stderr.decode())

    def test_a_missing_shard_is_named_before_anything_is_written(self):
        for missing in ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"):
            os.rename(self.source / missing, self.source / "elsewhere")
            result = run("convert", str(self.path), str(self.folder / "new"))
            self.assertEqual(result.returncode, 3)
            self.assertIn(f"{missing}: No such file", result.stderr.decode())
            self.assertFalse((self.folder / "new").exists())
            os.rename(self.source / "elsewhere", self.source / missing)

    def test_a_shard_with_a_zero_byte_in_its_name(self):
        """The system would end the name there, for both input and output."""
        self.index["weight_map"] = {"c": "pytorch_model-00002-of-00002.bin\0.bin"}
        self.write_index()
        result = run("convert", str(self.path), str(self.folder / "new"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("is not in the same folder", result.stderr.decode())

    def test_a_damaged_index_is_named_whatever_the_output_is(self):
        self.path.write_text('{"metadata": {}, "weight_map": {"a": "p.bin",')
        for into in ("new", "new.safetensors.index.json", "new.safetensors"):
            for source in (self.path, self.source):
                result = run("convert", str(source), str(self.folder / into))
                self.assertEqual((result.returncode, result.stdout), (1, b""), result.stderr)
                self.assertIn("pytorch_model.bin.index.json", result.stderr.decode())
        self.assertEqual(os.listdir(self.folder), ["old"])

    def test_an_index_as_deep_as_the_stack(self):
        self.path.write_text(json.dumps(self.index)[:-1] + ', "more": ' + "[" * 200_000 + "]" * 200_000 + "}")
        result = run("convert", str(self.path), str(self.folder / "new"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("nested deeper than 100", result.stderr.decode())
        self.assertFalse((self.folder / "new").exists())

    def test_a_file_as_the_output(self):
        self.assertEqual(run("convert", str(self.path), self.out).returncode, 2)

    def test_no_replace(self):
        into = self.folder / "new"
        into.mkdir()
        (into / "model.safetensors.index.json").write_text("mine")
        result = run("convert", str(self.path), str(into), "--no-replace")
        self.assertEqual(result.returncode, 3)
        self.assertEqual(os.listdir(into), ["model.safetensors.index.json"])


@needs_zip
class Folder(Case):
    def setUp(self):
        super().setUp()
        self.source = self.folder / "model"
        self.source.mkdir()
        (self.source / "config.json").write_text("{}")
        self.content = archive(dict_of([("w", tensor(storage("0", 6), [6], [1]))]), {"0": ABC})

    def convert_folder(self):
        return run("convert", str(self.source), self.out)

    def test_the_only_checkpoint_of_a_folder(self):
        (self.source / "last.ckpt").write_bytes(self.content)
        self.assertEqual(self.convert_folder().returncode, 0)
        self.assertEqual(read(self.out)[0], {"w": ("F32", [6], ABC)})

    def test_the_usual_name_comes_first(self):
        other = archive(dict_of([("other", tensor(storage("0", 6), [6], [1]))]), {"0": ABC})
        (self.source / "a.bin").write_bytes(other)
        (self.source / "b.bin").write_bytes(other)
        result = self.convert_folder()
        self.assertEqual(result.returncode, 2)
        self.assertIn("several checkpoints, such as 'a.bin' and 'b.bin': give the path of one", result.stderr.decode())
        (self.source / "pytorch_model.bin").write_bytes(self.content)
        self.assertEqual(self.convert_folder().returncode, 0)
        self.assertEqual(list(read(self.out)[0]), ["w"])

    @needs_interference
    def test_what_cannot_be_read_is_not_passed_over(self):
        (self.source / "a.bin").write_bytes(self.content)
        (self.source / "b.bin").write_bytes(self.content)
        unreadable = {**interfered("unreadable"), "ST_INPUT": str(self.source / "a.bin")}
        for environment, words in ((unreadable, "a.bin: Permission denied"), (interfered("listing"), "Input/output error")):
            result = run("convert", str(self.source), self.out, env=environment)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn(words, result.stderr.decode())
            self.assertEqual(os.listdir(self.folder), ["model"])

    def test_a_model_of_the_library_comes_first(self):
        (self.source / "pytorch_model.bin").write_bytes(self.content)
        header = b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
        (self.source / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
        self.assertEqual(self.convert_folder().returncode, 0)
        self.assertEqual(list(read(self.out)[0]), ["a"])

    def test_a_folder_without_a_model(self):
        result = self.convert_folder()
        self.assertEqual((result.returncode, os.listdir(self.folder)), (3, ["model"]), result.stderr)


NUMPY_TYPES = [("|b1", "BOOL", 1), ("|u1", "U8", 1), ("|i1", "I8", 1), ("<u2", "U16", 2), ("<i2", "I16", 2), ("<u4", "U32", 4),
               ("<i4", "I32", 4), ("<u8", "U64", 8), ("<i8", "I64", 8), ("<f2", "F16", 2), ("<f4", "F32", 4), ("<f8", "F64", 8),
               ("<c8", "C64", 8)]


class Numpy(Case):
    def test_every_type(self):
        for descr, dtype, size in NUMPY_TYPES:
            with self.subTest(descr):
                data = bytes(i % 2 for i in range(6 * size))
                tensors, _ = self.convert(npy(descr, (2, 3), data), called="weights.npy")
                self.assertEqual(tensors, {"weights": (dtype, [2, 3], data)})

    def test_fortran_order_and_versions(self):
        for version in (1, 2, 3):
            tensors, _ = self.convert(npy("<f4", (3, 2), ABC, fortran=True, version=version), called="w.npy")
            self.assertEqual(tensors, {"w": ("F32", [3, 2], floats(0, 3, 1, 4, 2, 5))})

    @needs_zip
    def test_npz_plain_and_packed(self):
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w", compression) as target:
                target.writestr("a.npy", npy("<f4", (6,), ABC))
                target.writestr("b.npy", npy("<f4", (3, 2), ABC, fortran=True))
                target.writestr("s.npy", npy("<i8", (), struct.pack("<q", 5)))
            tensors, _ = self.convert(file.getvalue(), called="a.npz")
            self.assertEqual(tensors, {"a": ("F32", [6], ABC), "b": ("F32", [3, 2], floats(0, 3, 1, 4, 2, 5)),
                                       "s": ("I64", [], struct.pack("<q", 5))})

    @needs_zip
    def test_npz_of_long_headers_is_refused_before_they_are_unpacked(self):
        """Two hundred headers of a megabyte take a second and a half to unpack and parse."""
        header = b"{'descr':'<f4','fortran_order':False,'shape':(0,),}" + b" " * ((1 << 20) - 60) + b"x"
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
            for i in range(200):
                target.writestr(f"{i}.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header)
        self.refused(file.getvalue(), 1, "limit: 200 times the file")

    @needs_zip
    def test_npz_whose_packed_bytes_are_a_little_more_than_a_block(self):
        """The first 64 KiB contain the last element, and the end mark follows them."""
        values = random.Random(1).choices(b"abcdefghijklmnop", k=120_000)

        def packed(n):
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
                target.writestr("a.npy", npy("|u1", (n,), bytes(values[:n])))
                return file, target.infolist()[0].compress_size
        first = bisect.bisect_left(range(120_000), (1 << 16) + 1, key=lambda n: packed(n)[1])
        for n in range(first - 3, first + 3):
            file, size = packed(n)
            with self.subTest(size):
                self.assertEqual(self.convert(file.getvalue(), called="a.npz")[0], {"a": ("U8", [n], bytes(values[:n]))})

    @needs_zip
    def test_65535_entries_need_no_64_bit_end(self):
        """All except one are folders."""
        entries = [(f"{i}/".encode(), b"") for i in range(65534)] + [(b"w.npy", npy("<f4", (6,), ABC))]
        files, directory = [], []
        at = 0
        for called, data in entries:
            sizes = struct.pack("<IIIHH", zlib.crc32(data), len(data), len(data), len(called), 0)
            directory.append(struct.pack("<IHHHHHH", 0x02014B50, 20, 20, 0, 0, 0, 0) + sizes + bytes(10) + struct.pack("<I", at) + called)
            files.append(struct.pack("<IHHHHH", 0x04034B50, 20, 0, 0, 0, 0) + sizes + called + data)
            at += len(files[-1])
        directory = b"".join(directory)
        content = b"".join(files) + directory + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 65535, 65535, len(directory), at, 0)
        self.assertEqual(self.convert(content, called="a.npz")[0], {"w": ("F32", [6], ABC)})

    def test_types_that_safetensors_lacks(self):
        for descr in ("<c16", "<f16"):
            self.refused(npy(descr, (1,), bytes(16)), 2, f"safetensors has no dtype for numpy's {descr}")
        self.refused(npy(">f4", (1,), bytes(4)), 2, "unsupported byte order 'big'")
        for descr, content in self.OTHERS:
            self.refused(npy(descr, (1,), pickle(call("os", "system", text("true")))), 2, f"the array contains {content}")

    OTHERS = (("|O", "Python objects"), ("<U3", "strings"), ("|S3", "strings"), ([("a", "<i2")], "records"), ("<M8[ns]", "dates and times"))

    def test_an_array_of_a_dtype_of_another_package_is_refused(self):
        """numpy writes bfloat16 and float8 of ml_dtypes as bytes without a type."""
        self.refused(npy("|V2", (3,), ABC[:6]), 2, "V2")
        with zipfile.ZipFile(self.folder / "a.npz", "w") as target:
            target.writestr("f.npy", npy("<f4", (6,), ABC))
            target.writestr("b.npy", npy("<V2", (3,), ABC[:6]))
        result = run("convert", str(self.folder / "a.npz"), self.out)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("array 'b'", result.stderr.decode())
        self.assertFalse(os.path.exists(self.out))

    @needs_zip
    def test_other_files_are_left_out_of_an_npz(self):
        for first, second in (("a.npy", "readme.txt"), ("readme.txt", "a.npy")):
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as target:
                for called in (first, second):
                    target.writestr(called, npy("<f4", (6,), ABC) if called == "a.npy" else b"text")
            said = f"safetensors: {self.folder}/a.npz: left out values that are not tensors: 1 (first: 'readme.txt')\n"
            self.assertEqual(self.convert(file.getvalue(), called="a.npz", said=said.encode())[0], {"a": ("F32", [6], ABC)})

    @needs_zip
    def test_an_array_needs_no_extension_in_an_npz(self):
        """numpy looks at its first bytes."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
            target.writestr("b", npy("<f4", (6,), ABC))
            target.writestr("short", b"\x93NUM")
        self.assertEqual(self.convert(file.getvalue(), called="a.npz", said=None)[0], {"b": ("F32", [6], ABC)})

    @needs_zip
    def test_an_empty_npz_has_no_tensors(self):
        file = io.BytesIO()
        zipfile.ZipFile(file, "w").close()
        self.assertEqual(self.convert(file.getvalue(), called="a.npz")[0], {})
        with zipfile.ZipFile(file, "w") as target:
            target.writestr("folder/", b"")
        os.remove(self.out)
        os.remove(self.folder / "a.npz")
        self.refused(file.getvalue(), 1, "zip archive without data.pkl or .npy files")

    @needs_zip
    def test_arrays_without_numbers_are_left_out_of_an_npz(self):
        for descr, content in self.OTHERS:
            arrays = {"a.npy": npy(descr, (1,), pickle(call("os", "system", text("true")))), "w.npy": npy("<f4", (6,), ABC)}
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as target:
                for called, data in arrays.items():
                    target.writestr(called, data)
            said = f"safetensors: {self.folder}/a.npz: left out values that are not tensors: 1 (first: 'a'), among them {content}\n"
            self.assertEqual(self.convert(file.getvalue(), called="a.npz", said=said.encode())[0], {"w": ("F32", [6], ABC)})
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as target:
            target.writestr("a.npy", arrays["a.npy"])
        os.remove(self.out)
        os.remove(self.folder / "a.npz")
        self.refused(file.getvalue(), 2, "all arrays contain dates and times")


def pair(key, kind, value):
    return gguf_text(key) + struct.pack("<I", kind) + value


class Gguf(Case):
    TYPES = [(0, "F32", 4), (1, "F16", 2), (24, "I8", 1), (25, "I16", 2), (26, "I32", 4), (27, "I64", 8), (28, "F64", 8),
             (30, "BF16", 2)]

    def test_every_type(self):
        for version in (2, 3):
            infos, data, expected = [], b"", {}
            for kind, dtype, size in self.TYPES:
                values = bytes(range(6 * size))
                infos.append((dtype.lower(), [3, 2], kind, len(data)))
                data += values + bytes(-len(values) % 32)
                expected[dtype.lower()] = (dtype, [2, 3], values)
            tensors, metadata = self.convert(gguf((infos, data), version=version))
            self.assertEqual((tensors, metadata), (expected, {"format": "pt"}))

    def test_metadata_and_alignment(self):
        pairs = [pair("general.alignment", 4, struct.pack("<I", 64)), pair("general.name", 8, gguf_text("model")),
                 pair("half", 6, struct.pack("<f", 0.5)), pair("yes", 7, b"\x01"), pair("less", 11, struct.pack("<q", -7)),
                 pair("list", 9, struct.pack("<IQ", 8, 2) + gguf_text("a") + gguf_text("b")),
                 pair("numbers", 9, struct.pack("<IQ", 5, 3) + bytes(12))]
        said = f"safetensors: {self.folder}/a.bin: left out values that are not tensors: 2 (first: 'list'), among them arrays\n"
        tensors, metadata = self.convert(gguf(([("w", [6], 0, 0)], ABC), pairs, alignment=64), said=said.encode())
        self.assertEqual(tensors, {"w": ("F32", [6], ABC)})
        self.assertEqual({key: metadata[key] for key in ("general.alignment", "half", "yes", "less", "format")},
                         {"general.alignment": "64", "half": "0.5", "yes": "true", "less": "-7", "format": "pt"})
        self.assertNotIn("list", metadata)

    def test_big_endian(self):
        self.refused(b"GGUF" + struct.pack(">IQQ", 3, 1, 0) + bytes(64), 2, "gguf: unsupported byte order 'big' (supported: little)")

    def test_an_old_version_is_valid_and_two_tensors_of_one_name_are_not(self):
        self.refused(gguf(([("w", [6], 0, 0)], ABC), version=1), 2, "unsupported GGUF version 1 ")
        self.refused(gguf(([("w", [6], 0, 0)] * 2, ABC)), 1, "two tensors are named 'w'")

    def test_quantised_types_are_named(self):
        for kind, called in ((2, "Q4_0"), (8, "Q8_0"), (12, "Q4_K"), (39, "MXFP4"), (99, "unknown")):
            self.refused(gguf(([("blk.0", [32], kind, 0)], bytes(64))), 2, f"tensor 'blk.0' has the quantized type {called}")


if __name__ == "__main__":
    unittest.main()
