// Random plans while the system fails: the bytes equal a naive copy, or the error is the injected one.
//
// Case N uses seed N, so it is the same each time. After a failure, the same plan without faults must read every byte.
// No descriptor or mapping may leak.
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../format/file_front.hpp"
#include "../io/read_faults.hpp"
#include "../io/system.hpp"
#include "base/error.hpp"
#include "core/checkpoint.hpp"
#include "core/plan.hpp"
#include "io/source.hpp"

namespace st::core::random_plans_test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShards = 3;
constexpr std::uint64_t kSeeds = 500;
constexpr std::size_t kGuard = 64;
constexpr std::size_t kPage = 4096;
constexpr std::int32_t kRefused = 77;  // the result of the callback

using Shape = std::vector<std::uint64_t>;

const Shape kShapes[] = {{},         {1},        {0, 5},      {999},         {4096},        {70'000},
                         {300, 64},  {2000, 37}, {5, 40'000}, {7, 11, 13},   {20, 30, 40},  {3, 1, 4, 100},
                         {64, 2000}, {100, 1},   {12, 5000},  {8, 2, 3, 50}, {2, 1'100'003}};

struct Model {
  struct Tensor {
    std::string name;
    Shape shape;
    std::size_t shard = 0;
    std::size_t begin = 0;  // in the shard's file
  };

  Model() {
    std::string name = (fs::temp_directory_path() / "random-plans-XXXXXX").string();
    folder = mkdtemp(name.data());
    for (std::size_t i = 0; i < kShards; ++i) add_shard(i);
  }
  ~Model() { fs::remove_all(folder); }
  Model(const Model&) = delete;

  fs::path path(std::size_t shard) const {
    return folder / formatted("m-{:05}-of-{:05}.safetensors", shard + 1, kShards);
  }

  // Drops the file from the page cache, if the system supports it.
  void evict() const {
    for (std::size_t i = 0; i < kShards; ++i) {
      const int file = ::open(path(i).c_str(), O_RDONLY | O_CLOEXEC);
      posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
      ::close(file);
    }
  }

  fs::path folder;
  std::vector<Tensor> tensors;
  std::string files[kShards];

 private:
  // Each shard has every shape, except that only the last has the longest.
  void add_shard(std::size_t number) {
    std::string header = "{";
    std::size_t at = 0;
    const std::size_t first = tensors.size();
    for (const Shape& shape : kShapes) {
      if (&shape == std::end(kShapes) - 1 && number + 1 != kShards) break;
      std::size_t bytes = 1;
      for (const std::uint64_t dim : shape) bytes *= static_cast<std::size_t>(dim);
      tensors.push_back({formatted("t{}", tensors.size()), shape, number, at});
      header += formatted(R"({}"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", at == 0 ? "" : ",",
                          tensors.back().name, fmt::join(shape, ","), at, at + bytes);
      at += bytes;
    }
    header += "}" + std::string(number, ' ');  // data at any alignment
    std::string& file = files[number];
    file = format::file_front(header);
    for (std::size_t i = first; i < tensors.size(); ++i) tensors[i].begin += file.size();
    std::mt19937_64 random(number);
    const std::size_t data = file.size();
    file.resize(data + at);
    for (std::size_t i = data; i < file.size(); ++i) file[i] = static_cast<char>(random());
    std::ofstream(path(number), std::ios::binary) << file;
    const int descriptor = ::open(path(number).c_str(), O_RDONLY | O_CLOEXEC);
    fsync(descriptor);  // else it is never read around the cache
    ::close(descriptor);
  }
};

const Model& model() {
  static const Model made;
  return made;
}

// ---- slices, one element after another -----------------------------------------------------------------------------

struct Wish {
  const Model::Tensor* tensor = nullptr;
  bool whole = false;
  std::vector<std::int64_t> begin, end, step;
  std::string bytes;
  std::string expected;  // in its place, with guards on both sides
  std::string got;
  std::size_t at = 0;
};

// Copies byte by byte from the tensor's data. Returns the end of the copy.
char* copy_naively(const Wish& wish, const char* data, std::size_t dim, std::size_t element, char* out) {
  const Shape& shape = wish.tensor->shape;
  if (dim == shape.size()) {
    *out = data[element];
    return out + 1;
  }
  const auto length = static_cast<std::int64_t>(shape[dim]);
  const std::int64_t step = wish.step[dim];
  const std::int64_t end = wish.end[dim] < 0 ? -1 : wish.end[dim];
  for (std::int64_t at = wish.begin[dim]; step > 0 ? at < end : at > end; at += step)
    out = copy_naively(wish, data, dim + 1, element * static_cast<std::size_t>(length) + static_cast<std::size_t>(at),
                       out);
  return out;
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::uint64_t n) { return static_cast<std::size_t>(random_() % n); }
  template <class T, std::size_t N>
  T any_of(const T (&values)[N]) {
    return values[below(N)];
  }

 private:
  std::mt19937_64 random_;
};

// Backwards from the last element, or forwards between any two.
void cut(Wish& wish, Dice& dice) {
  constexpr std::int64_t kSteps[] = {1, 1, 1, 1, 2, 3, -1, -2};
  for (const std::uint64_t dim : wish.tensor->shape) {
    const auto length = static_cast<std::int64_t>(dim);
    const std::int64_t step = dim == 0 ? 1 : dice.any_of(kSteps);
    std::int64_t begin = step < 0 ? length - 1 : static_cast<std::int64_t>(dice.below(dim / 2 + 1));
    std::int64_t end = step < 0 ? -length - 1 : length - static_cast<std::int64_t>(dice.below(dim / 2 + 1));
    if (dice.below(2) == 0 && step > 0) {
      begin = 0;
      end = length;
    }
    wish.begin.push_back(begin);
    wish.end.push_back(end);
    wish.step.push_back(step);
  }
}

// Every other destination has the same offset in its page as the tensor in its file, so direct reads can fill it.
void place(Wish& wish, Dice& dice) {
  wish.got.assign(wish.bytes.size() + 2 * kGuard + kPage, '\xEE');
  wish.at = kGuard + dice.below(8);
  if (dice.below(2) == 0) {
    const auto address = reinterpret_cast<std::uintptr_t>(wish.got.data());
    wish.at = kGuard + (wish.tensor->begin - address - kGuard) % kPage;
  }
  wish.expected = wish.got;
  wish.expected.replace(wish.at, wish.bytes.size(), wish.bytes);
}

std::vector<Wish> random_wishes(std::optional<std::size_t> shard, Dice& dice) {
  std::vector<Wish> wishes(1 + dice.below(6));
  for (Wish& wish : wishes) {
    do {
      wish.tensor = &model().tensors[dice.below(model().tensors.size())];
    } while (shard && wish.tensor->shard != *shard);
    wish.whole = dice.below(3) == 0;
    cut(wish, dice);
    std::size_t bytes = 1;
    for (const std::uint64_t dim : wish.tensor->shape) bytes *= static_cast<std::size_t>(dim);
    wish.bytes = model().files[wish.tensor->shard].substr(wish.tensor->begin, bytes);
    if (!wish.whole) {
      const std::string data = wish.bytes;
      const char* const end = copy_naively(wish, data.data(), 0, 0, wish.bytes.data());
      wish.bytes.resize(static_cast<std::size_t>(end - wish.bytes.data()));
    }
    place(wish, dice);
  }
  return wishes;
}

// ---- what fails ----------------------------------------------------------------------------------------------------

struct Fault {
  const char* call;
  int error;
  bool told;  // otherwise there is a fallback, or the call is repeated
};

// A failed open is an error only if there is neither a mapping nor a kept descriptor to read the bytes from.
constexpr Fault kFaults[] = {
    {"read", EINTR, false},
    {"read", EIO, true},
    {"pread", EIO, true},
    {"preadv", EIO, true},
    {"direct read", EIO, true},
    {"direct read", EINVAL, false},
    {"direct read", EFAULT, false},
    {"direct read", EINTR, false},
    {"open", EMFILE, false},
    {"open", EMFILE, false},
    {"read", 0, false},
    {"callback", 0, true},
};

// A source whose reads can be made to fail.
struct Caller {
  const std::string* bytes = nullptr;
  std::atomic<std::size_t> left{SIZE_MAX};  // so many succeed
  std::atomic<std::size_t> refused{0};

  static std::int32_t read_at(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
    auto& self = *static_cast<Caller*>(ctx);
    if (self.left != SIZE_MAX && self.left.fetch_sub(1) == 0) {
      self.left = 0;
      ++self.refused;
      return kRefused;
    }
    std::memcpy(dst, self.bytes->data() + offset, n);
    return 0;
  }
};

// As if other parts of the program had used up all descriptors: bytes then come through open ones.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreDescriptors(const NoMoreDescriptors&) = delete;

 private:
  rlimit before_{};
};

