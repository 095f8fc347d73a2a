// SPDX-License-Identifier: Apache-2.0
#include "formats.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "error.hpp"

namespace cli::importer {
namespace {

constexpr std::uint64_t kLongestHeader = 100'000'000;  // kMaxHeaderBytes in src/format/header_options.hpp

enum class Format { none, zip, pickle, npy, gguf };

// If the first eight bytes are a valid header length, the file is safetensors or bintensors, even if they look like
// another format.
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
  if (begin == "L1195470") return Format::pickle;  // torch.save's magic number in protocol 1, as text
  const auto protocol = static_cast<unsigned char>(begin[1]);
  return begin[0] == '\x80' && protocol >= 2 && protocol <= 5 ? Format::pickle : Format::none;
}

[[noreturn]] void fail_no_keys() { fail_unsupported(kNoOffset, "--key: only torch checkpoints contain dictionaries"); }

void read_zip(Checkpoint& checkpoint, const std::string& key) {
  if (!reads_zip()) {
    fail_unsupported(kNoOffset, "zip archive, which this build cannot read (ST_ZIP was off)");
  }
  const std::vector<ZipEntry> entries = read_zip_directory(*checkpoint.input, checkpoint.budget);
  const auto has = [&](std::string_view ending) {
    return std::any_of(entries.begin(), entries.end(), [&](auto& entry) { return entry.name.ends_with(ending); });
  };
  constexpr std::uint64_t kEndRecord = 22;  // alone: np.savez without arrays
  const auto is_npz = [&] { return checkpoint.input->size() == kEndRecord || has_arrays(checkpoint, entries); };
  if (has("/data.pkl") || !is_npz()) return read_torch_zip(checkpoint, entries, key);
  if (!key.empty()) fail_no_keys();
  read_npz(checkpoint, entries);
}

}  // namespace

bool is_checkpoint(const Input& input) { return format_of(input) != Format::none; }

Checkpoint read_checkpoint(std::unique_ptr<const Input> input, const ReadOptions& options) {
  const Format format = format_of(*input);
  Checkpoint checkpoint(std::move(input));
  const bool has_keys = format == Format::zip || format == Format::pickle;
  if (!options.key.empty() && !has_keys) fail_no_keys();
  switch (format) {
    case Format::zip: read_zip(checkpoint, options.key); break;
    case Format::pickle: read_torch_stacked(checkpoint, options.key); break;
    case Format::npy: read_npy(checkpoint, options.name); break;
    case Format::gguf: read_gguf(checkpoint); break;
    case Format::none: fail(kNoOffset, "not a checkpoint of torch, numpy or llama.cpp");
  }
  return checkpoint;
}

}  // namespace cli::importer
