// What the command asks the system outside of files; cli/SYSTEM has it, and with it output_file.hpp and inputs.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cli {

// Standard descriptors, signals, the text of a terminal. Called once, first of all.
void prepare_process();

// The program's name and its arguments in UTF-8, or as the bytes that were given.
std::vector<std::string> arguments(int argc, char** argv);

bool output_is_terminal();
bool error_is_terminal();

// The width of the terminal, or what COLUMNS says; 80 where neither is known.
std::size_t output_columns();
std::size_t error_columns();

// Whether standard output is a terminal that shows colors, and NO_COLOR does not ask for none.
bool output_has_colors();

// Whether an error of the system means that the reader of a pipe has closed its end.
bool is_closed_pipe(int os_error);

// Whether a reader that does so means to: false where the caller ignores SIGPIPE, to be told of output that is lost.
bool readers_may_leave();

bool is_folder(const std::string& path);

// The last part of a path.
std::string file_name(const std::string& path);

// Runs it on a thread of its own that has a stack of this many bytes, and throws what it throws, or a Failure where the
// system has no such stack.
void on_stack_of(std::size_t bytes, const std::function<void()>& work);

enum class DigestKind : unsigned char { sha1, sha256 };

// Throws a Failure.
class Digest {
 public:
  explicit Digest(DigestKind kind);
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  ~Digest();

  void add(const void* bytes, std::size_t n);
  std::vector<unsigned char> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cli
