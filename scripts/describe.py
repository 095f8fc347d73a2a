#!/usr/bin/env python3
"""Writes bindings/safetensors.json, which describes the C API for authors of bindings (docs/languages.md), from the header.

usage: describe.py [OUT]        OUT: another file, or - for standard output

It reads the declarations, and those sentences of the comments that have a set form. It stops at a declaration or a sentence
about NULL that it does not understand: nothing is left out silently. tests/checks/description.py compares the result with the
header and with compilers.
SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADER = ROOT / "include/safetensors/safetensors.h"
DESCRIPTION = ROOT / "bindings/safetensors.json"
FIRST_VERSION = "0.1.0"  # convention 9
COLUMNS = 160

SCALARS = {"char": {"size": 1}, "int32_t": {"size": 4, "signed": True}, "uint32_t": {"size": 4, "signed": False},
           "int64_t": {"size": 8, "signed": True}, "uint64_t": {"size": 8, "signed": False},
           "size_t": {"size": "pointer", "signed": False}, "intptr_t": {"size": "pointer", "signed": True}}
# A member is at the next multiple of its alignment. That is the size of its scalars, except for 64-bit integers on i386.
LAYOUTS = {"64": {"pointer": 8, "align_of_64_bits": 8, "systems": "all with 64-bit pointers: LP64 (Linux, macOS) and LLP64 (Windows)"},
           "32": {"pointer": 4, "align_of_64_bits": 8, "systems": "32-bit ARM, MIPS, PowerPC, RISC-V and WebAssembly, and Windows"},
           "i386": {"pointer": 4, "align_of_64_bits": 4, "systems": "Linux and other Unix systems on i386"}}
MACROS = {"INT64_MIN": -(1 << 63), "INT64_MAX": (1 << 63) - 1}

# Sentences about NULL without a set form: a part of a function's comment, and the condition for each parameter that may be
# NULL ("": always).
NULLABLE_BY_HAND = {
    "Returns NULL for NULL": {"file": ""},
    "begin, end and step describe the slice and may be NULL. Three NULLs mean the whole tensor": {"begin": "", "end": "", "step": ""},
    "They may be NULL if n is 0": {"src": "n is 0", "dst": "n is 0"},
    "Each may be NULL": {"done": "", "total": ""},
    "unless they are NULL": {"key_len": "", "value": "", "value_len": ""},
    "name and shape (rank values, in elements; may be NULL if rank is 0)": {"shape": "rank is 0"},
    "If data is NULL, pass the bytes to st_writer_put": {"data": ""},
    "name has len bytes; NULL: the name of the tensor": {"name": ""},
    "NULL: it may write immediately": {"stream": ""},
    "stream is not NULL, and the device accepts none": {},
    "A NULL key (with key_len 0) sets no pair": {"key": "key_len is 0"},
    "value may be NULL if key is, or if value_len is 0": {"value": "key is NULL, or value_len is 0"},
    "removes keys[i] if values[i] is NULL": {},
    "value_lens[i] is ignored if values[i] is NULL": {},
    "or to NULL if the slice is not contiguous": {},
    "Returns NULL if the file is not mapped": {},
}
LIKE = {"st_plan_add_device": "st_plan_add"}  # "Otherwise like st_plan_add"
FIELDS_BY_HAND = {("st_device_ops", "release"): "alloc is NULL"}  # the comment of st_device_new


class Misunderstood(Exception):
    """The header contains a construct that this script does not know."""


# ---- reading the text -------------------------------------------------------------------------------------------------

def plain(comment):
    """A comment of C, with a line for each paragraph."""
    lines = re.sub(r"^\s*/\*|\*/\s*$", "", comment).split("\n")
    text = "\n".join(re.sub(r"^\s*\*(?!\w)", "", line).strip() for line in lines)
    return "\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))


def brief(comment, begins=""):
    """The first sentence without its version: of the first paragraph that matches begins, otherwise of the first one."""
    paragraphs = comment.split("\n")
    for sentence in re.split(r"(?<=\.) ", next((one for one in paragraphs if re.match(begins, one)), paragraphs[0])):
        if not re.match(r"\(?Since version", sentence):
            return sentence
    return ""


def since(comment):
    found = re.search(r"(?<!\()[Ss]ince version (\d+\.\d+\.\d+)", comment)
    return found[1] if found else ""


def sections(text):
    """Yields (heading, text) for each section with declarations."""
    start = text.index("/* ST_OK or one of the ST_ERR_ constants")
    end = text.index("#ifdef __cplusplus\n}\n#endif")
    heading = re.findall(r"/\* ---- (.*?) -+ \*/", text[:start])[-1]
    parts = re.split(r"^/\* ---- (.*?) -+ \*/$", text[start:end], flags=re.MULTILINE)
    yield from zip([heading, *parts[1::2]], parts[::2])


COMMENT = r"/\*.*?\*/"
DEFINE = r"#define [^\n]*"
DECLARATION = r"(?:[^;{}/#]|\{(?:" + COMMENT + r"|[^{}/])*\}|" + COMMENT + r")+;"


def items(text):
    """Yields (comment, text) for each declaration and macro. Declarations without a blank line between them share a comment."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        comment, at = "", 0
        while match := re.compile(rf"\s*({COMMENT}|{DEFINE}|{DECLARATION})", re.DOTALL).match(block, at):
            at = match.end()
            if match[1].startswith("/*"):
                comment = plain(match[1])
                if not block[at:].strip():
                    yield comment, ""
            else:
                yield comment, match[1]
        if block[at:].strip():
            raise Misunderstood(f"what is this? {block[at:]}")


