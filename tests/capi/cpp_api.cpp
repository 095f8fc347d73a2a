// The C++ header, used as a program of a stranger uses it: on a file, on memory, on a descriptor and on callbacks.
//
// Without a test framework, like all of this folder: nothing but the public headers is needed to build it.
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

int faults = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  ++faults;
}

// Runs `body` and hands back the status it throws; ST_OK when it throws nothing.
template <class Body>
st_status status_of(const Body& body, std::string* message = nullptr, std::optional<std::uint64_t>* offset = nullptr) {
  try {
    body();
    return ST_OK;
  } catch (const safetensors::Error& error) {
    if (message) *message = error.what();
    if (offset) *offset = error.offset();
    return error.status();
  }
}

std::string file_bytes(std::string_view header, std::string_view data) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes.append(header).append(data);
}

// Four tensors: 'w' F32 [2,2] = 1 2 3 4, 'b' BF16 [2], 'i' I16 [1] = -2, and one whose name holds a NUL.
std::string sample() {
  const std::string header = R"({"__metadata__":{"format":"pt","who":"test"},)"
                             R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                             R"("i":{"dtype":"I16","shape":[1],"data_offsets":[20,22]},)"
                             R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[16,20]},)"
                             R"("a\u0000z":{"dtype":"U8","shape":[],"data_offsets":[22,23]}})";
  const float w[] = {1, 2, 3, 4};
  const std::uint16_t b[] = {0x3F80, 0x4000};
  const std::int16_t i = -2;
  std::string data(23, '\0');
  std::memcpy(data.data(), w, 16);
  std::memcpy(data.data() + 16, b, 4);
  std::memcpy(data.data() + 20, &i, 2);
  data[22] = 7;
  // Spaces behind the header, so that the data is aligned for every type.
  return file_bytes(header + std::string((16 - (8 + header.size()) % 16) % 16, ' '), data);
}

void check_content(const safetensors::SafeOpen& file) {
  using safetensors::Dtype;
  expect(file.size() == 4 && !file.empty(), "four tensors");
  const std::string odd("a\0z", 3);
  expect(file.offset_keys() == std::vector<std::string>{"w", "b", "i", odd}, "offset_keys in the order of the data");
  expect(file.keys() == std::vector<std::string>{odd, "b", "i", "w"}, "keys sorted");
  expect(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"who", "test"}}, "metadata");
  expect(file.contains(odd) && !file.contains("a") && !file.find("a"), "a name is found whole, NUL and all");

  const safetensors::Tensor w = file.get_tensor("w");
  expect(w.name() == "w" && w.dtype() == Dtype::F32 && w.dtype_name() == "F32", "name and dtype");
  expect(w.rank() == 2 && w.shape()[0] == 2 && w.shape().size() == 2, "shape");
  const std::span<const std::uint64_t> shape = w.shape();
  expect(shape.size() == 2 && shape.data() == w.shape().data(), "a view is a span");
  expect(w.elements() == 4 && w.nbytes() == 16 && w.shard() == 0, "sizes");
  expect(w.offset() == 8 + file.header().size(), "offset is absolute");
  expect(file.header().substr(0, 16) == R"({"__metadata__":)", "the raw header");
  expect(w.read<float>() == std::vector<float>{1, 2, 3, 4}, "read<float>");
  expect(w.read().size() == 16, "read() gives the bytes");
  float into[4] = {};
  w.read(into, sizeof into);
  expect(into[3] == 4, "read into the caller's memory");
  expect(status_of([&] { w.read(into, 15); }) == ST_ERR_BUFFER_SIZE, "15 bytes are too few");

  expect(file.get_tensor("b").read<std::uint16_t>() == std::vector<std::uint16_t>{0x3F80, 0x4000}, "BF16 as its bits");
  expect(file.get_tensor("i").read<std::int16_t>() == std::vector<std::int16_t>{-2}, "I16");
  expect(file.get_tensor(odd).shape().empty() && file.get_tensor(odd).elements() == 1, "a scalar");

  std::string message;
  expect(status_of([&] { w.read<std::int32_t>(); }, &message) == ST_ERR_ARGUMENT, "F32 is no int32_t");
  expect(message.find("'w'") != message.npos && message.find("F32") != message.npos, "and the message names both");
  expect(status_of([&] { w.read<double>(); }) == ST_ERR_ARGUMENT, "F32 is no double");
  expect(status_of([&] { file.get_tensor("b").read<std::int16_t>(); }) == ST_ERR_ARGUMENT, "BF16 is no int16_t");
  expect(status_of([&] { file.get_tensor("nobody"); }, &message) == ST_ERR_NOT_FOUND, "an absent name throws");
  expect(message.find("nobody") != message.npos, "and is named");

  std::size_t seen = 0;
  for (const safetensors::Tensor& tensor : file) seen += tensor.name().size();
  expect(seen == 6, "range-for sees every tensor");
  expect(file.get_tensors().at("w").nbytes() == 16, "get_tensors");
}

void check_views(const safetensors::SafeOpen& file) {
  const auto w = file.get_tensor("w");
  expect(w.data() != nullptr, "a mapped tensor has its bytes in view");
  const safetensors::View<float> values = w.view<float>();
  expect(values.size() == 4 && values[2] == 3 && static_cast<const void*>(values.data()) == w.data(), "view<float>");
  w.advise(ST_ADVICE_WILL_NEED);
}

