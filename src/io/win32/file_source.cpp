// SPDX-License-Identifier: Apache-2.0
#include "io/win32/file_source.hpp"

#include <utility>

#include "base/error.hpp"
#include "io/win32/file_reader.hpp"
#include "io/win32/path.hpp"

namespace st::io {

std::unique_ptr<Source> file_source_unless_directory(const char* path) {
  std::optional<PlainFile> file = PlainFile::open_unless_folder(native_path(path), path);
  if (!file) return nullptr;
  const std::uint64_t size = file->size();
  return std::make_unique<FileSource>(std::move(*file), 0, size);
}

std::unique_ptr<Source> file_source_of_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size) {
  PlainFile file = PlainFile::duplicate(descriptor);
  const std::uint64_t whole = file.size();
  if (offset > whole || size > whole - offset) {
    fail(Status::range, "{} bytes from {} do not lie inside the file of {} bytes", size, offset, whole);
  }
  return std::make_unique<FileSource>(std::move(file), offset, size != 0 ? size : whole - offset);
}

Traits FileSource::traits() const {
  Traits traits;
  traits.origin = base_;
  return traits;
}

void FileSource::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  if (n != 0) file_.read_at(base_ + offset, dst, n);
}

std::unique_ptr<SourceReader> FileSource::open_reader(Cache cache) const {
  return std::make_unique<FileReader>(*this, cache);
}

void FileSource::prepare(Mode mode, bool /*may_keep_open*/) {
  if (mode == Mode::read || size() == 0) return;
  if (mode == Mode::automatic) {
    if (file_.remote()) return;
    mapping_ = Mapping::later(size());
    maps_later_ = true;
    return;
  }
  const MapKind kind = mode == Mode::copy_on_write ? MapKind::copy_on_write : MapKind::read_only;
  int os_error = 0;
  mapping_ = Mapping::of(file_.number(), base_, size(), kind, os_error);
  if (mapping_.data() == nullptr) fail_os(Status::map, os_error, "mapping {} bytes", size());
}

const std::byte* FileSource::view() const {
  const std::byte* const mapped = mapping_.data();
  return mapped != nullptr || !maps_later_ ? mapped : mapping_.made(file_.number(), base_);
}

void FileSource::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  mapping_.advise(offset, n, advice);
}

}  // namespace st::io