def members(body, end):
    """Yields (text, comment) for each member between braces. A comment on the line of its member wins over one before it."""
    before = ""
    either = rf"(?P<note>{COMMENT})|(?P<member>\w[^{end}/]*?)\s*(?:{end}|(?=/\*)|$)(?:[ ]*(?P<after>{COMMENT}))?"
    for match in re.finditer(either, body, re.DOTALL):
        if match["note"]:
            before = plain(match["note"])
        elif member := match["member"].strip():
            yield " ".join(member.split()), plain(match["after"]) if match["after"] else before
            before = ""


# ---- types ------------------------------------------------------------------------------------------------------------

class Tokens:
    def __init__(self, text):
        self.all, self.at = re.findall(r"\w+|[*()\[\],]", text), 0

    def take(self, wanted=None):
        token = self.all[self.at] if self.at < len(self.all) else ""
        if wanted is not None and token != wanted:
            return ""
        self.at += 1
        return token

    def need(self, wanted):
        if not self.take(wanted):
            raise Misunderstood(f"no '{wanted}' at {self.at} of {' '.join(self.all)}")


def declared(tokens, owner, callbacks):
    """Returns (name, type). A function type becomes an entry of callbacks, with the name OWNER.NAME."""
    const = bool(tokens.take("const"))
    tag = bool(tokens.take("struct"))
    kind = {"name": tokens.take()}
    if tag:
        kind["tag"] = "struct"
    if const:
        kind["const"] = True
    while tokens.take("*"):
        kind = {"pointer": kind}
        if tokens.take("const"):
            kind["const"] = True
    if tokens.take("("):
        tokens.need("*")
        name = tokens.take()
        tokens.need(")")
        callback = {"name": f"{owner}.{name}", "returns": {"type": kind}, "parameters": parameters(tokens, f"{owner}.{name}", callbacks)}
        callbacks.append(callback)
        return name, {"callback": callback["name"]}
    name = tokens.take()
    if tokens.take("["):
        kind = {"array": kind, "length": int(tokens.take())}
        tokens.need("]")
    return name, kind


def parameters(tokens, owner, callbacks):
    tokens.need("(")
    found = []
    if tokens.all[tokens.at:tokens.at + 2] == ["void", ")"]:
        tokens.take()
    while not tokens.take(")"):
        if found:
            tokens.need(",")
        start = tokens.at
        name, kind = declared(tokens, owner, callbacks)
        found.append({"name": name, "c": spelled(tokens.all[start:tokens.at]), "type": kind})
    return found


