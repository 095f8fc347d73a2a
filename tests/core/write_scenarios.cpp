// SPDX-License-Identifier: Apache-2.0
#include "write_scenarios.hpp"

#include <fstream>
#include <sstream>

#include "core/checkpoint.hpp"

namespace st::core::write_scenarios {

namespace fs = std::filesystem;
using faults::Plan;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

static std::string pattern(std::size_t n, unsigned seed) {
  std::string bytes(n, '\0');
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<char>((i * 31 + seed + (i >> 8)) & 0xFF);
  return bytes;
}

void write_file(const fs::path& path, unsigned seed, const WriteOptions& options, const fs::path& other) {
  const std::string big = pattern(3 << 16, seed);
  const std::string small = pattern(100, seed + 1);
  const std::uint64_t big_shape[] = {3 << 16};
  const std::uint64_t small_shape[] = {100};
  CheckpointPtr source;
  if (!other.empty()) source = Checkpoint::open(other.c_str(), {});
  Writer writer;
  writer.set_metadata("format", "pt");
  writer.set_metadata("seed", std::to_string(seed));
  writer.add("a", Dtype::U8, small_shape, small.data());
  writer.add("b", Dtype::U8, big_shape, big.data());
  const std::size_t pieces = writer.add("pieces", Dtype::I8, big_shape, nullptr);
  const std::size_t small_pieces = writer.add("small pieces", Dtype::I8, small_shape, nullptr);
  if (source) writer.add("copy", *source->tensor("b"));
  writer.begin(path.c_str(), options);
  for (std::size_t at = big.size(); at > 0; at -= 1 << 16)
    writer.put(pieces, at - (1 << 16), big.data() + at - (1 << 16), 1 << 16);
  for (const std::size_t at : {50U, 0U}) writer.put(small_pieces, at, small.data() + at, 50);
  writer.finish();
}

WriteOptions options(bool sync, bool replace) {
  WriteOptions chosen;
  chosen.create.sync = sync;
  chosen.create.replace = replace;
  return chosen;
}

void edit(const fs::path& folder, const EditOptions& how, std::string_view value) {
  const MetadataChange change{"note", value};
  edit_metadata((folder / kTarget).c_str(), {&change, 1}, how);
}

namespace {

std::vector<Scenario> make_scenarios() {
  const auto nothing = [](const fs::path&) {};
  const auto old_file = [](const fs::path& folder) {
    WriteOptions roomy;
    roomy.header_reserve = 300;
    write_file(folder / kTarget, 1, roomy);
  };
  const auto old_without_room = [](const fs::path& folder) { write_file(folder / kTarget, 1, {}); };
  const auto link = [](const fs::path& folder) {
    fs::create_directory(folder / "real");
    write_file(folder / "real" / "blob", 1, {});
    fs::create_symlink("real/blob", folder / kTarget);
  };
  const auto two_files = [](const fs::path& folder) {
    write_file(folder / kTarget, 1, {});
    write_file(folder / "other.safetensors", 7, {});
  };
  const auto save = [](bool sync) {
    return [sync](const fs::path& folder) { write_file(folder / kTarget, 2, options(sync)); };
  };
  const auto copy = [](const fs::path& folder) {
    write_file(folder / kTarget, 2, options(false), folder / "other.safetensors");
  };
  const auto only_new = [](const fs::path& folder) { write_file(folder / kTarget, 2, options(true, false)); };
  const auto change = [](bool sync) { return [sync](const fs::path& folder) { edit(folder, {sync}, "a new note"); }; };
  const auto remove_and_grow = [](const fs::path& folder) { edit(folder, {true}, std::string(5000, 'n')); };

  const Plan old_kernel{.no_nameless_files = true};
  const Plan no_links{.no_links = true};
  return {
      {"new", false, nothing, save(false)},
      {"new, synced", true, nothing, save(true)},
      {"new, not replacing", true, nothing, only_new},
      {"replacing", false, old_file, save(false)},
      {"replacing, synced", true, old_file, save(true)},
      {"through a link", true, link, save(true)},
      {"copying", false, two_files, copy},
      {"copying by hand", false, two_files, copy, {.no_kernel_copies = true}},
      {"copying, half of it by hand", false, two_files, copy, {.half_a_copy = true}},
      {"new, named temp_file", true, nothing, save(true), old_kernel},
      {"new, links refused", true, nothing, save(true), no_links},
      {"new, not replacing, named temp_file", true, nothing, only_new, old_kernel},
      {"replacing, named temp_file", true, old_file, save(true), old_kernel},
      {"replacing, links refused", true, old_file, save(true), no_links},
      {"edit in place", false, old_file, change(false)},
      {"edit in place, synced", true, old_file, change(true)},
      {"edit by new file", false, old_without_room, change(false)},
      {"edit by new file, synced", true, old_without_room, remove_and_grow},
      {"edit by new file, named temp_file, by hand",
       true,
       old_without_room,
       remove_and_grow,
       {.no_nameless_files = true, .no_kernel_copies = true}},
  };
}

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = make_scenarios();
  return all;
}

}  // namespace st::core::write_scenarios
