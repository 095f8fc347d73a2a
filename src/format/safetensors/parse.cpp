// One pass over the header's tokens. The functions are the productions of its grammar, from the object down to a
// dimension. Each stores its value or reports an error with its position: opening throws the first error, and a check
// collects them. After fault() returns, the production skips the faulty value. Text that is not JSON throws either way.
//
// usual_member() is a shortcut for entries spelled as nearly every writer spells them. It compares such an entry with
// the one before, and leaves everything else to the grammar.
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

// ---- how nearly every writer spells an entry ------------------------------------------------------------------------

// Compares 1 to 16 bytes. Returns false for any other length. May read 8 bytes past each text.
ST_ALWAYS_INLINE inline bool same_short_text(const char* a, const char* b, std::size_t bytes) {
  const auto differ = [a, b](std::size_t from) {
    std::uint64_t x = 0;
    std::uint64_t y = 0;
    std::memcpy(&x, a + from, 8);
    std::memcpy(&y, b + from, 8);
    return x ^ y;
  };
  if (bytes - 1 >= 8) return bytes - 1 < 16 && (differ(0) | differ(bytes - 8)) == 0;
  const unsigned others = 64 - 8 * static_cast<unsigned>(bytes);
  return (std::endian::native == std::endian::little ? differ(0) << others : differ(0) >> others) == 0;
}

