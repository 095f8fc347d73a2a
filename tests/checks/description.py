"""bindings/safetensors.json is up to date and correct:

  - It is the output of scripts/describe.py.
  - It has everything that the header declares.
  - Each compiler found agrees with every type, value, size and offset, for 64-bit and 32-bit systems.
  - Versions agree with the headers of released versions in tests/abi.
  - In each layout, today's structs begin with the structs of these versions. New members begin behind them.
  - Parameters that may be NULL agree with tests/capi/null_arguments.c.

usage: description.py [JSON]

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import platform
import re
import shutil
import struct
import subprocess
import sys

import api

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import describe  # noqa: E402

FILE = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else describe.DESCRIPTION
FLAGS = ["-x", "c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-ffreestanding", "-DST_STATIC",
         "-I", str(ROOT / "include"), "-"]
NATIVE = "64" if struct.calcsize("P") == 8 else "i386" if re.match(r"i\d86|x86", platform.machine()) else "32"
# Freestanding, these need no C library of the system that they compile for.
COMPILERS = [(["gcc"], NATIVE), (["clang"], NATIVE), (["x86_64-w64-mingw32-gcc"], "64"), (["i686-w64-mingw32-gcc"], "32"),
             (["arm-linux-gnueabihf-gcc"], "32"), (["s390x-linux-gnu-gcc"], "64"), (["i686-linux-gnu-gcc"], "i386"),
             *([(["gcc", "-m32"], "i386")] if platform.machine() == "x86_64" else [])]
CLANG_TARGETS = {"x86_64-linux-gnu": "64", "aarch64-linux-gnu": "64", "x86_64-windows-msvc": "64", "arm64-apple-macos": "64",
                 "i386-linux-gnu": "i386", "i686-windows-msvc": "32", "armv7-linux-gnueabihf": "32", "wasm32": "32"}


def all_constants(described):
    return {constant["name"]: constant for enum in described["enums"] for constant in enum["constants"]}


def named(described):
    """Returns {name: since} for everything that has a version."""
    found = {name: constant["since"] for name, constant in all_constants(described).items()}
    for kind in ("macros", "handles", "structs", "functions"):
        found.update({item["name"]: item["since"] for item in described[kind]})
    for item in described["structs"]:
        found.update({f"{item['name']}.{field['name']}": field["since"] for field in item["fields"]})
    found.update({enum["name"]: enum["since"] for enum in described["enums"] if enum["name"]})
    return {name: since for name, since in found.items() if not re.fullmatch("ST_VERSION_(MAJOR|MINOR|PATCH)", name)}


# ---- the header -------------------------------------------------------------------------------------------------------

def missing(described):
    """Finds names in the header in a simpler way than the generator."""
    code = re.sub(r"/\*.*?\*/", "", api.HEADER.read_text(), flags=re.DOTALL)
    wanted = {"functions": api.functions(), "structs": set(re.findall(r"^typedef struct (st_\w+) \{", code, re.MULTILINE)),
              "handles": set(re.findall(r"^(?:typedef )?struct (\w+)(?: \1)?;", code, re.MULTILINE)),
              "macros": set(re.findall(r"^#define (ST_[A-Z_]+) +[A-Z\d(]", code, re.MULTILINE)) - {"ST_API"}}
    for kind, names in wanted.items():
        if names != {item["name"] for item in described[kind]} or not names:
            yield f"{kind}: {names ^ {item['name'] for item in described[kind]}} is only in one of the two"
    constants = {name for name in re.findall(r"\b(ST_\w+) = ", code) if not name.endswith("SIGNED_")}
    if constants != set(all_constants(described)):
        yield f"constants: {constants ^ set(all_constants(described))} is only in one of the two"
    for item in described["structs"]:
        body = re.search(rf"^typedef struct {item['name']} \{{(.*?)^\}}", code, re.MULTILINE | re.DOTALL)[1]
        if body.count(";") != len(item["fields"]):
            yield f"{item['name']} has {body.count(';')} members, not {len(item['fields'])}"


def other_spellings(described):
    for item in described["functions"]:
        if not item["c"].endswith(f"{item['name']}({', '.join(one['c'] for one in item['parameters']) or 'void'});"):
            yield f"{item['c']} has other parameters than {[one['c'] for one in item['parameters']]}"


def released():
    """Yields (version, header) of each released version."""
    for folder in sorted((ROOT / "tests/abi").glob("[0-9]*"), key=lambda path: [int(part) for part in path.name.split(".")]):
        yield f"{folder.name}.0", (folder / "safetensors/safetensors.h").read_text()


def other_versions(described):
    """Compares the versions in the header's comments with the headers of released versions."""
    first = {}
    for version, text in released():
        for name in names_in(text):
            first.setdefault(name, version)
    for name, since in named(described).items():
        version = first.get(name, described["version"])
        if since.rpartition(".")[0] != version.rpartition(".")[0]:
            yield f"{name} is said to exist since {since}, and is first in the header of {version}"


