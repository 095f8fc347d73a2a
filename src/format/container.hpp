// The interface of a container format: a table of functions.
//
// Opening, writing and editing call a format through its table. A new format needs a directory with a container.cpp, a
// declaration at the end of this file, and an entry in kContainers (header.cpp).
//
// The table fits formats whose header
//   - is one contiguous range of the file from byte 8 on, whose length follows from the first 64 bytes of the file,
//   - is not longer than kMaxHeaderBytes, because it is read into memory as a whole,
//   - begins with a byte with which no header of another format begins,
//   - gives each tensor a dtype of the table and one contiguous range after the header, without gaps or overlaps.
// A writable format must also begin with the header's length, followed by the header: serialize() writes the first 8
// bytes of the file and pads the header with spaces. A format with an index at the end of the file, several headers,
// compressed data, or quantized blocks does not fit. The command imports such files instead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.hpp"
#include "format/finding.hpp"
#include "format/header_options.hpp"
#include "format/table.hpp"

namespace st::format {

// Description of one tensor for a new header.
struct NewTensor {
  std::string_view name;
  std::span<const std::uint64_t> shape;
  std::uint64_t begin = 0;  // relative to the first data byte
  std::uint64_t end = 0;    // one past
  Dtype dtype = Dtype::unknown;
};

// The contents of a new header.
struct NewHeader {
  std::span<const NewTensor> tensors;      // in data order, packed
  std::span<const MetadataPair> metadata;  // written in this order
  bool has_metadata = false;               // an empty map differs from no map
  Format format = Format::safetensors;
  std::uint64_t data_alignment = 8;  // a power of two; the header is padded so that the data begins at a multiple
  std::uint64_t reserve = 0;         // bytes of white space after the metadata, for edits in place
};

// New metadata for an existing header. The alignment and reserve apply if the header must grow.
struct MetadataSplice {
  std::span<const MetadataPair> metadata;
  std::uint64_t data_alignment = 8;
  std::uint64_t reserve = 0;  // bytes of white space next to the metadata
  bool keep_length = true;    // false: the header gets a new length even if the metadata would fit
};

struct Container {
  Format format;
  std::string_view name;  // for messages

  // Returns whether a header that begins with this byte is of this format.
  bool (*recognizes)(char first);
  // Returns the position of the header. `prefix` contains the first min(64, file_size) bytes of the file or more.
  // `recognized` is false if no container recognizes the file. Throws if the header is longer than the limit or the
  // file.
  HeaderExtent (*header_extent)(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options,
                                bool recognized);
  // Fills the table, including data_begin, from a header that the container recognizes, checks every rule and builds
  // the indexes. Strings of the table may be views into the header, which read() may change to end them with a NUL.
  // Throws at the first error.
  void (*read)(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);
  // Undoes in `copy` what read() changed in the header.
  void (*restore)(std::span<const char> header, const Table& table, std::span<char> copy);

  // The next three are null for a read-only format. check() throws if the format cannot store the tensor.
  void (*check)(const NewTensor& tensor) = nullptr;
  // The format's reference writer stores tensors in descending order of this number, which is below 256.
  unsigned (*write_order)(Dtype dtype) = nullptr;
  // Appends the header without the padding at its end.
  void (*append)(std::string& out, const NewHeader& header) = nullptr;

  // Returns the file's first bytes with new metadata; the rest of `header`, which has passed read(), is unchanged.
  // Keeps the length if the metadata fits. Null if metadata cannot be edited.
  std::string (*splice_metadata)(std::string_view header, const MetadataSplice& splice) = nullptr;

  // Adds every error of a header that read() rejects, beginning with the one that read() throws: see diagnose_header().
  void (*diagnose)(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options,
                   Findings& findings) = nullptr;
};

// Returns the index of `p` in the header, or a number of at least header.size() if `p` is outside it.
inline std::size_t place_in(std::span<const char> header, const char* p) {
  return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(header.data());
}

namespace safetensors {
extern const Container kContainer;  // a JSON header (docs/format.md 1)
}

namespace bintensors {
extern const Container kContainer;     // a binary header (docs/format.md 3): reads both layouts, writes the current one
extern const Container kOldContainer;  // the layout before 0.1; kContainer.read recognizes such files
}  // namespace bintensors

}  // namespace st::format
