// Reads numpy's files: .npy (one array) and .npz (a zip archive of .npy files).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "error.hpp"
#include "formats.hpp"
#include "npy_header.hpp"
#include "storage.hpp"

namespace cli::importer {
namespace {

constexpr std::string_view kNpyExtension = ".npy";

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

// As numpy decides: a file of another name may be an array too.
bool is_array(const Checkpoint& checkpoint, const ZipEntry& entry) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (entry.name.ends_with(kNpyExtension)) return true;
  if (entry.bytes < kMagic.size()) return false;
  std::array<char, kMagic.size()> begin{};
  StorageReader reader(*checkpoint.input, storage_of(entry), 0, begin.size());
  reader.read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == kMagic;
}

// Leaves the reader at the first element.
NpyHeader read_header(StorageReader& reader, std::uint64_t at) {
  try {
    return read_npy_header([&](void* to, std::size_t n) { return reader.read(to, n); });
  } catch (const NpyError& error) {
    fail(at, "{}", error.message);
  }
}

std::vector<std::uint64_t> column_major(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t i = 1; i < shape.size(); ++i) strides[i] = strides[i - 1] * shape[i - 1];
  return strides;
}

// Adds the array to the checkpoint. If its elements are not numbers, adds nothing and returns their kind.
std::string_view add_array(Checkpoint& checkpoint, Storage storage, const std::string& name) {
  StorageReader reader(*checkpoint.input, storage, 0, storage.bytes);
  const NpyHeader header = read_header(reader, storage.begin);
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

bool has_arrays(const Checkpoint& checkpoint, const std::vector<ZipEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const ZipEntry& entry) { return is_array(checkpoint, entry); });
}

void read_npz(Checkpoint& checkpoint, const std::vector<ZipEntry>& entries) {
  std::vector<const ZipEntry*> arrays;
  std::uint64_t unpacked = 0;
  for (const ZipEntry& entry : entries) {
    if (!is_array(checkpoint, entry)) {
      leave_out(checkpoint, entry.name, "");
      continue;
    }
    arrays.push_back(&entry);
    unpacked += std::min(entry.bytes, UINT64_MAX - unpacked);
  }
  // Check this before unpacking the headers, which can be a megabyte long.
  check_growth(*checkpoint.input, unpacked);
  for (const ZipEntry* const entry : arrays) {
    std::string name = entry->name;
    if (name.ends_with(kNpyExtension)) name.resize(name.size() - kNpyExtension.size());
    const std::string_view other = add_array(checkpoint, storage_of(*entry), name);
    if (!other.empty()) leave_out(checkpoint, name, other);
  }
  check_names(checkpoint, kUsage);
  if (checkpoint.tensors.empty() && !checkpoint.left_out_classes.empty()) {
    fail_unsupported(kNoOffset, "all arrays contain {}", checkpoint.left_out_classes.front());
  }
}

}  // namespace cli::importer
