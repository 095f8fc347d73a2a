"""The tables of dtypes in Python, C++, tests and documentation name every dtype of src/base/dtypes.def.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import pathlib
import re
import runpy
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]

# Places that name every dtype, those that st_convert converts, and those that torch has a name for.
EVERY = ("docs/format.md", "docs/dlpack.md", "tests/capi/reading.c", "tests/capi/dlpack.c", "tests/reference/support/headers.py",
         "tests/reference/dlpack.py", "tests/conformance/files/zero_all_dtypes.safetensors")
CONVERTED = ("tests/base/convert_test.cpp", "tests/capi/convert.c", "tests/cli/cast_test.py", "tests/cli/casts.json",
             "tests/cli/verify_test.py", "tests/reference/convert.py")
IN_TORCH = ("tests/reference/writer.py", "bindings/python/tests/test_write.py")


class Row(NamedTuple):
    name: str
    number: int
    bits: int
    write_order: int
    dlpack: str
    convertible: bool
    torch: str

    def is_float(self):
        return self.dlpack not in ("0", "1", "5", "6")  # integers, complex numbers, bool


def rows():
    for row in re.findall(r"^ST_DTYPE\((\w+), *(.*)\)$", (ROOT / "src/base/dtypes.def").read_text(), re.MULTILINE):
        number, bits, write_order, dlpack, convertible, _, _, torch = (cell.strip() for cell in row[1].split(","))
        yield Row(row[0], int(number), int(bits), int(write_order), dlpack, convertible == "true", ast.literal_eval(torch))


def text_of(place):
    return (ROOT / place).read_text(encoding="latin-1")


def faults():
    python = runpy.run_path(str(ROOT / "bindings/python/safetensors_c/_dtypes.py"))
    table = list(rows())
    expected = {
        "NUMBERS": {row.name: row.number for row in table},
        "BITS": {"UNKNOWN": 0, **{row.name: row.bits for row in table}},
        "RANK": {row.name: row.write_order for row in table},
        "SPELLING": {row.name: row.torch for row in table if row.torch},
    }
    for name, value in expected.items():
        if python[name] != value:
            yield f"bindings/python/safetensors_c/_dtypes.py: {name} is {python[name]}, expected {value}"
    for places, named in ((EVERY, table), (CONVERTED, [row for row in table if row.convertible]),
                          (IN_TORCH, [row for row in table if row.torch])):
        for place in places:
            for row in named:
                if not re.search(rf"\b(?:ST_)?{row.name}\b", text_of(place)):
                    yield f"{place} lacks {row.name}"
    header, imported = text_of("include/safetensors/safetensors.hpp"), text_of("cli/import/torch_names.cpp")
    for row in table:
        if not re.search(rf"\b{row.name} = ST_{row.name}\b", header):
            yield f"include/safetensors/safetensors.hpp has no Dtype::{row.name}"
        if row.torch and f'torch_dtype("{row.torch}", ST_{row.name}, {max(row.bits // 8, 1)})' not in imported:
            yield f"cli/import/torch_names.cpp has no {row.torch} for {row.name}"
    comment = text_of("include/safetensors/safetensors.h").partition("ST_API st_status st_convert(")[0].rpartition("/*")[2]
    for row in table:
        if row.is_float() and not re.search(rf"\b{row.name}\b", comment):
            yield f"include/safetensors/safetensors.h: the comment of st_convert lacks {row.name}"
    codes = text_of("src/format/bintensors/decode.hpp").partition("kDtypesByCode")[2].partition(";")[0]
    lacking = re.search(r"^LACKING = \((.*)\)$", text_of("tests/cli/convert_test.py"), re.MULTILINE)[1]
    for row in table:
        if (f"Dtype::{row.name}" in re.findall(r"Dtype::\w+", codes)) == (f'"{row.name}"' in lacking):
            yield f"tests/cli/convert_test.py: LACKING and kDtypesByCode of bintensors disagree on {row.name}"
    if f"all {len(table)} dtypes" not in text_of("README.md"):
        yield f"README.md has another count of dtypes than {len(table)}"


found = list(faults())
for fault in found:
    print(fault)
sys.exit(1 if found else 0)
