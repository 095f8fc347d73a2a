"""TensorSpec, serialize and serialize_file, and the changes of a file that is there.

SPDX-License-Identifier: Apache-2.0
"""
import array
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest

FLOATS = array.array("f", [1, 2, 3, 4])
ADDRESS = FLOATS.buffer_info()[0]


def spec(package, **changes):
    return package.TensorSpec(**{"dtype": "float32", "shape": [4], "data_ptr": ADDRESS, "data_len": 16, **changes})


@pytest.mark.parametrize("spelling, name", [
    ("bool", "BOOL"), ("int8", "I8"), ("uint8", "U8"), ("int16", "I16"), ("uint16", "U16"), ("int32", "I32"),
    ("uint32", "U32"), ("int64", "I64"), ("uint64", "U64"), ("float16", "F16"), ("float32", "F32"), ("float64", "F64"),
    ("bfloat16", "BF16"), ("float8_e4m3fn", "F8_E4M3"), ("float8_e4m3fnuz", "F8_E4M3FNUZ"), ("float8_e5m2", "F8_E5M2"),
    ("float8_e5m2fnuz", "F8_E5M2FNUZ"), ("float8_e8m0fnu", "F8_E8M0"), ("complex64", "C64")])
def test_dtype_of_a_spec(package, path, spelling, name):
    bits = {"8": 1, "6": 2, "2": 4, "4": 8}[{"bool": "int8", "bfloat16": "int16", "complex64": "int64"}.get(
        spelling, spelling.split("_")[0])[-1]]
    tensor = spec(package, dtype=spelling, shape=[16 // bits])
    assert tensor.dtype == name
    package.serialize_file({"a": tensor}, path)
    with open(path, "rb") as file:
        content = file.read()
    assert content == package.serialize({"a": tensor}) and content.endswith(FLOATS.tobytes())
    assert b'"dtype":"%s"' % name.encode() in content


def test_f4_counts_pairs(package):
    tensor = spec(package, dtype="float4_e2m1fn_x2", shape=[2, 8])
    assert tensor.dtype == "F4" and tensor.shape == [2, 16]
    assert b'"shape":[2,16]' in package.serialize({"a": tensor})


def test_spec_shows_itself_and_cannot_be_changed(package):
    tensor = spec(package, shape=(2, 2))
    assert repr(tensor) == f"TensorSpec(dtype='F32', shape=[2, 2], data_ptr={ADDRESS}, data_len=16)"
    assert (tensor.data_ptr, tensor.data_len) == (ADDRESS, 16)
    with pytest.raises(AttributeError):
        tensor.shape = [1]


@pytest.mark.parametrize("changes, problem, message", [
    ({"dtype": "nonsense"}, "SafetensorError", 'Unknown dtype "nonsense". Supported dtypes: bool, int8, '),
    ({"dtype": 3}, TypeError, "argument 'dtype'"), ({"dtype": []}, TypeError, "argument 'dtype'"),
    ({"shape": [-1]}, OverflowError, "can't convert negative int to unsigned"),
    ({"data_ptr": -1}, OverflowError, "can't convert negative int to unsigned"),
    ({"data_len": -1}, OverflowError, "can't convert negative int to unsigned"),
    ({"shape": "ab"}, TypeError, ""), ({"shape": 3}, TypeError, ""), ({"shape": [1.5]}, TypeError, ""),
    ({"data_ptr": 1 << 70}, OverflowError, ""),
])
def test_wrong_spec(package, changes, problem, message):
    with pytest.raises(getattr(package, problem) if isinstance(problem, str) else problem) as error:
        spec(package, **changes)
    assert message in str(error.value)


def test_spec_takes_keywords_only(package):
    with pytest.raises(TypeError):
        package.TensorSpec("float32", [4], ADDRESS, 16)


@pytest.mark.parametrize("changes, message", [
    ({"shape": [5]}, "invalid shape, data type, or offset for tensor"),
    ({"data_len": 15}, "invalid shape, data type, or offset for tensor"),
    ({"shape": [1 << 40, 1 << 40]}, "overflow computing buffer size from shape and/or element type"),
    ({"shape": [4, (1 << 64) - 1, 0], "data_len": 0}, "overflow computing buffer size from shape and/or element type"),
])
def test_spec_that_does_not_fit_its_data(package, path, changes, message):
    for write in (package.serialize, lambda tensors: package.serialize_file(tensors, path)):
        with pytest.raises(package.SafetensorError) as error:
            write({"a": spec(package, **changes)})
        assert str(error.value).startswith("Error while serializing: " + message)
    assert not os.path.exists(path)


@pytest.mark.parametrize("tensors, metadata", [
    (3, None), ([], None), ({"a": 3}, None), ({"a": {"dtype": "float32", "shape": [1]}}, None), ({3: None}, None),
    ({}, {"a": 3}), ({}, {3: "a"}), ({}, "a"),
])
def test_wrong_arguments(package, path, tensors, metadata):
    with pytest.raises(TypeError):
        package.serialize(tensors, metadata)
    with pytest.raises(TypeError):
        package.serialize_file(tensors, path, metadata)


@pytest.mark.parametrize("where", ["not/there/x", "."])
def test_path_that_cannot_be_written(package, tmp_path, where):
    with pytest.raises(package.SafetensorError, match="^Error while serializing: "):
        package.serialize_file({"a": spec(package)}, str(tmp_path / where))


def test_path_with_a_nul_is_not_cut_there(ours, tmp_path):
    there = tmp_path / "there"
    ours.serialize_file({}, there)
    before = there.read_bytes()
    for change in (lambda path: ours.serialize_file({"a": spec(ours)}, path), lambda path: ours.edit_metadata(path, {"a": "b"})):
        with pytest.raises((ValueError, ours.SafetensorError), match="null byte|a NUL"):
            change(f"{there}\0.safetensors")
    assert there.read_bytes() == before and os.listdir(tmp_path) == ["there"]


def test_path_in_bytes_is_refused_in_the_same_words(package, np_module):
    with pytest.raises(TypeError) as error:
        np_module.save_file({"a": np.zeros(1)}, b"model.safetensors")
    assert str(error.value) == "argument 'filename': 'bytes' object is not an instance of 'str'"


@pytest.mark.parametrize("filename", [3, None])
def test_path_that_is_none(package, filename):
    with pytest.raises(TypeError):
        package.serialize_file({"a": spec(package)}, filename)


def test_deserialize_tells_all(package):
    (name, tensor), = package.deserialize(package.serialize({"a": spec(package, shape=[2, 2])}))
    assert name == "a" and tensor == {"dtype": "F32", "shape": [2, 2], "data": bytearray(FLOATS.tobytes())}
    assert package.deserialize(package.serialize({})) == []


@pytest.mark.parametrize("data", [bytearray(10), "text", 3])
def test_deserialize_takes_bytes_only(package, data):
    with pytest.raises(TypeError):
        package.deserialize(data)


def test_a_file_is_replaced_and_whole(ours, path):
    with open(path, "wb") as file:
        file.write(b"old")
    with pytest.raises(ours.SafetensorError):
        ours.serialize_file({"a": spec(ours, shape=[5])}, path)
    with open(path, "rb") as file:
        assert file.read() == b"old"
    ours.serialize_file({"a": spec(ours)}, path, sync=True)
    assert [name for name in os.listdir(os.path.dirname(path))] == [os.path.basename(path)]


def test_no_tensor_is_called_metadata(ours, path):
    for write in (ours.serialize, lambda tensors: ours.serialize_file(tensors, path)):
        with pytest.raises(ours.SafetensorError, match="__metadata__"):
            write({"__metadata__": spec(ours)})


def test_empty_metadata_is_a_map(ours, path):
    ours.serialize_file({}, path, {})
    with open(path, "rb") as file:
        content = file.read()
    assert content == ours.serialize({}, {}) and b'{"__metadata__":{}}' in content
    assert ours.safe_open(path, "np").metadata() == {}


def test_data_at_no_address(ours, path):
    for write in (ours.serialize, lambda tensors: ours.serialize_file(tensors, path)):
        with pytest.raises(ours.SafetensorError, match="'a' has 16 bytes at no address"):
            write({"a": spec(ours, data_ptr=0)})


def test_metadata_is_edited(ours, path):
    ours.serialize_file({"a": spec(ours)}, path, {"keep": "1", "drop": "2"}, header_reserve=64)
    size = os.path.getsize(path)
    ours.edit_metadata(path, {"drop": None, "new": "\u96ea", "absent": None})
    with ours.safe_open(path, "np") as file:
        assert file.metadata() == {"keep": "1", "new": "\u96ea"}
        assert file.get_tensor("a").tobytes() == FLOATS.tobytes()
    assert os.path.getsize(path) == size


@pytest.mark.parametrize("changes", [{"a\0": "b"}, {"a": "b\0"}])
def test_metadata_with_a_nul_is_not_edited(ours, path, changes):
    ours.serialize_file({}, path)
    with pytest.raises(ValueError, match="NUL"):
        ours.edit_metadata(path, changes)


def test_metadata_of_an_absent_file(ours, path):
    with pytest.raises(OSError):
        ours.edit_metadata(path, {"a": "b"})


@pytest.mark.parametrize("kind", ["array", "bytes", "bytearray", "numpy", "read-only numpy", "spec"])
def test_a_tensor_is_replaced_in_place(ours, path, kind):
    ours.serialize_file({"a": spec(ours), "b": spec(ours), "\u96ea\0": spec(ours)}, path)
    numbers = array.array("f", [9, 8, 7, 6])
    fixed = np.array(numbers)
    fixed.flags.writeable = False
    data = {"array": numbers, "bytes": numbers.tobytes(), "bytearray": bytearray(numbers.tobytes()), "numpy": np.array(numbers),
            "read-only numpy": fixed, "spec": spec(ours, data_ptr=numbers.buffer_info()[0])}[kind]
    inode = os.stat(path).st_ino
    for name in ("b", "\u96ea\0"):
        ours.write_tensor(path, name, data, sync=name == "b")
    with ours.safe_open(path, "np") as file:
        assert file.get_tensor("a").tolist() == [1, 2, 3, 4]
        assert file.get_tensor("b").tolist() == file.get_tensor("\u96ea\0").tolist() == [9, 8, 7, 6]
    assert os.stat(path).st_ino == inode


@pytest.mark.parametrize("data, problem, words", [
    (b"12345", "SafetensorError", "tensor 'a': expected 16 bytes, got 5"),
    (np.zeros(4, "i4"), "SafetensorError", r"tensor 'a' is F32 \[4\], and data is I32 \[4\]"),
    (np.zeros((2, 2), "f4"), "SafetensorError", r"tensor 'a' is F32 \[4\], and data is F32 \[2, 2\]"),
    (np.zeros(2, "f8"), "SafetensorError", r"tensor 'a' is F32 \[4\], and data is F64 \[2\]"),
    (np.zeros(4, ">f4"), TypeError, "elements of the type '>f'"),
    (np.zeros(8, "f4")[::2], ValueError, "not contiguous"),
    ("text", TypeError, "bytes-like object"), (3, TypeError, "bytes-like object")])
def test_data_of_another_tensor_is_refused(ours, path, data, problem, words):
    ours.serialize_file({"a": spec(ours)}, path)
    with pytest.raises(ours.SafetensorError if problem == "SafetensorError" else problem, match=words):
        ours.write_tensor(path, "a", data)
    with ours.safe_open(path, "np") as file:
        assert file.get_tensor("a").tolist() == [1, 2, 3, 4]


def test_a_tensor_that_is_not_there_cannot_be_replaced(ours, path):
    with pytest.raises(OSError):
        ours.write_tensor(path, "a", b"")
    ours.serialize_file({"a": spec(ours)}, path)
    for data in (b"", np.array(FLOATS)):
        with pytest.raises(ours.SafetensorError, match="no tensor 'b'") as error:
            ours.write_tensor(path, "b", data)
        assert error.value.status == "ST_ERR_NOT_FOUND"
    with pytest.raises(TypeError):
        ours.write_tensor(path, b"a", b"")


def test_an_open_file_shows_the_new_bytes(ours, path):
    ours.serialize_file({"a": spec(ours), "s": spec(ours, shape=[], data_len=4)}, path)
    with ours.safe_open(path, "np") as file:
        ours.write_tensor(path, "a", np.full(4, 5, "f4"))
        ours.write_tensor(path, "s", np.array(7, "f4"))
        assert file.get_tensor("a").tolist() == [5, 5, 5, 5] and file.get_tensor("s").tolist() == 7


def test_bintensors_are_written_and_read(ours, path):
    ours.serialize_file({"a": spec(ours), "b": spec(ours, shape=[2, 2])}, path, {"k": "v"}, format="bintensors")
    with ours.safe_open(path, "np") as file:
        assert file.shapes() == {"a": [4], "b": [2, 2]} or file.shapes() == {"b": [2, 2], "a": [4]}
        assert file.metadata() == {"k": "v"} and file.get_tensor("b").tolist() == [[1, 2], [3, 4]]


def test_unknown_format(ours, path):
    with pytest.raises(ValueError, match="format is 'gguf'"):
        ours.serialize_file({}, path, format="gguf")


@pytest.mark.parametrize("reserve, problem", [(-1, OverflowError), (1 << 64, OverflowError), (1.5, TypeError)])
def test_room_that_no_header_has(ours, path, reserve, problem):
    with pytest.raises(problem):
        ours.serialize_file({}, path, header_reserve=reserve)
    assert not os.path.exists(path)


def test_sync_reaches_the_library(ours, path, monkeypatch):
    from safetensors_c import _library
    from safetensors_c import numpy as mine
    flags = []
    for name, at in (("st_writer_begin", 2), ("st_edit_metadata", 4), ("st_tensor_write_n", 6)):
        def noted(*arguments, _call=getattr(_library.st, name), _at=at):
            flags.append(arguments[_at]._obj.flags & _library.WRITE_SYNC)
            return _call(*arguments)
        monkeypatch.setattr(_library.st, name, noted)
    for sync in (False, True):
        mine.save_file({"a": np.ones(1)}, path, sync=sync)
        ours.edit_metadata(path, {"k": "v"}, sync=sync)
        ours.write_tensor(path, "a", np.zeros(1), sync=sync)
    assert flags == [0] * 3 + [_library.WRITE_SYNC] * 3


@pytest.mark.parametrize("changes, given, kind", [
    (None, "'None'", "dict"), ([], "'list' object", "dict"), ({"a": b"x"}, "'bytes' object", "str"),
    ({1: "x"}, "'int' object", "str"), ({"a": 1}, "'int' object", "str")])
def test_changes_of_another_type_are_named(ours, path, changes, given, kind):
    with pytest.raises(TypeError) as error:
        ours.edit_metadata(path, changes)
    assert str(error.value) == f"argument 'changes': {given} is not an instance of '{kind}'"


@pytest.mark.parametrize("problem", [False, True])
def test_writer_is_freed(ours, path, monkeypatch, problem):
    from safetensors_c import _library
    from safetensors_c import numpy as mine
    made, freed = [], []
    make, free = _library.quick.st_writer_new, _library.st.st_writer_free
    monkeypatch.setattr(_library.quick, "st_writer_new", lambda out, error: (make(out, error), made.append(out._obj.value))[0])
    monkeypatch.setattr(_library.st, "st_writer_free", lambda writer: (freed.append(writer.value), free(writer))[0])
    try:
        mine.save_file({"a": np.ones(1)}, path + "/no/folder" if problem else path)
    except ours.SafetensorError:
        assert problem
    assert len(made) == 1 and made == freed


def test_progress_of_a_save_is_told(ours, path):
    from safetensors_c import numpy as mine
    seen = []
    array = np.arange(1 << 22)  # 32 MiB: several reports are possible
    mine.save_file({"a": array}, path, progress=lambda done, total: seen.append((done, total)))
    size = os.path.getsize(path)
    assert len(seen) >= 2 and seen == sorted(seen) and seen[-1] == (size, size)
    assert all(total == size for _, total in seen)
    assert np.array_equal(mine.load_file(path)["a"], array)


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_failure_of_a_progress_function_ends_the_save(ours, path, problem):
    from safetensors_c import numpy as mine
    mine.save_file({"old": np.ones(1)}, path)
    with open(path, "rb") as file:
        before = file.read()
    calls = []

    def stop(done, total):
        calls.append(done)
        raise problem("enough")
    with pytest.raises(problem, match="enough"):
        mine.save_file({"a": np.zeros(1 << 22)}, path, progress=stop)
    with open(path, "rb") as file:
        assert file.read() == before
    assert len(calls) == 1 and os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_bar_of_a_save(ours, path, capsys):
    from safetensors_c import numpy as mine
    mine.save_file({"a": np.zeros(1000)}, path, progress=True)
    assert capsys.readouterr().err.startswith("saving [##############################] 8.07 kB of 8.07 kB, ")
    mine.save_file({"a": np.zeros(1000)}, path)
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")
@pytest.mark.parametrize("progress", [None, lambda done, total: None])
@pytest.mark.parametrize("target", ["blob", "nothing", "link"])
def test_save_replaces_a_symbolic_link(ours, tmp_path, target, progress):
    (tmp_path / "blob").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(target)
    ours.serialize_file({"a": spec(ours)}, link, sync=True, progress=progress)
    assert not link.is_symlink() and ours.safe_open(link, "np").keys() == ["a"]
    assert (tmp_path / "blob").read_bytes() == b"old" and sorted(os.listdir(tmp_path)) == ["blob", "link"]


@pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o444])
def test_only_the_owner_may_read_what_replaces_a_symbolic_link(package, np_module, tmp_path, mode):
    (tmp_path / "blob").write_bytes(b"old")
    (tmp_path / "blob").chmod(mode)
    link = tmp_path / ("l" * 250)
    link.symlink_to("blob")
    np_module.save_file({}, link)
    assert not link.is_symlink() and link.stat().st_mode & 0o777 == 0o600 and len(os.listdir(tmp_path)) == 2


@pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")
def test_what_a_killed_save_over_a_link_left_is_removed(ours, tmp_path):
    (tmp_path / "link").symlink_to("blob")
    (tmp_path / ".link.st-new-0123456789abcdef").write_bytes(b"half")
    ours.serialize_file({"a": spec(ours)}, tmp_path / "link")
    assert os.listdir(tmp_path) == ["link"]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs /dev/shm")
def test_only_links_to_descriptors_are_written_through(ours):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        link = os.path.join(folder, "link")
        os.symlink("blob", link)
        ours.serialize_file({"a": spec(ours)}, link)
        assert not os.path.islink(link) and os.listdir(folder) == ["link"]


@pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")
def test_reference_replaces_a_symbolic_link(package, np_module, tmp_path):
    (tmp_path / "blob").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to("blob")
    np_module.save_file({}, link)
    assert not link.is_symlink() and (tmp_path / "blob").read_bytes() == b"old"


@pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")
def test_save_that_fails_keeps_the_symbolic_link(ours, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("blob")

    def progress(done, total):
        raise KeyError("stop")
    with pytest.raises(KeyError):
        ours.serialize_file({"a": spec(ours)}, link, progress=progress)
    assert os.listdir(tmp_path) == ["link"] and link.is_symlink()


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs /dev/stdout")
def test_link_to_a_descriptor_is_written_to(tmp_path, ours):
    code = "from safetensors_c.numpy import save_file; save_file({}, '/dev/stdout')"
    with open(tmp_path / "out", "wb") as out:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=out)
    assert ours.deserialize((tmp_path / "out").read_bytes()) == []


