"""Malicious checkpoints: each is rejected with one line, nothing is run or written, and memory stays bounded.

SPDX-License-Identifier: Apache-2.0
"""
import io
import os
import pathlib
import random
import resource
import shutil
import struct
import subprocess
import tempfile
import unittest
import zipfile
import zlib

from pickles import (NONE, ORDERED, archive, call, dict_of, gguf, gguf_text, list_of, name, npy, number, pickle, stacked, storage,
                     tensor, text, tuple_of)
from sample import COMMAND, READS_ZIP

MEMORY = 1 << 30
SANITIZED = any(name in pathlib.Path(COMMAND).read_bytes() for name in (b"__asan_init", b"__tsan_init"))
DATA = bytes(24)
PAYLOAD = "touch CANARY"
RAN = text(PAYLOAD)
GOOD = tensor(storage("0", 6), [6], [1])


def short(value):
    return b"\x8c" + bytes([len(value)]) + value.encode()


def of(value):
    return dict_of([("w", value)])


# ---- pickles ---------------------------------------------------------------------------------------------------------

def rebuild(*arguments):
    return of(call("torch._utils", "_rebuild_tensor_v2", *arguments))


def doubled(levels):
    """A list that contains a list twice, which contains a list twice, and so on."""
    body = b"]q\x000"
    for level in range(1, levels):
        body += b"](h" + bytes([level - 1]) + b"h" + bytes([level - 1]) + b"eq" + bytes([level]) + b"0"
    return body + b"h" + bytes([levels - 1])


def nameless(levels):
    """A dictionary that contains another one twice under an empty name, and so on: the names stay empty."""
    body = NONE + b"q\x000"
    for level in range(1, levels):
        held = text("") + b"h" + bytes([level - 1])
        body += b"}(" + held + held + b"uq" + bytes([level]) + b"0"
    return body + b"h" + bytes([levels - 1])


def rebuild_typed(size, kind):
    return of(call("torch._utils", "_rebuild_tensor_v3", storage("0", 24, "UntypedStorage", "torch.storage"), b"K\x00", tuple_of(*map(number, size)),
                   tuple_of(*[number(1) for _ in size]), b"\x89", ORDERED, kind))


