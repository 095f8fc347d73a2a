// The readers that are compared, all behind the same few functions.
// SPDX-License-Identifier: Apache-2.0
#include "loaders.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <simdjson.h>

#ifdef ST_BENCH_CRATES
extern "C" {
void* safetensors_crate_open(const char* path);
const void* safetensors_crate_find(const void* file, const char* name, std::size_t len);
void safetensors_crate_free(void* file);
void* bintensors_crate_open(const char* path);
const void* bintensors_crate_find(const void* file, const char* name, std::size_t len);
void bintensors_crate_free(void* file);
}
#endif

namespace bench {

namespace {

// ---- ours -----------------------------------------------------------------------------------------------------------

void* open_ours(const char* path) {
  st_file* file = nullptr;
  st_open(path, nullptr, &file, nullptr);
  return file;
}

void* open_as_reference(const char* path) {
  st_open_options options = ST_INIT(st_open_options);
  options.flags = ST_OPEN_REFERENCE;
  st_file* file = nullptr;
  st_open(path, &options, &file, nullptr);
  return file;
}

Opened explain_ours(const char* path, std::uint32_t flags) {
  st_open_options options = ST_INIT(st_open_options);
  options.flags = flags;
  st_file* file = nullptr;
  const st_status status = st_open(path, &options, &file, nullptr);
  return {file, st_status_name(status)};
}

Opened open_ours_explained(const char* path) { return explain_ours(path, 0); }
Opened open_as_reference_explained(const char* path) { return explain_ours(path, ST_OPEN_REFERENCE); }

void close_ours(void* file) { st_free(static_cast<st_file*>(file)); }

const void* find_ours(const void* file, const char* name, std::size_t len) {
  return st_get_tensor_n(static_cast<const st_file*>(file), name, len);
}

// ---- ours from another library ------------------------------------------------------------------------------------------

struct Library {
  decltype(&st_open) open;
  decltype(&st_free) free;
  decltype(&st_get_tensor_n) find;
} other;

void* open_other(const char* path) {
  st_file* file = nullptr;
  other.open(path, nullptr, &file, nullptr);
  return file;
}

Opened open_other_explained(const char* path) {
  void* const file = open_other(path);
  return {file, file != nullptr ? "ok" : "refused"};
}

void close_other(void* file) { other.free(static_cast<st_file*>(file)); }

const void* find_other(const void* file, const char* name, std::size_t len) {
  return other.find(static_cast<const st_file*>(file), name, len);
}

constexpr Loader kOther{"before", open_other_explained, open_other, close_other, find_other};

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(dlerror());
}

// ---- the floor --------------------------------------------------------------------------------------------------------

void* open_floor(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  std::uint64_t length = 0;
  void* header = nullptr;
  if (::pread(fd, &length, sizeof length, 0) == sizeof length && (header = std::malloc(length)) != nullptr) {
    if (::pread(fd, header, length, sizeof length) != static_cast<ssize_t>(length)) {
      std::free(header);
      header = nullptr;
    }
  }
  ::close(fd);
  return header;
}

Opened open_floor_explained(const char* path) {
  void* const header = open_floor(path);
  return {header, header != nullptr ? "ok" : "refused"};
}

const void* find_nothing(const void*, const char*, std::size_t) { return nullptr; }

// ---- the crates ---------------------------------------------------------------------------------------------------------

#ifdef ST_BENCH_CRATES
Opened open_crate_explained(const char* path) {
  void* const file = safetensors_crate_open(path);
  return {file, file != nullptr ? "ok" : "refused"};
}

Opened open_bintensors_explained(const char* path) {
  void* const file = bintensors_crate_open(path);
  return {file, file != nullptr ? "ok" : "refused"};
}

constexpr Loader kCrateLoader{"crate", open_crate_explained, safetensors_crate_open, safetensors_crate_free,
                              safetensors_crate_find};
constexpr Loader kBintensorsLoader{"bintensors", open_bintensors_explained, bintensors_crate_open,
                                   bintensors_crate_free, bintensors_crate_find};
#endif

}  // namespace

const Loader kOurs{"ours", open_ours_explained, open_ours, close_ours, find_ours};
const Loader kOursAsReference{"ours_as_reference", open_as_reference_explained, open_as_reference, close_ours,
                              find_ours};
const Loader kFloor{"floor", open_floor_explained, open_floor, std::free, find_nothing};
#ifdef ST_BENCH_CRATES
const Loader* const kCrate = &kCrateLoader;
const Loader* const kBintensorsCrate = &kBintensorsLoader;
#else
const Loader* const kCrate = nullptr;
const Loader* const kBintensorsCrate = nullptr;
#endif

// Its calls of its own functions must not come here.
const Loader& load_library(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) throw std::runtime_error(dlerror());
  look_up(library, "st_open", other.open);
  look_up(library, "st_free", other.free);
  look_up(library, "st_get_tensor_n", other.find);
  return kOther;
}

const Loader* loader_named(std::string_view name) {
  for (const Loader* const loader : {&kOurs, &kOursAsReference, &kFloor, kCrate, kBintensorsCrate}) {
    if (loader != nullptr && loader->name == name) return loader;
  }
  return nullptr;
}

std::vector<std::string> kernels() {
  std::vector<std::string> names;
  for (const simdjson::implementation* kernel : simdjson::get_available_implementations()) {
    if (kernel->supported_by_runtime_system()) names.push_back(kernel->name());
  }
  return names;
}

std::string kernel_in_use() { return simdjson::get_active_implementation()->name(); }

// ---- stage 1 ----------------------------------------------------------------------------------------------------------

struct StageOne::Parser {
  simdjson::padded_string header;
  std::unique_ptr<simdjson::internal::dom_parser_implementation> stages;
};

StageOne::StageOne(const std::string& path) : parser_(std::make_unique<Parser>()) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  parser_->header = simdjson::padded_string(static_cast<std::size_t>(length));
  file.read(parser_->header.data(), static_cast<std::streamsize>(length));
  if (!file || simdjson::get_active_implementation()->create_dom_parser_implementation(
                   parser_->header.size(), simdjson::DEFAULT_MAX_DEPTH, parser_->stages) != simdjson::SUCCESS) {
    throw std::runtime_error(path + ": no header for simdjson's first stage");
  }
  run();
}

StageOne::~StageOne() = default;

void StageOne::run() const {
  const auto* const text = reinterpret_cast<const std::uint8_t*>(parser_->header.data());
  if (parser_->stages->stage1(text, parser_->header.size(), simdjson::stage1_mode::regular) != simdjson::SUCCESS) {
    throw std::runtime_error("simdjson's first stage refuses a header");
  }
}

}  // namespace bench
