// The C++ header as a user's program uses it: with a file, memory, a descriptor and callbacks.
//
// Like all tests in this directory, it needs only the public headers, and no test framework.
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.hpp>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <ranges>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "system.h"

namespace {

int faults = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  ++faults;
}

// Runs `body`. Returns the status that it throws, or ST_OK.
template <class Body>
st_status status_of(const Body& body, std::string* message = nullptr, std::optional<std::uint64_t>* offset = nullptr) {
  try {
    body();
    return ST_OK;
  } catch (const safetensors::Error& error) {
    if (message) *message = error.what();
    if (offset) *offset = error.offset();
    return error.status();
  }
}

std::string file_bytes(std::string_view header, std::string_view data) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(std::uint64_t{header.size()} >> (8 * i));
  return bytes.append(header).append(data);
}

// Four tensors: 'w' F32 [2,2] = 1 2 3 4, 'b' BF16 [2], 'i' I16 [1] = -2, and one whose name holds a NUL.
std::string sample() {
  const std::string header = R"({"__metadata__":{"format":"pt","who":"test"},)"
                             R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                             R"("i":{"dtype":"I16","shape":[1],"data_offsets":[20,22]},)"
                             R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[16,20]},)"
                             R"("a\u0000z":{"dtype":"U8","shape":[],"data_offsets":[22,23]}})";
  const float w[] = {1, 2, 3, 4};
  const std::uint16_t b[] = {0x3F80, 0x4000};
  const std::int16_t i = -2;
  std::string data(23, '\0');
  std::memcpy(data.data(), w, 16);
  std::memcpy(data.data() + 16, b, 4);
  std::memcpy(data.data() + 20, &i, 2);
  data[22] = 7;
  // Spaces after the header align the data for every type.
  return file_bytes(header + std::string((16 - (8 + header.size()) % 16) % 16, ' '), data);
}

void check_content(const safetensors::SafeOpen& file) {
  using safetensors::Dtype;
  expect(file.size() == 4 && !file.empty(), "four tensors");
  const std::string odd("a\0z", 3);
  expect(file.offset_keys() == std::vector<std::string>{"w", "b", "i", odd}, "offset_keys in the order of the data");
  expect(file.keys() == std::vector<std::string>{odd, "b", "i", "w"}, "keys sorted");
  expect(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"who", "test"}}, "metadata");
  expect(file.contains(odd) && !file.contains("a") && !file.find("a"), "a name is found whole, NUL and all");

  const safetensors::Tensor w = file.get_tensor("w");
  expect(w.name == "w" && w.dtype == Dtype::F32 && w.dtype_name() == "F32", "name and dtype");
  expect(w.rank() == 2 && w.shape[0] == 2 && w.shape.size() == 2, "shape");
  const std::span<const std::uint64_t> shape = w.shape;
  expect(shape.size() == 2 && shape.data() == w.shape.data(), "a view is a span");
  expect(w.elements() == 4 && w.nbytes() == 16 && w.shard() == 0, "sizes");
  expect(w.offset() == 8 + file.header().size(), "offset is absolute");
  expect(file.header().substr(0, 16) == R"({"__metadata__":)", "the raw header");
  expect(w.read<float>() == std::vector<float>{1, 2, 3, 4}, "read<float>");
  expect(w.read().size() == 16, "read() gives the bytes");
  float into[4] = {};
  w.read(into, sizeof into);
  expect(into[3] == 4, "read into the caller's memory");
  expect(status_of([&] { w.read(into, 15); }) == ST_ERR_BUFFER_SIZE, "15 bytes are too few");

  expect(file.get_tensor("b").read<std::uint16_t>() == std::vector<std::uint16_t>{0x3F80, 0x4000}, "BF16 as its bits");
  expect(file.get_tensor("i").read<std::int16_t>() == std::vector<std::int16_t>{-2}, "I16");
  expect(status_of([&] { file.get_tensor(odd).read<char>(); }) == ST_OK, "a char is 8 bits, whether signed or not");
  expect(file.get_tensor(odd).shape.empty() && file.get_tensor(odd).elements() == 1, "a scalar");

  std::string message;
  expect(status_of([&] { w.read<std::int32_t>(); }, &message) == ST_ERR_ARGUMENT, "F32 is no int32_t");
  expect(message.find("'w'") != message.npos && message.find("F32") != message.npos, "and the message names both");
  expect(status_of([&] { w.read<double>(); }) == ST_ERR_ARGUMENT, "F32 is no double");
  expect(status_of([&] { file.get_tensor("b").read<std::int16_t>(); }) == ST_ERR_ARGUMENT, "BF16 is no int16_t");
  expect(status_of([&] { file.get_tensor("nobody"); }, &message) == ST_ERR_NOT_FOUND, "an absent name throws");
  expect(message.find("nobody") != message.npos, "and is named");

  std::size_t seen = 0;
  for (const safetensors::Tensor& tensor : file) seen += tensor.name.size();
  expect(seen == 6, "range-for sees every tensor");
  expect(file.get_tensors().at("w").nbytes() == 16, "get_tensors");
}