# Name, body of the pickle, words of the message.
PICKLES = [
    ("os.system", of(call("os", "system", RAN)), "among them os.system"),
    ("posix.system", of(call("posix", "system", RAN)), "among them posix.system"),
    ("eval", of(call("builtins", "eval", text("__import__('os').system('touch CANARY')"))), "among them builtins.eval"),
    ("exec", of(call("builtins", "exec", text("import os"))), "among them builtins.exec"),
    ("python 2's eval", of(call("__builtin__", "eval", RAN)), "among them __builtin__.eval"),
    ("a chain of getattr", of(call("builtins", "getattr", call("builtins", "__import__", text("os")), text("system"))),
     "among them builtins.getattr"),
    ("subprocess", of(call("subprocess", "Popen", list_of(RAN))), "among them subprocess.Popen"),
    ("pickle in pickle", of(call("pickle", "loads", RAN)), "among them pickle.loads"),
    ("torch.load", of(call("torch", "load", RAN)), "among them torch.load"),
    ("torch.hub", of(call("torch.hub", "load", RAN, RAN)), "among them torch.hub.load"),
    ("numpy's scalar", of(call("numpy.core.multiarray", "scalar", RAN)), "among them numpy.core.multiarray.scalar"),
    ("codecs", of(call("_codecs", "encode", RAN, text("latin1"))), "among them _codecs.encode"),
    ("STACK_GLOBAL", of(short("os") + short("system") + b"\x93" + tuple_of(RAN) + b"R"), "among them os.system"),
    ("STACK_GLOBAL with dots", of(short("torch") + short("os.system") + b"\x93" + tuple_of(RAN) + b"R"), "among them torch.os.system"),
    ("STACK_GLOBAL with dots for a known name", of(short("torch") + short("_utils._rebuild_tensor_v2") + b"\x93" + tuple_of(RAN) + b"R"),
     "created by torch._utils._rebuild_tensor_v2: safetensors cannot store it"),
    ("STACK_GLOBAL through an attribute", of(short("torch._utils") + short("_rebuild_tensor_v2.__globals__") + b"\x93"),
     "among them torch._utils._rebuild_tensor_v2.__globals__"),
    ("a torch name of another module", of(call("os", "_rebuild_tensor_v2", storage("0", 6))), "'w' is an object of os._rebuild_tensor_v2 and contains tensors"),
    ("a storage of another module", of(tensor(storage("0", 6, module="posix"), [6], [1])), "names a posix.FloatStorage, expected a storage"),
    ("a negative size in four bytes", rebuild(storage("0", 6), b"J\xff\xff\xff\xff", b")", b")", b"\x89", ORDERED), "negative size -1"),
    ("STACK_GLOBAL of numbers", of(number(1) + number(2) + b"\x93"), "by types integer and integer, expected two strings"),
    ("STACK_GLOBAL of an empty stack", b"\x93", "empty stack"),
    ("a name with a line break in it", of(b"cos\nsystem\r\n"), "among them os.system\\r"),
    ("a name without an end", b"c" + b"a" * 5000, "line of more than 1024 bytes"),
    ("INST", of(b"(" + RAN + b"ios\nsystem\n"), "among them os.system"),
    ("OBJ", of(b"(" + name("os", "system") + RAN + b"o"), "among them os.system"),
    ("OBJ of nothing", of(b"(o"), "an object without a class"),
    ("OBJ of a string", of(b"(" + RAN + b"o"), "calls a string"),
    ("NEWOBJ", of(name("os", "system") + tuple_of(RAN) + b"\x81"), "among them os.system"),
    ("NEWOBJ of a known name", of(name("collections", "OrderedDict") + b")\x81"), "among them collections.OrderedDict"),
    ("NEWOBJ_EX", of(name("os", "system") + b")}\x92"), "among them os.system"),
    ("an object as the checkpoint", call("os", "system", RAN), "found a Python object (os.system): save its state_dict()"),
    ("an object as the state_dict", dict_of([("state_dict", call("os", "system", RAN))]), "state_dict: expected a dictionary, found a Python object"),
    ("a tensor in the arguments of an object", of(call("os", "system", GOOD)), "'w' is an object of os.system and contains tensors"),
    ("a tensor in the state of an object", of(call("os", "system") + dict_of([("a", list_of(GOOD))]) + b"b"), "contains tensors"),
    ("a tensor in the items of an object", of(call("os", "system") + b"(" + RAN + GOOD + b"u"), "contains tensors"),
    ("a tensor in the list of an object", of(call("os", "system") + GOOD + b"a"), "contains tensors"),
    ("a tensor in a set", of(b"\x8f(" + GOOD + b"\x90"), "'w' is an object of set and contains tensors"),
    ("a tensor in a frozenset", of(b"(" + GOOD + b"\x91"), "'w' is an object of frozenset and contains tensors"),
    ("a tensor below objects that contain each other", of(call("a", "b") + b"q\x00(" + RAN + call("c", "d", b"h\x00", GOOD) + b"u"), "contains tensors"),
    ("a storage in an object", of(call("os", "system", storage("0", 6))), "contains tensors"),
    ("objects in objects", b"}" + text("w") + name("a", "b") + b")R" + (b"\x85q\x000" + name("a", "b") + b"h\x00R") * 50_000 + b"s",
     "found no tensors"),
    ("ADDITEMS to a list", of(b"](N\x90"), "adds items to a list"),
    ("EXT1", b"\x82\x01", "opcode EXT1"), ("EXT2", b"\x83\x01\x01", "opcode EXT2"), ("EXT4", b"\x84\x01\x01\x01\x01", "opcode EXT4"),
    ("DUP", b"}2", "opcode DUP"), ("PERSID", b"Pstorage\n", "opcode PERSID"), ("GET", b"g0\n", "opcode GET"),
    ("PUT", b"}p0\n", "opcode PUT"), ("STRING", b"S'a'\n", "opcode STRING"),
    ("INT of no number", b"I1x\n", "an invalid number '1x'"), ("INT of nothing", b"I\n", "an invalid number ''"),
    ("INT of base 8", b"I010\n", "an invalid number '010'"), ("LONG of base 8", b"L-010L\n", "an invalid number '-010'"),
    ("LONG of two suffixes", b"L1LL\n", "an invalid number '1L'"), ("LONG of a sign", b"L-L\n", "an invalid number '-'"),
    ("LONG of 101 digits", b"L" + b"9" * 101 + b"L\n", "an invalid number '9999"),
    ("a tensor under a number of 100 digits", b"}(L" + b"9" * 100 + b"L\n" + GOOD + b"u", "the key of a tensor is a"),
    ("a state_dict that another replaces", b"}(" + text("state_dict") + b"}" + text("state_dict") + b"}" + b"u",
     "has the key 'state_dict' twice"),
    ("a tensor that a number replaces", b"}(" + text("w") + GOOD + text("w") + number(1) + b"u", "has the key 'w' twice"),
    ("a tensor under a number that another replaces", b"}(" + number(7) + GOOD + text("7") + number(1) + number(7) + number(1) + b"u",
     "has the key '7' twice"),
    ("EMPTY_SET", b"\x8f", "found a Python object (set)"), ("BYTEARRAY8", b"\x96" + bytes(8), "found a bytes object"),
    ("NEXT_BUFFER", b"\x97", "opcode NEXT_BUFFER"), ("no opcode", b"\xff", "byte 0xff, which is not an opcode"),
    ("a second PROTO", b"\x80\x02}", "byte 0x80"),
    ("BUILD of a list", of(b"]" + b"}" + b"b"), "sets the state of a list from a dictionary"),
    ("BUILD of a tensor", of(GOOD + dict_of([("__class__", RAN)]) + b"b"), "sets the state of a call"),
    ("BUILD by a tuple", of(ORDERED + tuple_of(b"N", b"}") + b"b"), "sets the state of a dictionary from a tuple"),
    ("REDUCE of a storage's class", of(call("torch", "FloatStorage", number(1 << 50))), "calls torch.FloatStorage"),
    ("REDUCE of a dtype", of(call("torch", "float32")), "calls torch.float32"),
    ("REDUCE of a string", of(RAN + b")R"), "calls a string"),
    ("REDUCE of a call's result", of(GOOD + b")R"), "calls a call"),
    ("REDUCE with a list", of(name("collections", "OrderedDict") + b"]R"), "with a list"),
    ("OrderedDict of a number", of(call("collections", "OrderedDict", number(1))), "other than a list of pairs"),
    ("OrderedDict of two lists", of(call("collections", "OrderedDict", b"]", b"]")), "other than a list of pairs"),
    ("OrderedDict of a list of three", of(call("collections", "OrderedDict", list_of(list_of(RAN, RAN, RAN)))), "other than a list of pairs"),
    ("OrderedDict of a list of texts", of(call("collections", "OrderedDict", list_of(text("ab")))), "other than a list of pairs"),
    ("a list that becomes dictionaries without end",
     of(list_of(*[b"h\x00"] * 200_000).replace(b"h\x00", tuple_of(b"N", b"N") + b"q\x00", 1) + b"q\x01"
        + (name("collections", "OrderedDict") + b"h\x01\x85R0") * 30_000), "contents take more than"),
    ("a state of what is no parameter", of(GOOD + tuple_of(b"N") + b"b"), "sets the state of a call from a tuple"),
    ("a parameter of torch 0.3 of nothing", of(call("torch.nn.parameter", "Parameter")), "Parameter has 0 arguments"),
    ("a parameter of torch 0.3 with a state that is a dictionary",
     of(call("torch.nn.parameter", "Parameter", GOOD) + dict_of([("__class__", RAN)]) + b"b"), "sets the state of a call from a dictionary"),
    ("attributes of a class of somebody's", of(call("torch._tensor", "_rebuild_from_type_v2", name("torch._utils", "_rebuild_tensor_v2"),
                                                    name("os", "system"), tuple_of(RAN), b"}")), "tensor 'w' has the class os.system"),
    ("attributes of a class that is no tensor's", of(call("torch._tensor", "_rebuild_from_type_v2", name("torch._utils", "_rebuild_tensor_v2"),
                                                          name("torch", "FloatStorage"), tuple_of(RAN), b"}")), "has class FloatStorage"),
    ("attributes of what a text makes", of(call("torch._tensor", "_rebuild_from_type_v2", RAN, name("torch", "Tensor"), tuple_of(RAN), b"}")),
     "created from types string, global and tuple"),
    ("attributes of what torch.Size makes", of(call("torch._tensor", "_rebuild_from_type_v2", name("torch", "Size"), name("torch", "Tensor"),
                                                    tuple_of(RAN), b"}")), "created by torch's Size"),
    ("attributes of a tensor with attributes", of(call(
        "torch._tensor", "_rebuild_from_type_v2", name("torch._tensor", "_rebuild_from_type_v2"), name("torch", "Tensor"),
        tuple_of(name("torch._tensor", "_rebuild_from_type_v2"), name("torch", "Tensor"), tuple_of(RAN), b"}"), b"}")), "are set twice"),
    ("attributes of too little", of(call("torch._tensor", "_rebuild_from_type_v2", name("torch", "Size"))), "has 1 arguments"),
    ("a call of the class of tensors", of(call("torch", "Tensor", number(1))), "calls torch.Tensor"),
    ("a tensor under a tuple", b"}(" + tuple_of(number(1)) + GOOD + b"u", "the key of a tensor is a tuple"),
    ("a tensor under a large integer", b"}(" + number(1 << 80) + GOOD + b"u", "the key of a tensor is a number of more than 64 bits"),
    ("a tensor below None", b"}(N" + of(list_of(GOOD)) + b"u", "the key of a tensor is a None"),
    ("APPEND to a tuple", b")N" + b"a", "appends to a tuple"),
    ("APPENDS to a shared name", name("torch", "float32") + b"(Ne", "appends to a global"),
    ("SETITEMS of a list", b"](NNu", "sets items of a list"),
    ("a key without a value", b"}(Nu", "a key without a value"),
    ("a list as a key", b"}(]Nu", "dictionary key is a list"),
    ("a stack that is empty", b"0", "empty stack"),
    ("a value from below the mark", b"}(0", "empty stack"),
    ("a mark that was not set", b"t", "refers to a mark, but none is set"),
    ("a mark that is left", b"}(", "ends with 1 values"),
    ("two values at the end", b"}}", "ends with 2 values"),
    ("no value", b"", "ends with 0 values"),
    ("a number that was not memoized", b"h\x07", "reads memo entry 7"),
    ("the memo at 2^32", b"}r\xff\xff\xff\xff", "contents take more than"),
    ("values without end", b"]" * 4_500_000, "contents take more than"),
    ("tuples in tuples", b"N" + b"\x85" * 500_000, "expected a dictionary, found a tuple"),
    ("dictionaries in dictionaries", b"".join(b"}" + text("a") for _ in range(100_000)) + b"N" + b"s" * 100_000, "deeper than 64"),
    ("a list that holds itself", of(b"]q\x00h\x00a"), "deeper than 64"),
    ("lists that double", of(doubled(60)), "contents take more than"),
    ("dictionaries that double under an empty name", nameless(25), "has the key '' twice"),
    ("a tensor of bytes without a type", of(tensor(storage("0", 24, "UntypedStorage", "torch.storage"), [24], [1])), "a storage without a type"),
    ("a tensor whose dtype is a storage", rebuild_typed([6], name("torch", "FloatStorage")), "expected a dtype, found a global"),
    ("a pair of values without a size", rebuild_typed([], name("torch", "float4_e2m1fn_x2")), "is a scalar, but its dtype packs two values"),
    ("names that grow", text(b"k" * 1_000_000) + b"q\x000}q\x01(" + b"".join(number(i) + b"}(h\x00Nu" for i in range(120)) + b"u",
     "contents take more than"),
    ("arguments that are called again", of(tuple_of(*[b"N"] * 100_000) + b"q\x00" + (name("torch", "Size") + b"h\x00R0") * 30_000),
     "found no tensors"),
    ("one tensor four million times", of(GOOD + b"q\x000](" + b"h\x00" * 3_900_000 + b"e"), "contents take more than"),
    ("a text of 4 GiB", b"X\xff\xff\xff\xff", "expected 4294967295 bytes"),
    ("a text of 2^63 bytes", b"\x8d" + struct.pack("<Q", 1 << 63), "expected 9223372036854775808 bytes"),
    ("bytes of 2^64 - 1", b"\x8e" + b"\xff" * 8, "expected 18446744073709551615 bytes"),
    ("an integer of 2 GiB", b"\x8b\xff\xff\xff\x7f", "expected 2147483647 bytes"),
    ("a frame beyond the end", b"\x95" + struct.pack("<Q", 1 << 40), "a frame of"),
    ("a persistent id that is a string", rebuild(RAN + b"Q", b"K\x00", b")", b")", b"\x89", ORDERED), "does not name a storage"),
    ("a persistent id of a module", rebuild(tuple_of(text("module"), RAN, RAN, RAN, b"K\x00") + b"Q", b"K\x00", b")", b")", b"\x89", ORDERED),
     "does not name a storage"),
    ("a storage of a dtype", of(tensor(storage("0", 6, "float32"), [6], [1])), "names a float32, expected a storage"),
    ("a storage that is not there", of(tensor(storage("7", 6), [6], [1])), "no storage '7'"),
    ("a storage by a path", of(tensor(storage("../../../etc/passwd", 6), [6], [1])), "no storage '../../../etc/passwd'"),
    ("a storage said to be longer", of(tensor(storage("0", 7), [6], [1])), "has 24 bytes, expected 7 elements"),
    ("a storage said to be shorter", of(tensor(storage("0", 5), [5], [1])), "has 24 bytes, expected 5 elements"),
    ("a storage of another type", of(tensor(storage("0", 6, "DoubleStorage"), [6], [1])), "has 24 bytes, expected 6 elements"),
    ("a storage of -1 elements", of(tensor(storage("0", -1), [6], [1])), "negative size -1"),
    ("a storage of 2^62 + 6 elements", of(tensor(storage("0", (1 << 62) + 6), [6], [1])), "elements"),
    ("a storage of 2^200 elements", of(tensor(storage("0", 1 << 200), [6], [1])), "expected a size, found a integer"),
    ("a storage that is no tuple", rebuild(b"N", b"K\x00", b")", b")", b"\x89", ORDERED), "expected a storage, found a None"),
    ("a negative size", of(tensor(storage("0", 6), [-6], [1])), "negative size -6"),
    ("a negative stride", of(tensor(storage("0", 6), [6], [-1])), "negative size -1"),
    ("a negative offset", of(tensor(storage("0", 6), [6], [1], first=-1)), "negative size -1"),
    ("an offset beyond the storage", of(tensor(storage("0", 6), [1], [1], first=6)), "exceeds its storage"),
    ("an empty tensor far beyond the storage", of(tensor(storage("0", 6), [0], [1], first=7)), "exceeds its storage"),
    ("a size beyond the storage", of(tensor(storage("0", 6), [7], [1])), "exceeds its storage"),
    ("a stride beyond the storage", of(tensor(storage("0", 6), [2, 3], [4, 1])), "exceeds its storage"),
    ("a stride that overflows", of(tensor(storage("0", 6), [3], [1 << 63])), "expected a size, found a integer"),
    ("strides that overflow together", of(tensor(storage("0", 6), [5, 5], [1 << 62, 1 << 62])), "exceeds its storage"),
    ("sizes that overflow", of(tensor(storage("0", 6), [1 << 33, 1 << 33], [0, 0])), "number of elements overflows"),
    ("an offset that overflows", of(tensor(storage("0", 6), [2], [1], first=(1 << 63) - 1)), "exceeds its storage"),
    ("a tensor that fills the disk", of(tensor(storage("0", 6), [1 << 40], [0])), "(limit: 200 times the file)"),
    ("sizes without strides", of(tensor(storage("0", 6), [6], [])), "has 1 dimensions and 0 strides"),
    ("1000 dimensions", of(tensor(storage("0", 6), [1] * 1000, [1] * 1000)), "has 1000 dimensions"),
    ("a float as a size", rebuild(storage("0", 6), b"K\x00", tuple_of(b"G" + bytes(8)), tuple_of(b"K\x01"), b"\x89", ORDERED),
     "expected a size, found a float"),
    ("True as a size", rebuild(storage("0", 6), b"K\x00", tuple_of(b"\x88"), tuple_of(b"K\x01"), b"\x89", ORDERED),
     "expected a size, found a boolean"),
    ("too few arguments", rebuild(storage("0", 6), b"K\x00"), "has 2 arguments"),
    ("a tensor to be conjugated", of(tensor(storage("0", 6), [6], [1], more=dict_of([("conj", b"\x88")]))), "pending operations"),
    ("a parameter of a parameter", of(call("torch._utils", "_rebuild_parameter",
                                           call("torch._utils", "_rebuild_parameter", GOOD, b"\x88", ORDERED), b"\x88", ORDERED)),
     "parameter created from a parameter"),
    ("a parameter with a state and more", of(call("torch._utils", "_rebuild_parameter_with_state", GOOD, b"\x88", ORDERED, b"}", b"N")),
     "_rebuild_parameter has 5 arguments"),
    ("a parameter of nothing", of(call("torch._utils", "_rebuild_parameter")), "_rebuild_parameter has 0 arguments"),
    ("a parameter of a string", of(call("torch._utils", "_rebuild_parameter", RAN, b"\x88", ORDERED)), "created from a string"),
    ("two tensors of one name", dict_of([("w", GOOD), ("w", tensor(storage("1", 6), [6], [1]))]), "has the key 'w' twice"),
    ("two tensors of one name by ways of their own", dict_of([("a.b", GOOD), ("a", dict_of([("b", GOOD)]))]), "two tensors are named 'a.b'"),
    ("a state_dict that is a tensor", dict_of([("state_dict", GOOD)]), "state_dict: expected a dictionary, found a tensor"),
    ("a list", list_of(GOOD), "expected a dictionary, found a list"),
    ("no tensor", dict_of([("epoch", number(1))]), "found no tensors"),
]


