// Without libFuzzer: every file of the folders named, and a fixed set of mutants of each.
//
//   fuzz_NAME [MUTANTS] FOLDER...
// SPDX-License-Identifier: Apache-2.0
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
#include <vector>

#include "fuzz.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMutants = 300;
constexpr std::size_t kLargestToMutate = 4096;
constexpr std::size_t kGrowth = 256;

const char* current = "";  // for the message of a failure
const std::vector<std::uint8_t>* input = nullptr;
std::mt19937_64 engine(20261126);

std::vector<fs::path> files_under(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path, fs::directory_options::follow_directory_symlink)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // the mutants depend on the order
  return files;
}

// A copy of the exact size, so that a sanitizer sees every byte read past the end.
void run(const std::string& file) {
  const std::vector<std::uint8_t> exact(file.begin(), file.end());
  input = &exact;
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  input = nullptr;
}

// As libFuzzer, leaves the input that fails. (ASan needs ASAN_OPTIONS=abort_on_error=1.)
void at_abort(int) {
  std::fprintf(stderr, "in %s, or a mutant of it: see fuzz-failure\n", current);
  if (input == nullptr) return;  // the abort is not the target's
  if (std::FILE* const file = std::fopen("fuzz-failure", "wb")) {
    std::fwrite(input->data(), 1, input->size(), file);
    std::fclose(file);
  }
}

// Changes one to four places.
std::string with_changed_bytes(std::string file) {
  using namespace std::string_view_literals;
  constexpr auto kBytes =
      "\"\\{}[]:,0123456789-.eEtfn \n\0\xFF"
      "(FIJKMNPQRSTUVXabcdghijlopqrsu)BC\x80\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8f\x90\x91\x92\x93\x94\x95\x96"sv;
  for (std::size_t n = 1 + engine() % 4; n > 0 && !file.empty(); --n) {
    const std::size_t at = engine() % file.size();
    switch (engine() % 6) {
      case 0: file[at] = static_cast<char>(file[at] ^ (1 << engine() % 8)); break;
      case 1: file[at] = kBytes[engine() % kBytes.size()]; break;
      case 2: file.erase(at, 1 + engine() % 8); break;
      case 3: file.insert(at, 1, kBytes[engine() % kBytes.size()]); break;
      case 4: file.insert(at, file.substr(engine() % file.size(), 1 + engine() % 32)); break;
      default: file[at] = static_cast<char>(engine());
    }
  }
  return file;
}

std::string mutant(const std::string& file) {
  std::vector<std::uint8_t> room(file.begin(), file.end());
  room.resize(file.size() + kGrowth);
#ifdef ST_HAS_MUTATOR
  const auto seed = static_cast<unsigned>(engine());
  const std::size_t size = LLVMFuzzerCustomMutator(room.data(), file.size(), room.size(), seed);
#else
  const std::size_t size = LLVMFuzzerMutate(room.data(), file.size(), room.size());
#endif
  return std::string(room.data(), room.data() + size);
}

}  // namespace

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most) {
  return fuzz::change(data, size, most, with_changed_bytes);
}

int main(int argc, char** argv) {
  std::signal(SIGABRT, at_abort);
  const std::size_t given = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const std::size_t mutants = given > 0 ? given : kMutants;
  std::size_t files = 0;
  std::size_t mutated = 0;
  for (int i = given > 0 ? 2 : 1; i < argc; ++i) {
    for (const fs::path& path : files_under(argv[i])) {
      std::ifstream stream(path, std::ios::binary);
      const std::string file{std::istreambuf_iterator<char>(stream), {}};
      current = path.c_str();
      run(file);
      ++files;
      if (file.size() > kLargestToMutate) continue;
      for (std::size_t n = 0; n < mutants; ++n, ++mutated) run(mutant(file));
    }
  }
  std::printf("%zu files and %zu mutants\n", files, mutated);
  return files == 0 ? 1 : 0;
}
