// SPDX-License-Identifier: Apache-2.0
#include "numpy.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "numpy_header.hpp"
#include "refusal.hpp"
#include "storage_reader.hpp"

namespace cli::legacy {
namespace {

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
  if (name.starts_with('O')) refuse(at, "array '{}' holds Python objects, which only a pickle can make", array);
  if (type.starts_with('>')) refuse_type(at, "array '{}' has numbers in the byte order 'big' ({})", array, type);
  const auto known = std::ranges::find(kTypes, name, &NumpyType::name);
  const bool has_order = type.starts_with('<') || (type.starts_with('|') && name.ends_with('1'));
  if (known == kTypes.end() || !has_order) {
    refuse_type(at, "array '{}': safetensors has no dtype for numpy's {}", array, type);
  }
  return known->dtype;
}

// Returns the text of the header. The reader is then at the first element.
std::string read_header_text(StorageReader& reader, std::uint64_t at) {
  const auto read = [&](void* to, std::size_t n) {
    if (reader.read(to, n) != n) refuse(at, "numpy header: is not complete");
  };
  std::array<unsigned char, 8> begin{};
  read(begin.data(), begin.size());
  if (!std::equal(kMagic.begin(), kMagic.end(), begin.begin(),
                  [](char a, unsigned char b) { return static_cast<unsigned char>(a) == b; })) {
    refuse(at, "is no array of numpy");
  }
  const unsigned version = begin[6];
  if (version < 1 || version > 3) refuse(at, "numpy header: has version {}", version);
  std::array<unsigned char, 4> length{};
  read(length.data(), version == 1 ? 2 : 4);
  const std::size_t bytes =
      length[0] | std::size_t{length[1]} << 8 | std::size_t{length[2]} << 16 | std::size_t{length[3]} << 24;
  if (bytes > kLongestHeader) refuse(at, "numpy header: has {} bytes, {} are the limit", bytes, kLongestHeader);
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
  // The elements begin behind the header, which need not be a whole number of elements.
  Storage elements = storage;
  elements.bytes -= reader.position();
  place(tensor, 0, elements, storage.begin);
  if (tensor.bytes != elements.bytes) {
    refuse(storage.begin, "array '{}' has {} bytes, its header tells of {}", name, elements.bytes, tensor.bytes);
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
    if (!entry.name.ends_with(kExtension)) refuse(entry.begin, "zip: '{}' is no {}", entry.name, kExtension);
    add_array(checkpoint, *input, storage_of(entry), entry.name.substr(0, entry.name.size() - kExtension.size()));
  }
  checkpoint.input = std::move(input);
  return checkpoint;
}

}  // namespace cli::legacy
