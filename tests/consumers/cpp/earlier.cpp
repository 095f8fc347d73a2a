// A program for earlier C++ bindings, unchanged except for the frame of main. We do not control the lines and includes
// below.
// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include "safetensors/safetensors.hpp"
int main() {
auto f = safetensors::SafeOpen("model.safetensors");
auto keys = f.keys();
auto tensor = f.get_tensor("weight1");
std::cout << "Shape: [";
for (size_t i = 0; i < tensor.shape.size(); ++i) {
    std::cout << tensor.shape[i];
    if (i < tensor.shape.size() - 1) std::cout << ", ";
}
}
