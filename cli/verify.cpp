// `safetensors verify PATH...`: reports every error of files and models, and notes about valid ones.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>

#include "app.hpp"
#include "arguments.hpp"
#include "blocks.hpp"
#include "digest.hpp"
#include "failure.hpp"
#include "json.hpp"
#include "output.hpp"
#include "remote.hpp"
#include "system.hpp"
#include "text.hpp"
#include "values.hpp"

namespace cli {
namespace {

constexpr const char* kVerifyNotes =
    "A note is a finding about a valid file, for example unusual alignment, order or formatting.\n"
    "\n"
    "Exit codes:\n"
    "  0  valid\n"
    "  1  a file breaks the format, or its digest does not match\n"
    "  3  a file cannot be read\n"
    "  5  valid, but --values found NaN or infinity\n"
    "\n"
    "Examples:\n"
    "  safetensors verify model.safetensors\n"
    "  safetensors verify shards/ --strict --values\n"
    "  safetensors verify *.safetensors --against SHA256SUMS\n"
    "  safetensors verify lora.safetensors --content DA259DF60E36";

struct VerifyOptions {
  std::vector<std::string> paths;
  std::string sums;
  std::string content;
  bool has_sums = false;  // true even if the name is empty, such as an unset shell variable
  bool has_content = false;
  bool values = false;
  bool strict = false;
  bool json = false;
};

// ---- values and digests

namespace fs = std::filesystem;

// Returns the canonical path, by which files are compared.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real;
}

// Undoes sha256sum's escapes of line breaks and backslashes. A backslash before the digest marks such lines.
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

// A float tensor with NaN, infinite or denormal values.
struct OddValues {
  std::string path;
  std::string tensor;
  std::uint64_t count, nans, infinities, denormals;
};

// A list of digests from sha256sum.
class Sums {
 public:
  // Throws a Failure.
  explicit Sums(const std::string& path);

  // Return an error message if the file does not match, otherwise "". An unlisted index matches.
  std::string fault_of(const safetensors::SafeOpen& file, std::size_t shard) const;
  std::string fault_of_index(const std::string& index) const;

 private:
  bool lists(const std::string& real) const;
  // Compares a file's digest with the list. Some files have a second digest that is also right.
  std::string fault(const std::string& real, const std::string& found, const std::string& also_right) const;

