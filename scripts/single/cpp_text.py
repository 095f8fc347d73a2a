"""What amalgamate.py does to the text of a C++ library: removes comments, and functions that nothing uses.

SPDX-License-Identifier: Apache-2.0
"""
import re

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
SCOPE = re.compile(r"(inline )?namespace\b.*\{$|extern \"C\" \{$|FMT_(BEGIN|END|MODULE)_\w+$|\}$|[A-Z]\w+$")


def without_comments(text):
    """C++ without comments, blank lines, indentation and alignment: outside of literals, blanks become one space."""
    token = re.compile(r'(?:[ \t]|//[^\n]*|/\*.*?\*/)+|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
    text = token.sub(lambda found: found[0] if found[0][0] in "\"'" else " ", text)
    lines = (line.strip() for line in text.split("\n"))
    return "".join(re.sub(r"^# ", "#", line) + "\n" for line in lines if line)


def without_spaces_after_commas(text):
    token = re.compile(r', |"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
    return token.sub(lambda found: "," if found[0] == ", " else found[0], text)


def definitions(text):
    """Splits a text without comments into (name, lines): name of the function or class that the lines declare, or ''."""
    lines, i = text.split("\n"), 0
    while i < len(lines):
        first, depth, conditions = i, 0, 0
        while i < len(lines):
            line = re.sub(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])+'", "0", lines[i])
            i += 1
            if i - 1 == first and SCOPE.match(lines[first]):
                break
            if lines[first].startswith("#"):  # a directive with all its lines
                if line.endswith("\\"):
                    continue
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
