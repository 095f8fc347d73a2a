"""Headers that are almost right: from a grammar with faults in every production, and from the corpus by mutation.

A fault that a reader might miss lies close to something valid, so most of what comes out here is valid JSON, and
about half of it valid altogether. The same seed gives the same headers for ever.
SPDX-License-Identifier: Apache-2.0
"""
import random

DTYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
          "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
          "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}
NAMES = ["a", "b", "c", "weight", "h.0.attn.c_attn.weight", "", "é", "模型", "\U0001f600", "\x00", "a\x00b", "\n\t\"\\/",
         "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe", "\U0010ffff", "dtype", "shape", "_metadata_", "__metadata__ ", "x" * 70]
BAD_DTYPES = ["F33", "f32", "F32 ", "", "F8", "F8_E4M3FN", "F32\x00", "U128", "C32", "Bool"]

# Dimensions and offsets: each is either a u64 in plain digits or not, and looks much like the other kind.
ODD_INTEGERS = ["-0", "-1", "00", "01", "1.0", "0.0", "1e0", "1E1", "0e0", "0e-1", "+1", "1.", ".5", "0x1", "1_0", "\"1\"",
                "null", "true", "[]", "[1]", "{}", "", "18446744073709551615", "18446744073709551616",
                "9223372036854775807", "9223372036854775808", "99999999999999999999", "100000000000000000000",
                "1844674407370955161", "00000000000000000000", "4294967296", "2305843009213693951", "2305843009213693952",
                "12345678", "123456789", "0000000", "7777777", "NaN", "Infinity", "1 0", "10000000000000000000000000000000"]
# Numbers that are dropped, and must still be numbers that a double can hold.
ODD_NUMBERS = ["0", "-0", "-0.0", "0e999", "0.0e999", "-0e-999", "0e99999999999999999999", "1e99999999999999999999",
               "1e-99999999999999999999", "1e308", "1e309", "-1e308", "-1e309", "1e-400", "1.7976931348623157e308",
               "1.7976931348623158e308", "1.7976931348623159e308", "17976931348623157e292", "17976931348623159e292",
               "179769313486231570000e288", "179769313486231590000e288", "1" + "0" * 308, "1" + "0" * 309,
               "1" + "0" * 308 + ".0", "1" + "0" * 300 + "e8", "1" + "0" * 300 + "e9", "0." + "0" * 300 + "1e609",
               "0." + "0" * 300 + "1e610", "9" * 400, "-" + "9" * 308, "18446744073709551615e289", "18446744073709551616e289",
               "18446744073709551615.5e289", "1844674407370955161.9e290", "1844674407370955161.0e290", "123456789012345678901234567890",
               "-9223372036854775808", "-9223372036854775809", "1e", "1e+", "1e-", "1.e1", "-", "--1", "+1", ".1", "1.",
               "01", "-01", "00", "1a", "0x10", "1e1.0", "1E+308", "1e+0308", "1e2147483647", "1e2147483648", "1e-2147483649",
               "0e2147483648", "NaN", "-Infinity", "tru", "nul", "True", "undefined"]
ODD_STRINGS = ["\\u00e9", "\\u0000", "\\ud83d\\ude00", "\\ud83d", "\\ude00", "\\ud83dx", "\\ud83d\\u0041", "\\ud83d\\ud83d",
               "\\uD83D\\uDE00", "\\udbff\\udfff", "\\ud800\\udc00", "\\u12", "\\u12g4", "\\x41", "\\'", "\\", "\\u", "\\u+123",
               "\\u 123", "\\u-123", "\\u0x12", "\\/", "\\b\\f\\n\\r\\t\\\"\\\\", "\n", "\t", "\x00", "\x1f", "\x7f", "\\u007f",
               "\\ud83d\\n", "\\U0041", "\\ud83d\\ude0", "\\uffff", "\\ufffe", "\\u2028", "\\a", "\\0"]
TOKENS = [b"{", b"}", b"[", b"]", b",", b":", b"\"", b"null", b"true", b"false", b"{}", b"[]", b"\\", b"\\u0041", b"0", b"1",
          b"-", b".", b"e", b" ", b"\n", b"\t", b"\r", b"\x00", b"\x0b", b"\x0c", b"\xa0", b"\xc2\xa0", b"\xef\xbb\xbf", b"\xff",
          b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"/**/", b"//", b"'", b"\"a\":", b"\"dtype\":\"F32\",",
          b"\"shape\":[1],", b"\"data_offsets\":[0,4],", b"\"__metadata__\":{},", b"\"__metadata__\":null,", b"\"x\":1e999,", b"\"x\":{},"]
ODD_LENGTHS = [0, 1, 2, 100_000_000, 100_000_001, 2**32, 2**63, 2**64 - 1, 2**64 - 8]


