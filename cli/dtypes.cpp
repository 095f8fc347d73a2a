// SPDX-License-Identifier: Apache-2.0
#include "dtypes.hpp"

#include <algorithm>
#include <array>

namespace cli {
namespace {

using safetensors::Dtype;

constexpr std::array kConvertible{Dtype::F64,     Dtype::F32,     Dtype::F16,         Dtype::BF16,       Dtype::F8_E4M3,
                                  Dtype::F8_E5M2, Dtype::F8_E8M0, Dtype::F8_E4M3FNUZ, Dtype::F8_E5M2FNUZ};

}  // namespace

bool is_convertible(Dtype dtype) {
  return std::find(kConvertible.begin(), kConvertible.end(), dtype) != kConvertible.end();
}

std::vector<std::string> convertible_names() {
  std::vector<std::string> names;
  names.reserve(kConvertible.size());
  for (const Dtype dtype : kConvertible) names.emplace_back(safetensors::name(dtype));
  return names;
}

std::string names_of_convertible() {
  std::string all;
  for (const std::string& name : convertible_names()) all += (all.empty() ? "" : ", ") + name;
  return all;
}

}  // namespace cli
