// The header bytes: those of the reference, read back by our parser, and rejected tensors.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "format/header.hpp"

namespace st::format::serialize_test {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

// \\ \t \n \r \xHH
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case 't': out += '\t'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 'x':
        out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
        i += 2;
        break;
      default: out += text[i];
    }
  }
  return out;
}

struct Item {
  std::string name;
  Dtype dtype{};
  std::vector<std::uint64_t> shape;
  std::string data;
};

struct Spec {
  std::vector<Item> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
  bool has_metadata = false;
};

Spec read_spec(const fs::path& path) {
  Spec spec;
  std::istringstream lines(contents(path));
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields;
    std::istringstream parts(line + "\t");
    for (std::string field; std::getline(parts, field, '\t');) fields.push_back(field);
    if (fields.empty()) continue;
    if (fields[0] == "#meta") {
      spec.has_metadata = true;
      if (fields.size() > 2) spec.metadata.emplace_back(unescaped(fields[1]), unescaped(fields[2]));
      continue;
    }
    Item item{unescaped(fields[0]), dtype_from_name(fields[1]), {}, {}};
    std::istringstream dims(fields[2]);
    for (std::string dim; std::getline(dims, dim, ',');) item.shape.push_back(std::stoull(dim));
    const std::size_t i = spec.tensors.size();
    item.data.resize(static_cast<std::size_t>(check_tensor(item.name, item.dtype, item.shape)));
    for (std::size_t j = 0; j < item.data.size(); ++j)
      item.data[j] = static_cast<char>((31 * i + j + 17 * (j >> 8)) & 0xFF);
    spec.tensors.push_back(std::move(item));
  }
  return spec;
}

std::string file_of(Spec spec) {
  std::sort(spec.tensors.begin(), spec.tensors.end(), [](const Item& a, const Item& b) {
    const auto key = [](const Item& item) {
      return std::pair(dtype_order(Format::safetensors, item.dtype), std::string_view(item.name));
    };
    return key(a) < key(b);
  });
  std::vector<NewTensor> tensors;
  std::string data;
  for (const Item& item : spec.tensors) {
    tensors.push_back({item.name, item.shape, data.size(), data.size() + item.data.size(), item.dtype});
    data += item.data;
  }
  std::vector<MetadataPair> metadata;
  for (const auto& [key, value] : spec.metadata) metadata.push_back({key, value});
  NewHeader header;
  header.tensors = tensors;
  header.metadata = metadata;
  header.has_metadata = spec.has_metadata;
  return serialize(header) + data;
}

TEST(Serialize, gives_the_bytes_of_the_reference) {
  std::size_t specs = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(ST_TESTS_DIR) / "conformance" / "writer")) {
    if (entry.path().extension() != ".spec") continue;
    fs::path expected = entry.path();
    expected.replace_extension(".safetensors");
    EXPECT_EQ(file_of(read_spec(entry.path())), contents(expected)) << entry.path();
    ++specs;
  }
  EXPECT_GE(specs, 4U);
}

std::string serialized(NewHeader header) { return serialize(header); }

TEST(Serialize, writes_a_file_without_tensors_and_with_an_empty_map_that_can_be_read) {
  NewHeader header;
  header.has_metadata = true;
  EXPECT_EQ(serialized(header).substr(8), R"({"__metadata__":{}}     )");
}

TEST(Serialize, pads_the_header_until_the_data_is_aligned) {
  for (std::uint64_t alignment = 8; alignment <= kMaxAlignment; alignment *= 2) {
    NewHeader header;
    header.data_alignment = alignment;
    EXPECT_NO_THROW(require_alignment(alignment));
    const std::string bytes = serialized(header);
    EXPECT_EQ(bytes.size() % alignment, 0U);
    EXPECT_LT(bytes.size(), alignment + 16);
  }
}

TEST(Serialize, leaves_the_reserve_behind_the_metadata) {
  NewHeader header;
  const std::vector<MetadataPair> pairs{{"k", "v"}};
  header.metadata = pairs;
  header.has_metadata = true;
  header.reserve = 10;
  const NewTensor tensor{"t", {}, 0, 4, Dtype::F32};
  header.tensors = {&tensor, 1};
  const std::string bytes = serialized(header);
  EXPECT_EQ(bytes.substr(8, 48), R"({"__metadata__":{"k":"v"}          ,"t":{"dtype")");
}

TEST(Serialize, takes_metadata_and_shapes_of_any_length) {
  const std::string text(1000, 'x');
  const std::vector<MetadataPair> short_ones(20), long_values{{"k", text}};
  const std::vector<std::uint64_t> dims(40, 1);
  const NewTensor tensor{"t", dims, 0, 4, Dtype::F32};
  NewHeader header;
  header.has_metadata = true;
  for (const std::vector<MetadataPair>& pairs : {short_ones, long_values}) {
    header.metadata = pairs;
    EXPECT_NO_THROW(serialize(header));
  }
  header.metadata = {};
  header.tensors = {&tensor, 1};
  EXPECT_NO_THROW(serialize(header));
}

