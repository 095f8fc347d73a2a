// One pass over the header's text. The functions are the productions of its grammar, from the object down to a
// dimension; each either stores what it met or throws with the place. One of them, usual_entry(), only looks whether an
// entry stands as nearly every writer spells it, and leaves the rest to the grammar.
// SPDX-License-Identifier: Apache-2.0
#include "format/parse.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace st::format {

namespace {

enum class Field : std::uint8_t { dtype, shape, data_offsets, unknown };

constexpr std::array<std::string_view, 3> kFieldNames{"dtype", "shape", "data_offsets"};
constexpr unsigned kEveryField = 0b111;
constexpr std::size_t kLeastEntry = 48;  // bytes, about
constexpr std::size_t kFew = 8;          // dimensions that a shape may have before it takes the long road
constexpr unsigned kInHeader = 1;        // containers open around a value of the header
constexpr unsigned kInEntry = 2;         // ... and around a value of an entry

// The dtype of the tensor before, as it was spelled. Neighbours mostly have the same, and bytes that have been read
// once from their opening to their closing quote mean the same again.
struct LastDtype {
  std::array<std::uint64_t, 2> text{};  // at first NULs, behind which no entry goes on
  std::array<std::uint64_t, 2> mask{UINT64_MAX, UINT64_MAX};
  std::uint32_t bytes = 0;
  std::uint32_t dtype_number = 0;

  [[gnu::always_inline]] bool stands_at(const char* place) const {
    static_assert(sizeof text <= kPadding);
    std::array<std::uint64_t, 2> there;
    std::memcpy(there.data(), place, sizeof there);
    return (((there[0] ^ text[0]) & mask[0]) | ((there[1] ^ text[1]) & mask[1])) == 0;
  }

  void set(const char* place, std::size_t size, std::uint32_t number) {
    if (size > sizeof text || number == 0) return;
    std::memcpy(text.data(), place, sizeof text);
    mask = {};
    std::memset(mask.data(), 0xFF, size);
    bytes = static_cast<std::uint32_t>(size);
    dtype_number = number;
  }
};

class HeaderParser {
 public:
  HeaderParser(std::span<char> text, const HeaderOptions& options, Table& table)
      : json_(text, kLengthBytes, &table.arena), options_(options), table_(table) {}

  void header() {
    Scanner in(json_);
    const bool space = in.peek() != 0 && in.at() != json_.begin;
    if (space && options_.rules == Rules::strict) {
      json_.fail_here(Status::schema, kLengthBytes, "begins with white space, not with '{'");
    }
    if (!in.take('{')) wrong_type(in, 0, "is not an object");
    if (!in.take('}')) {
      do {
        member(in);
      } while (in.take(','));
      in.expect('}');
    }
    in.expect_end();
  }

 private:
  // What every tensor runs through takes the scanner by reference and is inlined into header(), where the scanner
  // lives in registers; the rest takes a copy and returns it.

  [[gnu::always_inline]] void member(Scanner& in) {
    const std::uint64_t offset = in.offset();
    const std::string_view name = in.string();
    in.expect(':');
    if (name == "__metadata__") {
      in = metadata(in, offset);
    } else {
      tensor(in, name);
    }
  }

  // ---- tensors -------------------------------------------------------------------------------------------------

  [[gnu::always_inline]] void tensor(Scanner& in, std::string_view name) {
    terminate(name);
    auto& tensors = table_.tensors;
    if (tensors.size() == tensors.capacity()) {
      tensors.reserve(json_.expected_items(tensors.size(), in.at(), kLeastEntry));
    }
    Tensor& tensor = tensors.emplace_back();
    tensor.shard = options_.shard;
    tensor.name_text = name.data();
    tensor.name_bytes = static_cast<std::uint32_t>(name.size()) & 0x7FFFFFF;
    if (usual_entry(in, tensor)) return;
    json_.tensor = name;
    if (in.peek() == '[' && options_.rules == Rules::reference) {
      in = entry_as_array(in, tensor);
    } else {
      entry(in, tensor);
    }
    if (tensor.dtype() == Dtype::unknown) keep_dtype_name();
    json_.tensor = {};
  }

