// SPDX-License-Identifier: Apache-2.0
#include "format/header.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "format/length_prefix.hpp"
#include "format/utf8.hpp"

namespace st::format {

namespace {

// Tried in this order to recognize a file.
#ifdef ST_MINIMAL
constexpr std::array kContainers{&safetensors::kContainer};
#else
constexpr std::array kContainers{&safetensors::kContainer, &bintensors::kContainer, &bintensors::kOldContainer};
#endif

// Returns nullptr if there is no such format.
const Container* container_of(Format format) {
  const auto found =
      std::find_if(kContainers.begin(), kContainers.end(), [format](auto* each) { return each->format == format; });
  return found == kContainers.end() ? nullptr : *found;
}

// Returns nullptr if no container recognizes the header. The reference rules accept only safetensors.
const Container* recognize(char first, Rules rules) {
  for (const Container* const container : kContainers) {
    if (container->recognizes(first)) return container;
    if (rules == Rules::reference) return nullptr;
  }
  return nullptr;
}

const Container& writable(Format format) {
  const Container* const container = container_of(format);
  if (container == nullptr) fail(Status::unsupported, "unknown format {}", static_cast<unsigned>(format));
  if (container->append == nullptr) fail(Status::unsupported, "{} files cannot be written", container->name);
  return *container;
}

// Overestimates for typical names, because growing a string of megabytes costs more than unused bytes.
std::size_t expected_bytes(const NewHeader& header) {
  auto bytes = static_cast<std::size_t>(kLengthBytes + header.reserve + header.data_alignment + 32);
  for (const MetadataPair& pair : header.metadata) bytes += pair.key.size() + pair.value.size() + 8;
  for (const NewTensor& tensor : header.tensors) bytes += tensor.name.size() + 100 + 8 * tensor.shape.size();
  return bytes;
}

// A file that no container recognizes gets the errors of safetensors.
const Container& read_as(const Container* recognized) {
  return recognized == nullptr ? safetensors::kContainer : *recognized;
}

[[noreturn]] void fail_text(std::string_view text, std::string_view what) {
  const std::size_t at = first_not_utf8(text);
  fail(Status::utf8, "{} is not UTF-8: byte 0x{:02x} at {} of its {} bytes", what, static_cast<unsigned char>(text[at]),
       at, text.size());
}

}  // namespace

HeaderExtent find_header(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options) {
  const bool has_byte = prefix.size() > kLengthBytes;
  const Container* const container = has_byte ? recognize(prefix[kLengthBytes], options.rules) : nullptr;
  return read_as(container).header_extent(prefix, file_size, options, container != nullptr);
}

void read_header(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table) {
  const Container* const container = header.empty() ? nullptr : recognize(header.front(), options.rules);
  read_as(container).read(header, file_size, options, table);
}

void read_header_again(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table) {
  container_of(table.format)->restore(header, table, header);
  table.clear();
  read_header(header, file_size, options, table);
}

void diagnose_header(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options,
                     Findings& findings) {
  const Container& container = read_as(header.empty() ? nullptr : recognize(header.front(), options.rules));
  if (container.diagnose != nullptr) container.diagnose(header, file_size, options, findings);
}

void restore_header(std::span<const char> header, const Table& table, char* out) {
  std::copy(header.begin(), header.end(), out);
  container_of(table.format)->restore(header, table, {out, header.size()});
}

void check_metadata(std::string_view key, std::string_view value) {
  if (!is_utf8(key)) fail_text(key, "a metadata key");
  if (!is_utf8(value)) fail_text(value, "the value of metadata key " + in_quotes(key));
}

std::uint64_t check_tensor(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape) {
  if (!is_utf8(name)) fail_text(name, "a tensor's name");
  if (dtype == Dtype::unknown || static_cast<std::size_t>(dtype) >= kDtypes.size()) {
    fail(Status::dtype, "tensor {}: unknown dtype number {}", in_quotes(name), static_cast<unsigned>(dtype));
  }
  const auto elements = element_count(shape);
  std::uint64_t bits = 0;
  if (!elements || !checked_mul(*elements, info(dtype).bits, bits)) {
    fail(Status::overflow, "tensor {}: the product of its {} dimensions does not fit in 64 bits", in_quotes(name),
         shape.size());
  }
  if (bits % 8 != 0) {
    fail(Status::misaligned, "tensor {}: {} elements of {} have {} bits, which is not a whole number of bytes",
         in_quotes(name), *elements, info(dtype).name, bits);
  }
  return bits / 8;
}

void require_writable(std::int64_t format_number) {
  const auto format = static_cast<Format>(format_number);
  if (static_cast<std::int64_t>(format) != format_number) fail(Status::unsupported, "unknown format {}", format_number);
  writable(format);
}

void require_alignment(std::uint64_t data_alignment) {
  if (std::has_single_bit(data_alignment) && data_alignment <= kMaxAlignment) return;
  fail(Status::argument, "a data alignment of {} is not a power of two up to {}", data_alignment, kMaxAlignment);
}

void check_tensor_of(Format format, const NewTensor& tensor) { writable(format).check(tensor); }

unsigned dtype_order(Format format, Dtype dtype) { return 255U - writable(format).write_order(dtype); }

std::string serialize(const NewHeader& header) {
  if (header.reserve > kMaxHeaderBytes) padded_length(header.reserve, header.data_alignment);
  std::string out;
  out.reserve(expected_bytes(header));
  out.resize(kLengthBytes);
  writable(header.format).append(out, header);
  const std::uint64_t length = padded_length(out.size() - kLengthBytes, header.data_alignment);
  out.resize(static_cast<std::size_t>(kLengthBytes + length), ' ');
  store_length(out.data(), length);
  return out;
}

void require_editable(Format format) {
  const Container* const container = container_of(format);
  if (container->splice_metadata == nullptr) {
    fail(Status::unsupported, "the metadata of {} files cannot be edited", container->name);
  }
}

std::string splice_metadata(Format format, std::string_view header, const MetadataSplice& splice) {
  require_editable(format);
  return container_of(format)->splice_metadata(header, splice);
}

}  // namespace st::format