// Compares two words. Compilers call memcmp instead if they consider the block cold.
ST_ALWAYS_INLINE inline bool same_16_bytes(const char* a, const char* b) {
  std::array<std::uint64_t, 2> x{};
  std::array<std::uint64_t, 2> y{};
  std::memcpy(x.data(), a, sizeof x);
  std::memcpy(y.data(), b, sizeof y);
  return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

// The text between two positions of the entry before. Neighbours mostly have the same dtype. The same bytes are the
// same tokens, so their number is known.
struct Spelling {
  std::array<char, 32> text{};
  std::size_t bytes = 16;  // at least 16, which is_at() needs

  ST_ALWAYS_INLINE bool is_at(const char* place) const {
    static_assert(sizeof text <= kPadding);
    const std::size_t rest = bytes - 16;
    return same_16_bytes(place, text.data()) && same_16_bytes(place + rest, text.data() + rest);
  }

  // Returns false if it is shorter than 16 or longer than 32 bytes.
  bool set(const char* begin, const char* end) {
    bytes = static_cast<std::size_t>(end - begin);
    if (bytes < 16 || bytes > text.size()) return false;
    std::copy(begin, end, text.data());
    return true;
  }
};

// The spelling that usual_member() compares an entry with.
struct UsualSpelling {
  static constexpr std::size_t kOpeningTokens = 9;
  static constexpr std::size_t kMiddleTokens = 5;

  bool known = false;  // an entry was read before
  Spelling opening;    // :{"dtype":"F32","shape":[
  Spelling middle;     // ],"data_offsets":[
  std::uint32_t dtype_number = 0;
};

// ---- the grammar ----------------------------------------------------------------------------------------------------

// Positions in the entry that is being read.
struct Places {
  const char* colon = nullptr;  // after its name
  const char* dims = nullptr;
  const char* shape_end = nullptr;
  const char* begin = nullptr;
};

class HeaderParser {
 public:
  HeaderParser(std::span<char> text, const HeaderOptions& options, Table& table, FaultSink& faults)
      : in_(text, kLengthBytes, &table.arena, options.window_bytes), options_(options), table_(table), faults_(faults) {
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
  // Returns false if it is not an object.
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
        if (!usual_member()) member();
      } while (in_.take(','));
      in_.expect('}');
    }
    in_.expect_end();
    return true;
  }

  void member() {
    const char* const place = in_.behind();
    const std::string_view name = in_.string();
    places_.colon = in_.at();
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

  ST_ALWAYS_INLINE Tensor& add_tensor(std::string_view name) {
    auto& tensors = table_.tensors;
    if (tensors.size() == tensors.capacity()) tensors.reserve(in_.expected_items(tensors.size(), kLeastEntry));
    Tensor& tensor = tensors.emplace_back();
    tensor.owner = options_.owner;
    tensor.name_text = name.data();
    tensor.name_bytes = static_cast<std::uint32_t>(name.size()) & 0x7FFFFFF;
    return tensor;
  }

  // Reads an entry with the fields in this order and the white space and dtype of the tensor before. This is not a
  // second grammar: it returns false, and consumes nothing, for any other or faulty entry. After the last token all
  // positions are equal, so a number there has no digits and is rejected. The last condition checks that every token is
  // in the window.
  ST_ALWAYS_INLINE bool usual_member() {
    if (in_.peek() != '"' || !usual_.known) return false;
    std::uint32_t* token = in_.tokens.next;
    char* const text = in_.tokens.base;
    const char* const colon = text + token[1];
    const std::string_view name(text + token[0] + 1, token[1] - token[0] - 2);
    if (colon[-1] != '"' || colon > in_.tokens.plain_end || !usual_.opening.is_at(colon) || name == "__metadata__") {
      return false;
    }
    token += 1 + UsualSpelling::kOpeningTokens;
    std::uint64_t* const dims = words(kFew + 1);
    std::size_t rank = 0;
    if (text[*token] != ']') {
      for (;; token += 2) {
        if (rank == kFew || !json::short_number(text + token[0], token[1] - token[0], dims[rank])) return false;
        ++rank;
        if (text[token[1]] != ',') break;
      }
      ++token;
    }
    if (!usual_.middle.is_at(text + *token)) return false;
    token += UsualSpelling::kMiddleTokens;
    static_assert(2 + UsualSpelling::kOpeningTokens + 2 * kFew + UsualSpelling::kMiddleTokens + 5 <=
                  json::kPositionsBehindTheLast);
    const char* const begin_text = text + token[0];
    const char* const end_text = text + token[2];
    const std::size_t begin_digits = token[1] - token[0];
    const std::size_t end_digits = token[3] - token[2];
    std::uint64_t begin = end_;
    std::uint64_t end = 0;
    if ((begin_digits != end_digits_ || !same_short_text(begin_text, end_text_, begin_digits)) &&
        !json::short_number(begin_text, begin_digits, begin)) {
      return false;
    }
    if (text[token[1]] != ',' || !json::short_number(end_text, end_digits, end) || text[token[3]] != ']' ||
        text[token[4]] != '}' || token + 5 > in_.tokens.last) {
      return false;
    }
    in_.tokens.next = token + 5;
    end_text_ = end_text;
    end_digits_ = end_digits;
    end_ = end;
    terminate(name);
    Tensor& tensor = add_tensor(name);
    tensor.dtype_number = usual_.dtype_number & 0x1F;
    tensor.begin = begin;
    tensor.end = end;
    tensor.dims = dims;
    tensor.rank = static_cast<std::uint32_t>(rank);
    words_ = dims + rank;
    return true;
  }

  void entry(Tensor& tensor) {
    const char* const begin = in_.at();
    if (!in_.take('{')) {
      faulty_ = kEveryField;
      return wrong_type(kInHeader, "entry is not an object");
    }
    unsigned seen = 0;
    bool usual = true;
    if (!in_.take('}')) {
      do {
        const char* const place = in_.behind();
        const Field field = field_name();
        const unsigned bit = bit_of(field);
        if ((seen & bit) != 0) twice(place, kFieldNames[static_cast<std::size_t>(field)]);
        usual = usual && bit == seen + 1;  // dtype, shape, data_offsets
        seen |= bit;
        value(field, tensor);
      } while (in_.take(','));
      in_.expect('}');
    }
    if (seen != kEveryField) missing(seen, begin);
    if (usual && tensor.dtype() != Dtype::unknown && faulty_ == 0) keep_spelling(tensor);
  }

  void keep_spelling(const Tensor& tensor) {
    if (places_.colon == nullptr) return;
    usual_.known =
        usual_.opening.set(places_.colon, places_.dims) && usual_.middle.set(places_.shape_end, places_.begin);
    usual_.dtype_number = tensor.dtype_number;
  }

  // Only by the reference's rules: ["F32",[1],[0,4]].
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
    // st_tensor_dtype_name() has no length, so "F32\u0000x" would become F32.
    const bool holds_nul = name.find('\0') != name.npos;
    if (!options_.unknown_dtypes || holds_nul) {
      return report(Status::dtype, place, "dtype " + in_quotes(name) + " is unknown");
    }
    terminate(name);
    unknown_dtype_ = name;
  }

  // Only by the reference's rules: {"F32":null}.
  void dtype_as_map(Tensor& tensor) {
    const char* const place = in_.at();
    places_.colon = nullptr;
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

  // The commas before the bracket give an upper bound of the number of dimensions, so one allocation is enough. A long
  // shape has its own allocation, which leaves the rest of the block to others.
  void shape(Tensor& tensor) {
    if (!in_.take('[')) return wrong_type(kInEntry, "shape is not an array");
    places_.dims = in_.at();
    const std::string_view rest(places_.dims, static_cast<std::size_t>(in_.tokens.text_end - places_.dims));
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
    places_.shape_end = in_.at();
    in_.expect(']');
    tensor.dims = dims;
    tensor.rank = static_cast<std::uint32_t>(rank);
    if (room <= kLongShape) words_ = dims + rank + 1;  // the last one is for keep_dtype_name()
  }

  // After a value that is not an integer, the shape may have more values than it has room for.
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
    places_.begin = in_.at();
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

  // Stores it in the word after the dimensions: see Tensor::dtype_name().
  void keep_dtype_name(const Tensor& tensor) const {
    const_cast<std::uint64_t*>(tensor.dims)[tensor.rank] = reinterpret_cast<std::uintptr_t>(unknown_dtype_.data());
  }

  // Returns false after reporting that it is not an integer.
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

  // Ends a string with a NUL, which replaces its closing quote in the text.
  static void terminate(std::string_view string) { const_cast<char*>(string.data())[string.size()] = '\0'; }

  // Skips the remaining values of an array that has too many.
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
  Field field_ = Field::unknown;  // of the value that is being read
  unsigned faulty_ = 0;           // fields of this entry with unknown values, as bits
  std::uint64_t* words_ = nullptr;
  std::uint64_t* words_end_ = nullptr;
  std::string_view unknown_dtype_;
  UsualSpelling usual_;
  Places places_;
  const char* end_text_ = nullptr;  // the digits of the last end, with which most tensors begin
  std::size_t end_digits_ = 0;
  std::uint64_t end_ = 0;
  bool metadata_seen_ = false;
};

}  // namespace

bool parse_header(std::span<char> header, const HeaderOptions& options, Table& table, FaultSink& faults) {
  if (faults.collects()) {
    faults.report_from([&] { require_utf8({header.data(), header.size()}, kLengthBytes, "header"); });
  }
  return HeaderParser(header, options, table, faults).read();
}

}  // namespace st::format::safetensors
