// Changing the metadata of a file without touching a tensor's byte.
//
// In place, where the new header has the length of the old one and the two differ only inside one 4096-byte block
// of the file: that block is one page of the page cache, one write() changes it, and nothing, not even SIGKILL, ends
// a write() inside a page. So a process that dies leaves the old header or the new one. A power cut is another
// matter: disks promise to write a sector of 512 bytes whole, and not more. With `sync`, which is how a caller asks
// to survive one, the change must therefore lie inside one such sector.
//
// Otherwise by a new file: the new header, the old data (shared where the filesystem can share blocks, else copied
// by the kernel), one rename. That is always safe, and takes as long as copying takes.
//
// A file written with header_reserve has its room next to the metadata, where an edit changes nothing else. Room at
// the end of a header longer than a block does not help: all entries would move, and a torn move is no header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace st::core {

struct MetadataChange {
  std::string_view key;
  std::optional<std::string_view> value;  // none: remove the key
};

struct EditOptions {
  bool sync = false;
  std::uint64_t data_alignment = 0;  // 0: what the file has
  std::uint64_t header_reserve = 0;  // room to leave for later edits, where a new file must be written anyway
};

void edit_metadata(const char* path, std::span<const MetadataChange> changes, const EditOptions& options);

}  // namespace st::core