def structs_in(text):
    """Yields the structs in the header of any version, with their layouts and callbacks."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for name, body in re.findall(r"^typedef struct (st_\w+) \{(.*?)^\}", code, re.MULTILINE | re.DOTALL):
        callbacks = []
        members = [describe.declared(describe.Tokens(member), name, callbacks) for member in body.split(";")[:-1]]
        struct = {"name": name, "fields": [{"name": member, "type": kind} for member, kind in members]}
        describe.lay_out(struct)
        yield struct, callbacks


def placed(fields, callbacks):
    named_callbacks = {callback["name"]: callback for callback in callbacks}
    return [(field["name"], declaration(field["type"], "", named_callbacks), field["offset"]) for field in fields]


# (version of the caller, member): its place is in the padding of that caller's struct. 0.2 had appended it there.
IN_PADDING = {("0.1.0", "st_read_options.ready")}


def other_layouts(described):
    """Compares the structs of released versions with today's. An appended member must begin behind the old struct: in
    the padding at its end, the library would take an older caller's padding for the member.
    """
    today = {struct["name"]: struct for struct in described["structs"]}
    in_padding = set()
    for version, text in released():
        found = list(structs_in(text))
        if len(found) < max(6, len(re.findall(r"^\} st_\w+;", text, re.MULTILINE))):
            yield f"only {len(found)} structs of {version} were understood"
        for old, callbacks in found:
            new = today.get(old["name"], {"fields": [], "struct_size": False})
            kept, added = new["fields"][:len(old["fields"])], new["fields"][len(old["fields"]):]
            if placed(kept, described["callbacks"]) != placed(old["fields"], callbacks):
                yield f"{old['name']} does not begin with the members of {version}"
            elif added and not new["struct_size"]:
                yield f"{old['name']} has no struct_size and more members than in {version}"
            in_padding |= {(version, f"{old['name']}.{field['name']}") for field in added for layout in describe.LAYOUTS
                           if field["offset"][layout] < old["layouts"][layout]["size"]}
    for version, member in in_padding ^ IN_PADDING:
        yield f"{member} is in the padding of the struct of {version} in a layout, or is listed here and is not"


def names_in(text):
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    yield from re.findall(r"\b(ST_\w+) = ", code)
    yield from re.findall(r"^#define (ST_\w+)", code, re.MULTILINE)
    yield from re.findall(r"^typedef (?:struct )?\w+ (st_\w+);", code, re.MULTILINE)
    yield from re.findall(r"^struct (\w+);", code, re.MULTILINE)
    yield from re.findall(r"^ST_API\b[^;()]*?\b(st_\w+)\s*\(", code, re.MULTILINE)
    for name, body in re.findall(r"^typedef struct (st_\w+) \{(.*?)^\}", code, re.MULTILINE | re.DOTALL):
        yield name
        for member in body.split(";")[:-1]:
            found = re.search(r"\(\*(\w+)\)", member) or re.search(r"(\w+)(?:\[\d+\])?\s*$", member)
            yield f"{name}.{found[1]}"


def nulls(described):
    """null_arguments.c has a row for each pointer that must not be NULL, of a function that can say so. If it has one for
    another pointer, that must not be NULL under a condition.
    """
    functions = {item["name"]: item for item in described["functions"]}
    rows = re.findall(r'REFUSED\("(\w+)", (st_\w+)\(', (ROOT / "tests/capi/null_arguments.c").read_text())
    if len(rows) < 50:
        yield f"only {len(rows)} rows of null_arguments.c were understood"
    for name, function in rows:
        parameter = next((one for one in functions[function]["parameters"] if one["name"] == name), None)
        if parameter is None or (parameter["nullable"] and "nullable_if" not in parameter):
            yield f"{function} refuses a NULL {name}, which may be NULL here"
    for function in functions.values():
        if function["returns"]["type"].get("name") != "st_status":
            continue
        for parameter in function["parameters"]:
            name = parameter["name"]
            if "pointer" in parameter["type"] and not parameter.get("nullable") and (name, function["name"]) not in rows:
                yield f"null_arguments.c has no row for {name} of {function['name']}"


# ---- compilers --------------------------------------------------------------------------------------------------------

def declaration(kind, inner, callbacks):
    """Returns C for a type. inner takes the place of a declared name."""
    const = "const " if kind.get("const") else ""
    if "pointer" in kind:
        return declaration(kind["pointer"], f"*{const}{inner}", callbacks)
    if "array" in kind:
        return declaration(kind["array"], f"({inner})[{kind['length']}]" if inner else f"[{kind['length']}]", callbacks)
    if "callback" in kind:
        callback = callbacks[kind["callback"]]
        return declaration(callback["returns"]["type"], f"(*{inner})({listed(callback['parameters'], callbacks)})", callbacks)
    return f"{const}{kind.get('tag', '')} {kind['name']} {inner}"


def listed(parameters, callbacks):
    return ", ".join(declaration(parameter["type"], "", callbacks) for parameter in parameters) or "void"


def program(described, layout):
    """Returns a program with a static assertion for each item of the description."""
    callbacks = {callback["name"]: callback for callback in described["callbacks"]}
    lines = ["#include <safetensors/safetensors.h>"]

    def claim(condition, what):
        lines.append(f'_Static_assert({condition}, "{what}");')

    for constant in [*all_constants(described).values(), *described["macros"]]:
        value = int(constant["value"])
        claim(f"{constant['name']} == {value}" if value > -(1 << 63) else f"{constant['name']} + 1 == {value + 1}", constant["name"])
    for item in described["structs"]:
        name, pointer = item["name"], described["layouts"][layout]["pointer"]
        claim(f"sizeof(void *) == {pointer} && sizeof({name}) == {item['layouts'][layout]['size']}", f"size of {name}")
        claim(f"_Alignof({name}) == {item['layouts'][layout]['align']}", f"alignment of {name}")
        for field in item["fields"]:
            what = f"{name}.{field['name']}"
            claim(f"offsetof({name}, {field['name']}) == {field['offset'][layout]}", f"offset of {what}")
            claim(f"_Generic(&(({name} *)0)->{field['name']}, {declaration(field['type'], '*', callbacks)}: 1, default: 0)", f"type of {what}")
    for name, scalar in described["scalars"].items():
        claim(f"sizeof({name}) == {described['layouts'][layout].get(scalar['size'], scalar['size'])}", name)
        if "signed" in scalar:
            claim(f"(({name})-1 > 0) == {int(not scalar['signed'])}", f"sign of {name}")
    for enum in described["enums"]:
        if enum["name"]:
            claim(f"_Generic(({enum['name']})0, {enum['type']}: 1, default: 0)", enum["name"])
    for item in described["functions"]:
        kind = declaration(item["returns"]["type"], f"(*)({listed(item['parameters'], callbacks)})", callbacks)
        claim(f"_Generic(&{item['name']}, {kind}: 1, default: 0)", f"type of {item['name']}")
    return "\n".join(lines) + "\n"


def spelled(described):
    """Declares everything once more, by the C in the file."""
    lines = [item["c"] for item in described["functions"]]
    for item in described["structs"]:
        lines.append(f"struct copy_of_{item['name']} {{ {' '.join(field['c'] + ';' for field in item['fields'])} }};")
        lines += [f"_Static_assert(offsetof(struct copy_of_{item['name']}, {field['name']}) == offsetof({item['name']}, {field['name']}), \"\");"
                  for field in item["fields"]]
    return "\n".join(lines) + "\n"


def compilers():
    for command, layout in COMPILERS:
        if shutil.which(command[0]):
            yield command, layout
    clang = next((name for name in ("clang", "clang-14") if shutil.which(name)), None)
    for target, layout in CLANG_TARGETS.items() if clang else ():
        yield [clang, f"--target={target}"], layout


def compile_with(command, text):
    return subprocess.run([*command, *FLAGS], input=text, capture_output=True, text=True)


def main():
    described = json.loads(FILE.read_text(encoding="utf-8"))
    faults = [*missing(described), *other_spellings(described), *other_versions(described), *other_layouts(described), *nulls(described)]
    if FILE.read_text(encoding="utf-8") != describe.text_of(api.HEADER.read_text(encoding="utf-8")):
        faults.append(f"{FILE.name} is not what the header says: run python3 scripts/describe.py")
    passed, layouts = 0, set()
    for command, layout in compilers():
        run = compile_with(command, program(described, layout) + spelled(described))
        if run.returncode == 0:
            passed += 1
        elif compile_with(command, "#include <stddef.h>\n#include <stdint.h>\n").returncode:
            print(f"skipped: {' '.join(command)} cannot compile for its system here")
            continue
        else:
            faults.append(f"{' '.join(command)}, layout {layout}:\n{run.stderr[:3000]}")
        layouts.add(layout)
    if NATIVE not in layouts:
        faults.append("no compiler was found")
    print(*faults, sep="\n", end="\n" * bool(faults))
    print(f"{passed} passed, {len(faults)} failed; layouts: {' '.join(sorted(layouts))}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
