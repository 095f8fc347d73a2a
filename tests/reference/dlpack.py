"""DLPack tensors in the hands of numpy, torch and jax: which dtypes each takes, that the values are right, that what is
refused is given back, and that views outlive the file.

A table of dtype x library is printed. What a library is known to refuse is in REFUSED; a library that is not installed
is left out, and with --recorded there is none: then a consumer written here looks at all dtypes.

    dlpack.py [--recorded] [--table]

SPDX-License-Identifier: Apache-2.0
"""
import ctypes as c
import gc
import json
import os
import struct
import sys
import tempfile

from support import library_path, skip
from support.recorded import mode

recorded = mode() == "--recorded"
libraries = {}
if not recorded:
    try:
        import numpy as np
        libraries["numpy"] = np
    except ImportError:
        skip("numpy is not installed")
    try:
        import torch
        libraries["torch"] = torch
    except ImportError:
        pass
    try:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax
        jax.config.update("jax_enable_x64", True)
        libraries["jax"] = jax
    except ImportError:
        pass

DTYPES = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64, "F16": 16, "BF16": 16,
          "F32": 32, "F64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
          "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4}
SMALL = {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4"}
SHAPE = [2, 4]
REFUSED = {"numpy": SMALL | {"BF16"}, "torch": {"F6_E2M3", "F6_E3M2", "F4"}, "jax": {"F6_E2M3", "F6_E3M2", "F4"}}
READ_ONLY, IS_COPIED = 1, 2
COPY, NO_COPY = 1, 2


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class Versioned(c.Structure):
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32), ("ctx", c.c_void_p), ("deleter", c.CFUNCTYPE(None, c.c_void_p)),
                ("flags", c.c_uint64), ("tensor", Tensor)]


class Legacy(c.Structure):
    _fields_ = [("tensor", Tensor), ("ctx", c.c_void_p), ("deleter", c.CFUNCTYPE(None, c.c_void_p))]


class OpenOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("io", c.c_int32), ("threads", c.c_uint32),
                ("max_header_bytes", c.c_uint64), ("allocator", c.c_void_p)]


st = c.CDLL(library_path())
RELEASE = c.CFUNCTYPE(None, c.c_void_p)
for name, result, arguments in [
        ("st_open", c.c_int32, [c.c_char_p, c.c_void_p, c.POINTER(c.c_void_p), c.c_void_p]),
        ("st_open_memory", c.c_int32, [c.c_void_p, c.c_size_t, RELEASE, c.c_void_p, c.c_void_p, c.POINTER(c.c_void_p), c.c_void_p]),
        ("st_free", None, [c.c_void_p]), ("st_get_tensor", c.c_void_p, [c.c_void_p, c.c_char_p]),
        ("st_tensor_to_dlpack", c.c_int32, [c.c_void_p, c.c_uint32, c.POINTER(c.c_void_p), c.c_void_p]),
        ("st_tensor_to_dlpack_legacy", c.c_int32, [c.c_void_p, c.c_uint32, c.POINTER(c.c_void_p), c.c_void_p])]:
    getattr(st, name).restype, getattr(st, name).argtypes = result, arguments

DESTRUCTOR = c.PYFUNCTYPE(None, c.c_void_p)  # of an object that is going, to which nobody may make a reference
new_capsule = c.PYFUNCTYPE(c.py_object, c.c_void_p, c.c_char_p, DESTRUCTOR)(("PyCapsule_New", c.pythonapi))
is_valid = c.PYFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p)(("PyCapsule_IsValid", c.pythonapi))
pointer_of = c.PYFUNCTYPE(c.c_void_p, c.c_void_p, c.c_char_p)(("PyCapsule_GetPointer", c.pythonapi))


def delete(address, kind):
    kind.from_address(address).deleter(address)


@DESTRUCTOR
def give_back(capsule):
    """A consumer that takes the tensor renames the capsule, and calls the deleter itself. What one has raised that refuses
    it comes out at the next call, and would end this function."""
    try:
        is_valid(capsule, b"")
    except Exception:
        pass
    for name, kind in [(b"dltensor_versioned", Versioned), (b"dltensor", Legacy)]:
        if is_valid(capsule, name):
            delete(pointer_of(capsule, name), kind)


class Exported:
    """What a library's from_dlpack() takes. legacy: as of a producer before 1.0."""

    def __init__(self, tensor, flags=0, legacy=False):
        self.tensor, self.flags, self.legacy = tensor, flags, legacy

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, max_version=None, stream=None, dl_device=None, copy=None):
        out = c.c_void_p()
        versioned = max_version is not None and max_version[0] >= 1 and not self.legacy
        function = st.st_tensor_to_dlpack if versioned else st.st_tensor_to_dlpack_legacy
        status = function(self.tensor, self.flags | (COPY if copy else NO_COPY if copy is False else 0), c.byref(out), None)
        if status != 0:
            raise BufferError(f"status {status}")
        return new_capsule(out.value, b"dltensor_versioned" if versioned else b"dltensor", give_back)


