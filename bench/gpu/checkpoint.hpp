// A checkpoint whose bytes follow from their offsets. Any of them can be checked without the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace bench {

// Writes the bytes from `offset` of the data on; offset and size are multiples of 8.
void expected_bytes(std::uint64_t offset, std::span<std::byte> out);

// Writes a file with about `bytes` of data in 160 tensors, a fifth of which are small, and waits until the disk has it.
// Throws std::runtime_error.
void write_checkpoint(const std::string& path, std::uint64_t bytes);

// Changes one byte of the data.
void spoil(const std::string& path, std::uint64_t offset);

}  // namespace bench
