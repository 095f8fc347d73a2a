// `safetensors verify PATH...`: everything that is wrong with files and models, and what is only unusual.
// SPDX-License-Identifier: Apache-2.0
#include "verify.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "failure.hpp"
#include "formatted.hpp"
#include "output.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kNotes =
    "Notes are about valid files: less alignment, another order or another spelling than writers have.\n"
    "\n"
    "Exit codes:\n"
    "  0  valid\n"
    "  1  a file breaks the format, or has another digest than the list says\n"
    "  3  a file cannot be read\n"
    "  5  valid, but --values has found NaN or infinity\n"
    "\n"
    "Examples:\n"
    "  safetensors verify model.safetensors\n"
    "  safetensors verify shards/ --strict --values\n"
    "  safetensors verify *.safetensors --against SHA256SUMS";

struct VerifyOptions {
  std::vector<std::string> paths;
  std::string sums;
  bool values = false;
  bool strict = false;
  bool json = false;
};

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

class Verifier {
 public:
  Verifier(const VerifyOptions& options, Output& out) : options_(options), out_(out) {
    if (!options.sums.empty()) sums_.emplace(options.sums);
  }

  ExitCode code() const { return code_; }

  void verify(const std::string& path) {
    errors_ = 0;
    bool opens = true;
    try {
      for (const safetensors::Finding& finding : safetensors::check(path)) {
        add(finding);
        opens = opens && finding.is_note;
      }
      if (opens) look_inside(path);
    } catch (const safetensors::Error& error) {
      const Failure failure = failure_in(path, error);
      code_ = worse_of(code_, complain(failure));
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

  void print_json(const Row& row) {
    using Json = nlohmann::ordered_json;
    Json line{{"path", row.path}, {"kind", row.kind}, {"message", row.message}};
    if (row.tensor) line["tensor"] = *row.tensor;
    if (row.offset) line["offset"] = *row.offset;
    if (!row.status.empty()) line["status"] = row.status;
    out_.write(line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
  }

  void look_inside(const std::string& path) {
    st_open_options reading = ST_INIT(st_open_options);
    reading.io = ST_IO_READ;  // so that a truncated file is an error and not a signal
    const safetensors::SafeOpen file(path, reading);
    if (sums_) check_sums(file);
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

  void check_sums(const safetensors::SafeOpen& file) {
    for (std::size_t shard = 0; shard < file.count_shards(); ++shard) {
      const std::string fault = sums_->fault_of(file, shard);
      if (!fault.empty()) add({std::string(file.shard_path(shard)), "error", fault, {}, {}, "", kBadFile});
    }
  }

  const VerifyOptions& options_;
  Output& out_;
  std::optional<Sums> sums_;
  std::size_t errors_ = 0;  // of the last path
  ExitCode code_ = kSuccess;
};

}  // namespace

void add_verify(Command& app) {
  const auto options = std::make_shared<VerifyOptions>();
  Command command = app.add_command("verify", "Tell everything that is wrong with files and models");
  command.add_option("PATH", options->paths, "Files, indexes of shards, or their folders").required();
  command.add_flag("--values", options->values, "Read all tensors, and count NaN, infinities and denormal numbers");
  command.add_option("--against", options->sums, "Compare digests with a list as sha256sum writes it")
      .shown_as("SHA256SUMS");
  command.add_flag("--strict", options->strict, "Notes are errors, too");
  command.add_flag("--json", options->json, "One JSON object for each finding");
  command.footer(kNotes);
  command.on_run([options] {
    Output out;
    Verifier verifier(*options, out);
    for (const std::string& path : options->paths) verifier.verify(path);
    if (verifier.code() != kSuccess) throw Failure{verifier.code(), ""};
  });
}

}  // namespace cli
