// `safetensors hash FILE`: a digest of the bytes that were opened, by OpenSSL or by Windows.
//
// A file that breaks the format gets no digest, because one that looks right for half a download is worse than none.
// The library reads the bytes, from the same file whose header it has checked.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <vector>

#include "blocks.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "formatted.hpp"
#include "output.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kNotes =
    "The digest is that of the whole file, as sha256sum's. Of bintensors' older layout it is that of the data\n"
    "alone: in both cases what bintensors calls its checksum. Of a model in shards there is a line for each.\n"
    "\n"
    "Examples:\n"
    "  safetensors hash model.safetensors > model.sha256 && sha256sum -c model.sha256\n"
    "  safetensors hash --sha1 model.bt";

struct HashOptions {
  std::vector<std::string> paths;
  bool sha1 = false;
};

std::string digest_of(const safetensors::SafeOpen& file, std::size_t shard, DigestKind kind) {
  const std::uint64_t begin = file.format() == ST_FORMAT_BINTENSORS_OLD ? 8 + file.header(shard).size() : 0;
  Digest digest(kind);
  for_each_part(file, shard, begin, "hashing",
                [&](const Part& part) { digest.add(part.bytes.data(), part.bytes.size()); });
  return hex(digest.finish());
}

// Returns the line that sha256sum writes and reads: in a name, backslashes and ends of lines are escaped, which a
// backslash in front of the digest shows. For a terminal, other control characters are escaped as well.
std::string line_of(const std::string& digest, std::string_view path) {
  if (output_is_terminal()) return formatted("{}  {}\n", digest, printable(path));
  std::string name;
  for (const char c : path) {
    const std::string_view escaped = c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : "";
    escaped.empty() ? name += c : name += escaped;
  }
  return formatted("{}{}  {}\n", name.size() == path.size() ? "" : "\\", digest, name);
}

ExitCode hash(const std::string& path, DigestKind kind, Output& out) {
  try {
    st_open_options options = ST_INIT(st_open_options);
    options.io = ST_IO_READ;  // so that reading a truncated file is an error and not a signal
    const safetensors::SafeOpen file(path, options);
    for (std::size_t shard = 0; shard < file.count_shards(); ++shard) {
      out.write(line_of(digest_of(file, shard, kind), file.shard_path(shard)));
      out.flush();
    }
    return kSuccess;
  } catch (const safetensors::Error& error) {
    return complain(failure_in(path, error));  // and go on with the next file
  }
}

}  // namespace

void add_hash(Command& app) {
  const auto options = std::make_shared<HashOptions>();
  Command command = app.add_command("hash", "Print a digest of a file, after checking it");
  command.add_option("FILE", options->paths, "Files to digest, one line each").required();
  const Option sha1 = command.add_flag("--sha1", options->sha1, "SHA-1, 40 digits");
  command.add_flag("--sha256", "SHA-256, 64 digits (the default)").excludes(sha1);
  command.footer(kNotes);
  command.on_run([options] {
    Output out;
    ExitCode code = kSuccess;
    for (const std::string& path : options->paths) {
      code = std::max(code, hash(path, options->sha1 ? DigestKind::sha1 : DigestKind::sha256, out));
    }
    if (code != kSuccess) throw Failure{code, ""};  // each file's error was printed
  });
}

}  // namespace cli
