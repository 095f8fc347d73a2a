// Decoding needs no more than a cursor: every number and string says its own length. Nothing is allocated for a count
// that the bytes behind it cannot hold, and an entry whose name was there before is checked but not kept, so that memory
// stays within some ten bytes for each byte of the header.
// SPDX-License-Identifier: Apache-2.0
#include "format/bintensors/decode.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/compiler.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "format/bintensors/codes.hpp"
#include "format/bintensors/cursor.hpp"

namespace st::format::bintensors {

namespace {

constexpr std::uint64_t kLeastEntry = 4;  // dtype, rank, begin, end
constexpr std::uint64_t kLeastName = 1;   // its length

class Decoder {
 public:
  Decoder(std::span<const char> header, const HeaderOptions& options, Table& table, FaultSink& faults)
      : in_(header), size_(header.size()), options_(options), table_(table), faults_(faults) {}

  // The name in whose entry a fault was met; its data() is null outside of entries.
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
  // Of a fault behind which the rest can be read.
  template <class Fail>
  ST_COLD void tell(const Fail& fail) {
    faults_.report_from(fail, in_.subject());
  }

  void metadata() {
    if (in_.number() == 0) return;
    table_.has_metadata = true;
    const std::uint64_t n = in_.count(2, "metadata pairs");
    const std::size_t room = in_.distinct(n, 2);
    table_.metadata.reserve(std::min<std::size_t>(room, 1024));
    table_.metadata_index.reset(room, options_.seed);
    for (std::uint64_t i = 0; i < n; ++i) pair();
  }

  // The last value of a key counts, as in the original.
  void pair() {
    const std::uint64_t place = in_.offset();
    auto& pairs = table_.metadata;
    const std::string_view key = in_.string();
    pairs.push_back({key, in_.string()});
    const auto earlier = table_.metadata_index.insert(pairs.data(), static_cast<std::uint32_t>(pairs.size() - 1));
    if (earlier == NameIndex<MetadataPair>::kNone) return;
    if (options_.rules == Rules::strict) {
      tell([&] {
        in_.fail_here(Status::duplicate, place, formatted("metadata key {} is given twice", in_quotes(key)));
      });
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
    dims[rank] = 0;
    if (!known) dims[rank] = reinterpret_cast<std::uintptr_t>(copy_text(table_.arena, std::to_string(code)).data());
    tensor.dims = dims;
    tensor.rank = static_cast<std::uint32_t>(rank);
    tensor.begin = numbers.take();
    tensor.end = numbers.take();
    in_.resume(numbers);
  }

  ST_COLD void require_known(std::uint64_t code, std::uint64_t place) {
    if (options_.unknown_dtypes) return;
    tell([&] { in_.fail_here(Status::dtype, place, formatted("dtype {} is unknown", code)); });
  }

  [[noreturn]] ST_COLD void fail_rank(const Numbers& numbers, std::uint64_t rank) {
    in_.resume(numbers);
    in_.fail_here(Status::schema, in_.offset(), formatted("{} dimensions, where {} bytes are left", rank, in_.left()));
  }

  // An entry of the older layout's list of names.
  void name() {
    const std::uint64_t place = in_.offset();
    const std::string_view name = in_.string();
    in_.set_subject(name);
    const std::uint64_t number = in_.number();
    const Tensor* const tensor = number < announced_ ? &table_.tensors[static_cast<std::size_t>(number)] : nullptr;
    if (tensor == nullptr) {
      tell([&] {
        in_.fail_here(Status::schema, place, formatted("it is number {} of {} tensors", number, announced_));
      });
    } else if (tensor->name_text != nullptr) {
      tell([&] {
        in_.fail_here(Status::duplicate, place, formatted("it has the same number as {}", in_quotes(tensor->name())));
      });
    }
    in_.set_subject({});
    if (tensor != nullptr && tensor->name_text == nullptr) give_name(static_cast<std::size_t>(number), name, place);
  }

  // false when another tensor has this name. Said in finish(), since faults of the decoding come first.
  bool give_name(std::size_t number, std::string_view name, std::uint64_t place) {
    Tensor& tensor = table_.tensors[number];
    tensor.name_text = name.data();
    tensor.name_bytes = static_cast<std::uint32_t>(name.size()) & 0x7FFFFFF;
    if (table_.index.insert(table_.tensors.data(), static_cast<std::uint32_t>(number)) == NameIndex<Tensor>::kNone)
      return true;
    if (faults_.collects()) {
      in_.set_subject(name);
      tell([&] { fail_twice(name, place); });
      in_.set_subject({});
    } else if (twice_.data() == nullptr) {
      twice_ = name;
      twice_place_ = place;
    }
    return false;
  }

  [[noreturn]] static void fail_twice(std::string_view name, std::uint64_t place) {
    fail_at(Status::duplicate, place, "tensor {} is given twice", in_quotes(name));
  }

  bool finish() {
    if (twice_.data() != nullptr) fail_twice(twice_, twice_place_);
    const std::span<const char> rest = in_.rest();
    const auto other = std::find_if(rest.begin(), rest.end(), [](char c) { return c != ' '; });
    const bool only_spaces = other == rest.end();
    const std::uint64_t place = in_.offset() + static_cast<std::uint64_t>(other - rest.begin());
    if (options_.rules == Rules::strict && (!only_spaces || size_ % 8 != 0)) {
      tell([&] {
        in_.fail_here(Status::schema, place, "the header is not padded with spaces to a multiple of 8 bytes");
      });
    }
    if (table_.tensors.empty() && !only_spaces) {
      tell([&] {
        in_.fail_here(Status::schema, place, "a header without tensors is padded with something else than spaces");
      });
    }
    return only_spaces;
  }

  [[noreturn]] void too_many() const {
    in_.fail_here(Status::schema, in_.offset(),
                  formatted("{} tensors, for which there are not enough names", announced_));
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