  // A shortcut for the spelling of nearly every file: the fields in this order, no white space, the dtype of the tensor
  // before. It is no second grammar: whatever is not exactly so goes to entry() from the start, and so does all that is
  // wrong.
  [[gnu::always_inline]] bool usual_entry(Scanner& in, Tensor& tensor) {
    Scanner at = in;
    if (!at.take_exactly("{\"dtype\":") || !last_dtype_.stands_at(at.at())) return false;
    at.skip(last_dtype_.bytes);
    if (!at.take_exactly(",\"shape\":[")) return false;
    std::uint64_t* const dims = words(kFew + 1);
    std::size_t rank = 0;
    if (*at.at() != ']') {
      do {
        if (rank == kFew || !at.digits(dims[rank], dim_digits_[rank])) return false;
        ++rank;
      } while (at.take_exactly(","));
    }
    if (!at.take_exactly("],\"data_offsets\":[") || !at.digits(tensor.begin, begin_digits_) || !at.take_exactly(",") ||
        !at.digits(tensor.end, end_digits_) || !at.take_exactly("]}")) {
      return false;
    }
    tensor.dtype_number = last_dtype_.dtype_number & 0x1F;
    tensor.dims = dims;
    tensor.rank = static_cast<std::uint32_t>(rank);
    words_ = dims + rank;
    in = at;
    return true;
  }

  [[gnu::always_inline]] void entry(Scanner& in, Tensor& tensor) {
    const char* const begin = in.at();
    if (!in.take('{')) wrong_type(in, kInHeader, "entry is not an object");
    unsigned seen = 0;
    if (!in.take('}')) {
      do {
        const char* const place = in.at();
        const Field field = field_name(in);
        const unsigned bit = field == Field::unknown ? 0 : 1U << static_cast<unsigned>(field);
        if ((seen & bit) != 0) twice(place, kFieldNames[static_cast<std::size_t>(field)]);
        seen |= bit;
        value(in, field, tensor);
      } while (in.take(','));
      in.expect('}');
    }
    if (seen != kEveryField) missing(seen, begin);
  }

  // Only by the reference's rules: ["F32",[1],[0,4]].
  Scanner entry_as_array(Scanner in, Tensor& tensor) {
    const std::uint64_t offset = in.offset();
    in.expect('[');
    if (in.peek() == ']') json_.fail_here(Status::schema, offset, "entry is an empty array");
    for (const Field field : {Field::dtype, Field::shape, Field::data_offsets}) {
      if (field != Field::dtype && !in.take(',')) {
        json_.fail_here(Status::schema, offset, "entry given as an array of fewer than three values");
      }
      value(in, field, tensor);
    }
    if (in.peek() == ',') json_.fail_here(Status::schema, offset, "entry given as an array of more than three values");
    in.expect(']');
    return in;
  }

  // A field's name and its colon, in one comparison where nothing stands between them.
  [[gnu::always_inline]] static Field field_name(Scanner& in) {
    in.peek();
    if (in.take_exactly("\"dtype\":")) return Field::dtype;
    if (in.take_exactly("\"shape\":")) return Field::shape;
    if (in.take_exactly("\"data_offsets\":")) return Field::data_offsets;
    Field field{};
    in = any_field_name(in, field);
    return field;
  }

  static Scanner any_field_name(Scanner in, Field& field) {
    const std::string_view name = in.string();
    in.expect(':');
    const auto* const known = std::find(kFieldNames.begin(), kFieldNames.end(), name);
    field = known == kFieldNames.end() ? Field::unknown : static_cast<Field>(known - kFieldNames.begin());
    return in;
  }

  [[gnu::always_inline]] void value(Scanner& in, Field field, Tensor& tensor) {
    switch (field) {
      case Field::dtype: return dtype(in, tensor);
      case Field::shape: return shape(in, tensor);
      case Field::data_offsets: return data_offsets(in, tensor);
      case Field::unknown: return in.skip_value(kInEntry);
    }
  }

