// One deviation of a file from its format, or from how writers write it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace st::format {

struct Finding {
  Error fault;
  std::shared_ptr<const std::string> tensor;  // the name of the tensor that it concerns; null: none, or it is not UTF-8
  bool is_note = false;                       // the file is valid all the same
};

using Findings = std::vector<Finding>;

// What is told of a file. A header of 100 MB can hold millions of faults, each of which takes more memory than its text.
inline constexpr std::size_t kMostFindings = 1000;

// Takes the faults of one header from the code that reads it. Opening a file throws the first; a check collects them.
class FaultSink {
 public:
  FaultSink() = default;  // throws the first
  explicit FaultSink(Findings& findings) : findings_(&findings) {}

  bool collects() const { return findings_ != nullptr; }
  std::size_t count() const { return collects() ? findings_->size() : 0; }

  // Throws the fault, or returns after adding it: then the caller continues after the faulty value. Also throws the
  // fault after kMostFindings, which it adds. A `tensor` without data() means that the fault concerns none.
  void report(const Error& fault, std::string_view tensor = {});

  // Adds a fault that ends the reading, unless report() has added and thrown it.
  void add_last(const Error& fault, std::string_view tensor = {});

  // Reports the fault that `check` throws.
  template <class Check>
  void report_from(const Check& check, std::string_view tensor = {}) {
    try {
      check();
    } catch (const Error& fault) {
      report(fault, tensor);
    }
  }

 private:
  void add(const Error& fault, std::string_view tensor);

  Findings* findings_ = nullptr;
  std::string_view last_tensor_;             // of the last finding that has one, in the header
  std::shared_ptr<const std::string> copy_;  // of it: a name may have megabytes and an entry a thousand faults
};

}  // namespace st::format
