"""Dictionaries of torch tensors, and models whose tensors share memory.

SPDX-License-Identifier: Apache-2.0
"""
import gc
import importlib
import io
import json
import os

import pytest

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

NAMES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "uint64",
         "uint32", "uint16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
         "float4_e2m1fn_x2"]
DTYPES = [name for name in NAMES if hasattr(torch, name)]
SHAPES = [(), (4,), (0, 3), (2, 4), (2, 3, 2)]


def values(dtype, shape):
    kind = getattr(torch, dtype)
    size = torch.empty(0, dtype=kind).element_size()
    bits = torch.randint(0, 2, (max(torch.Size(shape).numel(), 1) * size,), dtype=torch.uint8)
    if 0 in shape:
        return torch.empty(shape, dtype=kind)
    return bits.view(kind).reshape(shape)


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist() if tensor.nelement() else []


def same(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert tensor.dtype == right[name].dtype and tensor.shape == right[name].shape, name
        assert raw(tensor) == raw(right[name]), name


def tensors_of(dtype):
    shapes = [shape for shape in SHAPES if shape or dtype != "float4_e2m1fn_x2"]
    return {str(shape): values(dtype, shape) for shape in shapes}


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_comes_back_from_a_file(pt_module, path, dtype, backend):
    if (pt_module.__name__, dtype, backend) == ("safetensors.torch", "float4_e2m1fn_x2", "pread"):
        pytest.skip("the reference cannot: it fills empty tensors with zeros, which torch cannot for this dtype")
    tensors = tensors_of(dtype)
    pt_module.save_file(tensors, path)
    same(pt_module.load_file(path, backend=backend), tensors)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name not in ("float8_e8m0fnu", "float4_e2m1fn_x2")])
def test_dtype_comes_back_from_bytes(pt_module, dtype):
    tensors = tensors_of(dtype)
    same(pt_module.load(pt_module.save(tensors)), tensors)


@pytest.mark.parametrize("dtype", ["float8_e8m0fnu", "float4_e2m1fn_x2"])
def test_dtype_that_the_reference_does_not_load_from_bytes(dtype):
    from safetensors_c import torch as mine
    if dtype not in DTYPES:
        pytest.skip("this torch lacks it")
    tensors = tensors_of(dtype)
    same(mine.load(mine.save(tensors)), tensors)


@pytest.mark.parametrize("dtype", DTYPES)
def test_writes_the_bytes_of_the_reference(reference, path, dtype):
    from safetensors import torch as theirs
    from safetensors_c import torch as mine
    tensors = tensors_of(dtype)
    assert mine.save(tensors, {"format": "pt"}) == theirs.save(tensors, {"format": "pt"})
    mine.save_file(tensors, path)
    same(theirs.load_file(path), mine.load_file(path))


class Index:
    def __getitem__(self, index):
        return index


i = Index()
A = torch.arange(60).reshape(3, 4, 5)


@pytest.mark.parametrize("view", [lambda t: t.conj(), lambda t: torch._neg_view(t.real.clone())], ids=["conj", "neg"])
def test_view_that_conjugates_or_negates_is_written_as_it_reads(view):
    from safetensors_c import torch as ours
    tensor = view(torch.tensor([1 + 2j, 3 - 4j]))
    assert torch.equal(ours.load(ours.save({"a": tensor}))["a"], tensor)


def test_names_that_other_packages_import(pt_module, reference):
    theirs = importlib.import_module("safetensors.torch")
    assert theirs._TYPES.items() <= pt_module._TYPES.items() and pt_module._SIZE == theirs._SIZE
    assert pt_module._getdtype("BF16") is torch.bfloat16
    with pytest.raises(KeyError):
        pt_module._getdtype("F6_E2M3")


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("index", [i[:], i[()], i[0], i[-1], i[1:], i[:, 1:3], i[::2, :, ::2], i[1, 2, 3], i[0:0], i[...],
                                   i[..., 0], i[:2, ..., -1]], ids=repr)
