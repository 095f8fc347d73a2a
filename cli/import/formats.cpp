// SPDX-License-Identifier: Apache-2.0
#include "formats.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "error.hpp"

namespace cli::importer {
namespace {

constexpr std::uint64_t kLongestHeader = 100'000'000;  // of safetensors and bintensors

enum class Format { none, zip, pickle, npy, gguf };

// If the first eight bytes are a valid header length, the file is safetensors or bintensors, whatever else they look like.
Format format_of(const Input& input) {
  constexpr std::size_t kBytes = 8;
  if (input.size() < kBytes) return Format::none;
  Cursor cursor(input, 0, input.size());
  if (cursor.u64() <= kLongestHeader) return Format::none;
  std::array<char, kBytes> bytes{};
  input.read(0, bytes.data(), bytes.size());
  const std::string_view begin(bytes.data(), bytes.size());
  if (begin.starts_with("PK\x03\x04") || begin.starts_with("PK\x05\x06")) return Format::zip;
  if (begin.starts_with("GGUF")) return Format::gguf;
  if (begin.starts_with("\x93NUMPY")) return Format::npy;
  if (begin == "L1195470") return Format::pickle;  // torch.save's magic number as text, in protocol 1
  const auto protocol = static_cast<unsigned char>(begin[1]);
  return begin[0] == '\x80' && protocol >= 2 && protocol <= 5 ? Format::pickle : Format::none;
}

Checkpoint read_zip(std::unique_ptr<const Input> input) {
  if (!reads_zip()) {
    fail_unsupported(kNoOffset, "zip archive, which this build cannot read (ST_ZIP was off)");
  }
  const std::vector<ZipEntry> entries = read_zip_directory(*input);
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(".npy")) return read_torch_zip(std::move(input), entries);
  }
  return read_npz(std::move(input), entries);
}

}  // namespace

bool is_checkpoint(const Input& input) { return format_of(input) != Format::none; }

Checkpoint read_checkpoint(std::unique_ptr<const Input> input, const std::string& name) {
  switch (format_of(*input)) {
    case Format::zip: return read_zip(std::move(input));
    case Format::pickle: return read_torch_stacked(std::move(input));
    case Format::npy: return read_npy(std::move(input), name);
    case Format::gguf: return read_gguf(std::move(input));
    case Format::none: break;
  }
  fail(kNoOffset, "not a checkpoint of torch, numpy or llama.cpp");
}

}  // namespace cli::importer