CheckpointPtr open_any(Dice& dice, Caller& caller, bool by_callbacks, std::optional<std::size_t>& shard) {
  constexpr io::Mode kModes[] = {io::Mode::automatic, io::Mode::map, io::Mode::read, io::Mode::copy_on_write};
  OpenOptions options;
  options.io = dice.any_of(kModes);
  options.threads = 1;
  if (!by_callbacks && dice.below(2) == 0) return Checkpoint::open(model().folder.c_str(), options);
  shard = dice.below(kShards);
  if (!by_callbacks) return Checkpoint::open(model().path(*shard).c_str(), options);
  caller.bytes = &model().files[*shard];
  return Checkpoint::open(io::callback_source({Caller::read_at, nullptr, &caller}, caller.bytes->size()), options);
}

ReadOptions random_options(Dice& dice) {
  constexpr unsigned kThreads[] = {1, 1, 2, 3, 0};
  constexpr io::Cache kCaches[] = {io::Cache::automatic, io::Cache::through, io::Cache::around, io::Cache::mapped};
  constexpr std::uint64_t kChunks[] = {0, 65536, 1 << 20};
  constexpr std::uint64_t kGaps[] = {0, 512, 4096, 1 << 20};
  ReadOptions options;
  options.threads = dice.any_of(kThreads);
  options.cache = dice.any_of(kCaches);
  options.chunk_bytes = dice.any_of(kChunks);
  options.gap_bytes = dice.any_of(kGaps);
  return options;
}