void check_views(const safetensors::SafeOpen& file) {
  const auto w = file.get_tensor("w");
  expect(w.data() != nullptr, "a mapped tensor has its bytes in view");
  const safetensors::View<float> values = w.view<float>();
  expect(values.size() == 4 && values[2] == 3 && static_cast<const void*>(values.data()) == w.data(), "view<float>");
  w.advise(ST_ADVICE_WILL_NEED);
}

void check_file(const std::string& path) {
  check_content(safetensors::SafeOpen(path));
  check_views(safetensors::SafeOpen(path));
  expect(safetensors::SafeOpen(path).shard_path(0) == path, "shard_path of a single file");
  safetensors::SafeOpen(path).check_unchanged();
  expect(safetensors::SafeOpen(path).count_shards() == 1, "one file is one shard");

  auto options = ST_INIT(st_open_options);
  options.io = ST_IO_READ;
  const safetensors::SafeOpen unmapped(path, options);
  check_content(unmapped);
  expect(unmapped.get_tensor("w").data() == nullptr, "no view without a mapping");
  expect(status_of([&] { unmapped.get_tensor("w").view<float>(); }) == ST_ERR_STATE, "and view() says so");

  const auto tensor = safetensors::SafeOpen(path).get_tensor("w");
  expect(tensor.read<float>()[0] == 1, "a tensor keeps its file open");
  auto copied = safetensors::SafeOpen(path).get_tensor("b");
  copied = tensor;
  expect(copied.name == "w" && copied.shape[1] == 2 && copied.dtype == tensor.dtype, "a copy has its members, too");
  const auto all = safetensors::load_file(path);
  expect(all.size() == 4 && all.at("w").read<float>()[1] == 2, "so do those of load_file");

  safetensors::SafeOpen copy(path);
  const safetensors::SafeOpen other = copy;
  copy = safetensors::SafeOpen(path);
  safetensors::SafeOpen moved = std::move(copy);
  check_content(other);
  check_content(moved);
}

void check_memory() {
  const auto bytes = std::make_shared<std::string>(sample());
  {
    const auto file = safetensors::SafeOpen::from_memory(bytes->data(), bytes->size(), bytes);
    check_content(file);
    expect(bytes.use_count() == 2, "the owner is held while the file is open");
  }
  expect(bytes.use_count() == 1, "and released once it is closed");
  expect(status_of([&] { safetensors::SafeOpen::from_memory(bytes->data(), 7, bytes); }) == ST_ERR_TRUNCATED,
         "7 bytes");
  expect(bytes.use_count() == 1, "the owner is released when opening fails");

  // One byte later, nothing is aligned.
  const std::string shifted = " " + *bytes;
  const auto file = safetensors::SafeOpen::from_memory(shifted.data() + 1, bytes->size());
  const auto* base = reinterpret_cast<const char*>(file.get_tensor("w").data());
  const bool aligned = reinterpret_cast<std::uintptr_t>(base) % alignof(float) == 0;
  expect(aligned || status_of([&] { file.get_tensor("w").view<float>(); }) == ST_ERR_STATE,
         "no view of unaligned floats");
}

void check_descriptor(const std::string& path) {
  const std::string inside = path + ".archive";
  std::ofstream(inside, std::ios::binary) << "lead" << sample() << "tail";
  const int fd = ::open(inside.c_str(), O_RDONLY | O_CLOEXEC);
  const int whole = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  check_content(safetensors::SafeOpen::from_fd(test_handle(whole)));
  ::close(whole);  // while it is open, Windows does not replace the file
  const auto file = safetensors::SafeOpen::from_fd(test_handle(fd), 4, sample().size());
  ::close(fd);
  expect(file.get_tensor("w").read<float>()[3] == 4, "a file inside a file, after the descriptor is closed");
}