class File:
    """One tensor 't' in memory, 64-byte aligned, that counts its releases."""

    def __init__(self, dtype, shape):
        elements = 1
        for dim in shape:
            elements *= dim
        self.data = bytes((i * 37 + 1) % 120 if dtype != "BOOL" else i % 2 for i in range(elements * DTYPES[dtype] // 8))
        header = json.dumps({"t": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(self.data)]}})
        header = header.encode().ljust((len(header) + 8 + 63) // 64 * 64 - 8)
        whole = struct.pack("<Q", len(header)) + header + self.data
        self.room = c.create_string_buffer(len(whole) + 64)
        address = (c.addressof(self.room) + 63) // 64 * 64
        c.memmove(address, whole, len(whole))
        self.released = 0
        self.callback = RELEASE(self.release)  # kept as long as the file
        self.handle = c.c_void_p()
        assert st.st_open_memory(address, len(whole), self.callback, None, None, c.byref(self.handle), None) == 0
        self.tensor = st.st_get_tensor(self.handle, b"t")

    def release(self, _):
        self.released += 1

    def close(self):
        st.st_free(self.handle)


# ---- consumers: from_dlpack of each library, and the bytes of what it made ------------------------------------------------

def take(library, exported):
    return libraries[library].from_dlpack(exported) if library != "jax" else jax.numpy.from_dlpack(exported)


def bytes_of(library, made):
    if library == "torch":
        return bytes(made.contiguous().view(torch.uint8).numpy().tobytes()) if made.dim() else bytes(made.reshape(1).view(torch.uint8).numpy())
    return np.asarray(made).tobytes()


def accepted(library, dtype, legacy, faults):
    file = File(dtype, SHAPE)
    exported = Exported(file.tensor, legacy=legacy)
    before = file.released
    try:
        made = take(library, exported)
    except Exception as error:  # each library has its own kinds
        word = f"no: {str(error).splitlines()[0][:70]}"
        made = None
    file.close()
    if made is not None:
        word = "yes" if bytes_of(library, made) == file.data and list(made.shape) == SHAPE else "WRONG"
        gc.collect()
        copied = file.released != before
        word += ", a copy" if copied else ""
        if not copied and bytes_of(library, made) != file.data:
            faults.append(f"{dtype} in {library}: its view is gone with the file")
        if word == "WRONG":
            faults.append(f"{dtype} in {library}: other bytes")
    made = exported = None
    for _ in range(3):
        gc.collect()
    if file.released != before + 1:
        faults.append(f"{dtype} in {library}: {file.released - before} releases after {word}")
    if (word[:2] == "no") != (dtype in REFUSED[library]):
        faults.append(f"{dtype} in {library}: {word}")
    return word


def with_libraries():
    faults = []
    for legacy in (False, True):
        print(f"\n{'legacy' if legacy else 'versioned':12}" + "".join(f"{library:>16}" for library in libraries))
        for dtype in DTYPES:
            words = [accepted(library, dtype, legacy, faults) for library in libraries]
            print(f"{dtype:12}" + "".join(f"{word.split(':')[0]:>16}" for word in words))
            for library, word in zip(libraries, words):
                if "--table" in sys.argv and word.startswith("no:"):
                    print(f"             {library} says {word[4:]}")
    return faults


def read_only_views(path):
    """numpy sees the mark; a copy-on-write mapping may be written to."""
    for io, writable in [(1, False), (2, True), (3, True)]:
        handle = c.c_void_p()
        options = OpenOptions(struct_size=c.sizeof(OpenOptions), io=io)
        assert st.st_open(path, c.byref(options), c.byref(handle), None) == 0
        made = np.from_dlpack(Exported(st.st_get_tensor(handle, b"t")))
        st.st_free(handle)
        if made.flags.writeable != writable:
            yield f"numpy: io {io} is {'' if made.flags.writeable else 'not '}writable"
        if writable:
            made[:] = 0
        try:
            np.from_dlpack(Exported(None), copy=False)
            yield "NULL was taken"
        except BufferError:
            pass


# ---- without a library --------------------------------------------------------------------------------------------------

def with_own_consumer():
    faults = []
    for dtype, bits in DTYPES.items():
        for legacy, kind in [(False, Versioned), (True, Legacy)]:
            file = File(dtype, SHAPE)
            capsule = Exported(file.tensor, legacy=legacy).__dlpack__(max_version=(1, 0))
            refused = Exported(file.tensor, legacy=legacy).__dlpack__(max_version=(1, 0))
            del refused
            file.close()
            seen = kind.from_address(pointer_of(id(capsule), b"dltensor" if legacy else b"dltensor_versioned")).tensor
            if c.string_at(seen.data, len(file.data)) != file.data or seen.bits != bits or seen.shape[1] != 4 or seen.strides[0] != 4:
                faults.append(f"{dtype}: is seen otherwise")
            if file.released != (1 if legacy else 0):  # the legacy one is a copy
                faults.append(f"{dtype}: released {file.released} times while it is used")
            del capsule
            if file.released != 1:
                faults.append(f"{dtype}: released {file.released} times")
    return faults


if recorded:
    found = with_own_consumer()
else:
    print(", ".join(f"{name} {module.__version__}" for name, module in libraries.items()))
    found = with_libraries()
    with tempfile.TemporaryDirectory() as folder:
        header = b'{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        header = header.ljust((len(header) + 7) // 8 * 8)
        path = os.path.join(folder, "t.safetensors")
        with open(path, "wb") as out:
            out.write(struct.pack("<Q", len(header)) + header + bytes(range(8)))
        found += read_only_views(path.encode())
print("\n".join(found))
print(f"{len(found)} faults")
sys.exit(bool(found))