void check_file(const std::string& path) {
  check_content(safetensors::SafeOpen(path));
  check_views(safetensors::SafeOpen(path));
  expect(safetensors::SafeOpen(path).shard_path(0) == path, "shard_path of a single file");
  expect(safetensors::SafeOpen(path).count_shards() == 1, "one file is one shard");

  auto options = ST_INIT(st_open_options);
  options.io = ST_IO_READ;
  const safetensors::SafeOpen unmapped(path, options);
  check_content(unmapped);
  expect(unmapped.get_tensor("w").data() == nullptr, "no view without a mapping");
  expect(status_of([&] { unmapped.get_tensor("w").view<float>(); }) == ST_ERR_STATE, "and view() says so");

  const auto tensor = safetensors::SafeOpen(path).get_tensor("w");
  expect(tensor.read<float>()[0] == 1, "a tensor keeps its file open");
  const auto all = safetensors::load_file(path);
  expect(all.size() == 4 && all.at("w").read<float>()[1] == 2, "so do those of load_file");

  safetensors::SafeOpen copy(path);
  const safetensors::SafeOpen other = copy;
  copy = safetensors::SafeOpen(path);
  safetensors::SafeOpen moved = std::move(copy);
  check_content(other);
  check_content(moved);
}

void check_memory() {
  const auto bytes = std::make_shared<std::string>(sample());
  {
    const auto file = safetensors::SafeOpen::from_memory(bytes->data(), bytes->size(), bytes);
    check_content(file);
    expect(bytes.use_count() == 2, "the owner is held while the file is open");
  }
  expect(bytes.use_count() == 1, "and released once it is closed");
  expect(status_of([&] { safetensors::SafeOpen::from_memory(bytes->data(), 7, bytes); }) == ST_ERR_TRUNCATED,
         "7 bytes");
  expect(bytes.use_count() == 1, "the owner is released when opening fails");

  // One byte further on, nothing is aligned any more.
  const std::string shifted = " " + *bytes;
  const auto file = safetensors::SafeOpen::from_memory(shifted.data() + 1, bytes->size());
  const auto* base = reinterpret_cast<const char*>(file.get_tensor("w").data());
  const bool aligned = reinterpret_cast<std::uintptr_t>(base) % alignof(float) == 0;
  expect(aligned || status_of([&] { file.get_tensor("w").view<float>(); }) == ST_ERR_STATE,
         "no view of unaligned floats");
}

void check_descriptor(const std::string& path) {
  const std::string inside = path + ".archive";
  std::ofstream(inside, std::ios::binary) << "lead" << sample() << "tail";
  const int fd = ::open(inside.c_str(), O_RDONLY | O_CLOEXEC);
  check_content(safetensors::SafeOpen::from_fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  const auto file = safetensors::SafeOpen::from_fd(fd, 4, sample().size());
  ::close(fd);
  expect(file.get_tensor("w").read<float>()[3] == 4, "a file inside a file, after the descriptor is closed");
}

void check_source() {
  struct Bytes {
    std::string text = sample();
    int closed = 0;
  } bytes;
  auto source = ST_INIT(st_source);
  source.ctx = &bytes;
  source.size = bytes.text.size();
  source.read_at = [](void* ctx, std::uint64_t offset, void* to, std::size_t n) -> std::int32_t {
    std::memcpy(to, static_cast<Bytes*>(ctx)->text.data() + offset, n);
    return 0;
  };
  source.close = [](void* ctx) { ++static_cast<Bytes*>(ctx)->closed; };
  check_content(safetensors::SafeOpen::from_source(source));
  expect(bytes.closed == 1, "a source is closed once");
}

void check_errors(const std::string& path) {
  std::string message;
  std::optional<std::uint64_t> offset;
  expect(status_of([&] { safetensors::SafeOpen(path + ".absent"); }, &message, &offset) == ST_ERR_OPEN, "no such file");
  expect(message.find(".absent") != message.npos && !offset, "and its path is named, without a place in it");

  const std::string hole = file_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xx");
  const auto open_hole = [&] { safetensors::SafeOpen::from_memory(hole.data(), hole.size()); };
  expect(status_of(open_hole, &message, &offset) == ST_ERR_OFFSETS, "a hole before the first tensor");
  expect(message.find('a') != message.npos && offset.has_value(), "the message names the tensor and has a place");
  const safetensors::Error error(ST_ERR_OFFSETS, "m", 5, 0);
  expect(std::string_view(error.status_name()) == "ST_ERR_OFFSETS" && error.offset() == 5, "Error's own getters");
}

void check_dtypes() {
  using safetensors::Dtype;
  expect(safetensors::name(Dtype::F8_E4M3) == "F8_E4M3" && safetensors::bits(Dtype::F4) == 4, "dtype name and bits");
  expect(safetensors::dtype_from_name("BF16") == Dtype::BF16, "dtype from its name");
  expect(safetensors::dtype_from_name("bf16") == Dtype::UNKNOWN, "names are compared byte for byte");
  expect(!safetensors::version().empty(), "version");
}

}  // namespace

int main() {
  const auto folder = std::filesystem::temp_directory_path() / ("cpp_api_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = (folder / "sample.safetensors").string();
  std::ofstream(path, std::ios::binary) << sample();
  try {
    check_file(path);
    check_memory();
    check_descriptor(path);
    check_source();
    check_errors(path);
    check_dtypes();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "thrown: %s\n", error.what());
    ++faults;
  }
  std::filesystem::remove_all(folder);
  return faults == 0 ? 0 : 1;
}
