// The readers that are compared, all behind the same few functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <safetensors/safetensors.h>

namespace bench {

struct Opened {
  void* file = nullptr;  // null when refused
  std::string verdict;   // "ok", "refused", or the status where the reader has one
};

struct Loader {
  std::string_view name;
  Opened (*open_explained)(const char* path);  // once, to be looked at
  void* (*open)(const char* path);             // what is measured; null when refused
  void (*close)(void* file);
  const void* (*find)(const void* file, const char* name, std::size_t len);  // null when absent
};

// Ours, as everyone calls it, and with the reference's verdicts.
extern const Loader kOurs;
extern const Loader kOursAsReference;

// Opens, reads the header into memory and closes: what any reader has to do at least. It finds nothing.
extern const Loader kFloor;

// The crates, null when this was built without them.
extern const Loader* const kCrate;
extern const Loader* const kBintensorsCrate;

// Ours from another shared library, such as an earlier version. Throws std::runtime_error. One of them at a time.
const Loader& load_library(const std::string& path);

// The kernels of simdjson for this processor, and which of them is in use.
std::vector<std::string> kernels();
std::string kernel_in_use();

// The loader of that name, null when there is none.
const Loader* loader_named(std::string_view name);

// simdjson's first stage over a header in memory, into memory that it has already.
class StageOne {
 public:
  explicit StageOne(const std::string& path);
  ~StageOne();
  StageOne(const StageOne&) = delete;
  StageOne& operator=(const StageOne&) = delete;
  void run() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace bench
