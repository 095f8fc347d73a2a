// The writer: files read back unchanged, rejected calls have no effect, and every byte is counted.
// SPDX-License-Identifier: Apache-2.0
#include "core/writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "../io/faults.hpp"
#include "../io/system.hpp"
#include "base/text.hpp"
#include "core/checkpoint.hpp"
#include "core/small_writes.hpp"
#include "io/source.hpp"

namespace st::core::writer_test {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

class WriterTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const char* name = "x.safetensors") const { return folder / name; }
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  // An unfinished file has no name if the system supports O_TMPFILE.
  static std::size_t in_the_making() { return io::has_linux_io() ? 0 : 1; }

  // In memory if possible: ten thousand renames take a minute on a disk.
  const fs::path folder =
      fs::path(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : testing::TempDir()) / formatted("writer{}", getpid());
};

Error error_of(auto&& body) {
  try {
    body();
    return {Status::ok, 0, 0, ""};
  } catch (const Error& error) {
    return error;
  }
}

#define EXPECT_FAILS(expected_status, expected_message, ...) \
  do {                                                       \
    const Error error = error_of([&] { __VA_ARGS__; });      \
    EXPECT_EQ(error.status, expected_status);                \
    EXPECT_EQ(error.message, expected_message);              \
  } while (false)

// ---- random tables -------------------------------------------------------------------------------------------------

struct RandomTensor {
  std::string name;
  Dtype dtype{};
  std::vector<std::uint64_t> shape;
  std::string data;
};

struct RandomTable {
  std::vector<RandomTensor> tensors;
  std::map<std::string, std::string> metadata;
  bool has_metadata = false;
};

class RandomTables {
 public:
  RandomTable next() {
    RandomTable table;
    std::map<std::string, int> names;
    for (std::size_t n = pick(12); n > 0; --n) names[text()];
    names.erase("__metadata__");
    for (const auto& [name, unused] : names) table.tensors.push_back(tensor(name));
    std::shuffle(table.tensors.begin(), table.tensors.end(), random_);
    table.has_metadata = pick(3) != 0;
    if (table.has_metadata) {
      for (std::size_t n = pick(4); n > 0; --n) table.metadata[text()] = text();
    }
    return table;
  }

  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }

 private:
  std::string text() {
    static const std::array<std::string, 20> kPieces{"model",
                                                     ".",
                                                     "weight",
                                                     "0",
                                                     "1",
                                                     "10",
                                                     "\"",
                                                     "\\",
                                                     "\n",
                                                     "\t",
                                                     "\x01",
                                                     "",
                                                     " ",
                                                     "/",
                                                     "\x7f",
                                                     "\xC3\xA9",
                                                     "\xF0\x9F\x98\x80",
                                                     "A",
                                                     "a",
                                                     std::string(1, '\0')};
    std::string made;
    for (std::size_t n = pick(7); n > 0; --n) made += kPieces[pick(kPieces.size())];
    return made;
  }

  RandomTensor tensor(const std::string& name) {
    RandomTensor made{name, static_cast<Dtype>(1 + pick(kDtypes.size() - 1)), {}, {}};
    std::uint64_t elements = 1;
    for (std::size_t rank = pick(5); rank > 0; --rank) {
      made.shape.push_back(pick(6));
      elements *= made.shape.back();
    }
    if (elements * info(made.dtype).bits % 8 != 0) {
      made.shape.push_back(4);
      elements *= 4;
    }
    made.data.resize(static_cast<std::size_t>(elements * info(made.dtype).bits / 8));
    for (char& byte : made.data) byte = static_cast<char>(pick(256));
    return made;
  }

  std::mt19937_64 random_{20240911};
};

WriteOptions random_options(RandomTables& random) {
  WriteOptions options;
  options.keep_order = random.pick(4) == 0;
  options.data_alignment = std::uint64_t{8} << random.pick(4) * random.pick(4);
  options.header_reserve = random.pick(3) == 0 ? random.pick(200) : 0;
  return options;
}

void write(const RandomTable& table, const std::string& path, const WriteOptions& options, RandomTables& random) {
  Writer writer;
  if (table.has_metadata) writer.keep_empty_metadata();
  for (const auto& [key, value] : table.metadata) writer.set_metadata(key, value);
  std::vector<std::pair<std::size_t, const RandomTensor*>> later;
  for (const RandomTensor& tensor : table.tensors) {
    const bool now = random.pick(2) == 0;
    const std::size_t number = writer.add(tensor.name, tensor.dtype, tensor.shape, now ? tensor.data.data() : nullptr);
    if (!now) later.emplace_back(number, &tensor);
  }
  writer.begin(path.c_str(), options);
  for (const auto& [number, tensor] : later) {
    const std::size_t middle = random.pick(tensor->data.size() + 1);
    writer.put(number, middle, tensor->data.data() + middle, tensor->data.size() - middle);
    writer.put(number, 0, tensor->data.data(), middle);
  }
  writer.finish();
}

void expect_same(const Checkpoint& file, const RandomTable& table) {
  ASSERT_EQ(file.count_tensors(), table.tensors.size());
  ASSERT_EQ(file.has_metadata(), table.has_metadata);
  ASSERT_EQ(file.metadata().size(), table.metadata.size());
  for (const MetadataPair& pair : file.metadata()) ASSERT_EQ(table.metadata.at(std::string(pair.key)), pair.value);
  for (const RandomTensor& expected : table.tensors) {
    const Tensor* const tensor = file.tensor(expected.name);
    ASSERT_NE(tensor, nullptr);
    ASSERT_EQ(tensor->dtype(), expected.dtype);
    ASSERT_TRUE(
        std::equal(tensor->shape().begin(), tensor->shape().end(), expected.shape.begin(), expected.shape.end()));
    ASSERT_EQ(tensor->bytes(), expected.data.size());
    std::string data(expected.data.size(), '\0');
    read(*tensor, data.data());
    ASSERT_EQ(data, expected.data);
  }
}

// Copies the file just read: the same names, metadata, order and bytes.
void write_again(const Checkpoint& file, const std::string& path, const WriteOptions& options) {
  Writer writer;
  if (file.has_metadata()) writer.keep_empty_metadata();
  for (const MetadataPair& pair : file.metadata()) writer.set_metadata(pair.key, pair.value);
  for (std::size_t i = 0; i < file.count_tensors(); ++i) writer.add(file.tensor_at(i)->name(), *file.tensor_at(i));
  writer.begin(path.c_str(), options);
  writer.finish();
}

