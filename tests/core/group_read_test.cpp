// Plans that several processes run together. The processes are threads here, each with its own checkpoint, and their
// collective operations copy memory between barriers.
// SPDX-License-Identifier: Apache-2.0
#include "core/group_read.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../format/file_front.hpp"
#include "base/error.hpp"
#include "core/checkpoint.hpp"
#include "core/device.hpp"
#include "core/group_blocks.hpp"
#include "core/plan.hpp"
#include "io/directory.hpp"
#include "io/source.hpp"

namespace st::core::group_read_test {
namespace {

constexpr std::int32_t kRefused = 77;  // the result of a callback

// ---- the group -----------------------------------------------------------------------------------------------------

// The collective operations of `size` threads. Checks that all call the same operation with matching counts.
class Team {
 public:
  explicit Team(std::uint32_t size) : members_(size) {
    for (std::uint32_t i = 0; i < size; ++i) {
      members_[i].team = this;
      members_[i].rank = i;
    }
  }

  Group group(std::uint32_t rank, std::uint64_t exchange_bytes) {
    return {rank, static_cast<std::uint32_t>(members_.size()), exchange_bytes, &members_[rank], allreduce, alltoallv};
  }

  std::size_t operations() const { return operations_ / members_.size(); }
  void fail_operation(std::size_t number) { fails_ = number; }  // in all processes
  // Changes what an operation delivers to a process.
  using Spoil = std::function<void(std::uint32_t rank, std::size_t operation, void* received)>;
  void spoil(Spoil spoil) { spoil_ = std::move(spoil); }

 private:
  struct Member {
    Team* team = nullptr;
    std::uint32_t rank = 0;
    std::string operation;
    std::size_t called = 0;
    std::uint64_t* values = nullptr;
    std::vector<std::uint64_t> result;
    const std::byte* send = nullptr;
    const std::int32_t* counts = nullptr;
    const std::int32_t* offsets = nullptr;
  };

  // Returns false if a process does not come, or if the processes call different operations.
  bool meet() {
    std::unique_lock lock(mutex_);
    const std::size_t round = rounds_;
    if (++waiting_ == members_.size()) {
      waiting_ = 0;
      ++rounds_;
      for (const Member& member : members_) broken_ = broken_ || member.operation != members_[0].operation;
      EXPECT_FALSE(broken_) << "the processes call different operations";
      met_.notify_all();
    } else if (!met_.wait_for(lock, std::chrono::seconds(60), [&] { return rounds_ != round; })) {
      ADD_FAILURE() << "a process waits for the others: " << members_[0].operation;
      broken_ = true;
    }
    return !broken_;
  }

  static std::int32_t allreduce(void* ctx, std::int32_t op, std::uint64_t* values, std::size_t n) {
    auto& self = *static_cast<Member*>(ctx);
    Team& team = *self.team;
    ++team.operations_;
    self.operation = formatted("allreduce {} of {}", op, n);
    self.values = values;
    if (!team.meet()) return kRefused;
    self.result.assign(values, values + n);
    for (const Member& other : team.members_) {
      for (std::size_t i = 0; i < n && &other != &self; ++i) {
        const std::uint64_t value = other.values[i];
        std::uint64_t& result = self.result[i];
        result = op == 1 ? result + value : op == 2 ? std::min(result, value) : std::max(result, value);
      }
    }
    if (!team.meet()) return kRefused;
    std::copy(self.result.begin(), self.result.end(), values);
    if (team.spoil_) team.spoil_(self.rank, self.called, values);
    return self.called++ == team.fails_ ? kRefused : 0;
  }

  static std::int32_t alltoallv(void* ctx, const void* send, const std::int32_t* send_counts,
                                const std::int32_t* send_offsets, void* recv, const std::int32_t* recv_counts,
                                const std::int32_t* recv_offsets) {
    auto& self = *static_cast<Member*>(ctx);
    Team& team = *self.team;
    ++team.operations_;
    self.operation = "alltoallv";
    self.send = static_cast<const std::byte*>(send);
    self.counts = send_counts;
    self.offsets = send_offsets;
    if (!team.meet()) return kRefused;
    std::int64_t sum = 0;
    for (const Member& other : team.members_) {
      const std::int32_t bytes = other.counts[self.rank];
      EXPECT_TRUE(bytes == recv_counts[other.rank] || team.spoil_) << self.rank << " receives from " << other.rank;
      EXPECT_TRUE(sum == recv_offsets[other.rank] || team.spoil_);
      EXPECT_GE(other.offsets[self.rank], 0);
      sum += bytes;
      if (bytes > 0 && bytes == recv_counts[other.rank])
        std::memcpy(static_cast<std::byte*>(recv) + recv_offsets[other.rank], other.send + other.offsets[self.rank],
                    static_cast<std::size_t>(bytes));
    }
    EXPECT_LE(sum, INT32_MAX);
    if (team.spoil_) team.spoil_(self.rank, self.called, recv);
    if (!team.meet()) return kRefused;
    return self.called++ == team.fails_ ? kRefused : 0;
  }

