// The output of commands: text on standard output, single files, and the files of a new model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <safetensors/safetensors.hpp>

#include "io/atomic_file.hpp"
#include "system.hpp"

namespace cli {

class Command;

// Buffered text for standard output. Reports every error.
class Output {
 public:
  using Sink = std::function<void(std::string_view)>;

  Output() = default;
  explicit Output(Sink sink) : sink_(std::move(sink)) {}  // replaces standard output

  template <class... Args>
  void print(fmt::format_string<Args...> text, const Args&... args) {
    print_text(text, fmt::make_format_args(args...));
  }
  void write(std::string_view text);
  void write_number(std::uint64_t number);

  // Throws a Failure. It is silent if the reader has closed the pipe (`| head`).
  void flush();

 private:
  void print_text(fmt::string_view text, fmt::format_args args);
  void put(std::string_view text) const;

  static constexpr std::size_t kFlushAt = 1 << 16;
  std::string buffer_;
  Sink sink_;
};

// The files that a command reads.
class Inputs {
 public:
  Inputs() = default;
  explicit Inputs(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  // The path, the shards, and every index in the folder, because the library does not report which index it has opened.
  Inputs(const std::string& path, const safetensors::SafeOpen& file);

  void add(const Inputs& others);

  // Returns whether a path leads to one of these files.
  bool contain(const std::string& path) const;
  // Returns whether a path is in the same numbered set as one of them, for example model-00002-of-00003 and
  // model-00001-of-00003.
  bool have_sibling(const std::string& path) const;

 private:
  std::vector<std::string> paths_;
};

// Declares the option --replace. Also accepts --no-replace from older versions, which replaced files by default.
void declare_replace(Command& command, bool& replace);

// Throws a Failure if --replace is given for an output that is a folder.
void require_no_replace(const std::string& folder, bool replace);

// Checks the path of an output file before anything is written. Throws a Failure for:
//   - an input, unless `may_be_input` is true: the library replaces a single file atomically
//   - an input that would be written as a stream, or another shard of an input's set
//   - a terminal
//   - an existing file, unless `replace` is true
void check_output(const std::string& path, const Inputs& inputs, bool may_be_input, bool replace);

// An output other than a model: a regular file, written by the library's AtomicFile, or a stream.
class OutputFile {
 public:
  // replace: false: fail if the file exists.
  OutputFile(const std::string& path, bool replace);

  void write(const void* data, std::size_t size);
  void finish();

 private:
  std::optional<InterruptGuard> guard_;  // a named temporary file must be removed
  st::io::AtomicFile file_;
  std::uint64_t position_ = 0;
};

// Prints a note if opening the folder of a new file opens an index of the same name.
void note_hidden(const std::string& path);

// Throws a Failure if one of the files exists in the folder, or the index of another model of that name.
void check_new_files(const std::string& folder, const std::vector<std::string>& names);

// The files of a new model, created one after another. Unless keep() is called, the destructor removes the files and the
// folders that were made.
class NewFiles {
 public:
  // Calls check_new_files(), and creates the folder and its parents if necessary. Names may contain slashes.
  NewFiles(const std::string& folder, const std::vector<std::string>& names);
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;
  ~NewFiles();

  // Calls `write`, which makes the next file in the list. If it throws, a file with that name belongs to another
  // process.
  void make_next(const std::function<void()>& write);
  // Records that the next file in the list has been made.
  void count_next();
  // Prints a note if opening the folder does not open the new model.
  void keep();

 private:
  const InterruptGuard guard_;
  const std::string folder_;
  std::vector<std::string> paths_;
  std::vector<std::optional<st::io::Identity>> made_;  // of the paths made so far
  // Removes the new folders that are empty, even if the constructor of NewFiles fails.
  struct Folders {
    std::vector<std::string> made;
    ~Folders();
  } folders_;
};

// Returns the path of a file in a folder.
std::string in_folder(const std::string& folder, const std::string& name);

}  // namespace cli
