// Turns the first bytes of a file into a checked table, and a list of tensors into the first bytes of a file.
//
// Reading takes two steps. find_header() takes the first bytes and returns the position of the header, after checking
// its length against the limit and the file size. Nothing is allocated before that check. read_header() turns the
// header into a Table or throws. Both choose the container format by the first byte of the header. Nothing here makes a
// system call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "format/container.hpp"
#include "format/length_prefix.hpp"

namespace st::format {

// `prefix` contains the first bytes of the file, at least min(64, file_size).
HeaderExtent find_header(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options);

// `header` contains the bytes of the extent, followed by kPadding zero bytes. The table's names are views into it, and
// read_header() changes it: see restore_header(). The table is in data order, checked by every rule, and indexed.
void read_header(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// Rereads a header that was read into `table` without an index of names. Throws if a name occurs twice.
void read_header_again(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// Adds every error of a header, as far as it can be read, and at most kMostFindings + 1. The first is the error that
// read_header() throws. Adds nothing if read_header() accepts the header. `header` is as in the file, followed by
// kPadding zero bytes, and is modified.
void diagnose_header(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings);

// Copies the header as it is in the file to `out` (header.size() bytes): restores the bytes that read_header() changed.
void restore_header(std::span<const char> header, const Table& table, char* out);

// ---- writing --------------------------------------------------------------------------------------------------------

// These throw for text that is not UTF-8, an unknown dtype, a size beyond 64 bits, or a tensor that ends inside a byte.
void check_metadata(std::string_view key, std::string_view value);
std::uint64_t check_tensor(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape);  // -> its bytes

// These throw if the format cannot be written, or if no header can give the data this alignment.
void require_writable(std::int64_t format_number);
void require_alignment(std::uint64_t data_alignment);

// Throws if this format cannot store the tensor.
void check_tensor_of(Format format, const NewTensor& tensor);

// The reference's writers sort tensors by this number, ascending, and then by the bytes of their names.
unsigned dtype_order(Format format, Dtype dtype);

// Returns the length and the header. Throws Status::header_size if no reader accepts a header of that length.
std::string serialize(const NewHeader& header);

// Throws Status::unsupported if the metadata of such files cannot be edited.
void require_editable(Format format);

// Returns the length and the header with new metadata: see Container::splice_metadata.
std::string splice_metadata(Format format, std::string_view header, const MetadataSplice& splice);

}  // namespace st::format
