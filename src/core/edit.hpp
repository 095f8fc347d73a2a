// Changes the metadata of a file without changing its tensors, or the bytes of one tensor without changing the header.
//
// The file is changed in place if both headers have the same length and differ only inside one block of 4096 bytes of
// the file. Such a block is one page of the page cache. A single write() changes it, and nothing, not even SIGKILL,
// interrupts a write() inside a page. So a process that dies leaves either the old header or the new one. On a power
// failure, disks guarantee only that 512-byte sectors are written atomically. With `sync`, the change must survive
// that, so it must be inside one sector.
//
// Otherwise a new file is written with the new header and the old data, and renamed over the old one. The filesystem
// shares the blocks of the data if it can; otherwise the kernel copies them. This is always safe, but takes as long as
// the copy.
//
// In a file written with header_reserve, the reserved space follows the metadata, so an edit moves nothing else. Space
// at the end of a header of several blocks does not help, because every entry would move.
//
// The bytes of a tensor are written in place, and not atomically: a copy of the whole file would take much longer than
// the write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace st::core {

struct MetadataChange {
  std::string_view key;
  std::optional<std::string_view> value;  // nullopt: remove the key
};

struct EditOptions {
  bool sync = false;
  std::uint64_t data_alignment = 0;  // 0: keep the file's alignment
  std::uint64_t header_reserve = 0;  // unused bytes for later edits, if a new file must be written
};

void edit_metadata(const char* path, std::span<const MetadataChange> changes, const EditOptions& options);

// Replaces the bytes of one tensor. Throws Status::not_found, or Status::buffer_size if `size` is not the tensor's.
void write_tensor(const char* path, std::string_view name, const void* data, std::size_t size, bool sync);

}  // namespace st::core
