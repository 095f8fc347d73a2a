// From the first bytes of a file to a checked table, and from what is to be written to the first bytes of a file.
//
// Reading takes two steps, so that nothing is allocated before the announced length has been held against the limit and
// the file: find_header() looks at the first bytes and says where the header is; read_header() turns the header into
// a Table or throws. Which container it is, is decided here once. Nothing makes a system call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "format/container.hpp"

namespace st::format {

// `prefix` holds the first bytes of the file, at least min(64, file_size).
HeaderExtent find_header(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options);

// `header` are the bytes of the extent, followed by kPadding zero bytes. They stay the home of the names and are written to:
// see restore_header(). The table is in data order, every rule checked, the index built.
void read_header(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// Reads a header again that was read into `table` without an index of names: throws where it gives a name twice.
void read_header_again(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// Adds every fault of a header, as far as it can be read, first the one that read_header() throws, and at most
// kMostFindings and one more. Adds nothing to what read_header() accepts. `header` is as the file has it, followed by
// kPadding zero bytes, and is written to.
void survey_header(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings);

// Copies the header as the file has it to `out` (header.size() bytes): puts back what read_header() overwrote.
void restore_header(std::span<const char> header, const Table& table, char* out);

// Throw for the number of a format that cannot be written, and for an alignment that no header can give.
void require_writable(std::int64_t format_number);
void require_alignment(std::uint64_t data_alignment);

// Throws, by name, for what this format cannot hold.
void check_tensor_of(Format format, const NewTensor& tensor);

// The reference's writers store tensors in ascending order of this, and by the bytes of their names where it is equal.
unsigned dtype_order(Format format, Dtype dtype);

// The length and the header. Throws Status::header_size when it would be longer than any reader takes.
std::string serialize(const NewHeader& header);

// The length and the header with other metadata: see Container::splice_metadata.
std::string splice_metadata(Format format, std::string_view header, const MetadataSplice& splice);

}  // namespace st::format
