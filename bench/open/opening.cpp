// How long it takes to open a file: ours, the crates, the floor and simdjson's first stage in turns.
// SPDX-License-Identifier: Apache-2.0
#include "opening.hpp"

#include <malloc.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

namespace bench {

namespace {

using Work = std::function<void()>;

constexpr int kKeepEverything = 1 << 30;

Work opening(const Loader* loader, const std::vector<std::string>& files) {
  if (loader == nullptr || files.empty()) return {};
  return [loader, files] {
    for (const std::string& path : files) {
      void* const file = loader->open(path.c_str());
      if (file == nullptr) throw std::runtime_error(fmt::format("{} refuses '{}'", loader->name, path));
      loader->close(file);
    }
  };
}

Work first_stages(const std::vector<std::string>& files) {
  auto stages = std::make_shared<std::vector<std::unique_ptr<StageOne>>>();
  for (const std::string& path : files) stages->push_back(std::make_unique<StageOne>(path));
  return [stages] {
    for (const auto& stage : *stages) stage->run();
  };
}

// The floor of a model in shards as one handle, which we open on as many threads.
Work opening_on_threads(const std::vector<std::string>& files) {
  return [files] {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next.fetch_add(1); i < files.size(); i = next.fetch_add(1)) {
        kFloor.close(kFloor.open(files[i].c_str()));
      }
    };
    std::vector<std::thread> threads;
    while (threads.size() + 1 < std::thread::hardware_concurrency()) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  };
}

std::string time_text(const Sample& sample) {
  if (sample.min_ns == 0) return "-";
  return sample.min_ns < 1e6 ? fmt::format("{:.1f} us", sample.min_ns / 1e3)
                             : fmt::format("{:.2f} ms", sample.min_ns / 1e6);
}

std::string ratio_text(const Sample& above, const Sample& below) {
  return above.min_ns == 0 || below.min_ns == 0 ? "-" : fmt::format("{:.2f}", above.min_ns / below.min_ns);
}

}  // namespace

OpenRow measure_open(const Case& tested, const Loader* before, int rounds, Memory memory) {
  // Left to itself glibc changes its mind, after the first large blocks, about which it gives back to the system: a
  // reader would be measured by what came before it.
  mallopt(M_MMAP_THRESHOLD, kKeepEverything);
  mallopt(M_TRIM_THRESHOLD, kKeepEverything);
  const auto give_back = [] { malloc_trim(0); };
  std::vector<std::string> bintensors;
  if (!tested.bintensors_file.empty()) bintensors.push_back(tested.bintensors_file);
  const bool in_shards = !tested.folder.empty();
  const std::vector<Sample> samples = alternate(
      {opening(&kOurs, tested.files), opening(kCrate, tested.files), opening(&kFloor, tested.files),
       first_stages(tested.files), opening(kBintensorsCrate, bintensors), opening(&kOurs, bintensors),
       in_shards ? opening(&kOurs, {tested.folder}) : Work(), in_shards ? opening_on_threads(tested.files) : Work(),
       opening(before, tested.files), in_shards ? opening(before, {tested.folder}) : Work()},
      rounds, memory == Memory::fresh ? Work(give_back) : Work());
  return {&tested,    samples[0], samples[1], samples[2], samples[3], samples[4],
          samples[5], samples[6], samples[7], samples[8], samples[9]};
}

void print(const std::vector<OpenRow>& rows) {
  fmt::print(
      "{:<14}{:>8}{:>10} |{:>10}{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7}\n",
      "", "tensors", "header", "ours", "median", "ns/t", "before", "ours/", "crate", "/ours", "floor", "ours/",
      "stage 1", "ours/", "bintens.", "/ours", "our bt", "crate/");
  for (const OpenRow& row : rows) {
    const Case& tested = *row.tested;
    const double per_tensor = row.ours.min_ns / static_cast<double>(tested.tensors);
    fmt::print(
        "{:<14}{:>8}{:>10} |{:>10}{:>10}{:>7.1f} |{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7}\n",
        tested.name, tested.tensors, tested.header_bytes, time_text(row.ours), time_text({row.ours.median_ns, 0}),
        per_tensor, time_text(row.before), ratio_text(row.ours, row.before), time_text(row.crate),
        ratio_text(row.crate, row.ours), time_text(row.floor), ratio_text(row.ours, row.floor),
        time_text(row.stage_one), ratio_text(row.ours, row.stage_one), time_text(row.bintensors),
        ratio_text(row.bintensors, row.ours), time_text(row.ours_bintensors),
        ratio_text(row.bintensors, row.ours_bintensors));
    if (row.checkpoint.min_ns == 0) continue;
    fmt::print(
        "  as one handle, with its index   |{:>10}{:>10}{:>7.1f} |{:>10}{:>7} |{:>10}{:>7} |{:>10}{:>7} | (floor on {} threads)\n",
        time_text(row.checkpoint), time_text({row.checkpoint.median_ns, 0}),
        row.checkpoint.min_ns / static_cast<double>(tested.tensors), time_text(row.checkpoint_before),
        ratio_text(row.checkpoint, row.checkpoint_before), time_text(row.crate), ratio_text(row.crate, row.checkpoint),
        time_text(row.floor_on_threads), ratio_text(row.checkpoint, row.floor_on_threads),
        std::thread::hardware_concurrency());
  }
}

nlohmann::ordered_json json_of(const OpenRow& row) {
  const Case& tested = *row.tested;
  nlohmann::ordered_json json{
      {"case", tested.name}, {"tensors", tested.tensors}, {"header_bytes", tested.header_bytes}};
  const auto add = [&json](const char* name, const Sample& sample) {
    if (sample.min_ns != 0) json[name] = {{"min_ns", sample.min_ns}, {"median_ns", sample.median_ns}};
  };
  add("ours", row.ours);
  add("crate", row.crate);
  add("floor", row.floor);
  add("stage_one", row.stage_one);
  add("bintensors", row.bintensors);
  add("ours_bintensors", row.ours_bintensors);
  add("checkpoint", row.checkpoint);
  add("floor_on_threads", row.floor_on_threads);
  add("before", row.before);
  add("checkpoint_before", row.checkpoint_before);
  return json;
}

}  // namespace bench
