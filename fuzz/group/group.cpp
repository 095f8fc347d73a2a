// A process in a group whose other processes may send anything, in any operation.
//
// A run must end without a fault: with an error, or with bytes that are the file's or that a peer has sent.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "../checkpoint.hpp"

namespace {

using fuzz::require;

constexpr char kUnwritten = 0x55;
constexpr char kSent = 0x6E;
constexpr std::size_t kOperations = 300;  // a peer that goes on for ever is not the library's fault

const std::string& file_bytes() {
  static const std::string file = [] {
    std::vector<fuzz::Tensor> tensors;
    for (std::size_t i = 0; i < 6; ++i) {
      tensors.push_back({"t" + std::to_string(i), "U8", {300, 250}, std::string(75000, '\0')});
      for (std::size_t k = 0; k < 75000; ++k) {
        const auto byte = static_cast<char>(k * 31 + k / 256 + i);
        tensors.back().bytes[k] = byte == kUnwritten || byte == kSent ? '\1' : byte;
      }
    }
    return fuzz::file_of(tensors);
  }();
  return file;
}

struct Peers {
  fuzz::Input& in;
  std::uint32_t rank;
  std::uint32_t size;
  std::size_t operations = 0;
  bool lists = false;  // the next messages are lists of what the processes want

  bool fails() { return ++operations > kOperations; }
};

std::uint64_t combined(st_reduce op, std::uint64_t a, std::uint64_t b) {
  return op == ST_REDUCE_SUM ? a + b : op == ST_REDUCE_MIN ? std::min(a, b) : std::max(a, b);
}

// By default, the peers have the values of this process: they want the same bytes.
std::int32_t allreduce(void* ctx, st_reduce op, std::uint64_t* values, std::size_t n) {
  auto& peers = *static_cast<Peers*>(ctx);
  require(n > 0 && op >= ST_REDUCE_SUM && op <= ST_REDUCE_MAX, "an operation has values");
  const std::size_t kind = peers.in.below(16);
  if (peers.fails() || kind == 15) return 7;
  if (op == ST_REDUCE_SUM) {
    for (std::size_t i = 0; i < n; ++i) values[i] *= peers.size;
  }
  for (std::size_t changes = kind < 8 ? 0 : kind - 7; changes > 0; --changes) {
    std::uint64_t& value = values[peers.in.below(n)];
    const std::uint64_t given = peers.in.number();
    value = kind < 14 ? combined(op, value, given) : given;  // the latter is not what the operation is
  }
  return 0;
}

std::int32_t alltoallv(void* ctx, const void* send, const std::int32_t* send_counts, const std::int32_t* send_offsets,
                       void* recv, const std::int32_t* recv_counts, const std::int32_t* recv_offsets) {
  auto& peers = *static_cast<Peers*>(ctx);
  const bool lengths = send_counts == recv_counts;  // of the lists that follow: one array is both
  const bool data = !lengths && !peers.lists;
  peers.lists = lengths;
  std::size_t sum = 0;
  const auto own = static_cast<std::size_t>(send_counts[peers.rank]);
  for (std::uint32_t r = 0; r < peers.size; ++r) {
    require(send_counts[r] >= 0 && send_offsets[r] >= 0 && recv_counts[r] >= 0, "counts are not negative");
    require(static_cast<std::size_t>(recv_offsets[r]) == sum, "received messages follow one another");
    const auto n = static_cast<std::size_t>(recv_counts[r]);
    sum += n;
    const volatile char* const bytes = static_cast<const char*>(send) + send_offsets[r];
    for (std::int32_t i = 0; i < send_counts[r]; i += std::max(1, send_counts[r] - 1)) (void)bytes[i];
    char* const to = static_cast<char*>(recv) + recv_offsets[r];
    std::memset(to, kSent, n);
    if (own > 0 && (!data || r == peers.rank))
      std::memcpy(to, static_cast<const char*>(send) + send_offsets[peers.rank], std::min(n, own));
    if (data || r == peers.rank) continue;
    for (std::size_t changes = peers.in.byte() % 4 == 1 ? 1 + peers.in.below(4) : 0; changes > 0 && n > 0; --changes) {
      const std::uint64_t value = peers.in.number();
      const std::size_t at = peers.in.byte() * std::size_t{4} % n;
      std::memcpy(to + at, &value, std::min<std::size_t>(n - at, 4));
    }
  }
  return peers.fails() ? 7 : 0;
}

struct Destination {
  std::vector<char> bytes;
  std::vector<char> right;
};

void check(fuzz::Input in) {
  st_file* file = nullptr;
  fuzz::Call open;
  const std::string& bytes = file_bytes();
  require(open.check(st_open_memory(bytes.data(), bytes.size(), nullptr, nullptr, nullptr, &file, open)), "it opens");
  st_plan* plan = nullptr;
  require(st_plan_new(file, &plan, nullptr) == ST_OK, "a plan is made");

  Peers peers{in, 0, 2 + static_cast<std::uint32_t>(in.below(3))};
  peers.rank = static_cast<std::uint32_t>(in.below(peers.size));
  std::vector<Destination> destinations;
  destinations.reserve(8);
  for (std::size_t n = in.below(6); n > 0; --n) {
    const st_tensor* const tensor = st_get_tensor_at(file, in.below(6));
    const std::int64_t begin[] = {static_cast<std::int64_t>(in.byte()), static_cast<std::int64_t>(in.byte())};
    const std::int64_t step[] = {1 + static_cast<std::int64_t>(in.below(3)),
                                 1 + static_cast<std::int64_t>(in.below(3))};
    const bool whole = in.flag();
    const std::int64_t* const from = whole ? nullptr : begin;
    const std::int64_t* const by = whole ? nullptr : step;
    std::uint64_t size = 0;
    require(st_tensor_slice(tensor, from, nullptr, by, nullptr, &size, nullptr, nullptr) == ST_OK, "it is a slice");
    Destination& made = destinations.emplace_back();
    made.bytes.assign(static_cast<std::size_t>(size), kUnwritten);
    made.right = made.bytes;
    require(st_tensor_read_slice(tensor, from, nullptr, by, made.right.data(), made.right.size(), nullptr) == ST_OK,
            "it can be read");
    require(st_plan_add(plan, tensor, from, nullptr, by, made.bytes.data(), made.bytes.size(), nullptr) == ST_OK,
            "it can be added");
  }

  st_group group = ST_INIT(st_group);
  group.ctx = &peers;
  group.rank = peers.rank;
  group.size = peers.size;
  group.allreduce = allreduce;
  group.alltoallv = alltoallv;
  st_read_options options = ST_INIT(st_read_options);
  options.threads = in.below(8) == 0 ? 2 : 1;
  options.exchange_bytes = in.number() << in.below(24);
  options.group = &group;
  fuzz::Call run;
  const bool done = run.check(st_plan_run(plan, &options, run));
  if (!done) require(std::strstr(run.error().message, "cancelled after") == nullptr, "this process cancels nothing");
  for (std::size_t i = 0; done && i < destinations.size(); ++i) {
    require(st_plan_is_complete(plan, i) == 1, "a run that succeeds completes each destination");
    for (std::size_t k = 0; k < destinations[i].bytes.size(); ++k) {
      const char byte = destinations[i].bytes[k];
      require(byte == destinations[i].right[k] || byte == kSent, "a byte is the file's or a peer's");
    }
  }
  st_plan_free(plan);
  st_free(file);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check(fuzz::Input(data, size));
  return 0;
}
