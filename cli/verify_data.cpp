// Values and digests of files whose headers are valid.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "blocks.hpp"
#include "failure.hpp"
#include "formatted.hpp"
#include "path_text.hpp"
#include "system.hpp"
#include "text.hpp"
#include "values.hpp"
#include "verify.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;

// The same file has one such path, whichever way it was spelled.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real;
}

// As sha256sum writes a name with a line break or a backslash, after a backslash in front of the digest.
std::string unescaped(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool escapes = name[i] == '\\' && i + 1 < name.size();
    const char next = escapes ? name[++i] : name[i];
    text += !escapes ? next : next == 'n' ? '\n' : next == 'r' ? '\r' : next;
  }
  return text;
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

std::vector<OddValues> odd_values(const safetensors::SafeOpen& file) {
  std::vector<Source> sources;
  for (const safetensors::Tensor& tensor : file) {
    if (is_float(tensor.dtype)) sources.push_back({file, tensor});
  }
  std::vector<Values> values(sources.size());
  for_each_part(sources, "looking at values", [&](const Part& part) {
    add_values(sources[part.source].tensor.dtype, part.bytes, values[part.source]);
  });
  std::vector<OddValues> odd;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Values& found = values[i];
    if (found.nans + found.infinities + found.denormals == 0) continue;
    const safetensors::Tensor& tensor = sources[i].tensor;
    odd.push_back({std::string(file.shard_path(tensor.shard())), std::string(tensor.name), found.count, found.nans,
                   found.infinities, found.denormals});
  }
  return odd;
}

Sums::Sums(const std::string& path) : shown_(path) {
  constexpr std::size_t kDigits = 64;
  std::ifstream in(path_of(path));
  if (!in) throw Failure{kUnreadable, path + ": cannot be read"};
  const fs::path folder = path_of(path).parent_path();
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();  // a list that was written or changed on Windows
    if (line.empty()) continue;
    const bool escaped = line.front() == '\\';
    if (escaped) line.erase(0, 1);
    const bool good =
        line.size() > kDigits + 2 && line[kDigits] == ' ' && std::all_of(line.begin(), line.begin() + kDigits, is_hex);
    if (!good) throw Failure{kUsage, formatted("{}: line {} is none of sha256sum's", path, shown(line, 60))};
    std::string digest = line.substr(0, kDigits);
    std::transform(digest.begin(), digest.end(), digest.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string name = escaped ? unescaped(line.substr(kDigits + 2)) : line.substr(kDigits + 2);
    lines_.push_back({digest, text_of(real_path(folder / path_of(name)))});
    if (!folder.empty()) lines_.push_back({digest, text_of(real_path(path_of(name)))});
  }
  if (in.bad()) throw Failure{kUnreadable, path + ": cannot be read"};  // a folder can be opened
}

std::string Sums::fault_of(const safetensors::SafeOpen& file, std::size_t shard) const {
  const std::string path = text_of(real_path(path_of(std::string(file.shard_path(shard)))));
  const auto line = std::find_if(lines_.begin(), lines_.end(), [&](const Line& each) { return each.path == path; });
  if (line == lines_.end()) return formatted("is not listed in {}", printable(shown_));
  const auto digest_from = [&](std::uint64_t begin) {
    Digest digest(DigestKind::sha256);
    for_each_part(file, shard, begin, "hashing",
                  [&](const Part& part) { digest.add(part.bytes.data(), part.bytes.size()); });
    return hex(digest.finish());
  };
  const std::string found = digest_from(0);
  if (found == line->digest) return "";
  // The digest of an older bintensors that `hash` prints is that of the data.
  const bool is_old = file.format() == ST_FORMAT_BINTENSORS_OLD;
  return is_old && digest_from(8 + file.header(shard).size()) == line->digest
             ? ""
             : formatted("has the digest {}, not {}", found, line->digest);
}

}  // namespace cli
