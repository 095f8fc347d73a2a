/* Each error in a file has its own status, its offset, and a message that names the tensor and the values. In the headers
 * below, '^' marks the byte at the expected offset and is removed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define FINE "\"a\":" ENTRY("U8", "[4]", "[0,4]")

enum { AT_MARK = -1, AT_FILE_END = -2 };
#define IN_DATA(n) (1000000 + (n))

static const struct {
  const char *name;
  const char *header;
  size_t data;
  uint32_t flags;
  st_status status;
  int32_t at;
  const char *says;
} kFaults[] = {
    /* grammar */
    {"an empty header", "^", 0, 0, ST_ERR_JSON, AT_MARK, ""},
    {"an unquoted name", "{^a:1}", 0, 0, ST_ERR_JSON, AT_MARK, ""},
    {"no colon", "{\"a\"^1}", 0, 0, ST_ERR_JSON, AT_MARK, "':'"},
    {"no comma", "{" FINE "^\"b\":1}", 4, 0, ST_ERR_JSON, AT_MARK, ""},
    {"a comma before the brace", "{" FINE ",^}", 4, 0, ST_ERR_JSON, AT_MARK, ""},
    {"a second object", "{}^{}", 0, 0, ST_ERR_JSON, AT_MARK, ""},
    {"a byte order mark", "^\xEF\xBB\xBF{}", 0, 0, ST_ERR_JSON, AT_MARK, ""},
    {"a string that never ends", "{\"abc^", 0, 0, ST_ERR_JSON, AT_MARK, ""},
    {"a raw newline in a name", "{\"a^\nb\":1}", 0, 0, ST_ERR_JSON, AT_MARK, ""},
    {"an escape that is none", "{\"a^\\x41\":1}", 0, 0, ST_ERR_JSON, AT_MARK, ""},
    {"half a surrogate pair", "{\"^\\ud83d\":1}", 0, 0, ST_ERR_JSON, AT_MARK, "surrogate"},
    {"a dimension with a leading zero", "{\"a\":" ENTRY("U8", "[^04]", "[0,4]") "}", 4, 0, ST_ERR_JSON, AT_MARK, "'a'"},
    {"a bad number in an unknown field",
     "{\"a\":{\"x\":^01,"
     "\"y\":1}}",
     0, 0, ST_ERR_JSON, AT_MARK, "'a'"},
    {"a number beyond a double", "{\"a\":{\"x\":^1e999}}", 0, 0, ST_ERR_JSON, AT_MARK, "'a'"},
    {"a word that is none", "{\"a\":{\"x\":^nul}}", 0, 0, ST_ERR_JSON, AT_MARK, "'a'"},
    /* text */
    {"a stray continuation byte", "{\"a^\x80\":1}", 0, 0, ST_ERR_UTF8, AT_MARK, "0x80"},
    {"bad UTF-8 in the padding", "{}   ^\xFF", 0, 0, ST_ERR_UTF8, AT_MARK, "0xff"},
    {"a surrogate in UTF-8", "{\"^\xED\xA0\x80\":1}", 0, 0, ST_ERR_UTF8, AT_MARK, "0xed"},
    /* JSON, but not a header */
    {"an array", "^[]", 0, 0, ST_ERR_SCHEMA, AT_MARK, "object"},
    {"an entry that is a number", "{\"a\":^1}", 0, 0, ST_ERR_SCHEMA, AT_MARK, "'a'"},
    {"an entry as an array", "{\"a\":^[\"F32\",[1],[0,4]]}", 4, 0, ST_ERR_SCHEMA, AT_MARK, "'a'"},
    {"no dtype", "{\"a\":^{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 0, ST_ERR_SCHEMA, AT_MARK, "dtype"},
    {"no shape", "{\"a\":^{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, 0, ST_ERR_SCHEMA, AT_MARK, "shape"},
    {"no data_offsets", "{\"a\":^{\"dtype\":\"U8\",\"shape\":[1]}}", 1, 0, ST_ERR_SCHEMA, AT_MARK, "data_offsets"},
    {"a dtype that is a number", "{\"a\":{\"dtype\":^1}}", 0, 0, ST_ERR_SCHEMA, AT_MARK, "dtype"},
    {"a dtype as a map", "{\"a\":{\"dtype\":^{\"F32\":null}}}", 0, 0, ST_ERR_SCHEMA, AT_MARK, "dtype"},
    {"a negative dimension", "{\"a\":" ENTRY("U8", "[^-1]", "[0,4]") "}", 4, 0, ST_ERR_SCHEMA, AT_MARK, "shape"},
    {"a dimension of 2^64", "{\"a\":" ENTRY("U8", "[^18446744073709551616]", "[0,4]") "}", 4, 0, ST_ERR_SCHEMA, AT_MARK,
     "shape"},
    {"a fraction as an offset", "{\"a\":" ENTRY("U8", "[4]", "[^0.0,4]") "}", 4, 0, ST_ERR_SCHEMA, AT_MARK,
     "data_offsets"},
    {"one offset", "{\"a\":" ENTRY("U8", "[4]", "^[0]") "}", 4, 0, ST_ERR_SCHEMA, AT_MARK, "data_offsets"},
    {"three offsets", "{\"a\":" ENTRY("U8", "[4]", "^[0,4,4]") "}", 4, 0, ST_ERR_SCHEMA, AT_MARK, "data_offsets"},
    {"metadata that is a list", "{\"__metadata__\":^[]}", 0, 0, ST_ERR_SCHEMA, AT_MARK, "__metadata__"},
    {"a number in the metadata", "{\"__metadata__\":{\"step\":^1}}", 0, 0, ST_ERR_SCHEMA, AT_MARK, "'step'"},
    {"white space in front, strictly", "^ {}", 0, ST_OPEN_STRICT, ST_ERR_SCHEMA, AT_MARK, "'{'"},
    {"no metadata spelled null, strictly", "{\"__metadata__\":^null}", 0, ST_OPEN_STRICT, ST_ERR_SCHEMA, AT_MARK,
     "__metadata__"},
    /* twice */
    {"a name twice", "{" FINE ",^\"a\":" ENTRY("U8", "[0]", "[4,4]") "}", 4, 0, ST_ERR_DUPLICATE, AT_MARK, "'a'"},
    {"a name twice, once escaped", "{\"\\u0061\":" ENTRY("U8", "[0]", "[0,0]") ",^" FINE "}", 4, 0, ST_ERR_DUPLICATE,
     AT_MARK, "'a'"},
    {"a metadata key twice", "{\"__metadata__\":{\"k\":\"1\",^\"k\":\"2\"}}", 0, 0, ST_ERR_DUPLICATE, AT_MARK, "'k'"},
    {"metadata twice", "{\"__metadata__\":{},^\"__metadata__\":{}}", 0, 0, ST_ERR_DUPLICATE, AT_MARK, "__metadata__"},
    {"a field twice", "{\"a\":{\"shape\":[1],^\"shape\":[1]}}", 0, 0, ST_ERR_DUPLICATE, AT_MARK, "shape"},
    {"a field twice, once escaped", "{\"a\":{\"dtype\":\"U8\",^\"dt\\u0079pe\":\"U8\"}}", 0, 0, ST_ERR_DUPLICATE,
     AT_MARK, "dtype"},
    /* types */
    {"a dtype that nobody knows", "{\"a\":{\"dtype\":^\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, 0,
     ST_ERR_DTYPE, AT_MARK, "'F33'"},
    {"a dtype in lower case", "{\"a\":{\"dtype\":^\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, 0, ST_ERR_DTYPE,
     AT_MARK, "'f32'"},
    /* inconsistent numbers */
    {"a hole in front", "{\"h.0.w\":" ENTRY("U8", "[4]", "[4,8]") "}", 8, 0, ST_ERR_OFFSETS, IN_DATA(4), "'h.0.w'"},
    {"offsets that run backwards", "{\"h.0.w\":" ENTRY("U8", "[8]", "[0,8]") ",\"b\":" ENTRY("U8", "[8]", "[8,0]") "}",
     8, 0, ST_ERR_OFFSETS, IN_DATA(8), "8..0"},
    {"an overlap", "{" FINE ",\"b\":" ENTRY("U8", "[4]", "[3,7]") "}", 7, 0, ST_ERR_OFFSETS, IN_DATA(3), "3..7"},
    {"the same bytes twice", "{" FINE ",\"b\":" ENTRY("U8", "[4]", "[0,4]") "}", 4, 0, ST_ERR_OFFSETS, IN_DATA(0),
     "'b'"},
    {"a product of dimensions beyond 2^64", "{\"a\":" ENTRY("U8", "[4294967296,4294967296]", "[0,4]") "}", 4, 0,
     ST_ERR_OVERFLOW, IN_DATA(0), "[4294967296,4294967296]"},
    {"bits beyond 2^64", "{\"a\":" ENTRY("F64", "[576460752303423488]", "[0,4]") "}", 4, 0, ST_ERR_OVERFLOW, IN_DATA(0),
     "F64"},
    {"a product that overflows before its zero",
     "{\"a\":" ENTRY("U8", "[9223372036854775808,9223372036854775808,0]", "[0,0]") "}", 0, 0, ST_ERR_OVERFLOW,
     IN_DATA(0), "'a'"},
    {"half a byte", "{\"a\":" ENTRY("F4", "[3]", "[0,2]") "}", 2, 0, ST_ERR_MISALIGNED, IN_DATA(0), "12 bits"},
    {"too few bytes for the shape", "{\"a\":" ENTRY("F32", "[2,3]", "[0,20]") "}", 20, 0, ST_ERR_TENSOR_SIZE,
     IN_DATA(0), "24 bytes"},
    {"data that nobody owns", "{" FINE "}", 9, 0, ST_ERR_COVERAGE, IN_DATA(4), "5"},
    {"data that is missing", "{" FINE "}", 3, 0, ST_ERR_COVERAGE, AT_FILE_END, "of"},
};

static void faults_of_the_header(void) {
  size_t i;
  for (i = 0; i < sizeof kFaults / sizeof kFaults[0]; ++i) {
    char text[512];
    const char *mark = strchr(kFaults[i].header, '^');
    const size_t before = mark != NULL ? (size_t)(mark - kFaults[i].header) : strlen(kFaults[i].header);
    memcpy(text, kFaults[i].header, before);
    strcpy(text + before, mark != NULL ? mark + 1 : "");
    test_bytes file = test_file(text, kFaults[i].data);
    const uint64_t data_begin = 8 + strlen(text);
    const uint64_t expected = kFaults[i].at == AT_MARK       ? 8 + before
                              : kFaults[i].at == AT_FILE_END ? file.size
                                                             : data_begin + (uint64_t)(kFaults[i].at - IN_DATA(0));
    st_open_options options = ST_INIT(st_open_options);
    st_error err = ST_INIT(st_error);
    st_file *out = NULL;
    options.flags = kFaults[i].flags;
    CHECK_FOR(kFaults[i].name, test_open(&file, &options, &out, &err) == kFaults[i].status);
    CHECK_FOR(kFaults[i].name, err.status == kFaults[i].status && out == NULL);
    CHECK_FOR(kFaults[i].name, err.offset == expected);
    CHECK_FOR(kFaults[i].name, strstr(err.message, kFaults[i].says) != NULL && err.message[0] != '\0');
    if (err.status != kFaults[i].status || err.offset != expected || strstr(err.message, kFaults[i].says) == NULL) {
      fprintf(stderr, "  %s at %" PRIu64 " (expected %" PRIu64 "): %s\n", st_status_name(err.status), err.offset,
              expected, err.message);
    }
    st_free(out);
    test_release(&file);
  }
}

/* ---- the length, and files that are something else --------------------------------------------------------------- */

#define BYTES(text) text, sizeof(text) - 1
#define ZEROS_64                                                                                                     \
  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" \
  "\0\0\0\0\0\0\0\0"

static const struct {
  const char *name;
  const char *bytes;
  size_t size;
  st_status status;
  const char *says;
} kFiles[] = {
    {"nothing", BYTES(""), ST_ERR_TRUNCATED, "0 bytes"},
    {"seven bytes", BYTES("\2\0\0\0\0\0\0"), ST_ERR_TRUNCATED, "7 bytes"},
    {"a header cut off", BYTES("\x40\0\0\0\0\0\0\0{\"a\":"), ST_ERR_TRUNCATED, "64"},
    {"a header beyond the limit", BYTES("\x01\xE1\xF5\x05\0\0\0\0{}      "), ST_ERR_HEADER_SIZE, "100000001"},
    {"a header of 2^64-1", BYTES("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}      "), ST_ERR_HEADER_SIZE,
     "18446744073709551615"},
    {"a git-lfs pointer", BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 548105171\n"),
     ST_ERR_FORMAT, "git-lfs"},
    {"a zip archive", BYTES("PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\x12\0archive/data.pkl"),
     ST_ERR_FORMAT, "zip"},
    {"a pickle", BYTES("\x80\x02}q\0(X\4\0\0\0keysq\1K\1u."), ST_ERR_FORMAT, "pickle"},
    {"torch's old file",
     BYTES("\x80\x02\x8a\nl\xfc\x9c"
           "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."),
     ST_ERR_FORMAT, "pickle"},
    {"a pickle of protocol 4", BYTES("\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94\x8c\1a\x94K\1s."), ST_ERR_FORMAT, "pickle"},
    {"a GGUF file", BYTES("GGUF\3\0\0\0\x23\1\0\0\0\0\0\0\x18\0\0\0\0\0\0\0"), ST_ERR_FORMAT, "GGUF"},
    {"an HTML page", BYTES("<!DOCTYPE html>\n<html><head><title>Not found</title></head></html>\n"), ST_ERR_FORMAT,
     "HTML"},
    {"an HTML page after a blank line",
     BYTES("\n<html lang=\"en\"><body>Access to this model is restricted</body></html>"), ST_ERR_FORMAT, "HTML"},
    {"a numpy array", BYTES("\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }   \n"),
     ST_ERR_FORMAT, "numpy"},
    {"an HDF5 file", BYTES("\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\4\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0"), ST_ERR_FORMAT,
     "HDF5"},
    {"zeros", BYTES(ZEROS_64 ZEROS_64), ST_ERR_FORMAT, "zero"},
    {"JSON without a length", BYTES("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"), ST_ERR_FORMAT,
     "JSON"},
};

static void other_kinds_of_file(void) {
  size_t i;
  for (i = 0; i < sizeof kFiles / sizeof kFiles[0]; ++i) {
    const test_bytes file = {(unsigned char *)(uintptr_t)kFiles[i].bytes, kFiles[i].size};
    st_error err = ST_INIT(st_error);
    st_file *out = NULL;
    CHECK_FOR(kFiles[i].name, test_open(&file, NULL, &out, &err) == kFiles[i].status);
    CHECK_FOR(kFiles[i].name, strstr(err.message, kFiles[i].says) != NULL && strchr(err.message, '\n') == NULL);
    if (err.status != kFiles[i].status) fprintf(stderr, "  %s: %s\n", st_status_name(err.status), err.message);
    st_free(out);
  }
}

/* Valid files are opened, whatever their first bytes look like: a length of 0x04034B50 is the signature of a zip. */
static void a_header_whose_length_looks_like_a_zip(void) {
  const size_t length = 0x04034B50;
  char *header = test_alloc(length);
  memset(header, ' ', length);
  memcpy(header, "{}", 2);
  test_bytes file = test_file_n(header, length, 0);
  st_file *out = NULL;
  CHECK(memcmp(file.data, "PK\3\4", 4) == 0);
  CHECK(test_open(&file, NULL, &out, NULL) == ST_OK);
  st_free(out);
  test_release(&file);
  free(header);
}

/* A source can have any length, without a disk. */
static int32_t read_header_only(void *ctx, uint64_t offset, void *dst, size_t n) {
  const test_bytes *file = ctx;
  memset(dst, 0, n);
  if (offset < file->size)
    memcpy(dst, file->data + offset, n < file->size - offset ? n : (size_t)(file->size - offset));
  return 0;
}

static void a_download_cut_short_says_how_much_is_there(void) {
  test_bytes file = test_file("{\"w\":" ENTRY("U8", "[4900000000]", "[0,4900000000]") "}", 0);
  st_source source = ST_INIT(st_source);
  st_error err = ST_INIT(st_error);
  st_file *out = NULL;
  source.ctx = &file;
  source.size = 1200000000;
  source.read_at = read_header_only;
  CHECK(st_open_source(&source, NULL, &out, &err) == ST_ERR_COVERAGE);
  CHECK_FOR(err.message, strstr(err.message, "has 1.2 ") != NULL && strstr(err.message, "of 4.9 GB") != NULL);
  CHECK(err.offset == source.size && out == NULL);
  test_release(&file);
}

int main(void) {
  faults_of_the_header();
  other_kinds_of_file();
  a_header_whose_length_looks_like_a_zip();
  a_download_cut_short_says_how_much_is_there();
  return test_result();
}