TEST_F(WriterTest, random_tables_come_back_and_are_written_again_identically) {
  RandomTables random;
  for (int i = 0; i < 10'000; ++i) {
    const RandomTable table = random.next();
    WriteOptions options = random_options(random);
    write(table, path(), options, random);
    OpenOptions open;
    open.header.rules = format::Rules::strict;
    open.io = i % 2 == 0 ? io::Mode::map : io::Mode::read;
    const CheckpointPtr file = Checkpoint::open(path().c_str(), open);
    ASSERT_NO_FATAL_FAILURE(expect_same(*file, table)) << i;
    // Empty tensors take no space in the data, so readers order them by name.
    const bool ordered =
        options.keep_order && std::any_of(table.tensors.begin(), table.tensors.end(),
                                          [](const RandomTensor& tensor) { return tensor.data.empty(); });
    if (ordered) continue;
    write_again(*file, path("y.safetensors"), options);
    ASSERT_TRUE(contents(path()) == contents(path("y.safetensors"))) << i;
  }
}

// ---- rejected calls ------------------------------------------------------------------------------------------------

TEST_F(WriterTest, refuses_before_the_target_is_touched) {
  const std::array<std::uint64_t, 1> four{4};
  Writer writer;
  writer.add("a", Dtype::F32, four, nullptr);
  for (int i = 0; i < 100; ++i) writer.add(formatted("t{}", i), Dtype::U8, four, nullptr);  // more than it has room for
  EXPECT_FAILS(Status::duplicate, "tensor 'a' occurs twice", writer.add("a", Dtype::U8, four, nullptr));
  EXPECT_FAILS(Status::utf8, "a tensor's name is not UTF-8: byte 0xff at 1 of its 2 bytes",
               writer.add("b\xFF", Dtype::U8, four, nullptr));
  const MetadataPair pairs[] = {{"a", "b"}, {"c", "\xFF"}};
  EXPECT_FAILS(Status::utf8, "the value of metadata key 'c' is not UTF-8: byte 0xff at 0 of its 1 bytes",
               writer.copy_metadata(pairs));
  EXPECT_FAILS(Status::utf8, "a metadata key is not UTF-8: byte 0xff at 0 of its 1 bytes",
               writer.set_metadata("\xFF", ""));
  EXPECT_FAILS(Status::state, "put was called before begin", writer.put(0, 0, "", 0));
  EXPECT_FAILS(Status::state, "finish was called before begin", writer.finish());
  writer.add("__metadata__", Dtype::U8, four, nullptr);
  EXPECT_FAILS(Status::argument, "a tensor cannot be named '__metadata__'", writer.begin(path().c_str(), {}));
  EXPECT_EQ(count(), 0U);
}

TEST_F(WriterTest, lays_tensors_out_by_dtype_and_then_by_name) {
  const std::array<std::uint64_t, 1> one{1};
  const std::uint64_t zero = 0;
  Writer writer;
  for (const char* const name : {"d", "b"}) writer.add(name, Dtype::U8, one, &zero);
  for (const char* const name : {"c", "a"}) writer.add(name, Dtype::F32, one, &zero);
  writer.add("e", Dtype::U64, one, &zero);
  writer.begin(path().c_str(), {});
  writer.finish();
  const std::string file = contents(path());
  std::map<std::size_t, std::string> by_place;
  for (const char* const name : {"a", "b", "c", "d", "e"}) by_place[file.find(formatted("\"{}\":", name))] = name;
  std::string order;
  for (const auto& [place, name] : by_place) order += name;
  EXPECT_EQ(order, "eacbd");
}

TEST_F(WriterTest, of_a_metadata_key_the_last_value_counts) {
  Writer writer;
  for (const char* const key : {"b", "a", "", "b"}) {
    writer.set_metadata(key, "first");
    writer.set_metadata(key, "");
    writer.set_metadata(key, std::string("last of ") + key);
  }
  writer.begin(path().c_str(), {});
  writer.finish();
  const CheckpointPtr file = Checkpoint::open(path().c_str(), {});
  ASSERT_EQ(file->metadata().size(), 3U);
  std::string read;
  for (const MetadataPair& pair : file->metadata()) read += formatted("{}={};", pair.key, pair.value);
  EXPECT_EQ(read, "=last of ;a=last of a;b=last of b;");
}

// Each call in each state. A call in the wrong state is rejected with its name, and changes nothing.
TEST_F(WriterTest, every_call_has_its_turn) {
  const std::array<std::uint64_t, 1> one{1};
  struct Call {
    const char* name;
    bool declares;
    void (*make)(Writer& writer, const char* path);
  };
  const Call calls[] = {
      {"set_metadata", true, [](Writer& writer, const char*) { writer.set_metadata("k", "v"); }},
      {"set_metadata", true, [](Writer& writer, const char*) { writer.keep_empty_metadata(); }},
      {"copy_metadata", true, [](Writer& writer, const char*) { writer.copy_metadata({}); }},
      {"add", true, [](Writer& writer, const char*) { writer.add("late", Dtype::U8, {}, "x"); }},
      {"begin", true, [](Writer& writer, const char* path) { writer.begin(path, {}); }},
      {"put", false, [](Writer& writer, const char*) { writer.put(0, 0, "x", 1); }},
      {"put", false, [](Writer& writer, const char*) { writer.put(0, 0, nullptr, 0); }},
      {"finish", false, [](Writer& writer, const char*) { writer.finish(); }},
  };
  for (const char* const state : {"before begin", "after begin", "after finish"}) {
    for (const Call& call : calls) {
      SCOPED_TRACE(formatted("{} {}", call.name, state));
      Writer writer;
      writer.add("a", Dtype::U8, one, nullptr);
      const std::string when = state;
      if (when != "before begin") writer.begin(path().c_str(), {});
      if (when == "after finish") {
        writer.put(0, 0, "a", 1);
        writer.finish();
      }
      const bool its_turn = call.declares ? when == "before begin" : when == "after begin";
      if (its_turn) continue;
      EXPECT_FAILS(Status::state, formatted("{} was called {}", call.name, state),
                   call.make(writer, path("y").c_str()));
      if (when == "before begin") writer.begin(path().c_str(), {});
      if (when != "after finish") {
        writer.put(0, 0, "a", 1);
        writer.finish();
      }
      const CheckpointPtr file = Checkpoint::open(path().c_str(), {});
      EXPECT_EQ(file->count_tensors(), 1U);
      EXPECT_FALSE(file->has_metadata());
      EXPECT_EQ(count(), 1U);
    }
  }
}

