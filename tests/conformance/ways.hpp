// Every way to open the same bytes, and everything that can be observed of a file as one comparable value.
//
// The tests here compare the ways with each other and with tables. They use only the public header, like any program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "safetensors/safetensors.h"
#include "system.hpp"

namespace conformance {

struct Outcome {
  st_status status = ST_OK;
  std::uint64_t offset = 0;
  std::string message;
  std::string listing;  // tensors with their data, metadata and the raw header; empty if rejected

  bool operator==(const Outcome&) const = default;
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The lines of a table after its first, each split at tabs.
inline std::vector<std::vector<std::string>> rows_of(const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::vector<std::string>& row = rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) row.push_back(cell);
  }
  return rows;
}

// ---- looking ----------------------------------------------------------------------------------------------------------

// Length first: a name may hold any byte.
inline void append(std::string& text, const char* bytes, std::size_t size) {
  text += std::to_string(size) + ':';
  text.append(bytes, size);
  text += ' ';
}

inline void append(std::string& text, std::uint64_t number) { text += std::to_string(number) + ' '; }

inline void append_tensor(std::string& text, const st_tensor* tensor) {
  std::size_t size = 0;
  const char* const name = st_tensor_name(tensor, &size);
  append(text, name, size);
  if (name[size] != '\0') text += "(the name has no NUL behind it) ";
  text += st_tensor_dtype_name(tensor);
  text += " [";
  for (std::size_t i = 0; i < st_tensor_rank(tensor); ++i) append(text, st_tensor_shape(tensor)[i]);
  text += "] ";
  append(text, st_tensor_elements(tensor));
  append(text, st_tensor_offset(tensor));
  append(text, st_tensor_bytes(tensor));
  std::string data(static_cast<std::size_t>(st_tensor_bytes(tensor)), '?');
  text += st_status_name(st_tensor_read(tensor, data.data(), data.size(), nullptr));
  append(text, data.data(), data.size());
  const void* const view = st_tensor_data(tensor);
  if (view != nullptr && std::memcmp(view, data.data(), data.size()) != 0)
    text += "(the view differs from what is read) ";
}

inline std::string listing(const st_file* file) {
  std::string text;
  for (std::size_t i = 0; i < st_count_tensors(file); ++i) append_tensor(text, st_get_tensor_at(file, i));
  for (std::size_t i = 0; i < st_count_metadata(file); ++i) {
    const char* value = nullptr;
    std::size_t size = 0;
    std::size_t key_size = 0;
    const char* const key = st_get_metadata_at(file, i, &key_size, &value, &size);
    append(text, key, key_size);
    append(text, value, size);
  }
  std::size_t size = 0;
  const char* const header = st_get_header(file, 0, &size);
  append(text, header, size);
  return text;
}

// ---- opening ----------------------------------------------------------------------------------------------------------

// Runs `open(options, out, err)`, and records the result.
template <class Open>
Outcome outcome_of(std::uint32_t flags, st_io io, const Open& open) {
  st_open_options options = ST_INIT(st_open_options);
  options.flags = flags;
  options.io = io;
  st_error err = ST_INIT(st_error);
  st_file* const untouched = reinterpret_cast<st_file*>(&err);
  st_file* file = untouched;
  Outcome outcome;
  outcome.status = open(&options, &file, &err);
  if (outcome.status != ST_OK) {
    if (err.status != outcome.status) err.status = ST_ERR_INTERNAL;
    outcome.offset = err.offset;
    outcome.message = err.message;
    if (file != untouched) outcome.message += " (and *out was written to)";
    return outcome;
  }
  outcome.listing = listing(file);
  st_free(file);
  return outcome;
}

template <st_io Io>
Outcome open_path(const std::string& path, const std::string&, std::uint32_t flags) {
  Outcome outcome =
      outcome_of(flags, Io, [&](auto options, auto out, auto err) { return st_open(path.c_str(), options, out, err); });
  // Only a path is named in the message; the rest is the same everywhere.
  const std::size_t named = outcome.message.find("': ");
  const bool names_it = outcome.message.starts_with("'/") && named != std::string::npos;
  if (names_it) outcome.message.erase(0, named + 3);
  if (outcome.status != ST_OK && !names_it) outcome.message += " (and the file is not named)";
  return outcome;
}

inline Outcome open_memory(const std::string&, const std::string& bytes, std::uint32_t flags) {
  // Exactly as long as the file, so a sanitizer detects every read past its end.
  const auto exact = std::make_unique<char[]>(bytes.size());
  std::memcpy(exact.get(), bytes.data(), bytes.size());
  return outcome_of(flags, ST_IO_AUTO, [&](auto options, auto out, auto err) {
    return st_open_memory(exact.get(), bytes.size(), nullptr, nullptr, options, out, err);
  });
}

// In the middle of another file, as in an archive.
template <st_io Io>
Outcome open_fd(const std::string&, const std::string& bytes, std::uint32_t flags) {
  const std::string before(5003, '{');
  const std::string after(7, ' ');
  const std::string whole = before + bytes + after;
  const TemporaryFile archive;
  std::fwrite(whole.data(), 1, whole.size(), archive.stream());
  std::fflush(archive.stream());
  return outcome_of(flags, Io, [&](auto options, auto out, auto err) {
    return st_open_fd(archive.handle(), before.size(), bytes.size(), options, out, err);
  });
}

inline std::int32_t read_string(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
  const std::string& bytes = *static_cast<const std::string*>(ctx);
  if (offset > bytes.size() || n > bytes.size() - offset) return -1;
  std::memcpy(dst, bytes.data() + offset, n);
  return 0;
}

inline Outcome open_source(const std::string&, const std::string& bytes, std::uint32_t flags) {
  st_source source = ST_INIT(st_source);
  source.ctx = const_cast<std::string*>(&bytes);
  source.size = bytes.size();
  source.read_at = read_string;
  return outcome_of(flags, ST_IO_AUTO,
                    [&](auto options, auto out, auto err) { return st_open_source(&source, options, out, err); });
}

inline st_status read_stored(void* ctx, std::uint64_t offset, void* dst, std::size_t n, st_error*) {
  return read_string(ctx, offset, dst, n) == 0 ? ST_OK : ST_ERR_READ;
}

inline Outcome open_store(const std::string&, const std::string& bytes, std::uint32_t flags) {
  st_store store = ST_INIT(st_store);
  store.ctx = const_cast<std::string*>(&bytes);
  store.open = [](void* ctx, const char*, st_source* source, st_error*) -> st_status {
    source->ctx = ctx;
    source->size = static_cast<const std::string*>(ctx)->size();
    source->read = read_stored;
    source->name = "";  // messages name no file
    return ST_OK;
  };
  return outcome_of(flags, ST_IO_AUTO,
                    [&](auto options, auto out, auto err) { return st_open_store(&store, "x", options, out, err); });
}

struct Way {
  const char* name;
  Outcome (*open)(const std::string& path, const std::string& bytes, std::uint32_t flags);
};

inline constexpr Way kWays[] = {
    {"path, AUTO", open_path<ST_IO_AUTO>},
    {"path, MAP", open_path<ST_IO_MAP>},
    {"path, COPY", open_path<ST_IO_COPY>},
    {"path, READ", open_path<ST_IO_READ>},
    {"memory", open_memory},
    {"part of a descriptor, MAP", open_fd<ST_IO_MAP>},
    {"part of a descriptor, READ", open_fd<ST_IO_READ>},
    {"source", open_source},
    {"store", open_store},
};

}  // namespace conformance