def test_slice(package, pt_module, path, index, backend):
    pt_module.save_file({"a": A}, path)
    with package.safe_open(path, "pt", backend=backend) as file:
        assert torch.equal(file.get_slice("a")[index], A[index])


@pytest.mark.parametrize("index", [i[-2:], i[:, :-1], i[None], i[[0, 2]], i[5:], i[torch.tensor([1])],
                                   i[torch.tensor([True, False, True])]], ids=repr)
def test_slice_as_torch_takes_it(package, pt_module, path, index):
    pt_module.save_file({"a": A}, path)
    with package.safe_open(path, "pt") as file:
        assert torch.equal(file.get_slice("a")[index], A[index])


@pytest.mark.parametrize("index, expected", [(i[::-1], A.flip(0)), (i[:, ::-2], A.flip(1)[:, ::2]), (i[0, ::-1], A[0].flip(0))])
def test_slice_backwards(ours, path, index, expected):
    from safetensors_c import torch as mine
    mine.save_file({"a": A}, path)
    for backend in ("mmap", "pread"):
        assert torch.equal(ours.safe_open(path, "pt", backend=backend).get_slice("a")[index], expected)


@pytest.mark.parametrize("options", [{}, {"backend": "pread"}])
def test_tensors_can_be_written_to_and_the_file_stays(pt_module, path, options):
    pt_module.save_file({"a": torch.zeros(1000), "b": torch.zeros(3)}, path)
    with open(path, "rb") as file:
        before = file.read()
    loaded = pt_module.load_file(path, **options)
    loaded["a"].add_(1)
    loaded["b"].fill_(2)
    assert torch.equal(pt_module.load_file(path)["a"], torch.zeros(1000)) and loaded["a"].sum() == 1000
    with open(path, "rb") as file:
        assert file.read() == before


def test_tensors_outlive_the_file_object(package, pt_module, path):
    pt_module.save_file({"a": torch.arange(5000)}, path)
    with package.safe_open(path, "pt") as file:
        tensor, part = file.get_tensor("a"), file.get_slice("a")[10:20]
    del file
    os.remove(path)
    gc.collect()
    assert torch.equal(tensor, torch.arange(5000)) and torch.equal(part, torch.arange(10, 20))


def test_each_tensor_has_a_storage_of_its_own(pt_module, path):
    pt_module.save_file({"a": torch.zeros(1000), "b": torch.zeros(3)}, path)
    loaded = pt_module.load_file(path)
    assert loaded["b"].untyped_storage().nbytes() == 12
    assert all(len(names) == 1 for names in pt_module._find_shared_tensors(loaded))
    pt_module.save_file(loaded, path)  # over the file that they are views of
    assert torch.equal(pt_module.load_file(path)["a"], torch.zeros(1000))


def test_the_mapping_goes_with_the_last_tensor(path):
    from safetensors_c import torch as mine
    mine.save_file({"a": torch.zeros(1000), "b": torch.zeros(3)}, path)

    def mapped():
        with open("/proc/self/maps") as maps:
            return sum(path in line for line in maps)
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("needs /proc")
    loaded = mine.load_file(path)
    assert mapped()
    del loaded["a"]
    assert mapped()
    del loaded
    assert not mapped()


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), None])
def test_device(ours, path, device):
    from safetensors_c import torch as mine
    mine.save_file({"a": torch.zeros(2)}, path)
    assert mine.load_file(path, device=device)["a"].device.type == "cpu"


