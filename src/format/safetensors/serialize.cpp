// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/serialize.hpp"

#include "base/compiler.hpp"
#include "base/error.hpp"
#include "format/json/json_writer.hpp"

namespace st::format::safetensors {

namespace {

constexpr std::size_t kAhead = 8;

void append_entry(std::string& out, const NewTensor& tensor) {
  json::append_string(out, tensor.name);
  out += R"(:{"dtype":")";
  out += info(tensor.dtype).name;
  out += R"(","shape":[)";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) out += ',';
    json::append_number(out, tensor.shape[i]);
  }
  out += R"(],"data_offsets":[)";
  json::append_number(out, tensor.begin);
  out += ',';
  json::append_number(out, tensor.end);
  out += "]}";
}

}  // namespace

void check(const NewTensor& tensor) {
  if (tensor.name == "__metadata__") fail(Status::argument, "a tensor cannot be called '__metadata__'");
}

void append_metadata(std::string& out, std::span<const MetadataPair> metadata) {
  out += R"("__metadata__":{)";
  bool first = true;
  for (const MetadataPair& pair : metadata) {
    if (!first) out += ',';
    first = false;
    json::append_string(out, pair.key);
    out += ':';
    json::append_string(out, pair.value);
  }
  out += '}';
}

// White space behind the metadata, not at the end: an edit that finds room there leaves every tensor's entry where
// it is, and so changes bytes of one block only. See core/edit.hpp.
void append_header(std::string& out, const NewHeader& header) {
  out += '{';
  if (header.has_metadata) append_metadata(out, header.metadata);
  out.append(static_cast<std::size_t>(header.reserve), ' ');
  bool first = !header.has_metadata;
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    // Names lie in the order in which they were declared, which is not this one: each would be a wait for memory.
    if (i + kAhead < header.tensors.size()) prefetch(header.tensors[i + kAhead].name.data());
    if (!first) out += ',';
    first = false;
    append_entry(out, header.tensors[i]);
  }
  out += '}';
}

}  // namespace st::format::safetensors
