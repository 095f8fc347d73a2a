// A recursive-descent parser: one pass over the header's tokens, one function per production, from the object down to a
// dimension. Each function stores its value or reports an error with its position. Opening throws the first error; a
// check collects them. When errors are collected, the function skips the invalid value and continues. Text that is not
// JSON always throws.
//
// usual_member() is a fast path for entries formatted as nearly every writer does. All other entries go through the
// grammar.
// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/parse.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "format/json/cursor.hpp"
#include "format/length_prefix.hpp"
#include "format/utf8.hpp"

namespace st::format::safetensors {

namespace {

enum class Field : std::uint8_t { dtype, shape, data_offsets, unknown };

constexpr std::array<std::string_view, 3> kFieldNames{"dtype", "shape", "data_offsets"};
constexpr unsigned bit_of(Field field) { return field == Field::unknown ? 0 : 1U << static_cast<unsigned>(field); }

constexpr unsigned kEveryField = 0b111;
constexpr std::size_t kLeastEntry = 48;  // bytes, about
constexpr std::size_t kFew = 8;          // dimensions of a usual shape, at most
constexpr std::size_t kLongShape = 64;   // words
constexpr unsigned kInHeader = 1;        // containers open around a value of the header
constexpr unsigned kInEntry = 2;         // ... and around a value of an entry

// ---- reading ahead --------------------------------------------------------------------------------------------------

std::uint64_t eight_bytes(const char* text) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, text, sizeof bytes);
  return bytes;
}

// Stands for the end of the tensor before the first one, which usually begins at 0. The bracket ends the number.
constexpr std::array<char, kPadding> kZero{'0', ']'};

// Compares 1 to 16 bytes. Returns false for any other length. May read 8 bytes past each text.
ST_ALWAYS_INLINE inline bool same_short_text(const char* a, const char* b, std::size_t bytes) {
  const auto differ = [a, b](std::size_t from) { return eight_bytes(a + from) ^ eight_bytes(b + from); };
  if (bytes - 1 >= 8) return bytes - 1 < 16 && (differ(0) | differ(bytes - 8)) == 0;
  const unsigned others = 64 - 8 * static_cast<unsigned>(bytes);
  return (std::endian::native == std::endian::little ? differ(0) << others : differ(0) >> others) == 0;
}

// The tokens not yet consumed, numbered from 0. Looking at them consumes nothing.
//
// White space between tokens makes no difference, except between a field's name and its colon. Tokens past the last one
// of the window are at the end of the window, and their length is 0 or wraps around. number() and dtype() reject them,
// but is() may match the byte there. So the caller must finally check that all tokens were inside the window.
class Lookahead {
 public:
  explicit Lookahead(const json::Structure& tokens) : text_(tokens.base), token_(tokens.next) {}

  const char* at(std::size_t i) const { return text_ + token_[i]; }
  bool is(std::size_t i, char c) const { return *at(i) == c; }
  void skip(std::size_t n) { token_ += n; }
  std::uint32_t* next() const { return token_; }

  // Returns the contents of a string without escapes.
  ST_ALWAYS_INLINE std::string_view string(std::size_t i) const {
    return {at(i) + 1, static_cast<std::size_t>(end(i) - at(i)) - 2};
  }

  // Returns the field with this name. Its colon must follow without white space.
  ST_ALWAYS_INLINE Field field(std::size_t i) const {
    const std::uint64_t name = eight_bytes(at(i));
    if (name == eight_bytes("\"dtype\":")) return Field::dtype;
    if (name == eight_bytes("\"shape\":")) return Field::shape;
    const bool ends = eight_bytes(at(i) + 7) == eight_bytes("ffsets\":");
    return ends && name == eight_bytes("\"data_offsets\":") ? Field::data_offsets : Field::unknown;
  }

