// SPDX-License-Identifier: Apache-2.0
#include "format/finding.hpp"

namespace st::format {

void FaultSink::report(const Error& fault, std::string_view tensor) {
  if (collects()) add(fault, tensor);
  if (!collects() || count() > kMostFindings) throw Error(fault);
}

void FaultSink::add_last(const Error& fault, std::string_view tensor) {
  if (count() <= kMostFindings) add(fault, tensor);
}

void FaultSink::add(const Error& fault, std::string_view tensor) {
  findings_->push_back({fault, std::string(tensor), tensor.data() != nullptr, false});
}

}  // namespace st::format
