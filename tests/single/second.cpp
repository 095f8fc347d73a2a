// Compiled with ST_PREFIX=other_ and ST_MINIMAL, as the second copy that it uses.
// SPDX-License-Identifier: Apache-2.0
#define SAFETENSORS_H  // as another reader's safetensors.h does

#include "safetensors.hpp"

extern "C" st_status other_open(const char* path, const st_open_options* options, st_file** out, st_error* err);

std::vector<float> slice_by_the_other_copy(const char* path, const std::int64_t (&begin)[2],
                                           const std::int64_t (&end)[2], const std::int64_t (&step)[2]);

std::vector<float> slice_by_the_other_copy(const char* path, const std::int64_t (&begin)[2],
                                           const std::int64_t (&end)[2], const std::int64_t (&step)[2]) {
  st_file* file = nullptr;
  if (other_open(path, nullptr, &file, nullptr) != ST_OK) return {};
  st_free(file);  // other_free
  const safetensors::SafeOpen opened(path);
  return opened.get_slice("matrix", {{begin[0], end[0], step[0]}, {begin[1], end[1], step[1]}}).read<float>();
}