std::size_t descriptors() {
  std::size_t n = 0;
  DIR* const stream = opendir("/proc/self/fd");
  while (readdir(stream) != nullptr) ++n;
  closedir(stream);
  return n;
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t n = 0;
  for (std::string line; std::getline(maps, line);) n += line.find(model().folder.string()) != line.npos ? 1U : 0U;
  return n;
}

std::optional<Error> outcome(Plan& plan, const ReadOptions& options) {
  try {
    plan.run(options);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void expect_bytes(const Plan& plan, const std::vector<Wish>& wishes, bool all) {
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    const auto& [expected, got] = std::tie(wishes[i].expected, wishes[i].got);
    if (all || plan.complete(i)) {
      EXPECT_TRUE(got == expected) << "tensor " << wishes[i].tensor->name;
    }
    const std::size_t end = wishes[i].at + wishes[i].bytes.size();
    EXPECT_EQ(got.substr(0, wishes[i].at), expected.substr(0, wishes[i].at));
    EXPECT_EQ(got.substr(end), expected.substr(end));
    EXPECT_TRUE(!all || plan.complete(i));
  }
}

void forget(std::vector<Wish>& wishes) {
  for (Wish& wish : wishes) wish.got.assign(wish.expected.size(), '\xEE');
}

// How often the faulty call was reached.
std::size_t one_case(std::uint64_t seed) {
  Dice dice(seed);
  const Fault fault = dice.any_of(kFaults);
  const bool by_callbacks = std::string(fault.call) == "callback";
  Caller caller;
  std::optional<std::size_t> shard;
  const CheckpointPtr file = open_any(dice, caller, by_callbacks, shard);
  std::vector<Wish> wishes = random_wishes(shard, dice);
  forget(wishes);
  Plan plan(*file);
  for (Wish& wish : wishes) {
    const auto of = [&](const auto& numbers) { return wish.whole ? nullptr : numbers.data(); };
    plan.add(*file->tensor(wish.tensor->name), of(wish.begin), of(wish.end), of(wish.step), wish.got.data() + wish.at,
             wish.bytes.size());
  }
  if (dice.below(3) == 0) model().evict();
  constexpr std::size_t kShort[] = {0, 0, 1000, 4096, 70'001};
  const ReadOptions options = random_options(dice);
  read_faults::Plan faults{fault.call, dice.below(4), dice.below(2) == 0 ? 1 : SIZE_MAX, fault.error};
  if (fault.error == EINTR) faults.times = 1 + dice.below(5);
  faults.short_reads = dice.any_of(kShort);
  if (by_callbacks) caller.left = dice.below(4);
  std::optional<NoMoreDescriptors> exhausted;
  if (std::string(fault.call) == "pread") exhausted.emplace();
  read_faults::arm(faults);
  const std::optional<Error> error = outcome(plan, options);
  exhausted.reset();
  read_faults::disarm();
  std::size_t reached = read_faults::calls();
  if (by_callbacks) reached = caller.refused;
  caller.left = SIZE_MAX;
  expect_bytes(plan, wishes, !error);
  // A read by the source itself may fall back to the mapping.
  const bool must_be_told = std::string(fault.call) != "pread" && fault.told;
  const std::size_t first = by_callbacks ? 0 : faults.first;
  EXPECT_TRUE(error || !must_be_told || reached <= first);
  if (error) {
    EXPECT_TRUE(fault.told || !io::has_linux_io()) << error->message;
    // Without process_vm_readv() a mapped file is reopened, which needs a descriptor.
    const bool no_descriptor = !io::has_linux_io() && std::string(fault.call) == "pread" && error->os_error == EMFILE;
    EXPECT_TRUE(no_descriptor || error->os_error == fault.error) << error->message;
    EXPECT_EQ(error->status, by_callbacks ? Status::callback : Status::read) << error->message;
    EXPECT_NE(error->message.find("tensor 't"), error->message.npos) << error->message;
  }
  forget(wishes);
  const std::optional<Error> afterwards = outcome(plan, options);
  EXPECT_FALSE(afterwards) << afterwards->message;
  expect_bytes(plan, wishes, true);
  return reached;
}

TEST(RandomPlans, BringTheBytesOrTheErrorOfTheSystem) {
  std::map<std::string, std::size_t> reached;
  static_cast<void>(model());
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(formatted("seed {}", seed));
    const std::size_t before = descriptors();
    const std::size_t mapped = mappings();
    Dice dice(seed);
    reached[dice.any_of(kFaults).call] += one_case(seed);
    EXPECT_EQ(descriptors(), before);
    EXPECT_EQ(mappings(), mapped);
  }
  const int direct = ::open(model().path(0).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct < 0 || !io::has_linux_io()) reached.erase("direct read");
  if (!io::has_linux_io()) reached.erase("preadv");
  ::close(direct);
  for (const auto& [call, times] : reached) EXPECT_GT(times, 0U) << call;
}

}  // namespace
}  // namespace st::core::random_plans_test