@pytest.mark.parametrize("bad, problem, message", [
    ([torch.zeros(2)], ValueError, "Expected a dict of [str, torch.Tensor] but received <class 'list'>"),
    ({"a": 3}, ValueError, "Key `a` is invalid, expected torch.Tensor but received <class 'int'>"),
    ({"a": torch.zeros(2, 3).t()}, ValueError, "You are trying to save a non contiguous tensor: `a` which is not allowed"),
    ({"a": torch.zeros(3).to_sparse()}, ValueError, "You are trying to save a sparse tensors: `['a']`"),
    (dict.fromkeys("ab", torch.zeros(2)), RuntimeError, "Some tensors share memory"),
    ({"a": torch.zeros(2, dtype=torch.complex128)}, KeyError, "complex128"),
])
def test_what_is_not_saved(pt_module, path, bad, problem, message):
    for save in (pt_module.save, lambda tensors: pt_module.save_file(tensors, path)):
        with pytest.raises(problem) as error:
            save(bad)
        assert message in str(error.value)


def test_dtype_that_is_not_saved_is_an_error_of_the_package_too(ours):
    from safetensors_c.torch import save
    with pytest.raises(ours.SafetensorError, match=r"^Unknown dtype torch.complex128 of tensor `a`. Supported dtypes: bool, int8"):
        save({"a": torch.zeros(2, dtype=torch.complex128)})


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Linear(4, 3, bias=False)
        self.head = torch.nn.Linear(4, 3, bias=False)
        self.head.weight = self.embedding.weight
        self.other = torch.nn.Linear(2, 2)


class Untied(Tied):
    def __init__(self):
        super().__init__()
        self.head.weight = torch.nn.Parameter(torch.randn(3, 4))


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_model_with_shared_tensors(pt_module, package, path, backend):
    one, other = Tied(), Tied()
    pt_module.save_model(one, path)
    with package.safe_open(path, "pt") as file:
        assert file.keys() == ["embedding.weight", "other.bias", "other.weight"]
        assert file.metadata() == {"head.weight": "embedding.weight"}
    assert pt_module.load_model(other, path, backend=backend) == (set(), [])
    assert torch.equal(one.head.weight, other.head.weight) and other.head.weight is other.embedding.weight


def test_model_that_lacks_tensors(pt_module, path):
    pt_module.save_model(Tied(), path)
    with pytest.raises(RuntimeError) as error:
        pt_module.load_model(Untied(), path)
    assert str(error.value) == ('Error(s) in loading state_dict for Untied:\n    Missing key(s) in state_dict: "head.weight"')
    assert pt_module.load_model(Untied(), path, strict=False) == ({"head.weight"}, [])


def test_model_with_tensors_too_many(pt_module, path):
    pt_module.save_model(Untied(), path)
    with pytest.raises(RuntimeError, match='Unexpected key'):
        pt_module.load_model(Tied(), path)


def test_users_metadata_is_kept(package, pt_module, path):
    pt_module.save_model(Tied(), path, metadata={"head.weight": "mine", "format": "pt"})
    assert package.safe_open(path, "pt").metadata() == {"head.weight": "mine", "format": "pt"}


def test_model_with_a_transposed_tensor(pt_module, path):
    model = torch.nn.Linear(3, 2)
    model.weight = torch.nn.Parameter(torch.randn(3, 2).t())
    pt_module.save_model(model, path)
    with pytest.raises(ValueError, match=r"Or use save_model\(..., force_contiguous=True\)"):
        pt_module.save_model(model, path, force_contiguous=False)


@pytest.mark.parametrize("stride", [(0, 1), (1, 0), (2, 0), (3, 0), (1, 1), (1, 3)])
def test_part_that_has_as_many_elements_as_its_storage_is_not_kept_for_all_of_it(ours, path, stride):
    from safetensors_c import torch as mine
    whole = torch.arange(16.0)
    model = torch.nn.Module()
    model.register_buffer("first", whole.as_strided((4, 4), stride))
    mine.save_model(model, path)
    assert torch.equal(mine.load_file(path)["first"], model.first)  # alone, it is saved as it reads
    model.register_buffer("second", model.first[:])
    with pytest.raises(RuntimeError, match="None is covering the entire storage"):
        mine.save_model(model, path)
    model.register_buffer("weight", whole)
    mine.save_model(model, path)
    assert ours.safe_open(path, "pt").metadata() == {"first": "weight", "second": "weight"}
    assert torch.equal(mine.load_file(path)["weight"], whole)


