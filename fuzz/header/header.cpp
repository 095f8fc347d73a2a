// Any bytes as a file: reading its header must never fault, and what it says must hold, by every set of rules.
//
// Not only crashes are looked for. Whatever is accepted is checked again here, by other means; whatever is refused must
// be explained; and the sets of rules must agree where one includes the other.
// SPDX-License-Identifier: Apache-2.0
#include "format/header.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../fuzz.hpp"
#include "base/error.hpp"
#include "format/bintensors/decode.hpp"
#include "format/finding.hpp"
#include "format/utf8.hpp"

namespace {

using fuzz::require;
using st::format::HeaderOptions;
using st::format::Rules;

__extension__ using Wide = unsigned __int128;

struct Reading {
  std::unique_ptr<char[]> header;  // exactly N bytes and the padding, so that a sanitizer sees what lies beyond
  std::size_t length = 0;
  st::format::Table table{std::pmr::new_delete_resource()};
  bool accepted = false;
  st::Status status = st::Status::ok;
  std::uint64_t offset = 0;
  std::string message;
};

// ---- what was accepted --------------------------------------------------------------------------------------------------

void check_tensor(const st::format::Tensor& tensor) {
  require(tensor.name_text[tensor.name_bytes] == '\0', "a name ends with a NUL");
  require(st::format::is_utf8(tensor.name()), "a name is UTF-8");
  require(tensor.end >= tensor.begin, "a tensor ends after it begins");
  require(tensor.dtype_name() != nullptr, "a dtype has a name");
  if (tensor.dtype() == st::Dtype::unknown) return;
  require(st::info(tensor.dtype()).name == tensor.dtype_name(), "a dtype's name is its own");
  Wide elements = 1;
  for (const std::uint64_t dim : tensor.shape()) {
    elements *= dim;
    require(elements >> 64 == 0, "the product of a shape fits");
  }
  const Wide bits = elements * st::info(tensor.dtype()).bits;
  require(bits >> 64 == 0, "the number of bits fits");
  require(bits == static_cast<Wide>(tensor.bytes()) * 8, "a tensor is as long as its shape says");
}

void check_chain(const st::format::Table& table, std::uint64_t file_size) {
  std::uint64_t end = 0;
  for (const st::format::Tensor& tensor : table.tensors) {
    require(tensor.begin == end, "tensors follow one another");
    check_tensor(tensor);
    end = tensor.end;
  }
  require(end == file_size - table.data_begin, "tensors cover the data to its last byte");
}

void check_index(const st::format::Table& table) {
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const std::string_view name = table.tensors[i].name();
    require(table.index.find(table.tensors.data(), name) == i, "a tensor is found by its name");
    const std::string longer = std::string(name) + "\x01 no tensor is called so";
    require(table.index.find(table.tensors.data(), longer) == table.index.kNone, "an absent name is not found");
  }
  for (std::size_t i = 0; i < table.metadata.size(); ++i) {
    const st::format::MetadataPair& pair = table.metadata[i];
    require(pair.key.data()[pair.key.size()] == '\0' && pair.value.data()[pair.value.size()] == '\0',
            "text ends with a NUL");
    require(table.metadata_index.find(table.metadata.data(), pair.key) == i, "a metadata pair is found by its key");
  }
  require(table.metadata.empty() || table.has_metadata, "metadata is not there by chance");
}

void check_accepted(const Reading& reading, std::string_view file) {
  require(reading.length <= st::format::kMaxHeaderBytes, "the header is within its limit");
  require(reading.table.data_begin == 8 + reading.length, "the data begins behind the header");
  check_chain(reading.table, file.size());
  check_index(reading.table);
  std::string raw(reading.length, '?');
  st::format::restore_header({reading.header.get(), reading.length}, reading.table, raw.data());
  require(raw == file.substr(8, reading.length), "the raw header is the file's");
}

// ---- what was refused ---------------------------------------------------------------------------------------------------

void check_words(const st::Error& error, std::string_view file) {
  const auto number = static_cast<int>(error.status);
  require(number >= 300 && number < 400, "a refusal blames the file");
  require(error.offset <= file.size() || error.offset == st::kNowhere, "a refusal points into the file");
  require(!error.message.empty(), "a refusal has words");
  for (const char c : error.message)
    require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F, "a message is one line");
}

void check_refused(const st::Error& error, std::string_view file) {
  check_words(error, file);
  // An offset without a place in the header would send its reader to the wrong byte. Bintensors is not text as a whole.
  if (error.status != st::Status::utf8 || (file[8] == 0 || file[8] == 1)) return;
  require(!st::format::is_utf8(file.substr(8).substr(0, error.offset - 8 + 1)), "the text up to the bad byte is bad");
  require(st::format::is_utf8(file.substr(8, error.offset - 8)), "the text before the bad byte is good");
}

// ---- all faults ----------------------------------------------------------------------------------------------------------

