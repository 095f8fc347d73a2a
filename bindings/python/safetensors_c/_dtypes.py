"""The dtypes of the format: their numbers in the C API, sizes, and what frameworks call them.

SPDX-License-Identifier: Apache-2.0
"""
# By the number of the C API.
NAMES = ("UNKNOWN", "BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "BF16", "F32", "F64", "C64",
         "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4")
NUMBERS = {name: number for number, name in enumerate(NAMES) if number}
BITS = dict(zip(NAMES, (0, 8, 8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64, 64, 8, 8, 8, 8, 8, 6, 6, 4)))

# The order in which files are written has the last of these first (docs/format.md, 1.4).
RANK = {name: rank for rank, name in enumerate((
    "BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
    "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64"))}

# What numpy, ml_dtypes and torch call them, in the order of the reference's messages. Torch packs two F4 into an element;
# the F6 have no name anywhere.
SPELLED = {
    "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "float4_e2m1fn_x2": "F4", "complex64": "C64",
}
SPELLING = {name: spelled for spelled, name in SPELLED.items()}