  std::vector<Member> members_;
  std::mutex mutex_;
  std::condition_variable met_;
  std::size_t waiting_ = 0;
  std::size_t rounds_ = 0;
  bool broken_ = false;
  std::size_t fails_ = SIZE_MAX;
  Spoil spoil_;
  std::atomic<std::size_t> operations_{0};
};

// ---- the model -----------------------------------------------------------------------------------------------------

struct Shape {
  const char* name;
  const char* dtype;
  unsigned bits;
  std::vector<std::uint64_t> dims;
};

// Two shards.
const std::vector<Shape> kShapes[] = {
    {{"embedding", "F32", 32, {200, 1024}},
     {"norm", "BF16", 16, {1024}},
     {"empty", "F32", 32, {0, 4}},
     {"packed", "F4", 4, {100, 4000}},
     {"tall", "U8", 8, {30'000, 16}}},
    {{"wide", "U8", 8, {8, 100'003}},
     {"scalar", "I64", 64, {}},
     {"cube", "U8", 8, {17, 60, 200}},
     {"head", "F32", 32, {500, 256}}},
};

using Files = std::map<std::string, std::string>;

Files model(std::uint32_t seed) {
  Files files;
  std::mt19937 random(seed);
  std::string map;
  for (std::size_t i = 0; i < std::size(kShapes); ++i) {
    std::string header = "{";
    std::size_t at = 0;
    const std::string name = formatted("m{}.safetensors", i);
    for (const Shape& shape : kShapes[i]) {
      std::size_t bits = shape.bits;
      std::string dims;
      for (const std::uint64_t dim : shape.dims) {
        bits *= static_cast<std::size_t>(dim);
        dims += formatted("{}{}", dims.empty() ? "" : ",", dim);
      }
      header += formatted(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header == "{" ? "" : ",",
                          shape.name, shape.dtype, dims, at, at + bits / 8);
      at += bits / 8;
      map += formatted(R"({}"{}":"{}")", map.empty() ? "" : ",", shape.name, name);
    }
    std::string data(at, '\0');
    for (char& byte : data) byte = static_cast<char>(random());
    files[name] = format::file_front(header + "}") + data;
  }
  files["m.safetensors.index.json"] = R"({"metadata":{},"weight_map":{)" + map + "}}";
  return files;
}

// What one process reads from the sources of its checkpoint.
struct Requests {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::size_t> reads{0};
  std::function<bool(std::size_t)> fails;  // called with the number of the read
  bool serial = false;
  std::thread::id caller;              // of the plan's run
  std::atomic<bool> by_caller{false};  // It has read.
};

class CountedSource final : public io::Source {
 public:
  CountedSource(std::string name, const std::string& bytes, Requests& requests)
      : Source(bytes.size()), name_(std::move(name)), bytes_(bytes), requests_(requests) {}

  const char* name() const override { return name_.c_str(); }
  io::Traits traits() const override {
    io::Traits traits;
    traits.joins_reads = true;
    traits.calls_back = true;
    traits.serial = requests_.serial;
    return traits;
  }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    std::memcpy(dst, bytes_.data() + offset, n);
    requests_.bytes += n;
  }
  void read_many(std::span<const io::Read> reads) const override {
    const std::size_t number = requests_.reads++;
    if (std::this_thread::get_id() == requests_.caller) requests_.by_caller = true;
    if (requests_.fails && requests_.fails(number))
      fail_at(Status::callback, reads.front().offset, "read {} fails", number);
    for (const io::Read& read : reads) read_at(read.offset, read.dst, read.bytes);
  }

 private:
  const std::string name_;
  const std::string& bytes_;
  Requests& requests_;
};

class Folder final : public io::Directory {
 public:
  Folder(const Files& files, Requests& requests) : files_(files), requests_(requests) {}
  const std::string& path() const override { return path_; }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files_) names.push_back(name);
    return names;
  }
  std::unique_ptr<io::Source> open(const std::string& name, bool /*follow_links*/) const override {
    return std::make_unique<CountedSource>(name, files_.at(name), requests_);
  }

 private:
  const std::string path_ = "model";
  const Files& files_;
  Requests& requests_;
};

// ---- a device in the memory of the host ------------------------------------------------------------------------------

std::shared_ptr<Device> host_device() {
  device::Ops ops;
  ops.host_alloc = [](void* /*ctx*/, std::size_t size) {
    return ::operator new (size, std::align_val_t{Device::kSlotAlignment});
  };
  ops.host_free = [](void* /*ctx*/, void* ptr, std::size_t /*size*/) {
    ::operator delete (ptr, std::align_val_t{Device::kSlotAlignment});
  };
  ops.copy = [](void* /*ctx*/, std::uint32_t /*queue*/, const device::Copy* copies, std::size_t n,
                std::uint64_t* mark) {
    for (std::size_t i = 0; i < n; ++i) std::memcpy(copies[i].dst, copies[i].src, copies[i].bytes);
    *mark = 0;
    return std::int32_t{0};
  };
  ops.wait = [](void* /*ctx*/, std::uint32_t /*queue*/, std::uint64_t /*mark*/) { return std::int32_t{0}; };
  return std::make_shared<Device>(device::OwnedOps(ops), device_limits(0, 0));
}

// ---- the wishes of a process --------------------------------------------------------------------------------------------

struct Slice {
  std::string tensor;
  std::vector<std::int64_t> begin, end, step;  // empty: the whole tensor
};

struct Wish {
  const Tensor* tensor;
  std::string expected;
  std::string got;
};

class Process {
 public:
  Process(const Files& files, bool to_device) : device_(to_device ? host_device() : nullptr) {
    OpenOptions options;
    options.threads = 1;
    file_ = Checkpoint::open(std::make_unique<Folder>(files, requests_), "m.safetensors.index.json", options);
    plan_ = std::make_unique<Plan>(*file_);
    requests_.bytes = 0;
    requests_.reads = 0;
    files_ = &files;
  }

  // Marks the bytes in `wanted`, which has '\1' for each byte of each file that some process wants.
  void add(const Slice& slice, Files& wanted) {
    const Tensor& tensor = *file_->tensor(slice.tensor);
    const auto of = [](const std::vector<std::int64_t>& numbers) { return numbers.empty() ? nullptr : numbers.data(); };
    const format::Slice cut = format::slice(tensor, of(slice.begin), of(slice.end), of(slice.step));
    const std::string& bytes = files_->at(shard_of(tensor).path);
    std::string& marks = wanted[shard_of(tensor).path];
    marks.resize(bytes.size());
    const auto size = static_cast<std::size_t>(cut.bytes);
    const auto run_size = static_cast<std::size_t>(cut.run_bytes);
    auto wish = std::make_unique<Wish>(Wish{&tensor, std::string(size, '\0'), std::string(size, '\xEE')});
    const std::uint64_t begin = shard_of(tensor).offset_of(tensor);
    const std::uint64_t runs = format::run_count(cut);
    for (std::uint64_t i = 0; i < runs; ++i) {
      const format::Run run = format::run_at(cut, i);
      const auto at = static_cast<std::size_t>(begin + run.src);
      std::memcpy(wish->expected.data() + run.dst, bytes.data() + at, run_size);
      std::memset(marks.data() + at, 1, run_size);
    }
    plan_->add(tensor, of(slice.begin), of(slice.end), of(slice.step), wish->got.data(), wish->got.size(), device_);
    wishes_.push_back(std::move(wish));
  }

  void run(const Group& group, const ReadOptions& given) {
    ReadOptions options = given;
    ready_ = std::vector<std::atomic<int>>(wishes_.size());
    options.ctx = this;
    requests_.caller = std::this_thread::get_id();
    options.ready = [](void* ctx, std::size_t entry) {
      auto& self = *static_cast<Process*>(ctx);
      ++self.ready_[entry];
      if (self.ready) self.ready();
    };
    options.progress = [](void* ctx, std::uint64_t /*done*/, std::uint64_t /*total*/) {
      auto& self = *static_cast<Process*>(ctx);
      EXPECT_EQ(std::this_thread::get_id(), self.requests_.caller);
      return self.progress ? self.progress() : std::int32_t{0};
    };
    for (auto& wish : wishes_) wish->got.assign(wish->expected.size(), '\xEE');
    error_.reset();
    try {
      plan_->run(options, group);
    } catch (const Error& error) {
      error_ = error;
    }
  }

  void expect_bytes() const {
    ASSERT_FALSE(error_) << error_->message;
    for (std::size_t i = 0; i < wishes_.size(); ++i) {
      EXPECT_TRUE(wishes_[i]->got == wishes_[i]->expected) << "tensor " << wishes_[i]->tensor->name();
      EXPECT_TRUE(plan_->complete(i));
      EXPECT_EQ(ready_[i], 1);
    }
    EXPECT_EQ(plan_->done(), plan_->total());
  }

  Status status() const { return error_ ? error_->status : Status::ok; }
  std::string message() const { return error_ ? error_->message : ""; }
  Requests& requests() { return requests_; }
  Plan& plan() { return *plan_; }
  std::size_t count_wishes() const { return wishes_.size(); }
  std::function<std::int32_t()> progress;
  std::function<void()> ready;

 private:
  const std::shared_ptr<Device> device_;
  const Files* files_;
  Requests requests_;
  CheckpointPtr file_;
  std::unique_ptr<Plan> plan_;
  std::vector<std::unique_ptr<Wish>> wishes_;
  std::vector<std::atomic<int>> ready_;
  std::optional<Error> error_;
};

std::vector<Shape> all_shapes() {
  std::vector<Shape> all = kShapes[0];
  all.insert(all.end(), kShapes[1].begin(), kShapes[1].end());
  return all;
}

// The part of a dimension that belongs to a process.
Slice part_of(const Shape& shape, std::size_t dim, std::uint32_t rank, std::uint32_t size) {
  Slice slice{shape.name, {}, {}, {}};
  if (dim >= shape.dims.size()) return slice;
  slice.begin.assign(shape.dims.size(), 0);
  slice.step.assign(shape.dims.size(), 1);
  for (const std::uint64_t length : shape.dims) slice.end.push_back(static_cast<std::int64_t>(length));
  const std::uint64_t unit = shape.bits < 8 ? 2 : 1;  // elements
  const std::uint64_t units = shape.dims[dim] / unit;
  slice.begin[dim] = static_cast<std::int64_t>(units * rank / size * unit);
  slice.end[dim] = static_cast<std::int64_t>(units * (rank + 1) / size * unit);
  return slice;
}

using Kind = void (*)(std::uint32_t rank, std::uint32_t size, std::vector<Slice>& slices);

void replicated(std::uint32_t /*rank*/, std::uint32_t /*size*/, std::vector<Slice>& slices) {
  for (const Shape& shape : all_shapes()) slices.push_back({shape.name, {}, {}, {}});
}
void by_rows(std::uint32_t rank, std::uint32_t size, std::vector<Slice>& slices) {
  for (const Shape& shape : all_shapes()) slices.push_back(part_of(shape, 0, rank, size));
}
void by_columns(std::uint32_t rank, std::uint32_t size, std::vector<Slice>& slices) {
  for (const Shape& shape : all_shapes()) slices.push_back(part_of(shape, shape.dims.size() - 1, rank, size));
}
void mixed(std::uint32_t rank, std::uint32_t size, std::vector<Slice>& slices) {
  const std::vector<Shape> shapes = all_shapes();
  for (std::size_t i = 0; i < shapes.size(); ++i) slices.push_back(part_of(shapes[i], (i + 2) % 3, rank, size));
}
void disjoint(std::uint32_t rank, std::uint32_t size, std::vector<Slice>& slices) {
  const std::vector<Shape> shapes = all_shapes();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (i % size == rank) slices.push_back({shapes[i].name, {}, {}, {}});
  }
}
void by_file(std::uint32_t rank, std::uint32_t /*size*/, std::vector<Slice>& slices) {
  for (const Shape& shape : kShapes[rank]) slices.push_back({shape.name, {}, {}, {}});
}
void some_empty(std::uint32_t rank, std::uint32_t size, std::vector<Slice>& slices) {
  if (rank == 0 || rank + 1 == size) replicated(rank, size, slices);
}
void repeated(std::uint32_t rank, std::uint32_t size, std::vector<Slice>& slices) {
  by_columns(rank, size, slices);
  replicated(rank, size, slices);
  by_rows(rank, size, slices);
}
void first_only(std::uint32_t rank, std::uint32_t size, std::vector<Slice>& slices) {
  if (rank == 0) replicated(rank, size, slices);
}
// Process 0 wants all of the tensor, the others one byte of one block.
void one_byte(std::uint32_t rank, std::uint32_t /*size*/, std::vector<Slice>& slices) {
  slices.push_back({"cube", {}, {}, {}});
  if (rank != 0) slices.back() = {"cube", {8, 30, 100}, {9, 31, 101}, {1, 1, 1}};
}
void nothing(std::uint32_t /*rank*/, std::uint32_t /*size*/, std::vector<Slice>& /*slices*/) {}

struct NamedKind {
  const char* name;
  Kind kind;
};
constexpr NamedKind kKinds[] = {{"replicated", replicated}, {"rows", by_rows},      {"columns", by_columns},
                                {"mixed", mixed},           {"disjoint", disjoint}, {"some empty", some_empty},
                                {"repeated", repeated},     {"one byte", one_byte}, {"nothing", nothing}};

// The processes of a group and their plans.
class Launch {
 public:
  Launch(std::uint32_t size, Kind kind, const Files& files, bool to_device = false) : size_(size) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      processes_.push_back(std::make_unique<Process>(files, to_device));
      std::vector<Slice> slices;
      kind(rank, size, slices);
      for (const Slice& slice : slices) processes_.back()->add(slice, wanted_);
    }
  }