  // Returns the dtype named by a string without escapes. Such a string contains no NUL. For an empty token, subtracting
  // the quotes makes the size wrap around to a huge number.
  ST_ALWAYS_INLINE Dtype dtype(std::size_t i) const {
    const char* const name = at(i) + 1;
    const std::size_t size = static_cast<std::size_t>(end(i) - at(i)) - 2;
    if (size - 1 >= 7) [[unlikely]]  // a longer dtype may begin with eight bytes
      return size < kPadding ? dtype_from_name({name, size}) : Dtype::unknown;
    std::uint64_t bytes = eight_bytes(name);
    if constexpr (std::endian::native == std::endian::big) bytes = reversed_bytes(bytes);
    const unsigned others = 64 - 8 * static_cast<unsigned>(size);
    return kDtypeNames.find(bytes << others >> others);
  }

  // Returns false if it is not a number of 1 to 16 digits.
  ST_ALWAYS_INLINE bool number(std::size_t i, std::uint64_t& value) const {
    return json::short_number(at(i), static_cast<std::size_t>(end(i) - at(i)), value);
  }

 private:
  // Returns the end of a token, before white space.
  ST_ALWAYS_INLINE const char* end(std::size_t i) const {
    const char* const next = at(i + 1);
    if (next[-1] > ' ') [[likely]]
      return next;
    return before_space(next);
  }

  // Static: a call with `this` would keep the members out of registers.
  ST_NOINLINE static const char* before_space(const char* end) {
    while (json::is_space(end[-1])) --end;
    return end;
  }

  const char* text_;
  std::uint32_t* token_;
};

// ---- the grammar ----------------------------------------------------------------------------------------------------

// The order of the fields in an entry. `usual` is the order of the reference's writer.
enum class Order : std::uint8_t { usual, any };

// The values of an entry that usual_member() parses.
struct UsualEntry {
  Dtype dtype = Dtype::unknown;
  std::uint64_t* dims = nullptr;
  std::size_t rank = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  const char* end_text = nullptr;  // the digits of `end`
};

class HeaderParser {
 public:
  HeaderParser(std::span<char> text, const HeaderOptions& options, Table& table, FaultSink& faults, NameHashes* hashes)
      : in_(text, kLengthBytes, &table.arena, options.window_bytes),
        options_(options),
        table_(table),
        faults_(faults),
        hashes_(hashes) {
    if (faults.collects()) in_.tokens.accept_any_bytes();  // parse_header() has reported text that is not UTF-8
  }

  bool read() try { return header(); } catch (const Error& error) {
    const std::string_view text(in_.tokens.text_begin,
                                static_cast<std::size_t>(in_.tokens.text_end - in_.tokens.text_begin));
    if (!faults_.collects()) {
      require_utf8(text, kLengthBytes, "header");  // comes before any other error
      throw;
    }
    faults_.add_last(error, in_.tensor);
    return false;
  }

 private:
  // Returns false if the header is not an object.
  bool header() {
    if (options_.rules == Rules::strict && in_.peek() != 0 && in_.at() != in_.tokens.text_begin) {
      fault(in_.tokens.text_begin, "begins with white space, not with '{'");
    }
    if (!in_.take('{')) {
      wrong_type(0, "is not an object");
      return false;
    }
    if (!in_.take('}')) {
      do {
        if (!usual_member<Order::usual>() && !usual_member_in_any_order()) member();
      } while (in_.take(','));
      in_.expect('}');
    }
    in_.expect_end();
    return true;
  }

  // ---- usual entries ----------------------------------------------------------------------------------------------

  // Reads an entry formatted as nearly every writer does: its three fields, no escapes, a short shape and short
  // numbers.
  //
  // This is not a second grammar: for any other entry, valid or not, it returns false and consumes nothing. The cost of
  // an entry does not depend on its neighbours.
  template <Order order>
  ST_ALWAYS_INLINE bool usual_member() {
    if (in_.peek() != '"') return false;
    Lookahead ahead(in_.tokens);
    if (ahead.at(1) > in_.tokens.plain_end || !ahead.is(1, ':')) return false;
    const std::string_view name = ahead.string(0);
    if (name == "__metadata__") return false;
    ahead.skip(2);
    static_assert(2 + 3 * 3 + 1 + (2 * kFew + 1) + 5 + 2 <= json::kPositionsBehindTheLast);
    UsualEntry entry;
    entry.dims = words(kFew + 1);
    if constexpr (order == Order::usual) {
      if (!usual_fields(ahead, entry)) return false;
    } else {
      if (!fields_in_any_order(ahead, entry)) return false;
    }
    if (!ahead.is(0, '}') || ahead.next() >= in_.tokens.last) return false;
    in_.tokens.next = ahead.next() + 1;
    terminate(name);
    Tensor& tensor = add_tensor(name);
    tensor.dtype_number = static_cast<std::uint32_t>(entry.dtype) & 0x1F;
    tensor.begin = entry.begin;
    tensor.end = entry.end;
    tensor.dims = entry.dims;
    tensor.rank = static_cast<std::uint32_t>(entry.rank);
    words_ = entry.dims + entry.rank;
    end_ = entry.end;
    end_text_ = entry.end_text;
    return true;
  }

