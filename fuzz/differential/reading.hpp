// The result of reading a header or an index, in types that both revisions share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace differential {

struct Case {
  bool index = false;  // else a header
  int rules = 0;
  bool unknown_dtypes = false;
  std::uint64_t data_bytes = 0;  // behind the header
  std::size_t window_bytes = 0;  // where the core reads in windows
  bool in_a_shard = false;       // first without an index of names, then again, as of a shard that may give one twice
};

struct Verdict {
  int status = 0;
  std::uint64_t offset = 0;
  std::string message;
  std::string table;  // of an accepted header or index
};

Verdict read_new(std::string_view text, const Case& given);
Verdict read_old(std::string_view text, const Case& given);

}  // namespace differential
