"""The declarations of the public headers, for the checks that compare them with the exported symbols.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re

HEADER = pathlib.Path(__file__).parents[2] / "include/safetensors/safetensors.h"


def functions(header=HEADER):
    text = header.read_text()
    names = re.findall(r"^ST_(?:HTTP_)?API\b[^;()]*?\b(st_\w+)\s*\(", text, re.MULTILINE)
    declared = len(re.findall(r"^ST_(?:HTTP_)?API\b", text, re.MULTILINE))
    if len(names) != declared or len(set(names)) != len(names) or not names:
        raise SystemExit(f"{header.name}: {declared} lines begin with ST_API, {len(set(names))} functions were understood")
    return set(names)
