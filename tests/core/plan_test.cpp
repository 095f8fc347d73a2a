// Plans inside the library: the engine's fallbacks when system calls fail, and its error messages.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "../format/file_front.hpp"
#include "../io/nothrow.hpp"
#include "../io/read_faults.hpp"
#include "../io/system.hpp"
#include "base/error.hpp"
#include "io/source.hpp"

namespace {

// Nanoseconds; 0: the clock is the system's.
std::atomic<std::int64_t> fake_now{0};
std::atomic<std::int64_t> fake_step{0};

}  // namespace

// Replaces the C library's function, which the C++ library calls.
extern "C" int clock_gettime(clockid_t clock, timespec* time) ST_NOTHROW {
  if (fake_now == 0 || clock != CLOCK_MONOTONIC) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  const std::int64_t now = fake_now.fetch_add(fake_step);
  *time = {static_cast<time_t>(now / 1'000'000'000), static_cast<long>(now % 1'000'000'000)};
  return 0;
}

namespace st::core::plan_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes room_for(const Tensor& tensor) { return Bytes(static_cast<std::size_t>(tensor.bytes())); }

std::byte pattern(std::uint64_t i) { return static_cast<std::byte>((i * 31 + (i >> 8) * 17 + (i >> 16)) & 0xFF); }

struct Shape {
  const char* name;
  std::uint64_t rows;
  std::uint64_t columns;  // of U8
};

constexpr Shape kShapes[] = {
    {"small", 1, 100},    {"wide", 5, 1'400'003}, {"tiny", 1, 1},
    {"tall", 30'000, 16}, {"none", 0, 5},         {"odd", 3, 333'333},
};

// Byte i is pattern(i).
const Bytes& data() {
  static const Bytes all = [] {
    std::uint64_t size = 0;
    for (const Shape& shape : kShapes) size += shape.rows * shape.columns;
    Bytes bytes(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(i);
    return bytes;
  }();
  return all;
}

// A file with data().
class CheckpointFile {
 public:
  explicit CheckpointFile(const std::string& folder)
      : path_(folder + "/plan_test_" + std::to_string(getpid()) + ".safetensors") {
    std::string header = "{";
    std::uint64_t at = 0;
    for (const Shape& shape : kShapes) {
      const std::uint64_t end = at + shape.rows * shape.columns;
      if (header.size() > 1) header += ",";
      header += formatted(R"("{}":{{"dtype":"U8","shape":[{},{}],"data_offsets":[{},{}]}})", shape.name, shape.rows,
                          shape.columns, at, end);
      at = end;
    }
    header += "}";
    std::ofstream file(path_, std::ios::binary);
    file << format::file_front(header);
    file.write(reinterpret_cast<const char*>(data().data()), static_cast<std::streamsize>(at));
    file.close();
    const int descriptor = ::open(path_.c_str(), O_RDONLY);
    fsync(descriptor);
    ::close(descriptor);
  }
  ~CheckpointFile() { unlink(path_.c_str()); }

  const std::string& path() const { return path_; }
  void evict() const {
    const int descriptor = ::open(path_.c_str(), O_RDONLY);
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }

 private:
  std::string path_;
};

std::string temporary_folder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr ? folder : "/tmp";
}

// All tensors whole, columns of two of them, and rows of more than a MiB, each in memory with guard pages on both
// sides.
class Wishes {
 public:
  explicit Wishes(const Checkpoint& file) : plan_(file) {
    for (std::size_t i = 0; i < file.count_tensors(); ++i) add(*file.tensor_at(i), nullptr, nullptr, nullptr);
    add(*file.tensor("tall"), kColumnBegin, kColumnEnd, nullptr);
    add(*file.tensor("wide"), kBackwardBegin, nullptr, kBackwardStep);
    add(*file.tensor("wide"), nullptr, nullptr, kEveryOtherRow);
  }

  Plan& plan() { return plan_; }

  void expect_filled() const {
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      EXPECT_TRUE(plan_.complete(i)) << i;
      EXPECT_EQ(std::memcmp(wanted_[i].data(), destinations_[i]->data(), wanted_[i].size()), 0) << "destination " << i;
    }
    EXPECT_EQ(plan_.done(), plan_.total());
  }

 private:
  static constexpr std::int64_t kColumnBegin[] = {10, 3};
  static constexpr std::int64_t kColumnEnd[] = {-10, 9};
  static constexpr std::int64_t kBackwardBegin[] = {5, -1};
  static constexpr std::int64_t kBackwardStep[] = {-2, -1};
  static constexpr std::int64_t kEveryOtherRow[] = {2, 1};
  static constexpr std::size_t kGuard = 16;

  void add(const Tensor& tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step) {
    const format::Slice slice = format::slice(tensor, begin, end, step);
    Bytes all(kGuard, std::byte{0xEE});
    all.resize(kGuard + static_cast<std::size_t>(slice.bytes));
    const std::byte* const src = data().data() + tensor.begin;
    std::byte* const dst = all.data() + kGuard;
    const std::uint64_t runs = format::run_count(slice);
    for (std::uint64_t i = 0; i < runs; ++i) {
      const format::Run run = format::run_at(slice, i);
      std::memcpy(dst + run.dst, src + run.src, static_cast<std::size_t>(slice.run_bytes));
    }
    all.resize(all.size() + kGuard, std::byte{0xEE});
    destinations_.push_back(std::make_unique<Bytes>(all.size(), std::byte{0xEE}));
    plan_.add(tensor, begin, end, step, destinations_.back()->data() + kGuard, slice.bytes);
    wanted_.push_back(std::move(all));
  }

  Plan plan_;
  std::vector<Bytes> wanted_;
  std::vector<std::unique_ptr<Bytes>> destinations_;
};

