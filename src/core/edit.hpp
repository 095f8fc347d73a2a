// Changes the metadata of a file and leaves the bytes of its tensors as they are.
//
// The file is changed in place if the new header has the length of the old one and they differ in only one block of
// 4096 bytes of the file. Such a block is one page of the page cache: one write() changes it, and nothing, not even
// SIGKILL, interrupts a write() inside a page. So a process that dies leaves the old header or the new one. If the
// power fails, disks guarantee only that a sector of 512 bytes is written whole or not at all. With `sync`, the change
// must survive that, so it must be inside one sector.
//
// Otherwise a new file is made from the new header and the old data, and renamed. The filesystem shares the blocks of
// the data if it can; otherwise the kernel copies them. This is always safe, and takes as long as the copy.
//
// In a file written with header_reserve, the reserved space follows the metadata, so an edit changes nothing else.
// Space at the end of a header of several blocks does not help, because every entry would move.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace st::core