  Process& process(std::uint32_t rank) { return *processes_[rank]; }

  // Process 0 has the least memory for exchanges, and the group uses that much. Returns the number of operations.
  std::size_t run(const ReadOptions& options, std::uint64_t exchange_bytes = 1, std::size_t failing = SIZE_MAX,
                  Team::Spoil spoil = nullptr) {
    Team team(size_);
    team.fail_operation(failing);
    team.spoil(std::move(spoil));
    for (auto& process : processes_) {
      process->requests().bytes = process->requests().reads = 0;
      process->requests().by_caller = false;
    }
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] { processes_[rank]->run(team.group(rank, exchange_bytes << 8 * rank), options); });
    }
    threads.clear();
    return team.operations();
  }

  void expect_bytes() const {
    for (const auto& process : processes_) process->expect_bytes();
  }

  std::uint64_t bytes_read() const {
    return std::accumulate(processes_.begin(), processes_.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& process) { return sum + process->requests().bytes; });
  }
  std::uint64_t bytes_wanted() const {
    std::uint64_t sum = 0;
    for (const auto& [name, marks] : wanted_) {
      for (std::size_t begin = marks.find('\1'); begin != std::string::npos;) {
        const std::size_t end = std::min(marks.find('\0', begin), marks.size());
        sum += end - begin;
        begin = marks.find('\1', end);
      }
    }
    return sum;
  }

  // All end in the same way, and name the process that began it.
  void expect_verdict(std::uint32_t rank, Status own, Status of_others, const std::string& text) {
    for (std::uint32_t i = 0; i < size_; ++i) {
      EXPECT_EQ(process(i).status(), i == rank ? own : of_others) << i << ": " << process(i).message();
      if (i == rank && own != of_others) continue;
      EXPECT_NE(process(i).message().find(formatted("process {} of the group {}", rank, text)), std::string::npos)
          << process(i).message();
    }
  }

 private:
  const std::uint32_t size_;
  Files wanted_;
  std::vector<std::unique_ptr<Process>> processes_;
};

