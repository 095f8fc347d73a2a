// A regular file, or a part of one, as a source: read with ReadFile, viewed through a mapping.
//
// If the disk or the network fails, a read through the mapping raises EXCEPTION_IN_PAGE_ERROR. A read through the handle
// returns an error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "io/memory.hpp"
#include "io/source.hpp"
#include "io/win32/file.hpp"

namespace st::io {

class FileSource final : public Source {
 public:
  FileSource(RegularFile file, std::uint64_t base, std::uint64_t size)
      : Source(size), file_(std::move(file)), base_(base) {}

  const char* name() const override { return file_.path().c_str(); }
  std::optional<Identity> identity() const override { return file_.identity(); }
  Overwritten overwritten() const override { return file_.overwritten(); }
  Traits traits() const override;
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override;
  std::unique_ptr<SourceReader> open_reader(Cache cache) const override;
  // Keeps the handle even if many files are open, since Windows has many handles.
  void prepare(Mode mode, bool may_keep_open) override;
  const std::byte* view() const override;
  bool view_is_writable() const override { return mapping_.writable(); }
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const override;

  const RegularFile& file() const { return file_; }
  std::uint64_t base() const { return base_; }  // offset of our byte 0 in the file

 private:
  RegularFile file_;
  Mapping mapping_;
  bool maps_later_ = false;
  std::uint64_t base_ = 0;
};

}  // namespace st::io
