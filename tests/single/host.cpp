// A program with two copies of the library: its own, and one with another prefix (second.cpp).
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <vector>

#include "safetensors.hpp"

bool reads_with_the_other_copy(const char* path);

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "host: %s\n", what);
  ++failures;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = std::string(argc > 1 ? argv[1] : ".") + "/host.safetensors";
  const std::vector<float> bias{1, 2, 3};
  safetensors::save_file({{"bias", bias}}, path, {{"format", "pt"}});
  const auto file = safetensors::SafeOpen(path);
  expect(file.get_tensor("bias").read<float>() == bias, "the tensor differs from what was written");
  expect(reads_with_the_other_copy(path.c_str()), "the other copy does not read the file");
  try {
    safetensors::SafeOpen("does-not-exist.safetensors");
    expect(false, "a file that does not exist was opened");
  } catch (const safetensors::Error& error) {
    expect(error.status() == ST_ERR_OPEN, "the status is not ST_ERR_OPEN");
  }
  std::remove(path.c_str());
  if (failures == 0) std::puts("host: both copies work");
  return failures == 0 ? 0 : 1;
}
