// A regular file, or a part of one, as a source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/source.hpp"

namespace st::io {

// As many files of a model keep what a view needs; the others are mapped at once, or open their path to read.
inline constexpr std::size_t kMostKeptOpen = 64;

// The whole file at this path, links followed; nullptr when the path is a folder. Anything else (FIFO, socket, device,
// /proc, /sys) is an error that says what it is, and never blocks.
std::unique_ptr<Source> file_source_unless_folder(const char* path);

// `size` bytes from `offset` on of the caller's open file, of which it makes a descriptor of its own. 0: up to its end.
std::unique_ptr<Source> file_source_of_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size);

}  // namespace st::io
