// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "base/error.hpp"
#include "failure.hpp"
#include "text.hpp"

namespace cli {
namespace {

void refuse_terminal(const std::string& path) {
  if (is_terminal(path))
    throw Failure{kUsage, "refusing to write raw bytes to a terminal: redirect the output, or pipe it through cat"};
}

[[noreturn]] void fail_as_input(const std::string& path) { throw Failure{kUsage, path + ": is also an input"}; }

[[noreturn]] void fail_on_standard_output(int os_error) {
  if (is_closed_pipe(os_error) && readers_may_leave()) throw Failure{kSuccess, ""};
  throw Failure{kUnreadable, "standard output: " + st::os_error_text(os_error)};
}

// Runs a call of the library's internals, which throw errors of their own type.
template <class Call>
auto translated(const Call& call) {
  try {
    return call();
  } catch (const st::Error& error) {
    if (error.os_error != 0 && error.message.starts_with("'/dev/stdout'")) fail_on_standard_output(error.os_error);
    throw safetensors::Error(static_cast<st_status>(error.status), error.message, error.offset, error.os_error);
  }
}

}  // namespace

// ---- standard output ------------------------------------------------------------------------------------------------

void Output::write(std::string_view text) {
  if (buffer_.size() + text.size() < kFlushAt) {
    buffer_ += text;
    return;
  }
  flush();
  put(text);
}

void Output::write_number(std::uint64_t number) {
  std::array<char, 20> digits{};  // of 2^64 - 1
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  write({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

void Output::print_text(fmt::string_view text, fmt::format_args args) {
  fmt::vformat_to(std::back_inserter(buffer_), text, args);
  if (buffer_.size() >= kFlushAt) flush();
}

void Output::flush() {
  put(buffer_);
  buffer_.clear();
}

void Output::put(std::string_view text) const {
  if (sink_) return sink_(text);
  errno = 0;
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE && readers_may_leave()) throw Failure{kSuccess, ""};
  throw Failure{kUnreadable, std::string("standard output: ") + std::strerror(errno)};
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

Inputs::Inputs(const std::string& path, const safetensors::SafeOpen& file) : paths_{path} {
  for (std::size_t i = 0; i < file.count_shards(); ++i) paths_.emplace_back(file.shard_path(i));
  std::error_code error;
  for (std::filesystem::directory_iterator at(path_of(path), error), end; !error && at != end; at.increment(error)) {
    const std::filesystem::path& index = at->path();
    if (index.extension() == ".json" && index.stem().extension() == ".index") paths_.push_back(text_of(index));
  }
}

bool Inputs::contain(const std::string& path) const {
  const auto output = identity_of(path);
  return output && std::any_of(paths_.begin(), paths_.end(), [&](const std::string& input) {
           const auto found = identity_of(input);
           return found && found->same_file(*output);
         });
}

void check_output(const std::string& path, const Inputs& inputs, bool is_model) {
  if ((is_model || is_stream(path)) && inputs.contain(path)) fail_as_input(path);
  refuse_terminal(path);
}

// ---- files ----------------------------------------------------------------------------------------------------------

OutputFile::OutputFile(const std::string& path, const Inputs& inputs, bool replace) {
  if (inputs.contain(path)) fail_as_input(path);
  refuse_terminal(path);
  if (!is_stream(path)) guard_.emplace();
  st::io::CreateOptions options;
  options.replace = replace;
  file_ = translated([&] { return st::io::AtomicFile::create(path.c_str(), options); });
}

void OutputFile::write(const void* data, std::size_t size) {
  stop_if_interrupted();
  translated([&] { file_.write_at(position_, data, size); });
  position_ += size;
}

void OutputFile::finish() {
  stop_if_interrupted();
  translated([&] { file_.commit(); });
}

NewFiles::NewFiles(const std::string& folder, const std::vector<std::string>& names) : folder_(folder) {
  for (const std::string& name : names) {
    paths_.push_back(in_folder(folder, name));
    if (exists(paths_.back())) throw Failure{kUnreadable, paths_.back() + ": already exists"};
  }
  new_folder_ = make_folder(folder);
  // Folders of shards below the model's folder are not removed again.
  for (const std::string& name : names) {
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      make_folder(in_folder(folder, name.substr(0, slash)));
    }
  }
}

// Another process may have replaced one of the files.
NewFiles::~NewFiles() {
  for (std::size_t i = made_.size(); i-- > 0;) {
    if (made_[i] && identity_of(paths_[i]) == made_[i]) remove_file(paths_[i]);
  }
  if (new_folder_) remove_folder(folder_);
}

void NewFiles::make_next(const std::function<void()>& write) {
  stop_if_interrupted();
  write();
  count_next();
}

void NewFiles::count_next() { made_.push_back(identity_of(paths_[made_.size()])); }

void NewFiles::keep() {
  stop_if_interrupted();
  made_.clear();
  new_folder_ = false;
}

std::string in_folder(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.back() == '/' ? folder + name : folder + "/" + name;
}

}  // namespace cli
