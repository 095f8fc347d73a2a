// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "error.hpp"
#include "formats.hpp"

namespace cli::importer {
namespace {

constexpr std::uint32_t kGgufMagic = 0x46554747;
constexpr std::uint64_t kMostPairs = 1'000'000;
constexpr std::uint32_t kMostGgufDimensions = 8;
constexpr std::uint64_t kLongestMetadata = 50'000'000;  // half the limit of a header
constexpr std::uint64_t kPairMemory = 300;
constexpr std::uint64_t kPairCopies = 4;  // copies of a key and value that exist until they are written
constexpr std::uint64_t kUsualAlignment = 32;
constexpr std::string_view kAlignment = "general.alignment";

struct GgufType {
  std::string_view name;
  st_dtype dtype = ST_DTYPE_UNKNOWN;
};
// Indexed by type number. Numbers without a name were withdrawn.
constexpr std::array<GgufType, 42> kTypes{{{"F32", ST_F32},
                                           {"F16", ST_F16},
                                           {"Q4_0"},
                                           {"Q4_1"},
                                           {},
                                           {},
                                           {"Q5_0"},
                                           {"Q5_1"},
                                           {"Q8_0"},
                                           {"Q8_1"},
                                           {"Q2_K"},
                                           {"Q3_K"},
                                           {"Q4_K"},
                                           {"Q5_K"},
                                           {"Q6_K"},
                                           {"Q8_K"},
                                           {"IQ2_XXS"},
                                           {"IQ2_XS"},
                                           {"IQ3_XXS"},
                                           {"IQ1_S"},
                                           {"IQ4_NL"},
                                           {"IQ3_S"},
                                           {"IQ2_S"},
                                           {"IQ4_XS"},
                                           {"I8", ST_I8},
                                           {"I16", ST_I16},
                                           {"I32", ST_I32},
                                           {"I64", ST_I64},
                                           {"F64", ST_F64},
                                           {"IQ1_M"},
                                           {"BF16", ST_BF16},
                                           {},
                                           {},
                                           {},
                                           {"TQ1_0"},
                                           {"TQ2_0"},
                                           {},
                                           {},
                                           {},
                                           {"MXFP4"},
                                           {"NVFP4"},
                                           {"Q1_0"}}};

enum PairType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };
constexpr std::array<std::uint64_t, 13> kPairBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

std::string read_text(Cursor& cursor) { return cursor.text(cursor.u64()); }

// Nested arrays are rejected, because no writer produces them.
void skip_array(Cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  const std::uint32_t type = cursor.u32();
  const std::uint64_t count = cursor.u64();
  if (type > f64 || type == array) fail(at, "gguf: unsupported array type {}", type);
  if (type != text) {
    if (count > cursor.left() / kPairBytes[type]) fail(at, "gguf: array of {} values exceeds the file", count);
    return cursor.skip(count * kPairBytes[type]);
  }
  for (std::uint64_t i = 0; i < count; ++i) cursor.skip(cursor.u64());
}

std::string read_value(Cursor& cursor, std::uint32_t type) {
  switch (type) {
    case u8: return std::to_string(cursor.u8());
    case i8: return std::to_string(static_cast<std::int8_t>(cursor.u8()));
    case u16: return std::to_string(cursor.u16());
    case i16: return std::to_string(static_cast<std::int16_t>(cursor.u16()));
    case u32: return std::to_string(cursor.u32());
    case i32: return std::to_string(static_cast<std::int32_t>(cursor.u32()));
    case f32: return formatted("{}", std::bit_cast<float>(cursor.u32()));
    case boolean: return cursor.u8() != 0 ? "true" : "false";
    case text: return read_text(cursor);
    case u64: return std::to_string(cursor.u64());
    case i64: return std::to_string(static_cast<std::int64_t>(cursor.u64()));
    case f64: return formatted("{}", std::bit_cast<double>(cursor.u64()));
    default: fail(cursor.offset(), "gguf: unsupported value type {}", type);
  }
}

void read_pairs(Cursor& cursor, std::uint64_t count, Checkpoint& checkpoint) {
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = cursor.offset();
    std::string key = read_text(cursor);
    const std::uint32_t type = cursor.u32();
    if (type == array) {
      skip_array(cursor);
      leave_out(checkpoint, key, "arrays");
      continue;
    }
    std::string value = read_value(cursor, type);
    bytes += key.size() + value.size();
    if (bytes > kLongestMetadata) fail(at, "gguf: metadata of more than {} bytes", kLongestMetadata);
    checkpoint.budget.charge(kPairMemory + kPairCopies * (key.size() + value.size()), at);
    if (!checkpoint.metadata.emplace(std::move(key), std::move(value)).second)
      fail(at, "gguf: duplicate or reserved key in metadata");
  }
}

