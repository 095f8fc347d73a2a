// Bulk reads of one file: copied out of the page cache, around it (O_DIRECT), or through it.
//
// Everything that can be refused (direct reads, opening the file once more) degrades, at the latest to Source::read_at,
// which always works.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "io/posix/descriptor.hpp"
#include "io/posix/file_source.hpp"
#include "io/source_reader.hpp"

namespace st::io {

class FileReader final : public SourceReader {
 public:
  FileReader(const FileSource& source, Cache cache) : SourceReader(source), source_(source), cache_(cache) {}

  bool is_cached(std::uint64_t begin, std::uint64_t end) override;
  ReadPath path_for(std::uint64_t begin, std::uint64_t end) override;
  std::uint64_t alignment() const override { return alignment_; }
  [[nodiscard]] bool read_many(ReadPath path, std::span<const Read> reads, std::uint64_t needed_end) override;
  void retire() override;
  void close_idle() override;

 private:
  class Borrowed;

  Descriptor open_descriptor();
  bool can_read_directly();
  void open_direct();
  bool read_descriptor(int descriptor, std::span<const Read> reads, std::uint64_t needed_end, bool direct);
  bool direct_refused(int os_error);

  const FileSource& source_;
  const Cache cache_;
  std::mutex mutex_;
  std::vector<Descriptor> idle_;  // one descriptor per thread: FUSE serves a descriptor's reads one at a time
  std::size_t opened_ = 0;        // such descriptors, idle or borrowed
  bool direct_tried_ = false;
  Descriptor direct_;  // shared by all threads, for it has no read-ahead that they could disturb
  std::uint64_t alignment_ = 0;
  std::atomic<bool> direct_works_{true};
};

}  // namespace st::io
