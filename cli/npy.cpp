// SPDX-License-Identifier: Apache-2.0
#include "npy.hpp"

#include "failure.hpp"
#include "formatted.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::size_t kPreamble = 10;   // magic, version and length
constexpr std::size_t kAlignment = 64;  // so that the array can be mapped

using safetensors::Dtype;

std::string descr(const safetensors::Tensor& tensor) {
  switch (tensor.dtype) {
    case Dtype::BOOL: return "|b1";
    case Dtype::U8: return "|u1";
    case Dtype::I8: return "|i1";
    case Dtype::U16: return "<u2";
    case Dtype::I16: return "<i2";
    case Dtype::F16: return "<f2";
    case Dtype::U32: return "<u4";
    case Dtype::I32: return "<i4";
    case Dtype::F32: return "<f4";
    case Dtype::U64: return "<u8";
    case Dtype::I64: return "<i8";
    case Dtype::F64: return "<f8";
    case Dtype::C64: return "<c8";
    default: break;
  }
  const std::uint32_t bits = safetensors::bits(tensor.dtype);
  if (bits == 8 || bits == 16) return formatted("|V{}", bits / 8);
  throw Failure{kUsage, formatted("tensor {} is {}, for which .npy has no type: take the raw bytes",
                                  shown(tensor.name, 80), tensor.dtype_name())};
}

}  // namespace

std::string npy_header(const safetensors::Tensor& tensor, const std::vector<std::uint64_t>& shape) {
  std::string dict = formatted("{{'descr': '{}', 'fortran_order': False, 'shape': (", descr(tensor));
  for (std::size_t d = 0; d < shape.size(); ++d) dict += formatted("{}{}", d == 0 ? "" : ", ", shape[d]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  const std::size_t unpadded = kPreamble + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  if (dict.size() > UINT16_MAX) throw Failure{kUsage, formatted("{} dimensions are too many for .npy", shape.size())};
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xFF);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace cli
