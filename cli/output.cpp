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

#include "arguments.hpp"
#include "base/error.hpp"
#include "failure.hpp"
#include "text.hpp"

namespace cli {
namespace {

void refuse_terminal(const std::string& path) {
  if (is_terminal(path))
    throw Failure{kUsage, "refusing to write raw bytes to a terminal: redirect the output, or pipe it through cat"};
}

// Returns "model-of-00003.safetensors" for each shard of a numbered set, or nothing for other names.
std::string set_of(const std::string& name) {
  const std::size_t of = name.rfind("-of-");
  if (of == std::string::npos || of == 0) return "";
  const std::size_t dash = name.find_last_not_of("0123456789", of - 1);
  if (dash == std::string::npos || dash + 1 == of || name[dash] != '-') return "";
  return name.substr(0, dash) + name.substr(of);
}

std::string folder_of(const std::string& path) {
  const std::string folder = path.substr(0, path.size() - file_name(path).size());
  return folder.empty() ? "." : folder;
}

[[noreturn]] void fail_on_standard_output(int os_error) {
  if (is_closed_pipe(os_error) && readers_may_leave()) throw closed_pipe();
  throw Failure{kUnreadable, "standard output: " + st::os_error_text(os_error)};
}

// Returns whether two names lead to one file. A file seen through another mount, such as bindfs or overlayfs, has another
// device there, and the rest is the same.
bool is_same_file(const st::io::Identity& a, const st::io::Identity& b) {
  st::io::Identity moved = b;
  moved.device = a.device;
  return a.same_file(b) || a == moved;
}

// Runs a call of the library's internals, and converts the errors that it throws.
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
  if (errno == EPIPE && readers_may_leave()) throw closed_pipe();
  throw Failure{kUnreadable, std::string("standard output: ") + std::strerror(errno)};
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

Inputs::Inputs(const std::string& path, const safetensors::SafeOpen& file) {
  for (std::size_t i = 0; i < file.count_shards(); ++i) {
    paths_.emplace_back(file.shard_path(i));
  }
  paths_.push_back(path);
  std::error_code error;
  for (std::filesystem::directory_iterator at(path_of(path), error), end; !error && at != end; at.increment(error)) {
    const std::filesystem::path& index = at->path();
    if (index.extension() == ".json" && index.stem().extension() == ".index") paths_.push_back(text_of(index));
  }
}

void Inputs::add(const Inputs& others) { paths_.insert(paths_.end(), others.paths_.begin(), others.paths_.end()); }

bool Inputs::contain(const std::string& path) const {
  const auto output = identity_of(path);
  return output && std::any_of(paths_.begin(), paths_.end(), [&](const std::string& input) {
           const auto found = identity_of(input);
           return found && is_same_file(*found, *output);
         });
}

bool Inputs::have_sibling(const std::string& path) const {
  const std::string set = set_of(file_name(path));
  const auto folder = identity_of(folder_of(path));
  return !set.empty() && folder && std::any_of(paths_.begin(), paths_.end(), [&](const std::string& input) {
    if (set_of(file_name(input)) != set) return false;
    const auto found = identity_of(folder_of(input));
    return found && is_same_file(*found, *folder);
  });
}

// ---- files ----------------------------------------------------------------------------------------------------------

void declare_replace(Command& command, bool& replace) {
  const Option yes = command.add_flag("--replace", replace, "Replace the output file if it exists");
  command.add_flag("--no-replace", "Fail if the output file exists (the default)").excludes(yes);
}

void require_no_replace(const std::string& folder, bool replace) {
  if (replace) throw Failure{kUsage, folder + ": --replace is for a single file; remove the files of a folder first"};
}

void check_output(const std::string& path, const Inputs& inputs, bool may_be_input, bool replace) {
  const bool is_input = inputs.contain(path);
  if (is_input && (!may_be_input || is_stream(path))) throw Failure{kUsage, path + ": is also an input"};
  if (!is_input && inputs.have_sibling(path)) throw Failure{kUsage, path + ": belongs to the model of an input"};
  refuse_terminal(path);
  if (!replace && !is_stream(path) && exists(path)) {
    throw Failure{kUnreadable, path + ": already exists; --replace replaces it"};
  }
}

OutputFile::OutputFile(const std::string& path, bool replace) {
  if (!is_stream(path)) guard_.emplace();
  st::io::CreateOptions options;
  options.replace = replace || is_stream(path);
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

void note_hidden(const std::string& path) {
  const std::string index = path + ".index.json";
  if (is_stream(path) || !exists(index)) return;
  std::fprintf(stderr, "safetensors: note: opening the directory opens %s, not the new file\n",
               printable(index).c_str());
}

void check_new_files(const std::string& folder, const std::vector<std::string>& names) {
  const auto is_new = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const std::string& name : names) {
    const std::string path = in_folder(folder, name);
    if (exists(path)) throw Failure{kUnreadable, path + ": already exists"};
    const std::string index = path + ".index.json";
    if (!is_new(name + ".index.json") && exists(index)) {
      throw Failure{kUnreadable, formatted("{}: already exists, and would hide the new {}", index, name)};
    }
  }
}

NewFiles::NewFiles(const std::string& folder, const std::vector<std::string>& names) : folder_(folder) {
  check_new_files(folder, names);
  for (const std::string& name : names) paths_.push_back(in_folder(folder, name));
  const auto make = [&](const std::string& path) {
    if (make_folder(path)) folders_.made.push_back(path);
  };
  std::vector<std::filesystem::path> missing;
  for (auto at = path_of(folder).parent_path(); at.has_relative_path() && !exists(text_of(at)); at = at.parent_path()) {
    missing.push_back(at);
  }
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) make(text_of(*at));
  make(folder);
  for (const std::string& name : names) {
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      make(in_folder(folder, name.substr(0, slash)));
    }
  }
}

NewFiles::Folders::~Folders() {
  for (std::size_t i = made.size(); i-- > 0;) remove_folder(made[i]);
}

// Removes only the files that this process made: another process may have replaced one. It ignores the change
// time, because a FUSE mount may report an outdated one.
NewFiles::~NewFiles() {
  for (std::size_t i = made_.size(); i-- > 0;) {
    const auto now = identity_of(paths_[i]);
    if (now && made_[i] && now->same_bytes(*made_[i])) remove_file(paths_[i]);
  }
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
  folders_.made.clear();
  try {
    const safetensors::SafeOpen opened(folder_);
    const std::string shard(opened.shard_path(0));
    const auto found = identity_of(shard);
    const bool is_new = std::any_of(paths_.begin(), paths_.end(), [&](const std::string& path) {
      const auto made = identity_of(path);
      return made && found && made->same_file(*found);
    });
    if (is_new) return;
    std::fprintf(stderr, "safetensors: note: opening the directory opens %s, not the new model\n",
                 printable(shard).c_str());
  } catch (const safetensors::Error&) {
    std::fprintf(stderr, "safetensors: note: the directory cannot be opened; open the new model by its own path\n");
  }
}

std::string in_folder(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.back() == '/' ? folder + name : folder + "/" + name;
}

}  // namespace cli
