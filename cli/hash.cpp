// `safetensors hash FILE`: prints a digest of each file, after checking the file.
//
// An invalid file gets no digest, because the digest of an incomplete download would look right. The bytes come from
// the same open file whose header was checked.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <vector>

#include "app.hpp"
#include "arguments.hpp"
#include "digest.hpp"
#include "failure.hpp"
#include "output.hpp"
#include "remote.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kHashNotes =
    "Prints one line per file, in the format of sha256sum. The digest covers the whole file or, for the older\n"
    "bintensors layout, only the data. For bintensors files, it is the checksum that bintensors defines.\n"
    "\n"
    "With --content, the digest covers everything after the header, so metadata edits do not change it. Other\n"
    "programs call it AutoV3 (its first 12 digits), sshs_model_hash and modelspec.hash_sha256. sha256sum -c cannot\n"
    "check it; `verify --content` can.\n"
    "\n"
    "Examples:\n"
    "  safetensors hash model.safetensors > model.sha256 && sha256sum -c model.sha256\n"
    "  safetensors hash --content lora.safetensors\n"
    "  safetensors hash --sha1 model.bt";

struct HashOptions {
  std::vector<std::string> paths;
  bool sha1 = false;
  bool content = false;
};

// Returns a line in sha256sum's format. Backslashes and line breaks in a name are escaped, and a backslash before the
// digest marks such a line. For a terminal, all control characters are escaped.
std::string line_of(const std::string& digest, std::string_view path) {
  if (output_is_terminal()) return formatted("{}  {}\n", digest, printable(path));
  std::string name;
  for (const char c : path) {
    const std::string_view escaped = c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : "";
    escaped.empty() ? name += c : name += escaped;
  }
  return formatted("{}{}  {}\n", name.size() == path.size() ? "" : "\\", digest, name);
}

ExitCode hash(const std::string& path, const HashOptions& options, Output& out) {
  try {
    st_open_options reading = ST_INIT(st_open_options);
    reading.io = ST_IO_READ;  // a truncated file is an error, and not a signal
    const safetensors::SafeOpen file = open_model(path, reading);
    const DigestKind kind = options.sha1 ? DigestKind::sha1 : DigestKind::sha256;
    const bool content = options.content || file.format() == ST_FORMAT_BINTENSORS_OLD;
    for (std::size_t shard = 0; shard < file.count_shards(); ++shard) {
      const std::string digest = digest_from(file, shard, content ? content_begin(file, shard) : 0, kind);
      out.write(line_of(digest, file.shard_path(shard)));
      out.flush();
    }
    return kSuccess;
  } catch (const safetensors::Error& error) {
    return complain(failure_in(path, error));  // and continue with the next file
  }
}

}  // namespace

void add_hash(Command& app) {
  const auto options = std::make_shared<HashOptions>();
  Command command = app.add_command("hash", "Check files and print their digests");
  command.add_input("FILE", options->paths, "Files or models").required();
  const Option sha1 = command.add_flag("--sha1", options->sha1, "Print SHA-1 digests (40 hex digits)");
  command.add_flag("--sha256", "Print SHA-256 digests (64 hex digits; the default)").excludes(sha1);
  command.add_flag("--content", options->content, "Hash only the bytes after the header");
  command.footer(kHashNotes);
  command.on_run([options] {
    Output out;
    ExitCode code = kSuccess;
    for (const std::string& path : options->paths) {
      code = std::max(code, hash(path, *options, out));
    }
    if (code != kSuccess) throw Failure{code, ""};  // the errors are already printed
  });
}

}  // namespace cli
