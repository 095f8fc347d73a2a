// The order of the checks is the order of docs/format.md 1.1, because the first that fails names the error.
// SPDX-License-Identifier: Apache-2.0
#include "format/header.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "format/containers.hpp"

namespace st::format {

namespace {

const Container& writable(Format format) {
  const Container* const container = container_of(format);
  if (container == nullptr) fail(Status::unsupported, "there is no format {}", static_cast<unsigned>(format));
  if (container->append == nullptr) fail(Status::unsupported, "{} files cannot be written", container->name);
  return *container;
}

// An upper estimate for common names: growing a string of megabytes costs more than unused bytes.
std::size_t expected_bytes(const NewHeader& header) {
  auto bytes = static_cast<std::size_t>(kLengthBytes + header.reserve + header.data_alignment + 32);
  for (const MetadataPair& pair : header.metadata) bytes += pair.key.size() + pair.value.size() + 8;
  for (const NewTensor& tensor : header.tensors) bytes += tensor.name.size() + 100 + 8 * tensor.shape.size();
  return bytes;
}

// What no container recognizes gets the errors of safetensors.
const Container& read_as(const Container* recognized) {
  return recognized == nullptr ? *container_of(Format::safetensors) : *recognized;
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

void survey_header(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings) {
  const Container& container = read_as(header.empty() ? nullptr : recognize(header.front(), options.rules));
  if (container.survey != nullptr) container.survey(header, file_size, options, findings);
}

void restore_header(std::span<const char> header, const Table& table, char* out) {
  std::copy(header.begin(), header.end(), out);
  container_of(table.format)->restore(header, table, {out, header.size()});
}

void require_writable(std::int64_t format_number) {
  const auto format = static_cast<Format>(format_number);
  if (static_cast<std::int64_t>(format) != format_number)
    fail(Status::unsupported, "there is no format {}", format_number);
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

std::string splice_metadata(Format format, std::string_view header, const MetadataSplice& splice) {
  const Container* const container = container_of(format);
  if (container->splice_metadata == nullptr) {
    fail(Status::unsupported, "the metadata of {} files cannot be edited", container->name);
  }
  return container->splice_metadata(header, splice);
}

}  // namespace st::format
