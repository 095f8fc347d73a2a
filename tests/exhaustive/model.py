"""What a reader must say of a safetensors file: a model of docs/format.md in Python, which shares no code with the library.

verdict() returns the tensors of a file that a reader must accept, and else the class of the first violation: the number
of the check in section 1.1 that rejects it. All faults of the header's text have one class, TEXT, since what is wrong
with a text can often be said in more than one way.

slice_of() says what a slice is: the indices of the elements, in order.
SPDX-License-Identifier: Apache-2.0
"""
import json
import re

TOO_SMALL, TOO_LARGE, TOO_SHORT, TEXT, OFFSETS, OVERFLOW, MISALIGNED, TENSOR_SIZE, COVERAGE = range(1, 10)
DEFAULT, STRICT, REFERENCE = range(3)

MOST_HEADER = 100_000_000
MOST_DEPTH = 127
MOST = 2**64 - 1
SPACE = " \t\n\r"
BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
        "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
        "C64": 64, "F64": 64, "I64": 64, "U64": 64}


class Rejected(Exception):
    """Its argument is the class."""


def require(condition, kind=TEXT):
    if not condition:
        raise Rejected(kind)


# ---- JSON: Python's parser takes what RFC 8259 describes, and some things more --------------------------------------

class Pairs(list):
    """An object: its members in order, the repeated ones too."""


class Digits(str):
    """An integer as it is spelled."""


def real(text):
    require(abs(float(text)) != float("inf"))
    return float(text)


def no_constant(text):
    raise Rejected(TEXT)  # NaN, Infinity and -Infinity


DECODER = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=Digits, parse_float=real, parse_constant=no_constant)
STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


def depth(text):
    most = now = 0
    for char in STRINGS.sub("", text):
        now += (char in "{[") - (char in "}]")
        most = max(most, now)
    return most


def parsed(text):
    try:
        value = DECODER.decode(text)
        text.encode()
        if "\\" in text:
            json.dumps(value, ensure_ascii=False).encode()  # no lone surrogate
    except (ValueError, RecursionError):
        raise Rejected(TEXT) from None
    require(text.count("{") + text.count("[") <= MOST_DEPTH or depth(text) <= MOST_DEPTH)
    return value


# ---- the header's text: section 1.2 and, for each mode, 1.3 ---------------------------------------------------------

def number(value):
    require(isinstance(value, Digits) and value[0] != "-")
    require(len(value) <= 20 and int(value) <= MOST)
    return int(value)


def array(value):
    require(type(value) is list)
    return value


def string(value):
    require(type(value) is str)
    return value


def dtype(value, mode):
    if mode == REFERENCE and isinstance(value, Pairs):
        require(len(value) == 1 and value[0][1] is None)
        value = value[0][0]
    require(string(value) in BITS)
    return value


def entry(value, mode):
    if mode == REFERENCE and type(value) is list:
        require(len(value) == 3)
        value = Pairs(zip(("dtype", "shape", "data_offsets"), value))
    require(isinstance(value, Pairs))
    fields = [pair for pair in value if pair[0] in ("dtype", "shape", "data_offsets")]
    known = dict(fields)
    require(len(fields) == 3 and len(known) == 3)
    offsets = array(known["data_offsets"])
    require(len(offsets) == 2)
    return (dtype(known["dtype"], mode), tuple(number(size) for size in array(known["shape"])), *map(number, offsets))


def metadata(value, mode):
    if value is None and mode != STRICT:
        return
    require(isinstance(value, Pairs))
    for _, text in value:
        string(text)
    require(mode == REFERENCE or len({key for key, _ in value}) == len(value))


def header(text, mode):
    """The tensors by name: (dtype, shape, begin, end)."""
    require(mode != STRICT or text.startswith("{"))
    members = parsed(text)
    require(isinstance(members, Pairs))
    tensors = {}
    for name, value in members:
        if name == "__metadata__":
            metadata(value, mode)
        else:
            described = entry(value, mode)
            require(mode == REFERENCE or name not in tensors)
            tensors[name] = described
    require(sum(name == "__metadata__" for name, _ in members) <= 1)
    return tensors


# ---- the file: section 1.1 ------------------------------------------------------------------------------------------

def bits_of(kind, shape):
    product = 1
    for size in shape:
        product *= size
        require(product <= MOST, OVERFLOW)
    require(product * BITS[kind] <= MOST, OVERFLOW)
    return product * BITS[kind]


def contents(file, mode):
    require(len(file) >= 8, TOO_SMALL)
    length = int.from_bytes(file[:8], "little")
    require(length <= MOST_HEADER, TOO_LARGE)
    require(8 + length <= len(file), TOO_SHORT)
    try:
        text = file[8:8 + length].decode()
    except UnicodeDecodeError:
        raise Rejected(TEXT) from None
    rows = sorted((begin, end, name, kind, shape) for name, (kind, shape, begin, end) in header(text, mode).items())
    last = 0
    for begin, end, _, kind, shape in rows:
        require(begin == last and end >= begin, OFFSETS)
        bits = bits_of(kind, shape)
        require(bits % 8 == 0, MISALIGNED)
        require(end - begin == bits // 8, TENSOR_SIZE)
        last = end
    require(8 + length + last == len(file), COVERAGE)
    return [(name, kind, shape, 8 + length + begin, end - begin) for begin, end, name, kind, shape in rows]


def verdict(file, mode):
    """The tensors in the order of their data, as (name, dtype, shape, offset in the file, bytes), or the class."""
    try:
        return contents(file, mode)
    except Rejected as rejected:
        return rejected.args[0]


# ---- slices: section 1.6, Python's rules -----------------------------------------------------------------------------

def slice_of(shape, begins, ends, steps):
    """The indices of a slice's elements in the flat tensor, in order."""
    flat = [0]
    for size, begin, end, step in zip(shape, begins, ends, steps):
        flat = [size * index + at for index in flat for at in range(*slice(begin, end, step).indices(size))]
    return flat
