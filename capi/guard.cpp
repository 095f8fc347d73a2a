// SPDX-License-Identifier: Apache-2.0
#include "guard.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace st::capi {

namespace {

// The smallest size of any version of st_error, assumed if struct_size is 0.
constexpr std::size_t kFirstErrorBytes = 256;

// Copies the text and a NUL. Truncates long text at a character boundary.
void copy_text(char* to, std::size_t room, std::string_view text) {
  std::size_t n = std::min(text.size(), room - 1);
  if (n < text.size()) {
    while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
  }
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

st_status write(st_error* err, Status status, int os_error, std::uint64_t offset, std::string_view message) noexcept {
  const auto number = static_cast<st_status>(status);
  if (err == nullptr) return number;
  st_error full{};
  full.struct_size = err->struct_size;
  full.status = number;
  full.os_error = os_error;
  full.offset = offset;
  const std::size_t given = err->struct_size == 0 ? kFirstErrorBytes : err->struct_size;
  const std::size_t size = std::min(given, sizeof full);
  constexpr std::size_t kMessageAt = offsetof(st_error, message);
  if (size > kMessageAt) copy_text(full.message, size - kMessageAt, message);
  std::memcpy(err, &full, size);
  return number;
}

}  // namespace

st_status report(st_error* err, const Error& error) noexcept {
  return write(err, error.status, error.os_error, error.offset, error.message);
}

st_status report(st_error* err, Status status, const char* message) noexcept {
  return write(err, status, 0, kNowhere, message);
}

}  // namespace st::capi
