// Decodes in one pass, because every number and string is self-delimiting. Lengths and counts are untrusted: no
// allocation is larger than the remaining bytes can justify, and an entry with a repeated name is checked but not kept.
// So the table takes at most about fifteen bytes per header byte.
// SPDX-License-Identifier: Apache-2.0
#include "format/bintensors/decode.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/compiler.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "format/length_prefix.hpp"
#include "format/utf8.hpp"

namespace st::format::bintensors {

namespace {

// ---- self-delimiting numbers and strings ----------------------------------------------------------------------------

// May read past the end of the header: kPadding bytes follow it.
std::uint64_t eight_bytes(const char* at) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, at, 8);
  return bytes;
}

// A sequence of numbers. Stores its first error for the Cursor instead of throwing it. Loops without calls stay in
// registers and are twice as fast.
struct Numbers {
  const char* at;
  const char* end;
  const char* fault = nullptr;

  std::uint64_t take() {
    if (at == end) return fail();
    const auto first = static_cast<unsigned char>(*at);
    if (first > kLargestByte) return take_long(first);
    ++at;
    return first;
  }

  std::uint64_t left() const { return static_cast<std::uint64_t>(end - at); }

 private:
  static constexpr unsigned char kLargestByte = 250;  // larger bytes are the length of a number

  std::uint64_t take_long(unsigned char marker) {
    const std::size_t size = std::size_t{2} << (marker - 0xFB);
    if (marker > 0xFD || left() <= size) return fail();
    const std::uint64_t value = little_endian(at + 1, size);
    at += 1 + size;
    return value;
  }

  static std::uint64_t little_endian(const char* bytes, std::size_t size) {
    if constexpr (std::endian::native == std::endian::little) return eight_bytes(bytes) & UINT64_MAX >> (64 - 8 * size);
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }

  // Leaves `at` where it is, so each further number fails there as well.
  std::uint64_t fail() {
    fault = at;
    return 0;
  }
};

class Cursor {
 public:
  explicit Cursor(std::span<const char> header) : begin_(header.data()), at_(begin_), end_(begin_ + header.size()) {}

  Numbers numbers() const { return {at_, end_}; }

  // Moves past these numbers, or throws their error.
  void resume(const Numbers& numbers) {
    if (numbers.fault != nullptr) fail_number(numbers.fault);
    at_ = numbers.at;
  }

  std::uint64_t number() {
    Numbers numbers = this->numbers();
    const std::uint64_t value = numbers.take();
    resume(numbers);
    return value;
  }

  std::string_view string();
  // Reads the count of items of at least `least` bytes each.
  std::uint64_t count(std::uint64_t least, std::string_view what);
  // Returns how many of `n` such items can have distinct names.
  std::size_t distinct(std::uint64_t n, std::uint64_t least) const;

  std::span<const char> rest() const { return {at_, end_}; }
  std::uint64_t left() const { return static_cast<std::uint64_t>(end_ - at_); }
  std::uint64_t offset() const { return kLengthBytes + static_cast<std::uint64_t>(at_ - begin_); }

  // The current tensor, for messages.
  void set_subject(std::string_view tensor_name) { subject_ = tensor_name; }
  std::string_view subject() const { return subject_; }

  [[noreturn]] ST_COLD void fail_here(Status status, std::uint64_t place, std::string_view what) const;

 private:
  [[noreturn]] ST_COLD void fail_number(const char* at);

  const char* const begin_;
  const char* at_;
  const char* const end_;
  std::string_view subject_;
};

bool is_ascii(std::string_view text) {
  constexpr std::uint64_t kTopBits = 0x8080808080808080;
  std::uint64_t bits = 0;
  if (text.size() < 8) {
    for (const char c : text) bits |= static_cast<unsigned char>(c);
    return bits < 0x80;
  }
  for (std::size_t i = 8; i < text.size(); i += 8) bits |= eight_bytes(text.data() + i - 8);
  bits |= eight_bytes(text.data() + text.size() - 8);  // the last word may overlap the previous one
  return (bits & kTopBits) == 0;
}

// In hexadecimal, because messages are UTF-8.
std::string quoted_bytes(std::string_view text) {
  std::string hex;
  for (const char c : text.substr(0, 16)) hex += formatted("{:02x}", static_cast<unsigned char>(c));
  return hex + (text.size() > 16 ? "..." : "");
}

std::string_view Cursor::string() {
  const std::uint64_t place = offset();
  const std::uint64_t size = number();
  if (size > left()) {
    fail_here(Status::schema, place, formatted("a string of {} bytes, but only {} are left", size, left()));
  }
  const std::string_view text(at_, static_cast<std::size_t>(size));
  if (!is_ascii(text) && !is_utf8(text)) {
    fail_here(Status::utf8, offset() + first_not_utf8(text),
              formatted("a string that is not UTF-8: {}", quoted_bytes(text)));
  }
  at_ += size;
  return text;
}

