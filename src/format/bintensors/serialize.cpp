// SPDX-License-Identifier: Apache-2.0
#include "format/bintensors/serialize.hpp"

#include "base/error.hpp"
#include "format/bintensors/codes.hpp"

namespace st::format::bintensors {

namespace {

void append_bytes(std::string& out, std::uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) out += static_cast<char>(value >> 8 * i & 0xFF);
}

// In as few bytes as it fits into.
void append_number(std::string& out, std::uint64_t value) {
  if (value <= 250) return append_bytes(out, value, 1);
  const unsigned size = value <= UINT16_MAX ? 2 : value <= UINT32_MAX ? 4 : 8;
  append_bytes(out, size == 2 ? 0xFB : size == 4 ? 0xFC : 0xFD, 1);
  append_bytes(out, value, size);
}

void append_string(std::string& out, std::string_view text) {
  append_number(out, text.size());
  out += text;
}

void append_entry(std::string& out, const NewTensor& tensor) {
  append_string(out, tensor.name);
  append_number(out, code_of(tensor.dtype));
  append_number(out, tensor.shape.size());
  for (const std::uint64_t dim : tensor.shape) append_number(out, dim);
  append_number(out, tensor.begin);
  append_number(out, tensor.end);
}

}  // namespace

void check(const NewTensor& tensor) {
  if (code_of(tensor.dtype) == kNoCode) {
    fail(Status::unsupported, "tensor {}: bintensors has no dtype {}", in_quotes(tensor.name), info(tensor.dtype).name);
  }
}

void append_header(std::string& out, const NewHeader& header) {
  out += header.has_metadata ? '\1' : '\0';
  if (header.has_metadata) append_number(out, header.metadata.size());
  for (const MetadataPair& pair : header.metadata) {
    append_string(out, pair.key);
    append_string(out, pair.value);
  }
  append_number(out, header.tensors.size());
  for (const NewTensor& tensor : header.tensors) append_entry(out, tensor);
  out.append(static_cast<std::size_t>(header.reserve),
             ' ');  // whatever follows the last entry is padding to every reader
}

}  // namespace st::format::bintensors