TEST(Serialize, writes_the_formats_that_have_a_writer) {
  EXPECT_NO_THROW(require_writable(1));
  for (const std::int64_t format : {0, 3, 4, 257}) EXPECT_THROW(require_writable(format), Error) << format;
}

TEST(Serialize, escapes_as_the_reference_does) {
  std::string name;
  for (int c = 0; c < 0x30; ++c) name += static_cast<char>(c);
  name += "\\\x7f/\xC3\xA9";
  const NewTensor tensor{name, {}, 0, 1, Dtype::U8};
  NewHeader header;
  header.tensors = {&tensor, 1};
  EXPECT_EQ(
      serialized(header).substr(8, 198),
      "{\"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f\\u0010\\u0011\\u0012"
      "\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001a\\u001b\\u001c\\u001d\\u001e\\u001f !\\\"#$%&'()*+,-./\\\\\x7f/"
      "\xC3\xA9\"");
}

Status status_of(auto&& body) {
  try {
    body();
    return Status::ok;
  } catch (const Error& error) {
    return error.status;
  }
}

TEST(Serialize, refuses_what_no_reader_would_take) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
  using Shape = std::vector<std::uint64_t>;
  const auto check = [](std::string_view name, Dtype dtype, const Shape& shape) {
    return status_of([&] { check_tensor(name, dtype, shape); });
  };
  EXPECT_EQ(check("\xFF", Dtype::F32, {}), Status::utf8);
  EXPECT_EQ(check("\xED\xA0\x80", Dtype::F32, {}), Status::utf8);
  EXPECT_EQ(check("a", Dtype::unknown, {}), Status::dtype);
  EXPECT_EQ(check("a", static_cast<Dtype>(99), {}), Status::dtype);
  EXPECT_EQ(check("a", static_cast<Dtype>(kDtypes.size()), {}), Status::dtype);
  EXPECT_EQ(check("a", Dtype::U8, {kHalf, 2}), Status::overflow);
  EXPECT_EQ(check("a", Dtype::U8, {kHalf, kHalf, 0}), Status::overflow);
  EXPECT_EQ(check("a", Dtype::U8, {0, kHalf, kHalf}), Status::ok);
  EXPECT_EQ(check("a", Dtype::F64, {kHalf >> 2}), Status::overflow);
  EXPECT_EQ(check("a", Dtype::F4, {3}), Status::misaligned);
  EXPECT_EQ(check("a", Dtype::F6_E2M3, {2}), Status::misaligned);
  EXPECT_EQ(check("a", Dtype::F6_E2M3, {4}), Status::ok);
  EXPECT_EQ(status_of([] { check_metadata("\xC0\x80", "v"); }), Status::utf8);
  EXPECT_EQ(status_of([] { check_metadata("k", "\x80"); }), Status::utf8);
  EXPECT_EQ(status_of([] {
              check_tensor_of(Format::safetensors, {"__metadata__", {}, 0, 4, Dtype::F32});
            }),
            Status::argument);
}

TEST(Serialize, says_how_much_is_too_much) {
  const auto message_of = [](auto&& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.message;
    }
    return {};
  };
  const std::uint64_t dims[] = {UINT64_MAX, 2};
  EXPECT_NE(message_of([&] { check_tensor("a", Dtype::U8, dims); }).find("its 2 dimensions"), std::string::npos);
  NewHeader header;
  header.reserve = UINT64_MAX;
  EXPECT_NE(message_of([&] { serialize(header); }).find(" 18446744073709551615 bytes"), std::string::npos);
}

TEST(Serialize, refuses_a_header_that_no_reader_would_take) {
  const auto with_reserve = [](std::uint64_t reserve, std::uint64_t alignment = 8) {
    return status_of([&] {
      NewHeader header;
      header.reserve = reserve;
      header.data_alignment = alignment;
      serialize(header);
    });
  };
  EXPECT_EQ(with_reserve(kMaxHeaderBytes - 2), Status::ok);  // exactly the limit, which is a multiple of 8
  EXPECT_EQ(with_reserve(kMaxHeaderBytes - 1), Status::header_size);
  EXPECT_EQ(with_reserve(kMaxHeaderBytes - 2, 4096), Status::header_size);
  EXPECT_EQ(with_reserve(UINT64_MAX), Status::header_size);
}

// ---- new metadata for an existing header: nothing else changes, and the data stays aligned ---------------------------

struct SpliceCase {
  const char* name;
  std::string_view before;
  std::string_view after;  // with the length's 8 bytes cut off
  std::uint64_t reserve = 0;
};

