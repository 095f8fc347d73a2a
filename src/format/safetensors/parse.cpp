// One pass over the header's tokens. The functions are the productions of its grammar, from the object down to a
// dimension; each either stores what it met or throws with the place. One of them, usual_member(), only compares: an
// entry spelled as nearly every writer spells it is taken whole, and everything else is left to the grammar.
// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/parse.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/compiler.hpp"
#include "format/json/json_cursor.hpp"
#include "format/safetensors/usual_spelling.hpp"
#include "format/utf8.hpp"

namespace st::format::safetensors {

namespace {

enum class Field : std::uint8_t { dtype, shape, data_offsets, unknown };

constexpr std::array<std::string_view, 3> kFieldNames{"dtype", "shape", "data_offsets"};
constexpr unsigned kEveryField = 0b111;
constexpr std::size_t kLeastEntry = 48;  // bytes, about
constexpr std::size_t kFew = 8;          // dimensions of a usual shape, at most
constexpr std::size_t kLongShape = 64;   // words
constexpr unsigned kInHeader = 1;        // containers open around a value of the header
constexpr unsigned kInEntry = 2;         // ... and around a value of an entry

// Of the entry that is being read.
struct Places {
  const char* colon = nullptr;  // behind its name
  const char* dims = nullptr;
  const char* shape_end = nullptr;
  const char* begin = nullptr;
};

class HeaderParser {
 public:
  HeaderParser(std::span<char> text, const HeaderOptions& options, Table& table)
      : in_(text, kLengthBytes, &table.arena, options.window_bytes), options_(options), table_(table) {}

  void header() {
    if (options_.rules == Rules::strict && in_.peek() != 0 && in_.at() != in_.tokens.text_begin) {
      in_.fail_here(Status::schema, in_.tokens.text_begin, "begins with white space, not with '{'");
    }
    if (!in_.take('{')) in_.wrong_type(0, "is not an object");
    if (!in_.take('}')) {
      do {
        if (!usual_member()) member();
      } while (in_.take(','));
      in_.expect('}');
    }
    in_.expect_end();
  }

 private:
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
    if (in_.peek() == '[' && options_.rules == Rules::reference) {
      entry_as_array(tensor);
    } else {
      entry(tensor);
    }
    if (tensor.dtype() == Dtype::unknown) keep_dtype_name(tensor);
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