void check_source() {
  struct Bytes {
    std::string text = sample();
    int closed = 0;
  } bytes;
  auto source = ST_INIT(st_source);
  source.ctx = &bytes;
  source.size = bytes.text.size();
  source.read_at = [](void* ctx, std::uint64_t offset, void* to, std::size_t n) -> std::int32_t {
    std::memcpy(to, static_cast<Bytes*>(ctx)->text.data() + offset, n);
    return 0;
  };
  source.close = [](void* ctx) { ++static_cast<Bytes*>(ctx)->closed; };
  check_content(safetensors::SafeOpen::from_source(source));
  expect(bytes.closed == 1, "a source is closed once");

  // The same source, which a store opens by name.
  struct Store {
    st_source source;
    int closed = 0;
  } given{source};
  auto store = ST_INIT(st_store);
  store.ctx = &given;
  store.open = [](void* ctx, const char* name, st_source* out, st_error*) -> st_status {
    if (std::string_view(name) != "m.safetensors") return ST_ERR_NOT_FOUND;
    *out = static_cast<Store*>(ctx)->source;
    return ST_OK;
  };
  store.close = [](void* ctx) { ++static_cast<Store*>(ctx)->closed; };
  check_content(safetensors::SafeOpen::from_store(store, "m.safetensors"));
  expect(bytes.closed == 2 && given.closed == 1, "a store is closed once");
  for (const std::string& name : {std::string("absent"), std::string("m.safetensors\0x", 15)}) {
    try {
      safetensors::SafeOpen::from_store(store, name);
      expect(false, "a name that the store lacks");
    } catch (const safetensors::Error&) {}
  }
  expect(given.closed == 3, "a store is closed even if opening fails");

  st_file* file = nullptr;
  expect(st_open_source(&source, nullptr, &file, nullptr) == ST_OK, "a source is opened from C");
  check_content(safetensors::SafeOpen::from_c_handle(file));
  expect(bytes.closed == 3, "a file from C is freed");
}

void check_errors(const std::string& path) {
  std::string message;
  std::optional<std::uint64_t> offset;
  expect(status_of([&] { safetensors::SafeOpen(path + ".absent"); }, &message, &offset) == ST_ERR_OPEN, "no such file");
  expect(message.find(".absent") != message.npos && !offset, "and its path is named, without a place in it");

  const std::string odd = path + std::string("\0.evil", 6);
  expect(status_of([&] { safetensors::SafeOpen file(odd); }, &message) == ST_ERR_ARGUMENT, "a path with a NUL");
  expect(status_of([&] { safetensors::save_file(safetensors::SafeOpen(path), odd); }) == ST_ERR_ARGUMENT, "to save to");
  expect(status_of([&] { safetensors::edit_metadata(odd, {{"k", "v"}}); }) == ST_ERR_ARGUMENT, "to edit");

  const std::string hole = file_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xx");
  const auto open_hole = [&] { safetensors::SafeOpen::from_memory(hole.data(), hole.size()); };
  expect(status_of(open_hole, &message, &offset) == ST_ERR_OFFSETS, "a hole before the first tensor");
  expect(message.find('a') != message.npos && offset.has_value(), "the message names the tensor and has a place");
  const safetensors::Error error(ST_ERR_OFFSETS, "m", 5, 0);
  expect(std::string_view(error.status_name()) == "ST_ERR_OFFSETS" && error.offset() == 5, "Error's own getters");
}

