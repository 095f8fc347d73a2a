// Compares random plans with a naive copy: tensors and slices of several shards, all options, every way to read.
// The seed is printed, and is the same each time. An argument is another seed: a number, or "random".
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "folder.h"

namespace {

using Bytes = std::vector<unsigned char>;

constexpr int kShards = 3;
constexpr int kCases = 200;
constexpr std::uint64_t kSeed = 1;

struct Model {
  struct Tensor {
    std::string name;
    std::size_t element = 1;  // bytes
    std::vector<std::uint64_t> shape;
    const unsigned char* data = nullptr;
  };
  std::vector<Tensor> tensors[kShards];
  Bytes files[kShards];
};

std::mt19937_64 dice;

std::uint64_t below(std::uint64_t n) { return dice() % n; }

template <class T, std::size_t N>
T any_of(const T (&values)[N]) {
  return values[below(N)];
}

// ---- the files

Model::Tensor random_tensor(std::size_t number) {
  static const std::vector<std::uint64_t> kShapes[] = {
      {},          {0, 5},       {1},          {7},          {300000},     {20000, 16}, {3, 200000}, {64, 8192},
      {9, 11, 13}, {40, 50, 60}, {5, 1, 6, 7}, {2, 3, 4, 5}, {1000, 1, 9}, {12, 30000}, {100, 0, 3}, {4097},
  };
  static const std::size_t kElements[] = {1, 2, 4, 8};
  Model::Tensor tensor;
  tensor.name = "t" + std::to_string(number);
  tensor.element = any_of(kElements);
  tensor.shape = any_of(kShapes);
  return tensor;
}

std::uint64_t bytes_of(const Model::Tensor& tensor) {
  std::uint64_t bytes = tensor.element;
  for (const std::uint64_t dim : tensor.shape) bytes *= dim;
  return bytes;
}

const char* dtype_of(std::size_t element) {
  return element == 1 ? "U8" : element == 2 ? "I16" : element == 4 ? "F32" : "F64";
}

void make_shard(Model& model, int shard) {
  std::string header;
  std::uint64_t at = 0;
  auto& tensors = model.tensors[shard];
  for (std::size_t i = 0; i < 12; ++i) {
    tensors.push_back(random_tensor(static_cast<std::size_t>(shard) * 100 + i));
    std::string shape;
    for (const std::uint64_t dim : tensors.back().shape) shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    const std::uint64_t end = at + bytes_of(tensors.back());
    header += (i == 0 ? "{\"" : ",\"") + tensors.back().name + "\":{\"dtype\":\"" + dtype_of(tensors.back().element) +
              "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  header += "}" + std::string(static_cast<std::size_t>(below(9)), ' ');  // data at any alignment
  Bytes& file = model.files[shard];
  file.resize(8 + header.size() + static_cast<std::size_t>(at));
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<unsigned char>(std::uint64_t{header.size()} >> (8 * i));
  std::memcpy(file.data() + 8, header.data(), header.size());
  for (std::size_t i = 8 + header.size(); i < file.size(); ++i) file[i] = static_cast<unsigned char>(dice());
  const unsigned char* data = file.data() + 8 + header.size();
  for (Model::Tensor& tensor : tensors) {
    tensor.data = data;
    data += bytes_of(tensor);
  }
}

std::string path_of(int shard) { return "m-0000" + std::to_string(shard + 1) + "-of-00003.safetensors"; }

void save(const Model& model) {
  std::string index = "{\"metadata\":{},\"weight_map\":{";
  for (int shard = 0; shard < kShards; ++shard) {
    test_save(path_of(shard).c_str(), model.files[shard].data(), model.files[shard].size());
    for (const Model::Tensor& tensor : model.tensors[shard]) {
      index += (index.back() == '{' ? "\"" : ",\"") + tensor.name + "\":\"" + path_of(shard) + "\"";
    }
  }
  index += "}}";
  test_save("m.safetensors.index.json", index.data(), index.size());
}

// The next reads come from the disk, if the system can evict the file.
void evict() {
  for (int shard = 0; shard < kShards; ++shard) test_evict(path_of(shard).c_str());
}

// ---- the naive way: one element after another

struct Slice {
  std::vector<std::int64_t> begin, end, step;
};

std::int64_t clamp_position(std::int64_t value, std::int64_t length, bool backwards) {
  if (value < 0) value = value < -length ? -1 : value + length;
  if (value < 0) return backwards ? -1 : 0;
  return std::min(value, backwards ? length - 1 : length);
}

void copy_naively(const Model::Tensor& tensor, const Slice& slice, std::size_t dim, std::uint64_t element, Bytes& out) {
  if (dim == tensor.shape.size()) {
    const unsigned char* const from = tensor.data + element * tensor.element;
    out.insert(out.end(), from, from + tensor.element);
    return;
  }
  const auto length = static_cast<std::int64_t>(tensor.shape[dim]);
  const std::int64_t step = slice.step[dim];
  const std::int64_t first = clamp_position(slice.begin[dim], length, step < 0);
  const std::int64_t last = clamp_position(slice.end[dim], length, step < 0);
  for (std::int64_t at = first; step > 0 ? at < last : at > last; at += step) {
    copy_naively(tensor, slice, dim + 1, element * tensor.shape[dim] + static_cast<std::uint64_t>(at), out);
  }
}

std::int64_t random_position(std::uint64_t length) {
  const auto bound = static_cast<std::int64_t>(length) + 3;
  return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(2 * bound + 1))) - bound;
}

