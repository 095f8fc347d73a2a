// A second, tolerant reading: what has the grammar of JSON and not that of a header is noted and skipped, and all entries
// whose offsets are known are then held against each other. It decides nothing; whether a file is valid is said by
// parse_header() and validate() alone, and their checks of a tensor are the ones used here.
// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/survey.hpp"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "format/json/json_cursor.hpp"
#include "format/table.hpp"
#include "format/utf8.hpp"
#include "format/validate.hpp"

namespace st::format::safetensors {

namespace {

constexpr unsigned kInHeader = 1;  // containers open around a value
constexpr unsigned kInEntry = 2;
constexpr std::array<std::string_view, 3> kFields{"dtype", "shape", "data_offsets"};

using Numbers = std::vector<std::uint64_t>;

struct Entry {
  std::string_view name;
  std::uint64_t place = 0;  // in the file
  Dtype dtype = Dtype::unknown;
  std::optional<Numbers> shape;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> offsets;
};

class Survey {
 public:
  Survey(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings)
      : in_(header, kLengthBytes, &arena_, options.window_bytes),
        data_begin_(kLengthBytes + header.size()),
        data_size_(file_size - data_begin_),
        options_(options),
        findings_(findings) {}

  void header() {
    try {
      look();
    } catch (const Full&) {  // the rest is not told
    }
  }

 private:
  struct Full {};

  void look() {
    try {
      if (options_.rules == Rules::strict && in_.peek() != 0 && in_.at() != in_.tokens.text_begin) {
        add(Status::schema, in_.offset_of(in_.tokens.text_begin), "begins with white space, not with '{'");
      }
      if (!in_.take('{')) in_.wrong_type(0, "is not an object");
      if (!in_.take('}')) {
        do {
          member();
        } while (in_.take(','));
        in_.expect('}');
      }
      in_.expect_end();
    } catch (const Error& error) {
      return add(error);  // the grammar ends here
    }
    tensor_ = nullptr;
    check_duplicates();
    check_data();
  }

  void add(Error error) {
    findings_.push_back({std::move(error), tensor_ == nullptr ? "" : std::string(tensor_->name), tensor_ != nullptr});
    if (findings_.size() > kMostFindings) throw Full();
  }
  void add(Status status, std::uint64_t place, std::string_view what) {
    const std::string of = tensor_ == nullptr ? "header" : "tensor " + in_quotes(tensor_->name);
    add({status, 0, place, formatted("{}: {}", of, what)});
  }
  std::uint64_t here() { return in_.offset_of(in_.at()); }

  void skip(unsigned depth, std::string_view what) {
    const std::uint64_t place = here();
    in_.skip_value(depth);  // throws where it is no JSON either
    add(Status::schema, place, what);
  }

  void member() {
    const std::uint64_t place = here();
    const std::string_view name = in_.string();
    in_.expect(':');
    if (name == "__metadata__") return metadata(place);
    Entry& entry = entries_.emplace_back();
    entry.name = name;
    entry.place = place;
    tensor_ = &entry;
    fields(entry);
    tensor_ = nullptr;
  }

  void metadata(std::uint64_t place) {
    if (std::exchange(metadata_seen_, true)) add(Status::duplicate, place, "__metadata__ is given twice");
    if (in_.peek() == 'n' && options_.rules != Rules::strict) return in_.skip_value(kInHeader);
    if (in_.peek() != '{') return skip(kInHeader, "__metadata__ is not an object");
    std::set<std::string_view> keys;
    in_.take('{');
    if (in_.take('}')) return;
    do {
      const std::uint64_t at = here();
      const std::string_view key = in_.string();
      if (!keys.insert(key).second && !last_counts())
        add(Status::duplicate, at, formatted("metadata key {} is given twice", in_quotes(key)));
      in_.expect(':');
      if (in_.peek() == '"') {
        in_.string();
      } else {
        skip(kInEntry, formatted("__metadata__ holds a value that is not a string, at key {}", in_quotes(key)));
      }
    } while (in_.take(','));
    in_.expect('}');
  }

  // By the reference's rules, the last of several under one name is the one that there is.
  bool last_counts() const { return options_.rules == Rules::reference; }

  void fields(Entry& entry) {
    if (in_.peek() == '[' && options_.rules == Rules::reference) return fields_in_a_row(entry);
    if (in_.peek() != '{') return skip(kInHeader, "entry is not an object");
    unsigned seen = 0;
    in_.take('{');
    if (!in_.take('}')) {
      do {
        field(entry, seen);
      } while (in_.take(','));
      in_.expect('}');
    }
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      if ((seen >> i & 1U) == 0) add(Status::schema, entry.place, formatted("has no {}", kFields[i]));
    }
  }

  // Only by the reference's rules: ["F32",[1],[0,4]].
  void fields_in_a_row(Entry& entry) {
    std::size_t count = 0;
    in_.take('[');
    if (!in_.take(']')) {
      do {
        count < kFields.size() ? value(entry, count, here()) : in_.skip_value(kInEntry);
        ++count;
      } while (in_.take(','));
      in_.expect(']');
    }
    if (count != kFields.size()) add(Status::schema, entry.place, formatted("is an array of {} values", count));
  }