ReadOptions threads(unsigned count) {
  ReadOptions options;
  options.threads = count;
  return options;
}

bool names_a_tensor(const std::string& message) {
  const std::vector<Shape> shapes = all_shapes();
  return std::any_of(shapes.begin(), shapes.end(),
                     [&](const Shape& shape) { return message.rfind(formatted("tensor '{}': ", shape.name), 0) == 0; });
}

// ---- tests -----------------------------------------------------------------------------------------------------------

TEST(GroupRead, ReadsEachByteOnce) {
  const Files files = model(1);
  for (const std::uint32_t size : {1U, 2U, 3U, 4U, 8U}) {
    for (const auto& [name, kind] : kKinds) {
      SCOPED_TRACE(formatted("{} processes, {}", size, name));
      Launch run(size, kind, files);
      for (const unsigned count : {1U, 3U}) {
        run.run(threads(count));
        run.expect_bytes();
        EXPECT_LE(run.bytes_read() * 100, run.bytes_wanted() * 101);
        EXPECT_GE(run.bytes_read(), run.bytes_wanted());
      }
    }
  }
}

TEST(GroupRead, FillsDevices) {
  const Files files = model(2);
  for (const auto& [name, kind] : kKinds) {
    SCOPED_TRACE(name);
    Launch run(3, kind, files, true);
    run.run(threads(0));
    run.expect_bytes();
    EXPECT_LE(run.bytes_read() * 100, run.bytes_wanted() * 101);
  }
}

TEST(GroupRead, UsesTheCallersThreads) {
  const Files files = model(3);
  Launch run(3, mixed, files);
  ReadOptions options = threads(0);
  options.pool.parallel_for = [](void* /*ctx*/, std::size_t n, void (*fn)(void* arg, std::size_t i), void* arg) {
    for (std::size_t i = 0; i < n; ++i) fn(arg, i);
  };
  run.run(options);
  run.expect_bytes();
}

TEST(GroupRead, StartsThreadsOnlyIfItMay) {
  const Files files = model(16);
  const struct {
    unsigned threads;
    bool serial, pool, background;
  } cases[] = {{0, false, false, true}, {1, false, false, false}, {3, false, false, true},
               {0, false, true, false}, {0, true, false, false},  {3, true, false, true}};
  Launch run(2, mixed, files);
  for (const auto& [count, serial, pool, background] : cases) {
    SCOPED_TRACE(formatted("{} threads, serial {}, pool {}", count, serial, pool));
    ReadOptions options = threads(count);
    if (pool) {
      options.pool.parallel_for = [](void* /*ctx*/, std::size_t n, void (*fn)(void* arg, std::size_t i), void* arg) {
        for (std::size_t i = 0; i < n; ++i) fn(arg, i);
      };
    }
    for (std::uint32_t rank = 0; rank < 2; ++rank) run.process(rank).requests().serial = serial;
    run.run(options);
    run.expect_bytes();
    for (std::uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(run.process(rank).requests().by_caller, !background);
  }
}

TEST(GroupRead, ReportsProgressBeforeItEnds) {
  const Files files = model(17);
  const struct {
    Kind kind;
    unsigned threads;  // 1: between the reads of a step; else after each step
  } cases[] = {{by_file, 1}, {replicated, 3}};
  for (const auto& [kind, count] : cases) {
    Launch run(2, kind, files);
    Process& process = run.process(0);
    std::uint64_t first = UINT64_MAX;  // bytes done at the first call
    process.progress = [&] { return first = std::min(first, process.plan().done()), std::int32_t{0}; };
    ReadOptions options = threads(count);
    options.chunk_bytes = 1;
    run.run(options, kind == by_file ? 0 : 1);
    run.expect_bytes();
    EXPECT_LT(first, process.plan().total()) << count << " threads";
  }
}

// Random slices, also backwards and with steps, some of them several times.
TEST(GroupRead, DeliversRandomSlices) {
  const Files files = model(4);
  static std::mt19937 random;
  const Kind kind = [](std::uint32_t /*rank*/, std::uint32_t /*size*/, std::vector<Slice>& slices) {
    const std::vector<Shape> shapes = all_shapes();
    constexpr std::int64_t kSteps[] = {1, 1, 1, 2, 3, 40, -1, -2};
    for (std::size_t i = random() % 6; i > 0; --i) {
      const Shape& shape = shapes[random() % shapes.size()];
      Slice slice{shape.name, {}, {}, {}};
      for (const std::uint64_t dim : shape.dims) {
        const auto length = static_cast<std::int64_t>(dim);
        std::int64_t step = kSteps[random() % std::size(kSteps)];
        if (shape.bits < 8) step = 1;
        const std::int64_t first = dim == 0 || shape.bits < 8 ? 0 : static_cast<std::int64_t>(random() % dim);
        slice.begin.push_back(step < 0 ? length - 1 : first);
        slice.end.push_back(step < 0 ? -length - 1 : length);
        slice.step.push_back(step);
      }
      slices.push_back(std::move(slice));
    }
  };
  for (std::uint32_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(formatted("seed {}", seed));
    random.seed(seed);
    Launch run(2 + seed % 4, kind, files);
    run.run(threads(seed % 3), seed % 5 == 0 ? 0 : std::uint64_t{1} << seed % 24);
    run.expect_bytes();
  }
}

// A round ends with a verdict, so a process whose source fails in any round is named by all others.
TEST(GroupRead, EndsInAllProcessesIfOneCannotRead) {
  const Files files = model(5);
  for (const Kind kind : {&replicated, &by_columns, &disjoint}) {
    Launch run(3, kind, files);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      Process& failing = run.process(rank);
      for (std::size_t number = 0; number < 1000 && !HasFailure(); ++number) {
        SCOPED_TRACE(formatted("process {}, read {}", rank, number));
        failing.requests().fails = [number](std::size_t read) { return read == number; };
        run.run(threads(static_cast<unsigned>(number % 3)));
        if (failing.status() == Status::ok) {
          EXPECT_GT(number, 3U) << "too few reads to fail in several rounds";
          break;
        }
        run.expect_verdict(rank, Status::callback, Status::peer, "failed with ST_ERR_CALLBACK");
        EXPECT_TRUE(names_a_tensor(failing.message())) << failing.message();
      }
      failing.requests().fails = nullptr;
      run.run(threads(0));
      run.expect_bytes();
    }
  }
}

