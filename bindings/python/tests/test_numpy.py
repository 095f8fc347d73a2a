"""Dictionaries of numpy arrays, there and back, by the reference and by ours.

SPDX-License-Identifier: Apache-2.0
"""
import importlib

import numpy as np
import pytest

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
          "float64", "complex64"]
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (2, 3), (2, 3, 4, 5)]
LOW_FLOATS = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


def values(dtype, shape, seed=0):
    bits = np.random.default_rng(seed).integers(0, 2, (*shape, np.dtype(dtype).itemsize), np.uint8)
    return np.frombuffer(bits.tobytes(), dtype).reshape(shape).copy()


def same(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype and array.shape == right[name].shape, name
        assert array.tobytes() == right[name].tobytes(), name


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_comes_back_from_a_file(np_module, path, dtype):
    arrays = {str(shape): values(dtype, shape) for shape in SHAPES}
    np_module.save_file(arrays, path)
    same(np_module.load_file(path), arrays)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_comes_back_from_bytes(np_module, dtype):
    arrays = {str(shape): values(dtype, shape) for shape in SHAPES}
    same(np_module.load(np_module.save(arrays)), arrays)


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_comes_back_by_name(package, np_module, path, shape):
    array = values("float32", shape)
    np_module.save_file({"a": array}, path)
    with package.safe_open(path, framework="numpy") as file:
        assert file.get_slice("a").get_shape() == list(shape)
        assert file.get_slice("a").get_dtype() == "F32"
        same({"a": file.get_tensor("a")}, {"a": array})


METADATA = [None, {"format": "np"}, {"": ""}, {"a": "\"\\\n\t\x01\x7f/"}, {"k\u00e9y": "\u96ea \U0001f600"}]
TABLES = [
    {},
    {"b": ("float32", (2,)), "a": ("float32", (3,))},
    {"x": ("bool", (3,)), "y": ("int64", (2, 2)), "z": ("float16", (5,)), "w": ("complex64", (2,)), "v": ("float64", ())},
    {"quote\"": ("int8", (1,)), "back\\slash": ("int8", (1,)), "\u96ea": ("int8", (1,)), "tab\t": ("int8", (1,)),
     "": ("int8", (1,)), "nul\0": ("int8", (2,))},
    {f"layers.{i}.weight": (DTYPES[i % len(DTYPES)], (i % 3, 2)) for i in range(60)},
]


@pytest.mark.parametrize("table", range(len(TABLES)))
@pytest.mark.parametrize("metadata", METADATA)
def test_writes_the_bytes_of_the_reference(reference, ours, path, table, metadata):
    theirs, mine = (importlib.import_module(each.__name__ + ".numpy") for each in (reference, ours))
    arrays = {name: values(*about, seed) for seed, (name, about) in enumerate(TABLES[table].items())}
    expected = theirs.save(arrays, metadata)
    assert mine.save(arrays, metadata) == expected
    mine.save_file(arrays, path, metadata)
    with open(path, "rb") as file:
        assert file.read() == expected
    same(theirs.load_file(path), mine.load_file(path))
    with reference.safe_open(path, "np") as one, ours.safe_open(path, "np") as other:
        assert one.keys() == other.keys()
        filled = [[name for name in file.offset_keys() if arrays[name].size] for file in (one, other)]
        assert filled[0] == filled[1]  # the reference's order of tensors without data is random
        assert one.metadata() == other.metadata()


@pytest.mark.parametrize("spelling", LOW_FLOATS)
def test_floats_that_numpy_lacks_come_from_ml_dtypes(ours, path, spelling):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from safetensors_c import numpy as mine
    array = np.arange(16, dtype=np.uint8).view(getattr(ml_dtypes, spelling))
    mine.save_file({"a": array}, path)
    same(mine.load_file(path), {"a": array})
    same(mine.load(mine.save({"a": array})), {"a": array})
    scalar = {"a": array[3].reshape(()), "b": array[:0]}
    mine.save_file(scalar, path)
    with open(path, "rb") as file:
        assert file.read() == mine.save(scalar)
    same(mine.load_file(path), scalar)
    with ours.safe_open(path, "np") as file:
        same({"a": file.get_tensor("a"), "b": file.get_slice("b")[:]}, scalar)
        assert file.get_slice("a")[...].dtype == array.dtype


@pytest.mark.parametrize("name, array", {
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "transposed": np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1),
    "every second": np.arange(10)[::2],
    "backwards": np.arange(10)[::-1],
    "broadcast": np.broadcast_to(np.float32(3), (4, 2)),
    "scalar": np.float64(2.5),
    "big-endian": np.arange(6, dtype=">i4").reshape(2, 3),
    "big-endian, transposed": np.arange(6, dtype=">f8").reshape(2, 3).T,
}.items())
def test_layouts_that_the_reference_stores_wrongly_or_refuses(path, name, array):
    from safetensors_c import numpy as mine
    for loaded in (mine.load(mine.save({name: array})), (mine.save_file({name: array}, path), mine.load_file(path))[1]):
        assert loaded[name].dtype == array.dtype.newbyteorder("=") and loaded[name].shape == array.shape
        assert np.array_equal(loaded[name], array)


