// One pass over the header's text. The functions are the productions of its grammar, from the object down to a
// dimension; each either stores what it met or throws with the place. There is no second, faster grammar for the
// usual spelling: the known field names are compared as they usually stand, and everything else takes the same
// road one step later.
// SPDX-License-Identifier: Apache-2.0
#include "format/parse.hpp"

#include <algorithm>
#include <array>

namespace st::format {

namespace {

enum class Field : std::uint8_t { dtype, shape, data_offsets, unknown };

constexpr std::array<std::string_view, 3> kFieldNames{"dtype", "shape", "data_offsets"};
constexpr unsigned kEveryField = 0b111;
constexpr unsigned kInHeader = 1;  // containers open around a value of the header
constexpr unsigned kInEntry = 2;   // ... and around a value of an entry

class HeaderParser {
 public:
  HeaderParser(std::span<char> text, const HeaderOptions& options, Table& table)
      : in_(text, kLengthBytes, &table.arena), text_(text), options_(options), table_(table) {}

  void header() {
    const bool space = in_.peek() != 0 && in_.at() != in_.begin();
    if (space && options_.rules == Rules::strict) {
      in_.fail_here(Status::schema, kLengthBytes, "begins with white space, not with '{'");
    }
    if (!in_.take('{')) wrong_type(0, "is not an object");
    if (!in_.take('}')) {
      do {
        member();
      } while (in_.take(','));
      in_.expect('}');
    }
    in_.expect_end();
  }

 private:
  void member() {
    const std::uint64_t offset = in_.offset();
    const std::string_view name = in_.string();
    in_.expect(':');
    if (name == "__metadata__") {
      metadata(offset);
    } else {
      tensor(name);
    }
  }

  // ---- tensors -------------------------------------------------------------------------------------------------

  void tensor(std::string_view name) {
    terminate(name);
    in_.set_subject(name);
    make_room();
    Tensor& tensor = table_.tensors.emplace_back();
    tensor.shard = options_.shard;
    tensor.name_text = name.data();
    tensor.name_bytes = static_cast<std::uint32_t>(name.size()) & 0x7FFFFFF;
    if (in_.peek() == '[' && options_.rules == Rules::reference) {
      entry_as_array(tensor);
    } else {
      entry(tensor);
    }
    if (tensor.dtype() == Dtype::unknown) keep_dtype_name();
    in_.set_subject({});
  }

  // Reserves for all entries as soon as the first few have shown how long one is: growing step by step would copy
  // them, and memory that is never touched costs nothing.
  void make_room() {
    auto& tensors = table_.tensors;
    if (tensors.size() < tensors.capacity()) return;
    const auto read = static_cast<double>(in_.at() - in_.begin());
    const auto all = static_cast<double>(text_.size());
    const double expected =
        tensors.empty() ? std::min(64.0, all / 48) : static_cast<double>(tensors.size()) * all / read;
    tensors.reserve(tensors.size() + 16 +
                    static_cast<std::size_t>((expected - static_cast<double>(tensors.size())) * 1.0625));
  }

  void entry(Tensor& tensor) {
    const std::uint64_t offset = in_.offset();
    if (!in_.take('{')) wrong_type(kInHeader, "entry is not an object");
    unsigned seen = 0;
    if (!in_.take('}')) {
      do {
        const std::uint64_t place = in_.offset();
        const Field field = field_name();
        in_.expect(':');
        const unsigned bit = field == Field::unknown ? 0 : 1U << static_cast<unsigned>(field);
        if ((seen & bit) != 0) twice(place, kFieldNames[static_cast<std::size_t>(field)]);
        seen |= bit;
        value(field, tensor);
      } while (in_.take(','));
      in_.expect('}');
    }
    if (seen != kEveryField) missing(seen, offset);
  }

  // Only by the reference's rules: ["F32",[1],[0,4]].
  void entry_as_array(Tensor& tensor) {
    const std::uint64_t offset = in_.offset();
    in_.expect('[');
    if (in_.peek() == ']') in_.fail_here(Status::schema, offset, "entry is an empty array");
    for (const Field field : {Field::dtype, Field::shape, Field::data_offsets}) {
      if (field != Field::dtype && !in_.take(',')) {
        in_.fail_here(Status::schema, offset, "entry given as an array of fewer than three values");
      }
      value(field, tensor);
    }
    if (in_.peek() == ',') in_.fail_here(Status::schema, offset, "entry given as an array of more than three values");
    in_.expect(']');
  }

  Field field_name() {
    if (in_.peek() != '"') in_.expect('"');
    if (in_.take_exactly("\"dtype\"")) return Field::dtype;
    if (in_.take_exactly("\"shape\"")) return Field::shape;
    if (in_.take_exactly("\"data_offsets\"")) return Field::data_offsets;
    const std::string_view name = in_.string();
    const auto* const known = std::find(kFieldNames.begin(), kFieldNames.end(), name);  // spelled with escapes
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
    const std::uint64_t offset = in_.offset();
    const bool as_map = first == '{' && options_.rules == Rules::reference;
    if (first != '"' && !as_map) wrong_type(kInEntry, "dtype is not a string");
    if (as_map) {
      in_.expect('{');
      if (in_.peek() == '}') in_.fail_here(Status::schema, offset, "dtype is an empty object");
    }
    const std::string_view name = in_.string();
    tensor.dtype_number = static_cast<std::uint32_t>(dtype_from_name(name)) & 0x1F;
    if (tensor.dtype() == Dtype::unknown) {
      if (!options_.unknown_dtypes) in_.fail_here(Status::dtype, offset, "dtype " + quoted(name) + " is unknown");
      terminate(name);
      unknown_dtype_ = name;
    }
    if (as_map) unit_of_map(offset);
  }

