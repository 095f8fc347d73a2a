// Which kind of checkpoint a file is.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <array>
#include <string_view>

#include "cursor.hpp"
#include "gguf.hpp"
#include "legacy.hpp"
#include "numpy.hpp"
#include "refusal.hpp"
#include "torch.hpp"

namespace cli::legacy {
namespace {

constexpr std::uint64_t kLongestHeader = 100'000'000;

enum class Container { none, zip, pickle, npy, gguf };

// Eight bytes that are the length of a header belong to safetensors or bintensors, whatever else they look like.
Container container_of(const Input& input) {
  constexpr std::size_t kBytes = 8;
  if (input.size() < kBytes) return Container::none;
  Cursor cursor(input, 0, input.size());
  if (cursor.u64() <= kLongestHeader) return Container::none;
  std::array<char, kBytes> bytes{};
  input.read(0, bytes.data(), bytes.size());
  const std::string_view begin(bytes.data(), bytes.size());
  if (begin.starts_with("PK\x03\x04") || begin.starts_with("PK\x05\x06")) return Container::zip;
  if (begin.starts_with("GGUF")) return Container::gguf;
  if (begin.starts_with("\x93NUMPY")) return Container::npy;
  if (begin == "L1195470") return Container::pickle;  // the magic number of torch.save as text, in protocol 1
  const auto protocol = static_cast<unsigned char>(begin[1]);
  return begin[0] == '\x80' && protocol >= 2 && protocol <= 5 ? Container::pickle : Container::none;
}

Checkpoint read_zip(std::unique_ptr<const Input> input) {
  if (!reads_zip()) {
    refuse_type(kNowhere, "is a zip archive, which this build of the command does not read (ST_ZIP was off)");
  }
  const std::vector<ZipEntry> entries = read_zip_directory(*input);
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(".npy")) return read_torch_zip(std::move(input), entries);
  }
  return read_npz(std::move(input), entries);
}

bool is_regular(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

bool is_legacy(const std::string& path) {
  try {
    return is_regular(path) && container_of(Input(path)) != Container::none;
  } catch (const Failure&) {
    return false;
  }
}

Checkpoint read_checkpoint(std::unique_ptr<const Input> input, const std::string& name) {
  switch (container_of(*input)) {
    case Container::zip: return read_zip(std::move(input));
    case Container::pickle: return read_torch_stacked(std::move(input));
    case Container::npy: return read_npy(std::move(input), name);
    case Container::gguf: return read_gguf(std::move(input));
    case Container::none: break;
  }
  refuse(kNowhere, "is no checkpoint of torch, numpy or llama.cpp");
}

}  // namespace cli::legacy