def spelled(tokens):
    """Returns C with the spacing of this project."""
    text = " ".join(tokens)
    for wrong, right in [(r"\* ", "*"), (r" ([,)\[\]])", r"\1"), (r"([(\[]) ", r"\1"), (r"(\w|\)) \((?!\*)", r"\1("), (r"\[ ", "[")]:
        text = re.sub(wrong, right, text)
    return text


def is_pointer(kind):
    return "pointer" in kind or "callback" in kind


# ---- what comments say ------------------------------------------------------------------------------------------------

def nullable_parameters(comment, names):
    """Returns {name: condition} for the pointers that may be NULL."""
    found, rest = {}, comment
    for part, said in NULLABLE_BY_HAND.items():
        if part in rest and set(said) <= set(names):
            found.update(said)
            rest = rest.replace(part, "")

    def those(match):
        listed = [name for name in re.split(r", and |, | and ", match["names"])]
        found.update({name: match["condition"] or "" for name in listed if name in names})
        return "" if all(name in names for name in listed) else match[0]

    rest = re.sub(r"(?P<names>(?:\w+, )*\w+(?: and \w+)?) may be NULL(?: if (?P<condition>[^.;]+))?", those, rest)
    rest = re.sub(r"(?:if (?P<names>\w+) is not NULL|unless (?P<also>\w+) is NULL)",
                  lambda match: found.update({match["names"] or match["also"]: ""}) or "", rest)
    rest = re.sub(r"If it does not return NULL|[Rr]eturns [^.]*\bNULL\b[^.]*", "", rest)
    if "NULL" in rest:
        raise Misunderstood(f"a sentence about NULL has no set form and is not in NULLABLE_BY_HAND: {rest}")
    if unknown := set(found) - set(names):
        raise Misunderstood(f"there are no parameters {unknown}: {comment}")
    return {name: clauses(condition, name, names) for name, condition in found.items()}


def clauses(condition, name, names):
    """Keeps the clauses about parameters that this function has: functions with and without lengths share a comment."""
    condition = re.sub(r"^(that|it) is", f"{name}_size is", condition)
    return ", or ".join(clause for clause in condition.split(", or ") if not clause or clause.split()[0] in names)


def returns_null(comment):
    return bool(re.search(r"\b[Rr]eturns [^.]*\bNULL\b", re.sub(r"if \w+ is not NULL|unless \w+ is NULL|Returns NULL for NULL", "", comment)))


# How the comments of members say that the member may be NULL. "Returns …, or NULL" is about the result of a callback.
MEMBER_IS_NULL = re.compile(r"(?:^|[.;] )(?:May be NULL\b|NULL: |NULL if |Otherwise NULL\b)|^NULL$")


# ---- the description --------------------------------------------------------------------------------------------------