TEST(GroupRead, EachReturnsItsOwnErrorIfSeveralFail) {
  const Files files = model(6);
  Launch run(4, replicated, files);
  for (const std::uint32_t rank : {2U, 1U}) run.process(rank).requests().fails = [](std::size_t) { return true; };
  run.run(threads(1));
  for (const std::uint32_t rank : {1U, 2U}) {
    EXPECT_EQ(run.process(rank).status(), Status::callback);
    EXPECT_EQ(run.process(rank).message().rfind("tensor 'embedding': ", 0), 0U) << run.process(rank).message();
  }
  for (const std::uint32_t rank : {0U, 3U})
    EXPECT_EQ(run.process(rank).message(), "process 1 of the group failed with ST_ERR_CALLBACK");
}

TEST(GroupRead, EndsInAllProcessesIfOneIsCancelled) {
  const Files files = model(7);
  for (const Kind kind : {&replicated, &by_columns, &some_empty}) {
    for (const bool by_progress : {false, true}) {
      Launch run(3, kind, files);
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        Process& cancelled = run.process(rank);
        for (std::size_t number = 0; number < 1000 && !HasFailure(); ++number) {
          SCOPED_TRACE(formatted("process {}, call {}", rank, number));
          std::size_t calls = 0;
          if (by_progress) {
            cancelled.progress = [&] { return std::int32_t{calls++ == number}; };
          } else {
            cancelled.requests().fails = [&](std::size_t read) {
              if (read == number) cancelled.plan().cancel();
              return false;
            };
          }
          run.run(threads(static_cast<unsigned>(number % 3)));
          if (cancelled.status() == Status::ok) {
            EXPECT_TRUE(by_progress || number > 3) << "too few calls to cancel several rounds";
            run.expect_bytes();
            break;
          }
          run.expect_verdict(rank, Status::cancelled, Status::cancelled, "was cancelled");
        }
        cancelled.requests().fails = nullptr;
        cancelled.progress = nullptr;
      }
    }
  }
}

TEST(GroupRead, ACancelAfterTheLastByteIsTooLate) {
  const Files files = model(13);
  for (const unsigned count : {1U, 3U}) {
    Launch run(3, replicated, files);
    Process& cancelled = run.process(1);
    std::atomic<std::size_t> ready{0};
    cancelled.ready = [&] {
      if (++ready == cancelled.count_wishes()) cancelled.plan().cancel();
    };
    run.run(threads(count));
    run.expect_bytes();
  }
}

// A process that wants nothing can cancel too, while others still have several steps.
TEST(GroupRead, ACancelBeforeTheRunEndsIt) {
  const Files files = model(8);
  for (const Kind kind : {&replicated, &some_empty}) {
    Launch run(3, kind, files);
    run.process(1).plan().cancel();
    run.run(threads(0));
    run.expect_verdict(1, Status::cancelled, Status::cancelled, "was cancelled");
    EXPECT_EQ(run.bytes_read() < run.bytes_wanted() / 2, true);
    run.run(threads(0));
    run.expect_bytes();
  }
}

TEST(GroupRead, ACancelInTheOnlyStepCountsIfBytesAreMissing) {
  const Files files = model(18);
  Launch missing(2, by_file, files);
  Process& cancelled = missing.process(0);
  cancelled.requests().fails = [&](std::size_t) { return cancelled.plan().cancel(), false; };
  ReadOptions options = threads(1);
  options.chunk_bytes = 1;
  missing.run(options, 0);
  missing.expect_verdict(0, Status::cancelled, Status::cancelled, "was cancelled");

  Launch complete(2, first_only, files);
  complete.process(1).plan().cancel();
  complete.run(options, 0);
  complete.expect_bytes();
}