void host_pool(void*, std::size_t n, void (*fn)(void*, std::size_t), void* arg) {
  std::vector<std::thread> threads;
  for (std::size_t i = n; i-- > 0;) threads.emplace_back(fn, arg, i);
  for (std::thread& thread : threads) thread.join();
}

void serial_pool(void*, std::size_t n, void (*fn)(void*, std::size_t), void* arg) {
  for (std::size_t i = n; i-- > 0;) fn(arg, i);
}

struct Case {
  const char* name;
  io::Mode mode;
  io::Cache cache;
  unsigned threads;
  std::uint64_t chunk_bytes;
  std::uint64_t gap_bytes;
  decltype(HostPool::parallel_for) pool;
  bool cold;
};

constexpr Case kCases[] = {
    {"as it comes", io::Mode::automatic, io::Cache::automatic, 0, 0, 0, nullptr, false},
    {"cold", io::Mode::automatic, io::Cache::automatic, 0, 0, 0, nullptr, true},
    {"without a mapping", io::Mode::read, io::Cache::automatic, 0, 0, 0, nullptr, true},
    {"through the cache", io::Mode::map, io::Cache::through, 0, 0, 0, nullptr, true},
    {"from the mapping", io::Mode::automatic, io::Cache::mapped, 0, 0, 0, nullptr, false},
    {"from the mapping, on threads", io::Mode::map, io::Cache::mapped, 5, 65536, 0, nullptr, false},
    {"from the mapping, cold", io::Mode::map, io::Cache::mapped, 0, 0, 0, nullptr, true},
    {"from a mapping that is not there", io::Mode::read, io::Cache::mapped, 0, 0, 0, nullptr, false},
    {"around the cache", io::Mode::map, io::Cache::around, 0, 0, 0, nullptr, false},
    {"around it, small chunks", io::Mode::map, io::Cache::around, 5, 65536, 0, nullptr, false},
    {"around it, nothing read along", io::Mode::map, io::Cache::around, 4, 0, 1, nullptr, false},
    {"everything read along", io::Mode::map, io::Cache::around, 4, 0, 1 << 30, nullptr, false},
    {"one thread", io::Mode::read, io::Cache::automatic, 1, 0, 0, nullptr, false},
    {"one thread, cold", io::Mode::read, io::Cache::automatic, 1, 0, 0, nullptr, true},
    {"many threads", io::Mode::map, io::Cache::automatic, 40, 65536, 0, nullptr, true},
    {"the host's pool", io::Mode::map, io::Cache::automatic, 0, 0, 0, host_pool, true},
    {"a pool of one", io::Mode::map, io::Cache::automatic, 0, 65536, 0, serial_pool, true},
};

ReadOptions options_of(const Case& row) {
  ReadOptions options;
  options.threads = row.threads;
  options.cache = row.cache;
  options.chunk_bytes = row.chunk_bytes;
  options.gap_bytes = row.gap_bytes;
  options.pool.parallel_for = row.pool;
  return options;
}

void expect_all_cases(const CheckpointFile& checkpoint) {
  for (const Case& row : kCases) {
    SCOPED_TRACE(row.name);
    OpenOptions open;
    open.io = row.mode;
    const CheckpointPtr file = Checkpoint::open(checkpoint.path().c_str(), open);
    Wishes wishes(*file);
    if (row.cold) checkpoint.evict();
    wishes.plan().run(options_of(row));
    wishes.expect_filled();
  }
}

TEST(Plan, BringsTheSameBytesEveryWay) { expect_all_cases(CheckpointFile(temporary_folder())); }

// A filesystem in memory: there is no cache to bypass, and older kernels have no direct reads there.
TEST(Plan, WorksOnTmpfs) {
  struct stat status {};
  if (stat("/dev/shm", &status) != 0 || access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm";
  expect_all_cases(CheckpointFile("/dev/shm"));
}

#if defined(__linux__)
// From now on, direct reads, io_uring and page cache queries fail in this thread and the threads that it starts, as in
// a strict container or on an old kernel.
bool refuse_the_newer_calls() {
  constexpr std::uint32_t kFlags = offsetof(seccomp_data, args[2]);
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 451, 4, 0),  // cachestat
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_DIRECT, 2, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
  };
  const sock_fprog program{sizeof rules / sizeof *rules, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Plan, WorksWhereTheSystemRefuses) {
  const CheckpointFile checkpoint(temporary_folder());
  bool refused = false;
  int direct = 0;
  std::thread jailed([&] {
    refused = refuse_the_newer_calls();
    if (!refused) return;
    direct = ::open(checkpoint.path().c_str(), O_RDONLY | O_DIRECT);
    expect_all_cases(checkpoint);
  });
  jailed.join();
  if (!refused) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(direct, -1);
}
#endif