void check_dtypes() {
  using safetensors::Dtype;
  expect(safetensors::name(Dtype::F8_E4M3) == "F8_E4M3" && safetensors::bits(Dtype::F4) == 4, "dtype name and bits");
  expect(safetensors::dtype_from_name("BF16") == Dtype::BF16, "dtype from its name");
  expect(safetensors::dtype_from_name("bf16") == Dtype::UNKNOWN, "names are compared byte for byte");
  expect(safetensors::dtype_of<float>() == Dtype::F32 && safetensors::dtype_of<double>() == Dtype::F64,
         "dtype_of floats");
  expect(safetensors::dtype_of<std::int8_t>() == Dtype::I8 && safetensors::dtype_of<std::uint64_t>() == Dtype::U64 &&
             safetensors::dtype_of<bool>() == Dtype::BOOL,
         "dtype_of integers");
  std::ostringstream out;
  out << Dtype::BF16 << ' ' << Dtype::UNKNOWN;
  expect(out.str() == "BF16 UNKNOWN", "a dtype is streamed as its name");
  expect(!safetensors::version().empty(), "version");
}

using safetensors::Range;

// 'm' I32 [3,4], which counts from 0, and 'f' F4 [4].
std::string matrix() {
  std::array<std::int32_t, 12> numbers{};
  std::iota(numbers.begin(), numbers.end(), 0);
  std::string data(50, '\x21');
  std::memcpy(data.data(), numbers.data(), sizeof numbers);
  return file_bytes(R"({"m":{"dtype":"I32","shape":[3,4],"data_offsets":[0,48]},)"
                    R"("f":{"dtype":"F4","shape":[4],"data_offsets":[48,50]}} )",
                    data);
}

