"""st_convert against ml_dtypes and numpy, bit by bit: every pattern of 8 and 16 bits, and random floats, from each dtype to
each; and against torch, where it is installed, from the dtypes that it has to those. Also every pattern of F4 and F6, and
st_convert_scaled with every pair of a value and a scale.

NaN is compared as NaN, and by its sign, since each package keeps or drops its other bits in its own way. What torch does
otherwise than ml_dtypes is in differs_in_torch(), and everything else is a fault.

    convert.py                         (ST_CONVERT_FLOATS=100000000 for more random floats)
    convert.py --record | --recorded   (support/recorded.py; ml_dtypes is the reference)

SPDX-License-Identifier: Apache-2.0
"""
import array
import ctypes as c
import os
import random
import struct
import sys
import time

from support import library_path, skip
from support.recorded import Recorded, Recorder, digest, mode

try:
    import ml_dtypes
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None

BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8}
PACKAGE_NAMES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
                 "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}
PACKED = {"F4": (4, "float4_e2m1fn"), "F6_E2M3": (6, "float6_e2m3fn"), "F6_E3M2": (6, "float6_e3m2fn")}
# (dtype, that of the scales, global scale): MX and NVFP4
SCALED = [*((source, "F8_E8M0", None) for source in (*PACKED, "F8_E4M3", "F8_E5M2")), ("F4", "F8_E4M3", 0.3)]
SCALED_TARGETS = ("F32", "F16", "BF16")
CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}
# (bits of exponent, bits of mantissa, whether all ones of the exponent are infinity and NaN, the only NaN or None)
LAYOUTS = {"F64": (11, 52, True, None), "F32": (8, 23, True, None), "F16": (5, 10, True, None), "BF16": (8, 7, True, None),
           "F8_E4M3": (4, 3, False, None), "F8_E5M2": (5, 2, True, None), "F8_E8M0": (8, 0, False, 0xFF),
           "F8_E4M3FNUZ": (4, 3, False, 0x80), "F8_E5M2FNUZ": (5, 2, False, 0x80)}
FLOATS = int(os.environ.get("ST_CONVERT_FLOATS", "2000000"))
RECORDED_FLOATS = 20000
BLOCK = 10_000_000

st = c.CDLL(library_path())
st.st_convert.restype = c.c_int32
st.st_convert.argtypes = [c.c_int32, c.c_void_p, c.c_int32, c.c_void_p, c.c_size_t, c.c_void_p]
st.st_convert_scaled.restype = c.c_int32
st.st_convert_scaled.argtypes = [c.c_int32, c.c_void_p, c.c_int32, c.c_void_p, c.c_size_t, c.c_void_p, c.c_int32, c.c_void_p,
                                 c.c_size_t, c.c_void_p]
st.st_dtype_from_name.restype = c.c_int32
st.st_dtype_from_name.argtypes = [c.c_char_p, c.c_size_t]
NUMBERS = {name: st.st_dtype_from_name(name.encode(), len(name)) for name in (*BITS, *PACKED)}


def ours(source, source_dtype, target_dtype, count, target):
    status = st.st_convert(NUMBERS[source_dtype], source, NUMBERS[target_dtype], target, count, None)
    assert status == 0, f"{source_dtype} to {target_dtype}: {status}"


def codes_of(source):
    """Every code, one in each byte."""
    return bytes(range(2 ** (PACKED[source][0] if source in PACKED else BITS[source])))