  // The rest of {"F32":null}.
  void unit_of_map(std::uint64_t offset) {
    in_.expect(':');
    if (in_.peek() != 'n') {
      in_.skip_value(kInEntry + 1);
      in_.fail_here(Status::schema, offset, "dtype is an object with a value");
    }
    in_.skip_value(kInEntry + 1);
    if (in_.peek() == ',') in_.fail_here(Status::schema, offset, "dtype is an object with two members");
    in_.expect('}');
  }

  // A few dimensions go straight to the words at hand. Where there are more, the commas up to the bracket bound
  // their number: memory is taken once, for no more than the text can hold.
  void shape(Tensor& tensor) {
    if (!in_.take('[')) wrong_type(kInEntry, "shape is not an array");
    constexpr std::size_t kFew = 8;
    std::uint64_t* dims = words(kFew + 1);
    std::size_t rank = 0;
    bool more = in_.peek() != ']';
    while (more && rank < kFew) {
      dims[rank++] = dimension("shape");
      more = in_.take(',');
    }
    if (more) {
      const auto* const close = std::find(in_.at(), in_.end(), ']');
      const auto room = rank + static_cast<std::size_t>(std::count(in_.at(), close, ',')) + 1;
      dims = std::copy_n(dims, rank, words(room + 1)) - rank;
      for (; more; more = in_.take(',')) dims[rank++] = dimension("shape");
    }
    in_.expect(']');
    tensor.dims = dims;
    tensor.rank = static_cast<std::uint32_t>(rank);
    words_ = dims + rank;  // one more is there, for keep_dtype_name()
  }

  // At least n words at words_, which the caller moves past what it used.
  std::uint64_t* words(std::size_t n) {
    if (static_cast<std::size_t>(words_end_ - words_) < n) {
      const std::size_t block = std::max<std::size_t>(n, std::min<std::size_t>(512, text_.size() / 32 + 16));
      words_ = static_cast<std::uint64_t*>(table_.arena.allocate(block * sizeof *words_, alignof(std::uint64_t)));
      words_end_ = words_ + block;
    }
    return words_;
  }

  void data_offsets(Tensor& tensor) {
    const std::uint64_t offset = in_.offset();
    if (!in_.take('[')) wrong_type(kInEntry, "data_offsets is not an array");
    if (in_.peek() == ']') in_.fail_here(Status::schema, offset, "data_offsets is empty");
    tensor.begin = dimension("data_offsets");
    if (!in_.take(',')) {
      in_.expect(']');
      in_.fail_here(Status::schema, offset, "data_offsets has one value, not two");
    }
    tensor.end = dimension("data_offsets");
    if (in_.peek() == ',') in_.fail_here(Status::schema, offset, "data_offsets has more than two values");
    in_.expect(']');
  }

  // In the word behind the dimensions: see Tensor::dtype_name().
  void keep_dtype_name() { *words_++ = reinterpret_cast<std::uintptr_t>(unknown_dtype_.data()); }

  std::uint64_t dimension(const char* field) {
    std::uint64_t number = 0;
    if (!in_.integer(number)) not_an_integer(field);
    return number;
  }

  // ---- metadata ------------------------------------------------------------------------------------------------

  void metadata(std::uint64_t offset) {
    if (metadata_seen_) in_.fail_here(Status::duplicate, offset, "__metadata__ is given twice");
    metadata_seen_ = true;
    if (in_.peek() == 'n' && options_.rules != Rules::strict) return in_.skip_value(kInHeader);
    if (!in_.take('{')) wrong_type(kInHeader, "__metadata__ is not an object");
    table_.has_metadata = true;
    if (in_.take('}')) return;
    do {
      const std::string_view key = in_.string();
      in_.expect(':');
      if (in_.peek() != '"')
        wrong_type(kInEntry, "__metadata__ holds a value that is not a string, at key " + quoted(key));
      const std::string_view value = in_.string();
      terminate(key);
      terminate(value);
      table_.metadata.push_back({key, value});
    } while (in_.take(','));
    in_.expect('}');
  }

  // ---- helpers -------------------------------------------------------------------------------------------------

  // Strings handed out end with a NUL; in the text, which is ours to write to, it takes the closing quote's place.
  static void terminate(std::string_view string) { const_cast<char*>(string.data())[string.size()] = '\0'; }

  // The value must still be JSON, or that is the error.
  [[noreturn, gnu::cold]] void wrong_type(unsigned depth, std::string_view what) {
    in_.peek();
    const std::uint64_t offset = in_.offset();
    in_.skip_value(depth);
    in_.fail_here(Status::schema, offset, what);
  }

  [[noreturn, gnu::cold]] void not_an_integer(const char* field) {
    wrong_type(kInEntry + 1, fmt::format("{} holds a value that is not an integer from 0 to 2^64-1", field));
  }

  [[noreturn, gnu::cold]] void twice(std::uint64_t offset, std::string_view field) const {
    in_.fail_here(Status::duplicate, offset, fmt::format("{} is given twice", field));
  }

  [[noreturn, gnu::cold]] void missing(unsigned seen, std::uint64_t offset) const {
    const auto first = static_cast<std::size_t>(std::countr_one(seen));
    in_.fail_here(Status::schema, offset, fmt::format("has no {}", kFieldNames[first]));
  }

  Scanner in_;
  std::span<char> text_;
  const HeaderOptions& options_;
  Table& table_;
  std::uint64_t* words_ = nullptr;
  std::uint64_t* words_end_ = nullptr;
  std::string_view unknown_dtype_;
  bool metadata_seen_ = false;
};

}  // namespace

void parse_header(std::span<char> header, const HeaderOptions& options, Table& table) {
  HeaderParser(header, options, table).header();
}

}  // namespace st::format
