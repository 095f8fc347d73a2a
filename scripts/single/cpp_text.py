"""What amalgamate.py does to the text of a C++ library: removes comments, and functions that nothing uses.

SPDX-License-Identifier: Apache-2.0
"""
import re

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
SCOPE = re.compile(r"(inline )?namespace\b.*\{$|extern \"C\" \{$|FMT_(BEGIN|END|MODULE)_\w+$|\}$|[A-Z]\w+$")


COMMENT = r"(?://(?:\\\n|[^\n])*|/\*.*?\*/)"
# Text that stays: literals, numbers with separators, and lines with #error, where an apostrophe does not begin a literal.
VERBATIM = re.compile(rf"""\b(?:u8|[uUL])?R"(?P<end>[^()\\\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|"""
                      rf"""\b\d(?:'?[\w.])*|#[ \t]*(?:error|warning)\b(?:{COMMENT}|"[^"\n]*"|\\\n|[^\n])*""", re.DOTALL)


def outside_verbatim(pattern, replacement, text):
    """Replaces each match of the pattern outside of such text. Joins continued lines in it, except in raw strings."""
    def replaced(found):
        if found["match"] is not None:
            return replacement
        return found[0].replace("\\\n", "") if found["end"] is None else found[0]
    return re.sub(rf"(?P<match>{pattern})|{VERBATIM.pattern}", replaced, text, flags=re.DOTALL | re.MULTILINE)


def without_comments(text):
    """C++ without comments, blank lines, indentation and alignment: blanks, also between lines of a macro, become one space."""
    text = outside_verbatim(rf"(?:[ \t]|\\\n|{COMMENT})+", " ", text)
    text = outside_verbatim(r" ?\n[ \n]*", "\n", text)
    return outside_verbatim("^# ", "#", text.strip() + "\n")


def without_spaces_after_commas(text):
    return outside_verbatim(", ", ",", text)


def definitions(text):
    """Splits a text without comments into (name, lines): name of the function or class that the lines declare, or ''."""
    lines, i = text.split("\n"), 0
    code = VERBATIM.sub(lambda found: "0" + "\n" * found[0].count("\n"), text).split("\n")
    while i < len(lines):
        first, depth, conditions = i, 0, 0
        while i < len(lines):
            line = code[i]
            i += 1
            if i - 1 == first and (SCOPE.match(lines[first]) or lines[first].startswith("#")):
                break
            conditions += line.startswith("#") and line.lstrip("# ").startswith("if")
            conditions -= line.startswith("#") and line.lstrip("# ").startswith("endif")
            depth += line.count("{") - line.count("}") + line.count("(") - line.count(")")
            if depth <= 0 and line.endswith((";", "}")):
                break
        yield "" if conditions else declared_name(" ".join(lines[first:i])), lines[first:i]


def declared_name(text):
    while text.startswith("template"):
        depth = at = 0
        for at, c in enumerate(text):
            depth += (c in "<(") - (c in ">)")
            if c == ">" and depth == 0 and at > 8:
                break
        text = text[at + 1:].strip()
    if "operator" in text.split("{")[0] or text.startswith(("#", "using", "typedef", "static_assert", "friend", "enum")):
        return ""
    found = re.match(r"(?:struct|class|union)\s+(?:[A-Z_]+\s+)*(\w+)", text)
    found = found or re.match(r"[^={};]*?\b(?!FMT_|XXH_[A-Z]+\b|__attribute__|decltype|noexcept|__declspec)(\w+)\s*\((?!\()", text)
    found = found or re.match(r"(?:static )?constexpr [\w:]+ (\w+) = ", text)
    return found[1] if found else ""


def without_unused(text, users):
    """Keeps the functions and classes whose names `users` or kept lines mention."""
    parts = list(definitions(text))
    mentions = {}
    for name, lines in parts:
        if not re.match(r"#\s*(undef|define (\w+) XXH_(IPREF|NAME2)\()", lines[0]):
            mentions.setdefault(name, set()).update(IDENTIFIER.findall("\n".join(lines)))
    kept, found = {""}, users | mentions[""]
    while found:
        kept |= found
        found = {word for name in found for word in mentions.get(name, ())} - kept
    return "".join("\n".join(lines) + "\n" for name, lines in parts if name in kept)
