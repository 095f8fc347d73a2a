// Tokens for every position of window cuts, with every simdjson kernel that runs here, and the positions of errors.
// SPDX-License-Identifier: Apache-2.0
#include "format/json/structure.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "base/error.hpp"
#include "format/header.hpp"
#include "format/shard_index/shard_index.hpp"

namespace st::format::structure_test {
namespace {

// Runs `body` with each kernel, and then again with the initial one.
template <class Body>
void with_every_kernel(const Body& body) {
  const auto* const chosen = &*simdjson::get_active_implementation();
  for (const auto* const kernel : simdjson::get_available_implementations()) {
    if (!kernel->supported_by_runtime_system()) continue;
    simdjson::get_active_implementation() = kernel;
    SCOPED_TRACE(kernel->name());
    body();
  }
  simdjson::get_active_implementation() = chosen;
}

std::vector<char> padded(std::string_view text) {
  std::vector<char> bytes(text.begin(), text.end());
  bytes.resize(text.size() + kPadding);
  return bytes;
}

// The positions of the tokens, followed by the end of the text.
std::vector<std::size_t> tokens_of(std::string_view text, std::size_t window_bytes) {
  std::vector<char> bytes = padded(text);
  json::Structure structure({bytes.data(), text.size()}, window_bytes);
  std::vector<std::size_t> tokens;
  for (;;) {
    structure.peek();
    tokens.push_back(static_cast<std::size_t>(structure.at() - bytes.data()));
    if (structure.next == structure.last) return tokens;
    ++structure.next;
  }
}

TEST(Structure, TokensAreTheSameWhereverWindowsAreCut) {
  std::string text = " {";
  for (int i = 0; i < 40; ++i) {
    text += "\"na,me{" + std::string(static_cast<std::size_t>(i), 'x') +
            "\" :[12, 345678901234567,-1.5e3],\n\t\"\\\"\\\\\":null,";
    text += "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80,\": {\"a\":{},\"b\":true}  ,";
  }
  text += "\"z\":" + std::string(300, '[') + std::string(300, ']') + "}" + std::string(200, ' ');
  const auto expected = tokens_of(text, text.size());
  EXPECT_GT(expected.size(), 1500U);
  with_every_kernel([&] {
    for (std::size_t window = 64; window < 400; ++window) ASSERT_EQ(tokens_of(text, window), expected) << window;
    for (const std::size_t window : {1000U, 4096U, 16384U}) ASSERT_EQ(tokens_of(text, window), expected) << window;
  });
}

TEST(Structure, ATokenLongerThanAWindow) {
  const std::string name(1000, 'n');
  const std::string commas(1000, ',');
  const std::string digits(1000, '1');
  const std::string spaces(1000, ' ');
  const std::string text =
      "{\"" + name + "\":\"" + commas + "\",\"" + spaces + "\":" + digits + spaces + ",\"\\\"" + name + "\\\"\":1}";
  const auto expected = tokens_of(text, text.size());
  with_every_kernel([&] {
    for (std::size_t window = 64; window < 3000; window += 37) ASSERT_EQ(tokens_of(text, window), expected) << window;
  });
}

TEST(Structure, NoTextAndOnlySpace) {
  with_every_kernel([] {
    EXPECT_EQ(tokens_of("", kWindowBytes), std::vector<std::size_t>{0});
    EXPECT_EQ(tokens_of("  ", kWindowBytes), std::vector<std::size_t>{2});
    EXPECT_EQ(tokens_of(std::string(500, ' '), 64), std::vector<std::size_t>{500});
    EXPECT_EQ(tokens_of(std::string(500, ' ') + "1", 64), (std::vector<std::size_t>{500, 501}));
  });
}

// ---- faults ---------------------------------------------------------------------------------------------------------

struct Fault {
  Status status = Status::ok;
  std::uint64_t offset = 0;
  bool operator==(const Fault&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  return out << "status " << static_cast<int>(fault.status) << " at " << fault.offset;
}

template <class Read>
std::optional<Fault> fault_of(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    return Fault{error.status, error.offset};
  }
  return std::nullopt;
}

std::optional<Fault> header_fault(std::string_view header, std::size_t window_bytes) {
  std::vector<char> bytes = padded(header);
  Table table(std::pmr::new_delete_resource());
  HeaderOptions options;
  options.window_bytes = window_bytes;
  return fault_of([&] { read_header({bytes.data(), header.size()}, 8 + header.size(), options, table); });
}

// Errors that the first stage reports for a whole window still have a position.
TEST(Structure, FaultsHaveTheirPlaceWhereverWindowsAreCut) {
  using namespace std::string_view_literals;
  const std::string kLongWord(300, 'x');
  const std::string kOpenAfterLongWord = kLongWord + "\"";
  const std::string before = R"({"__metadata__":{"a,b":"c{","\u00e9":"\\"},)" + std::string(150, ' ');
  struct Case {
    std::string_view rest;
    Status status;
    std::size_t at;  // from the beginning of `rest`
  };
  const Case cases[] = {
      {"\"a\x01\":1}", Status::json, 2},
      {"\"a\\\x01\":1}", Status::json, 2},
      {"\"a\\\xC3\xA9\":1}", Status::json, 2},
      {"\"a\\ud800\":1}", Status::json, 2},
      {"\"open", Status::json, 5},
      {"\"open\\\"", Status::json, 7},
      {"1\"a\":2}", Status::json, 0},
      {"\"a\"\"b\":1}", Status::json, 3},
      {"\"a\"x:1}", Status::json, 3},
      {"\\\"a\":1}", Status::json, 0},
      {"\0\"a\":1}"sv, Status::json, 0},
      {"\x0C\"a\":1}", Status::json, 0},
      {"\"a\"\x1A\"b\"}", Status::json, 3},
      {"\"a\":[\"b\x01\"]}", Status::json, 7},
      {"\"a\":{\"x\":12\"b\"}}", Status::json, 11},
      {"\"a\":{\"x\":nullx}}", Status::json, 13},
      {"\"a\xFF\":1}", Status::utf8, 2},
      {"\"a\\\xFF\":1}", Status::utf8, 3},
      {"x,\"\xE2\x82\"}", Status::utf8, 3},
      {"\"a\x01\":1},\"open\xED\xA0\x80", Status::utf8, 13},
      {"\xC3\xA9:1}", Status::json, 0},
      {kLongWord, Status::json, 0},
      {kOpenAfterLongWord, Status::json, 0},
  };
  with_every_kernel([&] {
    for (const Case& given : cases) {
      const std::string header = before + std::string(given.rest);
      const Fault expected{given.status, 8 + before.size() + given.at};
      for (const std::size_t window : {64U, 65U, 77U, 100U, 200U, 250U, 16384U}) {
        EXPECT_EQ(header_fault(header, window), expected) << given.rest << ", windows of " << window;
      }
    }
  });
}

std::string listed(const Table& table) {
  std::string text;
  for (const Tensor& tensor : table.tensors) {
    text += formatted("{} {} {}..{}", tensor.name(), tensor.dtype_name(), tensor.begin, tensor.end);
    for (const std::uint64_t dim : tensor.shape()) text += formatted(" {}", dim);
    text += '\n';
  }
  for (const MetadataPair& pair : table.metadata) text += formatted("{}={}\n", pair.key, pair.value);
  return text;
}

std::string header_listed(std::string_view text, std::size_t data, std::size_t window_bytes) {
  std::vector<char> bytes = padded(text);
  Table table(std::pmr::new_delete_resource());
  HeaderOptions options;
  options.rules = Rules::reference;
  options.unknown_dtypes = true;
  options.window_bytes = window_bytes;
  read_header({bytes.data(), text.size()}, 8 + text.size() + data, options, table);
  return listed(table);
}

// An entry whose window ends before its last bracket does not take the fast path.
TEST(Structure, EntriesAreTheSameWhereverWindowsAreCut) {
  std::string text = "{";
  for (std::size_t i = 0; i < 40; ++i) {
    const std::string name(1 + i % 9, 'n');
    text += formatted(R"({}"{}{}":{{"dtype":"U8","shape":[1,2],"data_offsets":[{},{}]}})", i == 0 ? "" : ",", name, i,
                      2 * i, 2 * i + 2);
  }
  text += "}";
  const std::string expected = header_listed(text, 80, kWindowBytes);
  for (std::size_t window = 64; window < 300; ++window) {
    ASSERT_EQ(header_listed(text, 80, window), expected) << window;
  }
}

std::string index_listed(std::string_view text) {
  std::vector<char> bytes = padded(text);
  shard_index::Index index(std::pmr::new_delete_resource());
  HeaderOptions options;
  options.window_bytes = 64;
  shard_index::read({bytes.data(), text.size()}, options, index);
  std::string said;
  for (const shard_index::Entry& entry : index.entries)
    said += formatted("{} in {}\n", entry.tensor, index.shards[entry.shard]);
  for (const MetadataPair& pair : index.metadata) said += formatted("{}={}\n", pair.key, pair.value);
  std::erase(said, ' ');  // a value that is no string is kept as it is spelled
  return said;
}

// A grammar that reads the next token without loading its window would read the previous one.
TEST(Structure, AWindowMayEndBeforeAnyToken) {
  constexpr std::string_view kHeader =
      R"({"__metadata__":{"k":"v","\u006c":"w"},"a":{"dtype":"U8","shape":[2,1],"data_offsets":[0,2]},)"
      R"("b":{"dtype":"U8","shape":[1,2],"data_offsets":[2,4]},"c":["U8",[1],[4,5]],)"
      R"("d":{"dtype":{"U8":null},"shape":[],"data_offsets":[5,6]},"e":{"dtype":"U9","shape":[1],"data_offsets":[6,7]},)"
      R"("f":{"x":[1,{"y":[true,"z",-1e3],"\n":{}},[]],"data_offsets":[7,16],"shape":[3,3],"dtype":"U8"}} )";
  constexpr std::string_view kIndex =
      R"({"x":[1],"metadata":{"total_size":12,"a":"b","\u0061c":{"d":[1]}},"weight_map":{"a":"1","b":"2","c":"1"}} )";
  const std::string spaces(200, ' ');
  struct Case {
    std::string_view text;
    std::string (*listed)(std::string_view);
  };
  const auto of_header = [](std::string_view text) { return header_listed(text, 16, 64); };
  for (const Case& given : {Case{kHeader, of_header}, Case{kIndex, index_listed}}) {
    const std::string expected = given.listed(given.text);
    EXPECT_GT(expected.size(), 30U);
    for (const std::size_t at : tokens_of(given.text, given.text.size())) {
      std::string text(given.text);
      text.insert(at, spaces);
      EXPECT_EQ(given.listed(text), expected) << "spaces before " << given.text.substr(at);
    }
  }
}

// Checks follow the order of the format, not the order of the windows.
TEST(Structure, ABadByteManyWindowsBehindAnotherFaultComesFirst) {
  const std::string spaces(500, ' ');
  with_every_kernel([&] {
    for (const std::string_view fault :
         {"x", "[]", "{\"a\":1", "{\"a\":{\"dtype\":\"odd\"", "{\"a\x01", "{\"__metadata__\":1"}) {
      const std::string header = std::string(fault) + spaces + "\x80" + spaces;
      EXPECT_EQ(header_fault(header, 64), (Fault{Status::utf8, 8 + fault.size() + spaces.size()})) << fault;
      std::vector<char> bytes = padded(header);
      shard_index::Index index(std::pmr::new_delete_resource());
      HeaderOptions options;
      options.window_bytes = 64;
      EXPECT_EQ(fault_of([&] {
                  shard_index::read({bytes.data(), header.size()}, options, index);
                }),
                (Fault{Status::utf8, fault.size() + spaces.size()}))
          << fault;
    }
  });
}

}  // namespace
}  // namespace st::format::structure_test