# ---- archives ---------------------------------------------------------------------------------------------------------

BODY = of(GOOD)


def plain():
    return archive(BODY, {"0": b"\x01" * 24, "1": b"\x02" * 24})


def changed(content, old, new, count=-1):
    assert old in content, old
    return content.replace(old, new, count)


def directory_of(content):
    """Returns the offsets of the directory and of the end record."""
    end = content.rindex(b"PK\x05\x06")
    return struct.unpack_from("<I", content, end + 16)[0], end


def entry_at(content, called):
    at = content.rindex(called) - 46
    assert content[at : at + 4] == b"PK\x01\x02"
    return at


def with_field(content, called, offset, layout, value):
    """Changes a field of an entry of the directory."""
    content = bytearray(content)
    struct.pack_into(layout, content, entry_at(bytes(content), called) + offset, value)
    return bytes(content)


def with_local(content, called, offset, layout, value):
    """Changes a field of the local header of an entry."""
    content = bytearray(content)
    at = content.index(called) - 30
    assert content[at : at + 4] == b"PK\x03\x04"
    struct.pack_into(layout, content, at + offset, value)
    return bytes(content)


def with_both(content, called, offset, value):
    """Changes the packed size or, 4 bytes later, the size, in the directory and in the entry's local header."""
    return with_local(with_field(content, called, 20 + offset, "<I", value), called, 18 + offset, "<I", value)