@pytest.mark.parametrize("view", [lambda t: t.t(), lambda t: t[None, :, None], lambda t: t.reshape(3, 2, 2).permute(1, 2, 0)],
                         ids=["transposed", "with dimensions of 1", "permuted"])
def test_view_of_all_elements_in_another_order_may_be_kept(ours, path, view):
    from safetensors_c import torch as mine
    model = torch.nn.Module()
    model.register_buffer("b", torch.arange(12.0).reshape(3, 4))
    model.register_buffer("a", view(model.b))
    mine.save_model(model, path)
    assert ours.safe_open(path, "pt").metadata() == {"b": "a"}
    assert torch.equal(mine.load_file(path)["a"], model.a)


BASE = torch.arange(10.0)
VIEWS = {
    "apart": {"a": BASE[:5], "b": BASE[5:]},
    "overlapping": {"a": BASE[:6], "b": BASE[5:]},
    "inside": {"a": BASE, "b": BASE[2:4], "c": BASE[6:8]},
    "inside, then beyond": {"a": BASE[:8], "b": BASE[1:3], "c": BASE[4:]},
    "strided": {"a": BASE[::2], "b": BASE[1::2]},
    "twice": {"a": BASE, "b": BASE, "c": torch.zeros(3)},
    "a part first": {"a": BASE[:4], "b": BASE, "c": BASE},
    "empty": {"a": BASE[:0], "b": BASE},
    "meta": {"a": torch.empty(3, device="meta"), "b": torch.empty(3, device="meta")},
}


@pytest.mark.parametrize("case", [case for case in VIEWS if case not in ("inside", "inside, then beyond", "strided")])
def test_groups_of_shared_tensors_are_those_of_the_reference(reference, case):
    from safetensors import torch as theirs
    from safetensors_c import torch as mine
    assert sorted(map(sorted, mine._find_shared_tensors(VIEWS[case]))) == \
        sorted(map(sorted, theirs._find_shared_tensors(VIEWS[case])))


@pytest.mark.parametrize("case", ["inside", "inside, then beyond"])
def test_tensor_that_begins_inside_an_earlier_one_is_shared(case):
    from safetensors_c import torch as mine
    assert mine._find_shared_tensors(VIEWS[case]) == [{"a", "b", "c"}]


@pytest.mark.parametrize("state, keywords, expected", [
    ("twice", {}, {"a": ["b"]}), ("twice", {"preferred_names": ["b"]}, {"b": ["a"]}),
    ("twice", {"discard_names": ["a"]}, {"b": ["a"]}), ("twice", {"discard_names": ["a", "b"]}, {"a": ["b"]}),
    # Whatever the caller prefers: a part of the storage is not kept for the whole.
    ("a part first", {}, {"b": ["a", "c"]}), ("a part first", {"preferred_names": ["a"]}, {"b": ["a", "c"]}),
    ("a part first", {"discard_names": ["b", "c"]}, {"b": ["a", "c"]}), ("meta", {}, {}),
])
def test_names_that_are_dropped(pt_module, state, keywords, expected):
    assert pt_module._remove_duplicate_names(VIEWS[state], **keywords) == expected


def test_no_name_that_covers_the_storage(pt_module):
    with pytest.raises(RuntimeError, match="found no suitable name to keep for saving amongst"):
        pt_module._remove_duplicate_names(VIEWS["overlapping"])


def test_progress_is_told_and_a_failure_ends_the_load(path):
    from safetensors_c import torch as mine
    tensors = {f"t{n}": torch.randn(1000) for n in range(10)}
    mine.save_file(tensors, path)
    seen = []
    same(mine.load_file(path, progress=lambda done, total: seen.append((done, total)), threads=2), tensors)
    assert seen[-1] == (40000, 40000)