class Header:
    """The declarations of the header, in its order, each with its section, version and comment."""

    def __init__(self, text):
        self.enums, self.macros, self.handles, self.structs, self.callbacks, self.functions = [], [], [], [], [], []
        for section, body in sections(text):
            self.typedef, from_section = None, ""
            for comment, declaration in items(body):
                if "Everything in this section exists since" in comment:
                    from_section = since(comment)
                place = {"section": section, "since": since(comment) or from_section or FIRST_VERSION, "comment": comment}
                self.add(declaration, " ".join(re.sub(COMMENT, "", declaration, flags=re.DOTALL).split()), place)

    def add(self, declaration, code, place):
        """code: the declaration without comments, on one line."""
        inside = declaration[declaration.find("{") + 1:declaration.rfind("}")]
        if match := re.fullmatch(r"#define (\w+) (\S+)", code):
            value = MACROS.get(match[2])
            kind = "int32_t" if value is None else "int64_t"
            self.macros.append({"name": match[1], **place, "type": kind, "value": int(match[2]) if value is None else str(value)})
        elif match := re.fullmatch(r"#define (\w+) \(([\w<| ]+)\)", code):
            self.macros.append({"name": match[1], **place, "type": "int32_t", "value": self.joined(match[2])})
        elif match := re.fullmatch(r"typedef int32_t (st_\w+);", code):
            self.typedef = {"name": match[1], "type": "int32_t", **place}
            if match[1] == "st_status":  # whose constants are at the end of the header
                self.enums.append(self.typedef)
        elif re.fullmatch(r"enum \{.*\};", code):
            self.add_enum(inside, place)
        elif match := re.fullmatch(r"typedef struct (st_\w+) \1;", code):
            self.handles.append({"name": match[1], "c": match[1], **place})
        elif match := re.fullmatch(r"struct (\w+);", code):
            self.handles.append({"name": match[1], "c": f"struct {match[1]}", **place, "foreign": True})
        elif match := re.fullmatch(r"typedef struct (st_\w+) \{.*\} \1;", code):
            self.structs.append({"name": match[1], **place, "fields": list(self.fields(match[1], inside, place["since"]))})
        elif match := re.fullmatch(r"ST_API ([^()]*?)(st_\w+)(\(.*\));", code):
            _, returns = declared(Tokens(match[1]), match[2], self.callbacks)
            self.functions.append({"name": match[2], "c": code.removeprefix("ST_API "), **place, "returns": {"type": returns},
                                   "parameters": parameters(Tokens(match[3]), match[2], self.callbacks)})
        elif code:
            raise Misunderstood(f"what is this? {code}")

    def joined(self, expression):
        """Returns the value of macros with shifts, joined by |."""
        values, result = {macro["name"]: macro["value"] for macro in self.macros}, 0
        for part in expression.split(" | "):
            name, _, bits = part.partition(" << ")
            result |= values[name] << int(bits or 0)
        return result

    def add_enum(self, inside, place):
        enum = self.typedef or {"name": "", "type": "uint32_t", **place}
        if " ST_OK = " in inside:
            enum = next(enum for enum in self.enums if enum["name"] == "st_status")
        enum["constants"] = [constant(member, note, enum["since"]) for member, note in members(inside, ",")]
        if enum not in self.enums:
            self.enums.append(enum)
        self.typedef = None

    def fields(self, owner, inside, owner_since):
        for member, note in members(inside, ";"):
            name, kind = declared(Tokens(member), owner, self.callbacks)
            yield {"name": name, "c": member, "type": kind, "since": since(note) or owner_since, "comment": note}


def constant(member, note, enum_since):
    name, value = member.split(" = ")
    one, _, bit = value.partition(" << ")
    return {"name": name, "value": int(one) << int(bit or 0), "since": since(note) or enum_since, "comment": note}


def align(kind, layout):
    return size(kind, layout) if "length" not in kind else align(kind["array"], layout)


def size(kind, layout):
    if is_pointer(kind):
        return layout["pointer"]
    if "array" in kind:
        return kind["length"] * size(kind["array"], layout)
    bytes_ = SCALARS[kind["name"] if kind["name"] in SCALARS else "int32_t"]["size"]  # else an enum
    return layout["pointer"] if bytes_ == "pointer" else bytes_