  // Not inlined, because a small header() is faster.
  ST_NOINLINE bool usual_member_in_any_order() { return usual_member<Order::any>(); }

  ST_ALWAYS_INLINE bool usual_fields(Lookahead& ahead, UsualEntry& entry) {
    return usual_field(Field::dtype, '{', ahead, entry) && usual_field(Field::shape, ',', ahead, entry) &&
           usual_field(Field::data_offsets, ',', ahead, entry);
  }

  ST_ALWAYS_INLINE bool fields_in_any_order(Lookahead& ahead, UsualEntry& entry) {
    unsigned seen = 0;
    return new_field('{', seen, ahead, entry) && new_field(',', seen, ahead, entry) &&
           new_field(',', seen, ahead, entry);
  }

  ST_ALWAYS_INLINE bool new_field(char before, unsigned& seen, Lookahead& ahead, UsualEntry& entry) {
    const Field field = ahead.field(1);
    const bool again = (seen & bit_of(field)) != 0;
    seen |= bit_of(field);
    return !again && usual_field(field, before, ahead, entry);
  }

  ST_ALWAYS_INLINE bool usual_field(Field field, char before, Lookahead& ahead, UsualEntry& entry) {
    if (!ahead.is(0, before) || ahead.field(1) != field) return false;
    ahead.skip(3);
    switch (field) {
      case Field::dtype: return usual_dtype(ahead, entry);
      case Field::shape: return usual_shape(ahead, entry);
      case Field::data_offsets: return usual_offsets(ahead, entry);
      case Field::unknown: break;
    }
    return false;
  }

  ST_ALWAYS_INLINE bool usual_dtype(Lookahead& ahead, UsualEntry& entry) {
    if (!ahead.is(0, '"')) return false;
    entry.dtype = ahead.dtype(0);
    ahead.skip(1);
    return entry.dtype != Dtype::unknown;
  }

  ST_ALWAYS_INLINE bool usual_shape(Lookahead& ahead, UsualEntry& entry) {
    if (!ahead.is(0, '[')) return false;
    if (ahead.is(1, ']')) {
      ahead.skip(2);
      return true;
    }
    do {
      if (entry.rank == kFew || !ahead.number(1, entry.dims[entry.rank])) return false;
      ++entry.rank;
      ahead.skip(2);
    } while (ahead.is(0, ','));
    if (!ahead.is(0, ']')) return false;
    ahead.skip(1);
    return true;
  }

  ST_ALWAYS_INLINE bool usual_offsets(Lookahead& ahead, UsualEntry& entry) {
    if (!ahead.is(0, '[') || !usual_begin(ahead, entry.begin) || !ahead.is(2, ',')) return false;
    entry.end_text = ahead.at(3);
    if (!ahead.number(3, entry.end) || !ahead.is(4, ']')) return false;
    ahead.skip(5);
    return true;
  }

  // Most tensors begin where the previous one ends. Comparing digits is faster than parsing them.
  ST_ALWAYS_INLINE bool usual_begin(const Lookahead& ahead, std::uint64_t& begin) const {
    const auto digits = static_cast<std::size_t>(ahead.at(2) - ahead.at(1));
    begin = end_;
    const bool same = same_short_text(ahead.at(1), end_text_, digits) && !json::is_digit(end_text_[digits]);
    return same || ahead.number(1, begin);
  }

  // ---- the grammar of an entry ------------------------------------------------------------------------------------

  void member() {
    const char* const place = in_.behind();
    const std::string_view name = in_.string();
    in_.expect(':');
    if (name == "__metadata__") {
      metadata(place);
    } else {
      tensor(name);
    }
  }