@pytest.mark.parametrize("name", ["one", "all", "slice", "backwards"])
def test_tensors_come_to_the_device(path, name):
    from safetensors_c import _torch
    from safetensors_c._file import File
    mine = pytest.importorskip("safetensors_c.torch")
    mine.save_file({"a": torch.arange(6.0).reshape(2, 3)}, path)
    file, tensors = File(path), _torch.Tensors("meta")  # a device that is everywhere
    row = file.table.get("a")
    made = {"one": lambda: tensors.tensor(file, row), "all": lambda: tensors.tensors(file)["a"],
            "slice": lambda: tensors.slice(file, row, slice(1, None)),
            "backwards": lambda: tensors.slice(file, row, slice(None, None, -1))}[name]()
    assert made.device.type == "meta" and made.shape[1] == 3


def test_groups_stay_below_the_limit_and_report_the_sum(path, monkeypatch):
    from safetensors_c import _torch
    from safetensors_c import torch as mine
    from safetensors_c._file import File
    mine.save_file({name: torch.zeros(100, dtype=torch.uint8) for name in "abcde"}, path)
    groups, whole = _torch._groups, []
    monkeypatch.setattr(_torch, "_groups", lambda rows, limit: (whole.append(group) or group for group in groups(rows, 250)))
    reports = []
    _torch.Tensors("meta").tensors(File(path), progress=lambda *report: reports.append(report))
    assert [len(group) for group in whole] == [2, 2, 1]
    assert {total for _, total in reports} == {500} and reports[-1] == (500, 500)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
@pytest.mark.parametrize("how", ["pread", "Windows"])
def test_tensors_that_are_read_keep_no_mapping(ours, path, monkeypatch, how):
    from safetensors_c import _open
    from safetensors_c.torch import load_file, save_file
    save_file({"a": torch.ones(1 << 20)}, path)
    kept = load_file(path)
    assert os.path.realpath(path) in open("/proc/self/maps").read()
    del kept
    if how == "Windows":
        monkeypatch.setattr(_open, "_MAPS", False)
    loaded = load_file(path, backend="pread" if how == "pread" else "mmap")
    assert os.path.realpath(path) not in open("/proc/self/maps").read() and loaded["a"].sum() == 1 << 20


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no F4")
def test_slices_of_f4_with_negative_steps(ours, path):
    raw = numpy.arange(24, dtype="u1").reshape(4, 6)
    data = raw.tobytes()
    header = b'{"a":{"dtype":"F4","shape":[4,12],"data_offsets":[0,24]}}'
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + data)
    with ours.safe_open(path, "pt") as file:
        part = file.get_slice("a")
        for index in (slice(None, None, -1), (slice(None), slice(None, None, -1)), (2, slice(4, 1, -2)), (slice(1, 3), slice(None, None, -3)),
                      (..., slice(None, None, -1))):
            taken = part[index]
            assert taken.dtype == torch.float4_e2m1fn_x2
            assert taken.view(torch.uint8).numpy().tolist() == raw[index].tolist(), index


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_another_default_device_does_not_matter(tmp_path, backend):
    from safetensors_c import safe_open
    from safetensors_c.torch import load, load_file, save_file
    path = tmp_path / "x.safetensors"
    tensors = {"large": torch.arange(20000.0), "small": torch.arange(3), "none": torch.zeros(0)}
    save_file(tensors, path)
    with torch.device("meta"):
        found = [load(path.read_bytes()), load_file(path, backend=backend), load_file(path, backend=backend, threads=2)]
        with safe_open(path, "pt", backend=backend) as file:
            found.append({name: file.get_tensor(name) for name in tensors})
            backwards = file.get_slice("large")[::-1]
    for each in found:
        assert {tensor.device.type for tensor in each.values()} == {"cpu"}
        assert all(torch.equal(each[name], tensor) for name, tensor in tensors.items())
    assert backwards[0] == 19999


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_what_is_small_is_moved_to_a_gpu_from_the_mapping(tmp_path, monkeypatch, backend):
    from safetensors_c import _library, _torch, safe_open
    from safetensors_c.torch import save_file
    path = tmp_path / "x.safetensors"
    tensors = {"large": torch.arange(400_000.0).reshape(400, 1000), "small": torch.arange(6).reshape(2, 3), "none": torch.zeros(0)}
    save_file(tensors, path)
    planned = []

    class Planned:
        """Reads to memory what is meant for the GPU."""

        @staticmethod
        def read(file, destinations, threads, progress, _device, _stream, parts=None, cache=_library.CACHE_AUTO):
            planned.append(cache)
            _torch_plan.read(file, destinations, threads, progress, parts=parts, cache=cache)

    _torch_plan = _torch._plan
    monkeypatch.setattr(_torch, "_plan", Planned)
    monkeypatch.setattr(_torch.Tensors, "_opened_gpu", lambda self: self)
    monkeypatch.setattr(_torch.Tensors, "_stream", lambda self: 0)
    with safe_open(path, "pt", backend=backend) as file:
        file._make._cache = _library.CACHE_MAPPED if backend == "mmap" else _library.CACHE_AUTO
        assert torch.equal(file.get_tensor("small"), tensors["small"])
        assert torch.equal(file.get_slice("large")[:, 3:5], tensors["large"][:, 3:5])
        assert torch.equal(file.get_slice("large")[7], tensors["large"][7])
        assert planned == ([] if backend == "mmap" else [_library.CACHE_AUTO] * 3)
        assert torch.equal(file.get_tensor("large"), tensors["large"])
        assert torch.equal(file.get_slice("large")[:, 1:], tensors["large"][:, 1:])
        assert file.get_tensor("none").shape == (0,)
        assert file.get_slice("large")[::-1, 0][0] == tensors["large"][-1, 0]
    assert planned[-1] == (_library.CACHE_MAPPED if backend == "mmap" else _library.CACHE_AUTO)


