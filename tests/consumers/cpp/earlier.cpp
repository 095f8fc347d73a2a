// The program that users of earlier C++ bindings have, unchanged but for the frame of main: what the lines below say and
// include is not ours to choose.
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
