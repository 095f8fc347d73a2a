// A program in C++ that uses both headers.
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.hpp>

#include "../consumer.h"

namespace {

bool read_through_objects() {
  unsigned char bytes[128];
  const std::size_t size = consumer_file(bytes);
  const auto file = safetensors::SafeOpen::from_memory(bytes, size);
  return file.get_tensor("a").read<float>() == std::vector<float>{1.5F, -2.0F};
}

bool refusal_is_thrown() {
  try {
    safetensors::SafeOpen::from_memory("\x02\0\0\0\0\0\0\0[]", 10);
  } catch (const safetensors::Error& error) {
    return error.status() == ST_ERR_SCHEMA;
  }
  return false;
}

}  // namespace

int main() { return read_through_objects() && refusal_is_thrown() ? consumer_main() : 1; }