std::uint64_t Cursor::count(std::uint64_t least, std::string_view what) {
  const std::uint64_t place = offset();
  const std::uint64_t n = number();
  if (n > left() / least) {
    fail_here(Status::schema, place, formatted("{} {}, but only {} bytes are left", n, what, left()));
  }
  return n;
}

// There are 18,433 names shorter than three bytes. All others take at least three bytes.
std::size_t Cursor::distinct(std::uint64_t n, std::uint64_t least) const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(n, 18'433 + left() / (least + 3)));
}

void Cursor::fail_here(Status status, std::uint64_t place, std::string_view what) const {
  if (subject_.data() == nullptr) fail_at(status, place, "{}", what);
  fail_at(status, place, "tensor {}: {}", in_quotes(subject_), what);
}

void Cursor::fail_number(const char* at) {
  at_ = at;
  const unsigned first = at == end_ ? 0U : static_cast<unsigned char>(*at);
  if (first > 0xFD) fail_here(Status::schema, offset(), formatted("expected a number, found 0x{:02x}", first));
  fail_here(Status::schema, offset(), "the header ends too early");
}

// ---- the grammar ----------------------------------------------------------------------------------------------------

constexpr std::uint64_t kLeastEntry = 4;  // dtype, rank, begin, end
constexpr std::uint64_t kLeastName = 1;   // its length

class Decoder {
 public:
  Decoder(std::span<const char> header, const HeaderOptions& options, Table& table, FaultSink& faults)
      : in_(header), size_(header.size()), options_(options), table_(table), faults_(faults) {}

  // The name of the entry with the error; its data() is null outside of entries.
  std::string_view subject() const { return in_.subject(); }

  bool current() {
    metadata();
    make_room(in_.count(kLeastName + kLeastEntry, "tensors"));
    for (std::uint64_t i = 0; i < announced_; ++i) {
      const std::uint64_t place = in_.offset();
      const std::string_view name = in_.string();
      in_.set_subject(name);
      Tensor& tensor = table_.tensors.emplace_back();
      entry(tensor);
      in_.set_subject({});
      if (!give_name(table_.tensors.size() - 1, name, place) && !faults_.collects()) table_.tensors.pop_back();
    }
    return finish();
  }

  bool older() {
    metadata();
    make_room(in_.count(kLeastEntry + kLeastName + 1, "tensors"));
    for (std::uint64_t i = 0; i < announced_; ++i) {
      if (table_.tensors.size() == table_.tensors.capacity()) too_many();
      entry(table_.tensors.emplace_back());
    }
    const std::uint64_t place = in_.offset();
    const std::uint64_t names = in_.number();
    if (names != announced_)
      in_.fail_here(Status::schema, place, formatted("{} names for {} tensors", names, announced_));
    for (std::uint64_t i = 0; i < names; ++i) name();
    return finish();
  }

 private:
  // Reports an error after which decoding can continue.
  template <class Fail>
  ST_COLD void report(const Fail& fail) {
    faults_.report_from(fail, in_.subject());
  }

  void metadata() {
    if (in_.number() == 0) return;
    table_.has_metadata = true;
    const std::uint64_t n = in_.count(2, "metadata pairs");
    const std::size_t room = in_.distinct(n, 2);
    table_.metadata.reserve(room);
    table_.metadata_index.reset(room, options_.seed);
    for (std::uint64_t i = 0; i < n; ++i) pair();
  }

  // If a key occurs twice, the last value wins, as in the original.
  void pair() {
    const std::uint64_t place = in_.offset();
    auto& pairs = table_.metadata;
    const std::string_view key = in_.string();
    pairs.push_back({key, in_.string()});
    const auto earlier = table_.metadata_index.insert(pairs.data(), static_cast<std::uint32_t>(pairs.size() - 1));
    if (earlier == NameIndex<MetadataPair>::kNone) return;
    if (options_.rules == Rules::strict) {
      report(
          [&] { in_.fail_here(Status::duplicate, place, formatted("metadata key {} occurs twice", in_quotes(key))); });
    }
    pairs[earlier] = pairs.back();
    pairs.pop_back();
  }

  void make_room(std::uint64_t count) {
    announced_ = count;
    const std::size_t room = in_.distinct(count, kLeastName + kLeastEntry);
    table_.tensors.reserve(room + 1);
    table_.index.reset(room, options_.seed);
  }

  void entry(Tensor& tensor) {
    tensor.owner = options_.owner;
    const std::uint64_t place = in_.offset();
    Numbers numbers = in_.numbers();
    const std::uint64_t code = numbers.take();
    const bool known = code < kDtypesByCode.size();
    if (!known) require_known(code, place);
    tensor.dtype_number =
        static_cast<std::uint32_t>(known ? kDtypesByCode[static_cast<std::size_t>(code)] : Dtype::unknown) & 0x1F;
    const std::uint64_t rank = numbers.take();
    if (rank > numbers.left()) fail_rank(numbers, rank);
    std::uint64_t* const dims = words(static_cast<std::size_t>(rank) + 1);
    for (std::uint64_t i = 0; i < rank; ++i) dims[i] = numbers.take();
    if (!known) dims[rank] = reinterpret_cast<std::uintptr_t>(copy_text(table_.arena, std::to_string(code)).data());
    tensor.dims = dims;
    tensor.rank = static_cast<std::uint32_t>(rank);
    tensor.begin = numbers.take();
    tensor.end = numbers.take();
    in_.resume(numbers);
  }