void check_slices(const std::string& path) {
  struct Case {
    const char* python;
    std::vector<Range> ranges;
    std::vector<std::uint64_t> shape;
    std::vector<std::int32_t> values;
  };
  const Case cases[] = {
      {"[...]", {}, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {"[1:2]", {{1, 2}}, {1, 4}, {4, 5, 6, 7}},
      {"[-1:]", {{-1}}, {1, 4}, {8, 9, 10, 11}},
      {"[:, :1]", {{}, {{}, 1}}, {3, 1}, {0, 4, 8}},
      {"[:2, ::-2]", {{{}, 2}, {{}, {}, -2}}, {2, 2}, {3, 1, 7, 5}},
      {"[::-1, 1:-1]", {{{}, {}, -1}, {1, -1}}, {3, 2}, {9, 10, 5, 6, 1, 2}},
      {"[0::2, 9:]", {{0, {}, 2}, {9}}, {2, 0}, {}},
  };
  const safetensors::SafeOpen file(path);
  for (const Case& c : cases) {
    const safetensors::Slice slice = file.get_slice("m", c.ranges);
    expect(slice.shape == c.shape && slice.nbytes() == 4 * c.values.size(), c.python);
    expect(slice.read<std::int32_t>() == c.values, c.python);
    expect(slice.read().size() == slice.nbytes(), "the bytes of a slice");
  }
  const auto whole = file.get_slice("m");
  expect(whole.name == "m" && whole.dtype == safetensors::Dtype::I32, "a slice has the name and dtype of its tensor");
  expect(whole.data() == file.get_tensor("m").data(), "a contiguous slice is in view");
  const auto rows = file.get_slice("m", {{1}}).view<std::int32_t>();
  expect(rows.size() == 8 && rows[0] == 4, "as values");
  const auto columns = file.get_slice("m", {{}, {0, 1}});
  expect(columns.data() == nullptr, "a column is not");
  expect(status_of([&] { columns.view<std::int32_t>(); }) == ST_ERR_STATE, "and view() says so");

  std::string message;
  expect(status_of(
             [&] {
               file.get_slice("m", {{}, {}, {}});
             },
             &message) == ST_ERR_ARGUMENT,
         "3 ranges for 2 dimensions");
  expect(message == "tensor 'm': 3 ranges for 2 dimensions", "are told");
  expect(status_of([&] { file.get_slice("m", {{0, 1, 0}}); }) == ST_ERR_ARGUMENT, "a step of 0");
  expect(status_of([&] { file.get_slice("f", {{1}}); }) == ST_ERR_MISALIGNED, "half a byte");
  expect(status_of([&] { whole.read<float>(); }) == ST_ERR_ARGUMENT, "I32 is no float");
  std::int32_t one = 0;
  expect(status_of([&] { whole.read(&one, sizeof one); }) == ST_ERR_BUFFER_SIZE, "4 bytes are too few");
  expect(status_of([&] { file.get_slice("nobody"); }) == ST_ERR_NOT_FOUND, "a slice of nothing");

  const auto kept = safetensors::SafeOpen(path).get_slice("m", {{2}, {3}});
  expect(kept.read<std::int32_t>() == std::vector<std::int32_t>{11} && kept.name == "m", "a slice keeps its file open");
}

static_assert(!std::is_copy_constructible_v<safetensors::Plan> &&
              std::is_nothrow_move_constructible_v<safetensors::Plan>);
static_assert(!std::is_copy_constructible_v<safetensors::Writer> &&
              std::is_nothrow_move_assignable_v<safetensors::Writer>);
static_assert(!std::is_copy_constructible_v<safetensors::Buffer> &&
              std::is_nothrow_move_assignable_v<safetensors::Buffer>);

void check_buffer() {
  safetensors::Buffer buffer(100);
  expect(buffer.size() == 100 && buffer.data()[99] == std::byte{0}, "a buffer is zeroed");
  expect(reinterpret_cast<std::uintptr_t>(buffer.data()) % (1U << 21U) == 0, "and aligned");
  buffer.data()[5] = std::byte{7};
  safetensors::Buffer moved = std::move(buffer);
  expect(moved.data()[5] == std::byte{7} && moved.size() == 100, "it is moved");
  buffer = safetensors::Buffer(10, ST_BUFFER_LAZY, 1);
  buffer = std::move(moved);
  expect(buffer.data()[5] == std::byte{7} && buffer.size() == 100, "and assigned");
  expect(safetensors::Buffer().data() == nullptr && safetensors::Buffer().size() == 0, "there may be none");
  expect(status_of([] { safetensors::Buffer huge(UINT64_MAX / 2); }) == ST_ERR_NO_MEMORY, "too much memory");
}

// The compiler rejects a vector that is destroyed before finish() reads it.
template <class Values>
constexpr bool kCanBeAdded = requires(safetensors::Writer& writer) {
  writer.add("x", std::declval<Values>());
};
static_assert(kCanBeAdded<std::vector<float>&> && kCanBeAdded<safetensors::TensorView> &&
              kCanBeAdded<std::span<const float>> && !kCanBeAdded<std::vector<float>>);

// The same with a shape: writer.add("x", {values, {2, 2}}).
template <class Values>
constexpr bool kCanBeAddedInAShape = requires(safetensors::Writer& writer) {
  writer.add("x", {std::declval<Values>(), {2, 2}});
};
template <class Values>
constexpr bool kHasView = std::is_constructible_v<safetensors::TensorView, Values>&&
    std::is_constructible_v<safetensors::TensorView, Values, std::vector<std::uint64_t>>;
static_assert(kCanBeAddedInAShape<std::vector<float>&> && kCanBeAddedInAShape<const std::vector<float>&> &&
              kCanBeAddedInAShape<std::span<float>> && kCanBeAddedInAShape<safetensors::View<float>>);
static_assert(!kCanBeAddedInAShape<std::vector<float>> && !kCanBeAddedInAShape<const std::vector<float>> &&
              !kCanBeAddedInAShape<std::array<float, 4>>);
static_assert(!kCanBeAdded<std::array<float, 4>> && kCanBeAdded<std::array<float, 4>&>);
static_assert(!kHasView<std::vector<float>> && !kHasView<std::array<float, 4>> && kHasView<std::vector<float>&> &&
              kHasView<const std::array<float, 4>&> && kHasView<std::span<const float>> &&
              kHasView<safetensors::View<double>>);

#ifdef __cpp_lib_ranges
static_assert(std::ranges::input_range<safetensors::SafeOpen>);
#endif

void check_plan(const std::string& path) {
  const safetensors::SafeOpen file(path);
  safetensors::Plan plan(file);
  std::vector<std::int32_t> all(12);
  std::vector<std::int32_t> column(3);
  expect(plan.add(file.get_tensor("m"), all.data(), 48) == 0, "the first destination");
  expect(status_of([&] { plan.add(file.get_tensor("m"), all.data(), 47); }) == ST_ERR_BUFFER_SIZE, "47 bytes");
  expect(plan.add(file.get_slice("m", {{}, {-1}}), column.data(), 12) == 1 && plan.size() == 2, "the second");
  expect(!plan.is_complete(0) && plan.progress().done == 0 && plan.progress().total == 60, "before the run");

  expect(file.begin()->name == "m", "an iterator's arrow");
  expect(status_of([&] { plan.run([](auto, auto) { return false; }); }) == ST_ERR_CANCELLED, "progress cancels");
  bool rethrown = false;
  try {
    plan.run([](auto, auto) -> bool { throw std::out_of_range("progress"); });
  } catch (const std::out_of_range& error) {
    rethrown = std::string_view(error.what()) == "progress";
  }
  expect(rethrown, "what progress throws, run throws");
  plan.cancel();
  expect(status_of([&] { plan.run(); }) == ST_ERR_CANCELLED, "cancel before the run");

  std::uint64_t told = 0;
  safetensors::Plan moved = std::move(plan);
  moved.run([&](std::uint64_t done, std::uint64_t total) {
    told = done;
    return done <= total;
  });
  expect(told == 60 && moved.progress().done == 60 && moved.is_complete(0) && moved.is_complete(1), "after the run");
  expect(all[11] == 11 && column == std::vector<std::int32_t>{3, 7, 11}, "everything is read");

  struct Pool {
    std::size_t calls = 0;
  } pool;
  auto options = ST_INIT(st_read_options);
  options.threads = 4;
  options.ctx = &pool;
  options.parallel_for = [](void* ctx, std::size_t n, void (*body)(void*, std::size_t), void* argument) {
    ++static_cast<Pool*>(ctx)->calls;
    for (std::size_t i = 0; i < n; ++i) body(argument, i);
  };
  column.assign(3, 0);
  moved.run(options);
  const std::size_t without = pool.calls;
  moved.run([](auto, auto) { return true; }, options);
  expect(pool.calls == 2 * without && column[0] == 3, "a pool of the host's keeps its ctx beside progress");
  moved.run(nullptr);
}

void check_writer(const std::string& folder) {
  using safetensors::Dtype;
  const std::string path = folder + "/written.safetensors";
  const std::string other = folder + "/other.safetensors";
  const std::vector<float> values{1, 2, 3, 4};
  const auto lent = std::make_unique<safetensors::SafeOpen>(folder + "/sample.safetensors");
  safetensors::Writer writer;
  writer.copy_metadata(*lent);
  writer.set_metadata("who", "writer");
  writer.set_metadata("", "empty key");
  writer.set_metadata(std::string_view(), "no key at all is an empty one");
  expect(writer.add("data", Dtype::F32, {2, 2}, values.data()) == 0, "with data");
  const std::size_t put = writer.add("put", Dtype::I32, std::vector<std::uint64_t>{2});
  writer.add_tensor(safetensors::SafeOpen(folder + "/sample.safetensors").get_tensor("b"));
  writer.add_tensor(lent->get_tensor("i"), "renamed");
  writer.add("view", {values, {4}});
  const std::vector<double> none;
  writer.add("none", none);

  std::string message;
  expect(status_of([&] { writer.add("data", Dtype::F32, {1}); }) == ST_ERR_DUPLICATE, "a name given twice");
  expect(status_of(
             [&] {
               writer.add("short", {values, {2, 3}});
             },
             &message) == ST_ERR_BUFFER_SIZE,
         "16 bytes for [2,3]");
  expect(message.find("'short'") != message.npos && message.find("16 bytes") != message.npos, "are told");
  expect(status_of([&] { writer.add("long", {values, {3}}); }) == ST_ERR_BUFFER_SIZE, "16 bytes for [3]");
  expect(status_of([&] {
           writer.add("half", {Dtype::F4, {3}, values.data(), 2});
         }) == ST_ERR_MISALIGNED,
         "half a byte");
  expect(status_of([&] {
           writer.add("huge", {Dtype::U8, {UINT64_MAX, 2}, values.data(), 2});
         }) == ST_ERR_OVERFLOW,
         "more bytes than can be counted");

  safetensors::Writer moved = std::move(writer);
  moved.begin(path);
  const std::int32_t numbers[] = {5, -6};
  std::thread([&] { moved.put(put, 4, &numbers[1], 4); }).join();
  expect(status_of([&] { moved.finish(); }, &message) == ST_ERR_STATE, "bytes are missing");
  expect(message.find("'put'") != message.npos, "of a tensor that is named");
  expect(status_of([&] { moved.put(put, 8, numbers, 4); }) == ST_ERR_RANGE, "a put behind the end");
  moved.put(put, 0, &numbers[0], 4);
  moved.finish();

  const safetensors::SafeOpen file(path);
  expect(file.metadata() ==
             safetensors::Metadata{{"", "no key at all is an empty one"}, {"format", "pt"}, {"who", "writer"}},
         "metadata is written");
  expect(file.get_tensor("data").read<float>() == values && file.get_tensor("view").read<float>() == values, "data");
  expect(file.get_tensor("put").read<std::int32_t>() == std::vector<std::int32_t>{5, -6}, "what was put");
  expect(file.get_tensor("b").read<std::uint16_t>()[1] == 0x4000, "a tensor of a file that only the writer kept open");
  expect(file.get_tensor("renamed").read<std::int16_t>()[0] == -2, "a tensor under another name");
  expect(file.get_tensor("none").shape[0] == 0, "an empty tensor");
  expect(file.shard_size() == std::filesystem::file_size(path) && file.format() == ST_FORMAT_SAFETENSORS, "the file");
  expect(file.warnings().empty() && file.has_metadata(), "nothing is odd");
  unsigned char own[8];
  file.read_shard(0, 0, own, 8);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::uint64_t{own[i]} << (8 * i);
  expect(length == file.header().size(), "its own bytes");
  expect(status_of([&] { file.read_shard(0, file.shard_size(), own, 8); }) == ST_ERR_RANGE, "none behind its end");

  {
    safetensors::Writer abandoned;
    abandoned.add("a", Dtype::U8, {1});
    abandoned.begin(other);
  }
  expect(!std::filesystem::exists(other), "a writer that does not finish leaves nothing");
  safetensors::Writer map;
  map.set_metadata(safetensors::Metadata());
  auto options = ST_INIT(st_write_options);
  options.flags = ST_WRITE_NO_REPLACE;
  expect(status_of([&] { map.begin(path, options); }) == ST_ERR_OPEN, "an existing path, not to be replaced");
  map.begin(other);
  map.finish();
  expect(safetensors::SafeOpen(other).has_metadata() && safetensors::SafeOpen(other).metadata().empty(),
         "an empty map");
}

void check_save_file(const std::string& folder) {
  const std::string path = folder + "/saved.safetensors";
  const std::vector<float> weight{1, 2, 3, 4, 5, 6};
  const std::array<std::uint8_t, 2> bytes{8, 9};
  safetensors::save_file({{"weight", {weight, {2, 3}}}, {"bytes", bytes}}, path, {{"format", "pt"}});
  const safetensors::SafeOpen file(path);
  expect(file.get_tensor("weight").shape[1] == 3 && file.get_tensor("weight").read<float>() == weight, "saved values");
  expect(file.get_tensor("bytes").read<std::uint8_t>()[1] == 9 && file.metadata().size() == 1, "and all the rest");

  safetensors::save_file(safetensors::load_file(path), path, {{"again", "yes"}, {"format", "np"}});
  const safetensors::SafeOpen again(path);
  expect(again.get_tensor("weight").read<float>() == weight && again.metadata().at("again") == "yes", "over itself");
  safetensors::save_file(again, path);
  expect(safetensors::SafeOpen(path).size() == 2 && !safetensors::SafeOpen(path).has_metadata(), "a file as it is");
  const std::vector<std::pair<std::string, safetensors::TensorView>> list{{"w", weight}};
  safetensors::save_file(list, path);
  expect(safetensors::SafeOpen(path).keys() == std::vector<std::string>{"w"}, "a list of pairs");
  expect(status_of([&] { safetensors::save_file(list, folder + "/absent/m.safetensors"); }) == ST_ERR_OPEN, "nowhere");
}

void check_write_progress(const std::string& folder) {
  const std::string path = folder + "/progress.safetensors";
  const std::vector<std::uint8_t> large(20U << 20U, 7);
  std::uint64_t last = 0;
  std::uint64_t of = 0;
  const auto note = [&](std::uint64_t done, std::uint64_t total) {
    last = done;
    of = total;
    return true;
  };
  safetensors::save_file({{"a", large}}, path, {}, ST_INIT(st_write_options), note);
  expect(last == of && of == std::filesystem::file_size(path), "each byte that save_file writes is told");
  expect(status_of([&] {
           safetensors::save_file({{"a", large}}, path, {{"k", "v"}}, ST_INIT(st_write_options),
                                  [](auto, auto) { return false; });
         }) == ST_ERR_CANCELLED,
         "false cancels");
  const auto fail = [](std::uint64_t, std::uint64_t) -> bool { throw std::out_of_range("no more"); };
  int thrown = 0;
  const auto throws = [&](auto&& body) {
    try {
      body();
    } catch (const std::out_of_range& error) {
      thrown += std::string_view(error.what()) == "no more" ? 1 : 0;
    }
  };
  {
    safetensors::Writer putting;
    const std::size_t index = putting.add("a", safetensors::Dtype::U8, {large.size()});
    putting.begin(path, fail);
    safetensors::Writer moved = std::move(putting);
    throws([&] { moved.put(index, 0, large.data(), large.size()); });
    throws([&] { moved.finish(); });
    expect(thrown == 2, "what progress throws ends put() and finish()");
  }
  throws([&] { safetensors::save_file({{"a", large}}, path, {{"k", "v"}}, ST_INIT(st_write_options), fail); });
  expect(thrown == 3, "and save_file()");
  expect(!safetensors::SafeOpen(path).has_metadata(), "nothing has replaced the file");
  const std::vector<std::uint8_t> none;
  throws([&] { safetensors::save_file({{"a", none}}, path, {{"k", "v"}}, ST_INIT(st_write_options), fail); });
  expect(thrown == 4 && safetensors::SafeOpen(path).has_metadata(), "the last report comes behind the file");
  safetensors::Writer silent;
  silent.begin(path, safetensors::Progress());
  silent.finish();
}

void check_edits(const std::string& path) {
  safetensors::edit_metadata(path, {{"who", std::nullopt}, {"title", "A"}, {"absent", std::nullopt}});
  expect(safetensors::SafeOpen(path).metadata() == safetensors::Metadata{{"format", "pt"}, {"title", "A"}}, "edited");
  const std::string odd("a\0b", 3);
  expect(status_of([&] { safetensors::edit_metadata(path, {{odd, "v"}}); }) == ST_ERR_ARGUMENT, "a key with a NUL");
  expect(status_of([&] { safetensors::edit_metadata(path, {{"k", odd}}); }) == ST_ERR_ARGUMENT, "a value with a NUL");
  expect(safetensors::SafeOpen(path).metadata().size() == 2, "change nothing");
}

void check_write_tensor(const std::string& path) {
  const safetensors::SafeOpen file(path);
  const safetensors::Tensor tensor = *file.begin();
  const std::string bytes(static_cast<std::size_t>(tensor.nbytes()), 'n');
  safetensors::write_tensor(path, tensor.name, bytes.data(), bytes.size());
  std::string got(bytes.size(), ' ');
  tensor.read(got.data(), got.size());
  expect(got == bytes, "a tensor has its new bytes");
  st_write_options synced = ST_INIT(st_write_options);
  synced.flags = ST_WRITE_SYNC;
  const auto write = [&](std::string_view name, std::size_t size) {
    return status_of([&] { safetensors::write_tensor(path, name, bytes.data(), size, synced); });
  };
  expect(write(tensor.name, bytes.size() - 1) == ST_ERR_BUFFER_SIZE, "too few bytes");
  expect(write("nobody", bytes.size()) == ST_ERR_NOT_FOUND, "no tensor to write to");
  expect(write(tensor.name, bytes.size()) == ST_OK, "synced");
}

}  // namespace

int main() {
  const auto folder = std::filesystem::temp_directory_path() / ("cpp_api_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = (folder / "sample.safetensors").string();
  std::ofstream(path, std::ios::binary) << sample();
  try {
    check_file(path);
    check_memory();
    check_descriptor(path);
    check_source();
    check_errors(path);
    check_dtypes();
    const std::string numbers = (folder / "matrix.safetensors").string();
    std::ofstream(numbers, std::ios::binary) << matrix();
    check_slices(numbers);
    check_buffer();
    check_plan(numbers);
    check_writer(folder.string());
    check_save_file(folder.string());
    check_write_progress(folder.string());
    check_edits(path);
    check_write_tensor(path);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "thrown: %s\n", error.what());
    ++faults;
  }
  std::filesystem::remove_all(folder);
  return faults == 0 ? 0 : 1;
}