def test_load_sharded_plans_everything_straight_to_the_gpu(tmp_path, monkeypatch):
    from safetensors_c import _plan, _torch
    from safetensors_c.torch import load_sharded, save_file
    path, told = tmp_path / "x.safetensors", []
    tensors = {"w": torch.arange(12.).reshape(3, 4), "b": torch.arange(3), "none": torch.zeros(0)}
    save_file(tensors, path)

    def read(file, places, threads, progress, device, stream, parts, group):
        told.append((device, stream, [size for _, _, size in places]))
        fill(file, places, threads, progress, parts=parts, group=group)

    fill, gpu = _plan.read, object()
    monkeypatch.setattr(_plan, "read", read)
    monkeypatch.setattr(_torch.Tensors, "_opened_gpu", lambda self: gpu)
    monkeypatch.setattr(_torch.Tensors, "_stream", lambda self: 7)
    found = load_sharded(path, {"none": None, "w": (slice(None), slice(1, 3)), "b": ...})
    assert told == [(gpu, 7, [0, 24, 24])]
    assert torch.equal(found["w"], tensors["w"][:, 1:3]) and torch.equal(found["b"], tensors["b"]) and not len(found["none"])


def test_index_tensors_of_a_file_object_select_as_torch_does(tmp_path):
    import io
    from safetensors_c import safe_open
    from safetensors_c.torch import save
    whole = torch.arange(12).reshape(4, 3)
    data = save({"w": whole})
    one = torch.tensor
    reads = []

    class Counted(io.BytesIO):
        def read(self, size=-1):
            reads.append(size)
            return super().read(size)

        def readinto(self, place):
            reads.append(len(place))
            return super().readinto(place)

    with safe_open(Counted(data), "pt") as file:
        part = file.get_slice("w")
        for index in (one([1]), (slice(None), one([1])), one([[1]]), (one([1]), one([2])), one(1), one(1, dtype=torch.int8),
                      one([True, False, True, False]), (one(2), slice(5)), slice(3, 9), slice(4, None), slice(9, 12),
                      (slice(-9, 2), slice(1, 7)), (..., slice(2, 8)), (slice(1, 9), ..., 0)):
            assert torch.equal(part[index], whole[index]), index
        with pytest.raises(IndexError):
            part[one([1], dtype=torch.int8)]
        reads.clear()
        assert part[3:9].tolist() == [[9, 10, 11]] and part[4:].shape == (0, 3)
        assert sum(reads) == 24  # the last row


