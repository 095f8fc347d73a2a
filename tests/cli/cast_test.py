"""Compares `cast` with ml_dtypes and torch, bit by bit: all values of 8 and 16 bits, and the rounding limits of longer types.
Without them, compares with the answers of ml_dtypes in casts.json, which needs only Python.

    ST_COMMAND=... cast_test.py --record     writes casts.json anew, with ml_dtypes

NaN is compared as NaN: packages keep or drop its other bits in their own ways. What torch does otherwise than ml_dtypes is
left out: its types of 8 bits without infinity take the largest number for what is too large, and its F8_E8M0 drops signs.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import math
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest

from sample import file_bytes, run

try:
    import ml_dtypes
    import numpy as np
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

RECORDED = pathlib.Path(__file__).with_name("casts.json")
BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8}
PACKAGE_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
                 "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
                 "F8_E5M2FNUZ": "float8_e5m2fnuz"}
CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}
# (bits of mantissa, whether all ones of the exponent are infinity and NaN, the only NaN or None)
LAYOUTS = {"F64": (52, True, None), "F32": (23, True, None), "F16": (10, True, None), "BF16": (7, True, None),
           "F8_E4M3": (3, False, None), "F8_E5M2": (2, True, None), "F8_E8M0": (0, False, 0xFF),
           "F8_E4M3FNUZ": (3, False, 0x80), "F8_E5M2FNUZ": (2, False, 0x80)}
PAIRS = [(source, target) for source in BITS for target in BITS if source != target]


def patterns(dtype):
    """Returns all patterns of a short type. For a long type, returns those around the rounding limits of the short types."""
    bits = BITS[dtype]
    if bits <= 16:
        return list(range(2**bits))
    mantissa = LAYOUTS[dtype][0]
    exponents = range(2**8) if bits == 32 else [*range(1023 - 160, 1023 + 130), 0, 2047]
    found = set()
    for exponent in exponents:
        for kept in (0, 1, 2, 3, 7, 8, 10):
            step = 1 << (mantissa - kept)
            for multiple in {0, 1, 2**kept - 1}:
                for nudge in (-1, 0, 1, step // 2 - 1, step // 2, step // 2 + 1):
                    found.add(((exponent << mantissa) + multiple * step + nudge) % 2**(bits - 1))
    return sorted(found) + [pattern | 1 << (bits - 1) for pattern in sorted(found)]


def packed(values, dtype):
    return struct.pack(f"<{len(values)}{CODES[BITS[dtype]]}", *values)


def unpacked(data, dtype):
    return struct.unpack(f"<{len(data) * 8 // BITS[dtype]}{CODES[BITS[dtype]]}", data)


def without_nan_bits(values, dtype):
    """Replaces all NaN of a sign by one of them."""
    mantissa, ieee, only = LAYOUTS[dtype]
    if only is not None:
        return list(values)
    sign = 1 << (BITS[dtype] - 1)
    top = (sign - 1) >> mantissa << mantissa
    least_nan = top + 1 if ieee else sign - 1
    return [value if value & sign - 1 < least_nan else value & sign | sign - 1 for value in values]


def is_finite(value, dtype):
    mantissa, ieee, only = LAYOUTS[dtype]
    if only is not None:
        return value != only
    magnitudes = (1 << (BITS[dtype] - 1)) - 1
    return value & magnitudes < (magnitudes >> mantissa << mantissa if ieee else magnitudes)


def with_one_nan(values, dtype):
    """Replaces all NaN by one, because torch drops their signs."""
    if LAYOUTS[dtype][2] is not None:
        return list(values)
    nan = 2**BITS[dtype] - 1
    return [nan if value | 1 << (BITS[dtype] - 1) == nan else value for value in without_nan_bits(values, dtype)]


def fingerprint(values, dtype):
    return hashlib.sha256(packed(without_nan_bits(values, dtype), dtype)).hexdigest()[:16]


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, PACKAGE_NAMES[name], None) or PACKAGE_NAMES[name])


def by_ml_dtypes(values, source, target):
    given = np.frombuffer(packed(values, source), numpy_dtype(source))
    with np.errstate(all="ignore"):
        try:
            return unpacked(given.astype(numpy_dtype(target)).tobytes(), target)
        except TypeError:  # it has no loop for two of its own dtypes, of which F32 has every value
            return unpacked(given.astype(np.float32).astype(numpy_dtype(target)).tobytes(), target)


def by_torch(values, source, target):
    given = torch.frombuffer(bytearray(packed(values, source)), dtype=getattr(torch, PACKAGE_NAMES[source]))
    answer = given.to(getattr(torch, PACKAGE_NAMES[target])).contiguous()
    return unpacked(answer.view(torch.uint8).numpy().tobytes(), target)


class Cast(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Returns the command's answers for all pairs. One run per target casts a file with a tensor of each other type."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_cast_"))
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.given = {dtype: patterns(dtype) for dtype in BITS}
        cls.found, cls.notes = {}, {}
        tensors = [(dtype, dtype, [len(values)], len(values) * BITS[dtype] // 8) for dtype, values in cls.given.items()]
        data = b"".join(packed(values, dtype) for dtype, values in cls.given.items())
        (folder / "in.safetensors").write_bytes(file_bytes(tensors, {"format": "pt"}, data))
        for target in BITS:
            out = folder / f"{target}.safetensors"
            result = run("cast", str(folder / "in.safetensors"), str(out), "--to", target.lower())
            assert (result.returncode, result.stdout, result.stderr.count(b"\n")) == (0, b"", target != "F64"), result.stderr
            cls.notes[target] = result.stderr.decode()
            content = out.read_bytes()
            begin = 8 + int.from_bytes(content[:8], "little")
            header = json.loads(content[8:begin])
            assert header.pop("__metadata__") == {"format": "pt"}
            for source, entry in header.items():
                assert entry["dtype"] == target
                first, end = entry["data_offsets"]
                cls.found[source, target] = unpacked(content[begin + first:begin + end], target)

    def test_the_recorded_table(self):
        table = json.loads(RECORDED.read_text())["casts"]
        self.assertEqual(len(table), len(PAIRS))
        for source, target in PAIRS:
            self.assertEqual(fingerprint(self.found[source, target], target), table[f"{source} {target}"], (source, target))

    def test_values_out_of_range_are_counted_for_every_type(self):
        for target in BITS:
            count = sum(is_finite(given, source) and not is_finite(found, target) for source in BITS
                        for given, found in zip(self.given[source], self.found[source, target]))
            expected = f"out of the range of {target}: {count:,} values, now " if count else ""
            self.assertIn(expected, self.notes[target], target)
            self.assertEqual(bool(count), bool(self.notes[target]), target)

    def test_a_type_to_itself_keeps_every_bit(self):
        for dtype in BITS:
            self.assertEqual(list(self.found[dtype, dtype]), self.given[dtype], dtype)

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_beside_ml_dtypes(self):
        for source, target in PAIRS:
            expected = by_ml_dtypes(self.given[source], source, target)
            self.assertEqual(without_nan_bits(self.found[source, target], target), without_nan_bits(expected, target),
                             (source, target))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_beside_torch(self):
        compared = 0
        for source, target in PAIRS:
            if source == "F64" or target in ("F8_E8M0", "F8_E4M3"):  # torch rounds F64 twice; the others: see above
                continue
            expected = with_one_nan(by_torch(self.given[source], source, target), target)
            found = with_one_nan(self.found[source, target], target)
            differ = [i for i in range(len(found)) if found[i] != expected[i]]
            self.assertEqual(differ[:5], [], (source, target))
            compared += len(expected)
        print(f"{compared} values compared with torch {torch.__version__}")


class Chosen(unittest.TestCase):
    """Which tensors are converted, and where the output is written."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="safetensors_cast_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = str(self.folder / "in.safetensors")
        self.out = str(self.folder / "out.safetensors")
        tensors = [("i", "I64", [1], 8), ("w", "F32", [3], 12), ("v", "F16", [2], 4), ("q", "F4", [2], 1), ("e", "F32", [0], 0)]
        data = struct.pack("<q3f2e", -5, 1.0, -2.5, 1e30, 0.5, 65504.0) + b"\x21"
        (self.folder / "in.safetensors").write_bytes(file_bytes(tensors, None, data))

    def dtypes(self, path):
        shown = run("show", path, "--json")
        self.assertEqual((shown.returncode, shown.stderr), (0, b""))
        return {tensor["name"]: tensor["dtype"] for tensor in json.loads(shown.stdout)["tensors"]}

    def test_floats_only(self):
        result = run("cast", self.path, self.out, "--to", "BF16")
        self.assertEqual((result.returncode, result.stderr), (0, b"safetensors: note: F4 is not converted: 1 tensor\n"))
        self.assertEqual(self.dtypes(self.out), {"i": "I64", "w": "BF16", "v": "BF16", "q": "F4", "e": "BF16"})
        self.assertEqual(run("cat", self.out, "w").stdout, bytes.fromhex("803f20c04a71"))
        self.assertEqual(run("cat", self.out, "i").stdout, struct.pack("<q", -5))

    def cast(self, values, target, *options, source="f"):
        """-> the converted values as F64, and the line on standard error."""
        data = struct.pack(f"<{len(values)}{source}", *values)
        dtype = {"f": "F32", "d": "F64", "e": "F16"}[source]
        pathlib.Path(self.path).write_bytes(file_bytes([("w", dtype, [len(values)], len(data))], None, data))
        result = run("cast", self.path, "-", "--to", target, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        pathlib.Path(self.out).write_bytes(result.stdout)
        back = run("cast", self.out, "-", "--to", "f64").stdout
        return struct.unpack(f"<{len(values)}d", back[-8 * len(values):]), result.stderr.decode()

    def test_values_out_of_range_are_counted(self):
        inf, nan = math.inf, math.nan
        for values, target, source, count, now in (
                ([1, 65504, 65519, 65520, -1e30, inf, -inf, nan], "f16", "f", "2 values", "infinity"),
                ([1, 448, 464, 500, -500, inf, nan], "f8_e4m3", "f", "2 values", "NaN"),
                ([1e39, 1e30], "f32", "d", "1 value", "infinity"),
                ([3.4e38, 1], "bf16", "f", "1 value", "infinity"),
                ([1, 0, -2, 3.4e38], "f8_e8m0", "f", "3 values", "NaN"),
                ([1, 65504, inf, nan], "f32", "e", None, None),
                ([1, 65504, inf, nan], "f8_e5m2", "e", "1 value", "infinity"),
                ([1, 65504, 0, inf, nan], "bf16", "e", None, None),
                ([0, 1, inf], "f8_e8m0", "e", "1 value", "NaN")):
            line = self.cast(values, target, source=source)[1]
            self.assertEqual(line, "" if count is None else
                             f"safetensors: note: out of the range of {target.upper()}: {count}, now {now}\n", (values, target))

    def test_saturated_values(self):
        inf, nan = math.inf, math.nan
        for values, target, expected, count in (
                ([1, 65520, -1e30, inf, -inf, nan], "f16", [1, 65504, -65504, inf, -inf, nan], 2),
                ([1, 500, -500, inf, -inf, nan], "f8_e4m3", [1, 448, -448, 448, -448, nan], 2),
                ([1, 1e9, -1e9, inf, nan], "f8_e5m2", [1, 57344, -57344, inf, nan], 2),
                ([1, 1e9, -1e9, inf, -inf, nan], "f8_e4m3fnuz", [1, 240, -240, 240, -240, nan], 2),
                ([1, 1e9, -1e9, inf, nan], "f8_e5m2fnuz", [1, 57344, -57344, 57344, nan], 2),
                ([3.4e38, -3.4e38], "bf16", [3.3895313892515355e38, -3.3895313892515355e38], 2),
                ([1, 0, -2, 3.4e38, nan], "f8_e8m0", [1, 2**-127, 2**-127, 2.0**127, nan], 3)):
            found, line = self.cast(values, target, "--saturate")
            self.assertEqual(repr(list(found)), repr([float(value) for value in expected]), target)
            self.assertEqual(line, f"safetensors: note: out of the range of {target.upper()}: {count} values, now the nearest finite number\n")

    def test_saturated_values_of_several_blocks(self):
        values = [70000.0 if i % 1000 == 999 else 1.0 for i in range(3_000_000)]
        found, line = self.cast(values, "f16", "--saturate")
        self.assertIn("3,000 values", line)
        self.assertEqual([i for i, value in enumerate(found) if value != min(values[i], 65504)], [])

    def test_by_type_and_by_name(self):
        run("cast", self.path, self.out, "--to", "f64", "--from", "f16")
        self.assertEqual(self.dtypes(self.out), {"i": "I64", "w": "F32", "v": "F64", "q": "F4", "e": "F32"})
        run("cast", self.path, self.out, "--to", "f64", "--filter", "[we]", "--replace")
        self.assertEqual(self.dtypes(self.out), {"i": "I64", "w": "F64", "v": "F16", "q": "F4", "e": "F64"})

    def test_a_copy_is_noted(self):
        for options, noted in ((["--to", "bf16", "--from", "f64"], True), (["--to", "f32", "--filter", "w"], True), (["--to", "bf16", "--filter", "w"], False)):
            result = run("cast", self.path, self.out, "--replace", *options)
            self.assertEqual((result.returncode, b"note: no tensor is converted\n" in result.stderr), (0, noted), options)

    def test_to_a_pipe_and_to_the_other_format(self):
        run("cast", self.path, self.out, "--to", "f32")
        piped = run("cast", self.path, "-", "--to", "f32")
        self.assertEqual(piped.stdout, pathlib.Path(self.out).read_bytes())
        refused = run("cast", self.path, str(self.folder / "out.bt"), "--to", "f32")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn(b"has no dtype F4", refused.stderr)

    def test_names_of_torch_and_short_names(self):
        for name, dtype in (("float16", "F16"), ("torch.float16", None), ("FP32", "F32"), ("fp64", "F64"), ("bfloat16", "BF16"),
                            ("float8_e4m3fn", "F8_E4M3"), ("fp8_e5m2", "F8_E5M2"), ("float8_e8m0fnu", "F8_E8M0"), ("fp", None)):
            pathlib.Path(self.out).unlink(missing_ok=True)
            result = run("cast", self.path, self.out, "--to", name, "--from", "fp16")
            self.assertEqual(result.returncode, 0 if dtype else 2, (name, result.stderr))
            if dtype:
                self.assertEqual(self.dtypes(self.out)["v"], dtype)

    def test_types_that_are_none(self):
        for name in ("i64", "f4", "float", ""):
            refused = run("cast", self.path, self.out, "--to", name)
            self.assertEqual((refused.returncode, refused.stdout), (2, b""))
            self.assertIn(b"not one of F64, F32, F16, BF16, F8_E4M3", refused.stderr)
        self.assertFalse(pathlib.Path(self.out).exists())


def record():
    casts = {f"{source} {target}": fingerprint(by_ml_dtypes(patterns(source), source, target), target)
             for source, target in PAIRS}
    RECORDED.write_text(json.dumps({"ml_dtypes": ml_dtypes.__version__, "numpy": np.__version__, "casts": casts}, indent=1) + "\n")


if __name__ == "__main__":
    record() if "--record" in sys.argv else unittest.main()
