// Compares the kernels of simdjson that run here, and with the crate also the reference: status or kind of error, offset and
// listing of mutated files, under the reference's rules.
//
//   fuzz_reference CASES SEED FOLDER...
//
// It prints a digest of the library's answers, without their messages. On a processor without the crate, it must be the
// same.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/core.h>
#include <simdjson.h>
#include <xxhash.h>

#include "base/error.hpp"
#include "format/header.hpp"
#include "inputs.hpp"

namespace {

using differential::Random;
using differential::Seed;
using st::Status;

// ---- files ----------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kMostData = std::uint64_t{1} << 45;
constexpr std::size_t kMostHead = std::size_t{1} << 20;  // bytes of a file that are not zero

struct File {
  std::string head;         // the length and the header
  std::uint64_t bytes = 0;  // zeros follow, or the head is cut
};

// A few files are cut, or claim another length than the header has.
File file_of(const Seed& seed, Random& random) {
  constexpr std::uint64_t kClaims[] = {
      0, 1, 2, 7, 8, 100'000'000, 100'000'001, std::uint64_t{1} << 63, UINT64_MAX - 8, UINT64_MAX};
  File file;
  file.head = std::string(8, '\0') + seed.text;
  file.bytes = file.head.size() + std::min(seed.data_bytes, kMostData);
  std::uint64_t length = seed.text.size();
  switch (random.below(64)) {
    case 0: length = kClaims[random.below(std::size(kClaims))]; break;
    case 1: length += random.below(200) - std::min<std::uint64_t>(length, 100); break;
    case 2: file.bytes = random.below(file.head.size()); break;
    case 3: file.bytes += random.below(20); break;
    default: break;
  }
  // Reading 100 MB of zeros would take as long as all other cases. reference.differential does it once.
  if (length >= kMostHead) file.bytes = std::min<std::uint64_t>(file.bytes, kMostHead);
  st::format::store_length(file.head.data(), length);
  return file;
}

// ---- the library ----------------------------------------------------------------------------------------------------

struct Answer {
  Status status = Status::ok;
  std::uint64_t offset = 0;
  std::string text;  // the listing, or the message
};

void append(std::string& out, std::string_view text) { out += fmt::format("{}:{}", text.size(), text); }

// Data order. Tensors with the same range are in the order of their names.
bool is_before(const st::format::Tensor& a, const st::format::Tensor& b) {
  return std::tuple(a.begin, a.end, a.name()) < std::tuple(b.begin, b.end, b.name());
}

// The same text as listing() in reference/src/lib.rs. If the table is out of order or its index is wrong, the text says so.
std::string listing(const st::format::Table& table) {
  std::vector<const st::format::Tensor*> tensors;
  for (const st::format::Tensor& tensor : table.tensors) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](const auto* a, const auto* b) { return a->name() < b->name(); });
  std::string out;
  if (!std::is_sorted(table.tensors.begin(), table.tensors.end(), is_before)) out += "not in data order\n";
  for (const st::format::Tensor* const tensor : tensors) {
    const std::size_t place = table.index.find(table.tensors.data(), tensor->name());
    if (place != static_cast<std::size_t>(tensor - table.tensors.data())) out += "not found by its name: ";
    append(out, tensor->name());
    out += fmt::format(" {} {}..{}", tensor->dtype_name(), tensor->begin, tensor->end);
    for (const std::uint64_t dimension : tensor->shape()) out += fmt::format(",{}", dimension);
    out += '\n';
  }
  if (!table.has_metadata) return out;
  std::vector<st::format::MetadataPair> pairs(table.metadata.begin(), table.metadata.end());
  std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  out += "metadata\n";
  for (const st::format::MetadataPair& pair : pairs) {
    append(out, pair.key);
    append(out, pair.value);
    out += '\n';
  }
  return out;
}

