// Tensors for other libraries through the C++ header: lists in columns, converted values and DLPack.
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "dlpack.h"

namespace {

int faults = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  ++faults;
}

template <class Body>
st_status status_of(const Body& body) {
  try {
    body();
    return ST_OK;
  } catch (const safetensors::Error& error) {
    return error.status();
  }
}

// 'half' BF16 [2,2] = 1 -2 0.5 3, 'n' I8 [2] = 7 8, and a scalar F64 with a NUL in its name, 2.5.
std::string sample() {
  std::string header = R"({"half":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},)"
                       R"("x\u0000y":{"dtype":"F64","shape":[],"data_offsets":[8,16]},)"
                       R"("n":{"dtype":"I8","shape":[2],"data_offsets":[16,18]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(std::uint64_t{header.size()} >> (8 * i));
  return bytes.append(header).append(
      std::string_view("\x80\x3F\x00\xC0\x00\x3F\x40\x40\0\0\0\0\0\0\x04\x40\x07\x08", 18));
}

void lists(const safetensors::SafeOpen& file) {
  const safetensors::TensorList list = file.list();
  expect(list.size() == 3 && list.columns().data == nullptr, "a list without views");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const safetensors::Tensor tensor = file.tensor_at(i);
    expect(list.name(i) == tensor.name && list.dtype(i) == tensor.dtype, "name and dtype");
    expect(std::equal(list.shape(i).begin(), list.shape(i).end(), tensor.shape.begin(), tensor.shape.end()), "shape");
    expect(list.columns().sizes[i] == tensor.nbytes(), "size");
  }
  expect(list.name(1) == std::string_view("x\0y", 3), "a name with a NUL");
  expect(file.list(ST_LIST_DATA).columns().data[2] == file.get_tensor("n").data(), "a list with views");
  expect(status_of([&] { static_cast<void>(file.list(2)); }) == ST_ERR_UNSUPPORTED, "an unknown flag");
}

void a_list_keeps_the_file_open(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  const std::weak_ptr<std::string> watched = owner;
  const std::string& kept = *owner;
  const auto open = [&] { return safetensors::SafeOpen::from_memory(kept.data(), kept.size(), std::move(owner)); };
  auto list = std::make_unique<safetensors::TensorList>(open().list(ST_LIST_DATA));
  expect(!watched.expired() && *static_cast<const char*>(list->columns().data[2]) == 7, "its views");
  list.reset();
  expect(watched.expired(), "until it is gone");
}

// Little-endian, as elements are in files and in memory on every machine.
template <class T>
std::vector<T> little_endian(std::vector<T> values) {
  if constexpr (std::endian::native == std::endian::big) {
    for (T& value : values) {
      auto* const bytes = reinterpret_cast<unsigned char*>(&value);
      std::reverse(bytes, bytes + sizeof value);
    }
  }
  return values;
}

void conversions(const safetensors::SafeOpen& file) {
  const auto half = file.get_tensor("half");
  expect(half.read_as<float>() == little_endian<float>({1, -2, 0.5F, 3}), "BF16 as float");
  expect(half.read_as<double>() == little_endian<double>({1, -2, 0.5, 3}), "BF16 as double");
  expect(file.get_tensor(std::string_view("x\0y", 3)).read_as<double>() == little_endian<double>({2.5}),
         "F64 as double");
  expect(status_of([&] { static_cast<void>(file.get_tensor("n").read_as<float>()); }) == ST_ERR_UNSUPPORTED,
         "no float");
  const std::vector<float> given = little_endian<float>({1, 1000});
  std::uint8_t small[2];
  safetensors::convert(safetensors::Dtype::F32, given.data(), safetensors::Dtype::F8_E4M3, small, 2);
  expect(small[0] == 0x38 && small[1] == 0x7F, "convert()");
}

void packed_floats() {
  std::string bytes = R"({"f4":{"dtype":"F4","shape":[2],"data_offsets":[0,1]},)"
                      R"("f6":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[1,4]}})";
  bytes.insert(0, std::string{static_cast<char>(bytes.size()), 0, 0, 0, 0, 0, 0, 0});
  bytes.append("\x92\x08\x0D\x84", 4);
  const auto file = safetensors::SafeOpen::from_memory(bytes.data(), bytes.size());
  expect(file.get_tensor("f4").read_as<float>() == little_endian<float>({1, -0.5F}), "F4 as float");
  expect(file.get_tensor("f6").read_as<double>() == little_endian<double>({1, -3, 0, -0.125}), "F6 as double");
  const std::vector<float> global = little_endian<float>({0.5F});
  std::vector<float> floats(2);
  safetensors::convert_scaled(safetensors::Dtype::F4, file.get_tensor("f4").data(), safetensors::Dtype::F8_E8M0, "\x81",
                              32, global.data(), safetensors::Dtype::F32, floats.data(), 2);
  expect(floats == little_endian<float>({2, -1}), "convert_scaled()");
}

void dlpack(const std::string& bytes) {
  versioned* view = nullptr;
  legacy* copy = nullptr;
  {
    const auto file = safetensors::SafeOpen::from_memory(bytes.data(), bytes.size());
    view = file.get_tensor("n").to_dlpack();
    copy = file.get_tensor("half").to_dlpack_legacy();
    expect(view->tensor.data == file.get_tensor("n").data() && copy->tensor.data != file.get_tensor("half").data(),
           "a view and a copy");
    expect(status_of([&] { file.get_tensor("half").to_dlpack_legacy(ST_DLPACK_NO_COPY); }) == ST_ERR_STATE, "no copy");
  }
  expect(*static_cast<const char*>(view->tensor.data) == 7 && view->flags == 1, "which outlives the file");
  expect(copy->tensor.ndim == 2 && copy->tensor.dtype.code == 4 && copy->tensor.dtype.bits == 16, "and its shape");
  view->deleter(view);
  copy->deleter(copy);
}

}  // namespace

int main() {
  const std::string bytes = sample();
  const auto file = safetensors::SafeOpen::from_memory(bytes.data(), bytes.size());
  lists(file);
  a_list_keeps_the_file_open(bytes);
  conversions(file);
  packed_floats();
  dlpack(bytes);
  if (faults != 0) std::fprintf(stderr, "%d faults\n", faults);
  return faults == 0 ? 0 : 1;
}
