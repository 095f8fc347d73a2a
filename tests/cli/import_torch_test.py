"""Compares `safetensors convert` of files written by torch with the reference's conversion: the same bytes.

The reference's converter is torch.load, the choice of a name among those that share a storage, and save_file: that is
done here. Its metadata has no fixed order, ours is sorted, so that files are compared after sorting.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import tempfile
import unittest

from sample import READS_ZIP, run

try:
    import numpy
    import safetensors.torch
    import torch
except ImportError as error:
    torch = None
    MISSING = str(error)


def unsorted(raw):
    """A file's bytes, with the keys of its metadata sorted."""
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + raw[8 + length :]


def reference(path):
    """Does the same as convert_file of the reference's convert.py."""
    loaded = torch.load(path, map_location="cpu", weights_only=False)
    loaded = loaded.get("state_dict", loaded)
    metadata = {"format": "pt"}
    for group in safetensors.torch._find_shared_tensors(loaded):
        complete = sorted(name for name in group if safetensors.torch._is_complete(loaded[name]))
        if not complete and len(group) > 1:
            raise RuntimeError("none is complete")
        for name in sorted(group):
            if complete and name != complete[0]:
                metadata.setdefault(name, complete[0])
                del loaded[name]
    # clone: save_file refuses also a single tensor that shows a part of its storage
    loaded = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in loaded.items()}
    return safetensors.torch.save(loaded, metadata)


def dtypes():
    """Each dtype once, although some have two names."""
    known = {value for value in vars(torch).values() if isinstance(value, torch.dtype) and value in safetensors.torch._SIZE}
    return sorted(known, key=str)


def values(dtype, *shape):
    size = torch.empty(0, dtype=dtype).element_size()
    count = size
    for dimension in shape:
        count *= dimension
    return (torch.arange(count) % (2 if dtype == torch.bool else 251)).to(torch.uint8).view(dtype).reshape(shape)


class Module(torch.nn.Module if torch else object):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.conv = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        self.head = torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight


