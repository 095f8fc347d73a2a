// SPDX-License-Identifier: Apache-2.0
#include "io/source.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace st::io {

Source Source::memory(const void* data, std::uint64_t size, void (*release)(void*), void* ctx) {
  Source source;
  source.bytes_ = MemoryBytes{release, ctx};
  source.memory_ = static_cast<const std::byte*>(data);
  source.size_ = size;
  return source;
}

Source Source::callbacks(const CallbackBytes& callbacks, std::uint64_t size) {
  Source source;
  source.bytes_ = callbacks;
  source.size_ = size;
  return source;
}

Source Source::file(PlainFile file, std::uint64_t base, std::uint64_t size) {
  Source source;
  source.bytes_ = std::move(file);
  source.base_ = base;
  source.size_ = size;
  return source;
}

Source::Source(Source&& other) noexcept { *this = std::move(other); }

Source& Source::operator=(Source&& other) noexcept {
  if (this == &other) return *this;
  drop();
  bytes_ = std::exchange(other.bytes_, std::monostate{});
  mapping_ = std::move(other.mapping_);
  original_ = std::move(other.original_);
  maps_later_ = other.maps_later_;
  memory_ = std::exchange(other.memory_, nullptr);
  base_ = other.base_;
  size_ = other.size_;
  return *this;
}

Source::~Source() { drop(); }

void Source::drop() {
  if (const auto* memory = std::get_if<MemoryBytes>(&bytes_); memory != nullptr && memory->release != nullptr) {
    memory->release(memory->ctx);
  }
  if (const auto* calls = std::get_if<CallbackBytes>(&bytes_); calls != nullptr && calls->close != nullptr) {
    calls->close(calls->ctx);
  }
  bytes_ = std::monostate{};
}

void Source::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  if (n == 0) return;
  if (const auto* calls = std::get_if<CallbackBytes>(&bytes_)) {
    if (const std::int32_t code = calls->read_at(calls->ctx, offset, dst, n); code != 0) {
      fail_at(Status::callback, offset, "the source's read_at returned {} for {} bytes at {}", code, n, offset);
    }
  } else if (const auto* plain = std::get_if<PlainFile>(&bytes_)) {
    read_file(*plain, offset, dst, n);
  } else {
    std::memcpy(dst, memory_ + offset, n);
  }
}

void Source::read_file(const PlainFile& plain, std::uint64_t offset, void* dst, std::size_t n) const {
  try {
    plain.read_at(base_ + offset, dst, n);
  } catch (const Error& error) {
    // The path now leads elsewhere, as after a save over it: the mapping still holds the file that was opened.
    const Mapping& kept = mapping_.writable() ? original_ : mapping_;
    const bool elsewhere = error.status == Status::read && plain.descriptor() < 0 && kept.data() != nullptr;
    if (!elsewhere || !kept.copy_out(offset, dst, n)) throw;
  }
}

const std::byte* Source::view() const {
  if (memory_ != nullptr) return memory_;
  const std::byte* const mapped = mapping_.data();
  if (mapped != nullptr || !maps_later_) return mapped;
  const auto& plain = std::get<PlainFile>(bytes_);
  return plain.is_intact() ? mapping_.made(plain.descriptor(), base_) : nullptr;
}

void Source::map(Mode mode) {
  const auto* plain = std::get_if<PlainFile>(&bytes_);
  if (plain == nullptr || mode == Mode::read || size_ == 0) return;
  if (mode == Mode::automatic && plain->remote()) return;
  const MapKind kind = mode == Mode::copy_on_write ? MapKind::copy_on_write : MapKind::read_only;
  int os_error = 0;
  mapping_ = Mapping::of(plain->descriptor(), base_, size_, kind, os_error);
  if (mapping_.data() == nullptr && mode != Mode::automatic) fail_os(Status::map, os_error, "mapping {} bytes", size_);
}

void Source::map_at_first_view() {
  const auto* plain = std::get_if<PlainFile>(&bytes_);
  if (plain == nullptr || plain->remote() || size_ == 0) return;
  mapping_ = Mapping::later(size_);
  maps_later_ = true;
}

void Source::rest() {
  auto* const plain = std::get_if<PlainFile>(&bytes_);
  if (plain == nullptr || plain->descriptor() < 0 || maps_later_) return;
  if (mapping_.writable()) {
    int refused = 0;
    original_ = Mapping::of(plain->descriptor(), base_, size_, MapKind::read_only, refused);
    if (original_.data() == nullptr) return;  // the descriptor is all that leads to the file's own bytes
  }
  plain->rest(mapping_.data() != nullptr);
}

void Source::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  mapping_.advise(offset, n, advice);
  // A descriptor that is kept for mapping must not be used to empty the page cache, which other processes share.
  if (advice == Advice::dont_need && maps_later_) return;
  if (const auto* plain = file()) plain->advise(base_ + offset, n, advice);
}

}  // namespace st::io
