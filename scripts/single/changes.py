"""What amalgamate.py removes from simdjson, fmt and xxHash, or changes in them.

SPDX-License-Identifier: Apache-2.0
"""
import re

# simdjson's files that only its second stage, its DOM, its minifier and its kernel for POWER need.
UNUSED = re.compile(r"/(dom|builtin|padded_string\w*|minify|jsoncharutils\w*|atomparsing|stringparsing|numberparsing\w*|"
                    r"simdprune_\w*|json_minifier|ppc64)(-inl)?\.(h|cpp)$|/(nonstd|stage2|ppc64)/|/(to|from)_chars\.cpp$")

# Changes to the text of a library, after its comments and indentation are removed.
SIMDJSON_CHANGES = [
    (r"return stage2::tape_builder::.*;", "(void)_doc; return UNSUPPORTED_ARCHITECTURE;"),
    (r"return \w+::stringparsing::.*;", "(void)src; (void)dst; return nullptr;"),
    (r"return \w+::stage1::json_minifier::.*;",
     "(void)buf; (void)len; (void)dst; (void)dst_len; return UNSUPPORTED_ARCHITECTURE;"),
    (r"const implementation \* builtin_implementation\(\) \{(.|\n)*?\n\}\n", ""),
    (r"(template ?<typename \w>\n)?simdjson_inline (void|uint64_t) compress(_halves)?\((.|\n)*?\n\}\n", ""),
    (r"(?m)^.*\b(minify|validate_utf8)\(const (char \*buf, size_t len, char|std::string).*\{\n.*\n\}\n", ""),
    (r"(?<!define )\bsimdjson_warn_unused\b ?", ""), (r"\bsimdjson\b", "st_simdjson"),
    (r"\bsimdjson_(?!result|error)", "ST_S_"),  # macros
]
FMT_CHANGES = [  # No message contains a float, an escaped string or separators of thousands: the largest parts of fmt.
    ("WITHOUT_FLOATS", "(void)value; return out;"),  # is there after without_floats()
    (r"auto map\((float|double|long double) val\) -> \1 \{ return val; \}", r"auto map(\1) -> \1 = delete;"),
    (r"case '\?':\nreturn presentation_type::debug;\n", ""),
    (r"if \(is_debug\)\nwidth = write_escaped_string\(.*\nelse\n", ""),
    (r"if \(is_debug\) return write_escaped_.*;\n", ""),
    (r"bool is_debug = .*;\n", ""),
    (r"if \(specs\.localized &&\nwrite_int_localized\((.|\n)*?return out;\n\}\n", ""),
    (r"\bfmt\b", "st_fmt"),
]

XXHASH_CHANGES = [  # Without its kernels for POWER, s390x and AVX-512. They are for long texts, and names are short.
    (r"#if defined\(__AVX512F__\)\n#define XXH_VECTOR XXH_AVX512\n#elif", "#if"),
    (r"#if \(XXH_VECTOR == XXH_AVX512\)\n(#define .*\n){3}#elif", "#if"),
    (r"#if \(XXH_VECTOR == XXH_AVX512\) \|\| (.|\n)*?(?=#if \(XXH_VECTOR == XXH_AVX2\) \|\|)", ""),
    (r"#elif \(defined\(__PPC64__\).*\n#define XXH_VECTOR XXH_VSX\n", ""),
    (r"#elif \(XXH_VECTOR == XXH_VSX\)\n(#define .*\n){3}", ""),
    (r"#if XXH_VECTOR == XXH_VSX\n(.|\n)*?(?=#if defined\(XXH_NO_PREFETCH\))", ""),
    (r"#if \(XXH_VECTOR == XXH_VSX\)\n(.|\n)*?(?=XXH_FORCE_INLINE void\nXXH3_accumulate_512_scalar)", ""),
]