TEST(GroupRead, RejectsDifferentCheckpoints) {
  const Files files = model(9);
  Files others = files;
  std::string& shard = others.at("m1.safetensors");
  shard.replace(shard.find("scalar"), 6, "Scalar");
  std::string& index = others.at("m.safetensors.index.json");
  index.replace(index.find("scalar"), 6, "Scalar");
  for (std::uint32_t other = 0; other < 3; ++other) {
    Team team(3);
    std::vector<Status> statuses(3);
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        Process process(rank == other ? others : files, false);
        process.run(team.group(rank, 0), {});
        statuses[rank] = process.status();
        EXPECT_EQ(process.requests().reads, 0U);
      });
    }
    threads.clear();
    EXPECT_EQ(statuses, std::vector<Status>(3, Status::state));
  }
}

TEST(GroupRead, AProcessThatCannotBeginEndsTheOthers) {
  const Files files = model(10);
  Team team(3);
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      if (rank == 1) return leave_group(team.group(rank, 0), Status::unsupported);
      Process process(files, false);
      process.run(team.group(rank, 0), {});
      EXPECT_EQ(process.status(), Status::peer);
      EXPECT_EQ(process.message(), "process 1 of the group failed with ST_ERR_UNSUPPORTED");
    });
  }
}

TEST(GroupRead, EndsIfAnOperationFails) {
  const Files files = model(11);
  Launch run(3, mixed, files);
  const std::size_t all = run.run(threads(0));
  for (std::size_t number = 0; number < all && !HasFailure(); ++number) {
    SCOPED_TRACE(number);
    EXPECT_EQ(run.run(threads(static_cast<unsigned>(number % 3)), 1, number), number + 1);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(run.process(rank).status(), Status::callback);
      EXPECT_NE(run.process(rank).message().find("returned 77"), std::string::npos) << run.process(rank).message();
    }
  }
}

// A list has the number of ranges in each block, and the offset and length of each range. Process 0 reads two blocks, and
// gets this list from itself, before a valid one from process 1.
TEST(GroupRead, RejectsInvalidLists) {
  const Files files = model(19);
  const std::vector<std::uint32_t> lists[] = {
      {1, 0, 8},                       // of one block
      {1, 0, 8, 2, 0, 1},              // one range too few
      {2, 8, 8, 0, 8, 1, 0, 8},        // not ascending
      {1, 8, 0, 1, 0, 8},              // without bytes
      {1, 0, (64 << 10) + 1, 1, 0, 8}  // beyond the block
  };
  Launch run(
      2,
      [](std::uint32_t /*rank*/, std::uint32_t /*size*/, std::vector<Slice>& slices) {
        slices = {{"cube", {}, {}, {}}};
      },
      files);
  for (const std::vector<std::uint32_t>& list : lists) {
    SCOPED_TRACE(list.size());
    const auto bytes = static_cast<std::uint32_t>(list.size() * sizeof(list[0]));
    run.run(threads(1), 0, SIZE_MAX, [&](std::uint32_t rank, std::size_t operation, void* received) {
      if (rank == 0 && operation == 5) std::memcpy(received, &bytes, sizeof(bytes));
      if (rank == 0 && operation == 6) std::memcpy(received, list.data(), bytes);
    });
    EXPECT_EQ(run.process(0).status(), Status::callback);
    EXPECT_EQ(run.process(0).message(), "the group's alltoallv delivered an invalid list of process 0");
    EXPECT_EQ(run.process(1).status(), Status::peer);
  }
}

TEST(GroupRead, RejectsAnImpossibleNumberOfRounds) {
  const Files files = model(20);
  Launch run(2, replicated, files);
  run.run(threads(1), 0, SIZE_MAX, [](std::uint32_t /*rank*/, std::size_t operation, void* received) {
    if (operation == 3) static_cast<std::uint64_t*>(received)[1] = 1000;
  });
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(run.process(rank).message(), "the group's allreduce delivered 1000 as a number of rounds");
}

