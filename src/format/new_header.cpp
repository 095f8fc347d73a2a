// SPDX-License-Identifier: Apache-2.0
#include "format/new_header.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"
#include "format/utf8.hpp"

namespace st::format {

namespace {

[[noreturn]] void fail_text(std::string_view text, std::string_view what) {
  const std::size_t at = first_not_utf8(text);
  fail(Status::utf8, "{} is not UTF-8: byte 0x{:02x} at {} of its {} bytes", what, static_cast<unsigned char>(text[at]),
       at, text.size());
}

}  // namespace

void check_metadata(std::string_view key, std::string_view value) {
  if (!is_utf8(key)) fail_text(key, "a metadata key");
  if (!is_utf8(value)) fail_text(value, "the value of metadata key " + in_quotes(key));
}

std::uint64_t check_tensor(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape) {
  if (!is_utf8(name)) fail_text(name, "a tensor's name");
  if (dtype == Dtype::unknown || static_cast<std::size_t>(dtype) >= kDtypes.size()) {
    fail(Status::dtype, "tensor {}: there is no dtype of number {}", in_quotes(name), static_cast<unsigned>(dtype));
  }
  const auto elements = element_count(shape);
  std::uint64_t bits = 0;
  if (!elements || !checked_mul(*elements, info(dtype).bits, bits)) {
    fail(Status::overflow, "tensor {}: the product of its {} dimensions does not fit in 64 bits", in_quotes(name),
         shape.size());
  }
  if (bits % 8 != 0) {
    fail(Status::misaligned, "tensor {}: {} elements of {} are {} bits, which end inside a byte", in_quotes(name),
         *elements, info(dtype).name, bits);
  }
  return bits / 8;
}

}  // namespace st::format
