// A program with two copies of the library: its own, and one with another prefix (second.cpp).
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#define check(assertion) host_check(assertion)  // as headers of macOS do
#include "safetensors.hpp"
#undef check

std::vector<float> slice_by_the_other_copy(const char* path, const std::int64_t (&begin)[2],
                                           const std::int64_t (&end)[2], const std::int64_t (&step)[2]);
const char* status_without_exceptions(const char* path);

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "host: %s\n", what);
  ++failures;
}

// Slices of the second copy, which reads them without the engine of plans: gaps of all sizes, several windows.
void compare_slices(const std::string& path, const std::vector<float>& matrix, std::int64_t columns) {
  const std::int64_t rows = static_cast<std::int64_t>(matrix.size()) / columns;
  const std::int64_t cases[][6] = {{0, rows, 1, 0, columns, 1}, {3, 9, 1, 0, columns, 1},    {0, rows, 1, 5, 6, 1},
                                   {0, rows, 7, 0, columns, 3}, {0, rows, 1, 1, columns, 1}, {1, rows, 499, 2, 4, 1}};
  for (const auto& [first, last, down, left, right, across] : cases) {
    std::vector<float> expected;
    for (std::int64_t row = first; row < last; row += down) {
      for (std::int64_t column = left; column < right; column += across)
        expected.push_back(matrix[static_cast<std::size_t>(row * columns + column)]);
    }
    const std::vector<float> read = slice_by_the_other_copy(path.c_str(), {first, left}, {last, right}, {down, across});
    expect(read == expected, "a slice of the other copy differs");
  }
  const std::vector<float> backwards =
      slice_by_the_other_copy(path.c_str(), {ST_SLICE_END, 0}, {ST_SLICE_BEGIN, 1}, {-1, 1});
  bool reversed = static_cast<std::int64_t>(backwards.size()) == rows;
  for (std::int64_t row = 0; reversed && row < rows; ++row)
    reversed = backwards[static_cast<std::size_t>(row)] == matrix[static_cast<std::size_t>((rows - 1 - row) * columns)];
  expect(reversed, "a slice backwards differs");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = std::string(argc > 1 ? argv[1] : ".") + "/host.safetensors";
  const std::vector<float> bias{1, 2, 3};
  std::vector<float> matrix(1500 * 700);  // 4.2 MB
  std::iota(matrix.begin(), matrix.end(), 0.0F);
  safetensors::save_file({{"bias", bias}, {"matrix", safetensors::TensorView(matrix, {1500, 700})}}, path,
                         {{"format", "pt"}});
  const auto file = safetensors::SafeOpen(path);
  expect(file.get_tensor("bias").read<float>() == bias, "the tensor differs from what was written");
  compare_slices(path, matrix, 700);
  expect(std::string(status_without_exceptions(path.c_str())) == "ST_OK", "the copy without exceptions fails");
  expect(std::string(status_without_exceptions("does-not-exist")) == "ST_ERR_OPEN", "an error is not reported");
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
