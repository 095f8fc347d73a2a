// A regular file, or a part of one, as a source: read with pread, viewed through a mapping.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/file_source.hpp"
#include "io/mapping.hpp"
#include "io/posix/plain_file.hpp"
#include "io/source.hpp"

namespace st::io {

class FileSource final : public Source {
 public:
  FileSource(PlainFile file, std::uint64_t base, std::uint64_t size)
      : Source(size), file_(std::move(file)), base_(base) {}

  const char* name() const override { return file_.path().c_str(); }
  std::optional<Identity> identity() const override { return file_.identity(); }
  Traits traits() const override;
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override;
  std::unique_ptr<SourceReader> open_reader(Cache cache) const override;
  void prepare(Mode mode, bool may_keep_open) override;
  const std::byte* view() const override;
  bool view_is_writable() const override { return mapping_.writable(); }
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const override;
  bool changed_lately() const override;
  std::shared_ptr<const void> lock_out_edits() const override;

  // The parts of prepare(). Where Mode::automatic finds a network mount or is refused, view() is nullptr.
  void map(Mode mode);
  // The same as automatic, but not before view() is called; the descriptor is kept for it.
  void map_at_first_view();
  bool is_mapped() const { return mapping_.data() != nullptr; }
  // Gives the descriptor back unless a mapping is to be made of it; read_at() opens the path again when it must.
  void release_descriptor();

  const PlainFile& file() const { return file_; }
  std::uint64_t base() const { return base_; }  // where in the file our byte 0 is

 private:
  bool may_keep_descriptor() const;

  PlainFile file_;
  Mapping mapping_;
  Mapping original_;  // beside one that the caller may have written to, when there is no descriptor
  bool maps_later_ = false;
  std::uint64_t base_ = 0;
};

}  // namespace st::io