def elements(codes, source):
    """Codes as in a file: the first one has the lowest bits."""
    if source not in PACKED:
        return codes
    bits = PACKED[source][0]
    stream = sum(code << bits * i for i, code in enumerate(codes))
    return stream.to_bytes((len(codes) * bits + 7) // 8, "little")


def ours_packed(source, target):
    codes = codes_of(source)
    found = c.create_string_buffer(len(codes) * BITS[target] // 8)
    ours(elements(codes, source), source, target, len(codes), found)
    return found.raw


def ours_scaled(source, scale_dtype, global_scale, target):
    """Each code times each of the 256 scales: a block has every code."""
    codes = codes_of(source)
    found = c.create_string_buffer(256 * len(codes) * BITS[target] // 8)
    status = st.st_convert_scaled(NUMBERS[source], elements(codes * 256, source), NUMBERS[scale_dtype], bytes(range(256)), len(codes),
                                  None if global_scale is None else struct.pack("<f", global_scale), NUMBERS[target], found,
                                  256 * len(codes), None)
    assert status == 0, f"{source} scaled by {scale_dtype} to {target}: {status}"
    return found.raw


# ---- with ml_dtypes, numpy and torch ------------------------------------------------------------------------------------

def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, PACKAGE_NAMES[name]) if name in PACKAGE_NAMES else f"f{BITS[name] // 8}")


def unsigned(values):
    return values.view(f"u{values.dtype.itemsize}")


def from_ml_dtypes(values, target):
    try:
        return values.astype(numpy_dtype(target))
    except TypeError:  # it has no loop for two of its own dtypes, of which F32 has every value
        return values.astype(np.float32).astype(numpy_dtype(target))


def is_nan(bits, dtype):
    return np.isnan(bits.view(numpy_dtype(dtype)).astype(np.float32))


def faults_of(found, expected, dtype, values, what):
    """NaN on both sides is equal here: its sign is compared by same_signs_of_nan()."""
    differ = found != expected
    if not differ.any():
        return []
    differ &= ~(is_nan(found, dtype) & is_nan(expected, dtype))
    at = np.flatnonzero(differ)[:3]
    return [f"{what}: {differ.sum()} of {differ.size} differ, 0x{unsigned(values)[i]:x} is 0x{found[i]:x} and not "
            f"0x{expected[i]:x}" for i in at]


def same_signs_of_nan(found, expected, dtype, what):
    if LAYOUTS[dtype][3] is not None:
        return []
    top = found.dtype.type(1 << (BITS[dtype] - 1))
    wrong = is_nan(expected, dtype) & ((found & top) != (expected & top))
    return [f"{what}: {wrong.sum()} NaN have another sign"] if wrong.any() else []


def faults_beside_ml_dtypes(values, source, target):
    found = np.empty(values.size, unsigned(np.empty(0, numpy_dtype(target))).dtype)
    ours(values.ctypes.data, source, target, values.size, found.ctypes.data)
    expected = unsigned(from_ml_dtypes(values, target))
    what = f"{source} to {target}, ml_dtypes"
    return faults_of(found, expected, target, values, what) + same_signs_of_nan(found, expected, target, what), found


def packed_cases():
    yield from ((source, target) for source in PACKED for target in BITS)
    yield from ((*scaled, target) for scaled in SCALED for target in SCALED_TARGETS)


def found_of(case):
    return ours_scaled(*case) if len(case) == 4 else ours_packed(*case)


def floats_of(case):
    """The values before they are converted to the target, by ml_dtypes and numpy."""
    codes = np.frombuffer(codes_of(case[0]), np.uint8)
    dtype = np.dtype(getattr(ml_dtypes, PACKED[case[0]][1])) if case[0] in PACKED else numpy_dtype(case[0])
    values = codes.view(dtype).astype(np.float32)
    if len(case) == 2:
        return values
    scales = every_pattern(case[1]).astype(np.float32)
    if case[2] is not None:
        scales = scales * np.float32(case[2])
    return np.outer(scales, values).astype(np.float32).ravel()


def torch_dtype(name):
    return getattr(torch, PACKAGE_NAMES.get(name, f"float{BITS[name]}"))


def differs_in_torch(values, source, target, expected):
    """Which values torch converts in another way."""
    different = np.zeros(values.size, bool)
    if target == "F8_E8M0" and source != "F8_E8M0":  # it drops the sign, and has a power of two for zero
        floats = values.astype(np.float32)
        different |= np.signbit(floats) | (floats == 0)
    if target == "F8_E4M3":  # it has 448 for what is too large, as of version 2.15
        different |= (expected & 0x7F == 0x7E) & ~np.isnan(values.astype(np.float32))
    if source == "F64":  # it rounds to F32 first, whatever the target
        once, twice = from_ml_dtypes(values, target), from_ml_dtypes(values.astype(np.float32), target)
        different |= unsigned(once) != unsigned(twice)
    return different


def faults_beside_torch(values, source, target, found):
    given = torch.from_numpy(unsigned(values).view(f"i{values.itemsize}") if source not in ("F64", "F32", "F16") else values)
    expected = given.view(torch_dtype(source)).to(torch_dtype(target))
    expected = expected.view(getattr(torch, f"int{BITS[target]}")).numpy().view(found.dtype)
    expected = np.where(differs_in_torch(values, source, target, expected), found, expected)
    return faults_of(found, expected, target, values, f"{source} to {target}, torch")


def random_floats(count, seed, dtype):
    """Half of them any bits, half of them numbers of a size that the small dtypes have."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**BITS[dtype], count // 2, dtype=f"u{BITS[dtype] // 8}").view(numpy_dtype(dtype))
    sizes = 2.0 ** rng.integers(-24, 18, count - count // 2)
    return np.concatenate([bits, (rng.standard_normal(sizes.size) * sizes).astype(numpy_dtype(dtype))])


def every_pattern(dtype):
    return np.arange(2**BITS[dtype], dtype=f"u{BITS[dtype] // 8}").view(numpy_dtype(dtype))


def compare():
    faults, compared = [], 0
    for source in BITS:
        blocks = [every_pattern(source)] if BITS[source] <= 16 else \
            (random_floats(min(BLOCK, FLOATS - at), at, source) for at in range(0, FLOATS, BLOCK))
        for values in blocks:
            for target in BITS:
                found_faults, found = faults_beside_ml_dtypes(values, source, target)
                faults += found_faults
                if torch:
                    faults += faults_beside_torch(values, source, target, found)
                compared += values.size
    for case in packed_cases():
        target, found = case[-1], found_of(case)
        found = np.frombuffer(found, unsigned(np.empty(0, numpy_dtype(target))).dtype)
        faults += faults_of(found, unsigned(floats_of(case).astype(numpy_dtype(target))), target, floats_of(case), str(case))
        compared += found.size
    print(f"{compared} values compared with ml_dtypes {ml_dtypes.__version__}, numpy {np.__version__}"
          + (f" and torch {torch.__version__}" if torch else " (torch is not installed)"))
    return faults


# ---- recorded, without any of them ------------------------------------------------------------------------------------

def special_floats(bits):
    """Patterns around every power of two and every rounding border of the small dtypes, as integers."""
    exponent_bits, mantissa_bits = LAYOUTS[f"F{bits}"][:2]
    for exponent in range(2**exponent_bits):
        if bits == 64 and not 1023 - 160 <= exponent <= 1023 + 130 and exponent not in (0, 2047):
            continue
        for kept in (0, 1, 2, 3, 7, 8, 10):
            step = 1 << (mantissa_bits - kept)
            for multiple in {0, 1, 2, 3, 2**kept - 1} if kept else {0}:
                for nudge in (-1, 0, 1, -(step // 2), step // 2, step // 2 + 1, step // 2 - 1):
                    yield ((exponent << mantissa_bits) + multiple % 2**kept * step + nudge) % 2**(bits - 1)


def recorded_patterns(dtype):
    if BITS[dtype] <= 16:
        return list(range(2**BITS[dtype]))
    rng = random.Random(20261122)
    patterns = sorted(set(special_floats(BITS[dtype])))
    patterns += [rng.getrandbits(BITS[dtype]) for _ in range(RECORDED_FLOATS)]
    return patterns + [pattern ^ 1 << (BITS[dtype] - 1) for pattern in patterns]


def without_nan_bits(bits, dtype, signs=True):
    """All NaN of a sign as one of them, or all NaN as one."""
    exponent, mantissa, ieee, only = LAYOUTS[dtype]
    if only is not None:
        return bits
    top = (2**exponent - 1) << mantissa
    least_nan = top + 1 if ieee else top + 2**mantissa - 1
    sign = 1 << (exponent + mantissa)
    kept = sign if signs else 0
    return array.array(bits.typecode, [bit if bit & sign - 1 < least_nan else bit & kept | sign - 1 for bit in bits])


def ask_ml_dtypes(source, target, given):
    return unsigned(from_ml_dtypes(np.frombuffer(given, numpy_dtype(source)), target)).tobytes()


def recorded(table):
    faults = 0
    for source in BITS:
        given = array.array(CODES[BITS[source]], recorded_patterns(source)).tobytes()
        count = len(given) * 8 // BITS[source]
        for target in BITS:
            answer = table.answer((source, target, digest(given, 16)), source, target, given)
            found = c.create_string_buffer(count * BITS[target] // 8)
            ours(given, source, target, count, found)
            if digest_of(found.raw, target) != answer:
                print(f"{source} to {target}: other values than those of ml_dtypes")
                faults += 1
    for case in packed_cases():
        if table.answer(case, *case) != digest_of(found_of(case), case[-1], signs=False):
            print(f"{case}: other values than those of ml_dtypes")
            faults += 1
    table.finish()
    return faults


def digest_of(content, target, signs=True):
    return digest(without_nan_bits(array.array(CODES[BITS[target]], content), target, signs).tobytes(), 16)


def ask(*question):
    if isinstance(question[-1], bytes):
        source, target, given = question
        return digest_of(ask_ml_dtypes(source, target, given), target)
    return digest_of(floats_of(question).astype(numpy_dtype(question[-1])).tobytes(), question[-1], signs=False)


# ---- how fast -----------------------------------------------------------------------------------------------------------

def best_of(function, times=7):
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - begin)
    return best


def speed():
    """GB/s, of bytes read and written, beside the packages (of which torch is held to one thread)."""
    count = 1 << 24
    floats = np.random.default_rng(1).standard_normal(count).astype(np.float32)
    if torch:
        torch.set_num_threads(1)
    print(f"{'':24} {'ours':>8} {'ml_dtypes':>10} {'torch':>8}")
    for small in [name for name in BITS if name != "F32"]:
        for source, target in [("F32", small), (small, "F32")]:
            values = floats if source == "F32" else from_ml_dtypes(floats, small)
            room = np.empty(count, numpy_dtype(target))
            gigabytes = count * (BITS[source] + BITS[target]) / 8e9
            seconds = [best_of(lambda: ours(values.ctypes.data, source, target, count, room.ctypes.data)),
                       best_of(lambda: np.copyto(room, values, casting="unsafe"), 3)]
            if torch:
                given = torch.from_numpy(unsigned(values).view(f"i{values.itemsize}")).view(torch_dtype(source))
                result = torch.empty(count, dtype=torch_dtype(target))
                seconds.append(best_of(lambda: result.copy_(given)))
            print(f"{source:>11} {target:>12} " + " ".join(f"{gigabytes / each:9.2f}" for each in seconds))


chosen = mode()
if sys.byteorder != "little":
    skip("elements are little-endian")
if chosen == "--recorded":
    failed = recorded(Recorded("convert"))
elif np is None:
    skip("numpy and ml_dtypes are not installed")
else:
    np.seterr(all="ignore")
    if chosen == "--record":
        failed = recorded(Recorder("convert", ask))
    elif "--speed" in sys.argv:
        speed()
        failed = 0
    else:
        found_faults = compare()
        print("\n".join(found_faults[:20]))
        failed = len(found_faults)
print(f"{failed} faults")
sys.exit(failed != 0)