std::int32_t read_string(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
  std::memcpy(dst, static_cast<std::string*>(ctx)->data() + offset, n);
  return 0;
}

TEST(Plan, ReadsFromMemoryAndFromCallbacks) {
  const CheckpointFile checkpoint(temporary_folder());
  std::ifstream stream(checkpoint.path(), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const CheckpointPtr in_memory = Checkpoint::open(io::memory_source(bytes.data(), bytes.size(), nullptr, nullptr), {});
  const CheckpointPtr by_callback =
      Checkpoint::open(io::callback_source({read_string, nullptr, &bytes}, bytes.size()), {});
  for (const CheckpointPtr* const file : {&in_memory, &by_callback}) {
    Wishes wishes(**file);
    wishes.plan().run({});
    wishes.expect_filled();
  }
}

// A descriptor that points into an archive: offsets in the file are not offsets in the checkpoint.
TEST(Plan, ReadsAFileInsideAFile) {
  const CheckpointFile checkpoint(temporary_folder());
  const std::string archive = checkpoint.path() + ".archive";
  {
    std::ifstream from(checkpoint.path(), std::ios::binary);
    std::ofstream to(archive, std::ios::binary);
    to << std::string(1234, 'x') << from.rdbuf() << std::string(777, 'y');
  }
  const int descriptor = ::open(archive.c_str(), O_RDONLY);
  fsync(descriptor);
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  const std::uint64_t size = std::filesystem::file_size(archive) - 1234 - 777;
  const CheckpointPtr file = Checkpoint::open(io::file_source_of_descriptor(descriptor, 1234, size), {});
  for (const io::Cache cache : {io::Cache::automatic, io::Cache::around, io::Cache::through, io::Cache::mapped}) {
    Wishes wishes(*file);
    ReadOptions options;
    options.cache = cache;
    wishes.plan().run(options);
    wishes.expect_filled();
  }
  ::close(descriptor);
  unlink(archive.c_str());
}

// Only where the mapping contains the file's own bytes, and only if they are cached.
TEST(Plan, CopiesShortRunsFromTheMappingIfAsked) {
  if (!io::has_linux_io()) GTEST_SKIP() << "this build does not know what is cached";
  const CheckpointFile checkpoint(temporary_folder());
  const struct {
    io::Mode mode;
    io::Cache cache;
    bool from_mapping;
  } cases[] = {{io::Mode::automatic, io::Cache::mapped, true},
               {io::Mode::map, io::Cache::mapped, true},
               {io::Mode::copy_on_write, io::Cache::mapped, false},
               {io::Mode::read, io::Cache::mapped, false},
               {io::Mode::map, io::Cache::automatic, false}};
  for (const auto& [mode, cache, from_mapping] : cases) {
    OpenOptions open;
    open.io = mode;
    const CheckpointPtr file = Checkpoint::open(checkpoint.path().c_str(), open);
    const std::int64_t begin[] = {0, 3};
    const std::int64_t end[] = {30'000, 9};
    Bytes column(std::size_t{30'000} * 6);
    Plan plan(*file);
    plan.add(*file->tensor("tall"), begin, end, nullptr, column.data(), column.size());
    ReadOptions options;
    options.cache = cache;
    plan.run(options);
    EXPECT_EQ(plan.counts().reads == 0, from_mapping) << static_cast<int>(mode) << static_cast<int>(cache);
    EXPECT_EQ(plan.counts().bytes_read == column.size(), from_mapping);
  }
}

// Another program has since saved another file to the path. The mapping still holds the opened file.
TEST(Plan, ReadsTheFileThatWasOpenedAfterAnotherTookItsPath) {
  const CheckpointFile checkpoint(temporary_folder());
  const CheckpointPtr file = Checkpoint::open(checkpoint.path().c_str(), {});
  unlink(checkpoint.path().c_str());
  std::ofstream(checkpoint.path()) << "something else";
  Wishes wishes(*file);
  wishes.plan().run({});
  wishes.expect_filled();
}

TEST(Plan, NamesTensorFileAndOffsetOfTheFirstError) {
  const CheckpointFile checkpoint(temporary_folder());
  for (const io::Cache cache : {io::Cache::automatic, io::Cache::around}) {
    OpenOptions open;
    open.io = io::Mode::read;
    const CheckpointPtr file = Checkpoint::open(checkpoint.path().c_str(), open);
    const Tensor& odd = *file->tensor("odd");
    const std::uint64_t cut = shard_of(odd).offset_of(odd) + 500'000;
    ASSERT_EQ(truncate(checkpoint.path().c_str(), static_cast<off_t>(cut)), 0);
    Bytes small(100);
    Bytes large = room_for(odd);
    Plan plan(*file);
    plan.add(*file->tensor("small"), nullptr, nullptr, nullptr, small.data(), small.size());
    plan.add(odd, nullptr, nullptr, nullptr, large.data(), large.size());
    ReadOptions options;
    options.cache = cache;
    options.threads = 1;
    try {
      plan.run(options);
      FAIL() << "read past the end";
    } catch (const Error& error) {
      EXPECT_EQ(error.status, Status::truncated);
      EXPECT_EQ(error.offset, cut);
      EXPECT_NE(error.message.find("tensor 'odd'"), std::string::npos) << error.message;
      EXPECT_NE(error.message.find(checkpoint.path().substr(0, 40)), std::string::npos) << error.message;
    }
    EXPECT_TRUE(plan.complete(0));
    EXPECT_FALSE(plan.complete(1));
    EXPECT_FALSE(plan.complete(2));
    ASSERT_EQ(truncate(checkpoint.path().c_str(), static_cast<off_t>(file->shard(0).source->size())), 0);
  }
}

// Cancels at its fifth read, and counts later reads.
struct CancelledSource {
  std::string bytes;
  const Plan* plan = nullptr;
  std::atomic<std::size_t> reads{0};
  std::atomic<bool> cancelled{false};
  std::atomic<std::size_t> later{0};

  static std::int32_t read_at(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
    auto& self = *static_cast<CancelledSource*>(ctx);
    if (self.cancelled) ++self.later;
    if (self.plan != nullptr && ++self.reads == 5) {
      self.plan->cancel();
      self.cancelled = true;
    }
    std::memcpy(dst, self.bytes.data() + offset, n);
    return 0;
  }
};

TEST(Plan, AfterACancelNoReaderBeginsMoreThanOnePiece) {
  constexpr unsigned kReaders = 4;
  const CheckpointFile checkpoint(temporary_folder());
  std::ifstream stream(checkpoint.path(), std::ios::binary);
  CancelledSource source;
  source.bytes.assign(std::istreambuf_iterator<char>(stream), {});
  const CheckpointPtr file =
      Checkpoint::open(io::callback_source({CancelledSource::read_at, nullptr, &source}, source.bytes.size()), {});
  const Tensor& wide = *file->tensor("wide");
  for (const bool from_callback : {false, true}) {
    Bytes memory = room_for(wide);
    Plan plan(*file);
    plan.add(wide, nullptr, nullptr, nullptr, memory.data(), memory.size());
    source.plan = from_callback ? nullptr : &plan;
    source.reads = source.later = 0;
    ReadOptions options;
    options.threads = from_callback ? 1 : kReaders;
    options.chunk_bytes = 65536;  // 107 pieces, and a read for each
    options.ctx = &source;
    if (from_callback) {
      options.progress = [](void* ctx, std::uint64_t, std::uint64_t) -> std::int32_t {
        static_cast<CancelledSource*>(ctx)->cancelled = true;
        return 1;
      };
    }
    try {
      plan.run(options);
      ADD_FAILURE() << "was not cancelled";
    } catch (const Error& error) {
      EXPECT_EQ(error.status, Status::cancelled) << error.message;
      EXPECT_EQ(error.message, formatted("cancelled after {} of {} bytes", plan.done(), plan.total()));
    }
    EXPECT_LE(source.later, from_callback ? 0U : kReaders - 1);
    EXPECT_LT(plan.done(), plan.total());
    // And the cancel is used up.
    source.plan = nullptr;
    source.cancelled = false;
    plan.run({});
    EXPECT_EQ(plan.done(), plan.total());
    EXPECT_EQ(memory.back(), pattern(wide.end - 1));
  }
}

// One of two readers runs during a read of the other, and fails.
struct FailingInside {
  std::string bytes;
  bool armed = false;
  std::size_t reads = 0;
  bool out_of_memory = false;
  void (*round)(void*, std::size_t) = nullptr;
  void* rounds = nullptr;

  static void pool(void* ctx, std::size_t, void (*fn)(void*, std::size_t), void* arg) {
    auto& self = *static_cast<FailingInside*>(ctx);
    self.round = fn;
    self.rounds = arg;
    fn(arg, 0);
  }
  static std::int32_t read_at(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
    auto& self = *static_cast<FailingInside*>(ctx);
    std::memcpy(dst, self.bytes.data() + offset, n);
    if (!self.armed) return 0;
    ++self.reads;
    if (self.reads == 1) self.round(self.rounds, 1);
    if (self.reads == 2 && std::exchange(self.round, nullptr) != nullptr) {
      if (self.out_of_memory) throw std::bad_alloc();
      return 5;
    }
    return 0;
  }
};

TEST(Plan, AReaderThatFailsStopsTheOthers) {
  const CheckpointFile checkpoint(temporary_folder());
  std::ifstream stream(checkpoint.path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  for (const bool out_of_memory : {false, true}) {
    FailingInside source;
    source.bytes = bytes;
    source.out_of_memory = out_of_memory;
    const CheckpointPtr file =
        Checkpoint::open(io::callback_source({FailingInside::read_at, nullptr, &source}, bytes.size()), {});
    const Tensor& wide = *file->tensor("wide");
    Bytes memory = room_for(wide);
    Plan plan(*file);
    plan.add(wide, nullptr, nullptr, nullptr, memory.data(), memory.size());
    ReadOptions options;
    options.threads = 2;
    options.chunk_bytes = 65536;
    options.pool = {&source, FailingInside::pool};
    source.armed = true;
    if (out_of_memory) {
      EXPECT_THROW(plan.run(options), std::bad_alloc);
    } else {
      EXPECT_THROW(plan.run(options), Error);
    }
    EXPECT_EQ(source.reads, 2U) << out_of_memory;
    source.armed = false;
    plan.run(options);
    EXPECT_EQ(plan.done(), plan.total());
    for (std::size_t i = 0; i < memory.size(); ++i) ASSERT_EQ(memory[i], pattern(wide.begin + i)) << i;
  }
}

TEST(Plan, TellsHowFarItIs) {
  const CheckpointFile checkpoint(temporary_folder());
  const CheckpointPtr file = Checkpoint::open(checkpoint.path().c_str(), {});
  Wishes wishes(*file);
  std::vector<std::uint64_t> seen;
  ReadOptions options;
  options.ctx = &seen;
  options.progress = [](void* ctx, std::uint64_t done, std::uint64_t total) -> std::int32_t {
    EXPECT_GT(done, 0U);
    EXPECT_LE(done, total);
    static_cast<std::vector<std::uint64_t>*>(ctx)->push_back(done);
    return 0;
  };
  wishes.plan().run(options);
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), wishes.plan().total());
}

struct Told {
  std::size_t times = 0;
  std::uint64_t done = 0;
  std::uint64_t total = 99;
};

std::int32_t note(void* ctx, std::uint64_t done, std::uint64_t total) {
  Told& told = *static_cast<Told*>(ctx);
  told = {told.times + 1, done, total};
  return 0;
}

// The steady clock advances only when it is queried.
class FakeClock {
 public:
  explicit FakeClock(std::chrono::nanoseconds step) {
    fake_step = step.count();
    fake_now = 1'000'000'000'000;
  }
  ~FakeClock() { fake_now = 0; }
  FakeClock(const FakeClock&) = delete;
};

std::size_t times_told(Plan& plan, std::uint64_t chunk_bytes, std::chrono::nanoseconds step) {
  Told told;
  ReadOptions options;
  options.ctx = &told;
  options.progress = note;
  options.threads = 1;
  options.chunk_bytes = chunk_bytes;
  const FakeClock clock(step);
  plan.run(options);
  EXPECT_EQ(told.done, plan.total());
  EXPECT_EQ(told.total, plan.total());
  return told.times;
}

TEST(Plan, TellsOfTheEndButNotOfEveryPiece) {
  using std::chrono::milliseconds;
  const CheckpointFile checkpoint(temporary_folder());
  const CheckpointPtr file = Checkpoint::open(checkpoint.path().c_str(), {});
  Plan nothing(*file);
  EXPECT_EQ(times_told(nothing, 0, milliseconds(0)), 1U);

  Wishes wishes(*file);
  EXPECT_EQ(times_told(wishes.plan(), 65536, milliseconds(0)), 2U);  // the first piece, and the end
  EXPECT_GT(times_told(wishes.plan(), 65536, milliseconds(10)), 100U);
}

TEST(Plan, ReadsShorterPiecesWhereOneTakesTooLong) {
  using std::chrono::milliseconds;
  const CheckpointFile checkpoint(temporary_folder());
  const CheckpointPtr file = Checkpoint::open(checkpoint.path().c_str(), {});
  Wishes wishes(*file);
  const std::size_t long_ones = times_told(wishes.plan(), 1 << 20, milliseconds(20));
  EXPECT_GT(times_told(wishes.plan(), 1 << 20, milliseconds(21)), 2 * long_ones);
}

void counting_pool(void* ctx, std::size_t n, void (*fn)(void*, std::size_t), void* arg) {
  *static_cast<std::size_t*>(ctx) = n;
  serial_pool(nullptr, n, fn, arg);
}

// Threads that wait for a disk may outnumber the processors, but each must have enough work.
TEST(Plan, HasAsManyReadersAsThereIsWorkFor) {
  const CheckpointFile checkpoint(temporary_folder());
  std::ifstream stream(checkpoint.path(), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const CheckpointPtr slow = Checkpoint::open(io::callback_source({read_string, nullptr, &bytes}, bytes.size()), {});
  const CheckpointPtr quick = Checkpoint::open(io::memory_source(bytes.data(), bytes.size(), nullptr, nullptr), {});
  const struct {
    std::vector<const char*> tensors;
    unsigned threads;
    std::size_t waiting;
    std::size_t copying;
  } cases[] = {
      {{"small"}, 0, 1, 1},
      {{"odd"}, 0, 2, std::min(2U, hardware_threads())},
      {{"wide"}, 0, 14, std::min(14U, hardware_threads())},
      {{"wide", "odd", "tall"}, 0, 16, std::min(16U, hardware_threads())},
      {{"small"}, 5, 5, 5},
      {{"small"}, 5000, 1024, 1024},
  };
  for (const auto& row : cases) {
    for (const CheckpointPtr* const file : {&slow, &quick}) {
      std::size_t readers = 0;
      ReadOptions options;
      options.threads = row.threads;
      options.pool = {&readers, counting_pool};
      Plan plan(**file);
      std::vector<Bytes> memory;
      for (const char* const name : row.tensors) {
        const Tensor& tensor = *(*file)->tensor(name);
        memory.emplace_back(tensor.bytes());
        plan.add(tensor, nullptr, nullptr, nullptr, memory.back().data(), tensor.bytes());
      }
      plan.run(options);
      EXPECT_EQ(readers, file == &slow ? row.waiting : row.copying) << row.tensors.size() << ", " << row.threads;
    }
  }
}

TEST(Plan, ASliceThatLiesTogetherIsReadOnce) {
  const CheckpointFile checkpoint(temporary_folder());
  std::ifstream stream(checkpoint.path(), std::ios::binary);
  struct Counting {
    std::string bytes;
    std::size_t reads = 0;
  } given{{std::istreambuf_iterator<char>(stream), {}}};
  const auto read_at = [](void* ctx, std::uint64_t offset, void* dst, std::size_t n) -> std::int32_t {
    auto& own = *static_cast<Counting*>(ctx);
    ++own.reads;
    std::memcpy(dst, own.bytes.data() + offset, n);
    return 0;
  };
  const CheckpointPtr file = Checkpoint::open(io::callback_source({read_at, nullptr, &given}, given.bytes.size()), {});
  const Tensor& tall = *file->tensor("tall");
  const std::int64_t begin[] = {10, 0};
  const std::int64_t end[] = {20, 16};
  Bytes rows(160);
  given.reads = 0;
  read_slice(tall, format::slice(tall, begin, end, nullptr), rows.data(), rows.size());
  EXPECT_EQ(given.reads, 1U);
  for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], pattern(tall.begin + 160 + i));

  const Tensor& wide = *file->tensor("wide");
  Bytes all = room_for(wide);
  given.reads = 0;
  read_slice(wide, format::slice(wide, nullptr, nullptr, nullptr), all.data(), all.size());
  EXPECT_EQ(given.reads, 1U);

  // A plan reads this slice together with the next one.
  const std::int64_t middle[] = {15, 0};
  const std::int64_t middle_end[] = {15, 16};
  Plan plan(*file);
  plan.add(tall, begin, middle_end, nullptr, rows.data(), 80);
  plan.add(tall, middle, end, nullptr, rows.data() + 80, 80);
  given.reads = 0;
  plan.run({});
  EXPECT_EQ(given.reads, 1U);
}

TEST(Plan, RefusesWhatDoesNotFit) {
  const CheckpointFile checkpoint(temporary_folder());
  const CheckpointPtr file = Checkpoint::open(checkpoint.path().c_str(), {});
  const CheckpointPtr other = Checkpoint::open(checkpoint.path().c_str(), {});
  Plan plan(*file);
  Bytes memory(100);
  const auto status_of = [&](const Tensor& tensor, void* dst, std::uint64_t bytes) {
    try {
      plan.add(tensor, nullptr, nullptr, nullptr, dst, bytes);
      return Status::ok;
    } catch (const Error& error) {
      return error.status;
    }
  };
  EXPECT_EQ(status_of(*file->tensor("small"), memory.data(), 99), Status::buffer_size);
  EXPECT_EQ(status_of(*file->tensor("small"), memory.data(), 101), Status::buffer_size);
  EXPECT_EQ(status_of(*file->tensor("small"), nullptr, 100), Status::argument);
  EXPECT_EQ(status_of(*other->tensor("small"), memory.data(), 100), Status::argument);
  EXPECT_EQ(plan.total(), 0U);
  EXPECT_FALSE(plan.complete(0));
  EXPECT_EQ(status_of(*file->tensor("none"), nullptr, 0), Status::ok);
  plan.run({});
  EXPECT_TRUE(plan.complete(0));

  // Entries keep their state while others are added.
  for (const bool has_run : {false, true}) {
    if (has_run) {
      plan.run({});
    } else {
      EXPECT_EQ(status_of(*file->tensor("small"), memory.data(), 100), Status::ok);
    }
    for (int i = 0; i < 10; ++i) EXPECT_EQ(status_of(*file->tensor("none"), nullptr, 0), Status::ok);
    EXPECT_EQ(plan.complete(1), has_run);
  }
}

struct Listener {
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<std::size_t> times{0};
  std::atomic<std::size_t> elsewhere{0};
};

// If the caller's thread is the slowest, other threads would have more progress to report.
struct SlowForTheCaller {
  std::string bytes;
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<std::size_t> elsewhere{0};
  static std::int32_t read_at(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
    auto* const self = static_cast<SlowForTheCaller*>(ctx);
    const bool slow = std::this_thread::get_id() == self->caller;
    if (!slow) ++self->elsewhere;
    if (n > 1000) std::this_thread::sleep_for(std::chrono::milliseconds(slow ? 40 : 11));
    std::memcpy(dst, self->bytes.data() + offset, n);
    return 0;
  }
};

TEST(Plan, TellsTheCallersThreadOnly) {
  const CheckpointFile checkpoint(temporary_folder());
  std::ifstream stream(checkpoint.path(), std::ios::binary);
  SlowForTheCaller slow{{std::istreambuf_iterator<char>(stream), {}}};
  const CheckpointPtr file =
      Checkpoint::open(io::callback_source({SlowForTheCaller::read_at, nullptr, &slow}, slow.bytes.size()), {});
  const Tensor& odd = *file->tensor("odd");
  Bytes memory = room_for(odd);
  Plan plan(*file);
  plan.add(odd, nullptr, nullptr, nullptr, memory.data(), memory.size());
  Listener listener;
  ReadOptions options;
  options.threads = 4;
  options.chunk_bytes = 65536;
  options.ctx = &listener;
  options.progress = [](void* ctx, std::uint64_t, std::uint64_t) -> std::int32_t {
    auto& told = *static_cast<Listener*>(ctx);
    ++told.times;
    if (std::this_thread::get_id() != told.caller) ++told.elsewhere;
    return 0;
  };
  plan.run(options);
  EXPECT_GT(listener.times.load(), 1U);
  EXPECT_EQ(listener.elsewhere.load(), 0U);

  // A slice that is read without a plan is read by the caller's thread.
  const Tensor& wide = *file->tensor("wide");
  const std::int64_t step[] = {1, 2};
  const format::Slice slice = format::slice(wide, nullptr, nullptr, step);
  Bytes columns(static_cast<std::size_t>(slice.bytes));
  slow.elsewhere = 0;
  read_slice(wide, slice, columns.data(), columns.size());
  EXPECT_EQ(slow.elsewhere.load(), 0U);
}

// A file of two small tensors; the second cannot be read.
std::int32_t read_half(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
  const auto& bytes = *static_cast<std::string*>(ctx);
  if (offset + n > bytes.size()) return 5;
  std::memcpy(dst, bytes.data() + offset, n);
  return 0;
}

TEST(Plan, NamesTheTensorOfAPieceOfSeveral) {
  std::string header = R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]},)"
                       R"("b":{"dtype":"U8","shape":[9],"data_offsets":[9,18]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  bytes += header;
  const std::size_t size = bytes.size() + 18;
  const std::size_t readable = bytes.size();  // the header is there
  bytes.resize(size);
  const CheckpointPtr file = Checkpoint::open(io::callback_source({read_half, nullptr, &bytes}, size), {});
  for (const std::size_t tensors : {0U, 1U}) {
    bytes.resize(readable + 9 * tensors);
    Bytes a(9);
    Bytes b(9);
    Plan plan(*file);
    plan.add(*file->tensor("a"), nullptr, nullptr, nullptr, a.data(), a.size());
    plan.add(*file->tensor("b"), nullptr, nullptr, nullptr, b.data(), b.size());
    try {
      plan.run({});
      ADD_FAILURE() << "read what is not there";
    } catch (const Error& error) {
      const char* const expected = tensors == 0 ? "tensor 'a'" : "tensor 'b'";
      EXPECT_NE(error.message.find(expected), std::string::npos) << error.message;
      EXPECT_EQ(error.offset, readable + 9 * tensors);
    }
  }
}