def with_extra(content, called, extra):
    """Inserts an extra field after an entry's name in the directory."""
    at = entry_at(content, called) + 46 + len(called)
    content = with_field(content, called, 30, "<H", len(extra))
    content = content[:at] + extra + content[at:]
    return at_end(content, 12, "<I", directory_of(content)[1] - directory_of(content)[0])


def with_end64(content, here=None, parts=0, size=44, gap=b"", needed=True):
    """Puts a 64-bit end before the end, whose place of the directory is then full if that is needed."""
    begin, end = directory_of(content)
    entries, directory = struct.unpack_from("<HI", content, end + 10)
    record = struct.pack("<IQHHIIQQQQ", 0x06064B50, size, 45, 45, 0, 0, entries if here is None else here, entries, directory, begin)
    content = content[:end] + gap + record + struct.pack("<IIQI", 0x07064B50, parts, end + len(gap), 1) + content[end:]
    return at_end(content, 16, "<I", 0xFFFFFFFF) if needed else content


def at_end(content, offset, layout, value):
    content = bytearray(content)
    struct.pack_into(layout, content, directory_of(bytes(content))[1] + offset, value)
    return bytes(content)


def overlapping():
    """The bytes of the first storage contain a complete entry, which the directory refers to."""
    called = b"archive/data/1"
    inner = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0, zlib.crc32(DATA), 24, 24, len(called), 0) + called + DATA
    content = archive(of(tensor(storage("0", len(inner) // 4), [6], [1])), {"0": inner + bytes(-len(inner) % 4), "1": DATA})
    return with_field(content, called, 42, "<I", content.index(inner))


def twice():
    content = plain()
    return changed(content, b"archive/data/1", b"archive/data/0")


def bomb(announced):
    """A storage of zeros, packed a thousand times smaller, that declares a smaller size or its full size."""
    content = archive(of(tensor(storage("0", announced // 4), [announced // 4], [1])), {"0": bytes(100 << 20)},
                      compression=zipfile.ZIP_DEFLATED)
    return with_both(content, b"archive/data/0", 4, announced)


def unwritten_bomb():
    """A storage that unpacks to a hundred times the limit. Only two of its elements are written."""
    return archive(of(tensor(storage("0", 25 << 20), [2], [1000])), {"0": bytes(100 << 20)}, compression=zipfile.ZIP_DEFLATED)


def without_end_mark():
    """The directory does not count the last packed byte, which marks the end."""
    data = bytes(random.Random(1).choices(b"abcdefghijklmnop", k=4000))
    content = archive(of(tensor(storage("0", 1000), [1000], [1])), {"0": data}, zipfile.ZIP_DEFLATED)
    packed = struct.unpack_from("<I", content, entry_at(content, b"archive/data/0") + 20)[0] - 1
    return with_both(content, b"archive/data/0", 0, packed)


def zip64_local(data, size, packed):
    """An archive whose last local header has 64-bit sizes, two of which may be wrong. zipfile writes the right ones, but
    before Python 3.11.4 not the mark in the 32-bit sizes that makes them count."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr("archive/data.pkl", pickle(BODY))
        with target.open(zipfile.ZipInfo("archive/data/0"), "w", force_zip64=True) as entry:
            entry.write(data)
    right = struct.pack("<HHQQ", 1, 16, len(data), len(data))
    assert file.getvalue().count(right) == 1
    content = file.getvalue().replace(right, struct.pack("<HHQQ", 1, 16, size, packed))
    for field in (18, 22):
        content = with_local(content, b"archive/data/0", field, "<I", 0xFFFFFFFF)
    return content


def pickle_bomb():
    return archive(b"]" * (65 << 20), {}, compression=zipfile.ZIP_DEFLATED)


ARCHIVES = [
    ("entries that overlap", overlapping, "overlaps"),
    ("a name twice", twice, "occurs twice"),
    ("a bomb", lambda: bomb(100 << 20), "(limit: 200 times the file)"),
    ("a bomb that announces little", lambda: bomb(24), "unpacks to more than the expected 24 bytes"),
    ("a bomb that announces more", lambda: bomb(101 << 20), "(limit: 200 times the file)"),
    ("a bomb of which little is written", unwritten_bomb, "(limit: 200 times the file)"),
    ("packed bytes without their end", without_end_mark, "has no end"),
    ("a packed pickle of 65 MiB", pickle_bomb, "limit: 67108864"),
    ("the CRC of a storage", lambda: changed(plain(), b"\x01" * 24, b"\x01" * 23 + b"\x03"), "has CRC"),
    ("the CRC of the pickle", lambda: changed(plain(), text("w"), text("v")), "has CRC"),
    ("damaged packed bytes", lambda: (lambda c: c[:60] + bytes([c[60] ^ 0xFF]) + c[61:])(archive(BODY, {"0": DATA}, zipfile.ZIP_DEFLATED)), "zip: "),
    ("encrypted", lambda: with_field(plain(), b"archive/data/0", 8, "<H", 1), "is encrypted"),
    ("compression method 12", lambda: with_field(plain(), b"archive/data/0", 10, "<H", 12), "compression method 12"),
    ("two names for an entry", lambda: changed(plain(), b"archive/data/0", b"archive/data/9", 1), "in its local header"),
    ("an own header that says encrypted", lambda: with_local(plain(), b"archive/data/0", 6, "<H", 1), "in its local header"),
    ("an own header with another method", lambda: with_local(plain(), b"archive/data/0", 8, "<H", 12), "in its local header"),
    ("an own header with another CRC", lambda: with_local(plain(), b"archive/data/0", 14, "<I", 1), "in its local header"),
    ("an own header with another packed size", lambda: with_local(plain(), b"archive/data/0", 18, "<I", 20), "in its local header"),
    ("an own header with another size", lambda: with_local(plain(), b"archive/data/0", 22, "<I", 25), "in its local header"),
    ("an own 64-bit header with another size", lambda: zip64_local(DATA, len(DATA) + 1, len(DATA)), "in its local header"),
    ("an own 64-bit header with another packed size", lambda: zip64_local(DATA, len(DATA), len(DATA) + 1), "in its local header"),
    ("an own header of 4 GiB without 64-bit sizes", lambda: with_local(plain(), b"archive/data/0", 22, "<I", 0xFFFFFFFF), "in its local header"),
    ("an own header with wrong sizes that says they follow",
     lambda: with_local(with_local(plain(), b"archive/data/0", 6, "<H", 8), b"archive/data/0", 22, "<I", 25), "in its local header"),
    ("an entry behind the directory", lambda: with_field(plain(), b"archive/data/0", 42, "<I", 1 << 30), "is not before the directory"),
    ("an entry whose header is cut off", lambda: with_field(plain(), b"archive/data/0", 42, "<I", directory_of(plain())[0] - 29),
     "is not before the directory"),
    ("an extra field beyond its room", lambda: with_extra(plain(), b"archive/data/0", struct.pack("<HH", 7, 1)), "extra field is too long"),
    ("an entry that is no entry", lambda: with_local(plain(), b"archive/data/0", 0, "<I", 7), "has no local header here"),
    ("an entry beyond the directory", lambda: with_both(with_both(plain(), b"archive/data/1", 0, 1 << 20), b"archive/data/1", 4, 1 << 20),
     "are left"),
    ("sizes that differ", lambda: with_field(plain(), b"archive/data/0", 20, "<I", 20), "sizes 20 and 24"),
    ("a directory behind the end", lambda: at_end(plain(), 16, "<I", 1 << 30), "overlaps the end record"),
    ("a directory at another place", lambda: at_end(plain(), 16, "<I", 0), "zip: "),
    ("fewer entries than said", lambda: at_end(at_end(plain(), 8, "<H", 9), 10, "<H", 9), "bytes, 0 left"),
    ("more entries than said", lambda: at_end(at_end(plain(), 8, "<H", 2), 10, "<H", 2), "bytes after the last directory entry"),
    ("multi-part", lambda: at_end(plain(), 8, "<H", 1), "multi-part"),
    ("another part", lambda: at_end(plain(), 4, "<H", 1), "multi-part"),
    ("a directory in another part", lambda: at_end(plain(), 6, "<H", 1), "multi-part"),
    ("several parts in the 64-bit end", lambda: with_end64(plain(), here=2), "multi-part"),
    ("a 64-bit end of another size", lambda: with_end64(plain(), size=45), "a wrong size"),
    ("bytes before the 64-bit end", lambda: with_end64(plain(), gap=b"gap"), "3 bytes between"),
    ("bytes before the end", lambda: plain()[:-22] + b"gap" + plain()[-22:], "3 bytes between"),
    ("bytes behind the end", lambda: plain() + b"x", "no end record"),
    ("a comment with more behind it", lambda: at_end(plain(), 20, "<H", 1) + b"xy", "no end record"),
    ("a 64-bit end that is not there", lambda: at_end(plain(), 16, "<I", 0xFFFFFFFF), "64-bit end record"),
    ("no end", lambda: plain()[:-22], "no end record"),
    ("half of it", lambda: plain()[: len(plain()) // 2], "no end record"),
    ("a start alone", lambda: plain()[:30], "no end record"),
    ("big-endian numbers", lambda: archive(BODY, {"0": DATA}, entries={"archive/byteorder": "big"}), "unsupported byte order 'big'"),
    ("a program of TorchScript", lambda: archive(BODY, {"0": DATA}, entries={"archive/constants.pkl": pickle(b")")}), "TorchScript"),
    ("two pickles", lambda: archive(BODY, {"0": DATA}, entries={"other/data.pkl": pickle(call("os", "system", RAN))}), "two pickles"),
    ("an archive of other things", lambda: changed(plain(), b"data.pkl", b"data.txt"), "not written by torch or numpy"),
    ("bytes behind the pickle", lambda: archive(BODY + b".", {"0": DATA}), "bytes after the pickle"),
    ("protocol 0", lambda: changed_pickle(b"cos\nsystem\n(S'touch CANARY'\ntR."), "opcode STRING"),
    ("protocol 1", lambda: changed_pickle(b"\x80\x01}."), "unsupported pickle protocol 1"),
    ("protocol 6", lambda: changed_pickle(b"\x80\x06}."), "unsupported pickle protocol 6"),
    ("an empty pickle", lambda: changed_pickle(b""), "bytes, 0 left"),
    ("a pickle without its end", lambda: changed_pickle(b"\x80\x02}"), "bytes, 0 left"),
    ("an array with a hostile pickle", lambda: archive(BODY, {"0": npy("|O", (1,), pickle(call("os", "system", RAN)))}), "has 1"),
]


def changed_pickle(content):
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w") as target:
            target.writestr("archive/data.pkl", content)
        file.seek(0)
        return file.read()


# ---- the older form -----------------------------------------------------------------------------------------------------

def keys(*names):
    return pickle(list_of(*map(text, names)))


STACKED = [
    ("another magic number", stacked(BODY, {"0": DATA}, magic=pickle(number((1 << 77) + 1))), "not from torch.save"),
    ("a name instead of the magic number", stacked(BODY, {"0": DATA}, magic=pickle(call("os", "system", RAN))), "not from torch.save"),
    ("another version", stacked(BODY, {"0": DATA}, version=pickle(number(1002))), "supported: 1001"),
    ("a name among the facts", stacked(BODY, {"0": DATA}, machine=pickle(call("os", "system", RAN))), "dictionary describing the machine, found a Python object"),
    ("even a torch name there", stacked(BODY, {"0": DATA}, machine=pickle(ORDERED)), "dictionary describing the machine, found a Python object"),
    ("big-endian", stacked(BODY, {"0": DATA}, machine=pickle(dict_of([("little_endian", b"\x89")]))), "unsupported byte order 'big'"),
    ("os.system in the state dict", stacked(of(call("os", "system", RAN)), {}, keys=keys()), "among them os.system"),
    ("a name among the keys", stacked(BODY, {"0": DATA}, keys=pickle(call("os", "system", RAN))), "expected a list of storage keys, found a Python object"),
    ("keys that are no list", stacked(BODY, {"0": DATA}, keys=pickle(b"}")), "expected a list of storage keys"),
    ("no keys", stacked(BODY, {}, keys=keys()), "no storage '0'"),
    ("duplicate or reserved key", stacked(BODY, {"0": DATA}, keys=keys("0", "0")), "occurs twice"),
    ("an unknown key", stacked(BODY, {"0": DATA}, keys=keys("0", "1")), "that no tensor uses"),
    ("a storage that announces less", stacked(BODY, {"0": DATA[:20]}), "has 5 elements, expected 6"),
    ("a storage that announces 2^64 - 1", stacked(BODY, {})[:-1 - len(list_of()) - 2] + keys("0") + b"\xff" * 8, "18446744073709551615 elements"),
    ("half a storage", stacked(BODY, {"0": DATA})[:-1], "but 23 are left"),
    ("bytes behind the storages", stacked(BODY, {"0": DATA}) + b"\0", "after the last storage"),
    ("a part of another storage", stacked(of(tensor(storage("0", 6, more=tuple_of(text("1"), b"K\0", b"K\6")), [6], [1])), {"0": DATA}),
     "is part of another"),
    ("a storage with two sizes", stacked(dict_of([("a", GOOD), ("b", tensor(storage("0", 5), [5], [1]))]), {"0": DATA}),
     "has two sizes, 24 and 20 bytes"),
    ("a storage with a long key", stacked(of(tensor(storage("0" * 1025, 6), [6], [1])), {"0" * 1025: DATA}), "storage key of 1025 bytes"),
    ("no end", stacked(BODY, {"0": DATA})[:150], "unexpected end"),
    ("a pickle of something else", pickle(dict_of([("a", number(1))])), "not from torch.save"),
]


# ---- arrays and GGUF -----------------------------------------------------------------------------------------------------

def header(text_of_it):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text_of_it)) + text_of_it.encode()


def pair(key, kind, value):
    return gguf_text(key) + struct.pack("<I", kind) + value


OTHERS = [
    ("npy: Python objects", npy("|O", (1,), pickle(call("os", "system", RAN))), "Python objects"),
    ("npy: records", header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }") + bytes(4), "records"),
    ("npy: code as a header", header("__import__('os').system('touch CANARY')"), "numpy header"),
    ("npy: code as a shape", header("{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os'),), }"), "numpy header"),
    ("npy: a key twice", header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (), }"), "duplicate key"),
    ("npy: a key too few", header("{'descr': '<f4', 'shape': (), }") + bytes(4), "incomplete"),
    ("npy: a negative size", header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), "expected a size"),
    ("npy: a size of 2^64", header("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,), }"), "expected a size"),
    ("npy: sizes that overflow", npy("<f4", (1 << 33, 1 << 33), bytes(8)), "number of elements overflows"),
    ("npy: more than there is", npy("<f4", (7,), DATA), "exceeds its storage"),
    ("npy: less than there is", npy("<f4", (5,), DATA), "its header expects 20"),
    ("npy: a header of 4 GiB", b"\x93NUMPY\x02\x00" + b"\xff" * 4, "limit: 1048576"),
    ("npy: version 9", b"\x93NUMPY\x09\x00" + bytes(64), "version 9"),
    ("npy: no header", b"\x93NUMPY\x01\x00", "incomplete"),
    ("gguf: 2^64 - 1 tensors", b"GGUF" + struct.pack("<IQQ", 3, (1 << 64) - 1, 0), "tensors and"),
    ("gguf: a name of 2^63 bytes", b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1 << 63), "unexpected end: expected"),
    ("gguf: an array of 2^62 texts", gguf(([], b""), [pair("a", 9, struct.pack("<IQ", 8, 1 << 62))]), "unexpected end: expected"),
    ("gguf: an array of 2^62 numbers", gguf(([], b""), [pair("a", 9, struct.pack("<IQ", 10, 1 << 62))]), "array of 4611686018427387904 values"),
    ("gguf: an array of arrays", gguf(([], b""), [pair("a", 9, struct.pack("<IQ", 9, 1))]), "array type 9"),
    ("gguf: a value of type 99", gguf(([], b""), [pair("a", 99, b"")]), "value type 99"),
    ("gguf: a key twice", gguf(([], b""), [pair("a", 7, b"\1")] * 2), "duplicate or reserved key"),
    ("gguf: an alignment of 3", gguf(([], b""), [pair("general.alignment", 4, struct.pack("<I", 3))]), "alignment 3"),
    ("gguf: a tensor beyond the end", gguf(([("w", [7], 0, 0)], DATA)), "exceeds its storage"),
    ("gguf: a tensor that begins beyond the end", gguf(([("w", [1], 0, 1 << 60)], DATA)), "after the end"),
    ("gguf: sizes that overflow", gguf(([("w", [1 << 40, 1 << 40], 0, 0)], DATA)), "number of elements overflows"),
    ("gguf: 9 dimensions", gguf(([("w", [1] * 9, 0, 0)], DATA)), "9 dimensions"),
    ("gguf: version 1", gguf(([], b""), version=1), "version 1 "),
    ("gguf: version 3 in big-endian", b"GGUF" + struct.pack(">I", 3) + bytes(16), "unsupported byte order 'big'"),
    ("gguf: half a header", gguf(([("w", [6], 0, 0)], DATA))[:40], "unexpected end"),
    ("gguf: one tensor many times", gguf(([(f"w{i}", [1 << 18], 0, 0) for i in range(2000)], bytes(1 << 20))), "(limit: 200 times the file)"),
]


class Hostile(unittest.TestCase):
    """Each case runs the command in its own folder, with a memory limit."""

    def limit_memory(self):
        if not SANITIZED:  # a sanitizer wants terabytes of addresses
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def refuse(self, content, words):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_hostile_"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "evil.pt").write_bytes(content)
        result = subprocess.run([COMMAND, "convert", "evil.pt", "out.safetensors"], cwd=folder, capture_output=True, timeout=60,
                                stdin=subprocess.DEVNULL, preexec_fn=self.limit_memory, check=False)
        line = result.stderr.decode()
        self.assertIn(result.returncode, (1, 2), line)
        self.assertRegex(line, r"\Asafetensors: [^\n]+\n\Z")
        self.assertIn(words, line)
        self.assertEqual(os.listdir(folder), ["evil.pt"], "something was written, or run")
        shutil.rmtree(folder)

    def check(self, cases):
        for called, content, words in cases:
            with self.subTest(called):
                self.refuse(content, words)

    def test_the_canary_sings(self):
        """The payload works: Python's pickle module runs it."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["python3", "-c", "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"], cwd=folder, check=True,
                           input=pickle(call("os", "system", RAN)))
            self.assertEqual(os.listdir(folder), ["CANARY"])

    @unittest.skipUnless(READS_ZIP, "the command was built without ST_ZIP")
    def test_pickles_in_archives(self):
        self.check((called, archive(body, {"0": DATA, "1": DATA}), words) for called, body, words in PICKLES)

    def test_pickles_in_the_older_form(self):
        for called, body, words in PICKLES:
            if "which is no" in words or words.startswith(("among them", "opcode", "calls")):
                with self.subTest(called):
                    self.refuse(stacked(body, {}, keys=keys()), words)

    def test_the_older_form(self):
        self.check(STACKED)

    @unittest.skipUnless(READS_ZIP, "the command was built without ST_ZIP")
    def test_archives(self):
        self.check((called, make(), words) for called, make, words in ARCHIVES)

    def test_arrays_and_gguf(self):
        self.check(OTHERS)

    def test_every_truncation(self):
        """A checkpoint truncated at any byte is rejected, or not recognized as one."""
        for content in (archive(BODY, {"0": DATA}), stacked(BODY, {"0": DATA}), npy("<f4", (6,), DATA), gguf(([("w", [6], 0, 0)], DATA))):
            for length in range(0, len(content), 7):
                with self.subTest(length=length, start=content[:4]):
                    self.refuse(content[:length], "evil.pt")


def repeated(value, times):
    """A list that contains one value many times."""
    return b"](" + value + b"q\x00" + b"h\x00" * times + b"e"


def many(item, times):
    return b"](" + item * times + b"e"


# Pickles that a zip compresses to a few kB. Without a budget, each takes 270 MB to 5.7 GB.
GROWING = [
    ("one tensor a million times", of(repeated(GOOD, 990_000))),
    ("one tensor of 128 dimensions a million times", of(repeated(tensor(storage("0", 6), [1] * 128, [1] * 128), 900_000))),
    ("a long key before each tensor", dict_of([("k" * 400, repeated(GOOD, 240_000))])),
    ("a name of 1 MB that replaces 2,000 others",
     b"}(" + text("a" * 1_000_000) + GOOD + b"q\x00" + b"".join(text(f"b{i}") + b"h\x00" for i in range(2000)) + b"u"),
    ("numbers", of(many(b"K\x01", 3_900_000))),
    ("texts", of(many(b"U\x01a", 3_900_000))),
    ("tuples", of(many(b"K\x01\x85", 1_900_000))),
    ("lists", b"]" * 3_900_000),
    ("marks", b"(" * 20_000_000),
    ("a stack", b"}q\x00" + b"h\x00" * 10_000_000),
    ("classes", of(many(b"ca\nb\n", 3_000_000))),
    ("one key in dictionaries of dictionaries", text("a" * 8_000_000) + b"q\x000" + b"}h\x00" * 13 + GOOD + b"s" * 13),
    ("objects", name("a", "b") + b"q\x000" + of(many(b"h\x00)R", 1_500_000))),
]


@unittest.skipUnless(READS_ZIP, "the command was built without ST_ZIP")
class Memory(unittest.TestCase):
    MOST = 200 << 20

    @unittest.skipIf(SANITIZED, "a sanitizer takes more")
    def test_small_files_take_little_memory(self):
        for called, body in GROWING:
            with self.subTest(called), tempfile.TemporaryDirectory(prefix="safetensors_memory_") as folder:
                path = pathlib.Path(folder, "evil.pt")
                path.write_bytes(archive(body, {"0": DATA}, zipfile.ZIP_DEFLATED))
                self.assertLess(path.stat().st_size, 30_000)
                result = subprocess.run([COMMAND, "convert", "evil.pt", "out.safetensors"], cwd=folder, stdin=subprocess.DEVNULL,
                                        capture_output=True, timeout=60, check=False,
                                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (self.MOST, self.MOST)))
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(b"contents take more than", result.stderr)
                self.assertEqual(os.listdir(folder), ["evil.pt"])


if __name__ == "__main__":
    unittest.main()
