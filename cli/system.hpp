// System services that the library does not provide: terminals, paths, interruptions and digests. cli/SYSTEM/system.cpp
// implements them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/source.hpp"

namespace cli {

// ---- the process ----------------------------------------------------------------------------------------------------

// Prepares standard descriptors, signals and text output. Called once, before everything else.
void prepare_process();

// Returns the program's name and its arguments: UTF-8 on Windows, any bytes elsewhere.
std::vector<std::string> arguments(int argc, char** argv);

// Runs `work` on a thread with a stack of this many bytes, and rethrows its exceptions. Throws a Failure if the stack
// cannot be allocated.
void on_stack_of(std::size_t bytes, const std::function<void()>& work);

// ---- terminals and pipes --------------------------------------------------------------------------------------------

bool output_is_terminal();
bool error_is_terminal();

// These return the width in columns: COLUMNS, or else the terminal's width, or else 80.
std::size_t output_columns();
std::size_t error_columns();

// Returns whether standard output is a terminal with colors, and NO_COLOR is not set.
bool output_has_colors();

// Returns whether this error means that the reader of a pipe has closed it.
bool is_closed_pipe(int os_error);

// Returns whether a closed pipe ends the command silently. If the parent process ignores SIGPIPE, a closed pipe is an
// error.
bool readers_may_leave();

// ---- paths ----------------------------------------------------------------------------------------------------------

bool is_folder(const std::string& path);

// Returns the last part of a path.
std::string file_name(const std::string& path);

// Returns the file that the path leads to, through links of any kind or as an open descriptor ("/dev/stdout"). Returns
// nullopt if there is no such file.
std::optional<st::io::Identity> identity_of(const std::string& path);

// Returns whether the path is a pipe, device or descriptor, to which output is written in order without replacing a
// file.
bool is_stream(const std::string& path);

bool is_terminal(const std::string& path);

// Opens a file, pipe or device for reading. Returns nullptr and sets errno if it cannot be opened.
std::FILE* open_to_read(const std::string& path);

// Returns the state of an open file, not from the cache of a network mount. Returns nullopt unless it is a regular file.
std::optional<st::io::Identity> state_of(std::FILE* file);

// Returns whether the path exists. A dangling link counts as existing.
bool exists(const std::string& path);

// Creates a folder. Returns false if it already exists. Throws a Failure.
bool make_folder(const std::string& path);

// These ignore errors.
void remove_file(const std::string& path);
void remove_folder(const std::string& path);

// ---- interruptions --------------------------------------------------------------------------------------------------

// While an object of this class exists, Ctrl-C and signals that end a process only set a flag. The command then stops
// at the next stop_if_interrupted(), and destructors clean up. A second interruption ends the process.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();
};

bool is_interrupted();

struct Interruption {};

// Throws an Interruption.
inline void stop_if_interrupted() {
  if (is_interrupted()) throw Interruption{};
}

// If there was an interruption, ends the process as its signal would have.
void end_if_interrupted();

// Marks the command as interrupted by SIGPIPE. Has no effect on Windows, which has no such signal.
void end_by_closed_pipe();

// ---- digests --------------------------------------------------------------------------------------------------------

enum class DigestKind : unsigned char { sha1, sha256 };

// A digest, computed by OpenSSL or Windows. All functions throw a Failure.
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