// Each destination ends just before the next begins, but their bytes come from different files.
TEST(Plan, ReadsShardsWhoseOffsetsContinueEachFromItsFile) {
  constexpr std::size_t kShards = 5;
  constexpr std::size_t kBytes = 1000;
  std::string folder = temporary_folder() + "/shards-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (std::size_t i = 0; i < kShards; ++i) {
    std::string header =
        formatted(R"({{"t{}":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}})", i, kBytes, kBytes);
    header.resize(kBytes * (i + 1), ' ');
    std::ofstream shard(formatted("{}/m-{}-of-{}.safetensors", folder, i + 1, kShards), std::ios::binary);
    shard << format::file_front(header) << std::string(kBytes, static_cast<char>('a' + i));
  }
  for (const io::Cache cache : {io::Cache::automatic, io::Cache::through, io::Cache::around}) {
    const CheckpointPtr file = Checkpoint::open(folder.c_str(), {});
    ASSERT_EQ(file->count_tensors(), kShards);
    std::vector<std::string> got(kShards, std::string(kBytes, '?'));
    Plan plan(*file);
    for (std::size_t i = 0; i < kShards; ++i)
      plan.add(*file->tensor(formatted("t{}", i)), nullptr, nullptr, nullptr, got[i].data(), kBytes);
    ReadOptions options;
    options.cache = cache;
    plan.run(options);
    for (std::size_t i = 0; i < kShards; ++i) EXPECT_EQ(got[i], std::string(kBytes, static_cast<char>('a' + i)));
    const Tensor& last = *file->tensor("t4");
    const std::int64_t step = 500;
    read_slice(last, format::slice(last, nullptr, nullptr, &step), got[0].data(), 2);
    EXPECT_EQ(got[0].substr(0, 3), "eea");
  }
  for (std::size_t i = 0; i < kShards; ++i)
    unlink(formatted("{}/m-{}-of-{}.safetensors", folder, i + 1, kShards).c_str());
  rmdir(folder.c_str());
}

