// Models that are not stored in files: third-party implementations of Source and Directory, with opening, views, plans
// and copies.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../format/file_front.hpp"
#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "core/bulk_read.hpp"
#include "core/checkpoint.hpp"
#include "core/plan.hpp"
#include "core/read_scheduler.hpp"
#include "core/writer.hpp"
#include "io/directory.hpp"
#include "io/os.hpp"
#include "io/source.hpp"

namespace st::core::sources_test {
namespace {

// Counts the requests, as an object store would.
struct Requests {
  std::atomic<int> single{0};
  std::atomic<int> batches{0};
  std::atomic<std::uint64_t> bytes{0};
};

class RemoteSource final : public io::Source {
 public:
  RemoteSource(std::string name, const std::string& bytes, Requests& requests, io::Traits traits)
      : Source(bytes.size()), name_(std::move(name)), bytes_(bytes), requests_(requests), traits_(traits) {}

  const char* name() const override { return name_.c_str(); }
  io::Traits traits() const override { return traits_; }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    ++requests_.single;
    copy(offset, dst, n);
  }
  void read_many(std::span<const io::Read> reads) const override {
    ++requests_.batches;
    for (const io::Read& read : reads) copy(read.offset, read.dst, read.bytes);
  }

 private:
  void copy(std::uint64_t offset, void* dst, std::size_t n) const {
    if (offset > bytes_.size() || n > bytes_.size() - offset) {
      fail_at(Status::truncated, offset, "object {} ends", in_quotes(name_));
    }
    std::memcpy(dst, bytes_.data() + offset, n);
    requests_.bytes += n;
  }

  const std::string name_;
  const std::string& bytes_;
  Requests& requests_;
  const io::Traits traits_;
};

class RemoteFolder : public io::Directory {
 public:
  RemoteFolder(const std::map<std::string, std::string>& objects, Requests& requests)
      : objects_(objects), requests_(requests) {}

  const std::string& path() const override { return path_; }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : objects_) names.push_back(name);
    return names;
  }
  std::unique_ptr<io::Source> open(const std::string& name, bool /*follow_links*/) const override {
    const auto object = objects_.find(name);
    if (object == objects_.end()) throw Error{Status::open, io::no_such_file(), kNowhere, "no object " + name};
    return std::make_unique<RemoteSource>(path_ + "/" + name, object->second, requests_, io::Traits{});
  }

 private:
  const std::string path_ = "store://bucket/model";
  const std::map<std::string, std::string>& objects_;
  Requests& requests_;
};

std::string counted(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
  return bytes;
}

