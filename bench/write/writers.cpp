// SPDX-License-Identifier: Apache-2.0
#include "writers.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <safetensors/safetensors.h>

namespace bench {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

template <class Function, class... Args>
void call(const Function& function, Args... args) {
  st_error error = ST_INIT(st_error);
  if (function(args..., &error) != ST_OK) throw std::runtime_error(error.message);
}

class Writer {
 public:
  Writer() { call(st_writer_new, &handle_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { st_writer_free(handle_); }
  operator st_writer*() const { return handle_; }

 private:
  st_writer* handle_ = nullptr;
};

std::size_t add(const Writer& writer, const char* name, std::size_t bytes, const void* data) {
  const std::uint64_t shape = bytes / 4;
  std::size_t index = 0;
  call(st_writer_add, static_cast<st_writer*>(writer), name, ST_F32, std::size_t{1}, &shape, data, &index);
  return index;
}

void begin(const Writer& writer, const std::string& path) {
  call(st_writer_begin, static_cast<st_writer*>(writer), path.c_str(), static_cast<const st_write_options*>(nullptr));
}

void put(const Writer& writer, std::size_t index, std::size_t at, const void* data, std::size_t n) {
  call(st_writer_put, static_cast<const st_writer*>(writer), index, std::uint64_t{at}, data, n);
}

void finish(const Writer& writer) { call(st_writer_finish, static_cast<st_writer*>(writer)); }

void write_whole(const std::vector<Input>& tensors, const std::string& path) {
  const Writer writer;
  for (const Input& tensor : tensors) add(writer, tensor.name.c_str(), tensor.bytes, tensor.data);
  begin(writer, path);
  finish(writer);
}

void write_pieces(const std::vector<Input>& tensors, const std::string& path) {
  const Writer writer;
  for (const Input& tensor : tensors) add(writer, tensor.name.c_str(), tensor.bytes, nullptr);
  begin(writer, path);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t at = 0; at < tensors[i].bytes; at += kPiece) {
      put(writer, i, at, tensors[i].data + at, std::min(kPiece, tensors[i].bytes - at));
    }
  }
  finish(writer);
}

// Not made of tensors at all: whoever writes less than this loses data.
void write_plain(const std::vector<Input>& tensors, const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const std::string header(8 + 100 * tensors.size(), ' ');
  off_t offset = 0;
  const auto write_all = [&](const void* data, std::size_t n) {
    const auto* at = static_cast<const char*>(data);
    while (n > 0) {
      const ssize_t written = pwrite(file, at, n, offset);
      if (written < 0) throw std::runtime_error(std::strerror(errno));
      at += written;
      offset += written;
      n -= static_cast<std::size_t>(written);
    }
  };
  write_all(header.data(), header.size());
  for (const Input& tensor : tensors) write_all(tensor.data, tensor.bytes);
  close(file);
}

#ifdef ST_BENCH_CRATES
extern "C" {
struct CrateTensors;
CrateTensors* crate_tensors_new();
void crate_tensors_add(CrateTensors* list, const char* name, const std::byte* data, std::size_t bytes);
std::int32_t crate_serialize_to_file(const CrateTensors* list, const char* path);
void crate_tensors_free(CrateTensors* list);
}

Way crate_way(const std::vector<Input>& tensors) {
  const std::shared_ptr<CrateTensors> list(crate_tensors_new(), crate_tensors_free);
  for (const Input& tensor : tensors) crate_tensors_add(list.get(), tensor.name.c_str(), tensor.data, tensor.bytes);
  return {"crate", [list](const std::string& path) {
            if (crate_serialize_to_file(list.get(), path.c_str()) != 0) throw std::runtime_error("serialize_to_file");
          }};
}
#endif

}  // namespace

std::vector<Way> ways(const std::vector<Input>& tensors) {
  std::vector<Way> all{
      {"pwrite", [tensors](const std::string& path) { write_plain(tensors, path); }},
      {"whole", [tensors](const std::string& path) { write_whole(tensors, path); }},
      {"pieces", [tensors](const std::string& path) { write_pieces(tensors, path); }},
  };
#ifdef ST_BENCH_CRATES
  all.push_back(crate_way(tensors));
#endif
  return all;
}

void stream(const std::string& path, std::size_t bytes) {
  constexpr std::size_t kTensors = 64;
  const std::vector<char> buffer(kPiece, 'x');
  const Writer writer;
  for (std::size_t i = 0; i < kTensors; ++i) add(writer, fmt::format("layers.{}.weight", i).c_str(), bytes / kTensors, nullptr);
  begin(writer, path);
  for (std::size_t i = 0; i < kTensors; ++i) {
    for (std::size_t at = 0; at < bytes / kTensors; at += kPiece) put(writer, i, at, buffer.data(), kPiece);
  }
  finish(writer);
}

}  // namespace bench
