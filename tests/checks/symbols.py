"""The shared library exports exactly the functions of safetensors.h, under the nodes of capi/safetensors.map; the static one
defines nothing else that has the name of somebody else's.

A symbol too many becomes a promise nobody made, and a simdjson, fmt or libstdc++ symbol meets another copy of itself in
the process that loads the library. In a static program hidden symbols meet too: all compiled-in code, weak or not, is
in a namespace of ours. Only templates of the C++ runtime stay, which are the same for all.
A library that links the system's simdjson may define what that one's headers bring along.
libsafetensors-http exports exactly the functions of http.h (http/http.map).
usage: symbols.py SHARED [STATIC [NAMESPACE...]]

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import subprocess
import sys

import api

ROOT = pathlib.Path(__file__).parents[2]
IS_HTTP = pathlib.Path(sys.argv[1]).name.startswith("libsafetensors-http.")
HEADER = ROOT / "include/safetensors/http.h" if IS_HTTP else api.HEADER
MAP = ROOT / ("http/http.map" if IS_HTTP else "capi/safetensors.map")


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in lines.splitlines()} - set(listed().values())


def listed():
    """The node of each function."""
    nodes = re.findall(r"^(SAFETENSORS_(?:HTTP_)?[\d.]+) \{\s*global:(.*?)(?:local:\s*\*;\s*)?\}", MAP.read_text(), re.DOTALL | re.MULTILINE)
    return {function: node for node, functions in nodes for function in re.findall(r"\w+", functions)}


OWN = {"st", "st_simdjson", "st_simdjson_fast_float", "st_fmt", "std", "__gnu_cxx"}
# A mangled name up to its outermost namespace: what kind of thing (a vtable, a guard, a local of a function), qualifiers,
# and then std in short or a name after its length.
MANGLED = re.compile(r"_Z(?:T[VTIS]|GV|GR|Z)*N?[rVKRO]*(?:(S[tabsiod])|(\d+)(\w+))")


def owner(symbol):
    name = MANGLED.match(symbol)
    if not name:
        return symbol
    return "std" if name[1] else name[3][:int(name[2])]


def foreign(archive, functions, shared):
    """What the archive defines that is neither ours nor the C++ runtime's, with the namespace it is in."""
    lines = subprocess.run(["nm", "-g", "--defined-only", archive], check=True, capture_output=True, text=True).stdout
    symbols = {line.split()[-1] for line in lines.splitlines() if len(line.split()) == 3} - functions
    symbols = {symbol for symbol in symbols if not symbol.startswith("DW.ref.") and symbol != "__clang_call_terminate"}
    assert symbols, "an archive of C++ without a C++ symbol"
    return {symbol for symbol in symbols if owner(symbol) not in OWN | shared}


def compare(what, found, wanted):
    for name in sorted(found - wanted):
        print(f"{what}: {name} is too many")
    for name in sorted(wanted - found):
        print(f"{what}: {name} is missing")
    return found == wanted


functions = api.functions(HEADER)
nodes = listed()
same = compare(MAP.name, set(nodes), functions)
same &= compare("exported symbols", exported(sys.argv[1]), {f"{name}@@{node}" for name, node in nodes.items()})
if len(sys.argv) > 2:
    same &= compare("static library", foreign(sys.argv[2], functions, set(sys.argv[3:])), set())
print(f"{len(functions)} functions")
sys.exit(not same)
