// SPDX-License-Identifier: Apache-2.0
#include "torch_names.hpp"

#include <array>

namespace cli::importer {
namespace {

struct Entry {
  Global global;
  TorchName meaning;
  st_dtype dtype = ST_DTYPE_UNKNOWN;
  unsigned bytes = 0;
};

constexpr Entry torch_function(std::string_view module, std::string_view name, TorchName meaning) {
  return {{module, name, Role::function}, meaning};
}
constexpr Entry torch_storage(std::string_view name, st_dtype dtype, unsigned bytes) {
  return {{"torch", name, Role::constant}, TorchName::storage, dtype, bytes};
}
constexpr Entry torch_dtype(std::string_view name, st_dtype dtype, unsigned bytes) {
  return {{"torch", name, Role::constant}, TorchName::dtype, dtype, bytes};
}

// Types without a dtype are listed for the error message. An x2 type packs two elements into a byte.
constexpr std::array kEntries{
    Entry{{"collections", "OrderedDict", Role::dict}, TorchName::ordered_dict},
    Entry{{"collections", "defaultdict", Role::dict}, TorchName::ordered_dict},
    torch_function("torch._utils", "_rebuild_tensor", TorchName::rebuild_tensor_v1),  // torch 0.3
    torch_function("torch._utils", "_rebuild_tensor_v2", TorchName::rebuild_tensor),
    torch_function("torch._utils", "_rebuild_tensor_v3", TorchName::rebuild_tensor_v3),
    torch_function("torch._utils", "_rebuild_parameter", TorchName::rebuild_parameter),
    torch_function("torch._utils", "_rebuild_parameter_with_state", TorchName::rebuild_parameter),
    torch_function("torch._tensor", "_rebuild_from_type", TorchName::rebuild_from_type),
    torch_function("torch._tensor", "_rebuild_from_type_v2", TorchName::rebuild_from_type),
    Entry{{"torch", "Tensor", Role::constant}, TorchName::tensor_class},
    Entry{{"torch.nn.parameter", "Parameter", Role::object}, TorchName::parameter_class},  // called by torch 0.3
    torch_function("torch", "Size", TorchName::size),
    Entry{{"torch.storage", "UntypedStorage", Role::constant}, TorchName::untyped, ST_U8, 1},
    torch_storage("DoubleStorage", ST_F64, 8),
    torch_storage("FloatStorage", ST_F32, 4),
    torch_storage("HalfStorage", ST_F16, 2),
    torch_storage("BFloat16Storage", ST_BF16, 2),
    torch_storage("LongStorage", ST_I64, 8),
    torch_storage("IntStorage", ST_I32, 4),
    torch_storage("ShortStorage", ST_I16, 2),
    torch_storage("CharStorage", ST_I8, 1),
    torch_storage("ByteStorage", ST_U8, 1),
    torch_storage("BoolStorage", ST_BOOL, 1),
    torch_storage("ComplexFloatStorage", ST_C64, 8),
    torch_storage("ComplexDoubleStorage", ST_DTYPE_UNKNOWN, 16),
    torch_storage("QInt32Storage", ST_DTYPE_UNKNOWN, 4),
    torch_storage("QInt8Storage", ST_DTYPE_UNKNOWN, 1),
    torch_storage("QUInt8Storage", ST_DTYPE_UNKNOWN, 1),
    torch_dtype("float64", ST_F64, 8),
    torch_dtype("float32", ST_F32, 4),
    torch_dtype("float16", ST_F16, 2),
    torch_dtype("bfloat16", ST_BF16, 2),
    torch_dtype("int64", ST_I64, 8),
    torch_dtype("int32", ST_I32, 4),
    torch_dtype("int16", ST_I16, 2),
    torch_dtype("int8", ST_I8, 1),
    torch_dtype("uint64", ST_U64, 8),
    torch_dtype("uint32", ST_U32, 4),
    torch_dtype("uint16", ST_U16, 2),
    torch_dtype("uint8", ST_U8, 1),
    torch_dtype("bool", ST_BOOL, 1),
    torch_dtype("float8_e4m3fn", ST_F8_E4M3, 1),
    torch_dtype("float8_e5m2", ST_F8_E5M2, 1),
    torch_dtype("float8_e8m0fnu", ST_F8_E8M0, 1),
    torch_dtype("float8_e4m3fnuz", ST_F8_E4M3FNUZ, 1),
    torch_dtype("float8_e5m2fnuz", ST_F8_E5M2FNUZ, 1),
    torch_dtype("float4_e2m1fn_x2", ST_F4, 1),
    torch_dtype("complex64", ST_C64, 8),
    torch_dtype("complex128", ST_DTYPE_UNKNOWN, 16),
    torch_dtype("complex32", ST_DTYPE_UNKNOWN, 4),
    torch_dtype("qint32", ST_DTYPE_UNKNOWN, 4),
    torch_dtype("qint8", ST_DTYPE_UNKNOWN, 1),
    torch_dtype("quint8", ST_DTYPE_UNKNOWN, 1),
};

constexpr auto kGlobals = [] {
  std::array<Global, kEntries.size()> globals{};
  for (std::size_t i = 0; i < globals.size(); ++i) globals[i] = kEntries[i].global;
  return globals;
}();

}  // namespace

std::span<const Global> torch_globals() { return kGlobals; }

TorchGlobal torch_global(std::int64_t number) {
  const Entry& entry = kEntries[static_cast<std::size_t>(number)];
  return {entry.meaning, entry.global.name, entry.dtype, entry.bytes};
}

TorchGlobal torch_global(const Value& value) {
  if (value.integer == kUnknown) return {TorchName::unknown, value.text};
  return torch_global(value.integer);
}

bool makes_tensor(std::string_view function) {
  return function.starts_with("torch._utils._rebuild_") || function.starts_with("torch._tensor._rebuild_");
}

}  // namespace cli::importer
