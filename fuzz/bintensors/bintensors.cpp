// Any bytes as a bintensors header: what is read is written again, and read back equal.
//
// fuzz/header holds for both formats what every table must hold. Here the header is bintensors whatever its first
// byte, so that no input is spent on JSON, and the writer is held against the reader.
// SPDX-License-Identifier: Apache-2.0
#include "format/bintensors/decode.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../fuzz.hpp"
#include "base/error.hpp"
#include "format/header.hpp"

namespace {

using fuzz::require;
using namespace st::format;

struct Reading {
  std::unique_ptr<char[]> header;
  std::size_t length = 0;
  st::format::Table table{std::pmr::new_delete_resource()};
};

// Throws what reading throws.
std::unique_ptr<Reading> read(std::string_view header, std::uint64_t data, Rules rules) {
  auto reading = std::make_unique<Reading>();
  reading->length = header.size();
  reading->header = std::make_unique<char[]>(header.size() + kPadding);
  std::ranges::copy(header, reading->header.get());
  HeaderOptions options;
  options.rules = rules;
  read_header({reading->header.get(), header.size()}, kLengthBytes + header.size() + data, options, reading->table);
  return reading;
}

std::string written(const st::format::Table& table) {
  std::vector<NewTensor> tensors;
  for (const st::format::Tensor& tensor : table.tensors) {
    tensors.push_back({tensor.name(), tensor.shape(), tensor.begin, tensor.end, tensor.dtype()});
    check_tensor_of(st::format::Format::bintensors, tensors.back());
  }
  NewHeader header;
  header.tensors = tensors;
  header.metadata = table.metadata;
  header.has_metadata = table.has_metadata;
  header.format = st::format::Format::bintensors;
  return serialize(header);
}

bool same_tensor(const st::format::Tensor& a, const st::format::Tensor& b) {
  return a.name() == b.name() && a.begin == b.begin && a.end == b.end && a.dtype() == b.dtype() &&
         std::ranges::equal(a.shape(), b.shape()) && a.name_text[a.name_bytes] == '\0';
}

bool same_pair(const st::format::MetadataPair& a, const st::format::MetadataPair& b) {
  return a.key == b.key && a.value == b.value;
}

void check_again(const Reading& first, std::string_view header, std::uint64_t data) {
  std::string raw(header.size(), '?');
  restore_header({first.header.get(), first.length}, first.table, raw.data());
  require(raw == header, "the raw header is the file's");
  const std::string bytes = written(first.table);
  const auto again = read(std::string_view(bytes).substr(kLengthBytes), data, Rules::strict);
  require(again->table.format == st::format::Format::bintensors, "what is written has the current layout");
  require(std::ranges::equal(first.table.tensors, again->table.tensors, same_tensor), "tensors come back");
  require(std::ranges::equal(first.table.metadata, again->table.metadata, same_pair), "metadata comes back");
  require(first.table.has_metadata == again->table.has_metadata, "an empty map comes back as one");
  require(written(again->table) == bytes, "written again, it is the same");
}

}  // namespace

// A file as others have it. Of the length in front only two bytes count: more would mean a file that is cut off.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size <= kLengthBytes) return 0;
  std::string file(reinterpret_cast<const char*>(data), size);
  const std::size_t announced = data[0] | std::size_t{data[1]} << 8;
  const std::size_t length = std::clamp<std::size_t>(announced, 1, size - kLengthBytes);
  file[kLengthBytes] = static_cast<char>(file[kLengthBytes] & 1);
  const std::string_view header = std::string_view(file).substr(kLengthBytes, length);
  const std::uint64_t rest = size - kLengthBytes - length;
  std::unique_ptr<Reading> reading;
  try {
    reading = read(header, rest, Rules::standard);
  } catch (const st::Error& error) {
    require(static_cast<int>(error.status) >= 300 && static_cast<int>(error.status) < 400, "a refusal blames the file");
    require(error.offset <= size, "a refusal points into the file");
    return 0;
  }
  check_again(*reading, header, rest);
  return 0;
}