  struct Line {
    std::string digest;
    std::string path;
  };
  std::string shown_;
  std::array<std::vector<Line>, 2> lines_;  // with paths from the folder of the list, and from the working directory
};

// Returns the indexes in a folder, or the path itself if it is an index.
std::vector<std::string> indexes_at(const std::string& path) {
  if (!is_folder(path)) return is_index_name(path) ? std::vector{path} : std::vector<std::string>();
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(path_of(path), error), end; !error && at != end; at.increment(error)) {
    std::string name = text_of(at->path());
    if (is_index_name(name)) found.push_back(std::move(name));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<OddValues> odd_values(const safetensors::SafeOpen& file) {
  std::vector<Source> sources;
  for (const safetensors::Tensor& tensor : file) {
    if (is_float(tensor.dtype)) sources.push_back({file, tensor});
  }
  std::vector<Values> values(sources.size());
  for_each_part(sources, "scanning values", [&](const Part& part) {
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
    if (line.ends_with('\r')) line.pop_back();  // Windows line ends
    if (line.empty()) continue;
    const bool escaped = line.front() == '\\';
    if (escaped) line.erase(0, 1);
    const bool good =
        line.size() > kDigits + 2 && line[kDigits] == ' ' && std::all_of(line.begin(), line.begin() + kDigits, is_hex);
    if (!good) throw Failure{kUsage, formatted("{}: not a sha256sum line: {}", path, shown(line, 60))};
    const std::string digest = lower_case(line.substr(0, kDigits));
    const std::string name = escaped ? unescaped(line.substr(kDigits + 2)) : line.substr(kDigits + 2);
    lines_[0].push_back({digest, text_of(real_path(folder / path_of(name)))});
    if (!folder.empty()) lines_[1].push_back({digest, text_of(real_path(path_of(name)))});
  }
  if (in.bad()) throw Failure{kUnreadable, path + ": cannot be read"};  // opening a folder does not fail
}

bool Sums::lists(const std::string& real) const {
  return std::any_of(lines_.begin(), lines_.end(), [&](const std::vector<Line>& reading) {
    return std::any_of(reading.begin(), reading.end(), [&](const Line& line) { return line.path == real; });
  });
}

std::string Sums::fault(const std::string& real, const std::string& found, const std::string& also_right) const {
  std::string other;
  for (const std::vector<Line>& reading : lines_) {
    const auto is_of_this = [&](const Line& line) { return line.path == real; };
    if (std::none_of(reading.begin(), reading.end(), is_of_this)) continue;
    const auto wrong = std::find_if(reading.begin(), reading.end(), [&](const Line& line) {
      return is_of_this(line) && line.digest != found && line.digest != also_right;
    });
    if (wrong == reading.end()) return "";  // all lines for this file are right
    if (other.empty()) other = wrong->digest;
  }
  return formatted("has the digest {}, expected {}", found, other);
}

std::string Sums::fault_of(const safetensors::SafeOpen& file, std::size_t shard) const {
  const std::string real = text_of(real_path(path_of(std::string(file.shard_path(shard)))));
  if (!lists(real)) return formatted("is not listed in {}", printable(shown_));
  const std::string found = digest_from(file, shard, 0, DigestKind::sha256);
  // For the older bintensors layout, `hash` prints the digest of the data only.
  const std::string of_data = file.format() == ST_FORMAT_BINTENSORS_OLD
                                  ? digest_from(file, shard, content_begin(file, shard), DigestKind::sha256)
                                  : found;
  return fault(real, found, of_data);
}

std::string Sums::fault_of_index(const std::string& index) const {
  const std::string real = text_of(real_path(path_of(index)));
  if (!lists(real)) return "";
  std::error_code error;
  if (!fs::is_regular_file(path_of(index), error)) return "is not a regular file";
  std::ifstream in(path_of(index), std::ios::binary);
  Digest digest(DigestKind::sha256);
  std::array<char, 65536> part{};
  while (in.read(part.data(), part.size()) || in.gcount() != 0) {
    digest.add(part.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (!in.eof()) throw Failure{kUnreadable, index + ": cannot be read"};
  const std::string found = hex(digest.finish());
  return fault(real, found, found);
}

// ---- the digest of the content

constexpr std::size_t kSha256Digits = 64;
constexpr std::size_t kSha1Digits = 40;
constexpr std::size_t kAutoV3Digits = 12;  // the first ones of SHA-256

// Returns the digits of a digest in lower case. Throws a Failure if the number of digits is wrong. "0x" before them is
// allowed, because modelspec.hash_sha256 has it.
std::string content_digits(const std::string& text) {
  std::string digits = lower_case(text);
  if (digits.starts_with("0x")) digits.erase(0, 2);
  const std::size_t n = digits.size();
  const bool good = n == kSha256Digits || n == kSha1Digits || n == kAutoV3Digits;
  if (good && std::all_of(digits.begin(), digits.end(), is_hex)) return digits;
  throw Failure{kUsage, formatted("--content: {} is not a digest: expected {}, {} or {} hexadecimal digits",
                                  shown(text, 80), kSha256Digits, kSha1Digits, kAutoV3Digits)};
}

// Returns an error message if the content of the file has a different digest, otherwise "".
std::string content_fault(const safetensors::SafeOpen& file, const std::string& digits) {
  const DigestKind kind = digits.size() == kSha1Digits ? DigestKind::sha1 : DigestKind::sha256;
  const std::string found = digest_from(file, 0, content_begin(file, 0), kind);
  return found.starts_with(digits) ? "" : formatted("has the content digest {}, expected {}", found, digits);
}

// ---- the report

// One line of the output.
struct Row {
  std::string path;
  std::string kind;  // "error", "note", "values"
  std::string message;
  std::optional<std::string> tensor;
  std::optional<std::uint64_t> offset;
  std::string status;
  ExitCode code = kSuccess;
};

// The library checks files completely. At a URL, opening finds the first error.
std::vector<safetensors::Finding> findings_of(const std::string& path) {
  return is_url(path) ? std::vector<safetensors::Finding>() : safetensors::check(path);
}

class Verifier {
 public:
  Verifier(const VerifyOptions& options, Output& out) : options_(options), out_(out) {
    require_local(options.sums, "--against reads");
    if (options.has_sums) sums_.emplace(options.sums);
    if (options.has_content) content_ = content_digits(options.content);
  }

  ExitCode code() const { return code_; }

  void verify(const std::string& path) {
    errors_ = 0;
    bool opens = true;
    try {
      for (const safetensors::Finding& finding : findings_of(path)) {
        add(finding);
        opens = opens && finding.is_note;
      }
      if (opens) look_inside(path);
    } catch (const safetensors::Error& error) {
      report(path, error);
    }
    out_.flush();
  }

 private:
  void add(const safetensors::Finding& finding) {
    const bool counts = !finding.is_note || options_.strict;
    const ExitCode code =
        exit_code_of(safetensors::Error(finding.status, finding.message, UINT64_MAX, finding.os_error));
    add({finding.path, finding.is_note ? "note" : "error", finding.message, finding.tensor, finding.offset,
         st_status_name(finding.status), counts ? code : kSuccess});
  }

  void add(const Row& row) {
    code_ = worse_of(code_, row.code);
    errors_ += row.code != kSuccess && row.code != kDiffers ? 1 : 0;
    if (options_.json) return print_json(row);
    const std::string place = row.offset ? formatted("byte {}, ", *row.offset) : "";
    const std::string status = row.status.empty() ? "" : formatted(" ({}{})", place, row.status);
    out_.print("{}: {}: {}{}\n", printable(row.path), row.kind, printable(row.message), status);
  }

  // Reports a file that cannot be read, as a line on standard error or, with `--json`, as an object. A file on a server
  // may also be invalid, which is a finding.
  void report(const std::string& path, const safetensors::Error& error) {
    const Failure failure = failure_in(path, error);
    const bool is_finding = is_url(path) && failure.code == kBadFile;
    if (!options_.json && !is_finding) {
      code_ = worse_of(code_, complain(failure));
      return;
    }
    add({path, "error", error.what(), {}, error.offset(), std::string(error.status_name()), failure.code});
  }

  void print_json(const Row& row) {
    Json line{{"path", row.path}, {"kind", row.kind}, {"message", row.message}};
    if (row.tensor) line["tensor"] = *row.tensor;
    if (row.offset) line["offset"] = *row.offset;
    if (!row.status.empty()) line["status"] = row.status;
    out_.write(json_text(line) + "\n");
  }

  void look_inside(const std::string& path) {
    st_open_options reading = ST_INIT(st_open_options);
    reading.io = ST_IO_READ;  // a truncated file raises an error, not a signal
    const safetensors::SafeOpen file = open_model(path, reading);
    if (!content_.empty() && file.count_shards() > 1) {
      throw Failure{kUsage,
                    formatted("{}: --content expects one file, not a model of {} shards; name one of the shards", path,
                              file.count_shards())};
    }
    if (!content_.empty()) check_digest(file, 0, content_fault(file, content_));
    if (sums_) check_sums(path, file);
    if (options_.values) {
      for (const OddValues& odd : odd_values(file)) {
        const bool bad = odd.nans != 0 || odd.infinities != 0;
        add({odd.path, "values",
             formatted("tensor {}: {} NaN, {} infinite, {} denormal of {}", shown(odd.tensor, 100), odd.nans,
                       odd.infinities, odd.denormals, odd.count),
             odd.tensor, std::nullopt, "", bad ? kDiffers : kSuccess});
      }
    }
    if (options_.json || errors_ != 0) return;
    std::uint64_t bytes = 0;
    for (std::size_t shard = 0; shard < file.count_shards(); ++shard) bytes += file.shard_size(shard);
    const std::string shards = file.count_shards() > 1 ? formatted("{} shards, ", file.count_shards()) : "";
    out_.print("{}: valid, {}{}, {}\n", printable(path), shards, counted(file.size(), "tensor"), human_bytes(bytes));
  }

  void check_sums(const std::string& path, const safetensors::SafeOpen& file) {
    for (const std::string& index : indexes_at(path)) {
      const std::string fault = sums_->fault_of_index(index);
      if (!fault.empty()) add({index, "error", fault, {}, {}, "", kBadFile});
    }
    for (std::size_t shard = 0; shard < file.count_shards(); ++shard) {
      check_digest(file, shard, sums_->fault_of(file, shard));
    }
  }

  void check_digest(const safetensors::SafeOpen& file, std::size_t shard, const std::string& fault) {
    if (!fault.empty()) add({std::string(file.shard_path(shard)), "error", fault, {}, {}, "", kBadFile});
  }

  const VerifyOptions& options_;
  Output& out_;
  std::optional<Sums> sums_;
  std::string content_;     // the expected digits; empty: any
  std::size_t errors_ = 0;  // of the current path
  ExitCode code_ = kSuccess;
};

}  // namespace

void add_verify(Command& app) {
  const auto options = std::make_shared<VerifyOptions>();
  Command command = app.add_command("verify", "Check files and models completely and report every error");
  command.add_input("PATH", options->paths, "Files, indexes of shards, or model folders").required();
  command.add_flag("--values", options->values, "Read all float tensors and count NaN, infinite and denormal values");
  const Option sums =
      command.add_input("--against", options->sums, "Check digests against a list in the format of sha256sum")
          .shown_as("SHA256SUMS");
  const Option content =
      command.add_option("--content", options->content, "Check the digest of one file, computed without its header")
          .shown_as("DIGEST");
  command.add_flag("--strict", options->strict, "Treat notes as errors");
  command.add_flag("--json", options->json, "Print one JSON object for each finding");
  command.footer(kVerifyNotes);
  command.on_run([options, sums, content] {
    options->has_sums = sums.is_given();
    options->has_content = content.is_given();
    if (options->has_content && options->paths.size() > 1) {
      throw Failure{kUsage, formatted("--content expects one file, not {}", options->paths.size())};
    }
    Output out;
    Verifier verifier(*options, out);
    for (const std::string& path : options->paths) verifier.verify(path);
    if (verifier.code() != kSuccess) throw Failure{verifier.code(), ""};
  });
}

}  // namespace cli
