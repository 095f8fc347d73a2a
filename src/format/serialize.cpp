// SPDX-License-Identifier: Apache-2.0
#include "format/serialize.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"
#include "format/bintensors.hpp"
#include "format/header.hpp"
#include "format/serialize_bintensors.hpp"
#include "format/text.hpp"
#include "format/utf8.hpp"

namespace st::format {

namespace {

constexpr std::size_t kAhead = 8;

void append_entry(std::string& out, const NewTensor& tensor) {
  append_string(out, tensor.name);
  out += R"(:{"dtype":")";
  out += info(tensor.dtype).name;
  out += R"(","shape":[)";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, tensor.shape[i]);
  }
  out += R"(],"data_offsets":[)";
  append_number(out, tensor.begin);
  out += ',';
  append_number(out, tensor.end);
  out += "]}";
}

// White space behind the metadata, not at the end: an edit that finds room there leaves every tensor's entry where
// it is, and so changes bytes of one block only. See core/edit.hpp.
void append_json(std::string& out, const NewHeader& header) {
  out += '{';
  if (header.has_metadata) append_metadata(out, header.metadata);
  out.append(header.reserve, ' ');
  bool first = !header.has_metadata;
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    // Names lie in the order in which they were declared, which is not this one: each would be a wait for memory.
    if (i + kAhead < header.tensors.size()) __builtin_prefetch(header.tensors[i + kAhead].name.data());
    if (!first) out += ',';
    first = false;
    append_entry(out, header.tensors[i]);
  }
  out += '}';
}

// Too much by a little for common names: growing a string of megabytes costs more than its tail.
std::size_t expected_bytes(const NewHeader& header) {
  std::size_t bytes = kLengthBytes + header.reserve + header.data_alignment + 32;
  for (const MetadataPair& pair : header.metadata) bytes += pair.key.size() + pair.value.size() + 8;
  for (const NewTensor& tensor : header.tensors) bytes += tensor.name.size() + 100 + 8 * tensor.shape.size();
  return bytes;
}

[[noreturn]] void fail_text(std::string_view text, std::string_view what) {
  const std::size_t at = first_not_utf8(text);
  fail(Status::utf8, "{} is not UTF-8: byte 0x{:02x} at {} of its {} bytes", what, static_cast<unsigned char>(text[at]),
       at, text.size());
}

}  // namespace

void check_metadata(std::string_view key, std::string_view value) {
  if (!is_utf8(key)) fail_text(key, "a metadata key");
  if (!is_utf8(value)) fail_text(value, "the value of metadata key " + in_quotes(key));
}

std::uint64_t check_tensor(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape) {
  if (!is_utf8(name)) fail_text(name, "a tensor's name");
  if (dtype == Dtype::unknown || static_cast<std::size_t>(dtype) >= kDtypes.size()) {
    fail(Status::dtype, "tensor {}: there is no dtype of number {}", in_quotes(name), static_cast<unsigned>(dtype));
  }
  const auto elements = element_count(shape);
  std::uint64_t bits = 0;
  if (!elements || !checked_mul(*elements, info(dtype).bits, bits)) {
    fail(Status::overflow, "tensor {}: the product of its {} dimensions does not fit in 64 bits", in_quotes(name),
         shape.size());
  }
  if (bits % 8 != 0) {
    fail(Status::misaligned, "tensor {}: {} elements of {} are {} bits, which end inside a byte", in_quotes(name),
         *elements, info(dtype).name, bits);
  }
  return bits / 8;
}

void check_format(Format format, const NewTensor& tensor) {
  if (format == Format::bintensors) return check_bintensors(tensor);
  if (format != Format::safetensors)
    fail(Status::unsupported, "format {} cannot be written", static_cast<unsigned>(format));
  if (tensor.name == "__metadata__") fail(Status::argument, "a tensor cannot be called '__metadata__'");
}

unsigned dtype_order(Format format, Dtype dtype) {
  return 255U - (format == Format::bintensors ? bintensors_code(dtype) : info(dtype).rank);
}

std::string serialize(const NewHeader& header) {
  if (header.reserve > kMaxHeaderBytes) padded_length(header.reserve, header.data_alignment);
  std::string out;
  out.reserve(expected_bytes(header));
  out.resize(kLengthBytes);
  header.format == Format::bintensors ? append_bintensors(out, header) : append_json(out, header);
  const std::uint64_t length = padded_length(out.size() - kLengthBytes, header.data_alignment);
  out.resize(kLengthBytes + length, ' ');
  store_length(out.data(), length);
  return out;
}

}  // namespace st::format
