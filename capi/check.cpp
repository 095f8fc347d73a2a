// Checks files and models, and reports every finding.
// SPDX-License-Identifier: Apache-2.0
#include "core/check.hpp"

#include <vector>

#include "guard.hpp"
#include "options.hpp"

using namespace st;
using namespace st::capi;

namespace {

// A type of our own. If the program also contained another version of the library, the linker would merge the two
// instances of std::vector<st_finding>.
struct Row : st_finding {};

struct Report {
  core::Report findings;
  std::vector<Row> shown;  // borrows strings from `findings`

  explicit Report(core::Report given) : findings(std::move(given)) {
    for (const core::Finding& finding : findings) {
      st_finding& row = shown.emplace_back();
      row.struct_size = sizeof row;
      row.status = static_cast<st_status>(finding.fault.status);
      row.os_error = finding.fault.os_error;
      row.flags = finding.is_note ? std::uint32_t{ST_FINDING_NOTE} : 0U;
      row.offset = finding.fault.offset;
      row.path = finding.path->c_str();
      row.path_len = finding.path->size();
      row.tensor = finding.tensor == nullptr ? nullptr : finding.tensor->c_str();
      row.tensor_len = finding.tensor == nullptr ? 0 : finding.tensor->size();
      row.message = finding.fault.message.c_str();
      row.message_len = finding.fault.message.size();
    }
  }
};

void check_path(const char* path, const st_open_options* options, st_report** out) {
  require(path, "path");
  require(out, "out");
  *out = reinterpret_cast<st_report*>(new Report(core::check(path, open_options(options))));
}

}  // namespace

extern "C" {

st_status st_check(const char* path, const st_open_options* options, st_report** out, st_error* err) {
  return guard(err, [&] { check_path(path, options, out); });
}

st_status st_check_n(const char* path, size_t len, const st_open_options* options, st_report** out, st_error* err) {
  return guard(err, [&] { check_path(path_of(path, len).c_str(), options, out); });
}

size_t st_count_findings(const st_report* report) { return reinterpret_cast<const Report*>(report)->shown.size(); }

const st_finding* st_get_finding(const st_report* report, size_t i) {
  const std::vector<Row>& shown = reinterpret_cast<const Report*>(report)->shown;
  return i < shown.size() ? &shown[i] : nullptr;
}

void st_report_free(st_report* report) { delete reinterpret_cast<Report*>(report); }

}  // extern "C"