TEST_F(WriterTest, refuses_more_bytes_than_a_file_can_hold) {
  const std::array<std::uint64_t, 1> huge{std::uint64_t{1} << 60};
  Writer writer;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) writer.add(name, Dtype::U8, huge, nullptr);
  const Error error = error_of([&] { writer.begin(path().c_str(), {}); });
  EXPECT_EQ(error.status, Status::overflow);
  EXPECT_EQ(count(), 0U);
  for (const std::uint64_t over : {0U, 1U}) {
    const std::array<std::uint64_t, 1> last{huge[0] - 1 - 2 * format::kMaxHeaderBytes + over};
    Writer streaming;  // takes no space in advance
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) streaming.add(name, Dtype::U8, huge, nullptr);
    streaming.add("h", Dtype::U8, last, nullptr);
    EXPECT_EQ(error_of([&] { streaming.begin("/dev/null", {}); }).status, over == 0 ? Status::ok : Status::overflow);
  }
}

// It fails before any byte is copied.
TEST_F(WriterTest, a_copy_over_the_limit_of_size_fails_at_once) {
  const std::string data(1000, 'x');
  const std::array<std::uint64_t, 1> shape{data.size()};
  Writer first;
  first.add("a", Dtype::U8, shape, data.data());
  first.begin(path("y").c_str(), {});
  first.finish();
  const CheckpointPtr file = Checkpoint::open(path("y").c_str(), {});
  Writer writer;
  writer.add("a", *file->tensor("a"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit shorter{500, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &shorter), 0);
  const Error error = error_of([&] { writer.begin(path().c_str(), {}); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(error.os_error, EFBIG) << error.message;
}

TEST_F(WriterTest, refuses_a_header_over_the_limit) {
  const std::string name(50'000'000, 'n');
  Writer writer;
  writer.add(formatted("{}1", name), Dtype::U8, {}, nullptr);
  writer.add(formatted("{}2", name), Dtype::U8, {}, nullptr);
  const Error error = error_of([&] { writer.begin(path().c_str(), {}); });
  EXPECT_EQ(error.status, Status::header_size);
  EXPECT_EQ(count(), 0U);
}

TEST_F(WriterTest, can_begin_elsewhere_after_a_path_that_cannot_be_opened) {
  Writer writer;
  writer.add("a", Dtype::U8, {}, "x");
  EXPECT_EQ(error_of([&] { writer.begin(path("missing/x").c_str(), {}); }).os_error, ENOENT);
  writer.begin(path().c_str(), {});
  writer.finish();
  EXPECT_EQ(Checkpoint::open(path().c_str(), {})->count_tensors(), 1U);
}

// ---- every byte once -----------------------------------------------------------------------------------------------

// A stream is written in order: given and copied tensors at their positions, puts in between.
TEST_F(WriterTest, a_stream_is_the_file_that_would_have_been_written) {
  const std::uint64_t shape[] = {100};
  const std::string text(100, 't');
  const auto write_to = [&](const std::string& target, const CheckpointPtr& other) {
    Writer writer;
    writer.add("a given", Dtype::U8, shape, text.data());
    const std::size_t first = writer.add("b put", Dtype::U8, shape, nullptr);
    writer.add("c given", Dtype::U8, shape, text.data());
    if (other) writer.add("d copied", *other->tensor("a given"));
    const std::size_t second = writer.add("e put", Dtype::U8, shape, nullptr);
    writer.add("f given", Dtype::U8, shape, text.data());
    writer.begin(target.c_str(), {});
    for (const std::size_t number : {first, second}) {
      writer.put(number, 0, text.data(), 60);
      writer.put(number, 60, text.data(), 40);
    }
    writer.finish();
  };
  write_to(path("other"), nullptr);
  const CheckpointPtr other = Checkpoint::open(path("other").c_str(), {});
  write_to(path("file"), other);
  std::ofstream(path("stream")).flush();
  const int stream = ::open(path("stream").c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(error_of([&] { write_to(formatted("/dev/fd/{}", stream), other); }).message, "");
  ::close(stream);
  EXPECT_EQ(contents(path("stream")), contents(path("file")));
  EXPECT_FALSE(contents(path("file")).empty());
}

TEST_F(WriterTest, says_which_bytes_are_missing) {
  const std::array<std::uint64_t, 1> ten{10};
  Writer writer;
  const std::size_t a = writer.add("a", Dtype::U8, ten, nullptr);
  const std::size_t b = writer.add("b", Dtype::U8, ten, nullptr);
  writer.begin(path().c_str(), {});
  EXPECT_FAILS(Status::state, "tensor 'a': 10 of its 10 bytes were never put; other incomplete tensors: 1",
               writer.finish());
  writer.put(a, 2, "23", 2);
  writer.put(a, 6, "6789", 4);
  writer.put(b, 0, "abcdefghij", 10);
  EXPECT_FAILS(Status::state, "tensor 'a': 4 of its 10 bytes were never put", writer.finish());
  EXPECT_EQ(count(), in_the_making());
  writer.put(a, 4, "45", 2);
  writer.put(a, 0, "01", 2);
  writer.finish();
  std::string data(10, ' ');
  read(*Checkpoint::open(path().c_str(), {})->tensor("a"), data.data());
  EXPECT_EQ(data, "0123456789");
}

// The position of a part must not count as its length: for some of these parts, begin plus end is the tensor's length.
TEST_F(WriterTest, a_part_of_any_length_is_not_the_whole) {
  const std::array<std::uint64_t, 1> thousand{1000};
  const std::string data(1000, 'x');
  for (std::size_t n = 8; n < 1000; n += 16) {
    Writer writer;
    writer.add("a", Dtype::U8, thousand, nullptr);
    writer.begin(path().c_str(), {});
    writer.put(0, 0, data.data(), n);
    EXPECT_EQ(error_of([&] { writer.finish(); }).status, Status::state) << n;
  }
}

TEST_F(WriterTest, a_byte_put_twice_ends_it) {
  const std::array<std::uint64_t, 1> ten{10};
  Writer writer;
  const std::size_t a = writer.add("a", Dtype::U8, ten, nullptr);
  writer.begin(path().c_str(), {});
  writer.put(a, 0, "01234", 5);
  const std::string message = "tensor 'a': bytes 4..5 were put twice";
  EXPECT_FAILS(Status::state, message, writer.put(a, 4, "45", 2));
  EXPECT_FAILS(Status::state, message, writer.put(a, 5, "56789", 5));
  EXPECT_FAILS(Status::state, message, writer.finish());
  EXPECT_EQ(count(), in_the_making());
}

TEST_F(WriterTest, refuses_ranges_outside_the_tensor) {
  const std::array<std::uint64_t, 1> ten{10};
  Writer writer;
  const std::size_t a = writer.add("a", Dtype::U8, ten, nullptr);
  writer.begin(path().c_str(), {});
  EXPECT_FAILS(Status::range, "tensor 'a': 2 bytes at 9 exceed its 10 bytes", writer.put(a, 9, "ab", 2));
  EXPECT_EQ(error_of([&] { writer.put(a, UINT64_MAX, "ab", 2); }).status, Status::range);
  EXPECT_EQ(error_of([&] { writer.put(a, 1, "ab", SIZE_MAX); }).status, Status::range);
  EXPECT_FAILS(Status::range, "no tensor has index 1; the writer has 1 tensors", writer.put(1, 0, "ab", 2));
  writer.put(a, 0, "0123456789", 10);
  writer.finish();
  EXPECT_FAILS(Status::state, "finish was called after finish", writer.finish());
}

TEST_F(WriterTest, many_threads_put_at_once) {
  constexpr std::size_t kThreads = 16;
  constexpr std::size_t kTensors = 64;
  constexpr std::size_t kBytes = 10'007;
  constexpr std::size_t kPiece = 501;
  const std::array<std::uint64_t, 1> shape{kBytes};
  std::vector<std::string> data(kTensors);
  Writer writer;
  for (std::size_t i = 0; i < kTensors; ++i) {
    for (std::size_t j = 0; j < kBytes; ++j) data[i] += static_cast<char>((i * 7 + j * 13) & 0xFF);
    writer.add(formatted("t{}", i), Dtype::U8, shape, nullptr);
  }
  writer.begin(path().c_str(), {});
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t piece = thread; piece * kPiece < kTensors * kBytes; piece += kThreads) {
        std::size_t at = piece * kPiece;
        const std::size_t end = std::min(at + kPiece, kTensors * kBytes);
        while (at < end) {
          const std::size_t tensor = at / kBytes;
          const std::size_t inside = at % kBytes;
          const std::size_t n = std::min(end - at, kBytes - inside);
          writer.put(tensor, inside, data[tensor].data() + inside, n);
          at += n;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer.finish();
  const CheckpointPtr file = Checkpoint::open(path().c_str(), {});
  for (std::size_t i = 0; i < kTensors; ++i) {
    std::string got(kBytes, ' ');
    read(*file->tensor(formatted("t{}", i)), got.data());
    EXPECT_TRUE(got == data[i]) << i;
  }
}

TEST_F(WriterTest, the_first_failure_reaches_every_thread) {
  constexpr std::size_t kThreads = 8;
  const std::array<std::uint64_t, 1> shape{kThreads};
  Writer writer;
  const std::size_t a = writer.add("a", Dtype::U8, shape, nullptr);
  const Error first = error_of([&] { writer.begin("/dev/full", {}); });
  EXPECT_EQ(first.os_error, ENOSPC);
  std::array<Error, kThreads> errors;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { errors[i] = error_of([&] { writer.put(a, i, "x", 1); }); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Error& error : errors) EXPECT_EQ(error.message, first.message);
}

// ---- small pieces --------------------------------------------------------------------------------------------------

std::size_t writes() {
  const std::vector<std::string>& calls = faults::calls();
  return static_cast<std::size_t>(std::count(calls.begin(), calls.end(), "pwrite"));
}

std::string random_bytes(std::size_t n, std::mt19937_64& random) {
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

struct Piece {
  std::size_t tensor = 0;
  std::size_t at = 0;
  std::size_t n = 0;
};

// Pieces of any size up to `most`, in random order.
std::vector<Piece> random_pieces(const std::vector<std::string>& data, std::size_t most, std::mt19937_64& random) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (std::size_t at = 0; at < data[i].size(); at += pieces.back().n)
      pieces.push_back({i, at, std::min(1 + static_cast<std::size_t>(random() % most), data[i].size() - at)});
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

// By pointer if `given`.
void add_all(Writer& writer, const std::vector<std::string>& data, bool given) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::array<std::uint64_t, 1> shape{data[i].size()};
    writer.add(formatted("t{}", i * 7919 % 99'991), Dtype::U8, shape, given ? data[i].data() : nullptr);
  }
}

TEST_F(WriterTest, small_tensors_in_no_order_are_few_writes) {
  std::mt19937_64 random(1);
  std::vector<std::string> data(20'000);
  for (std::string& bytes : data) bytes = random_bytes(random() % 128, random);
  std::vector<std::size_t> order(data.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  Writer given;
  add_all(given, data, true);
  given.begin(path().c_str(), {});
  given.finish();
  Writer writer;
  add_all(writer, data, false);
  faults::arm({});
  writer.begin(path("y").c_str(), {});
  for (const std::size_t i : order) writer.put(i, 0, data[i].data(), data[i].size());
  writer.finish();
  faults::disarm();
  EXPECT_LE(writes(), 4U);  // the header, and 1.3 MB
  EXPECT_TRUE(contents(path()) == contents(path("y")));
}

// More than the buffer holds, and pieces that are too large for it.
TEST_F(WriterTest, random_pieces_from_many_threads_are_the_file_that_is_written_whole) {
  constexpr std::size_t kThreads = 8;
  std::mt19937_64 random(2);
  std::vector<std::string> data(60);
  for (std::string& bytes : data) bytes = random_bytes(random() % (1 << 20), random);
  Writer given;
  add_all(given, data, true);
  given.begin(path().c_str(), {});
  given.finish();
  for (const std::size_t most : {std::size_t{20'000}, std::size_t{2'000}}) {
    const std::vector<Piece> pieces = random_pieces(data, most, random);
    Writer writer;
    add_all(writer, data, false);
    writer.begin(path("y").c_str(), {});
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t i = thread; i < pieces.size(); i += kThreads) {
          const auto& [tensor, at, n] = pieces[i];
          writer.put(tensor, at, data[tensor].data() + at, n);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    writer.finish();
    EXPECT_TRUE(contents(path()) == contents(path("y"))) << most;
  }
}

TEST_F(WriterTest, a_small_piece_that_cannot_be_written_fails_a_later_put_or_finish) {
  std::mt19937_64 random(3);
  for (const std::size_t bytes : {std::size_t{10}, std::size_t{20} << 20}) {
    const std::vector<std::string> data{random_bytes(bytes, random)};
    std::vector<Piece> pieces = random_pieces(data, 8000, random);
    Writer writer;
    add_all(writer, data, false);
    writer.begin(path().c_str(), {});
    faults::Plan plan;
    plan.at = 0;
    plan.action = faults::Action::fail;
    plan.error = ENOSPC;
    faults::arm(plan);
    std::size_t done = 0;
    const Error first = error_of([&] {
      for (; done < pieces.size(); ++done)
        writer.put(0, pieces[done].at, data[0].data() + pieces[done].at, pieces[done].n);
      writer.finish();
    });
    faults::disarm();
    EXPECT_EQ(first.status, Status::write);
    EXPECT_EQ(first.os_error, ENOSPC);
    EXPECT_NE(first.message.find(path()), std::string::npos) << first.message;
    EXPECT_EQ(done == pieces.size(), bytes == 10);
    EXPECT_EQ(error_of([&] { writer.finish(); }).message, first.message);
    EXPECT_EQ(count(), in_the_making());
  }
}

TEST_F(WriterTest, bytes_put_twice_are_known_before_they_are_written) {
  const std::array<std::uint64_t, 1> ten{10};
  struct Case {
    std::array<Piece, 2> pieces;
    const char* message;
  };
  const Case cases[] = {
      {{{{0, 0, 10}, {0, 0, 10}}}, "tensor 'a': bytes 0..10 were put twice"},
      {{{{0, 0, 10}, {0, 3, 2}}}, "tensor 'a': bytes 3..5 were put twice"},
      {{{{0, 3, 2}, {0, 0, 10}}}, "tensor 'a': bytes 3..5 were put twice"},
      {{{{0, 3, 2}, {0, 4, 2}}}, "tensor 'a': bytes 4..5 were put twice"},
  };
  for (const Case& one : cases) {
    const std::array<Piece, 2>& pieces = one.pieces;
    Writer writer;
    writer.add("a", Dtype::U8, ten, nullptr);
    writer.begin(path().c_str(), {});
    writer.put(0, pieces[0].at, "0123456789", pieces[0].n);
    EXPECT_FAILS(Status::state, one.message, writer.put(0, pieces[1].at, "0123456789", pieces[1].n));
    EXPECT_FAILS(Status::state, one.message, writer.finish());
  }
}

// ---- copying through -----------------------------------------------------------------------------------------------

TEST_F(WriterTest, saving_over_the_file_that_is_open_is_safe) {
  const std::array<std::uint64_t, 1> shape{100'000};
  const std::string data(100'000, 'd');
  {
    Writer writer;
    writer.add("a", Dtype::U8, shape, data.data());
    writer.begin(path().c_str(), {});
    writer.finish();
  }
  for (const io::Mode mode : {io::Mode::map, io::Mode::read}) {
    OpenOptions options;
    options.io = mode;
    const CheckpointPtr file = Checkpoint::open(path().c_str(), options);
    Writer writer;
    writer.add("renamed", *file->tensor_at(0));
    writer.begin(path().c_str(), {});
    writer.finish();
    std::string got(data.size(), ' ');
    read(*file->tensor_at(0), got.data());
    EXPECT_TRUE(got == data);
    const CheckpointPtr now = Checkpoint::open(path().c_str(), {});
    read(*now->tensor("renamed"), got.data());
    EXPECT_TRUE(got == data);
  }
}

// The first save replaces the open file, whose bytes then exist only in its mapping.
TEST_F(WriterTest, saves_again_and_again_from_one_open_file) {
  const std::array<std::uint64_t, 1> shape{100'000};
  const std::string data(100'000, 'd');
  {
    Writer writer;
    writer.add("a", Dtype::U8, shape, data.data());
    writer.begin(path().c_str(), {});
    writer.finish();
  }
  for (const io::Mode mode : {io::Mode::automatic, io::Mode::map, io::Mode::copy_on_write, io::Mode::read}) {
    OpenOptions options;
    options.io = mode;
    const CheckpointPtr file = Checkpoint::open(path().c_str(), options);
    for (int round = 0; round < 4; ++round) {
      if (round == 3) fs::remove(path());
      Writer writer;
      writer.add("a", *file->tensor("a"));
      writer.begin(path().c_str(), {});
      EXPECT_FAILS(Status::ok, "", writer.finish());
    }
    std::string got(data.size(), ' ');
    const CheckpointPtr now = Checkpoint::open(path().c_str(), {});
    read(*now->tensor("a"), got.data());
    EXPECT_TRUE(got == data);
  }
}

// A program that reads a file and writes it anew does not undo the changes of other processes.
TEST_F(WriterTest, only_an_unchanged_file_is_replaced_if_asked) {
  const std::array<std::uint64_t, 1> shape{1000};
  const std::string old_data(1000, 'o');
  const std::string other = path() + ".other";
  const auto save = [&](const std::string& to) {
    Writer writer;
    writer.add("a", Dtype::U8, shape, old_data.data());
    writer.begin(to.c_str(), {});
    writer.finish();
  };
  enum class Act { none, overwrite, replace, remove };
  for (const bool exists : {true, false}) {
    for (const Act act : {Act::none, Act::overwrite, Act::replace, Act::remove}) {
      if (!exists && (act == Act::overwrite || act == Act::remove)) continue;
      SCOPED_TRACE(formatted("{} {}", exists, static_cast<int>(act)));
      fs::remove(path());
      if (exists) {
        save(path());
        fs::last_write_time(path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
      }
      Writer writer;
      writer.add("b", Dtype::U8, shape, old_data.data());
      WriteOptions options;
      options.create.only_unchanged = true;
      writer.begin(path().c_str(), options);
      if (act == Act::overwrite) {
        std::fstream(path(), std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('n');
      } else if (act == Act::replace) {
        save(other);
        fs::rename(other, path());
      } else if (act == Act::remove) {
        fs::remove(path());
      }
      const std::string before = act == Act::remove || !fs::exists(path()) ? "" : contents(path());
      if (act == Act::none) {
        EXPECT_FAILS(Status::ok, "", writer.finish());
        EXPECT_NE(contents(path()).find("\"b\""), std::string::npos);
        continue;
      }
      const Error error = error_of([&] { writer.finish(); });
      EXPECT_EQ(error.status, Status::state);
      EXPECT_NE(error.message.find("by another process in the meantime"), std::string::npos) << error.message;
      ASSERT_EQ(fs::exists(path()), act != Act::remove);
      EXPECT_EQ(act == Act::remove ? "" : contents(path()), before);
    }
  }
}

// Overwritten as by cp: the length stays, or only the time changes. A file that takes its place is another one.
TEST_F(WriterTest, a_source_that_is_overwritten_in_place_is_not_saved) {
  const std::array<std::uint64_t, 1> shape{100'000};
  const std::string old_data(100'000, 'o');
  const std::string from = path() + ".source";
  const auto save = [&](const std::string& to) {
    Writer writer;
    writer.add("a", Dtype::U8, shape, old_data.data());
    writer.begin(to.c_str(), {});
    writer.finish();
  };
  enum class Act { overwrite, rename_and_overwrite, replace };
  const std::string renamed = path() + ".renamed";
  for (const io::Mode mode : {io::Mode::automatic, io::Mode::map, io::Mode::copy_on_write, io::Mode::read}) {
    for (const Act act : {Act::overwrite, Act::rename_and_overwrite, Act::replace}) {
      SCOPED_TRACE(static_cast<int>(act));
      save(from);
      fs::last_write_time(from, fs::file_time_type::clock::now() - std::chrono::hours(1));
      save(path());
      const std::string before = contents(path());
      OpenOptions options;
      options.io = mode;
      const CheckpointPtr file = Checkpoint::open(from.c_str(), options);
      Writer writer;
      writer.add("b", *file->tensor("a"));
      writer.begin(path().c_str(), {});
      Writer streaming;
      streaming.add("b", *file->tensor("a"));
      streaming.begin("/dev/null", {});
      if (act == Act::rename_and_overwrite) {
        fs::rename(from, renamed);
        save(from);
      }
      if (act != Act::replace) {
        const std::string& overwritten = act == Act::overwrite ? from : renamed;
        std::fstream(overwritten, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('n');
        const std::string overwrite = formatted("tensor 'b': '{}' was overwritten in place after it was opened", from);
        EXPECT_FAILS(Status::read, overwrite, writer.finish());
        EXPECT_EQ(contents(path()), before);
        EXPECT_FAILS(Status::read, overwrite, streaming.finish());
      } else {
        save(from);
        EXPECT_FAILS(Status::ok, "", writer.finish());
        EXPECT_FAILS(Status::ok, "", streaming.finish());
      }
    }
  }
  fs::remove(from);
  fs::remove(renamed);
}

// Otherwise the next finish() would save zeros for the bytes that were not written.
TEST_F(WriterTest, an_exception_of_the_progress_function_ends_the_writer) {
  const std::array<std::uint64_t, 1> shape{1000};
  const std::string data(1000, 'x');
  WriteOptions options;
  options.callback.progress = [](void*, std::uint64_t, std::uint64_t) -> std::int32_t { throw 1; };
  Writer writer;
  writer.add("a", Dtype::U8, shape, nullptr);
  writer.begin(path().c_str(), options);
  EXPECT_THROW(writer.put(0, 0, data.data(), data.size()), int);
  EXPECT_EQ(error_of([&] { writer.finish(); }).status, Status::internal);
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(WriterTest, copies_from_memory_and_from_callbacks) {
  const std::string data = "0123456789";
  const std::array<std::uint64_t, 1> shape{10};
  Writer first;
  first.add("a", Dtype::U8, shape, data.data());
  first.begin(path().c_str(), {});
  first.finish();
  std::string bytes = contents(path());
  const io::Callbacks calls{[](void* ctx, std::uint64_t offset, void* dst, std::size_t n) -> std::int32_t {
                              std::memcpy(dst, static_cast<std::string*>(ctx)->data() + offset, n);
                              return 0;
                            },
                            nullptr, &bytes};
  const CheckpointPtr memory = Checkpoint::open(io::memory_source(bytes.data(), bytes.size(), nullptr, nullptr), {});
  const CheckpointPtr callbacks = Checkpoint::open(io::callback_source(calls, bytes.size()), {});
  Writer writer;
  EXPECT_EQ(writer.add("m", *memory->tensor("a")), 0U);
  EXPECT_EQ(writer.add("c", *callbacks->tensor("a")), 1U);
  faults::arm({});
  writer.begin(path("y").c_str(), {});
  const std::vector<std::string> begun = faults::calls();
  faults::disarm();
  EXPECT_FAILS(Status::state, "tensor 'm': its data was already passed when it was added", writer.put(0, 0, "x", 1));
  EXPECT_EQ(std::count(begun.begin(), begun.end(), "fallocate"), 0) << "takes space for blocks that may be shared";
  writer.finish();
  EXPECT_TRUE(contents(path("y")).ends_with(data + data));
}

// Data is written in pieces that end on a multiple of 8 MiB in the file, with a report after each.
TEST_F(WriterTest, reports_pieces_of_8_mib) {
  constexpr std::uint64_t kPiece = 8 << 20;
  std::mt19937_64 random(4);
  const std::string some = random_bytes(1'000'003, random);
  std::string data;
  while (data.size() < 20 << 20) data += some;
  const std::array<std::uint64_t, 1> shape{data.size()};
  std::ofstream(path("stream")).flush();
  const int stream = ::open(path("stream").c_str(), O_WRONLY | O_CLOEXEC);
  for (const std::string& target : {path(), formatted("/dev/fd/{}", stream)}) {
    std::uint64_t first = 0;  // report
    WriteOptions options;
    options.callback = {&first, [](void* ctx, std::uint64_t done, std::uint64_t) {
                          auto& reported = *static_cast<std::uint64_t*>(ctx);
                          if (reported == 0) reported = done;
                          return std::int32_t{0};
                        }};
    Writer writer;
    writer.add("a", Dtype::U8, shape, nullptr);
    writer.begin(target.c_str(), options);
    faults::Plan plan;
    plan.record_changes = true;
    faults::arm(plan);
    writer.put(0, 0, data.data(), data.size());
    std::vector<faults::Change> changes = faults::changes();
    faults::disarm();
    writer.finish();
    EXPECT_EQ(first, kPiece);
    EXPECT_EQ(changes.size(), target == path() ? 3U : 0U);  // of a stream, none are recorded
    for (std::size_t i = 0; i + 1 < changes.size(); ++i)
      EXPECT_EQ(changes[i].offset + changes[i].bytes.size(), (i + 1) * kPiece);
  }
  ::close(stream);
  EXPECT_TRUE(contents(path()).ends_with(data));
  EXPECT_TRUE(contents(path()) == contents(path("stream")));
}

// ---- what is said ----------------------------------------------------------------------------------------------------

TEST_F(WriterTest, given_tensors_are_not_gathered_without_end) {
  const std::vector<std::string> data(40, std::string(300'000, 'x'));
  Writer writer;
  add_all(writer, data, true);
  writer.begin(path().c_str(), {});
  faults::arm({});
  writer.finish();
  const std::size_t count = writes();
  faults::disarm();
  EXPECT_GE(count, 12U) << "more than a MiB is held at once";
}

TEST_F(WriterTest, a_long_piece_that_cannot_be_written_fails_its_own_put) {
  const std::string text(100'000, 'x');
  const std::array<std::uint64_t, 1> shape{text.size()};
  Writer writer;
  const std::size_t a = writer.add("a", Dtype::U8, shape, nullptr);
  writer.begin(path().c_str(), {});
  faults::Plan plan;
  plan.at = 0;
  plan.action = faults::Action::fail;
  plan.error = ENOSPC;
  faults::arm(plan);
  const Error error = error_of([&] { writer.put(a, 0, text.data(), text.size()); });
  faults::disarm();
  EXPECT_EQ(error.os_error, ENOSPC) << error.message;
}

struct FailingSource {
  std::string bytes;
  Writer* writer = nullptr;  // while another thread puts one of its bytes twice

  static std::int32_t read_at(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
    const auto& self = *static_cast<FailingSource*>(ctx);
    if (self.writer != nullptr) {
      std::thread other([&self] { EXPECT_THROW(self.writer->put(0, 0, "y", 1), Error); });
      other.join();
      return 7;
    }
    std::memcpy(dst, self.bytes.data() + offset, n);
    return 0;
  }
};

TEST_F(WriterTest, of_two_failures_the_first_counts) {
  const std::array<std::uint64_t, 1> shape{1};
  {
    Writer writer;
    writer.add("a", Dtype::U8, shape, "a");
    writer.begin(path().c_str(), {});
    writer.finish();
  }
  FailingSource source{contents(path())};
  const CheckpointPtr file =
      Checkpoint::open(io::callback_source({FailingSource::read_at, nullptr, &source}, source.bytes.size()), {});
  Writer writer;
  const std::size_t put = writer.add("put", Dtype::U8, shape, nullptr);
  writer.add("copied", *file->tensor("a"));
  writer.begin(path().c_str(), {});
  writer.put(put, 0, "x", 1);
  source.writer = &writer;
  EXPECT_EQ(error_of([&] { writer.finish(); }).status, Status::callback);
  EXPECT_FAILS(Status::state, "tensor 'put': bytes 0..1 were put twice", writer.finish());
}

// Each tensor has different bytes, so a mix-up is noticed.
TEST_F(WriterTest, a_fifo_takes_tensors_from_threads_in_their_order) {
  constexpr std::size_t kBytes = 150'000;
  const std::array<std::uint64_t, 1> shape{kBytes};
  const auto text = [](std::size_t i) { return std::string(kBytes, static_cast<char>('a' + i)); };
  {
    Writer other;
    const std::string bytes = text(4);
    other.add("t4", Dtype::U8, shape, bytes.data());
    other.begin(path("other").c_str(), {});
    other.finish();
  }
  const CheckpointPtr other = Checkpoint::open(path("other").c_str(), {});
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = contents(path("fifo")); });
  Writer writer;
  std::vector<std::string> data;
  for (std::size_t i = 0; i < 8; ++i) data.push_back(text(i));
  for (std::size_t i = 0; i < 8; ++i) {
    if (i == 4) writer.add("t4", *other->tensor("t4"));
    if (i != 4) writer.add(formatted("t{}", i), Dtype::U8, shape, i % 2 == 0 ? data[i].data() : nullptr);
  }
  writer.begin(path("fifo").c_str(), {});
  std::atomic<std::size_t> turn{1};
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < 8; i += 2) {
    threads.emplace_back([&, i] {
      while (turn != i) std::this_thread::yield();
      writer.put(i, 0, data[i].data(), kBytes);
      turn = i + 2;
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer.finish();
  reader.join();
  std::ofstream(path("got"), std::ios::binary) << got;
  const CheckpointPtr file = Checkpoint::open(path("got").c_str(), {});
  for (std::size_t i = 0; i < 8; ++i) {
    std::string bytes(kBytes, ' ');
    read(*file->tensor(formatted("t{}", i)), bytes.data());
    EXPECT_TRUE(bytes == data[i]) << i;
  }
}

// Puts a tensor from another thread while the first write to a stream has not returned.
struct SecondPut {
  Writer* writer = nullptr;
  std::size_t number = 0;
  std::string data;
  bool begun = false;
  std::thread thread;
  std::atomic<long> id{0};
  std::atomic<bool> ended{false};
  Error error{};

  static SecondPut* current;
  static void before_write() {
    if (current->begun) return;
    current->begun = true;
    current->thread = std::thread([] { current->put(); });
    while (!current->ended && (current->id == 0 || !current->waits())) std::this_thread::yield();
  }
  void put() {
    id = syscall(SYS_gettid);
    error = error_of([&] { writer->put(number, 0, data.data(), data.size()); });
    ended = true;
  }
  // For the other, since it sleeps.
  bool waits() const {
    const std::string text = contents(formatted("/proc/self/task/{}/stat", id.load()));
    const std::size_t name_end = text.rfind(')');
    return name_end != std::string::npos && text.compare(name_end, 3, ") S") == 0;
  }
};
SecondPut* SecondPut::current = nullptr;

TEST_F(WriterTest, a_put_to_a_stream_waits_for_the_one_before) {
  const std::string first(100'000, 'x');
  const std::array<std::uint64_t, 1> shape{first.size()};
  const int stream = ::open(path("stream").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  Writer writer;
  const std::size_t a = writer.add("a", Dtype::U8, shape, nullptr);
  SecondPut second;
  second.number = writer.add("b", Dtype::U8, shape, nullptr);
  second.writer = &writer;
  second.data.assign(first.size(), 'y');
  writer.begin(formatted("/dev/fd/{}", stream).c_str(), {});
  SecondPut::current = &second;
  faults::Plan plan;
  plan.only_refusals = true;
  plan.before_write = SecondPut::before_write;
  faults::arm(plan);
  const Error error = error_of([&] { writer.put(a, 0, first.data(), first.size()); });
  if (second.thread.joinable()) second.thread.join();
  faults::disarm();
  ASSERT_TRUE(second.begun);
  EXPECT_EQ(error.status, Status::ok) << error.message;
  EXPECT_EQ(second.error.status, Status::ok) << second.error.message;
  writer.finish();
  ::close(stream);
  EXPECT_TRUE(contents(path("stream")).ends_with(first + second.data));
}

// Also for redirected output, which is never renamed.
TEST_F(WriterTest, a_stream_that_cannot_be_synced_or_closed_is_an_error) {
  const std::array<std::uint64_t, 1> shape{1};
  const int stream = ::open(path("stream").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  WriteOptions options;
  options.create.sync = true;
  const auto finish = [&](const faults::Plan& plan) {
    Writer writer;
    writer.add("a", Dtype::U8, shape, "a");
    writer.begin(formatted("/dev/fd/{}", stream).c_str(), options);
    faults::arm(plan);
    const Error error = error_of([&] { writer.finish(); });
    faults::disarm();
    return error;
  };
  EXPECT_EQ(finish({}).status, Status::ok);
  const std::vector<std::string> calls = faults::calls();
  const struct {
    const char* call;
    int error;
    int reported;
  } cases[] = {{"fsync", EIO, EIO}, {"close written", EIO, EIO}, {"close written", EINTR, 0}};
  for (const auto& [call, error, reported] : cases) {
    const auto found = std::find(calls.begin(), calls.end(), call);
    ASSERT_NE(found, calls.end()) << call;
    faults::Plan plan;
    plan.at = static_cast<std::size_t>(found - calls.begin());
    plan.action = faults::Action::fail;
    plan.error = error;
    EXPECT_EQ(finish(plan).os_error, reported) << call << ' ' << error;
  }
  ::close(stream);
}

// An appended file, as in `>>`, would get zeros between its old bytes and the new ones.
TEST_F(WriterTest, no_space_is_taken_for_a_stream_in_advance) {
  const std::array<std::uint64_t, 1> shape{1};
  std::ofstream(path("stream")) << "before";
  const int stream = ::open(path("stream").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  for (const std::string& target : {path("file"), formatted("/dev/fd/{}", stream)}) {
    Writer writer;
    writer.add("a", Dtype::U8, shape, "a");
    writer.begin(target.c_str(), {});
    writer.finish();
  }
  ::close(stream);
  EXPECT_EQ(contents(path("stream")), "before" + contents(path("file")));
}

struct Part {
  std::uint64_t offset;
  std::size_t bytes;
};

// Adds parts, and returns how many writes they took before the flush and after it. The file has the bytes of all parts.
template <class Buffer>
std::pair<std::size_t, std::size_t> writes_of(const std::string& path, Buffer& buffer, io::AtomicFile& file,
                                              const std::vector<Part>& parts) {
  std::string expected;
  faults::arm({});
  for (const auto& [offset, bytes] : parts) {
    const std::string data(bytes, static_cast<char>('a' + offset % 23));
    expected.resize(std::max<std::size_t>(expected.size(), offset + bytes));
    expected.replace(offset, bytes, data);
    buffer.add(offset, data.data(), bytes);
  }
  const std::size_t before = writes();
  buffer.flush();
  const std::size_t all = writes();
  faults::disarm();
  file.commit();
  EXPECT_TRUE(contents(path) == expected);
  return {before, all};
}

TEST_F(WriterTest, adjacent_bytes_are_gathered) {
  constexpr std::size_t kMiB = 1 << 20;
  const struct {
    std::vector<Part> parts;
    std::size_t before, all;
  } cases[] = {{{{0, 10}, {10, 10}}, 0, 1},
               {{{0, 10}, {20, 10}}, 1, 2},
               {{{0, kMiB / 2}, {kMiB / 2, kMiB / 2}}, 0, 1},
               {{{0, kMiB / 2}, {kMiB / 2, kMiB / 2}, {kMiB, 1}}, 1, 2},
               {{{0, kMiB / 2 + 1}, {kMiB / 2 + 1, 10}}, 1, 2},  // more than half of the buffer is not copied to it
               {{{0, 10}, {10, kMiB / 2 + 1}, {kMiB / 2 + 11, 10}}, 0, 1}};
  for (const auto& [parts, before, all] : cases) {
    SCOPED_TRACE(parts.size());
    io::AtomicFile file = io::AtomicFile::create(path().c_str(), {});
    Gathering gathering(file);
    EXPECT_EQ(writes_of(path(), gathering, file, parts), std::pair(before, all));
  }
}

TEST_F(WriterTest, small_puts_are_buffered_until_there_is_no_room) {
  constexpr std::size_t kSmall = 8 << 10;
  constexpr std::size_t kMost = 3 << 16;  // pieces
  const auto row = [](std::size_t count, std::size_t bytes) {
    std::vector<Part> parts(count, {0, bytes});
    for (std::size_t i = 0; i < count; ++i) parts[i].offset = i * bytes;
    return parts;
  };
  const auto backwards = [&row](std::size_t count) {
    std::vector<Part> parts = row(count, 1);
    std::reverse(parts.begin(), parts.end());
    return parts;
  };
  const struct {
    std::uint64_t expected;
    std::vector<Part> parts;
    std::size_t before, all;
  } cases[] = {{2 * kSmall, row(2, kSmall), 0, 1},     {2 * kSmall, row(7, kSmall), 3, 4},
               {UINT64_MAX, row(1, kSmall + 1), 1, 1}, {UINT64_MAX, row(kMost + 1, 1), 0, 1},
               {UINT64_MAX, backwards(kMost), 0, 1},   {UINT64_MAX, backwards(kMost + 1), 1, 2}};
  for (const auto& [expected, parts, before, all] : cases) {
    SCOPED_TRACE(formatted("{} parts of {} bytes", parts.size(), parts[0].bytes));
    io::AtomicFile file = io::AtomicFile::create(path().c_str(), {});
    PutBuffer buffer(file);
    buffer.expect(expected);
    EXPECT_EQ(writes_of(path(), buffer, file, parts), std::pair(before, all));
  }
}

TEST_F(WriterTest, memory_for_small_puts_has_a_limit_whatever_is_expected) {
  io::AtomicFile file = io::AtomicFile::create(path().c_str(), {});
  PutBuffer buffer(file);
  buffer.expect(UINT64_MAX);
  buffer.add(1, "b", 1);
  buffer.add(0, "a", 1);
  buffer.flush();
  file.commit();
  EXPECT_EQ(contents(path()), "ab");
}

}  // namespace
}  // namespace st::core::writer_test
