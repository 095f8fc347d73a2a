// Without libFuzzer: every file of the folders named, and for each small one a fixed set of mutants.
// SPDX-License-Identifier: Apache-2.0
#ifndef ST_LIBFUZZER

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMutants = 300;
constexpr std::size_t kLargestToMutate = 4096;

const char* current = "";  // for the message of a failure

std::vector<fs::path> files_under(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path, fs::directory_options::follow_directory_symlink)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // the mutants depend on the order
  return files;
}

void run(const std::string& file) {
  // A copy of the exact size, so that a sanitizer sees every byte read past the end.
  const std::vector<unsigned char> exact(file.begin(), file.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

// The length in front is set right again for half of them, or few would come as far as the header.
std::string mutant(std::string file, std::mt19937_64& random) {
  using namespace std::string_view_literals;
  constexpr auto kBytes = "\"\\{}[]:,0123456789-.eEtfn \n\0\xFF"sv;
  const auto byte = [&file](std::size_t at) {
    return std::size_t{at < file.size() ? static_cast<unsigned char>(file[at]) : 0U};
  };
  const std::size_t header_end = std::min(file.size(), 8 + (byte(0) | byte(1) << 8));
  const std::size_t data = file.size() - header_end;
  for (std::size_t n = 1 + random() % 3; n > 0 && file.size() > 9; --n) {
    const std::size_t at = 8 + random() % (file.size() - 8);
    switch (random() % 4) {
      case 0: file[at] = static_cast<char>(file[at] ^ (1 << random() % 8)); break;
      case 1: file[at] = kBytes[random() % kBytes.size()]; break;
      case 2: file.erase(at, 1 + random() % 8); break;
      default: file.insert(at, file.substr(8 + random() % (file.size() - 8), 1 + random() % 16));
    }
  }
  if (file.size() < 8 + data || random() % 2 == 0) return file;
  const std::uint64_t length = file.size() - 8 - data;
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i));
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, [](int) { std::fprintf(stderr, "in %s, or a mutant of it\n", current); });
  std::mt19937_64 random(20240229);
  std::size_t files = 0;
  std::size_t mutants = 0;
  for (int i = 1; i < argc; ++i) {
    for (const fs::path& path : files_under(argv[i])) {
      std::ifstream stream(path, std::ios::binary);
      const std::string file{std::istreambuf_iterator<char>(stream), {}};
      current = path.c_str();
      run(file);
      ++files;
      if (file.size() > kLargestToMutate) continue;
      for (std::size_t n = 0; n < kMutants; ++n, ++mutants) run(mutant(file, random));
    }
  }
  std::printf("%zu files and %zu mutants\n", files, mutants);
  return files == 0 ? 1 : 0;
}

#endif  // ST_LIBFUZZER
