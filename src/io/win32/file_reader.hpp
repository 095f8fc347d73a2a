// Bulk reads of one file: through the system's cache, or around it (FILE_FLAG_NO_BUFFERING) where the caller asked for
// that. Windows does not say what is in its cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "io/source.hpp"
#include "io/win32/file_source.hpp"
#include "io/win32/handle.hpp"

namespace st::io {

class FileReader final : public SourceReader {
 public:
  FileReader(const FileSource& source, Cache cache) : SourceReader(source), source_(source), cache_(cache) {}

  bool is_cached(std::uint64_t begin, std::uint64_t end) override;
  ReadPath path_for(std::uint64_t begin, std::uint64_t end) override;
  std::uint64_t alignment() const override { return alignment_; }
  [[nodiscard]] bool read_many(ReadPath path, std::span<const Read> reads, std::uint64_t needed_end) override;

 private:
  bool can_read_directly();
  bool read_directly(const Read& read, std::uint64_t needed_end);

  const FileSource& source_;
  const Cache cache_;
  std::once_flag direct_tried_;
  Handle direct_;
  std::uint64_t alignment_ = 1;
  std::atomic<bool> direct_works_{true};
};

}  // namespace st::io