  // A shortcut: the fields in this order, with the white space and the dtype of the tensor before. It is no second
  // grammar: whatever is not exactly so goes to member() from the start, and so does all that is wrong. Behind the last
  // token all positions are equal, so a number read there has no digits and is refused. The last condition checks that
  // every token lies in the window.
  ST_ALWAYS_INLINE bool usual_member() {
    if (in_.peek() != '"' || !usual_.known) return false;
    std::uint32_t* token = in_.tokens.next;
    char* const text = in_.tokens.base;
    const char* const colon = text + token[1];
    const std::string_view name(text + token[0] + 1, token[1] - token[0] - 2);
    if (colon[-1] != '"' || colon > in_.tokens.plain_end || !usual_.opening.stands_at(colon) ||
        name == "__metadata__") {
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
    if (!usual_.middle.stands_at(text + *token)) return false;
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
    if (!in_.take('{')) in_.wrong_type(kInHeader, "entry is not an object");
    unsigned seen = 0;
    bool usual = true;
    if (!in_.take('}')) {
      do {
        const char* const place = in_.behind();
        const Field field = field_name();
        const unsigned bit = field == Field::unknown ? 0 : 1U << static_cast<unsigned>(field);
        if ((seen & bit) != 0) twice(place, kFieldNames[static_cast<std::size_t>(field)]);
        usual = usual && bit == seen + 1;  // dtype, shape, data_offsets
        seen |= bit;
        value(field, tensor);
      } while (in_.take(','));
      in_.expect('}');
    }
    if (seen != kEveryField) missing(seen, begin);
    if (usual && tensor.dtype() != Dtype::unknown) keep_spelling(tensor);
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
    if (in_.peek() == ']') in_.fail_here(Status::schema, place, "entry is an empty array");
    for (const Field field : {Field::dtype, Field::shape, Field::data_offsets}) {
      if (field != Field::dtype && !in_.take(',')) {
        in_.fail_here(Status::schema, place, "entry given as an array of fewer than three values");
      }
      value(field, tensor);
    }
    if (in_.peek() == ',') {
      in_.fail_here(Status::schema, place, "entry given as an array of more than three values");
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
    switch (field) {
      case Field::dtype: return dtype(tensor);
      case Field::shape: return shape(tensor);
      case Field::data_offsets: return data_offsets(tensor);
      case Field::unknown: return in_.skip_value(kInEntry);
    }
  }

  void dtype(Tensor& tensor) {
    const char first = in_.peek();
    if (first == '{' && options_.rules == Rules::reference) return dtype_as_map(tensor);
    if (first != '"') in_.wrong_type(kInEntry, "dtype is not a string");
    const char* const place = in_.at();
    store_dtype(in_.string(), place, tensor);
  }

  void store_dtype(std::string_view name, const char* place, Tensor& tensor) {
    const Dtype dtype = dtype_from_name(name);
    tensor.dtype_number = static_cast<std::uint32_t>(dtype) & 0x1F;
    if (dtype != Dtype::unknown) return;
    // st_tensor_dtype_name() has no length, so that "F32\u0000x" would read as F32.
    const bool holds_nul = name.find('\0') != name.npos;
    if (!options_.unknown_dtypes || holds_nul) {
      in_.fail_here(Status::dtype, place, "dtype " + in_quotes(name) + " is unknown");
    }
    terminate(name);
    unknown_dtype_ = name;
  }

  // Only by the reference's rules: {"F32":null}.
  void dtype_as_map(Tensor& tensor) {
    const char* const place = in_.at();
    places_.colon = nullptr;
    in_.expect('{');
    if (in_.peek() == '}') in_.fail_here(Status::schema, place, "dtype is an empty object");
    store_dtype(in_.string(), place, tensor);
    in_.expect(':');
    const bool null = in_.peek() == 'n';
    in_.skip_value(kInEntry + 1);
    if (!null) in_.fail_here(Status::schema, place, "dtype is an object with a value");
    if (in_.peek() == ',') in_.fail_here(Status::schema, place, "dtype is an object with two members");
    in_.expect('}');
  }

  // The commas up to the bracket bound the number of dimensions: memory is taken once, for no more than the text can
  // hold. A long shape has memory of its own, so that the rest of the block is not lost.
  void shape(Tensor& tensor) {
    if (!in_.take('[')) in_.wrong_type(kInEntry, "shape is not an array");
    places_.dims = in_.at();
    const std::string_view rest(places_.dims, static_cast<std::size_t>(in_.tokens.text_end - places_.dims));
    const std::string_view inside = rest.substr(0, rest.find(']'));
    const auto room = static_cast<std::size_t>(std::count(inside.begin(), inside.end(), ',')) + 2;
    std::uint64_t* const dims = room > kLongShape ? new_words(room) : words(room);
    std::size_t rank = 0;
    if (in_.peek() != ']') {
      do {
        dims[rank++] = dimension("shape");
      } while (in_.take(','));
    }
    places_.shape_end = in_.at();
    in_.expect(']');
    tensor.dims = dims;
    tensor.rank = static_cast<std::uint32_t>(rank);
    if (room <= kLongShape) words_ = dims + rank + 1;  // the last one is for keep_dtype_name()
  }

  // At least n words at words_, which the caller moves past what it used.
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
    if (!in_.take('[')) in_.wrong_type(kInEntry, "data_offsets is not an array");
    if (in_.peek() == ']') in_.fail_here(Status::schema, place, "data_offsets is empty");
    places_.begin = in_.at();
    tensor.begin = dimension("data_offsets");
    if (!in_.take(',')) {
      in_.expect(']');
      in_.fail_here(Status::schema, place, "data_offsets has one value, not two");
    }
    tensor.end = dimension("data_offsets");
    if (in_.peek() == ',') in_.fail_here(Status::schema, place, "data_offsets has more than two values");
    in_.expect(']');
  }

  // In the word behind the dimensions: see Tensor::dtype_name().
  void keep_dtype_name(const Tensor& tensor) const {
    const_cast<std::uint64_t*>(tensor.dims)[tensor.rank] = reinterpret_cast<std::uintptr_t>(unknown_dtype_.data());
  }

  std::uint64_t dimension(const char* field) {
    std::uint64_t number = 0;
    if (in_.integer(number)) return number;
    in_.wrong_type(kInEntry + 1, formatted("{} holds a value that is not an integer from 0 to 2^64-1", field));
  }

  // ---- metadata ---------------------------------------------------------------------------------------------------

  void metadata(const char* place) {
    if (metadata_seen_) in_.fail_here(Status::duplicate, place, "__metadata__ is given twice");
    metadata_seen_ = true;
    if (in_.peek() == 'n' && options_.rules != Rules::strict) return in_.skip_value(kInHeader);
    if (!in_.take('{')) in_.wrong_type(kInHeader, "__metadata__ is not an object");
    table_.has_metadata = true;
    if (in_.take('}')) return;
    do {
      const std::string_view key = in_.string();
      in_.expect(':');
      if (in_.peek() != '"') {
        in_.wrong_type(kInEntry, "__metadata__ holds a value that is not a string, at key " + in_quotes(key));
      }
      const std::string_view value = in_.string();
      terminate(key);
      terminate(value);
      table_.metadata.push_back({key, value});
    } while (in_.take(','));
    in_.expect('}');
  }

  // ---- helpers ----------------------------------------------------------------------------------------------------

  // Strings handed out end with a NUL; in the text, which is ours to write to, it takes the closing quote's place.
  static void terminate(std::string_view string) { const_cast<char*>(string.data())[string.size()] = '\0'; }

  [[noreturn]] ST_COLD void twice(const char* place, std::string_view field) const {
    in_.fail_here(Status::duplicate, place, formatted("{} is given twice", field));
  }

  [[noreturn]] ST_COLD void missing(unsigned seen, const char* place) const {
    const auto first = static_cast<std::size_t>(std::countr_one(seen));
    in_.fail_here(Status::schema, place, formatted("has no {}", kFieldNames[first]));
  }

  json::Cursor in_;
  const HeaderOptions& options_;
  Table& table_;
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

void parse_header(std::span<char> header, const HeaderOptions& options, Table& table) {
  try {
    HeaderParser(header, options, table).header();
  } catch (const Error&) {
    require_utf8({header.data(), header.size()}, kLengthBytes,
                 "header");  // all of it comes before any other fault
    throw;
  }
}

}  // namespace st::format::safetensors