  ST_COLD void require_known(std::uint64_t code, std::uint64_t place) {
    if (options_.unknown_dtypes) return;
    report([&] { in_.fail_here(Status::dtype, place, formatted("dtype {} is unknown", code)); });
  }

  [[noreturn]] ST_COLD void fail_rank(const Numbers& numbers, std::uint64_t rank) {
    in_.resume(numbers);
    in_.fail_here(Status::schema, in_.offset(),
                  formatted("{} dimensions, but only {} bytes are left", rank, in_.left()));
  }

  // A name in the older layout's list of names.
  void name() {
    const std::uint64_t place = in_.offset();
    const std::string_view name = in_.string();
    in_.set_subject(name);
    const std::uint64_t number = in_.number();
    const Tensor* const tensor = number < announced_ ? &table_.tensors[static_cast<std::size_t>(number)] : nullptr;
    if (tensor == nullptr) {
      report([&] {
        in_.fail_here(Status::schema, place,
                      formatted("its number is {}, but there are {} tensors", number, announced_));
      });
    } else if (tensor->name_text != nullptr) {
      report([&] {
        in_.fail_here(Status::duplicate, place, formatted("it has the same number as {}", in_quotes(tensor->name())));
      });
    }
    in_.set_subject({});
    if (tensor != nullptr && tensor->name_text == nullptr) give_name(static_cast<std::size_t>(number), name, place);
  }

  // Returns false if another tensor has this name. finish() reports the duplicate later, because grammar errors come
  // first.
  bool give_name(std::size_t number, std::string_view name, std::uint64_t place) {
    Tensor& tensor = table_.tensors[number];
    tensor.name_text = name.data();
    tensor.name_bytes = static_cast<std::uint32_t>(name.size()) & 0x7FFFFFF;
    if (table_.index.insert(table_.tensors.data(), static_cast<std::uint32_t>(number)) == NameIndex<Tensor>::kNone)
      return true;
    if (faults_.collects()) {
      in_.set_subject(name);
      report([&] { fail_twice(name, place); });
      in_.set_subject({});
    } else if (twice_.data() == nullptr) {
      twice_ = name;
      twice_place_ = place;
    }
    return false;
  }

  [[noreturn]] static void fail_twice(std::string_view name, std::uint64_t place) {
    fail_at(Status::duplicate, place, "tensor {} occurs twice", in_quotes(name));
  }

  bool finish() {
    if (twice_.data() != nullptr) fail_twice(twice_, twice_place_);
    const std::span<const char> rest = in_.rest();
    const auto other = std::find_if(rest.begin(), rest.end(), [](char c) { return c != ' '; });
    const bool only_spaces = other == rest.end();
    const std::uint64_t place = in_.offset() + static_cast<std::uint64_t>(other - rest.begin());
    if (options_.rules == Rules::strict && (!only_spaces || size_ % 8 != 0)) {
      report([&] {
        in_.fail_here(Status::schema, place, "the header is not padded with spaces to a multiple of 8 bytes");
      });
    }
    if (table_.tensors.empty() && !only_spaces) {
      report([&] {
        in_.fail_here(Status::schema, place, "a header without tensors is padded with something other than spaces");
      });
    }
    return only_spaces;
  }

  [[noreturn]] void too_many() const {
    in_.fail_here(Status::schema, in_.offset(), formatted("{} tensors, but not enough names", announced_));
  }

  std::uint64_t* words(std::size_t n) {
    if (static_cast<std::size_t>(words_end_ - words_) < n) {
      const std::size_t block = std::max(n, std::min<std::size_t>(512, size_ / 8));
      words_ = static_cast<std::uint64_t*>(table_.arena.allocate(block * sizeof *words_, alignof(std::uint64_t)));
      words_end_ = words_ + block;
    }
    return std::exchange(words_, words_ + n);
  }

  Cursor in_;
  const std::size_t size_;
  const HeaderOptions& options_;
  Table& table_;
  FaultSink& faults_;
  std::uint64_t* words_ = nullptr;
  std::uint64_t* words_end_ = nullptr;
  std::uint64_t announced_ = 0;
  std::string_view twice_;
  std::uint64_t twice_place_ = 0;
};

}  // namespace

bool decode(Format layout, std::span<const char> header, const HeaderOptions& options, Table& table,
            FaultSink& faults) {
  Decoder decoder(header, options, table, faults);
  try {
    return layout == Format::bintensors ? decoder.current() : decoder.older();
  } catch (const Error& error) {
    if (faults.collects()) faults.add_last(error, decoder.subject());
    throw;
  }
}

}  // namespace st::format::bintensors
