// What a container format is to the rest of the library: a few functions in a folder of its own.
//
// Opening, writing and editing call a format through this table. To add a format, write its folder and name it in
// containers.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.hpp"
#include "format/finding.hpp"
#include "format/header_options.hpp"
#include "format/new_header.hpp"
#include "format/table.hpp"

namespace st::format {

// Other metadata for an existing header.
struct MetadataSplice {
  std::span<const MetadataPair> metadata;
  std::uint64_t data_alignment = 8;  // of the data, where the header must grow
  std::uint64_t reserve = 0;         // room to leave next to the metadata, where the header must grow
  bool keep_length = true;           // false: the data must move
};

// The bytes of a file that are its header.
struct HeaderExtent {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

struct Container {
  Format format;
  std::string_view name;  // for messages

  // Whether a header that begins with this byte is of this format.
  bool (*recognizes)(char first);
  // Where the header lies, going by the first bytes of the file, of which there are min(64, file_size) at least. Throws
  // if it is longer than the limit or the file. `recognized` is false if no container recognizes the file.
  HeaderExtent (*header_extent)(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options,
                                bool recognized);
  // Fills the table (data_begin, too) from a header that it recognizes, checks every rule and builds the indexes. The table's strings may
  // be views into the header, which may be changed to end them with a NUL. Throws at the first fault.
  void (*read)(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);
  // Undoes in `copy` what read() changed in the header.
  void (*restore)(std::span<const char> header, const Table& table, std::span<char> copy);

  // The next three are null for a format that is not written. Throws for what the format cannot hold.
  void (*check)(const NewTensor& tensor) = nullptr;
  // The format's reference writer stores tensors in descending order of this number, which is below 256.
  unsigned (*write_order)(Dtype dtype) = nullptr;
  // The header without the padding at its end.
  void (*append)(std::string& out, const NewHeader& header) = nullptr;

  // Returns the file's first bytes with new metadata and the rest of `header`, which has passed read(), unchanged.
  // Keeps the length where the metadata fits. Null where metadata cannot be edited.
  std::string (*splice_metadata)(std::string_view header, const MetadataSplice& splice) = nullptr;

  // Adds every fault of a header that read() refuses, first the one that read() throws: see survey_header().
  void (*survey)(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options,
                 Findings& findings) = nullptr;
};

}  // namespace st::format