def lay_out(struct):
    struct["layouts"] = {}
    for name, layout in LAYOUTS.items():
        at = largest = 0
        for field in struct["fields"]:
            own = align(field["type"], layout)
            own = min(own, layout["align_of_64_bits"]) if own == 8 else own
            at = -(-at // own) * own
            field.setdefault("offset", {})[name] = at
            at, largest = at + size(field["type"], layout), max(largest, own)
        struct["layouts"][name] = {"size": -(-at // largest) * largest, "align": largest}


def complete_function(function, header):
    """Adds what its comment says: which pointers may be NULL, and what frees a result. Needs the functions before it complete."""
    functions = {other["name"]: other for other in header.functions}
    opaque, structs = {"void", *names_of(header.handles)}, names_of(header.structs)
    twin = functions.get(function["name"].removesuffix("_n")) if function["name"].endswith("_n") else None
    model = twin or functions.get(LIKE.get(function["name"], ""))
    comment, names = function["comment"].replace("\n", " "), [parameter["name"] for parameter in function["parameters"]]
    nullable = nullable_parameters(comment, names)
    if model:
        nullable = {**{name: clauses(said, name, names) for name, said in model["said"].items() if name in names}, **nullable}
    frees = re.search(r"(_free|_release)$", function["name"]) or function["name"] == "st_free"
    if frees:
        nullable.update(dict.fromkeys(names, ""))  # convention 4
    function["said"] = nullable
    freed = re.search(r"\*out is (?:freed|closed) with (st_\w+)", comment)
    function["freed"] = freed[1] if freed else twin["freed"] if twin else ""
    if twin:
        function["same_as"] = twin["name"]
    function["brief"] = twin["brief"] if twin else brief(function["comment"], VERB)
    counted(function)
    for parameter in function["parameters"]:
        name, kind = parameter["name"], parameter["type"]
        if not is_pointer(kind):
            continue
        to = kind.get("pointer", {})
        parameter["nullable"] = name in nullable or name in ("err", "ctx")
        if nullable.get(name):
            parameter["nullable_if"] = nullable[name]
        if to and not to.get("const") and to.get("name") not in opaque and not frees:
            parameter["direction"] = "inout" if to.get("name") in structs else "out"
        if name == "out" and function["freed"]:
            parameter["free"] = function["freed"]
    returned = function["returns"]
    if is_pointer(returned["type"]):
        returned["nullable"] = returns_null(comment) or bool(twin and twin["returns"].get("nullable"))
        if "needs an st_free" in comment:
            returned.update(nullable=True, free="st_free")


VERB = r"[A-Z][a-z]+s "  # the comments of functions begin so
TEXT = {"pointer": {"name": "char", "const": True}}


def counted(function):
    """Adds the name of the parameter with the length of a text, or with the lengths of an array of texts."""
    names = {parameter["name"]: parameter["type"] for parameter in function["parameters"]}
    set_by_it = [name for name in ("len", "key_len", "value_len") if names.get(name) == {"pointer": {"name": "size_t"}}]
    for parameter in function["parameters"]:
        if parameter["type"] in (TEXT, {"pointer": TEXT}, {"pointer": {**TEXT, "const": True}}):
            lengths = [f"{parameter['name']}_len", f"{parameter['name'].removesuffix('s')}_lens", "len"]
            length = next((name for name in lengths if name in names and (name not in set_by_it or parameter["type"] != TEXT)), None)
            if length:
                parameter["length"] = length
    if function["returns"]["type"] == TEXT and set_by_it:
        function["returns"]["length"] = set_by_it[0]


def complete_struct(struct):
    lay_out(struct)
    for field in struct["fields"]:
        if is_pointer(field["type"]):
            condition = FIELDS_BY_HAND.get((struct["name"], field["name"]))
            field["nullable"] = bool(condition or MEMBER_IS_NULL.search(field["comment"]) or field["name"] == "ctx")
            if condition:
                field["nullable_if"] = condition


def complete_callback(callback, header):
    """Adds the version and comment of the member or the function that it belongs to."""
    for parameter in callback["parameters"]:
        to = parameter["type"].get("pointer", {})
        if to and not to.get("const") and to.get("name") != "void":
            parameter["direction"] = "out"
    owner, _, name = callback["name"].rpartition(".")
    fields = {(struct["name"], field["name"]): field for struct in header.structs for field in struct["fields"]}
    function = next((function for function in header.functions if function["name"] == owner), {"since": FIRST_VERSION})
    field = fields.get((owner, name), {"since": function["since"], "comment": ""})
    callback.update(since=field["since"], comment=field["comment"])
    if is_pointer(callback["returns"]["type"]):
        callback["returns"]["nullable"] = bool(re.search(r"\b[Rr]eturns? [^.]*\bNULL\b", field["comment"]))


def complete_handle(handle, header):
    for function in header.functions:
        types = [parameter["type"] for parameter in function["parameters"]]
        if function["returns"]["type"] == {"name": "void"} and types == [{"pointer": {"name": handle["name"]}}]:
            handle["free"] = function["name"]


def names_of(items):
    return {item["name"] for item in items if item["name"]}


def describe(text):
    header = Header(text)
    for function in header.functions:
        complete_function(function, header)
    for struct in header.structs:
        complete_struct(struct)
    for callback in header.callbacks:
        complete_callback(callback, header)
    for handle in header.handles:
        complete_handle(handle, header)
    known = {*SCALARS, "void", *names_of(header.handles), *names_of(header.structs), *names_of(header.enums)}
    for kind in every_type([header.functions, header.structs, header.callbacks]):
        if kind.get("name", "void") not in known:
            raise Misunderstood(f"there is no type {kind['name']}")
    return entries(header)


def entries(header):
    """The description, whose members docs/languages.md lists."""
    version = {macro["name"]: macro["value"] for macro in header.macros}
    return {
        "format": 1,
        "library": "libsafetensors",
        "version": ".".join(str(version[f"ST_VERSION_{part}"]) for part in ("MAJOR", "MINOR", "PATCH")),
        "about": "The C API of libsafetensors, generated from safetensors.h, which is its manual. docs/languages.md explains the members.",
        "scalars": SCALARS,
        "layouts": LAYOUTS,
        "enums": [enum_entry(enum, header) for enum in header.enums],
        "macros": [{**chosen(macro, "name", "type", "value"), **tail(macro)} for macro in header.macros],
        "handles": [{**chosen(handle, "name", "c", "free", "foreign"), **tail(handle)} for handle in header.handles],
        "callbacks": [{**chosen(callback, "name", "since"), "comment": brief(callback["comment"]), **chosen(callback, "returns", "parameters")}
                      for callback in header.callbacks],
        "structs": [{"name": struct["name"], **tail(struct), "struct_size": struct["fields"][0]["name"] == "struct_size",
                     "layouts": struct["layouts"], "fields": [field_entry(field) for field in struct["fields"]]} for struct in header.structs],
        "functions": [{**chosen(function, "name", "c"), **tail(function), "comment": function["brief"],
                       **chosen(function, "same_as", "returns", "parameters")} for function in header.functions],
    }


def chosen(item, *keys):
    return {key: item[key] for key in keys if key in item}


def every_type(value):
    """Yields every type in a list of items, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("type", "pointer", "array") and isinstance(inner, dict):
                yield inner
            yield from every_type(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from every_type(inner)


def tail(item):
    return {"section": item["section"], "since": item["since"], "comment": brief(item["comment"])}


def field_entry(field):
    return {**chosen(field, "name", "c", "type", "offset", "since"), "comment": brief(field["comment"]),
            **chosen(field, "nullable", "nullable_if")}


def enum_entry(enum, header):
    """Leaves out the constant that only chooses a signed type."""
    constants = [{**one, "comment": brief(one["comment"])} for one in enum["constants"] if not one["name"].endswith("SIGNED_")]
    entry = {"name": enum["name"] or None, "type": enum["type"], "flags": not enum["name"]}
    if not enum["name"]:
        said = re.search(r"Flags of (st_\w+(?: and st_\w+)*)", enum["comment"])
        entry["flags_of"] = [f"{name}.flags" for name in said[1].split(" and ")] if said else []
        places = {f"{item['name']}.{member['name']}" for item in [*header.structs, *header.functions]
                  for member in item.get("fields", item.get("parameters"))}
        if not said or not set(entry["flags_of"]) <= places:
            raise Misunderstood(f"whose flags are {constants[0]['name']} and those next to it? {enum['comment']}")
    return {**entry, **tail(enum), "constants": constants}


# ---- writing ----------------------------------------------------------------------------------------------------------

def pretty(value, indent=0, before=0):
    """JSON with short values on one line: a change of the API changes a few lines of the file."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or indent + before + len(line) < COLUMNS:
        return line
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {pretty(one, indent + 2, len(key) + 4)}" for key, one in value.items()]
    else:
        parts = [pretty(one, indent + 2) for one in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{' ' * indent}{end}"


def text_of(header):
    return pretty(describe(header)) + "\n"


def main(out=str(DESCRIPTION)):
    try:
        text = text_of(HEADER.read_text(encoding="utf-8"))
    except Misunderstood as problem:
        return f"{HEADER.name}: {problem}"
    if out == "-":
        sys.stdout.write(text)
    else:
        pathlib.Path(out).write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