class Long(bytes):
    def __len__(self):
        return 1 << 20


class Text(str):
    """Text whose UTF-8 overstates the number of its bytes."""

    def encode(self, *arguments):
        return Long(super().encode(*arguments))


def test_text_that_overstates_its_bytes_is_not_read_past_its_end(ours, path):
    ours.serialize_file({Text("a"): spec(ours)}, path, {Text("k"): Text("v")})
    with ours.safe_open(path, "np") as file:
        assert file.get_tensor(Text("a")).tolist() == [1, 2, 3, 4] and file.metadata() == {"k": "v"}
    ours.write_tensor(Long(path.encode()), Text("a"), Long(bytes(16)))
    with ours.safe_open(path, "np") as file:
        assert file.get_tensor("a").tolist() == [0, 0, 0, 0]


def test_writing_an_array_looks_up_one_tensor(ours, path, calls):
    ours.serialize_file({str(i): spec(ours) for i in range(100)}, path)
    calls.clear()
    ours.write_tensor(path, "7", np.zeros(4, "f4"))
    assert calls["st_get_tensor_n"] == 1 and not calls["st_list_tensors"] and not calls["st_get_tensor_at"]


@pytest.mark.parametrize("data", [bytes(16), np.zeros(4, "f4")])
def test_path_of_write_tensor_may_be_bytes(ours, path, data):
    ours.serialize_file({"a": spec(ours)}, path)
    ours.write_tensor(os.fsencode(path), "a", data)
    with ours.safe_open(path, "np") as file:
        assert file.get_tensor("a").tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("numpy_is_there", [True, False])
def test_read_only_data_is_not_copied(ours, path, tmp_path, monkeypatch, numpy_is_there):
    from safetensors_c import _source
    np.arange(6, dtype="f4").tofile(tmp_path / "raw")
    data = np.memmap(tmp_path / "raw", "f4", "r", shape=(2, 3))
    place = data.ctypes.data
    with monkeypatch.context() as patch:
        if not numpy_is_there:
            patch.setitem(sys.modules, "numpy", None)
        address, size, held = _source.memory_of(data)
    assert size == 24 and (address == place) == numpy_is_there
    ours.serialize_file({"a": spec(ours, shape=[2, 3], data_ptr=address, data_len=size)}, path)
    del held
    with open(path, "rb") as file:
        assert file.read().endswith(data.tobytes())