// A matrix of 1000 rows of 100 bytes, and 50 bytes far after it.
std::string sample() {
  return format::file_front(R"({"m":{"dtype":"U8","shape":[1000,100],"data_offsets":[0,100000]},)"
                            R"("gap":{"dtype":"U8","shape":[100000],"data_offsets":[100000,200000]},)"
                            R"("v":{"dtype":"U8","shape":[50],"data_offsets":[200000,200050]}})") +
         counted(200'050);
}

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

// Even if byte 0 of the source is not at the start of an aligned block.
TEST(Sources, BytesFromElsewhereGoThroughAPlan) {
  const std::string bytes = sample();
  for (const std::uint64_t origin : {std::uint64_t{0}, (std::uint64_t{1} << 62) + 4097}) {
    Requests requests;
    io::Traits traits;
    traits.origin = origin;
    const CheckpointPtr file =
        Checkpoint::open(std::make_unique<RemoteSource>("store://m", bytes, requests, traits), {});
    EXPECT_STREQ(file->shard(0).path, "store://m");
    EXPECT_EQ(file->shard(0).source->view(), nullptr);
    const std::string data = bytes.substr(bytes.size() - 200'050);

    std::string whole(100'000, '?');
    std::string column(1000, '?');
    std::string last(50, '?');
    const std::int64_t begin[] = {0, 3};
    const std::int64_t end[] = {INT64_MAX, 4};
    Plan plan(*file);
    plan.add(*file->tensor("m"), nullptr, nullptr, nullptr, whole.data(), whole.size());
    plan.add(*file->tensor("m"), begin, end, nullptr, column.data(), column.size());
    plan.add(*file->tensor("v"), nullptr, nullptr, nullptr, last.data(), last.size());
    const int before = requests.batches;
    ReadOptions options;
    options.threads = 3;
    plan.run(options);
    EXPECT_TRUE(whole == data.substr(0, 100'000));
    for (std::size_t i = 0; i < column.size(); ++i) ASSERT_EQ(column[i], data[100 * i + 3]) << i;
    EXPECT_TRUE(last == data.substr(200'000));
    EXPECT_GT(requests.batches, before);
  }
}

// A source with expensive requests gets fewer of them, and reads more bytes.
TEST(Sources, TheCostOfARequestDecidesWhatIsReadAlong) {
  const std::string bytes = sample();
  const struct {
    std::uint64_t cost;
    int requests;
    std::uint64_t bytes;
  } cases[] = {{0, 2, 100'050}, {99'999, 2, 100'050}, {100'000, 1, 200'050}, {std::uint64_t{1} << 40, 1, 200'050}};
  for (const auto& [cost, wanted, read] : cases) {
    SCOPED_TRACE(cost);
    Requests requests;
    io::Traits traits;
    traits.request_cost = cost;
    traits.joins_reads = true;
    const CheckpointPtr file = Checkpoint::open(std::make_unique<RemoteSource>("m", bytes, requests, traits), {});
    std::string whole(100'000, '?');
    std::string last(50, '?');
    Plan plan(*file);
    plan.add(*file->tensor("m"), nullptr, nullptr, nullptr, whole.data(), whole.size());
    plan.add(*file->tensor("v"), nullptr, nullptr, nullptr, last.data(), last.size());
    requests.batches = 0;
    requests.bytes = 0;
    ReadOptions options;
    options.threads = 1;
    plan.run(options);
    EXPECT_EQ(requests.batches, wanted);
    EXPECT_EQ(requests.bytes, read);
    EXPECT_EQ(plan.counts().reads, static_cast<std::uint64_t>(wanted));
    EXPECT_EQ(requests.single, 1);  // of the header
  }
}

TEST(Sources, ATruncatedOneIsNamedWithItsTensor) {
  std::string bytes = sample();
  Requests requests;
  const CheckpointPtr file =
      Checkpoint::open(std::make_unique<RemoteSource>("store://m", bytes, requests, io::Traits{}), {});
  bytes.resize(bytes.size() - 20);
  std::string last(50, '?');
  Plan plan(*file);
  plan.add(*file->tensor("v"), nullptr, nullptr, nullptr, last.data(), last.size());
  const Error error = error_of([&] { plan.run({}); });
  EXPECT_EQ(error.status, Status::truncated);
  EXPECT_EQ(error.message, "tensor 'v': object 'store://m' ends");
}

TEST(Sources, FaultsOfAHeaderNameTheSource) {
  const std::string bytes = format::file_front("{]");
  Requests requests;
  const Error error = error_of(
      [&] { Checkpoint::open(std::make_unique<RemoteSource>("store://bad", bytes, requests, io::Traits{}), {}); });
  EXPECT_TRUE(error.message.starts_with("'store://bad': ")) << error.message;
}

TEST(Sources, TensorsAreCopiedIntoANewFile) {
  const std::string bytes = sample();
  Requests requests;
  const CheckpointPtr file = Checkpoint::open(std::make_unique<RemoteSource>("m", bytes, requests, io::Traits{}), {});
  const std::string name = testing::TempDir() + "sources-copied-" + std::to_string(std::random_device{}());
  Writer writer;
  writer.add("m", *file->tensor("m"));
  writer.begin(name.c_str(), {});
  writer.finish();
  std::ifstream stream(name, std::ios::binary);
  const std::string copied{std::istreambuf_iterator<char>(stream), {}};
  stream.close();
  EXPECT_TRUE(copied.ends_with(bytes.substr(bytes.size() - 200'050, 100'000)));
  std::filesystem::remove(name);
}

// ---- folders -----------------------------------------------------------------------------------------------------------

std::string one_tensor(const std::string& name, const std::string& data) {
  return format::file_front(R"({")" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(data.size()) +
                            R"(],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}") +
         data;
}

const std::map<std::string, std::string> kShards{{"model-00001-of-00002.safetensors", one_tensor("a", "first")},
                                                 {"model-00002-of-00002.safetensors", one_tensor("b", "second")}};
const std::string kIndex = R"({"metadata":{"k":"v"},"weight_map":{)"
                           R"("a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})";

std::string bytes_of(const Checkpoint& file, const char* name) {
  const Tensor* const tensor = file.tensor(name);
  if (tensor == nullptr) return "no tensor";
  std::string bytes(static_cast<std::size_t>(tensor->bytes()), '?');
  read(*tensor, bytes.data());
  return bytes;
}

TEST(Folders, AModelOfShardsIsOpenedFromElsewhere) {
  for (const bool with_index : {false, true}) {
    SCOPED_TRACE(with_index);
    std::map<std::string, std::string> objects = kShards;
    if (with_index) objects["model.safetensors.index.json"] = kIndex;
    Requests requests;
    const CheckpointPtr file = Checkpoint::open(std::make_unique<RemoteFolder>(objects, requests), {});
    EXPECT_EQ(file->count_shards(), 2U);
    EXPECT_EQ(requests.single, with_index ? 3 : 2);  // each file once
    EXPECT_EQ(bytes_of(*file, "a"), "first");
    EXPECT_EQ(bytes_of(*file, "b"), "second");
    EXPECT_STREQ(file->shard(1).path, "store://bucket/model/model-00002-of-00002.safetensors");
    std::string all(11, '?');
    Plan plan(*file);
    plan.add(*file->tensor("a"), nullptr, nullptr, nullptr, all.data(), 5);
    plan.add(*file->tensor("b"), nullptr, nullptr, nullptr, all.data() + 5, 6);
    plan.run({});
    EXPECT_EQ(all, "firstsecond");
  }
}

TEST(Folders, AModelOfOneFileIsOpenedFromElsewhere) {
  Requests requests;
  const std::map<std::string, std::string> objects{{"model.safetensors", one_tensor("a", "alone")}, {"notes.txt", ""}};
  const CheckpointPtr file = Checkpoint::open(std::make_unique<RemoteFolder>(objects, requests), {});
  EXPECT_EQ(bytes_of(*file, "a"), "alone");
  EXPECT_STREQ(file->shard(0).path, "store://bucket/model/model.safetensors");
}

TEST(Folders, AShardThatIsNotThereIsMissing) {
  Requests requests;
  std::map<std::string, std::string> objects = kShards;
  objects["model.safetensors.index.json"] = kIndex;
  objects.erase("model-00002-of-00002.safetensors");
  const Error error = error_of([&] { Checkpoint::open(std::make_unique<RemoteFolder>(objects, requests), {}); });
  EXPECT_EQ(error.status, Status::shard);
  EXPECT_NE(error.message.find("shard 'model-00002-of-00002.safetensors' is missing"), std::string::npos)
      << error.message;
}

// If a thread is started, it opens the shard while the index is read.
TEST(Folders, AnIndexOfOneShardStartsNoThread) {
  class WatchedFolder final : public io::Directory {
   public:
    WatchedFolder(const std::map<std::string, std::string>& objects, Requests& requests) : folder_(objects, requests) {}
    const std::string& path() const override { return folder_.path(); }
    std::vector<std::string> names() const override { return folder_.names(); }
    std::unique_ptr<io::Source> open(const std::string& name, bool follow_links) const override {
      EXPECT_EQ(std::this_thread::get_id(), opener_) << name;
      if (name.ends_with(".json")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return folder_.open(name, follow_links);
    }

   private:
    RemoteFolder folder_;
    const std::thread::id opener_ = std::this_thread::get_id();
  };
  Requests requests;
  const std::map<std::string, std::string> objects{
      {"m-00001-of-00001.safetensors", one_tensor("a", "first")},
      {"m.safetensors.index.json", R"({"weight_map":{"a":"m-00001-of-00001.safetensors"}})"}};
  OpenOptions options;
  options.threads = 4;
  const CheckpointPtr file = Checkpoint::open(std::make_unique<WatchedFolder>(objects, requests), options);
  EXPECT_EQ(bytes_of(*file, "a"), "first");
}

// Each thread that opens a file waits until the expected number of threads is here, then a little longer for one more.
class MeetingFolder final : public RemoteFolder {
 public:
  MeetingFolder(const std::map<std::string, std::string>& objects, Requests& requests, unsigned stated, unsigned wanted)
      : RemoteFolder(objects, requests), stated_(stated), wanted_(wanted) {}
  unsigned parallel() const override { return stated_; }
  std::unique_ptr<io::Source> open(const std::string& name, bool follow_links) const override {
    {
      std::unique_lock lock(mutex_);
      most = std::max(most, ++now_);
      changed_.notify_all();
      changed_.wait_for(lock, std::chrono::seconds(20), [this] { return most >= wanted_; });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::lock_guard lock(mutex_);
    --now_;
    return RemoteFolder::open(name, follow_links);
  }
  static inline unsigned most = 0;

 private:
  const unsigned stated_;
  const unsigned wanted_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable unsigned now_ = 0;
};

TEST(Folders, UsesTheThreadCountOfTheCallerOrElseOfTheFolder) {
  constexpr unsigned kMany = 8;
  std::map<std::string, std::string> objects;
  for (unsigned i = 1; i <= kMany; ++i) {
    objects[formatted("m-{}-of-{}.safetensors", i, kMany)] = one_tensor(formatted("t{}", i), "x");
  }
  const struct {
    unsigned threads;
    unsigned stated;
    unsigned expected;
  } cases[] = {{0, 0, std::min(hardware_threads(), kMany)}, {0, 1, 1}, {0, 5, 5}, {1, 5, 1}, {3, 1, 3}};
  for (const auto& [threads, stated, expected] : cases) {
    Requests requests;
    OpenOptions options;
    options.threads = threads;
    MeetingFolder::most = 0;
    Checkpoint::open(std::make_unique<MeetingFolder>(objects, requests, stated, expected), options);
    EXPECT_EQ(MeetingFolder::most, expected) << threads << " and " << stated;
  }
}

// Only several shards can come from two saves.
TEST(Folders, TheOnlyShardOfAModelMayBeReplacedWhileTheModelIsOpened) {
  class ReplacedFolder final : public RemoteFolder {
   public:
    using RemoteFolder::RemoteFolder;
    bool changed_lately() const override { return true; }
    bool leads_to(const std::string& /*name*/, const io::Source& /*source*/) const override { return false; }
  };
  Requests requests;
  const std::map<std::string, std::string> one{
      {"m-00001-of-00001.safetensors", one_tensor("a", "first")},
      {"m.safetensors.index.json", R"({"weight_map":{"a":"m-00001-of-00001.safetensors"}})"}};
  const CheckpointPtr file = Checkpoint::open(std::make_unique<ReplacedFolder>(one, requests), {});
  EXPECT_EQ(bytes_of(*file, "a"), "first");
  const Error error = error_of([&] { Checkpoint::open(std::make_unique<ReplacedFolder>(kShards, requests), {}); });
  EXPECT_EQ(error.os_error, EAGAIN) << error.message;
}

TEST(Folders, OneWithoutAModelIsNamed) {
  Requests requests;
  const Error error = error_of(
      [&] { Checkpoint::open(std::make_unique<RemoteFolder>(std::map<std::string, std::string>{}, requests), {}); });
  EXPECT_EQ(error.message, "directory 'store://bucket/model' contains no safetensors file");
}

// A minimal source, part of a larger file; reads fail from `bad` on.
class PlainSource final : public io::Source {
 public:
  PlainSource(const std::string& bytes, Requests& requests)
      : Source(bytes.size()), bytes_(bytes), requests_(requests) {}
  io::Traits traits() const override {
    io::Traits traits;
    traits.origin = std::uint64_t{1} << 62;  // as much memory cannot be had
    return traits;
  }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    if (offset + n > bad) fail_at(Status::read, bad, "no byte {}", bad);
    ++requests_.single;
    requests_.bytes += n;
    std::memcpy(dst, bytes_.data() + offset, n);
  }
  std::uint64_t bad = UINT64_MAX;

 private:
  const std::string& bytes_;
  Requests& requests_;
};

// Simulates an edit in place: from the second read on, the header has another length.
class EditedSource final : public io::Source {
 public:
  EditedSource(std::string before, std::string after)
      : Source(after.size()), before_(std::move(before)), after_(std::move(after)) {}
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    const auto now = std::chrono::steady_clock::now();
    if (reads_ > 0) longest_pause_ = std::max(longest_pause_, now - last_read_);
    last_read_ = now;
    std::memcpy(dst, (reads_++ == 0 ? before_ : after_).data() + offset, n);
  }
  bool changed_lately() const override { return true; }
  auto longest_pause() const { return longest_pause_; }

 private:
  const std::string before_;
  const std::string after_;
  mutable int reads_ = 0;
  mutable std::chrono::steady_clock::time_point last_read_;
  mutable std::chrono::steady_clock::duration longest_pause_{};
};

TEST(Sources, AHeaderThatIsEditedMeanwhileIsReadAsItIsNow) {
  const auto file_of = [](std::size_t header_bytes, const std::string& name) {
    const std::string n = std::to_string(4000 - header_bytes);
    std::string json = "{\"" + name + R"(":{"dtype":"U8","shape":[)" + n + R"(],"data_offsets":[0,)" + n + "]}}";
    json.resize(header_bytes, ' ');
    return format::file_front(json) + std::string(4000 - header_bytes, 'x');
  };
  const std::pair<std::size_t, std::size_t> lengths[] = {{3000, 200}, {200, 3000}};
  for (const auto& [before, after] : lengths) {
    auto source = std::make_unique<EditedSource>(file_of(before, "before"), file_of(after, "after"));
    const EditedSource& edited = *source;
    const CheckpointPtr file = Checkpoint::open(std::move(source), {});
    EXPECT_GE(edited.longest_pause(), std::chrono::milliseconds(1));  // lets an interrupted writer continue
    EXPECT_EQ(file->tensor("before"), nullptr);
    EXPECT_NE(file->tensor("after"), nullptr);
  }
}

TEST(Sources, AHeaderThatIsReadAgainCountsOnceInTheSumOfAModel) {
  const std::string file = sample();
  for (const std::string& before : {file, std::string(8, '\xFF') + file.substr(8)}) {  // the second is not a header
    Shard shard(std::pmr::new_delete_resource());
    shard.source = std::make_unique<EditedSource>(before, file);
    HeaderSum sum{file.size()};
    open_shard(shard, io::Mode::read, {}, &sum);
    EXPECT_EQ(sum.bytes, shard.header.size());
  }
}

TEST(Sources, AreNamedOnceInAnError) {
  struct Source final : io::Source {
    Source() : io::Source(100) {}
    const char* name() const override { return "a"; }
    io::Overwritten overwritten() const override { return io::Overwritten::unknown; }
    void read_at(std::uint64_t, void*, std::size_t) const override {
      fail(Status::read, "{}: no byte", in_quotes("a"));
    }
  };
  EXPECT_EQ(error_of([] { Checkpoint::open(std::make_unique<Source>(), {}); }).message, "'a': no byte");
  Shard shard(std::pmr::new_delete_resource());
  shard.source = std::make_unique<Source>();
  shard.path = shard.source->name();
  EXPECT_TRUE(change_of(shard).starts_with("'a' may have been overwritten"));
}

struct PlainModel {
  PlainModel() {
    auto source = std::make_unique<PlainSource>(bytes, requests);
    plain = source.get();
    file = Checkpoint::open(std::move(source), {});
  }
  const std::string bytes = sample();
  Requests requests;
  PlainSource* plain;
  CheckpointPtr file;
};

TEST(Sources, NameTheTensorOfAFaultBehindTheirOrigin) {
  PlainModel model;
  model.plain->bad = model.bytes.size() - 10;  // in v, the last
  std::vector<std::byte> memory(100'050);
  Plan plan(*model.file);
  plan.add(*model.file->tensor("m"), nullptr, nullptr, nullptr, memory.data(), 100'000);
  plan.add(*model.file->tensor("v"), nullptr, nullptr, nullptr, memory.data() + 100'000, 50);
  const Error error = error_of([&] { plan.run({}); });
  EXPECT_EQ(error.status, Status::read);
  EXPECT_NE(error.message.find("tensor 'v'"), std::string::npos) << error.message;
  model.plain->bad -= 150'000;
  Plan of_slice(*model.file);
  const std::int64_t column[] = {1000, 1};
  of_slice.add(*model.file->tensor("m"), nullptr, column, nullptr, memory.data(), 1000);
  EXPECT_TRUE(error_of([&] { of_slice.run({}); }).message.starts_with("tensor 'm': no byte"));
}

TEST(Sources, ReadNoGapsIfTheyDoNotJoinReads) {
  PlainModel model;
  std::string memory(150, ' ');
  Plan plan(*model.file);
  const std::int64_t first[] = {999, 0};
  plan.add(*model.file->tensor("m"), first, nullptr, nullptr, memory.data(), 100);
  plan.add(*model.file->tensor("v"), nullptr, nullptr, nullptr, memory.data() + 100, 50);
  model.requests.single = 0;
  plan.run({});
  EXPECT_EQ(model.requests.single, 2);
  const std::size_t data = model.bytes.size() - 200'050;
  EXPECT_EQ(memory, model.bytes.substr(data + 99'900, 100) + model.bytes.substr(data + 200'000));
}

TEST(Sources, AreAskedOnceForNeighboursThatAreAlsoNeighboursInMemory) {
  PlainModel model;
  for (const std::size_t apart : {0U, 10U}) {
    std::string memory(100'060, ' ');
    Plan plan(*model.file);
    plan.add(*model.file->tensor("gap"), nullptr, nullptr, nullptr, memory.data(), 100'000);
    plan.add(*model.file->tensor("v"), nullptr, nullptr, nullptr, memory.data() + 100'000 + apart, 50);
    model.requests.single = 0;
    plan.run({});
    EXPECT_EQ(model.requests.single, apart == 0 ? 1 : 2);
    EXPECT_EQ(plan.counts().reads, apart == 0 ? 1U : 2U);
    EXPECT_TRUE(model.bytes.ends_with(memory.substr(0, 100'000) + memory.substr(100'000 + apart, 50)));
  }
}

// Records how many threads a run is given: 0 if it does not use the pool.
void count_threads(void* ctx, std::size_t n, void (*fn)(void*, std::size_t), void* arg) {
  *static_cast<std::size_t*>(ctx) = n;
  for (std::size_t i = 0; i < n; ++i) fn(arg, i);
}

TEST(Sources, AreReadByNoMoreThreadsThanRequestsIfTheyStateTheirParallelism) {
  const std::string bytes(100, 'x');
  Requests requests;
  io::Traits traits;
  traits.parallel = 16;
  const RemoteSource source("", bytes, requests, traits);
  Readers readers;
  readers.push_back(source.open_reader(io::Cache::automatic));
  std::array<std::byte, 100> memory{};
  std::vector<ReadRequest> requested;
  for (std::size_t i = 0; i < memory.size(); ++i) requested.push_back({0, i, 1, &memory[i], i, nullptr});
  std::size_t threads = 0;
  ReadOptions options;
  options.pool = {&threads, count_threads};
  read_all(std::span(requested).first(2), readers, options, {});
  EXPECT_EQ(threads, 2U);
  const format::Slice slice{{}, 50, 0, 0, 1, {{50, 2, 1, false}}};
  const ReadRequest of_slice{0, 0, 99, memory.data(), 0, &slice};
  read_all({&of_slice, 1}, readers, options, {});
  EXPECT_EQ(threads, 16U);
}

// The plan must ask once whether the bytes are cached, and about all requested bytes.
class CachedReader final : public io::SourceReader {
 public:
  CachedReader(const io::Source& source, bool cached) : SourceReader(source), cached_(cached) {}
  bool is_cached(std::uint64_t begin, std::uint64_t end) override {
    EXPECT_EQ(begin, 10U);
    EXPECT_EQ(end, kBytes);
    ++asked;
    return cached_;
  }
  io::ReadPath path_for(std::uint64_t, std::uint64_t) override { return io::ReadPath::buffered; }
  bool read_many(io::ReadPath, std::span<const io::Read>, std::uint64_t) override { return true; }
  void close_idle() override { ++closed; }

  static constexpr std::uint64_t kBytes = std::uint64_t{32} << 20;
  int asked = 0;
  int closed = 0;

 private:
  const bool cached_;
};

TEST(Sources, OfWhichOneIsNotCachedAreReadBySixteenThreads) {
  const std::string bytes;
  Requests requests;
  const RemoteSource source("", bytes, requests, {});
  std::byte place{};  // nothing is written
  for (const bool second_is_cached : {true, false}) {
    Readers readers;
    for (const bool cached : {true, second_is_cached}) {
      readers.push_back(std::make_unique<CachedReader>(source, cached));
    }
    std::vector<ReadRequest> requested;
    for (const std::size_t i : {0U, 1U}) {
      requested.push_back({i, 10, CachedReader::kBytes - 10, &place, 0});
      requested.push_back({i, 20, 10, &place, 1});
    }
    std::size_t threads = 0;
    ReadOptions options;
    options.pool = {&threads, count_threads};
    read_all(requested, readers, options, {});
    EXPECT_EQ(threads, second_is_cached ? std::min(hardware_threads(), 16U) : 16U);
    for (const auto& reader : readers) {
      EXPECT_EQ(static_cast<const CachedReader&>(*reader).asked, 1);
      EXPECT_GT(static_cast<const CachedReader&>(*reader).closed, 0);
    }
  }
}

TEST(Sources, ThatAreSerialAreReadByOneThreadUnlessTheCallerWantsMore) {
  const std::string bytes = sample();
  Requests requests;
  io::Traits traits;
  traits.serial = true;
  const CheckpointPtr file = Checkpoint::open(std::make_unique<RemoteSource>("", bytes, requests, traits), {});
  std::string whole(100'000, '?');
  Plan plan(*file);
  plan.add(*file->tensor("m"), nullptr, nullptr, nullptr, whole.data(), whole.size());
  for (const unsigned wanted : {0U, 3U}) {
    std::size_t threads = 0;
    ReadOptions options;
    options.threads = wanted;
    options.pool = {&threads, count_threads};
    plan.run(options);
    EXPECT_EQ(threads, wanted);
  }
}

// Its second question of a path fails.
class FailingReader final : public io::SourceReader {
 public:
  FailingReader(const io::Source& source, int& asked) : SourceReader(source), asked_(asked) {}
  bool is_cached(std::uint64_t, std::uint64_t) override { return false; }
  io::ReadPath path_for(std::uint64_t, std::uint64_t) override {
    if (++asked_ == 2 && !has_memory) throw std::bad_alloc();
    if (asked_ == 2) throw Error{Status::read, 0, kNowhere, "no path"};
    return asked_ == 1 ? io::ReadPath::buffered : io::ReadPath::cached;
  }
  bool read_many(io::ReadPath, std::span<const io::Read> reads, std::uint64_t) override {
    source().read_many(reads);
    return true;
  }
  static inline bool has_memory = false;

 private:
  int& asked_;
};

// Otherwise each thread would continue to the end.
TEST(Sources, StopTheRunWhenTheyDoNotKnowThePath) {
  struct Source final : io::Source {
    explicit Source(const std::string& text) : io::Source(text.size()), bytes(text) {}
    void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
      std::memcpy(dst, bytes.data() + offset, n);
    }
    std::unique_ptr<io::SourceReader> open_reader(io::Cache) const override {
      return std::make_unique<FailingReader>(*this, asked);
    }
    const std::string& bytes;
    mutable int asked = 0;
  };
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const std::string bytes =
      format::file_front(formatted(R"({{"t":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}})", kBytes)) +
      std::string(kBytes, 'x');
  const CheckpointPtr file = Checkpoint::open(std::make_unique<Source>(bytes), {});
  std::vector<std::byte> memory(kBytes);
  Plan plan(*file);
  plan.add(*file->tensor("t"), nullptr, nullptr, nullptr, memory.data(), kBytes);
  // The first error ends the loop of all threads: at most one batch per thread is in flight.
  ReadOptions options;
  options.threads = 1;
  EXPECT_THROW(plan.run(options), std::bad_alloc);
  EXPECT_LT(plan.done(), plan.total());
  plan.run(options);
  EXPECT_EQ(plan.done(), plan.total());
  const CheckpointPtr again = Checkpoint::open(std::make_unique<Source>(bytes), {});
  Plan other(*again);
  other.add(*again->tensor("t"), nullptr, nullptr, nullptr, memory.data(), kBytes);
  FailingReader::has_memory = true;
  EXPECT_EQ(error_of([&] { other.run(options); }).message, "no path");  // of no tensor
  FailingReader::has_memory = false;
}

TEST(Sources, PathIsAskedAgainAfterAFailure) {
  const std::string bytes(100'000, 'x');
  Requests requests;
  const PlainSource source(bytes, requests);
  int asked = 1;
  int never = 10;
  Readers readers;
  readers.push_back(std::make_unique<FailingReader>(source, never));
  readers.push_back(std::make_unique<FailingReader>(source, asked));
  std::vector<std::byte> memory(2000);
  const std::vector<ReadRequest> requested{{0, 0, 1000, memory.data(), 0, nullptr, nullptr},
                                           {1, 0, 1000, memory.data() + 1000, 1, nullptr, nullptr}};
  ReadScheduler scheduler(requested, readers, {1, 0, 0});
  ReadBatch batch;
  EXPECT_TRUE(scheduler.next(batch));
  EXPECT_THROW(scheduler.next(batch), std::bad_alloc);
  EXPECT_TRUE(scheduler.next(batch));
  EXPECT_EQ(asked, 3) << "the path of the first source was taken for the second";
}

}  // namespace
}  // namespace st::core::sources_test
