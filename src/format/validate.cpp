// These checks make a file safe to read. The sorted ranges cover the data exactly, from 0 to its end. Each has the
// length that its shape and dtype require, computed without overflow. So there are no holes, overlaps, aliases or
// unused bytes.
// SPDX-License-Identifier: Apache-2.0
#include "format/validate.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/error.hpp"

namespace st::format {

namespace {

bool before(const Tensor& a, const Tensor& b) {
  if (a.begin != b.begin) return a.begin < b.begin;
  if (a.end != b.end) return a.end < b.end;
  return a.name() < b.name();
}

std::string shape_text(const Tensor& tensor) {
  constexpr std::size_t kShown = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < std::min<std::size_t>(tensor.rank, kShown); ++i) {
    text += formatted("{}{}", i == 0 ? "" : ",", tensor.dims[i]);
  }
  return text + (tensor.rank > kShown ? ",...]" : "]");
}

[[noreturn]] void fail_offsets(const Tensor& tensor, std::uint64_t expected, std::uint64_t offset) {
  const std::string name = in_quotes(tensor.name());
  if (tensor.end < tensor.begin) {
    fail_at(Status::offsets, offset, "tensor {}: offsets {}..{} run backwards", name, tensor.begin, tensor.end);
  }
  const char* const what = tensor.begin > expected ? "leave a hole after" : "overlap";
  fail_at(Status::offsets, offset, "tensor {}: offsets {}..{} {} the preceding data, which ends at {}", name,
          tensor.begin, tensor.end, what, expected);
}

// The name of an unknown dtype comes from the file.
std::string dtype_text(const Tensor& tensor) {
  if (tensor.dtype() == Dtype::unknown) return in_quotes(tensor.dtype_name());
  return std::string(tensor.dtype_name());
}

[[noreturn]] void fail_overflow(const Tensor& tensor, std::uint64_t offset) {
  fail_at(Status::overflow, offset, "tensor {}: {} {} has more than 2^64-1 bits", in_quotes(tensor.name()),
          dtype_text(tensor), shape_text(tensor));
}

void check_size(const Tensor& tensor, std::uint64_t offset) {
  const auto elements = element_count(tensor.shape());
  if (!elements) fail_overflow(tensor, offset);
  if (tensor.dtype() == Dtype::unknown) return;  // raw bytes: the size is whatever the file says
  std::uint64_t bits = 0;
  if (!checked_mul(*elements, info(tensor.dtype()).bits, bits)) fail_overflow(tensor, offset);
  if (bits % 8 != 0) {
    fail_at(Status::misaligned, offset, "tensor {}: {} {} has {} bits, which is not a whole number of bytes",
            in_quotes(tensor.name()), dtype_text(tensor), shape_text(tensor), bits);
  }
  if (tensor.bytes() != bits / 8) {
    fail_at(Status::tensor_size, offset, "tensor {}: {} {} needs {} bytes, but offsets {}..{} span {}",
            in_quotes(tensor.name()), dtype_text(tensor), shape_text(tensor), bits / 8, tensor.begin, tensor.end,
            tensor.bytes());
  }
}

void check_place(const Tensor& tensor, std::uint64_t expected, std::uint64_t offset) {
  if (tensor.begin != expected || tensor.end < tensor.begin) fail_offsets(tensor, expected, offset);
}

[[noreturn]] void fail_coverage(std::uint64_t data_begin, std::uint64_t data_size, std::uint64_t file_size) {
  const std::uint64_t there = file_size - data_begin;
  if (there > data_size) {
    fail_at(Status::coverage, data_begin + data_size, "the tensors end at byte {} of the file, which has {} more bytes",
            data_begin + data_size, there - data_size);
  }
  std::uint64_t whole = 0;
  if (!checked_add(data_begin, data_size, whole)) whole = UINT64_MAX;
  if (whole < 1000) {
    fail_at(Status::coverage, file_size, "truncated download? the file has {} of {} bytes", file_size, whole);
  }
  fail_at(Status::coverage, file_size, "truncated download? the file has {} of {} ({} of {} bytes)",
          human_bytes(file_size), human_bytes(whole), file_size, whole);
}

}  // namespace

bool sort_by_data(Table& table) {
  auto& tensors = table.tensors;
  if (std::is_sorted(tensors.begin(), tensors.end(), before)) return false;
  std::sort(tensors.begin(), tensors.end(), before);
  return true;
}

bool is_plainly_valid(const Table& table, std::uint64_t file_size) {
  std::uint64_t end = 0;
  for (const Tensor& tensor : table.tensors) {
    std::uint64_t bits = info(tensor.dtype()).bits;  // 0 if the dtype is unknown
    for (const std::uint64_t dim : tensor.shape()) {
      if (!checked_mul(bits, dim, bits)) return false;
    }
    if (tensor.begin != end || tensor.end <= end || bits % 8 != 0 || bits / 8 != tensor.bytes()) return false;
    end = tensor.end;
  }
  return end == file_size - table.data_begin;
}

void validate(const Table& table, std::uint64_t file_size, FaultSink& faults) {
  std::uint64_t end = 0;
  for (const Tensor& tensor : table.tensors) {
    // The beginning of the tensor, if it is inside the file.
    const std::uint64_t offset =
        tensor.begin <= file_size - table.data_begin ? table.data_begin + tensor.begin : file_size;
    faults.report_from([&] { check_place(tensor, end, offset); }, tensor.name());
    if (tensor.end < tensor.begin) continue;
    faults.report_from([&] { check_size(tensor, offset); }, tensor.name());
    end = std::max(end, tensor.end);
  }
  if (end != file_size - table.data_begin) {
    faults.report_from([&] { fail_coverage(table.data_begin, end, file_size); });
  }
}

}  // namespace st::format