// The bytes have the shortest distance at which each one is a range. The first is the first byte of a block.
TEST(GroupRead, ExchangesTheLongestLists) {
  Files files;
  files["m.safetensors.index.json"] = R"({"metadata":{},"weight_map":{"long":"m0.safetensors"}})";
  std::string& file = files["m0.safetensors"];
  file = format::file_front(R"({"long":{"dtype":"U8","shape":[1000000],"data_offsets":[0,1000000]}})");
  static std::int64_t first;
  first = ((64 << 10) - static_cast<std::int64_t>(file.size())) % 258;
  for (std::uint32_t i = 0; i < 1'000'000; ++i) file += static_cast<char>(i * 2654435761 >> 24);
  Launch run(
      3,
      [](std::uint32_t /*rank*/, std::uint32_t /*size*/, std::vector<Slice>& slices) {
        slices.push_back({"long", {first}, {1'000'000}, {258}});
      },
      files);
  ReadOptions options = threads(1);
  options.gap_bytes = 4096;
  for (const std::uint64_t exchange_bytes : {1U, 0U}) {
    run.run(options, exchange_bytes);
    run.expect_bytes();
    EXPECT_GT(run.bytes_read(), 900'000U) << "reads each range alone";
  }
}

// One block has more requests than one read takes, of one process or of both.
TEST(GroupRead, ReadsManyRequests) {
  const Files files = model(21);
  for (const Kind kind : {+[](std::uint32_t rank, std::uint32_t /*size*/, std::vector<Slice>&slices) {
                            if (rank == 0) slices.assign(100'000, {"scalar", {}, {}, {}});
                          },
                          +[](std::uint32_t rank, std::uint32_t /*size*/, std::vector<Slice>&slices) {
                            slices.assign(rank == 0 ? 100'000 : 1, {"scalar", {}, {}, {}});
                          }}) {
    Launch run(2, kind, files);
    run.run(threads(1));
    run.expect_bytes();
  }
}

// One process wants 9 blocks more than the others, which makes 9 rounds of one or two of the 13 shared blocks.
TEST(GroupRead, SharesShortRoundsEvenly) {
  const Files files = model(14);
  Launch run(
      3,
      [](std::uint32_t rank, std::uint32_t /*size*/, std::vector<Slice>& slices) {
        slices.push_back({"embedding", {}, {}, {}});
        if (rank == 0) slices.push_back({"head", {}, {}, {}});
      },
      files);
  run.run(threads(0));
  run.expect_bytes();
  const std::uint64_t shared = 200 * 1024 * 4;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    EXPECT_GT(run.process(rank).plan().counts().bytes_sent, 2 * shared / 4) << rank;
}

// Each operation waits for all processes. A run begins with four: the greeting, two verdicts and the counts of blocks. A
// third verdict follows if there is something to read, and one more for each step. A round of shared blocks has two
// lists and the bytes, and is delivered two steps later.
TEST(GroupRead, UsesFewOperations) {
  const Files files = model(15);
  const Kind two_shared = [](std::uint32_t rank, std::uint32_t /*size*/, std::vector<Slice>& slices) {
    slices = {{"norm", {}, {}, {}}, {"scalar", {}, {}, {}}};
    if (rank == 0) slices.push_back({"head", {}, {}, {}});  // 9 blocks
  };
  const struct {
    Kind kind;
    std::uint64_t exchange_bytes;
    std::size_t operations;
  } cases[] = {{nothing, 0, 4},
               {by_file, 0, 4 + 1 + 1},
               {by_file, 256 << 10, 4 + 1 + 3},  // 8 of 24 blocks in each round
               {first_only, 1, 4 + 1 + 47},      // one of 47
               {replicated, 0, 4 + 1 + 3 + 3},
               {two_shared, 1, 4 + 1 + 9 + 2 + 2 * 3}};
  for (const auto& [kind, exchange_bytes, operations] : cases) {
    Launch run(2, kind, files);
    EXPECT_EQ(run.run(threads(1), exchange_bytes), operations);
    run.expect_bytes();
  }
}

// A process has 3 + N buffers of a block for each block that it reads in a round of N processes, and 2 for each block
// that any process reads.
TEST(GroupRead, UsesTheMemoryItMay) {
  const Files files = model(12);
  const struct {
    std::uint32_t size;
    std::uint64_t most, blocks;
  } cases[] = {{2, 4, 54}, {4, 4, 45}, {4, 16, 178}, {4, 0, 178}};
  for (const auto& [size, most, blocks] : cases) {
    SCOPED_TRACE(formatted("{} processes, {} MiB", size, most));
    Launch run(size, replicated, files);
    ReadOptions options = threads(0);
    options.gap_bytes = std::uint64_t{1} << 30;  // would read what others read, too
    run.run(options, most << 20);
    run.expect_bytes();
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      const ReadCounts& counts = run.process(rank).plan().counts();
      EXPECT_EQ(counts.exchange_bytes, blocks * (64 << 10));
      EXPECT_LE(counts.exchange_bytes, most == 0 ? std::uint64_t{256} << 20 : most << 20);
      EXPECT_LT(counts.bytes_read, run.bytes_wanted() * 4 / 3 / size);
      sent += counts.bytes_sent;
      received += counts.bytes_received;
    }
    EXPECT_EQ(sent, run.bytes_wanted() * (size - 1));
    EXPECT_EQ(received, run.bytes_wanted() * (size - 1));
  }
}

// ---- blocks ----------------------------------------------------------------------------------------------------------

// A file of one tensor of zeros.
class ZerosSource final : public io::Source {
 public:
  explicit ZerosSource(std::uint64_t size) : Source(size) {
    std::string header = formatted(R"({{"zeros":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}})", size - 128);
    header.resize(120, ' ');
    front_ = format::file_front(header);
  }
  const char* name() const override { return "zeros"; }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    std::memset(dst, 0, n);
    if (offset < front_.size())
      std::memcpy(dst, front_.data() + offset, std::min(n, front_.size() - static_cast<std::size_t>(offset)));
  }

 private:
  std::string front_;
};

CheckpointPtr zeros(std::uint64_t size) { return Checkpoint::open(std::make_unique<ZerosSource>(size), {}); }

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = kKiB * kKiB;

CheckpointPtr open_file(const std::string& bytes) {
  static Requests requests;
  return Checkpoint::open(std::make_unique<CountedSource>("file", bytes, requests), {});
}

TEST(MergeRanges, MergesShortGaps) {
  const std::vector<Range> same(100, Range{3, 5});
  const struct {
    std::vector<Range> ranges;
    std::uint64_t gap;
    std::vector<Range> merged;
  } cases[] = {{{}, 1, {}},
               {{{4, 6}, {0, 4}}, 0, {{0, 6}}},
               {{{0, 4}, {5, 6}}, 0, {{0, 4}, {5, 6}}},
               {{{20, 22}, {0, 10}, {2, 4}, {14, 16}}, 4, {{0, 22}}},
               {{{20, 22}, {0, 10}, {14, 16}}, 3, {{0, 10}, {14, 16}, {20, 22}}},
               {same, 0, {{3, 5}}}};
  for (const auto& [ranges, gap, merged] : cases) {
    std::vector<Range> got = ranges;
    merge_ranges(got, gap);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), merged.begin(), merged.end(),
                           [](const Range& a, const Range& b) { return a.begin == b.begin && a.end == b.end; }))
        << ranges.size() << " ranges, gap " << gap;
  }
}

TEST(GroupBlocks, DigestsTellHeadersApart) {
  std::map<std::uint64_t, std::string> digests;
  for (const char* const header : {
           R"({"a":{"dtype":"U8","shape":[1,1,2,8],"data_offsets":[0,16]}})",
           R"({"a":{"dtype":"U8","shape":[1,1,2,8],"data_offsets":[0,16]}}                )",
           R"({"a":{"dtype":"U8","shape":[1,1,8,2],"data_offsets":[0,16]}})",
           R"({"a":{"dtype":"I8","shape":[1,1,2,8],"data_offsets":[0,16]}})",
           R"({"b":{"dtype":"U8","shape":[1,1,2,8],"data_offsets":[0,16]}})",
           R"({"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[1,1,2,8],"data_offsets":[0,16]}})",
           R"({"__metadata__":{"j":"v"},"a":{"dtype":"U8","shape":[1,1,2,8],"data_offsets":[0,16]}})",
           R"({"__metadata__":{"k":"w"},"a":{"dtype":"U8","shape":[1,1,2,8],"data_offsets":[0,16]}})",
       }) {
    const std::string bytes = format::file_front(header) + std::string(16, '\0');
    const auto [same, is_new] = digests.emplace(digest_of(*open_file(bytes)), header);
    EXPECT_TRUE(is_new) << header << " has the digest of " << same->second;
  }
}

