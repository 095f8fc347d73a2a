// The JSON of `safetensors show --json`. Keys are only ever added; docs/command.md lists them.
//
// All text beyond ASCII leaves as \u escapes: a parser gets the very name, and a terminal never a control. Tensors
// go out one by one, a line each: as one tree, a million of them would take gigabytes.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "show.hpp"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const safetensors::Tensor& tensor) {
  Json::array_t shape(tensor.shape().begin(), tensor.shape().end());
  return {{"name", tensor.name()},           {"dtype", tensor.dtype_name()}, {"shape", std::move(shape)},
          {"parameters", tensor.elements()}, {"bytes", tensor.nbytes()},     {"offset", tensor.offset()},
          {"shard", tensor.shard()}};
}

Json json_of(const Total& total) {
  return {{"tensors", total.tensors}, {"parameters", total.parameters}, {"bytes", total.bytes}};
}

Json dtypes_of(const Listing& listing) {
  Json dtypes = Json::object();
  for (const Total& total : listing.dtypes) dtypes[total.dtype] = json_of(total);
  return dtypes;
}

Json shards_of(const safetensors::SafeOpen& file) {
  Json shards = Json::array();
  for (std::size_t i = 0; i < file.count_shards(); ++i) {
    shards.push_back({{"path", file.shard_path(i)}, {"header_bytes", file.header(i).size()}});
  }
  return shards;
}

Json metadata_of(const safetensors::SafeOpen& file) {
  Json metadata = Json::object();
  for (const auto& [key, value] : file.metadata()) metadata[key] = value;
  return metadata;
}

// A path may be no UTF-8 and cannot be said in JSON then: its odd bytes become U+FFFD.
std::string text_of(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

}  // namespace

void print_json(const Listing& listing, Output& out) {
  const Json document{
      {"path", listing.path},          {"shards", shards_of(listing.file)}, {"metadata", metadata_of(listing.file)},
      {"total", json_of(listing.all)}, {"dtypes", dtypes_of(listing)},      {"tensors", Json::array()}};
  const std::string frame = text_of(document);
  const std::size_t inside = frame.rfind("]}");
  out.write(std::string_view(frame).substr(0, inside));
  const char* separator = "\n";
  for (const safetensors::Tensor& tensor : listing.tensors) {
    out.write(separator);
    out.write(text_of(json_of(tensor)));
    separator = ",\n";
  }
  out.write(std::string_view(frame).substr(inside));
  out.write("\n");
}

}  // namespace cli
