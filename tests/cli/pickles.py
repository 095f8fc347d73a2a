"""Builds pickles, archives and checkpoints byte by byte, so tests of `convert` need no torch, and files can be wrong.

SPDX-License-Identifier: Apache-2.0
"""
import io
import struct
import zipfile

STOP = b"."
NONE = b"N"


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value):
    """LONG1, for any size."""
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def tuple_of(*items):
    return b"(" + b"".join(items) + b"t"


def list_of(*items):
    return b"](" + b"".join(items) + b"e"


def dict_of(pairs):
    return b"}(" + b"".join(text(key) + value for key, value in pairs) + b"u"


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def call(module, attribute, *arguments):
    return name(module, attribute) + tuple_of(*arguments) + b"R"


def pickle(body, protocol=2):
    return (b"\x80" + bytes([protocol]) if protocol > 1 else b"") + body + STOP


ORDERED = call("collections", "OrderedDict")


def storage(key, elements, kind="FloatStorage", module="torch", more=b""):
    return tuple_of(text("storage"), name(module, kind), text(key), text("cpu"), number(elements), more) + b"Q"


def tensor(source, size, stride, first=0, more=b""):
    return call("torch._utils", "_rebuild_tensor_v2", source, number(first), tuple_of(*map(number, size)),
                tuple_of(*map(number, stride)), b"\x89", ORDERED, more)


def archive(body, storages=(), compression=zipfile.ZIP_STORED, entries=(), protocol=2):
    """What torch.save writes: body is the pickle's without its head and its STOP."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as target:
        target.writestr("archive/data.pkl", pickle(body, protocol))
        for key, data in dict(storages).items():
            target.writestr(f"archive/data/{key}", data)
        for entry, data in dict(entries).items():
            target.writestr(entry, data)
    return file.getvalue()


MAGIC = pickle(number(0x1950A86A20F9469CFC6C))
VERSION = pickle(number(1001))
MACHINE = pickle(dict_of([("protocol_version", number(1001)), ("little_endian", b"\x88")]))


def stacked(body, storages, item=4, magic=MAGIC, version=VERSION, machine=MACHINE, keys=None, protocol=2):
    """What torch.save wrote before 1.6. storages: key to bytes."""
    keys = pickle(list_of(*map(text, storages))) if keys is None else keys
    raw = b"".join(struct.pack("<Q", len(data) // item) + data for data in storages.values())
    return magic + version + machine + pickle(body, protocol) + keys + raw


def npy(descr, shape, data, fortran=False, version=1):
    header = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def gguf_text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(tensors, pairs=(), version=3, alignment=32):
    """tensors: name, dimensions with the fastest first, type, offset; and all of the data."""
    infos, data = tensors
    head = b"GGUF" + struct.pack("<IQQ", version, len(infos), len(pairs)) + b"".join(pairs)
    for called, dimensions, kind, offset in infos:
        head += gguf_text(called) + struct.pack("<I", len(dimensions))
        head += b"".join(struct.pack("<Q", size) for size in dimensions) + struct.pack("<IQ", kind, offset)
    return head + b"\0" * (-len(head) % alignment) + data
