// An exception from a C++ callback does not leave the library: it becomes a status with its message.
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int faults = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  ++faults;
}

struct Thrower {
  enum { nothing, standard, memory, number } what = nothing;
  std::string words;
  std::string bytes;
  int closed = 0;
};

std::int32_t read_at(void* ctx, std::uint64_t offset, void* to, std::size_t n) {
  auto& thrower = *static_cast<Thrower*>(ctx);
  switch (thrower.what) {
    case Thrower::nothing: break;
    case Thrower::standard: throw std::runtime_error(thrower.words);
    case Thrower::memory: throw std::bad_alloc();
    case Thrower::number: throw 7;
  }
  std::memcpy(to, thrower.bytes.data() + offset, n);
  return 0;
}

st_source source_of(Thrower& thrower) {
  auto source = ST_INIT(st_source);
  source.ctx = &thrower;
  source.size = thrower.bytes.size();
  source.read_at = read_at;
  source.close = [](void* ctx) { ++static_cast<Thrower*>(ctx)->closed; };
  return source;
}

std::string sample() {
  const std::string header = R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "data";
}

// libc++ compares types by their addresses. A library with its own libc++, for example in the packages for musl and
// macOS, does not recognize the program's exceptions.
bool knows_types_of_program() {
#ifdef _LIBCPP_VERSION
  Thrower thrower{Thrower::standard, "words", sample()};
  const st_source source = source_of(thrower);
  st_file* file = nullptr;
  auto err = ST_INIT(st_error);
  const st_status status = st_open_source(&source, nullptr, &file, &err);
  expect(status == ST_ERR_INTERNAL && file == nullptr && thrower.closed == 1, "the status of an exception");
  return err.message != std::string("an unknown exception");
#else
  return true;
#endif
}

void each_kind_has_its_status() {
  const struct {
    decltype(Thrower::what) what;
    st_status status;
    const char* message;
  } cases[] = {{Thrower::standard, ST_ERR_INTERNAL, "words of their own"},
               {Thrower::memory, ST_ERR_NO_MEMORY, "out of memory"},
               {Thrower::number, ST_ERR_INTERNAL, "an unknown exception"}};
  for (const auto& [what, status, message] : cases) {
    Thrower thrower{what, "words of their own", sample()};
    const st_source source = source_of(thrower);
    st_file* file = nullptr;
    auto err = ST_INIT(st_error);
    expect(st_open_source(&source, nullptr, &file, &err) == status && err.status == status && err.os_error == 0,
           "the status of opening");
    expect(std::string(err.message) == message, std::string("opening says: ") + err.message);
    expect(file == nullptr && thrower.closed == 1, "and the source is closed");
    expect(st_open_source(&source, nullptr, &file, nullptr) == status, "also where nobody asks for more");

    thrower.what = Thrower::nothing;
    thrower.closed = 0;
    expect(st_open_source(&source, nullptr, &file, &err) == ST_OK, "opening without a fault");
    thrower.what = what;
    char data[4] = {};
    err = ST_INIT(st_error);
    expect(st_tensor_read(st_get_tensor(file, "t"), data, 4, &err) == status, "the status of reading");
    expect(std::string(err.message) == message && err.status == status, std::string("reading says: ") + err.message);
    thrower.what = Thrower::nothing;
    expect(st_tensor_read(st_get_tensor(file, "t"), data, 4, &err) == ST_OK && std::memcmp(data, "data", 4) == 0,
           "and the file can still be read");
    st_free(file);
    expect(thrower.closed == 1, "a source is closed once");
  }
}

bool is_utf8_of(const std::string& text, const std::string& letter) {
  std::string whole;
  while (whole.size() < text.size()) whole += letter;
  return whole == text;
}

// As many whole characters of the message as the struct can hold, and never a byte after the struct.
void a_message_of_any_length_fits_into_an_error_of_any_size() {
  constexpr std::size_t kMessageAt = offsetof(st_error, message);
  for (const std::string letter : {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    for (const std::size_t letters :
         {std::size_t{0}, std::size_t{1}, std::size_t{57}, std::size_t{300}, std::size_t{20'000}}) {
      Thrower thrower{Thrower::standard, "", sample()};
      for (std::size_t i = 0; i < letters; ++i) thrower.words += letter;
      const st_source source = source_of(thrower);
      std::vector<std::uint32_t> sizes{4, 8, 16, 24, 1000};
      for (std::size_t size = kMessageAt - 1; size <= kMessageAt + 9; ++size) {
        sizes.push_back(static_cast<std::uint32_t>(size));
      }
      for (std::size_t size = sizeof(st_error) - 5; size <= sizeof(st_error) + 1; ++size) {
        sizes.push_back(static_cast<std::uint32_t>(size));
      }
      for (const std::uint32_t size : sizes) {
        std::vector<unsigned char> room(2000, 0xEE);
        std::memcpy(room.data(), &size, sizeof size);
        st_file* file = nullptr;
        const st_status status = st_open_source(&source, nullptr, &file, reinterpret_cast<st_error*>(room.data()));
        const std::size_t own = std::min<std::size_t>(size, sizeof(st_error));
        const std::string where = std::to_string(letters) + " letters, " + std::to_string(size) + " bytes";
        expect(status == ST_ERR_INTERNAL && file == nullptr, "the status: " + where);
        for (std::size_t i = own; i < room.size(); ++i) {
          if (room[i] != 0xEE) return expect(false, "written behind the struct: " + where);
        }
        if (own <= kMessageAt) continue;
        const auto* const message = reinterpret_cast<const char*>(room.data() + kMessageAt);
        const std::size_t space = own - kMessageAt;
        const auto* const end = static_cast<const char*>(std::memchr(message, 0, space));
        if (end == nullptr) return expect(false, "a message without an end: " + where);
        const std::string said(message, end);
        expect(is_utf8_of(said, letter), "half a letter: " + where);
        const std::size_t most = (space - 1) / letter.size() * letter.size();
        expect(said.size() == std::min(most, thrower.words.size()), "the length of the message: " + where);
      }
    }
  }
}

}  // namespace

int main() {
  if (!knows_types_of_program()) {
    std::puts("skipped: the library has a libc++ of its own, and does not know the types of exceptions");
    return faults == 0 ? 77 : 1;
  }
  each_kind_has_its_status();
  a_message_of_any_length_fits_into_an_error_of_any_size();
  return faults == 0 ? 0 : 1;
}