struct CancellingSource {
  std::string bytes;
  Plan* plan = nullptr;
  std::size_t reads = 0;

  static std::int32_t read_at(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
    auto& self = *static_cast<CancellingSource*>(ctx);
    if (self.plan != nullptr && ++self.reads == 1) self.plan->cancel();
    std::memcpy(dst, self.bytes.data() + offset, n);
    return 0;
  }
};

TEST(Plan, ACancelIsHeardBetweenTheRunsOfAPiece) {
  constexpr std::size_t kRows = 8192;
  std::string header =
      formatted(R"({{"t":{{"dtype":"U8","shape":[{},64],"data_offsets":[0,{}]}}}})", kRows, kRows * 64);
  header.resize(128, ' ');
  CancellingSource source{std::string(8, '\0')};
  source.bytes[0] = static_cast<char>(header.size());
  source.bytes += header + std::string(kRows * 64, 'x');
  const CheckpointPtr file =
      Checkpoint::open(io::callback_source({CancellingSource::read_at, nullptr, &source}, source.bytes.size()), {});
  const std::int64_t begin[] = {0, 0};
  const std::int64_t end[] = {INT64_MAX, 16};
  Bytes column(kRows * 16);
  Plan plan(*file);
  plan.add(*file->tensor("t"), begin, end, nullptr, column.data(), column.size());
  source.plan = &plan;
  ReadOptions options;
  options.threads = 1;
  options.gap_bytes = 1;  // a read for each row
  EXPECT_THROW(plan.run(options), Error);
  EXPECT_LE(source.reads, 2U);
}