  // ---- tensors ----------------------------------------------------------------------------------------------------

  void tensor(std::string_view name) {
    terminate(name);
    Tensor& tensor = add_tensor(name);
    in_.tensor = name;
    faulty_ = 0;
    if (in_.peek() == '[' && options_.rules == Rules::reference) {
      entry_as_array(tensor);
    } else {
      entry(tensor);
    }
    if (faulty_ != 0) {
      forget_faulty(tensor);
    } else if (tensor.dtype() == Dtype::unknown) {
      keep_dtype_name(tensor);
    }
    in_.tensor = {};
  }

  void more_tensors() {
    const std::size_t expected = in_.expected_items(table_.tensors.size(), kLeastEntry);
    table_.tensors.reserve(expected);
    if (hashes_ != nullptr) hashes_->reserve(expected);
  }

  Tensor& add_tensor(std::string_view name) {
    auto& tensors = table_.tensors;
    if (tensors.size() == tensors.capacity()) more_tensors();
    if (hashes_ != nullptr) hashes_->push_back(NameIndex<Tensor>::hash(name, options_.seed));
    Tensor& tensor = tensors.emplace_back();
    tensor.owner = options_.owner;
    tensor.name_text = name.data();
    tensor.name_bytes = static_cast<std::uint32_t>(name.size()) & 0x7FFFFFF;
    return tensor;
  }

  void entry(Tensor& tensor) {
    const char* const begin = in_.at();
    if (!in_.take('{')) {
      faulty_ = kEveryField;
      return wrong_type(kInHeader, "entry is not an object");
    }
    unsigned seen = 0;
    if (!in_.take('}')) {
      do {
        const char* const place = in_.behind();
        const Field field = field_name();
        const unsigned bit = bit_of(field);
        if ((seen & bit) != 0) twice(place, kFieldNames[static_cast<std::size_t>(field)]);
        seen |= bit;
        value(field, tensor);
      } while (in_.take(','));
      in_.expect('}');
    }
    if (seen != kEveryField) missing(seen, begin);
  }

  // Only under the reference's rules: ["F32",[1],[0,4]].
  void entry_as_array(Tensor& tensor) {
    const char* const place = in_.at();
    in_.expect('[');
    if (in_.take(']')) {
      faulty_ = kEveryField;
      return fault(place, "entry is an empty array");
    }
    for (const Field field : {Field::dtype, Field::shape, Field::data_offsets}) {
      if (field != Field::dtype && !in_.take(',')) {
        faulty_ = kEveryField;
        fault(place, "entry given as an array of fewer than three values");
        break;
      }
      value(field, tensor);
    }
    if (in_.peek() == ',') {
      field_ = Field::unknown;
      fault(place, "entry given as an array of more than three values");
      skip_more_values(kInEntry);
    }
    in_.expect(']');
  }

  // A field's name and its colon.
  Field field_name() {
    const std::string_view name = in_.string();
    in_.expect(':');
    const auto known = std::find(kFieldNames.begin(), kFieldNames.end(), name);
    return known == kFieldNames.end() ? Field::unknown : static_cast<Field>(known - kFieldNames.begin());
  }

  void value(Field field, Tensor& tensor) {
    field_ = field;
    switch (field) {
      case Field::dtype: return dtype(tensor);
      case Field::shape: return shape(tensor);
      case Field::data_offsets: return data_offsets(tensor);
      case Field::unknown: return in_.skip_value(kInEntry);
    }
  }

  ST_COLD void forget_faulty(Tensor& tensor) const {
    static constexpr std::uint64_t kNone = 0;
    tensor.dtype_number = static_cast<std::uint32_t>(Dtype::unknown) & 0x1F;
    tensor.rank = 0;
    tensor.dims = (faulty_ & bit_of(Field::data_offsets)) != 0 ? nullptr : &kNone;
  }

  void dtype(Tensor& tensor) {
    const char first = in_.peek();
    if (first == '{' && options_.rules == Rules::reference) return dtype_as_map(tensor);
    if (first != '"') return wrong_type(kInEntry, "dtype is not a string");
    const char* const place = in_.at();
    store_dtype(in_.string(), place, tensor);
  }

