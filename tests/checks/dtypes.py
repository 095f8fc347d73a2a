"""The tables of dtypes in Python and C++ agree with src/base/dtypes.def.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import pathlib
import re
import runpy
import sys

ROOT = pathlib.Path(__file__).parents[2]


def rows():
    for row in re.findall(r"^ST_DTYPE\((\w+), *(.*)\)$", (ROOT / "src/base/dtypes.def").read_text(), re.MULTILINE):
        number, bits, write_order, _, _, _, _, torch = (cell.strip() for cell in row[1].split(","))
        yield row[0], int(number), int(bits), int(write_order), ast.literal_eval(torch)


def faults():
    python = runpy.run_path(str(ROOT / "bindings/python/safetensors_c/_dtypes.py"))
    table = list(rows())
    expected = {
        "NUMBERS": {name: number for name, number, *_ in table},
        "BITS": {"UNKNOWN": 0, **{name: bits for name, _, bits, *_ in table}},
        "RANK": {name: order for name, _, _, order, _ in table},
        "SPELLING": {name: torch for name, *_, torch in table if torch},
    }
    for name, value in expected.items():
        if python[name] != value:
            yield f"bindings/python/safetensors_c/_dtypes.py: {name} is {python[name]}, expected {value}"
    header = (ROOT / "include/safetensors/safetensors.hpp").read_text()
    for name, *_ in table:
        if not re.search(rf"\b{name} = ST_{name}\b", header):
            yield f"include/safetensors/safetensors.hpp has no Dtype::{name}"


found = list(faults())
for fault in found:
    print(fault)
sys.exit(1 if found else 0)
