// A regular file, or a part of one, as a source: read with pread, viewed through a mapping. Also implements its bulk
// reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "io/posix/file.hpp"
#include "io/source.hpp"

namespace st::io {

class FileSource final : public Source {
 public:
  FileSource(RegularFile file, std::uint64_t base, std::uint64_t size, bool linked = false)
      : Source(size), file_(std::move(file)), base_(base), linked_(linked) {}

  const char* name() const override { return file_.path().c_str(); }
  const FileSource* as_file() const override { return this; }
  std::optional<Identity> identity() const override { return file_.identity(); }
  Overwritten overwritten() const override { return file_.overwritten(); }
  Traits traits() const override;
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override;
  std::unique_ptr<SourceReader> open_reader(Cache cache) const override;
  void prepare(Mode mode, bool may_keep_open) override;
  const std::byte* view() const override;
  bool view_is_writable() const override { return mapping_.writable(); }
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const override;
  bool changed_lately() const override;
  bool is_linked() const override { return linked_; }
  std::shared_ptr<const void> lock_out_edits() const override;

  // The parts of prepare(). On a network mount, or if mapping is refused, Mode::automatic leaves view() nullptr.
  void map(Mode mode);
  // The same as automatic, but maps at the first view(), and keeps the descriptor for that.
  void map_at_first_view();
  bool is_mapped() const { return mapping_.data() != nullptr; }
  // Closes the descriptor unless it is kept for a mapping. read_at() reopens the path if necessary.
  void release_descriptor();

  const RegularFile& file() const { return file_; }
  std::uint64_t base() const { return base_; }  // the position of our byte 0 in the file

 private:
  bool may_keep_descriptor() const;

  RegularFile file_;
  Mapping mapping_;
  Mapping original_;  // without a descriptor, and if the caller may have written to mapping_
  bool maps_later_ = false;
  std::uint64_t base_ = 0;
  bool linked_ = false;
};

// Bulk reads of one file: copied out of the page cache, around it (O_DIRECT), or through it. If anything is refused
// (direct I/O, another descriptor), it falls back, at the latest to Source::read_at, which always works.
class FileReader final : public SourceReader {
 public:
  FileReader(const FileSource& source, Cache cache) : SourceReader(source), source_(source), cache_(cache) {}

  bool is_cached(std::uint64_t begin, std::uint64_t end) override;
  ReadPath path_for(std::uint64_t begin, std::uint64_t end) override;
  const std::byte* memory() const override;
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
  Descriptor direct_;  // shared by all threads: it has no read-ahead that they could disturb
  std::uint64_t alignment_ = 0;
  std::atomic<bool> direct_works_{true};
};

}  // namespace st::io