std::uint64_t alignment_of(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(std::string(kAlignment));
  if (found == metadata.end()) return kUsualAlignment;
  constexpr std::uint64_t kMost = 1 << 20;
  for (std::uint64_t power = 8; power <= kMost; power *= 2) {
    if (found->second == std::to_string(power)) return power;
  }
  fail(kNoOffset, "gguf: alignment {} (supported: powers of two from 8 to {})", found->second, kMost);
}

// Sets tensor.begin to the offset in the data section, which begins after the last tensor's description.
Tensor read_tensor(Cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  Tensor tensor;
  tensor.name = read_text(cursor);
  const std::uint32_t rank = cursor.u32();
  if (rank > kMostGgufDimensions)
    fail(at, "gguf: tensor '{}' has {} dimensions (limit: {})", tensor.name, rank, kMostGgufDimensions);
  for (std::uint32_t i = 0; i < rank; ++i) tensor.shape.insert(tensor.shape.begin(), cursor.u64());
  const std::uint32_t number = cursor.u32();
  const GgufType type = number < kTypes.size() ? kTypes[number] : GgufType{};
  if (type.dtype == ST_DTYPE_UNKNOWN) {
    fail_unsupported(at, "gguf: tensor '{}' has the quantized type {} ({}), for which safetensors has no dtype",
                     tensor.name, type.name.empty() ? "unknown" : type.name, number);
  }
  tensor.dtype = type.dtype;
  tensor.element = st_dtype_bits(type.dtype) / 8;
  tensor.strides = row_major(tensor.shape);
  tensor.begin = cursor.u64();
  return tensor;
}

// Gives each tensor its own storage, so overlapping tensors are written separately.
void find_data(Checkpoint& checkpoint, Tensor& tensor, std::uint64_t data, std::uint64_t size) {
  const std::uint64_t begin = tensor.begin;
  if (data > size || begin > size - data) fail(size, "gguf: tensor '{}' begins after the end of the file", tensor.name);
  const std::uint64_t left = size - data - begin;
  place(tensor, 0, {tensor.name, data + begin, left, left, false, {}}, data + begin);
  tensor.storage = checkpoint.storages.size();
  checkpoint.storages.push_back({tensor.name, data + begin, tensor.bytes, tensor.bytes, false, {}});
}

}  // namespace

void read_gguf(Checkpoint& checkpoint) {
  const Input& input = *checkpoint.input;
  Cursor cursor(input, 0, input.size());
  if (cursor.u32() != kGgufMagic) fail(0, "not a GGUF file");
  const std::uint32_t version = cursor.u32();
  if (version != 0 && (version & 0xFFFF) == 0) {
    fail_unsupported(4, "gguf: unsupported byte order 'big' (supported: little)");
  }
  if (version != 2 && version != 3) fail_unsupported(4, "unsupported GGUF version {} (supported: 2, 3)", version);
  const std::uint64_t tensors = cursor.u64();
  const std::uint64_t pairs = cursor.u64();
  if (tensors > kMostTensors || pairs > kMostPairs)
    fail(8, "gguf: {} tensors and {} metadata keys (limits: {}, {})", tensors, pairs, kMostTensors, kMostPairs);
  read_pairs(cursor, pairs, checkpoint);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::uint64_t at = cursor.offset();
    add_tensor(checkpoint, read_tensor(cursor), at);
  }
  check_names(checkpoint, kBadFile);
  const std::uint64_t alignment = alignment_of(checkpoint.metadata);
  const std::uint64_t data = (cursor.position() + alignment - 1) / alignment * alignment;
  for (Tensor& tensor : checkpoint.tensors) find_data(checkpoint, tensor, data, input.size());
}

}  // namespace cli::importer
