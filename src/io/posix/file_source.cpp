// SPDX-License-Identifier: Apache-2.0
#include "io/posix/file_source.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "io/posix/edit_lock.hpp"
#include "io/posix/file_reader.hpp"
#include "io/posix/pages.hpp"

namespace st::io {

std::unique_ptr<Source> file_source_unless_folder(const char* path) {
  std::optional<PlainFile> file = PlainFile::open_unless_folder(path);
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
  traits.joins_reads = true;
  return traits;
}

void FileSource::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  if (n == 0) return;
  try {
    file_.read_at(base_ + offset, dst, n);
  } catch (const Error& error) {
    // The path now leads elsewhere, as after a save over it: the mapping still holds the file that was opened.
    const Mapping& kept = mapping_.writable() ? original_ : mapping_;
    const bool elsewhere = error.status == Status::read && file_.descriptor() < 0 && kept.data() != nullptr;
    if (!elsewhere || !copy_from_pages(kept.data() + offset, dst, n)) throw;
  }
}

std::unique_ptr<SourceReader> FileSource::open_reader(Cache cache) const {
  return std::make_unique<FileReader>(*this, cache);
}

const std::byte* FileSource::view() const {
  const std::byte* const mapped = mapping_.data();
  if (mapped != nullptr || !maps_later_) return mapped;
  return file_.is_intact() ? mapping_.made(file_.descriptor(), base_) : nullptr;
}

// The system gives out the lowest free number, so a bound on the number bounds what all handles of a process keep.
bool FileSource::may_keep_descriptor() const {
  const auto number = static_cast<std::size_t>(file_.descriptor());
  return number < std::min(kMostKeptOpen, most_descriptors() / 4);
}

void FileSource::prepare(Mode mode, bool may_keep_open) {
  if (mode == Mode::automatic && may_keep_open && may_keep_descriptor()) {
    map_at_first_view();
  } else {
    map(mode);
  }
  if (is_mapped() || !may_keep_open) release_descriptor();
}

void FileSource::map(Mode mode) {
  if (mode == Mode::read || size() == 0) return;
  if (mode == Mode::automatic && file_.remote()) return;
  const MapKind kind = mode == Mode::copy_on_write ? MapKind::copy_on_write : MapKind::read_only;
  int os_error = 0;
  mapping_ = Mapping::of(file_.descriptor(), base_, size(), kind, os_error);
  if (mapping_.data() == nullptr && mode != Mode::automatic) fail_os(Status::map, os_error, "mapping {} bytes", size());
}

void FileSource::map_at_first_view() {
  if (file_.remote() || size() == 0) return;
  mapping_ = Mapping::later(size());
  maps_later_ = true;
}

void FileSource::release_descriptor() {
  if (file_.descriptor() < 0 || maps_later_) return;
  if (mapping_.writable()) {
    int refused = 0;
    original_ = Mapping::of(file_.descriptor(), base_, size(), MapKind::read_only, refused);
    if (original_.data() == nullptr) return;  // the descriptor is all that leads to the file's own bytes
  }
  file_.release_descriptor(mapping_.data() != nullptr);
}

void FileSource::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  mapping_.advise(offset, n, advice);
  // A descriptor that is kept for mapping must not be used to empty the page cache, which other processes share.
  if (advice == Advice::dont_need && maps_later_) return;
  file_.advise(base_ + offset, n, advice);
}

bool FileSource::changed_lately() const { return file_.descriptor() >= 0 && io::changed_lately(file_.descriptor()); }

std::shared_ptr<const void> FileSource::lock_out_edits() const {
  EditLock lock = EditLock::shared(file_);
  if (!lock.held()) return nullptr;
  return std::make_shared<EditLock>(std::move(lock));
}

}  // namespace st::io
