"""The shared library exports exactly the functions of safetensors.h, all under the node SAFETENSORS_0.

A symbol too many becomes a promise nobody made, and a simdjson, fmt or libstdc++ symbol meets another copy of itself in
the process that loads the library.
usage: symbols.py LIBRARY

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import subprocess
import sys

import api

NODE = "SAFETENSORS_0"
MAP = pathlib.Path(__file__).parents[2] / "capi/safetensors.map"


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in lines.splitlines()} - {NODE}


def listed():
    node = re.search(NODE + r"\s*\{\s*global:(.*?)local:\s*\*;\s*\};", MAP.read_text(), re.DOTALL)
    return set(re.findall(r"\w+", node.group(1)))


def compare(what, found, wanted):
    for name in sorted(found - wanted):
        print(f"{what}: {name} is too many")
    for name in sorted(wanted - found):
        print(f"{what}: {name} is missing")
    return found == wanted


functions = api.functions()
same = compare("safetensors.map", listed(), functions)
same &= compare("exported symbols", exported(sys.argv[1]), {f"{name}@@{NODE}" for name in functions})
print(f"{len(functions)} functions")
sys.exit(not same)
