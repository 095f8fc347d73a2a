// SPDX-License-Identifier: Apache-2.0
#include "npy.hpp"

#include <fmt/format.h>

#include "failure.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::size_t kPreamble = 10;   // magic, version and length
constexpr std::size_t kAlignment = 64;  // so that the array can be mapped

std::string descr(const safetensors::Tensor& tensor) {
  switch (static_cast<st_dtype>(tensor.dtype)) {
    case ST_BOOL: return "|b1";
    case ST_U8: return "|u1";
    case ST_I8: return "|i1";
    case ST_U16: return "<u2";
    case ST_I16: return "<i2";
    case ST_F16: return "<f2";
    case ST_U32: return "<u4";
    case ST_I32: return "<i4";
    case ST_F32: return "<f4";
    case ST_U64: return "<u8";
    case ST_I64: return "<i8";
    case ST_F64: return "<f8";
    case ST_C64: return "<c8";
    default: break;
  }
  const std::uint32_t bits = st_dtype_bits(static_cast<st_dtype>(tensor.dtype));
  if (bits == 8 || bits == 16) return fmt::format("|V{}", bits / 8);
  throw Failure{kUsage, fmt::format("tensor {} is {}, for which .npy has no type: take the raw bytes",
                                    shown(tensor.name, 80), tensor.dtype_name())};
}

}  // namespace

std::string npy_header(const safetensors::Tensor& tensor, const std::vector<std::uint64_t>& shape) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", descr(tensor));
  for (std::size_t d = 0; d < shape.size(); ++d) dict += fmt::format("{}{}", d == 0 ? "" : ", ", shape[d]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  const std::size_t unpadded = kPreamble + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  if (dict.size() > UINT16_MAX) throw Failure{kUsage, fmt::format("{} dimensions are too many for .npy", shape.size())};
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xFF);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace cli