TEST(SpliceMetadata, changes_the_metadata_and_nothing_else) {
  const std::vector<MetadataPair> pairs{{"k", "v"}};
  const SpliceCase cases[] = {
      {"value of the same length", R"({"__metadata__":{"k":"w"},"t":{}})", R"({"__metadata__":{"k":"v"},"t":{}})"},
      {"of the same length, room at the end", R"({"__metadata__":{"k":"w"},"t":{}}  )",
       R"({"__metadata__":{"k":"v"},"t":{}}  )"},
      {"room in front and at the end", R"(       {"__metadata__":{},"t":{}}  )",
       R"({"__metadata__":{"k":"v"},"t":{}}  )"},
      {"just enough room at the end, reserve", R"({"__metadata__":{},"t":{}}       )",
       R"({"__metadata__":{"k":"v"},"t":{}})", 10},
      {"no room, not the first", R"( {"t":{},"__metadata__":{}})", R"( {"t":{},"__metadata__":{"k":"v"}})"},
      {"shorter", R"({"__metadata__":{"k":"long"},"t":{}})", R"({"__metadata__":{"k":"v"}   ,"t":{}})"},
      {"room behind it", R"({"__metadata__":{}         ,"t":{}})", R"({"__metadata__":{"k":"v"}  ,"t":{}})"},
      {"not the first", R"({"t":{ "x" : [1, 2] }, "__metadata__" : {"k":"long"}, "u":{}})",
       R"({"t":{ "x" : [1, 2] },"__metadata__":{"k":"v"}      , "u":{}})"},
      {"the last", R"({"t":{},"__metadata__":{}       })", R"({"t":{},"__metadata__":{"k":"v"}})"},
      {"none, with room", "{                            \"t\":{}}", R"({"__metadata__":{"k":"v"},   "t":{}})"},
      {"none, alone, with room", "{                                }", R"({"__metadata__":{"k":"v"}        })"},
      {"none, alone, room behind", "{}                              ", R"({"__metadata__":{"k":"v"}      })"},
      {"room in front of it all", "           {\"__metadata__\":{},\"t\":{}}",
       R"({"__metadata__":{"k":"v"}    ,"t":{}})"},
      {"null", R"({"__metadata__":null         ,"t":{}})", R"({"__metadata__":{"k":"v"}    ,"t":{}})"},
      {"room at the end", R"({"__metadata__":{},"t":{}}        )", R"({"__metadata__":{"k":"v"} ,"t":{}})"},
      {"no room", R"({"__metadata__":{},"t":{}}      )", R"({"__metadata__":{"k":"v"},"t":{}}       )"},
      {"no room, reserve", R"({"__metadata__":{},"t":{}}      )", R"({"__metadata__":{"k":"v"}               ,"t":{}})",
       10},
      {"room behind the comma", R"({"__metadata__":{},          "t":{}})", R"({"__metadata__":{"k":"v"},   "t":{}})"},
      {"room on both sides of the comma", R"({"__metadata__":{}   ,    "t":{}})",
       R"({"__metadata__":{"k":"v"},"t":{}})"},
      {"room behind the comma, not the first", R"({"t":{},"__metadata__":{},       "u":{}})",
       R"({"t":{},"__metadata__":{"k":"v"},"u":{}})"},
      {"no room behind the comma", R"({"__metadata__":{},      "t":{}})", R"({"__metadata__":{"k":"v"},      "t":{}})"},
      {"room behind the comma of another", R"({"t":{},        "__metadata__":{"k":"wxyz"}})",
       R"({"t":{},"__metadata__":{"k":"v"}           })"},
      {"the last, of the same length, spaces at the end", R"({"t":{},"__metadata__":{"k":"w"}}  )",
       R"({"t":{},"__metadata__":{"k":"v"}}  )"},
      {"room in front of it all, spaces at the end", "       {\"__metadata__\":{},\"t\":{}}  ",
       R"({"__metadata__":{"k":"v"},"t":{}}  )"},
      {"room in front of it all, not the first", R"(       {"t":{},"__metadata__":{}})",
       R"(       {"t":{},"__metadata__":{"k":"v"}})"},
      {"just enough room at the end", R"({"__metadata__":{},"t":{}}       )", R"({"__metadata__":{"k":"v"},"t":{}})",
       10},
      {"name with an escape", R"({"__met\u0061data__":{"k":"w"},"t":{}})", R"({"__metadata__":{"k":"v"}     ,"t":{}})"},
  };
  for (const SpliceCase& c : cases) {
    const std::string bytes = splice_metadata(Format::safetensors, c.before, {pairs, 8, c.reserve});
    std::string after(c.after);
    if (bytes.size() > 8 + c.before.size()) after.resize(bytes.size() - 8, ' ');
    EXPECT_EQ(bytes.substr(8), after) << c.name;
    EXPECT_EQ(static_cast<unsigned char>(bytes[0]), bytes.size() - 8) << c.name;
  }
}

TEST(SpliceMetadata, keeps_the_alignment_of_the_data) {
  const std::string value(5000, 'x');
  const std::vector<MetadataPair> pairs{{"k", value}};
  const std::string before = R"({"t":{}})" + std::string(4096 - 8 - 8, ' ');
  const std::string bytes = splice_metadata(Format::safetensors, before, {pairs, 4096, 0});
  EXPECT_EQ(bytes.size(), 8192U);
}

}  // namespace
}  // namespace st::format::serialize_test