  [[gnu::always_inline]] void dtype(Scanner& in, Tensor& tensor) {
    const char first = in.peek();
    if (first == '{' && options_.rules == Rules::reference) {
      in = dtype_as_map(in, tensor);
      return;
    }
    if (first != '"') wrong_type(in, kInEntry, "dtype is not a string");
    const char* const place = in.at();
    store_dtype(in.string(), place, tensor);
    last_dtype_.set(place, static_cast<std::size_t>(in.at() - place), tensor.dtype_number);
  }

  void store_dtype(std::string_view name, const char* place, Tensor& tensor) {
    const Dtype dtype = dtype_from_name(name);
    tensor.dtype_number = static_cast<std::uint32_t>(dtype) & 0x1F;
    if (dtype == Dtype::unknown) keep_unknown_dtype(name, place);
  }

  void keep_unknown_dtype(std::string_view name, const char* place) {
    // st_tensor_dtype_name() has no length, so that "F32\u0000x" would read as F32.
    const bool holds_nul = name.find('\0') != name.npos;
    if (!options_.unknown_dtypes || holds_nul) {
      json_.fail_here(Status::dtype, json_.offset_of(place), "dtype " + quoted(name) + " is unknown");
    }
    terminate(name);
    unknown_dtype_ = name;
  }

  // Only by the reference's rules: {"F32":null}.
  Scanner dtype_as_map(Scanner in, Tensor& tensor) {
    const char* const place = in.at();
    const std::uint64_t offset = in.offset();
    in.expect('{');
    if (in.peek() == '}') json_.fail_here(Status::schema, offset, "dtype is an empty object");
    store_dtype(in.string(), place, tensor);
    in.expect(':');
    if (in.peek() != 'n') {
      in.skip_value(kInEntry + 1);
      json_.fail_here(Status::schema, offset, "dtype is an object with a value");
    }
    in.skip_value(kInEntry + 1);
    if (in.peek() == ',') json_.fail_here(Status::schema, offset, "dtype is an object with two members");
    in.expect('}');
    return in;
  }

  [[gnu::always_inline]] void shape(Scanner& in, Tensor& tensor) {
    if (!in.take('[')) wrong_type(in, kInEntry, "shape is not an array");
    std::uint64_t* const dims = words(kFew + 1);
    std::size_t rank = 0;
    bool more = in.peek() != ']';
    while (more && rank < kFew) {
      dims[rank++] = dimension(in, "shape");
      more = in.take(',');
    }
    tensor.dims = dims;
    if (more) {
      in = more_dimensions(in, tensor, rank);
      return;
    }
    in.expect(']');
    tensor.rank = static_cast<std::uint32_t>(rank);
    words_ = dims + rank;  // one more is there, for keep_dtype_name()
  }

  // A few dimensions go straight to the words at hand. Where there are more, the commas up to the bracket bound
  // their number: memory is taken once, for no more than the text can hold.
  Scanner more_dimensions(Scanner in, Tensor& tensor, std::size_t rank) {
    const auto* const close = std::find<const char*>(in.at(), json_.end, ']');
    const auto room = rank + static_cast<std::size_t>(std::count(in.at(), close, ',')) + 1;
    std::uint64_t* const dims = words(room + 1);
    std::copy_n(tensor.dims, rank, dims);
    do {
      dims[rank++] = dimension(in, "shape");
    } while (in.take(','));
    in.expect(']');
    tensor.dims = dims;
    tensor.rank = static_cast<std::uint32_t>(rank);
    words_ = dims + rank;
    return in;
  }

  // At least n words at words_, which the caller moves past what it used.
  std::uint64_t* words(std::size_t n) {
    if (static_cast<std::size_t>(words_end_ - words_) < n) {
      const std::size_t block = std::max<std::size_t>(
          n, std::min<std::size_t>(512, static_cast<std::size_t>(json_.end - json_.begin) / 32 + 16));
      words_ = static_cast<std::uint64_t*>(table_.arena.allocate(block * sizeof *words_, alignof(std::uint64_t)));
      words_end_ = words_ + block;
    }
    return words_;
  }

