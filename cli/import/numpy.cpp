// Reads numpy's files: .npy (one array) and .npz (a zip archive of .npy files).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/dtype.hpp"
#include "error.hpp"
#include "formats.hpp"
#include "storage.hpp"

namespace cli::importer {
namespace {

struct NumpyHeader {
  std::string type;  // for example "<f4"; "V" for records
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
      if (literal.take("[")) {
        header.type = "|V";
        return header;  // ignore the rest
      }
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

// Returns the kind of elements if they are not numbers.
std::string_view other_content(const std::string& type) {
  switch (type.size() < 2 ? '\0' : type[1]) {
    case 'O': return "Python objects";
    case 'S':
    case 'U': return "strings";
    case 'V': return type.size() == 2 ? "records" : "";  // |V2: a dtype from another package, such as bfloat16
    case 'M':
    case 'm': return "dates and times";
    default: return {};
  }
}

st_dtype dtype_of(const std::string& type, const std::string& array, std::uint64_t at) {
  const std::string_view name = std::string_view(type).substr(std::min<std::size_t>(type.size(), 1));
  if (type.starts_with('>'))
    fail_unsupported(at, "array '{}' ({}): unsupported byte order 'big' (supported: little)", array, type);
  const auto known = std::ranges::find(st::kDtypes, name, &st::DtypeInfo::numpy);
  const bool has_order = type.starts_with('<') || (type.starts_with('|') && name.ends_with('1'));
  if (name.empty() || known == st::kDtypes.end() || !has_order) {
    fail_unsupported(at, "array '{}': safetensors has no dtype for numpy's {}", array, type);
  }
  return static_cast<st_dtype>(known->dtype);
}

// Returns the header's text, and leaves the reader at the first element.
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

// Adds the array. If its elements are not numbers, adds nothing and returns their kind.
std::string_view add_array(Checkpoint& checkpoint, Storage storage, const std::string& name) {
  StorageReader reader(*checkpoint.input, storage, 0, storage.bytes);
  const NumpyHeader header = read_numpy_header(read_header_text(reader, storage.begin), storage.begin);
  if (const std::string_view content = other_content(header.type); !content.empty()) return content;
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
  add_tensor(checkpoint, std::move(tensor), storage.begin);
  checkpoint.storages.push_back(std::move(storage));
  return {};
}

}  // namespace

void read_npy(Checkpoint& checkpoint, const std::string& name) {
  const std::uint64_t size = checkpoint.input->size();
  const std::string_view other = add_array(checkpoint, {name, 0, size, size, false, {}}, name);
  if (!other.empty()) fail_unsupported(0, "the array contains {}", other);
}

void read_npz(Checkpoint& checkpoint, const std::vector<ZipEntry>& entries) {
  for (const ZipEntry& entry : entries) {
    const std::string name = entry.name.substr(0, entry.name.size() - kExtension.size());
    const std::string_view other = add_array(checkpoint, storage_of(entry), name);
    if (!other.empty()) leave_out(checkpoint, name, other);
  }
  if (checkpoint.tensors.empty() && checkpoint.left_out > 0) {
    fail_unsupported(kNoOffset, "all arrays contain {}", checkpoint.left_out_classes.front());
  }
}

}  // namespace cli::importer
