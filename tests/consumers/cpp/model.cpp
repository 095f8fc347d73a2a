// Uses safetensors.hpp: see ../c/model.c for what it does.
//
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.hpp>

#include <array>
#include <chrono>
#include <cstring>
#include <iostream>
#include <utility>

namespace {

using safetensors::SafeOpen;

template <class Values>
void print(const char* title, const Values& values) {
  std::cout << title << ':';
  for (const auto value : values) std::cout << ' ' << value;
  std::cout << '\n';
}

void list(const SafeOpen& file) {
  std::cout << "model.safetensors: " << file.size() << " tensors, format " << file.metadata().at("format") << '\n';
  const safetensors::TensorList all = file.list();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::cout << "  " << all.name(i) << ' ' << all.dtype(i) << " [";
    const char* between = "";
    for (const std::uint64_t dimension : all.shape(i)) std::cout << std::exchange(between, ", ") << dimension;
    std::cout << "] " << all.columns().sizes[i] << " bytes\n";
  }
}

void read_many(const SafeOpen& file) {
  std::array<float, 12> weight{};  // the plan keeps their addresses until it has run
  std::array<float, 3> bias{};
  safetensors::Plan plan(file);
  plan.add(file.get_tensor("weight"), weight.data(), sizeof(weight));
  plan.add(file.get_tensor("bias"), bias.data(), sizeof(bias));
  st_read_options options = ST_INIT(st_read_options);
  options.threads = 1;
  std::uint64_t last[2] = {0, 0};
  plan.run(
      [&](std::uint64_t done, std::uint64_t total) {
        last[0] = done;
        last[1] = total;
        return true;
      },
      options);
  std::cout << "plan: " << last[0] << " of " << last[1] << " bytes, the last weight is " << weight[11] << '\n';
}

void write_and_read_back(const SafeOpen& file) {
  const std::array<float, 3> doubled{1, -2.5, 4};
  safetensors::Writer writer;
  writer.copy_metadata(file);
  writer.add_tensor(file.get_tensor("scale"));
  const std::size_t index = writer.add("doubled", safetensors::Dtype::F32, {3});
  writer.begin("written.safetensors");
  writer.put(index, 0, doubled.data(), sizeof(doubled));
  writer.finish();
  print("written.safetensors, doubled", SafeOpen("written.safetensors").get_tensor("doubled").read<float>());
}

void tour() {
  const SafeOpen file("model.safetensors");
  list(file);
  print("bias", file.get_tensor("bias").read<float>());
  print("weight[1:3, ::-1]", file.get_slice("weight", {{1, 3}, {{}, {}, -1}}).read<float>());
  read_many(file);
  print("scale as F32", file.get_tensor("scale").read_as<float>());
  write_and_read_back(file);
  try {
    SafeOpen("truncated.safetensors");
  } catch (const safetensors::Error& error) {
    std::cout << error.status_name() << ": " << error.what() << '\n';
  }
}

void time_listing(const std::string& path) {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const SafeOpen file(path);
  std::uint64_t getters = 0, columns = 0;
  const auto start = Clock::now();
  for (const safetensors::Tensor& tensor : file) {
    getters += tensor.name.size() + static_cast<std::uint64_t>(tensor.dtype) + tensor.nbytes() + tensor.offset();
    for (const std::uint64_t dimension : tensor.shape) getters += dimension;
  }
  const auto middle = Clock::now();
  const safetensors::TensorList all = file.list();
  for (std::size_t i = 0; i < all.size(); ++i) {
    columns += all.name(i).size() + static_cast<std::uint64_t>(all.dtype(i)) + all.columns().sizes[i] +
               all.columns().offsets[i];
    for (const std::uint64_t dimension : all.shape(i)) columns += dimension;
  }
  const auto end = Clock::now();
  std::cout.setf(std::ios::fixed);
  std::cout.precision(1);
  std::cout << "getters " << Milliseconds(middle - start).count() << " ms, columns "
            << Milliseconds(end - middle).count() << " ms" << (getters == columns ? "" : ", which differ") << '\n';
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 3 && std::strcmp(argv[1], "--list") == 0)
    time_listing(argv[2]);
  else
    tour();
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
