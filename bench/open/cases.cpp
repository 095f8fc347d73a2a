// The files to open, as layouts.py lists them: a line of tab-separated words for each.
// SPDX-License-Identifier: Apache-2.0
#include "cases.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

namespace bench {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> shards_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Case read_case(const std::string& line, const fs::path& folder) {
  std::istringstream words(line);
  Case result;
  std::string path;
  words >> result.kind >> result.name >> path >> result.tensors >> result.header_bytes >> result.our_verdict >>
      result.reference_verdict;
  if (!words) throw std::runtime_error(fmt::format("manifest: cannot read '{}'", line));
  const fs::path whole = folder / path;
  if (result.kind == "shards") {
    result.folder = whole;
    result.files = shards_in(whole);
  } else {
    result.files = {whole};
    result.bintensors_file = fs::path(whole).replace_extension(".bt");
    if (!fs::exists(result.bintensors_file)) result.bintensors_file.clear();
  }
  return result;
}

}  // namespace

std::vector<Case> read_cases(const std::string& folder, const std::string& manifest) {
  std::ifstream file(fs::path(folder) / manifest);
  if (!file)
    throw std::runtime_error(
        fmt::format("no {} in '{}': bench/layouts.py --hostile {} makes it", manifest, folder, folder));
  std::vector<Case> cases;
  std::string line;
  std::getline(file, line);  // the names of the columns
  while (std::getline(file, line)) cases.push_back(read_case(line, folder));
  return cases;
}

}  // namespace bench