class Headers:
    def __init__(self, seed, corpus):
        self.rng = random.Random(seed)
        self.corpus = corpus

    def file(self):
        """The bytes of one file."""
        rng = self.rng
        if rng.random() < 0.25:
            whole = rng.choice(self.corpus)
            length = int.from_bytes(whole[:8], "little")
            header, data = whole[8 : 8 + length], whole[8 + length :]
            header = self.mutated(header, rng.randint(1, 3))
        else:
            header, size = self.header()
            data = bytes(i * 31 + (i >> 8) * 17 & 255 for i in range(size))
            if rng.random() < 0.15:
                header = self.mutated(header, rng.randint(1, 2))
        return self.length(len(header), len(data)).to_bytes(8, "little") + header + self.resized(data)

    def odd(self, probability=0.02):
        return self.rng.random() < probability

    def length(self, exact, more):
        if not self.odd(0.03):
            return exact
        return max(0, self.rng.choice(ODD_LENGTHS + [exact - 1, exact + 1, exact + more, exact + more + 1, exact // 2]))

    def resized(self, data):
        if not self.odd(0.04):
            return data
        return self.rng.choice([data[:-1], data + b"\0", data + b" ", b"", data * 2, data[: len(data) // 2]])

    # ---- bytes ---------------------------------------------------------------------------------------------------------

    def mutated(self, header, times):
        header = bytearray(header)
        for _ in range(times):
            at = self.rng.randrange(len(header) + 1)
            to = min(len(header), at + self.rng.randint(1, 12))
            kind = self.rng.randrange(7)
            if kind == 0 and at < len(header):
                header[at] ^= 1 << self.rng.randrange(8)
            elif kind == 1 and at < len(header):
                header[at] = self.rng.choice(b"0123456789 \"\\{}[],:eE.-+aFu\x00\x7f\xff")
            elif kind == 2:
                del header[at:to]
            elif kind == 3:
                header[at:at] = header[at:to]
            elif kind == 4:
                header[at:at] = self.rng.choice(TOKENS)
            elif kind == 5:
                header[at:to] = self.rng.choice(TOKENS)
            else:
                header = self.two_tokens_swapped(header)
        return bytes(header)

    def two_tokens_swapped(self, header):
        places = [i for i, byte in enumerate(header) if byte in b",:{}[]\"" ]
        if len(places) < 2:
            return header
        a, b = self.rng.sample(places, 2)
        header[a], header[b] = header[b], header[a]
        return header

    # ---- the grammar, with faults -----------------------------------------------------------------------------------------

    def header(self):
        """(bytes, size of the data it describes)"""
        entries, size = [], 0
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3, 5])):
            name = self.rng.choice(NAMES[:5] if self.odd(0.7) else NAMES)
            value, size = self.entry(size)
            entries.append((name, value))
        if not self.odd(0.1):  # most files have no name twice
            entries = self.without_doubles(entries)
        members = [self.string(name) + self.space() + ":" + self.space() + value for name, value in entries]
        self.rng.shuffle(members)
        for _ in range(self.rng.choice([0, 0, 1, 1, 1, 1, 1, 1, 2]) if self.odd(0.6) else 0):
            members.insert(self.rng.randint(0, len(members)), self.string("__metadata__") + ":" + self.metadata())
        text = self.space(0.05) + self.container("{", members, "}") + self.space(0.15)
        return text.encode("utf-8", "surrogatepass"), size

    @staticmethod
    def without_doubles(entries):
        # Of two with one name the later is renamed, so that the offsets still chain.
        seen, kept = set(), []
        for name, value in entries:
            while name in seen:
                name += "'"
            seen.add(name)
            kept.append((name, value))
        return kept

    def entry(self, begin):
        dtype = self.rng.choice(list(DTYPES))
        shape = [self.rng.choice([0, 1, 1, 2, 2, 3, 4, 8]) for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3, 9]))]
        bits = DTYPES[dtype]
        for dimension in shape:
            bits *= dimension
        if bits % 8 and not self.odd(0.1):
            shape, bits = shape + [4], bits * 4
        end = begin + bits // 8
        if self.odd(0.04):
            begin += self.rng.choice([-1, 1, 4])
        if self.odd(0.04):
            end += self.rng.choice([-1, 1, 4])
        fields = [("dtype", self.dtype(dtype)), ("shape", self.integers(shape)), ("data_offsets", self.integers([begin, end]))]
        return self.fields(fields), max(0, min(end, 10_000))

    def fields(self, fields):
        if self.odd(0.04):  # as an array
            values = [value for _, value in fields]
            if self.odd(0.3):
                values.insert(self.rng.randint(0, 3), self.value())
            if self.odd(0.15):
                values.pop(self.rng.randrange(len(values)))
            return self.container("[", values, "]")
        if self.odd():
            return self.value()
        if self.odd(0.3):
            self.rng.shuffle(fields)
        if self.odd():
            fields.pop(self.rng.randrange(len(fields)))
        if self.odd(0.03):
            fields.insert(self.rng.randint(0, len(fields)), self.rng.choice(fields))
        for _ in range(self.rng.choice([0, 0, 0, 0, 0, 0, 0, 0, 1, 2])):
            fields.insert(self.rng.randint(0, len(fields)), (self.rng.choice(["x", "x", "", "Dtype", "dtype\0"]), self.value()))
        return self.container("{", [self.string(name) + self.space() + ":" + self.space() + value for name, value in fields], "}")

    def dtype(self, name):
        if self.odd(0.015):
            name = self.rng.choice(BAD_DTYPES)
        text = self.string(name)
        if not self.odd(0.06):
            return text
        inside = self.rng.choice(["null", "null", "null", "{}", "{}", "[]", "[null]", "{\"a\":1}", "1", "\"\"", "nul", self.value()])
        member = text + self.space() + ":" + self.space() + inside
        return self.rng.choice(["{" + self.space() + member + self.space() + "}", "{" + member + "}", "{" + member + "," + member + "}",
                                "{" + member + ",}", "{}", "[" + text + "]", self.value()])

    def integers(self, numbers):
        spelled = [self.rng.choice(ODD_INTEGERS) if self.odd(0.006) else str(number) for number in numbers]
        if self.odd(0.01):
            spelled.append(self.rng.choice(["0", "1", str(sum(numbers))]))
        if self.odd(0.005):
            spelled = spelled[:-1]
        return self.value() if self.odd(0.01) else self.container("[", spelled, "]")

    def metadata(self):
        if self.odd(0.12):
            return self.rng.choice(["null", "null", "null", "{}", "[]", "\"\"", "1", "[[\"k\",\"v\"]]", self.value()])
        pairs = []
        for _ in range(self.rng.choice([0, 1, 1, 2, 3])):
            key = self.rng.choice(["format", "k", "k", "é", "", "a\0b", "\\"])
            value = self.value() if self.odd() else self.string(self.rng.choice(["pt", "v", "", "\U0001f600", "a\0b"] + NAMES))
            pairs.append(self.string(key) + self.space() + ":" + self.space() + value)
        return self.container("{", pairs, "}")

    def value(self, depth=0):
        """Any JSON value, or almost one."""
        kind = self.rng.randrange(9 if depth < 4 else 6)
        if kind == 0:
            return self.rng.choice(ODD_NUMBERS)
        if kind == 1:
            return self.number()
        if kind == 2:
            return self.string(self.rng.choice(NAMES))
        if kind == 3:
            return self.rng.choice(["null", "true", "false", "0", "1", "{}", "[]", "\"\"", "1.5e3", "-1"])
        if kind == 4:
            return str(self.rng.choice([2**53, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**19, 10**20, 10**30]))
        if kind == 5:
            return self.nested(self.rng.choice([1, 2, 30, 120, 123, 124, 125, 126, 127, 128, 129, 200]))
        items = [self.value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        if kind == 6:
            return self.container("[", items, "]")
        return self.container("{", [self.string(self.rng.choice(NAMES)) + ":" + item for item in items], "}")

    def nested(self, depth):
        opened = [self.rng.choice(["[]", "{}"]) for _ in range(depth)]
        inside = "" if self.odd(0.7) else "1"
        for i, kind in enumerate(reversed(opened)):
            member = inside if kind == "[]" else "\"x\":" + (inside or "0")
            inside = kind[0] + ("" if kind == "{}" and i == 0 and self.odd(0.5) else member) + kind[1]
        return inside

    def number(self):
        """Somewhere around the largest double, in digits that a reader may count wrongly."""
        rng = self.rng
        whole = "".join(rng.choices("0123456789", k=rng.choice([1, 2, 17, 19, 20, 21, 40]))).lstrip("0") or "0"
        point = "." + "".join(rng.choices("0123456789", k=rng.choice([1, 2, 19, 30]))) if rng.random() < 0.5 else ""
        exponent = 308 - len(whole) + rng.choice([-2, -1, 0, 1, 1, 1, 2, 3])
        written = rng.choice(["e", "E", "e+"]) + str(exponent) if exponent >= 0 and rng.random() < 0.9 else ""
        return rng.choice(["", "-"]) + whole + point + written

    # ---- tokens ------------------------------------------------------------------------------------------------------------

    def container(self, opening, items, closing):
        text = opening + self.space()
        for i, item in enumerate(items):
            comma = "" if i == 0 or self.odd(0.001) else ","
            text += comma + self.space() + item + self.space()
        if self.odd(0.002):
            text += ","
        return text + closing

    def space(self, probability=0.02):
        if self.rng.random() >= probability:
            return ""
        if self.odd():
            return self.rng.choice(["\v", "\f", "\u00a0", "\ufeff", "\0", "/**/", "\u2028"])
        return "".join(self.rng.choices(" \n\r\t", k=self.rng.choice([1, 1, 2, 9, 70])))

    def string(self, text):
        if self.odd(0.008):
            return "\"" + text.replace("\\", "").replace("\"", "") + self.rng.choice(ODD_STRINGS) + "\""
        escape_all = self.odd(0.05)
        return "\"" + "".join(self.character(c, escape_all) for c in text) + "\""

    def character(self, c, escaped):
        short = {"\"": "\\\"", "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
        if not escaped and c in short:
            return short[c]
        if not escaped and c >= " ":
            return c
        units = c.encode("utf-16-be", "surrogatepass")
        form = self.rng.choice(["\\u%04x", "\\u%04X"])
        return "".join(form % int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