Slice random_slice(const Model::Tensor& tensor) {
  static const std::int64_t kSteps[] = {1, 1, 1, 2, 3, 7, 1000, -1, -2, -5};
  Slice slice;
  for (const std::uint64_t length : tensor.shape) {
    const std::int64_t step = any_of(kSteps);
    const bool open = below(3) == 0;
    const std::int64_t low = -static_cast<std::int64_t>(length) - 1;
    slice.step.push_back(step);
    slice.begin.push_back(!open ? random_position(length) : step > 0 ? 0 : static_cast<std::int64_t>(length));
    slice.end.push_back(!open ? random_position(length) : step > 0 ? static_cast<std::int64_t>(length) : low);
    if (!open && below(2) == 0) {  // ascending, so the slice is not empty
      const bool turn =
          (slice.begin.back() >= 0) == (slice.end.back() >= 0) && (step > 0) != (slice.begin.back() < slice.end.back());
      if (turn) std::swap(slice.begin.back(), slice.end.back());
    }
  }
  return slice;
}

// ---- the ways to open

std::int32_t read_at(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
  std::memcpy(dst, static_cast<const Bytes*>(ctx)->data() + offset, n);
  return 0;
}

enum Way { kIndex, kIndexUnmapped, kIndexCopied, kMemory, kCallbacks, kInsideDescriptor, kWays };
const char* const kWayNames[] = {"index", "index, unmapped", "index, copied", "memory", "callbacks", "descriptor"};

st_file* open_model(Model& model, Way way, int shard, st_error* err) {
  st_file* file = nullptr;
  st_open_options options = ST_INIT(st_open_options);
  options.io = way == kIndexUnmapped || way == kInsideDescriptor ? ST_IO_READ
               : way == kIndexCopied                             ? ST_IO_COPY
                                                                 : ST_IO_AUTO;
  Bytes& bytes = model.files[shard];
  if (way == kMemory) {
    st_open_memory(bytes.data(), bytes.size(), nullptr, nullptr, &options, &file, err);
  } else if (way == kCallbacks) {
    st_source source = ST_INIT(st_source);
    source.ctx = &bytes;
    source.size = bytes.size();
    source.read_at = read_at;
    st_open_source(&source, &options, &file, err);
  } else if (way == kInsideDescriptor) {
    const std::size_t begin = static_cast<std::size_t>(below(5000));
    std::ofstream("container", std::ios::binary)
        << std::string(begin, 'c') << std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const int fd = open("container", O_RDONLY | O_CLOEXEC);
    st_open_fd(test_handle(fd), begin, bytes.size(), &options, &file, err);
    close(fd);
    std::remove("container");
  } else {
    st_open("m.safetensors.index.json", &options, &file, err);
  }
  return file;
}

void run_in_turn(void*, std::size_t n, void (*fn)(void*, std::size_t), void* arg) {
  while (n-- > 0) fn(arg, n);
}

// A gap of 1 makes one request per run: only where requests are cheap.
st_read_options random_options(bool of_disk) {
  static const std::uint32_t kThreads[] = {0, 1, 1, 2, 3, 8};
  static const std::uint64_t kChunks[] = {0, 0, 4096, 65536, 200000, std::uint64_t{1} << 20};
  static const std::uint64_t kGaps[] = {1, 100, 0, 0, 512, 4096, std::uint64_t{1} << 20, UINT64_MAX};
  st_read_options options = ST_INIT(st_read_options);
  options.threads = any_of(kThreads);
  options.cache = static_cast<st_cache>(below(3));
  options.chunk_bytes = any_of(kChunks);
  options.gap_bytes = of_disk ? kGaps[2 + below(6)] : any_of(kGaps);
  if (below(4) == 0) options.parallel_for = run_in_turn;
  return options;
}

// ---- one case

constexpr std::size_t kGuard = 32;
constexpr std::size_t kPage = 4096;

