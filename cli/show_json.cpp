// The JSON of `safetensors show --json`. docs/command.md lists its keys. New versions only add keys.
//
// Non-ASCII characters are \u escapes, so a parser gets the exact name, and a terminal gets no control characters.
// Tensors and metadata are printed one by one. A single tree of millions of values would take gigabytes, and inserting
// into nlohmann's ordered objects takes linear time.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "json.hpp"
#include "show.hpp"

namespace cli {
namespace {

// Fast path: most names need no escape, and there may be a hundred thousand.
void write_text(std::string_view text, Output& out) {
  const auto is_plain = [](char c) { return c >= 0x20 && c <= 0x7E && c != '"' && c != '\\'; };
  if (!std::all_of(text.begin(), text.end(), is_plain)) return out.write(json_text(text));
  out.write("\"");
  out.write(text);
  out.write("\"");
}

// Writes the keys of an object, with commas between the members.
class Members {
 public:
  explicit Members(Output& out) : out_(out) { out_.write("{"); }

  Output& key(std::string_view name) {
    out_.write(first_ ? "" : ",");
    write_text(name, out_);
    out_.write(":");
    first_ = false;
    return out_;
  }

 private:
  Output& out_;
  bool first_ = true;
};

Json json_of(const Total& total) {
  return {{"tensors", total.tensors}, {"parameters", total.parameters}, {"bytes", total.bytes}};
}

void print_shape(safetensors::View<std::uint64_t> shape, Output& out) {
  out.write("[");
  const char* separator = "";
  for (const std::uint64_t dimension : shape) {
    out.write(separator);
    out.write_number(dimension);
    separator = ",";
  }
  out.write("]");
}

void print_tensor(const safetensors::Tensor& tensor, Output& out) {
  Members members(out);
  write_text(tensor.name, members.key("name"));
  write_text(tensor.dtype_name(), members.key("dtype"));
  print_shape(tensor.shape, members.key("shape"));
  members.key("parameters").write_number(tensor.elements());
  members.key("bytes").write_number(tensor.nbytes());
  members.key("offset").write_number(tensor.offset());
  members.key("shard").write_number(tensor.shard());
  out.write("}");
}

void print_shards(const safetensors::SafeOpen& file, Output& out) {
  out.write("[");
  for (std::size_t i = 0; i < file.count_shards(); ++i) {
    const Json shard{{"path", file.shard_path(i)}, {"header_bytes", file.header(i).size()}};
    out.write(i == 0 ? "" : ",");
    out.write(json_text(shard));
  }
  out.write("]");
}

void write_metadata(const safetensors::SafeOpen& file, Output& out) {
  Members members(out);
  for (const auto& [key, value] : file.metadata()) write_text(value, members.key(key));
  out.write("}");
}

void print_dtypes(const Listing& listing, Output& out) {
  Members members(out);
  for (const Total& total : listing.dtypes) members.key(total.dtype).write(json_text(json_of(total)));
  out.write("}");
}

void print_tensors(const Listing& listing, Output& out) {
  out.write("[");
  const char* separator = "\n";
  for (const safetensors::Tensor& tensor : listing.tensors) {
    out.write(separator);
    print_tensor(tensor, out);
    separator = ",\n";
  }
  out.write("]");
}

}  // namespace

void print_json(const Listing& listing, Output& out) {
  Members members(out);
  members.key("path").write(json_text(listing.path));
  print_shards(listing.file, members.key("shards"));
  write_metadata(listing.file, members.key("metadata"));
  members.key("total").write(json_text(json_of(listing.all)));
  print_dtypes(listing, members.key("dtypes"));
  print_tensors(listing, members.key("tensors"));
  out.write("}\n");
}

}  // namespace cli
