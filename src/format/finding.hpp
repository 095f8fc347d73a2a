// The findings of a check: errors and notes about one file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/compiler.hpp"
#include "base/error.hpp"
#include "format/utf8.hpp"

namespace st::format {

// One deviation of a file from its format, or from the output of the reference's writer.
struct Finding {
  Error fault;
  std::shared_ptr<const std::string> tensor;  // name of the tensor concerned; null: none, or not UTF-8
  bool is_note = false;                       // the file is valid nevertheless
};

using Findings = std::vector<Finding>;

// The limit per file. A header of 100 MB can hold millions of errors, each of which takes more memory than its text.
inline constexpr std::size_t kMostFindings = 1000;

// Receives the errors found while reading one header. Opening a file throws the first one; a check collects them all.
class FaultSink {
 public:
  FaultSink() = default;  // throws the first
  explicit FaultSink(Findings& findings) : findings_(&findings) {}

  bool collects() const { return findings_ != nullptr; }
  std::size_t count() const { return collects() ? findings_->size() : 0; }

  // Throws the error, or adds it and returns. Then the caller continues after the faulty value. Also throws after
  // adding more than kMostFindings. A `tensor` without data() means that the error concerns no tensor.
  ST_COLD void report(const Error& fault, std::string_view tensor = {}) {
    if (collects()) add(fault, tensor);
    if (!collects() || count() > kMostFindings) throw Error(fault);
  }

  // Adds an error that ends reading, unless report() has already added and thrown it.
  ST_COLD void add_last(const Error& fault, std::string_view tensor = {}) {
    if (count() <= kMostFindings) add(fault, tensor);
  }

  // Reports the error that `check` throws.
  template <class Check>
  void report_from(const Check& check, std::string_view tensor = {}) {
    try {
      check();
    } catch (const Error& fault) {
      report(fault, tensor);
    }
  }

 private:
  void add(const Error& fault, std::string_view tensor) {
    if (tensor.data() != nullptr && tensor.data() != last_name_) {
      copy_ = is_utf8(tensor) ? std::make_shared<const std::string>(tensor) : nullptr;
      last_name_ = tensor.data();
    }
    findings_->push_back({fault, tensor.data() == nullptr ? nullptr : copy_, false});
  }

  Findings* findings_ = nullptr;
  const char* last_name_ = nullptr;          // of the last tensor in the findings; no other name begins there
  std::shared_ptr<const std::string> copy_;  // shared, because a name may have megabytes and a thousand errors
};

}  // namespace st::format