// `again`: like the header of a shard, which is first read without an index of names.
Answer read_file(const File& file, std::size_t window_bytes, bool again) {
  st::format::HeaderOptions options;
  options.rules = st::format::Rules::reference;
  options.window_bytes = window_bytes;
  std::string bytes = file.head;
  if (file.bytes <= kMostHead) bytes.resize(static_cast<std::size_t>(file.bytes));
  Answer answer;
  try {
    const auto prefix = static_cast<std::size_t>(std::min<std::uint64_t>(file.bytes, 64));
    if (bytes.size() < prefix) bytes.resize(prefix);
    const st::format::HeaderExtent extent =
        st::format::find_header(std::span<const char>(bytes).first(prefix), file.bytes, options);
    const auto begin = static_cast<std::size_t>(extent.begin);
    const auto length = static_cast<std::size_t>(extent.bytes);
    bytes.resize(begin + length);  // zeros that the claimed length includes
    std::vector<char> header(length + st::format::kPadding);
    std::memcpy(header.data(), bytes.data() + begin, length);
    const std::span<char> text(header.data(), length);
    st::format::Table table(std::pmr::new_delete_resource());
    options.index_names = !again;
    st::format::read_header(text, file.bytes, options, table);
    options.index_names = true;
    if (again) st::format::read_header_again(text, file.bytes, options, table);
    answer.text = listing(table);
  } catch (const st::Error& error) {
    answer = {error.status, error.offset, error.message};
  }
  return answer;
}

// ---- the reference --------------------------------------------------------------------------------------------------

[[noreturn]] void report(const File& file, const Answer& ours, std::string_view other) {
  std::fprintf(stderr, "a file of %llu bytes:\n%s\nours: %s at %llu %s\n%s\n",
               static_cast<unsigned long long>(file.bytes), differential::printable(file.head).c_str(),
               st::status_name(ours.status), static_cast<unsigned long long>(ours.offset),
               differential::printable(ours.text).c_str(), differential::printable(other).c_str());
  std::exit(1);
}

#if defined(ST_DIFFERENTIAL_CRATE)
// Whether the library may report ST_ERR_FORMAT instead of the crate's error: the file has no header, or a header longer
// than the file or the limit, and it begins like a file of another kind.
bool may_be_another_kind(const File& file) {
  using namespace std::string_view_literals;
  constexpr std::string_view kBegins[] = {"version https", "PK",         "GGUF",     "lmgg",      "tjgg",
                                          "\x93NUMPY",     "\x89HDF",    "\x1f\x8b", "\xfd\x37z", "\x28\xb5\x2f",
                                          "BZh",           "\x7f\x45LF", "\x80",     "{"};
  std::string begin = file.head;
  begin.resize(static_cast<std::size_t>(std::min<std::uint64_t>(file.bytes, 64)));
  const std::uint64_t length = begin.size() < 8 ? 0 : st::format::load_length(begin);
  const bool header = begin.size() > 8 && "{ \t\r\n"sv.find(begin[8]) != std::string_view::npos;
  const bool fits = length > 0 && length <= 100'000'000 && length <= file.bytes - 8;
  const bool zeros = begin.find_first_not_of('\0') == std::string_view::npos && begin.size() > 8;
  const bool begins =
      std::any_of(std::begin(kBegins), std::end(kBegins), [&](auto word) { return begin.starts_with(word); });
  return !(header && fits) && (zeros || begins);
}

extern "C" int reference_read(const unsigned char* file, std::size_t bytes, char* text, std::size_t room,
                              std::size_t* written, std::uint64_t* at);

// The numbers that reference_read() returns (docs/format.md 1.1), and the statuses that belong to each.
struct Refusal {
  const char* name;
  std::vector<Status> statuses;
};
const std::array<Refusal, 12> kRefusals = {{
    {"accepted", {Status::ok}},
    {"HeaderTooSmall", {Status::truncated}},
    {"HeaderTooLarge", {Status::header_size}},
    {"InvalidHeaderLength", {Status::truncated}},
    {"InvalidHeader", {Status::utf8}},
    {"InvalidHeaderDeserialization", {Status::json, Status::schema, Status::duplicate, Status::dtype}},
    {"InvalidOffset", {Status::offsets}},
    {"ValidationOverflow", {Status::overflow}},
    {"MisalignedSlice", {Status::misaligned}},
    {"TensorInvalidInfo", {Status::tensor_size}},
    {"MetadataIncompleteBuffer", {Status::coverage}},
    {"an error that read_metadata() does not return in 0.8.0", {}},
}};

constexpr int kInvalidHeader = 4;

constexpr const char* kCompared = "compared with the crate";
constexpr int kMostTries = 100;
constexpr std::size_t kAddresses = kMostHead + 2 * kMostData;

