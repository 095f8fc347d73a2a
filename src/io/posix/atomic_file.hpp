// What an AtomicFile is on a POSIX system.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "io/atomic_file.hpp"
#include "io/identity.hpp"
#include "io/posix/access.hpp"
#include "io/posix/descriptor.hpp"
#include "io/posix/target.hpp"
#include "io/source.hpp"

namespace st::io {

class AtomicFile::State {
 public:
  State() = default;
  State(State&&) = delete;
  ~State();

  void open(const char* path, const CreateOptions& options);
  bool in_order() const { return in_order_; }
  void set_size(std::uint64_t size) const;
  void reserve(std::uint64_t size) const;
  void write_at(std::uint64_t offset, const void* data, std::size_t n) const;
  void copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const;
  void commit();
  void commit_over(const Identity& seen);

 private:
  void open_temp_file();
  mode_t first_mode() const;
  std::optional<Access> access_now() const;
  uid_t owner() const;
  void copy_by_hand(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const;
  void finish_stream();
  void take_over_access();
  void finish_bytes(int error_of_closing);
  void publish();
  void name_temp_file();
  void require_unchanged() const;
  void sync_folder() const;

  Target target_;
  CreateOptions options_;
  Descriptor file_;
  Descriptor to_close_;  // another descriptor of the file: network filesystems report errors when one is closed
  Descriptor folder_to_sync_;
  std::optional<Access> access_;  // what the file takes over; none: what the umask leaves
  std::optional<Identity> only_over_;
  std::string temp_name_;  // the name the bytes have until they are the target; empty: none
  pid_t process_ = 0;      // that made this object
  bool in_order_ = false;
  mutable std::uint64_t position_ = 0;  // of a stream
};

}  // namespace st::io
