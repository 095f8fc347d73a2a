// Without libFuzzer: every file of the folders named, and a fixed set of mutants of each. A number in front of the
// folders is that of the mutants.
// SPDX-License-Identifier: Apache-2.0
#ifndef ST_LIBFUZZER

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);

// What a mutant needs in order to come further: each target has its own.
std::string repaired(std::string file);

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMutants = 3000;

const char* current = "";  // for the message of a failure

void run(const std::string& file) {
  // A copy of the exact size, so that a sanitizer sees every byte read past the end.
  const std::vector<unsigned char> exact(file.begin(), file.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::string mutant(std::string file, std::mt19937_64& random) {
  using namespace std::string_view_literals;
  constexpr auto kOpcodes =
      "(.012FIJKMNPQRSTUVXabcdeghijlopqrstu}]){BC\x80\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8f\x90\x91\x92\x93\x94\x95\x96\0\xFF"sv;
  for (std::size_t n = 1 + random() % 4; n > 0 && file.size() > 4; --n) {
    const std::size_t at = 2 + random() % (file.size() - 2);
    const std::size_t from = 2 + random() % (file.size() - 2);
    switch (random() % 6) {
      case 0: file[at] = static_cast<char>(file[at] ^ (1 << random() % 8)); break;
      case 1: file[at] = kOpcodes[random() % kOpcodes.size()]; break;
      case 2: file.erase(at, 1 + random() % 8); break;
      case 3: file.insert(at, 1, kOpcodes[random() % kOpcodes.size()]); break;
      case 4: file.insert(at, file.substr(from, 1 + random() % 64)); break;
      default: file[at] = static_cast<char>(random());
    }
  }
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, [](int) { std::fprintf(stderr, "in %s, or a mutant of it\n", current); });
  std::mt19937_64 random(20261122);
  const std::size_t given = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const std::size_t mutants = given > 0 ? given : kMutants;
  std::size_t files = 0;
  for (int i = given > 0 ? 2 : 1; i < argc; ++i) {
    std::vector<fs::path> paths(fs::directory_iterator(argv[i]), fs::directory_iterator{});
    std::sort(paths.begin(), paths.end());  // the mutants depend on the order
    for (const fs::path& path : paths) {
      std::ifstream stream(path, std::ios::binary);
      const std::string file{std::istreambuf_iterator<char>(stream), {}};
      current = path.c_str();
      run(file);
      ++files;
      for (std::size_t n = 0; n < mutants; ++n) {
        std::string changed = mutant(file, random);
        run(n % 2 == 0 ? repaired(std::move(changed)) : changed);
      }
    }
  }
  std::printf("%zu files and %zu mutants\n", files, files * mutants);
  return files == 0 ? 1 : 0;
}

#endif  // ST_LIBFUZZER