@pytest.mark.parametrize("bad, problem", [
    ({"a": np.array(["x"])}, "Unknown dtype"), ({"a": np.array([1j])}, 'Unknown dtype "complex128"'),
    ({"a": np.array([object()])}, "Unknown dtype"),
])
def test_dtypes_that_no_file_holds(package, np_module, path, bad, problem):
    with pytest.raises(package.SafetensorError, match=problem):
        np_module.save(bad)
    with pytest.raises(package.SafetensorError, match=problem):
        np_module.save_file(bad, path)


def test_arrays_are_owned_and_can_be_written_to(np_module, path):
    np_module.save_file({"a": np.zeros(5), "b": np.zeros((2, 2))}, path)
    loaded = np_module.load_file(path)
    loaded["a"][:] = 1
    loaded["b"][0] = 2
    assert np_module.load_file(path)["a"].sum() == 0
    assert np_module.load(np_module.save(loaded))["a"].flags.writeable


def test_files_are_given_by_str_or_path(np_module, tmp_path):
    np_module.save_file({"a": np.zeros(5)}, tmp_path / "p")
    assert np_module.load_file(tmp_path / "p").keys() == np_module.load_file(str(tmp_path / "p")).keys()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_read_the_same(path, threads):
    from safetensors_c import numpy as mine
    arrays = {f"t{i}": values("float32", (300, i)) for i in range(20)}
    mine.save_file(arrays, path)
    same(mine.load_file(path, threads=threads), arrays)


def test_number_of_threads_is_checked(path):
    from safetensors_c import numpy as mine
    mine.save_file({"a": np.zeros(2)}, path)
    with pytest.raises(ValueError, match="threads is 0"):
        mine.load_file(path, threads=0)
    for threads in ("2", 2.5):
        with pytest.raises(TypeError, match="object cannot be interpreted as an integer"):
            mine.load_file(path, threads=threads)


class Shape(np.ndarray):
    shape = property(lambda self: (4096,))


class Dtype(np.ndarray):
    dtype = property(lambda self: np.dtype("float64"))


class Size(np.ndarray):
    nbytes = property(lambda self: 4)


@pytest.mark.parametrize("kind", [Shape, Dtype, Size])
def test_subclass_that_misstates_its_memory_is_refused(package, np_module, path, kind):
    for write in (np_module.save, lambda arrays: np_module.save_file(arrays, path)):
        with pytest.raises(package.SafetensorError, match="^Error while serializing: invalid shape, data type, or offset"):
            write({"a": np.arange(8, dtype="f4").view(kind)})


class Layout(np.ndarray):
    flags = property(lambda self: np.zeros(1).flags)


@pytest.mark.parametrize("array", [np.arange(8, dtype="f4")[::2].view(Layout), np.ma.masked_array(np.arange(4, dtype="f4") * 2),
                                   np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3)).view(np.matrix)])
def test_subclass_is_saved_by_its_elements(path, array):
    from safetensors_c import numpy as mine
    mine.save_file({"a": array}, path)
    same(mine.load_file(path), {"a": np.ndarray.view(array, np.ndarray)})
    same(mine.load(mine.save({"a": array})), {"a": np.ndarray.view(array, np.ndarray)})
