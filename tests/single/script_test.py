"""Tests of scripts/amalgamate.py, and of its lexer on C++ that the libraries do not have today.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import io
import pathlib
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import amalgamate  # noqa: E402
from single.cpp_text import definitions, without_comments, without_spaces_after_commas, without_unused  # noqa: E402
from single import pinned  # noqa: E402


def names(text):
    return [name for name, lines in definitions(text) if lines != [""]]


class Comments(unittest.TestCase):
    def becomes(self, text, expected):
        self.assertEqual(without_comments(text), expected)

    def test_comments_blanks_and_empty_lines(self):
        self.becomes("  int  a; // one\n\n\t/* two\n three */ int b;\n# define A 1\n", "int a;\nint b;\n#define A 1\n")

    def test_comment_signs_in_literals(self):
        self.becomes("f(\"http://a  b /*\", '\"', '\\'', \"\\\"//\"); // c", "f(\"http://a  b /*\", '\"', '\\'', \"\\\"//\");\n")

    def test_digit_separators(self):
        self.becomes("int a = 1'000; // it's\nint b = 0xFF'FF'FFu; /* '\n */ double c = 1'0.5e-3;  // '",
                     "int a = 1'000;\nint b = 0xFF'FF'FFu; double c = 1'0.5e-3;\n")

    def test_prefixes_of_characters_and_strings(self):
        for prefix in ("u8", "u", "U", "L"):
            self.becomes(f"a = {prefix}'/' ; b = {prefix}\"//  x\" ; // c", f"a = {prefix}'/' ; b = {prefix}\"//  x\" ;\n")

    def test_raw_strings(self):
        for prefix in ("R", "u8R", "uR", "UR", "LR"):
            raw = f"{prefix}\"x(  // \\\n\n # a  \")\" \\ 'b )x\""
            self.becomes(f"  a =  {raw};  // c\n", f"a = {raw};\n")
        self.becomes("FOOR\"a(\" ; // )a\"\nint b;\n", "FOOR\"a(\" ;\nint b;\n")  # not raw: FOOR is a macro

    def test_continued_lines(self):
        self.becomes("#define A(x)  \\\n  one(x)  \\\n  two\n", "#define A(x) one(x) two\n")
        self.becomes("#define A one \\\n\nint b;\n", "#define A one\nint b;\n")  # the macro ends at the empty line
        self.becomes("#define A one \\\n  // two\nint b;\n", "#define A one\nint b;\n")
        self.becomes("// one \\\n still a comment\nint b;\n", "int b;\n")
        self.becomes("a = \"one \\\n  two\";\n", "a = \"one   two\";\n")

    def test_apostrophes_in_messages(self):
        for word in ("#error", "#warning", "  # error"):
            kept = word.replace(" ", "")
            self.becomes(f"{word} don't  do this\n int a; /* it's */ int b;\n", f"{kept} don't  do this\nint a; int b;\n")
        self.becomes("#error \"a/*\"\nint a; /* b */\n", "#error \"a/*\"\nint a;\n")
        self.becomes("#error can't // x\nchar a = '/';\n", "#error can't // x\nchar a = '/';\n")


class Commas(unittest.TestCase):
    def test_only_those_of_the_code(self):
        self.assertEqual(without_spaces_after_commas("f(1'0, 2, \", \", ', ', R\"(, \", )\");\n#error don't, I say\ng(a, b);"),
                         "f(1'0,2,\", \",', ',R\"(, \", )\");\n#error don't, I say\ng(a,b);")


class Definitions(unittest.TestCase):
    def test_braces_in_literals(self):
        self.assertEqual(names("void a() {\nf('{', \"(\", 1'0, '}');\n}\nint b(int c = 1'0) {\n}\n"), ["a", "b"])

    def test_braces_in_raw_strings(self):
        text = "void a() {\nf(R\"x(\n};\n\"{\n)x\");\n}\nvoid b() {\n}\n"
        self.assertEqual(names(text), ["a", "b"])
        self.assertEqual("\n".join(line for _, lines in definitions(text) for line in lines), text.rstrip("\n") + "\n")

    def test_messages_in_functions(self):
        self.assertEqual(names("void a() {\n#if B\n#error don't {\n#endif\n}\nvoid b() {\n}\n"), ["a", "b"])

    def test_unused_functions_are_dropped(self):
        text = without_comments("void used() { helper(1'0); }\nvoid helper(int) { }  // it's\nvoid unused() { }\n#define A '{'\n")
        self.assertEqual(without_unused(text, {"used"}), "void used() { helper(1'0); }\nvoid helper(int) { }\n#define A '{'\n\n")


class Changes(unittest.TestCase):
    def test_are_made(self):
        self.assertEqual(amalgamate.changed("a b", [("b", "c"), ("a c", "d")]), "d")

    def test_a_pattern_that_matches_nothing_is_named(self):
        for text, pattern in (("a b", "x+y"), ("", "b")):
            with self.assertRaisesRegex(SystemExit, f"matches this pattern: {pattern}".replace("+", r"\+")):
                amalgamate.changed(text, [("a?", "c"), (pattern, "d")])


class Versions(unittest.TestCase):
    def test_another_library_is_named(self):
        with tempfile.TemporaryDirectory() as scratch, self.assertRaisesRegex(SystemExit, f"{scratch} is not fmt 9.1.0"):
            amalgamate.check_version("fmt", pathlib.Path(scratch), "ChangeLog.rst", "x")


class Pinned(unittest.TestCase):
    def test_each_library_has_an_address(self):
        text = pinned.DEPENDENCIES.read_text()
        for name in ("simdjson", "fmt", "xxhash"):
            self.assertRegex(pinned.pinned(name, text)[0], r"^https://github\.com/[^${}]+\d\.tar\.gz$")

    def test_only_the_pinned_archive_is_unpacked(self):
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            with tarfile.open(scratch / "v1.tar.gz", "w:gz") as tar:
                member = tarfile.TarInfo("library-1/source.h")
                member.size = 3
                tar.addfile(member, io.BytesIO(b"one"))
            for digest, unpacked in ((hashlib.sha256(b"").hexdigest(), False),
                                     (hashlib.sha256((scratch / "v1.tar.gz").read_bytes()).hexdigest(), True)):
                text = f"set(home {scratch.as_uri()})\nst_declare(library package ${{home}}/v1.tar.gz\n  {digest} X)"
                try:
                    pinned.unpack("library", scratch / "deps/library", text)
                except SystemExit as error:
                    self.assertIn("v1.tar.gz has the SHA-256", str(error))
                self.assertEqual((scratch / "deps/library/source.h").is_file(), unpacked)
            self.assertEqual([path.name for path in (scratch / "deps").iterdir()], ["library"])


if __name__ == "__main__":
    unittest.main()