@pytest.mark.parametrize("source", ["pread", "bytes", "object"])
@pytest.mark.parametrize("index", [slice(0, 1), (slice(1, 3), slice(0, 4)), 2, (None, slice(0, 1)), (..., slice(0, 2)),
                                   slice(0, 4, 2)])
@pytest.mark.parametrize("dtype", [name for name in ("float32", "float4_e2m1fn_x2") if name in DTYPES])
def test_slice_does_not_keep_the_whole_tensor(tmp_path, source, index, dtype, monkeypatch):
    from safetensors_c import _torch, safe_open
    from safetensors_c.torch import save_file
    whole = values(dtype, (4, 64))
    save_file({"w": whole}, tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    given = {"pread": tmp_path / "m", "bytes": data, "object": io.BytesIO(data)}[source]
    file = safe_open(given, "pt", backend="pread" if source == "pread" else "mmap")
    read = []
    monkeypatch.setattr(_torch.Tensors, "_read", lambda *_, _read=_torch.Tensors._read: (read.append(True), _read(*_))[1])
    part = file.get_slice("w")[index]
    assert torch.equal(part.view(torch.uint8), whole[index].contiguous().view(torch.uint8))
    assert part.untyped_storage().nbytes() == part.numel() * part.element_size()
    assert bool(read) == (isinstance(index, tuple) and None in index)  # which only torch knows
    found = importlib.import_module("safetensors_c.torch").load_sharded(tmp_path / "m", {"w": index})["w"]
    assert torch.equal(found.view(torch.uint8), part.view(torch.uint8))
    assert found.untyped_storage().nbytes() == part.untyped_storage().nbytes()


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_shapes_that_numpy_has_no_arrays_of(tmp_path, backend):
    from safetensors_c.torch import load, load_file, safe_open
    shapes = {"deep": [1] * 69 + [3], "bf": [1] * 70, "empty": [0, 2 ** 63 - 1], "plain": [2, 2]}
    sizes = {"deep": 12, "bf": 2, "empty": 0, "plain": 16}
    header, end = {}, 0
    for name, size in sizes.items():
        header[name] = {"dtype": "BF16" if name == "bf" else "F32", "shape": shapes[name], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    numbers = torch.tensor([1., 2., 3.]).numpy().tobytes() + b"\x80\x3f" + torch.arange(4.).numpy().tobytes()
    (tmp_path / "m").write_bytes(len(text).to_bytes(8, "little") + text + numbers)
    loaded = [load_file(tmp_path / "m", backend=backend), load((tmp_path / "m").read_bytes())]
    with safe_open(tmp_path / "m", "pt", backend=backend) as file:
        loaded += [{name: file.get_tensor(name) for _ in range(9) for name in file.keys()}, file.get_tensors(threads=2)]
    for tensors in loaded:
        assert {name: list(tensor.shape) for name, tensor in tensors.items()} == shapes
        assert tensors["deep"].flatten().tolist() == [1, 2, 3] and tensors["bf"].item() == 1
        assert tensors["plain"].tolist() == [[0, 1], [2, 3]] and tensors["bf"].dtype == torch.bfloat16
