// The same tensors written in several ways, each as its user would.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace bench {

struct Input {
  std::string name;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

struct Way {
  std::string name;
  std::function<void(const std::string& path)> write;
};

// "pwrite": one pwrite() per tensor behind a header that is ready made, as the least that can be done.
// "whole", "pieces": this library, by pointer and in pieces of 1 MiB. "crate": the reference, if it was built.
std::vector<Way> ways(const std::vector<Input>& tensors);

// `bytes` of tensors from one buffer of 1 MiB: what a program does whose model is larger than its memory.
void stream(const std::string& path, std::size_t bytes);

}  // namespace bench