// At least 16 blocks for each process, of 64 KiB to 4 MiB.
TEST(GroupBlocks, AreManyForEachProcess) {
  const struct {
    std::uint64_t file, most;
    std::size_t processes;
    std::uint64_t bytes;
  } cases[] = {
      {2 * kMiB, UINT64_MAX, 1, 128 * kKiB},    {2 * kMiB - 1, UINT64_MAX, 1, 64 * kKiB},
      {64 * kMiB, UINT64_MAX, 8, 512 * kKiB},   {1024 * kMiB, UINT64_MAX, 1, 4 * kMiB},
      {1024 * kMiB, 512 * kKiB, 1, 512 * kKiB}, {1024 * kMiB, 512 * kKiB - 1, 1, 256 * kKiB},
      {4 * kKiB, UINT64_MAX, 1, 64 * kKiB},     {1024 * kMiB, 1, 1, 64 * kKiB},
  };
  for (const auto& [file, most, processes, bytes] : cases)
    EXPECT_EQ(block_bytes_for(*zeros(file), most, processes), bytes) << file << ", " << most << ", " << processes;
}

// The first shard is shorter than a block.
TEST(GroupBlocks, AreThoseOfAllShards) {
  Files files;
  files["m0"] = format::file_front(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})") + std::string(8, '\0');
  files["m1"] = format::file_front(R"({"b":{"dtype":"U8","shape":[4194304],"data_offsets":[0,4194304]}})");
  files["m1"].resize(files["m1"].size() + 4 * kMiB);
  files["m.index.json"] = R"({"metadata":{},"weight_map":{"a":"m0","b":"m1"}})";
  Requests requests;
  const CheckpointPtr file = Checkpoint::open(std::make_unique<Folder>(files, requests), "m.index.json", {});
  EXPECT_EQ(block_bytes_for(*file, UINT64_MAX, 1), 256 * kKiB);
}

TEST(GroupBlocks, KnowTheTensorAtAnAddress) {
  const Files files = model(22);
  Requests requests;
  const CheckpointPtr file =
      Checkpoint::open(std::make_unique<Folder>(files, requests), "m.safetensors.index.json", {});
  const GroupBlocks blocks(*file, 1, {});  // Each byte is one, and the end of a shard one more.
  for (std::size_t i = 0; i < file->count_tensors(); ++i) {
    const Tensor& tensor = *file->tensor_at(i);
    if (tensor.bytes() == 0) continue;
    const std::uint64_t shard = shard_of(tensor).number == 0 ? 0 : file->shard(0).source->size() + 1;
    EXPECT_EQ(blocks.tensor_at(shard + shard_of(tensor).offset_of(tensor)), tensor.name());
  }
}

// Some slices have a run of one byte in about every third block, others many runs in one block.
TEST(GroupBlocks, WantOnlyTheRunsOfASlice) {
  const CheckpointPtr file = zeros(kMiB);
  const Tensor& tensor = *file->tensor("zeros");
  const auto wanted = [&](std::int64_t begin, std::int64_t step) {
    static format::Slice slice;
    slice = format::slice(tensor, &begin, nullptr, &step);
    ReadRequest request;
    request.begin = shard_of(tensor).offset_of(tensor) + slice.src_begin;
    request.bytes = format::extent(slice);
    request.slice = &slice;
    auto blocks = std::make_unique<GroupBlocks>(*file, 64 * kKiB, std::vector<ReadRequest>{request});
    Group group;
    group.reduce = [](void*, std::int32_t, std::uint64_t*, std::size_t) { return std::int32_t{0}; };
    blocks->count_wishes(group);
    return blocks;
  };
  const auto sparse = wanted(70'000, 200'000);
  EXPECT_EQ(sparse->own(), 5U);
  std::uint64_t block = 0;
  for (const std::uint64_t expected : {1U, 4U, 7U, 10U, 13U})
    EXPECT_EQ(block = sparse->next(block + (block != 0), GroupBlocks::Kind::own), expected);
  EXPECT_EQ(sparse->range_of(16).end, kMiB);

  std::vector<Range> ranges;
  wanted(0, GroupBlocks::kGap + 1)->find_wanted(1, ranges);
  EXPECT_EQ(ranges.size(), 1U);
  wanted(0, GroupBlocks::kGap + 2)->find_wanted(1, ranges);
  EXPECT_EQ(ranges.size(), 254U);
}

TEST(GroupBlocks, TooManyAreAnOverflow) {
  EXPECT_EQ(GroupBlocks(*zeros(((std::uint64_t{1} << 25) - 1) * 64 * kKiB), 64 * kKiB, {}).count(), 1U << 25);
  const CheckpointPtr file = zeros(std::uint64_t{1} << 42);
  try {
    const GroupBlocks blocks(*file, 64 * kKiB, {});
    ADD_FAILURE() << blocks.count() << " blocks";
  } catch (const Error& error) {
    EXPECT_EQ(error.status, Status::overflow);
    EXPECT_EQ(error.message,
              "the checkpoint of 4398046511104 bytes is more than 33554432 blocks of 65536 bytes: raise "
              "exchange_bytes");
  }
}

// More blocks than one operation of the group takes.
TEST(GroupBlocks, EachIsCountedOnce) {
  const CheckpointPtr file = zeros(100'000);
  ReadRequest last;
  last.begin = 99'999;
  last.bytes = 1;
  for (const std::uint64_t processes : {1U, 2U}) {  // that want the last block
    GroupBlocks blocks(*file, 1, {last});
    struct Sum {
      std::uint64_t processes, values;
    } sum{processes, 0};
    Group group;
    group.ctx = &sum;
    group.reduce = [](void* ctx, std::int32_t /*op*/, std::uint64_t* values, std::size_t n) {
      auto& self = *static_cast<Sum*>(ctx);
      EXPECT_LE(n, 65536U);
      self.values += n;
      for (std::size_t i = 0; i < n; ++i) values[i] *= self.processes;
      return std::int32_t{0};
    };
    blocks.count_wishes(group);
    EXPECT_EQ(sum.values, blocks.count());
    EXPECT_EQ(blocks.own(), processes == 1 ? 1U : 0U);
    EXPECT_EQ(blocks.shared(), processes == 1 ? 0U : 1U);
    EXPECT_EQ(blocks.next(0, processes == 1 ? GroupBlocks::Kind::own : GroupBlocks::Kind::shared), 99'999U);
  }
}

}  // namespace
}  // namespace st::core::group_read_test
