// SPDX-License-Identifier: Apache-2.0
#include "format/finding.hpp"

#include "format/utf8.hpp"

namespace st::format {

void FaultSink::report(const Error& fault, std::string_view tensor) {
  if (collects()) add(fault, tensor);
  if (!collects() || count() > kMostFindings) throw Error(fault);
}

void FaultSink::add_last(const Error& fault, std::string_view tensor) {
  if (count() <= kMostFindings) add(fault, tensor);
}

void FaultSink::add(const Error& fault, std::string_view tensor) {
  const bool is_last = tensor.data() == last_tensor_.data() && tensor.size() == last_tensor_.size();
  if (tensor.data() != nullptr && !is_last) {
    copy_ = is_utf8(tensor) ? std::make_shared<const std::string>(tensor) : nullptr;
    last_tensor_ = tensor;
  }
  findings_->push_back({fault, tensor.data() == nullptr ? nullptr : copy_, false});
}

}  // namespace st::format