@unittest.skipUnless(READS_ZIP, "the command was built without ST_ZIP")
@unittest.skipUnless(torch, f"torch and the reference are not there: {'' if torch else MISSING}")
class Torch(unittest.TestCase):
    equal = 0

    @classmethod
    def tearDownClass(cls):
        print(f"torch {torch.__version__}: {cls.equal} files equal the reference's")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_torch_"))
        self.addCleanup(shutil.rmtree, self.folder)
        torch.manual_seed(0)

    def check(self, state, said=False, protocols=(2,)):
        """said: whether a note is expected; None: either.

        Both forms against the reference's conversion of the zip: torch 2 cannot read every dtype back from the other."""
        torch.save(state, self.folder / "z.bin")
        expected = unsorted(reference(self.folder / "z.bin"))
        for zipped in (True, False):
            for protocol in protocols:
                with self.subTest(zipped=zipped, protocol=protocol):
                    path, out = self.folder / "a.bin", self.folder / "a.safetensors"
                    torch.save(state, path, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
                    result = run("convert", str(path), str(out), "--replace")
                    self.assertEqual(result.returncode, 0, result.stderr)
                    if said is not None:
                        self.assertEqual(bool(result.stderr), said, result.stderr)
                    self.assertEqual(out.read_bytes(), expected)
                    Torch.equal += 1

    def test_every_dtype(self):
        names = []
        for dtype in dtypes():
            names.append(str(dtype))
            with self.subTest(dtype):
                self.check({"a": values(dtype, 3, 5), "scalar": values(dtype), "empty": values(dtype, 0, 2)} if
                           dtype != getattr(torch, "float4_e2m1fn_x2", None) else {"a": values(dtype, 3, 5)})
        print(len(names), "dtypes:", " ".join(names))
        self.assertGreater(len(names), 10)

    def test_all_dtypes_in_one_file(self):
        self.check({f"{name}.{dtype}": values(dtype, 4, 3) for name in "zaM" for dtype in dtypes()})

    def test_dtypes_that_the_format_lacks(self):
        for dtype in (torch.complex128, torch.complex32):
            path = self.folder / "a.bin"
            try:
                torch.save({"a": torch.zeros(2, dtype=dtype)}, path)
            except KeyError:
                continue  # of torch 1, which cannot save complex32
            result = run("convert", str(path), str(self.folder / "a.safetensors"))
            self.assertEqual(result.returncode, 2)
            self.assertIn(b"tensor 'a': safetensors has no dtype for torch's", result.stderr)
        torch.save({"a": torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8)}, path)
        result = run("convert", str(path), str(self.folder / "a.safetensors"))
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"tensor 'a' is quantized (torch._utils._rebuild_qtensor)", result.stderr)

    def test_every_protocol(self):
        self.check({"a": torch.randn(3, 4), "b": torch.nn.Parameter(torch.randn(2))}, protocols=(1, 2, 3, 4, 5))

    def test_strides(self):
        base = torch.randn(4, 5, 6)
        self.check({"t": torch.randn(5, 4).t(), "permuted": torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2), "slice": base[1:3, ::2, 1:4],
                    "expanded": torch.randn(3, 1).expand(3, 7), "channels": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
                    "reversed": torch.randn(9).flip(0), "diagonal": torch.randn(6, 6).diagonal(), "column": torch.randn(300, 1000)[:, 3],
                    "halves": torch.randn(64, 33).half().t(), "bytes": torch.arange(200).to(torch.uint8).reshape(10, 20).t()})

    def test_shared(self):
        a = torch.randn(4, 6)
        flat = torch.randn(24)
        self.check({"b": a, "a": a, "c": flat[:12].view(3, 4), "d": flat[12:], "e": torch.randn(2)})
        self.check({"whole": flat, "part": flat[:6], "later": flat[3:9]}, said=True)

    def test_modules(self):
        module = Module()
        self.check(module.state_dict())
        self.check(module.state_dict(keep_vars=True))

    def test_a_parameter_with_attributes(self):
        parameter = torch.nn.Parameter(torch.randn(3))
        parameter.tag = {"of": [1, 2.5, None]}
        self.check({"w": parameter})

    def test_tensors_with_attributes(self):
        tensor = torch.randn(3, 4)
        tensor.tag = ("of", {"a": torch.zeros(2)})
        other = torch.arange(4).t()
        other.persistent = True
        self.check({"w": tensor, "i": other, "plain": torch.zeros(1)}, protocols=(2, 3, 4))

    def test_dictionaries_of_all_kinds(self):
        """Next to a state dict, and with keys that are not names: there is no tensor below them."""
        state = {"w": torch.randn(3), "n": torch.nn.Parameter(torch.randn(2), requires_grad=False)}
        self.check({"state_dict": state, "other": {(1, 2): "x", None: 1, 2.5: ["y"], torch.float16: torch.Size([1]), True: {"a": 1}}})
        self.check({"state_dict": collections.OrderedDict(state), "rng": torch.get_rng_state(), "args": {"lr": 1e-3, "big": 1 << 80}}, said=True)
        path, out = self.folder / "a.ckpt", self.folder / "a.safetensors"
        torch.save({"model": state, "more": {(1, 2): "x"}, 7: torch.ones(2)}, path)
        self.assertEqual(run("convert", str(path), str(out)).returncode, 0)
        self.assertEqual(sorted(safetensors.torch.load_file(out)), ["7", "model.n", "model.w"])
        os.remove(out)
        torch.save({"model": {(1, 2): torch.ones(2)}}, path)
        result = run("convert", str(path), str(out))
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"the key of a tensor is a tuple, expected a string or an integer", result.stderr)

    def test_a_tensor_alone(self):
        path = self.folder / "a.pt"
        torch.save(torch.ones(2), path)
        result = run("convert", str(path), str(self.folder / "a.safetensors"))
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"expected a dictionary, found a tensor: save a dictionary of tensors instead", result.stderr)

    def test_modules_of_all_kinds(self):
        nn = torch.nn
        made = [nn.LSTM(3, 4, 2, bidirectional=True), nn.GRU(3, 4), nn.MultiheadAttention(8, 2), nn.TransformerEncoderLayer(8, 2, 16),
                nn.utils.weight_norm(nn.Linear(3, 4)), nn.utils.spectral_norm(nn.Conv1d(2, 3, 2)), nn.GroupNorm(2, 4), nn.PReLU(),
                nn.ConvTranspose3d(2, 3, 2), nn.EmbeddingBag(5, 3), nn.Bilinear(2, 3, 4), nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
                nn.ParameterList([nn.Parameter(torch.randn(2)), nn.Parameter(torch.randn(3))]),
                nn.ParameterDict({"a": nn.Parameter(torch.randn(2))}), nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))]
        for module in made:
            with self.subTest(type(module).__name__):
                self.check(module.state_dict())
                self.check(module.half().state_dict(keep_vars=True))

    def test_optimizers_beside_a_state_dict(self):
        optim = torch.optim
        for make in (lambda p: optim.SGD(p, 0.1, momentum=0.9), optim.Adam, lambda p: optim.Adam(p, amsgrad=True), optim.Adagrad, optim.Adadelta,
                     optim.RMSprop, optim.Adamax, optim.NAdam, optim.RAdam, optim.Rprop, lambda p: optim.ASGD(p), optim.LBFGS):
            module = torch.nn.Linear(3, 2)
            optimizer = make(module.parameters())

            def loss():
                optimizer.zero_grad()
                value = module(torch.ones(4, 3)).square().sum()
                value.backward()
                return value
            optimizer.step(loss)
            scheduler = optim.lr_scheduler.StepLR(optim.SGD(module.parameters(), 0.1), 3)
            with self.subTest(type(optimizer).__name__):
                self.check({"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "state_dict": module.state_dict()}, said=None)

    def test_a_state_dict_in_a_checkpoint(self):
        module = Module()
        optimizer = torch.optim.AdamW(module.parameters())
        module.head(torch.randn(3, 8)).sum().backward()
        optimizer.step()
        self.check({"state_dict": module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7, "loss": 0.25, "name": "x"}, said=True)

    def test_checkpoints_with_objects(self):
        module = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
        objects = {"args": argparse.Namespace(lr=1.0, device=torch.device("cpu")), "scheduler": scheduler.state_dict(), "path": pathlib.Path("a"),
                   "set": {1}, "bytes": bytearray(b"ab"), "complex": 1j, "numpy": numpy.float64(1), "array": numpy.arange(3), "class": Module}
        self.check({"state_dict": module.state_dict(), **objects}, protocols=(2, 4))
        path, out = self.folder / "a.ckpt", self.folder / "a.safetensors"
        torch.save({"model": module.state_dict(), **objects}, path)
        result = run("convert", str(path), str(out))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertIn(b"among them argparse.Namespace, collections.Counter, pathlib", result.stderr)
        self.assertEqual(sorted(safetensors.torch.load_file(out)), ["model.bias", "model.weight"])
        result = run("convert", str(path), str(out), "--key", "model")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(sorted(safetensors.torch.load_file(out)), ["bias", "weight"])

    @unittest.skipUnless(hasattr(torch and torch.serialization, "set_crc32_options"), "torch before 2.6")
    def test_without_checksums(self):
        torch.serialization.set_crc32_options(False)
        self.addCleanup(torch.serialization.set_crc32_options, True)
        self.check({"a": torch.arange(1000), "t": torch.randn(5, 4).t()})

    def test_an_optimizer_is_flattened(self):
        module = Module()
        optimizer = torch.optim.AdamW(module.parameters())
        module.head(torch.randn(3, 8)).sum().backward()
        optimizer.step()
        path, out = self.folder / "a.ckpt", self.folder / "a.safetensors"
        torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7}, path)
        self.assertEqual(run("convert", str(path), str(out)).returncode, 0)
        loaded = safetensors.torch.load_file(out)
        self.assertTrue(torch.equal(loaded["optimizer.state.0.exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"]))
        self.assertTrue(torch.equal(loaded["model.conv.weight"], module.conv.weight))

    def test_empty(self):
        self.check({})
        self.check({"a": torch.zeros(0), "b": torch.zeros(3, 0, 2), "c": torch.zeros(0)[:0]})

    def test_many_small(self):
        self.check({f"layer.{i}.\u00e9": torch.full((i % 5,), i) for i in range(2000)})

    def test_larger_than_a_block(self):
        self.check({"a": torch.arange(3_000_001), "b": torch.arange(1_500_000, dtype=torch.int32).reshape(1000, 1500).t()})

    def test_arrays_of_numpy(self):
        arrays = {"a": numpy.arange(12.0).reshape(3, 4), "f": numpy.asfortranarray(numpy.arange(12).reshape(3, 4)), "s": numpy.float32(3),
                  "b": numpy.array([True, False]), "h": numpy.zeros((0, 3), numpy.float16), "c": numpy.ones(2, numpy.complex64)}
        for save in (numpy.savez, numpy.savez_compressed):
            path, out = self.folder / "a.npz", self.folder / "a.safetensors"
            save(path, **arrays)
            self.assertEqual(run("convert", str(path), str(out), "--replace").returncode, 0)
            for name, tensor in safetensors.torch.load_file(out).items():
                self.assertEqual(tensor.numpy().tobytes(), numpy.ascontiguousarray(arrays[name]).tobytes(), name)
                self.assertEqual(tensor.numpy().dtype, arrays[name].dtype)
                self.assertEqual(tensor.numpy().shape, arrays[name].shape)

    def test_nothing_else_of_torch(self):
        sparse = torch.eye(3).to_sparse()
        for name, value, words, code in (("sparse", {"a": sparse}, "tensor 'a' is created by torch._utils._rebuild_sparse_tensor", 2),
                                         ("module", Module(), "Python object (__main__.Module): save its state_dict()", 2),
                                         ("module in a dictionary", {"m": Module()}, "'m' is an object of __main__.Module", 2),
                                         ("device", {"a": torch.device("cpu")}, "torch.device", 2),
                                         ("counter", {"a": collections.Counter()}, "collections.Counter", 2)):
            with self.subTest(name):
                path = self.folder / "a.pt"
                torch.save(value, path)
                result = run("convert", str(path), str(self.folder / "a.safetensors"))
                self.assertEqual(result.returncode, code)
                self.assertIn(words, result.stderr.decode())
                self.assertEqual(os.listdir(self.folder), ["a.pt"])


if __name__ == "__main__":
    unittest.main()