void check_diagnosis(const Reading& reading, std::string_view file, const HeaderOptions& options) {
  if (reading.header == nullptr) return;
  const auto header = std::make_unique<char[]>(reading.length + st::format::kPadding);
  std::copy_n(file.data() + 8, reading.length, header.get());
  st::format::Findings findings;
  st::format::diagnose_header({header.get(), reading.length}, file.size(), options, findings);
  require(findings.empty() == reading.accepted, "what is taken has no fault, and what is refused has one");
  require(findings.size() <= st::format::kMostFindings + 1, "no more is told than fits");
  for (const st::format::Finding& finding : findings) check_words(finding.fault, file);
  if (findings.empty()) return;
  const st::Error& first = findings.front().fault;
  require(first.status == reading.status && first.offset == reading.offset && first.message == reading.message,
          "the first fault is the one that opening reports");
}

// ---- one reading --------------------------------------------------------------------------------------------------------

void read_into(Reading& reading, std::string_view file, const HeaderOptions& options) {
  const std::string_view prefix = file.substr(0, 64);
  reading.length = st::format::find_header({prefix.data(), prefix.size()}, file.size(), options).bytes;
  require(reading.length <= file.size() - 8, "the header is within the file");
  reading.header = std::make_unique<char[]>(reading.length + st::format::kPadding);
  std::copy_n(file.data() + 8, reading.length, reading.header.get());
  st::format::read_header({reading.header.get(), reading.length}, file.size(), options, reading.table);
}

std::unique_ptr<Reading> read(std::string_view file, Rules rules, bool unknown_dtypes = false, std::uint64_t seed = 7) {
  auto reading = std::make_unique<Reading>();
  HeaderOptions options;
  options.rules = rules;
  options.unknown_dtypes = unknown_dtypes;
  options.seed = seed;
  try {
    read_into(*reading, file, options);
    reading->accepted = true;
    check_accepted(*reading, file);
  } catch (const st::Error& error) {
    reading->status = error.status;
    reading->offset = error.offset;
    reading->message = error.message;
    check_refused(error, file);
  }
  check_diagnosis(*reading, file, options);
  return reading;
}

// ---- readings against one another -----------------------------------------------------------------------------------------

bool same_tensor(const st::format::Tensor& a, const st::format::Tensor& b) {
  return a.name() == b.name() && a.begin == b.begin && a.end == b.end &&
         std::string_view(a.dtype_name()) == b.dtype_name() && std::ranges::equal(a.shape(), b.shape());
}

bool same_pair(const st::format::MetadataPair& a, const st::format::MetadataPair& b) {
  return a.key == b.key && a.value == b.value;
}

void require_same(const Reading& a, const Reading& b, const char* what) {
  require(b.accepted, what);
  require(std::ranges::equal(a.table.tensors, b.table.tensors, same_tensor), what);
  require(std::ranges::equal(a.table.metadata, b.table.metadata, same_pair), what);
}

void check(std::string_view file) {
  const auto standard = read(file, Rules::standard);
  const auto strict = read(file, Rules::strict);
  const auto reference = read(file, Rules::reference);
  const auto unknown = read(file, Rules::standard, true);
  const auto again = read(file, Rules::standard, false, 0x9E3779B97F4A7C15);
  if (strict->accepted) require_same(*strict, *standard, "what is accepted strictly is accepted by default");
  // The reference of safetensors reads no bintensors.
  if (standard->accepted && standard->table.format == st::format::Format::safetensors)
    require_same(*standard, *reference, "what is accepted by default is accepted by the reference");
  if (standard->accepted) require_same(*standard, *unknown, "unknown dtypes change nothing where there are none");
  if (standard->accepted) require_same(*standard, *again, "the seed of the index changes nothing");
  require(standard->status == again->status && standard->offset == again->offset, "the seed changes no error");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  check({reinterpret_cast<const char*>(data), size});
  return 0;
}

// The length in front is set right again, or few mutants would come as far as the header. One in four gets as many bytes
// of data as its header claims, which must be few.
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  using st::format::kLengthBytes;
  constexpr std::string_view kOffsets = "\"data_offsets\":[";
  const std::size_t length = size < kLengthBytes ? 0 : data[0] | std::size_t{data[1]} << 8 | std::size_t{data[2]} << 16;
  // libFuzzer adds a byte to an empty text even if there is no room for it.
  if (seed % 8 == 7 || length == 0 || length > size - kLengthBytes) return LLVMFuzzerMutate(data, size, most);
  std::string rest(data + kLengthBytes + length, data + size);
  const std::size_t changed =
      fuzz::mutate_json(data + kLengthBytes, length, most - kLengthBytes - rest.size(), seed / 8);
  const std::string header(data + kLengthBytes, data + kLengthBytes + changed);
  if (seed % 4 == 0) {
    std::uint64_t end = 0;
    for (std::size_t at = header.find(kOffsets); at != header.npos; at = header.find(kOffsets, at + 1)) {
      const std::size_t comma = std::min(header.find(',', at + kOffsets.size()), header.size() - 1);
      end = std::max<std::uint64_t>(end, std::strtoull(header.c_str() + comma + 1, nullptr, 10));
    }
    if (end <= most - kLengthBytes - changed) rest.resize(static_cast<std::size_t>(end));
  }
  for (std::size_t i = 0; i < kLengthBytes; ++i) data[i] = static_cast<std::uint8_t>(i < 3 ? changed >> (8 * i) : 0);
  std::ranges::copy(rest, data + kLengthBytes + changed);
  return kLengthBytes + changed + rest.size();
}