// A file in memory. Only its first bytes exist, because the crate does not read the data.
class Memory {
 public:
  Memory() : bytes_(mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (bytes_ == MAP_FAILED || mprotect(bytes_, 2 * kMostHead, PROT_READ | PROT_WRITE) != 0) {
      std::fprintf(stderr, "cannot reserve %llu bytes of address space\n", static_cast<unsigned long long>(kAddresses));
      std::exit(2);
    }
  }
  const unsigned char* put(const std::string& head) {
    std::memset(bytes_, 0, last_);
    std::memcpy(bytes_, head.data(), head.size());
    last_ = head.size();
    return static_cast<const unsigned char*>(bytes_);
  }

 private:
  void* bytes_;
  std::size_t last_ = 0;
};

// Compares with the crate, and returns the file's line in the summary. The crate sorts tensors with equal ranges in random
// order, so its error can vary: compare() asks it again before it reports another error as a difference.
std::string compare(const File& file, const Answer& ours) {
  static Memory memory;
  static std::string text(4 * kMostHead, '\0');
  const unsigned char* const bytes = memory.put(file.head);
  for (int tries = 1;; ++tries) {
    std::size_t written = 0;
    std::uint64_t at = 0;
    const int number = reference_read(bytes, file.bytes, text.data(), text.size(), &written, &at);
    const Refusal& refusal = kRefusals.at(static_cast<std::size_t>(number));
    const std::string_view listed(text.data(), written);
    const bool same_kind =
        std::find(refusal.statuses.begin(), refusal.statuses.end(), ours.status) != refusal.statuses.end();
    const bool same_place = number != kInvalidHeader || at == ours.offset;
    const bool same_listing = number != 0 || listed == ours.text;
    const bool other_kind = number != 0 && ours.status == Status::format && may_be_another_kind(file);
    if (other_kind || (same_kind && same_place && same_listing)) {
      return fmt::format("{:<29}{}{}", refusal.name, st::status_name(ours.status), tries == 1 ? "" : ", asked again");
    }
    const bool both_refuse = number != 0 && ours.status != Status::ok;
    if (!both_refuse || tries == kMostTries) {
      report(file, ours, fmt::format("the crate: {} at {}\n{}", refusal.name, at, listed));
    }
  }
}
#else
constexpr const char* kCompared = "not compared with the crate";

std::string compare(const File& /*file*/, const Answer& ours) { return st::status_name(ours.status); }
#endif

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: fuzz_reference CASES SEED FOLDER...\n"), 2;
  const std::uint64_t cases = std::strtoull(argv[1], nullptr, 10);
  Random random(std::strtoull(argv[2], nullptr, 10));
  std::vector<Seed> seeds;
  for (int i = 3; i < argc; ++i) differential::add_files(seeds, argv[i]);
  if (seeds.empty()) return std::fprintf(stderr, "there is no header in these folders\n"), 2;
  const auto kernels = differential::kernels();
  std::map<std::string, std::size_t> counts;
  std::uint64_t digest = 0;
  for (std::uint64_t n = 0; n < cases; ++n) {
    Seed seed = random.below(3) == 0 ? seeds[random.below(seeds.size())] : differential::header_of(random);
    if (n % 16 != 0) differential::mutate(seed.text, random);
    const File file = file_of(seed, random);
    const std::size_t window_bytes = differential::window_bytes(random);
    const bool again = random.below(4) == 0;
    Answer first;
    for (const auto* const kernel : kernels) {
      simdjson::get_active_implementation() = kernel;
      Answer answer = read_file(file, window_bytes, again);
      if (kernel == kernels.front()) {
        first = std::move(answer);
      } else if (answer.status != first.status || answer.offset != first.offset || answer.text != first.text) {
        report(file, answer,
               fmt::format("by kernel {}, but by {}: {} at {} {}", kernel->name(), kernels.front()->name(),
                           st::status_name(first.status), first.offset, first.text));
      }
    }
    ++counts[compare(file, first)];
    const std::string answer = fmt::format("{} {} {}", static_cast<int>(first.status), first.offset,
                                           first.status == Status::ok ? first.text : std::string());
    digest = XXH3_64bits_withSeed(answer.data(), answer.size(), digest);
  }
  for (const auto& [answer, count] : counts) std::printf("%12zu  %s\n", count, answer.c_str());
  std::printf("digest of the library's answers: %016llx\n", static_cast<unsigned long long>(digest));
  std::printf("%zu seeds, %llu mutants, %s, no difference; kernels:", seeds.size(),
              static_cast<unsigned long long>(cases), kCompared);
  for (const auto* const kernel : kernels) std::printf(" %s", kernel->name().c_str());
  std::printf("\n");
}
