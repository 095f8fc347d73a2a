"""What stands between the brackets of get_slice(name)[...].

SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import pytest

A = np.arange(120, dtype=np.int32).reshape(4, 5, 6)


class Index:
    def __getitem__(self, index):
        return index


i = Index()

# Both take these, and numpy says what they are.
SHARED = [i[:], i[()], i[0], i[3], i[-1], i[-4], i[1:3], i[:2], i[2:], i[0:0], i[:0], i[::2], i[1:4:2], i[::100], i[0, 0],
          i[0, 0, 0], i[-1, -1, -1], i[:, 0], i[:, :, 0], i[:, 1:3], i[:, 1:3, 2:5], i[1, 2:4], i[1, :, 2:4], i[2:, -5],
          i[...], i[..., 0], i[0, ...], i[1, ..., 2], i[..., 1:3], i[..., ::3], i[1:3, ...], i[0, 1, 2, ...],
          i[::2, ::2, ::3], i[np.int64(1)], i[np.int64(0):np.int64(2)], i[True], i[1:4:3, -2], i[0:4, 0:5, 0:6]]

# The reference refuses these or crashes.
OURS = [i[::-1], i[:, ::-1], i[::-2, ::-3], i[-2:], i[:-1], i[-3:-1], i[:, -2:, :-3], i[3:1], i[2:2], i[3:0:-1], i[-1:-4:-2],
        i[..., ::-1], i[0, ::-1, 1], i[3::-1], i[:1:-1], i[1:-1, 1:-1, 1:-1], i[-4:], i[-100:], i[:-100], i[100::-1]]

REFUSED = [
    (i[4], r"Error during slicing \[4\] with shape \[4, 5, 6\]: index 4 out of bounds for tensor dimension #0 of size 4"),
    (i[:, 20], r"Error during slicing \[:, 20\] with shape \[4, 5, 6\]: index 20 out of bounds for tensor dimension #1"),
    (i[-5], "Invalid index -5 for dimension 0 of size 4"),
    (i[:, -6], "Invalid index -6 for dimension 1 of size 5"),
    (i[:9], r"\[:9\] .*index 8 out of bounds for tensor dimension #0 of size 4"),
    (i[4:], r"\[4:\] .*index 4 out of bounds for tensor dimension #0 of size 4"),
    (i[4:4], r"\[4:4\] .*index 4 out of bounds"),
    (i[9::2], r"\[9::2\] .*index 9 out of bounds"),
    (i[:, :9:2], r"\[:, :9:2\] .*index 8 out of bounds for tensor dimension #1"),
    (i[..., 6], r"\[:, :, 6\] .*index 6 out of bounds for tensor dimension #2 of size 6"),
    (i[0, 0, 0, 0], "more slicing indexes than dimensions in tensor"),
    (i[0, 1, 2, 3, ...], "more slicing indexes than dimensions in tensor"),
    (i[..., ...], r"Only one ellipsis \(...\) is allowed in slice index"),
    (i[::0], "Slice step must be a positive integer, got 0"),
    ([0, 1], "Non empty lists are not implemented"),
    (i[None], "Unsupported slice index at position 0: expected slice, int, or ellipsis"),
    (i[0, "a"], "Unsupported slice index at position 1: expected slice, int, or ellipsis"),
    (i[1.5], "Unsupported slice index at position 0"),
    (i[0, [1]], "Unsupported slice index at position 1"),
    (np.array([0, 1]), "Unsupported slice index at position 0"),
]


def spelled(index):
    return repr(index).replace("slice", "").replace(" ", "")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    from safetensors_c import numpy as mine
    path = str(tmp_path_factory.mktemp("slices") / "a.safetensors")
    mine.save_file({"a": A, "empty": A[:0], "scalar": np.array(7)}, path)
    return path


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("index", SHARED, ids=spelled)
def test_index_means_what_it_means_to_numpy(package, file, index, backend):
    with package.safe_open(file, "np", backend=backend) as f:
        part = f.get_slice("a")[index]
    expected = A[int(index)] if index is True else A[index]
    assert part.shape == expected.shape and np.array_equal(part, expected)
    assert type(part) is np.ndarray and part.flags.c_contiguous and part.flags.writeable


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("index", OURS, ids=spelled)
def test_index_that_only_ours_takes(ours, file, index, backend):
    with ours.safe_open(file, "np", backend=backend) as f:
        part = f.get_slice("a")[index]
    assert type(part) is np.ndarray and part.flags.c_contiguous and part.flags.writeable
    assert part.shape == A[index].shape and np.array_equal(part, A[index])


@pytest.mark.parametrize("index, message", REFUSED, ids=[spelled(index) for index, _ in REFUSED])
def test_index_is_refused_in_the_same_words(package, file, index, message):
    with package.safe_open(file, "np") as f, pytest.raises(package.SafetensorError, match=message):
        f.get_slice("a")[index]


def test_empty_list_is_nothing(package, file):
    with package.safe_open(file, "np") as f:
        assert f.get_slice("a")[[]].shape == (0, 5, 6)


@pytest.mark.parametrize("index", [i[:], i[0:0], i[:, 0], i[...], i[()], i[::-1]], ids=spelled)
def test_empty_dimension_can_be_sliced(ours, file, index):
    with ours.safe_open(file, "np") as f:
        assert f.get_slice("empty")[index].shape == A[:0][index].shape


@pytest.mark.parametrize("index", [i[()], i[...]], ids=spelled)
def test_scalar(package, file, index):
    with package.safe_open(file, "np") as f:
        assert f.get_slice("scalar")[index] == 7 and f.get_slice("scalar")[index].shape == ()


def test_slice_keeps_the_file_open(package, file):
    with package.safe_open(file, "np") as f:
        part = f.get_slice("a")
    assert part.get_shape() == [4, 5, 6] and part.get_dtype() == "I32"
    assert np.array_equal(part[1], A[1])


def test_shape_is_the_callers(ours, file):
    part = ours.safe_open(file, "np").get_slice("a")
    part.get_shape().append(9)
    assert part.get_shape() == [4, 5, 6]


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_random_slices_against_numpy(ours, file, backend):
    random = np.random.default_rng(1)
    with ours.safe_open(file, "np", backend=backend) as f:
        whole = f.get_slice("a")
        for _ in range(300):
            index = tuple(slice(*(None if random.integers(3) == 0 else int(random.integers(-2 * size, size))
                                  for size in (length, length)), int(random.choice([-3, -2, -1, 1, 2, 3])))
                          for length in A.shape[:random.integers(1, 4)])
            assert np.array_equal(whole[index], A[index]), index


@pytest.mark.parametrize("step", [1 << 63, 1 << 64, 1 << 65, -(1 << 64), -(1 << 65)])
def test_step_of_more_bits_than_the_library_has_is_not_cut(ours, path, step):
    from safetensors_c import numpy as mine
    mine.save_file({"a": A}, path)
    with ours.safe_open(path, "np") as file:
        np.testing.assert_array_equal(file.get_slice("a")[::step, 1], A[::step, 1])