struct Destination {
  Bytes expected;  // with guards on both sides
  Bytes room;
  std::size_t begin = 0;
};

// Every other one has the same offset in its page as the tensor in its file: direct reads need that.
Destination guarded(const Bytes& expected, std::uint64_t offset) {
  Destination made;
  made.room.resize(expected.size() + 2 * kGuard + kPage);
  std::size_t before = kGuard + static_cast<std::size_t>(below(8));
  if (below(2) == 0) {
    const auto address = reinterpret_cast<std::uintptr_t>(made.room.data());
    before = kGuard + static_cast<std::size_t>((offset - address - kGuard) % kPage);
  }
  made.begin = before;
  made.expected.assign(made.room.size(), 0xEE);
  std::copy(expected.begin(), expected.end(), made.expected.begin() + static_cast<std::ptrdiff_t>(before));
  made.room.assign(made.room.size(), 0xEE);
  return made;
}

// Adds one destination to the plan. Also reads every third one immediately.
bool add(st_plan* plan, const st_file* file, const Model::Tensor& from, std::vector<Destination>& destinations,
         st_error* err) {
  const st_tensor* const tensor = st_get_tensor(file, from.name.c_str());
  if (tensor == nullptr) return false;
  const bool whole = below(3) == 0;
  const Slice slice = random_slice(from);
  Bytes expected;
  if (whole) expected.assign(from.data, from.data + bytes_of(from));
  if (!whole) copy_naively(from, slice, 0, 0, expected);
  destinations.push_back(guarded(expected, st_tensor_offset(tensor)));
  Bytes& room = destinations.back().room;
  unsigned char* const dst = room.data() + destinations.back().begin;
  const std::int64_t* const begin = whole ? nullptr : slice.begin.data();
  const std::int64_t* const end = whole ? nullptr : slice.end.data();
  const std::int64_t* const step = whole ? nullptr : slice.step.data();
  if (below(3) == 0) {
    if (st_tensor_read_slice(tensor, begin, end, step, dst, expected.size(), err) != ST_OK) return false;
    if (room != destinations.back().expected) return false;
    room.assign(room.size(), 0xEE);
  }
  return st_plan_add(plan, tensor, begin, end, step, dst, expected.size(), err) == ST_OK;
}

void one_case(Model& model, int number) {
  const auto way = static_cast<Way>(below(kWays));
  const auto shard = static_cast<int>(below(kShards));
  const bool of_all = way <= kIndexCopied;
  const st_read_options options = random_options(way != kMemory && way != kCallbacks);
  const std::uint64_t count = 1 + below(10);
  char where[240];
  st_error err = ST_INIT(st_error);
  st_plan* plan = nullptr;
  std::vector<Destination> destinations;
  std::snprintf(where, sizeof where, "case %d (%s, cache %d, %u threads, chunk %llu, gap %llu)", number, kWayNames[way],
                static_cast<int>(options.cache), options.threads, static_cast<unsigned long long>(options.chunk_bytes),
                static_cast<unsigned long long>(options.gap_bytes));
  if (below(4) == 0) evict();
  st_file* const file = open_model(model, way, shard, &err);
  CHECK_FOR(where, file != nullptr && st_plan_new(file, &plan, &err) == ST_OK);
  if (plan == nullptr) return;
  st_free(file);
  destinations.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto& tensors = model.tensors[of_all ? below(kShards) : static_cast<std::uint64_t>(shard)];
    CHECK_FOR(where, add(plan, file, tensors[static_cast<std::size_t>(below(tensors.size()))], destinations, &err));
  }
  if (below(3) == 0) evict();
  for (std::uint64_t runs = 1 + below(2); runs > 0; --runs) {
    for (Destination& each : destinations) each.room.assign(each.room.size(), 0xEE);
    CHECK_FOR(where, st_plan_run(plan, &options, &err) == ST_OK);
    for (std::size_t i = 0; i < destinations.size(); ++i) {
      CHECK_FOR(where, destinations[i].room == destinations[i].expected && st_plan_is_complete(plan, i) == 1);
    }
  }
  if (err.status != ST_OK) std::fprintf(stderr, "  %s\n", err.message);
  st_plan_free(plan);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string given = argc > 1 ? argv[1] : std::to_string(kSeed);
  const std::uint64_t seed = given == "random" ? std::random_device{}() : std::strtoull(given.c_str(), nullptr, 10);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  dice.seed(seed);
  test_end_after(300);
  test_enter_folder();
  Model model;
  for (int shard = 0; shard < kShards; ++shard) make_shard(model, shard);
  save(model);
  for (int i = 0; i < kCases; ++i) one_case(model, i);
  test_leave_folder();
  return test_result();
}