  void store_dtype(std::string_view name, const char* place, Tensor& tensor) {
    const Dtype dtype = dtype_from_name(name);
    tensor.dtype_number = static_cast<std::uint32_t>(dtype) & 0x1F;
    if (dtype != Dtype::unknown) return;
    // st_tensor_dtype_name() returns no length, so "F32\u0000x" would become F32.
    const bool holds_nul = name.find('\0') != name.npos;
    if (!options_.unknown_dtypes || holds_nul) {
      return report(Status::dtype, place, "dtype " + in_quotes(name) + " is unknown");
    }
    terminate(name);
    unknown_dtype_ = name;
  }

  // Only under the reference's rules: {"F32":null}.
  void dtype_as_map(Tensor& tensor) {
    const char* const place = in_.at();
    in_.expect('{');
    if (in_.take('}')) return fault(place, "dtype is an empty object");
    store_dtype(in_.string(), place, tensor);
    in_.expect(':');
    const bool null = in_.peek() == 'n';
    in_.skip_value(kInEntry + 1);
    if (!null) fault(place, "dtype is an object with a value");
    if (in_.peek() == ',') fault(place, "dtype is an object with two members");
    while (in_.take(',')) {
      in_.string();
      in_.expect(':');
      in_.skip_value(kInEntry + 1);
    }
    in_.expect('}');
  }

  // The commas before the bracket give an upper bound for the number of dimensions, so one allocation is enough. A long
  // shape gets its own allocation, so the rest of the block stays available for other shapes.
  void shape(Tensor& tensor) {
    if (!in_.take('[')) return wrong_type(kInEntry, "shape is not an array");
    const char* const begin = in_.at();
    const std::string_view rest(begin, static_cast<std::size_t>(in_.tokens.text_end - begin));
    const std::string_view inside = rest.substr(0, rest.find(']'));
    const auto room = static_cast<std::size_t>(std::count(inside.begin(), inside.end(), ',')) + 2;
    std::uint64_t* const dims = room > kLongShape ? new_words(room) : words(room);
    std::size_t rank = 0;
    if (in_.peek() != ']') {
      do {
        if (!dimension("shape", dims[rank++])) [[unlikely]] {
          check_more_dimensions();
          break;
        }
      } while (in_.take(','));
    }
    in_.expect(']');
    tensor.dims = dims;
    tensor.rank = static_cast<std::uint32_t>(rank);
    if (room <= kLongShape) words_ = dims + rank + 1;  // the last one is for keep_dtype_name()
  }

  // After a value that is not an integer, the shape may have more values than there is room for.
  ST_COLD void check_more_dimensions() {
    for (std::uint64_t unused = 0; in_.take(',');) dimension("shape", unused);
  }

  // Returns words_ with room for at least n words. The caller moves words_ past the words that it uses.
  ST_ALWAYS_INLINE std::uint64_t* words(std::size_t n) {
    if (static_cast<std::size_t>(words_end_ - words_) < n) [[unlikely]]
      more_words(n);
    return words_;
  }

  void more_words(std::size_t n) {
    const auto text_bytes = static_cast<std::size_t>(in_.tokens.text_end - in_.tokens.text_begin);
    const std::size_t block = std::max<std::size_t>(n, std::min<std::size_t>(512, text_bytes / 32 + 16));
    words_ = new_words(block);
    words_end_ = words_ + block;
  }

  std::uint64_t* new_words(std::size_t n) {
    return static_cast<std::uint64_t*>(table_.arena.allocate(n * sizeof *words_, alignof(std::uint64_t)));
  }

  void data_offsets(Tensor& tensor) {
    const char* const place = in_.behind();
    if (!in_.take('[')) return wrong_type(kInEntry, "data_offsets is not an array");
    if (in_.take(']')) return fault(place, "data_offsets is empty");
    dimension("data_offsets", tensor.begin);
    if (!in_.take(',')) {
      in_.expect(']');
      return fault(place, "data_offsets has one value, not two");
    }
    dimension("data_offsets", tensor.end);
    if (in_.peek() == ',') {
      fault(place, "data_offsets has more than two values");
      skip_more_values(kInEntry + 1);
    }
    in_.expect(']');
  }

