// A device as a table of functions: what a plan needs of a driver, and nothing of how the driver calls it.
//
// The table has the functions of st_device_ops in the public header, which says what each promises. The drivers that the
// library knows are tables as those of the caller are, so that there is one way from a file to a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace st::device {

struct Copy {
  void* dst = nullptr;  // an address on the device, which only the device reads or writes
  const void* src = nullptr;
  std::size_t bytes = 0;
};

struct Table {
  void* ctx = nullptr;
  void* (*host_alloc)(void* ctx, std::size_t size) = nullptr;
  void (*host_free)(void* ctx, void* ptr, std::size_t size) = nullptr;
  std::int32_t (*copy)(void* ctx, std::uint32_t queue, const Copy* copies, std::size_t n,
                       std::uint64_t* mark) = nullptr;
  std::int32_t (*wait)(void* ctx, std::uint32_t queue, std::uint64_t mark) = nullptr;
  std::int32_t (*after)(void* ctx, void* stream) = nullptr;
  std::int32_t (*alloc)(void* ctx, std::uint64_t size, void** out) = nullptr;
  void (*release)(void* ctx, void* ptr) = nullptr;
  const char* (*error_name)(void* ctx, std::int32_t code) = nullptr;
  void (*close)(void* ctx) = nullptr;
};

// Gives something back by a function that may be the caller's own, in C++. What it throws has nobody to hear of it.
template <class Function>
void undisturbed(const Function& function) noexcept {
  try {
    function();
  } catch (...) {}
}

// A table that is closed with its owner.
class OwnedTable {
 public:
  explicit OwnedTable(const Table& table) : table_(table) {}
  OwnedTable(OwnedTable&& other) noexcept : table_(std::exchange(other.table_, Table{})) {}
  OwnedTable& operator=(OwnedTable&&) = delete;
  ~OwnedTable() {
    if (table_.close != nullptr) undisturbed([this] { table_.close(table_.ctx); });
  }

  const Table* operator->() const { return &table_; }

 private:
  Table table_;
};

}  // namespace st::device