  [[gnu::always_inline]] void data_offsets(Scanner& in, Tensor& tensor) {
    const char* const place = in.at();
    if (!in.take('[')) wrong_type(in, kInEntry, "data_offsets is not an array");
    if (in.peek() == ']') json_.fail_here(Status::schema, json_.offset_of(place), "data_offsets is empty");
    tensor.begin = dimension(in, "data_offsets");
    if (!in.take(',')) {
      in.expect(']');
      json_.fail_here(Status::schema, json_.offset_of(place), "data_offsets has one value, not two");
    }
    tensor.end = dimension(in, "data_offsets");
    if (in.peek() == ',') {
      json_.fail_here(Status::schema, json_.offset_of(place), "data_offsets has more than two values");
    }
    in.expect(']');
  }

  // In the word behind the dimensions: see Tensor::dtype_name().
  void keep_dtype_name() { *words_++ = reinterpret_cast<std::uintptr_t>(unknown_dtype_.data()); }

  [[gnu::always_inline]] std::uint64_t dimension(Scanner& in, const char* field) {
    std::uint64_t number = 0;
    if (!in.integer(number)) not_an_integer(in, field);
    return number;
  }

  // ---- metadata ------------------------------------------------------------------------------------------------

  Scanner metadata(Scanner in, std::uint64_t offset) {
    if (metadata_seen_) json_.fail_here(Status::duplicate, offset, "__metadata__ is given twice");
    metadata_seen_ = true;
    if (in.peek() == 'n' && options_.rules != Rules::strict) {
      in.skip_value(kInHeader);
      return in;
    }
    if (!in.take('{')) wrong_type(in, kInHeader, "__metadata__ is not an object");
    table_.has_metadata = true;
    if (in.take('}')) return in;
    do {
      const std::string_view key = in.string();
      in.expect(':');
      if (in.peek() != '"')
        wrong_type(in, kInEntry, "__metadata__ holds a value that is not a string, at key " + quoted(key));
      const std::string_view value = in.string();
      terminate(key);
      terminate(value);
      table_.metadata.push_back({key, value});
    } while (in.take(','));
    in.expect('}');
    return in;
  }

  // ---- helpers -------------------------------------------------------------------------------------------------

  // Strings handed out end with a NUL; in the text, which is ours to write to, it takes the closing quote's place.
  static void terminate(std::string_view string) { const_cast<char*>(string.data())[string.size()] = '\0'; }

  // The value must still be JSON, or that is the error.
  [[noreturn, gnu::cold]] void wrong_type(Scanner in, unsigned depth, std::string_view what) const {
    in.peek();
    const std::uint64_t offset = in.offset();
    in.skip_value(depth);
    json_.fail_here(Status::schema, offset, what);
  }

  [[noreturn, gnu::cold]] void not_an_integer(Scanner in, const char* field) const {
    wrong_type(in, kInEntry + 1, fmt::format("{} holds a value that is not an integer from 0 to 2^64-1", field));
  }

  [[noreturn, gnu::cold]] void twice(const char* place, std::string_view field) const {
    json_.fail_here(Status::duplicate, json_.offset_of(place), fmt::format("{} is given twice", field));
  }

  [[noreturn, gnu::cold]] void missing(unsigned seen, const char* place) const {
    const auto first = static_cast<std::size_t>(std::countr_one(seen));
    json_.fail_here(Status::schema, json_.offset_of(place), fmt::format("has no {}", kFieldNames[first]));
  }

  JsonText json_;
  const HeaderOptions& options_;
  Table& table_;
  std::uint64_t* words_ = nullptr;
  std::uint64_t* words_end_ = nullptr;
  std::string_view unknown_dtype_;
  LastDtype last_dtype_;
  std::array<int, kFew> dim_digits_{};  // of the dimensions and offsets before
  int begin_digits_ = 0;
  int end_digits_ = 0;
  bool metadata_seen_ = false;
};

}  // namespace

void parse_header(std::span<char> header, const HeaderOptions& options, Table& table) {
  HeaderParser(header, options, table).header();
}

}  // namespace st::format