  void field(Entry& entry, unsigned& seen) {
    const std::uint64_t place = here();
    const std::string_view name = in_.string();
    in_.expect(':');
    const auto known = static_cast<std::size_t>(std::find(kFields.begin(), kFields.end(), name) - kFields.begin());
    if (known == kFields.size()) return in_.skip_value(kInEntry);
    if ((seen >> known & 1U) != 0) add(Status::duplicate, place, formatted("{} is given twice", name));
    seen |= 1U << known;
    value(entry, known, place);
  }

  void value(Entry& entry, std::size_t known, std::uint64_t place) {
    if (known == 0) return dtype(entry);
    Numbers numbers;
    if (!integers(kFields[known], numbers)) return;
    if (known == 1) {
      entry.shape = std::move(numbers);
    } else if (numbers.size() == 2) {
      entry.offsets = {numbers[0], numbers[1]};
    } else {
      add(Status::schema, place, formatted("data_offsets has {} values, not two", numbers.size()));
    }
  }

  void dtype(Entry& entry) {
    const bool as_map = options_.rules == Rules::reference && in_.take('{');  // {"F32":null}
    if (in_.peek() != '"') return skip(kInEntry, "dtype is not a string");
    const std::uint64_t place = here();
    const std::string_view name = in_.string();
    entry.dtype = dtype_from_name(name);
    const bool is_taken = options_.unknown_dtypes && name.find('\0') == name.npos;
    if (entry.dtype == Dtype::unknown && !is_taken) {
      add(Status::dtype, place, "dtype " + in_quotes(name) + " is unknown");
    }
    if (!as_map) return;
    in_.expect(':');
    in_.skip_value(kInEntry + 1);
    in_.expect('}');
  }

  // Returns false if it is no array of integers.
  bool integers(std::string_view field, Numbers& numbers) {
    if (in_.peek() != '[') {
      skip(kInEntry, formatted("{} is not an array", field));
      return false;
    }
    in_.take('[');
    if (in_.take(']')) return true;
    bool good = true;
    do {
      std::uint64_t number = 0;
      if (in_.integer(number)) {
        numbers.push_back(number);
      } else {
        good = false;
        skip(kInEntry + 1, formatted("{} holds a value that is not an integer from 0 to 2^64-1", field));
      }
    } while (in_.take(','));
    in_.expect(']');
    return good;
  }

  // ---- all entries together ------------------------------------------------------------------------------------------

  void check_duplicates() {
    std::vector<const Entry*> order;
    for (const Entry& entry : entries_) order.push_back(&entry);
    std::sort(order.begin(), order.end(),
              [](auto* a, auto* b) { return std::tie(a->name, a->place) < std::tie(b->name, b->place); });
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i]->name != order[i - 1]->name) continue;
      if (last_counts()) {
        replaced_.insert(order[i - 1]);
        continue;
      }
      tensor_ = order[i];
      add(Status::duplicate, order[i]->place, "is given twice");
    }
    tensor_ = nullptr;
  }

  static Tensor tensor_of(const Entry& entry) {
    Tensor tensor;
    tensor.name_text = entry.name.data();
    tensor.name_bytes = static_cast<std::uint32_t>(entry.name.size()) & 0x7FFFFFF;
    tensor.dtype_number = static_cast<std::uint32_t>(entry.dtype) & 0x1F;
    tensor.begin = entry.offsets->first;
    tensor.end = entry.offsets->second;
    if (entry.shape) {
      tensor.dims = entry.shape->data();
      tensor.rank = static_cast<std::uint32_t>(entry.shape->size());
    }
    return tensor;
  }

  template <class Check>
  void note_fault(const Check& check) {
    try {
      check();
    } catch (const Error& error) {
      add(error);
    }
  }

  // After a fault the chain goes on behind the furthest end, so that one wrong tensor is one finding or two.
  void check_data() {
    std::vector<const Entry*> order;
    for (const Entry& entry : entries_) {
      if (entry.offsets && !replaced_.contains(&entry)) order.push_back(&entry);
    }
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) {
      return std::tie(*a->offsets, a->name, a->place) < std::tie(*b->offsets, b->name, b->place);
    });
    std::uint64_t end = 0;
    for (const Entry* const entry : order) {
      tensor_ = entry;
      const Tensor tensor = tensor_of(*entry);
      const std::uint64_t offset = data_begin_ + std::min(tensor.begin, data_size_);
      note_fault([&] { check_place(tensor, end, offset); });
      if (tensor.end < tensor.begin) continue;
      if (entry->shape && entry->dtype != Dtype::unknown) note_fault([&] { check_size(tensor, offset); });
      end = std::max(end, tensor.end);
    }
    tensor_ = nullptr;
    note_fault([&] { check_coverage(data_begin_, end, data_begin_ + data_size_); });
  }

  std::pmr::monotonic_buffer_resource arena_;
  json::Cursor in_;
  std::uint64_t data_begin_;
  std::uint64_t data_size_;
  const HeaderOptions& options_;
  Findings& findings_;
  std::vector<Entry> entries_;
  std::set<const Entry*> replaced_;
  const Entry* tensor_ = nullptr;
  bool metadata_seen_ = false;
};

}  // namespace

void survey(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings) {
  try {
    require_utf8({header.data(), header.size()}, kLengthBytes, "header");
  } catch (const Error& error) {
    findings.push_back({error, {}, false, false});
  }
  Survey(header, file_size, options, findings).header();
}

}  // namespace st::format::safetensors