  // Stores the name's address in the word after the dimensions: see Tensor::dtype_name().
  void keep_dtype_name(const Tensor& tensor) const {
    const_cast<std::uint64_t*>(tensor.dims)[tensor.rank] = reinterpret_cast<std::uintptr_t>(unknown_dtype_.data());
  }

  // Reports an error and returns false if the value is not an integer.
  bool dimension(const char* field, std::uint64_t& number) {
    if (in_.integer(number)) return true;
    wrong_type(kInEntry + 1, formatted("{} contains a value that is not an integer from 0 to 2^64-1", field));
    return false;
  }

  // ---- metadata ---------------------------------------------------------------------------------------------------

  void metadata(const char* place) {
    if (metadata_seen_) {
      report(Status::duplicate, place, "__metadata__ occurs twice");
      return in_.skip_value(kInHeader);
    }
    metadata_seen_ = true;
    if (in_.peek() == 'n' && options_.rules != Rules::strict) return in_.skip_value(kInHeader);
    if (!in_.take('{')) return wrong_type(kInHeader, "__metadata__ is not an object");
    table_.has_metadata = true;
    if (in_.take('}')) return;
    do {
      const std::string_view key = in_.string();
      in_.expect(':');
      std::string_view value;
      if (in_.peek() == '"') {
        value = in_.string();
        terminate(value);
      } else {
        wrong_type(kInEntry, "__metadata__ contains a value that is not a string, at key " + in_quotes(key));
      }
      terminate(key);
      table_.metadata.push_back({key, value});
    } while (in_.take(','));
    in_.expect('}');
  }

  // ---- helpers ----------------------------------------------------------------------------------------------------

  // Terminates a string by overwriting its closing quote with a NUL.
  static void terminate(std::string_view string) { const_cast<char*>(string.data())[string.size()] = '\0'; }

  // Skips the remaining values of an array with too many values.
  ST_COLD void skip_more_values(unsigned depth) {
    while (in_.take(',')) in_.skip_value(depth);
  }

  // The next three return only if errors are collected.
  ST_COLD void report(Status status, const char* place, std::string_view what) {
    faulty_ |= bit_of(field_);
    faults_.report(in_.fault_at(status, place, what), in_.tensor);
  }
  ST_COLD void fault(const char* place, std::string_view what) { report(Status::schema, place, what); }
  // Skips the next value, and throws if it is not JSON.
  ST_COLD void wrong_type(unsigned depth, std::string_view what) {
    const char* const place = in_.at();
    in_.skip_value(depth);
    fault(place, what);
  }

  ST_COLD void twice(const char* place, std::string_view field) {
    field_ = Field::unknown;  // its value is yet to come
    report(Status::duplicate, place, formatted("{} occurs twice", field));
  }

  ST_COLD void missing(unsigned seen, const char* place) {
    field_ = Field::unknown;
    faulty_ |= kEveryField & ~seen;
    for (std::size_t i = 0; i < kFieldNames.size(); ++i) {
      if ((seen >> i & 1U) == 0) fault(place, formatted("has no {}", kFieldNames[i]));
    }
  }

  json::Cursor in_;
  const HeaderOptions& options_;
  Table& table_;
  FaultSink& faults_;
  NameHashes* hashes_;
  Field field_ = Field::unknown;  // of the current value
  unsigned faulty_ = 0;           // fields of this entry with unknown values, as bits
  std::uint64_t* words_ = nullptr;
  std::uint64_t* words_end_ = nullptr;
  std::string_view unknown_dtype_;
  const char* end_text_ = kZero.data();  // the digits of the previous tensor's end, where most tensors begin
  std::uint64_t end_ = 0;
  bool metadata_seen_ = false;
};

}  // namespace

bool parse_header(std::span<char> header, const HeaderOptions& options, Table& table, FaultSink& faults,
                  NameHashes* hashes) {
  if (faults.collects()) {
    faults.report_from([&] { require_utf8({header.data(), header.size()}, kLengthBytes, "header"); });
  }
  return HeaderParser(header, options, table, faults, hashes).read();
}

}  // namespace st::format::safetensors