// The bytes before the slice are as long as the slice, but only the slice is in the cache.
TEST(Plan, TheSystemIsAskedOnlyAboutTheBytesOfASlice) {
  constexpr std::uint64_t kRow = 4096;
  constexpr std::uint64_t kRows = 4096;
  constexpr std::uint64_t kFirst = 2048;
  constexpr std::uint64_t kWanted = 256;
  std::string header =
      formatted(R"({{"t":{{"dtype":"U8","shape":[{},{}],"data_offsets":[0,{}]}}}})", kRows, kRow, kRows * kRow);
  header.resize(kRow - 8, ' ');
  const std::string front = format::file_front(header);
  const std::string path = temporary_folder() + "/plan_test_slice_" + std::to_string(getpid());
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string rows(kRow * kWanted, 'x');
  const auto at = static_cast<off_t>(kRow * (1 + kFirst));
  ASSERT_EQ(ftruncate(descriptor, static_cast<off_t>(kRow * (1 + kRows))), 0);
  ASSERT_EQ(pwrite(descriptor, front.data(), front.size(), 0), static_cast<ssize_t>(front.size()));
  ASSERT_EQ(pwrite(descriptor, rows.data(), rows.size(), at), static_cast<ssize_t>(rows.size()));
  ASSERT_EQ(fsync(descriptor), 0);
  ::close(descriptor);
  OpenOptions open;
  open.io = io::Mode::read;
  const CheckpointPtr file = Checkpoint::open(path.c_str(), open);
  unlink(path.c_str());
  const auto probe = file->shard(0).source->open_reader(io::Cache::automatic);
  const auto begin_of = static_cast<std::uint64_t>(at);
  const bool told = probe->path_for(begin_of, begin_of + rows.size()) == io::ReadPath::cached &&
                    probe->path_for(begin_of, kRow * kRows) != io::ReadPath::cached;
  if (!told) GTEST_SKIP() << "the system does not tell what is cached";
  const std::int64_t begin[] = {kFirst, 0};
  const std::int64_t end[] = {kFirst + kWanted, 64};
  Bytes got(kWanted * 64);
  Plan plan(*file);
  plan.add(*file->tensor("t"), begin, end, nullptr, got.data(), got.size());
  ReadOptions options;
  options.threads = 1;
  read_faults::arm({"read", 0, 0, 0});
  plan.run(options);
  read_faults::disarm();
  EXPECT_EQ(read_faults::calls(), kWanted);  // from the cache, nothing is read along
  EXPECT_EQ(got, Bytes(got.size(), std::byte{'x'}));
}

}  // namespace
}  // namespace st::core::plan_test
