// Reads numpy's files: .npy (one array) and .npz (a zip archive of .npy files).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "error.hpp"
#include "formats.hpp"
#include "storage.hpp"

namespace cli::importer {
namespace {

struct NumpyHeader {
  std::string type;  // for example "<f4"
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// Parses the header of a .npy: a Python dictionary with three keys.
class Literal {
 public:
  Literal(std::string_view text, std::uint64_t offset) : text_(text), offset_(offset) {}

  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(token);
  }
  std::string_view string() {
    expect("'");
    const std::size_t end = text_.find('\'');
    if (end == text_.npos) fail("'");
    const std::string_view value = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return value;
  }
  std::uint64_t number() {
    skip_spaces();
    std::uint64_t value = 0;
    const auto result = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (result.ec != std::errc()) fail("a size");
    text_.remove_prefix(static_cast<std::size_t>(result.ptr - text_.data()));
    take("L");  // Python 2's suffix
    return value;
  }
  bool boolean() {
    if (take("True")) return true;
    expect("False");
    return false;
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect("(");
    while (!take(")")) {
      values.push_back(number());
      if (take(")")) break;
      expect(",");
    }
    return values;
  }
  bool at_end() {
    skip_spaces();
    return text_.empty();
  }
  [[noreturn]] void fail(std::string_view expected) const {
    importer::fail(offset_, "numpy header: expected {} before '{}'", expected, text_.substr(0, 20));
  }

 private:
  void skip_spaces() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n"), text_.size())); }

  std::string_view text_;
  std::uint64_t offset_;
};

NumpyHeader read_numpy_header(std::string_view text, std::uint64_t offset) {
  NumpyHeader header;
  Literal literal(text, offset);
  unsigned seen = 0;
  literal.expect("{");
  while (!literal.take("}")) {
    const std::string_view key = literal.string();
    literal.expect(":");
    unsigned bit = 0;
    if (key == "descr") {
      if (literal.take("[")) fail(offset, "numpy header: arrays of records are not supported");
      header.type = literal.string();
      bit = 1;
    } else if (key == "fortran_order") {
      header.fortran_order = literal.boolean();
      bit = 2;
    } else if (key == "shape") {
      header.shape = literal.tuple();
      bit = 4;
    }
    if (bit == 0 || (seen & bit) != 0) fail(offset, "numpy header: unknown or duplicate key '{}'", key);
    seen |= bit;
    if (!literal.take(",")) {
      literal.expect("}");
      break;
    }
  }
  if (seen != 7 || !literal.at_end()) fail(offset, "numpy header: incomplete, or text after its end");
  return header;
}

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kExtension = ".npy";
constexpr std::size_t kLongestHeader = 1 << 20;

struct NumpyType {
  std::string_view name;  // without the byte order
  st_dtype dtype;
};
constexpr std::array<NumpyType, 13> kTypes{{{"b1", ST_BOOL},
                                            {"u1", ST_U8},
                                            {"i1", ST_I8},
                                            {"u2", ST_U16},
                                            {"i2", ST_I16},
                                            {"u4", ST_U32},
                                            {"i4", ST_I32},
                                            {"u8", ST_U64},
                                            {"i8", ST_I64},
                                            {"f2", ST_F16},
                                            {"f4", ST_F32},
                                            {"f8", ST_F64},
                                            {"c8", ST_C64}}};

st_dtype dtype_of(const std::string& type, const std::string& array, std::uint64_t at) {
  const std::string_view name = std::string_view(type).substr(std::min<std::size_t>(type.size(), 1));
  if (name.starts_with('O')) fail(at, "array '{}' contains Python objects, which need a pickle", array);
  if (type.starts_with('>'))
    fail_unsupported(at, "array '{}' ({}): unsupported byte order 'big' (supported: little)", array, type);
  const auto known = std::ranges::find(kTypes, name, &NumpyType::name);
  const bool has_order = type.starts_with('<') || (type.starts_with('|') && name.ends_with('1'));
  if (known == kTypes.end() || !has_order) {
    fail_unsupported(at, "array '{}': safetensors has no dtype for numpy's {}", array, type);
  }
  return known->dtype;
}

// Returns the text of the header, and leaves the reader at the first element.
std::string read_header_text(StorageReader& reader, std::uint64_t at) {
  const auto read = [&](void* to, std::size_t n) {
    if (reader.read(to, n) != n) fail(at, "numpy header: incomplete");
  };
  std::array<unsigned char, 8> begin{};
  read(begin.data(), begin.size());
  if (!std::equal(kMagic.begin(), kMagic.end(), begin.begin(),
                  [](char a, unsigned char b) { return static_cast<unsigned char>(a) == b; })) {
    fail(at, "not a numpy array");
  }
  const unsigned version = begin[6];
  if (version < 1 || version > 3) fail(at, "unsupported .npy version {} (supported: 1, 2, 3)", version);
  std::array<unsigned char, 4> length{};
  read(length.data(), version == 1 ? 2 : 4);
  const std::size_t bytes =
      length[0] | std::size_t{length[1]} << 8 | std::size_t{length[2]} << 16 | std::size_t{length[3]} << 24;
  if (bytes > kLongestHeader) fail(at, "numpy header: {} bytes (limit: {})", bytes, kLongestHeader);
  std::string text(bytes, '\0');
  read(text.data(), text.size());
  return text;
}

std::vector<std::uint64_t> column_major(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t i = 1; i < shape.size(); ++i) strides[i] = strides[i - 1] * shape[i - 1];
  return strides;
}

void add_array(Checkpoint& checkpoint, const Input& input, Storage storage, const std::string& name) {
  StorageReader reader(input, storage, 0, storage.bytes);
  const NumpyHeader header = read_numpy_header(read_header_text(reader, storage.begin), storage.begin);
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = dtype_of(header.type, name, storage.begin);
  tensor.element = st_dtype_bits(tensor.dtype) / 8;
  tensor.shape = header.shape;
  tensor.strides = header.fortran_order ? column_major(header.shape) : row_major(header.shape);
  tensor.storage = checkpoint.storages.size();
  // The header's length is not always a multiple of the element size.
  Storage elements = storage;
  elements.bytes -= reader.position();
  place(tensor, 0, elements, storage.begin);
  if (tensor.bytes != elements.bytes) {
    fail(storage.begin, "array '{}' has {} bytes, but its header expects {}", name, elements.bytes, tensor.bytes);
  }
  tensor.begin += reader.position();
  tensor.end += reader.position();
  checkpoint.storages.push_back(std::move(storage));
  checkpoint.tensors.push_back(std::move(tensor));
}

}  // namespace

Checkpoint read_npy(std::unique_ptr<const Input> input, const std::string& name) {
  Checkpoint checkpoint;
  add_array(checkpoint, *input, {name, 0, input->size(), input->size(), false, {}}, name);
  checkpoint.input = std::move(input);
  return checkpoint;
}

Checkpoint read_npz(std::unique_ptr<const Input> input, const std::vector<ZipEntry>& entries) {
  Checkpoint checkpoint;
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(kExtension)) fail(entry.begin, "zip: '{}' is not a {} file", entry.name, kExtension);
    add_array(checkpoint, *input, storage_of(entry), entry.name.substr(0, entry.name.size() - kExtension.size()));
  }
  checkpoint.input = std::move(input);
  return checkpoint;
}

}  // namespace cli::importer
