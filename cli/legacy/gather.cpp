// SPDX-License-Identifier: Apache-2.0
#include "gather.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "failure.hpp"

namespace cli::legacy {
namespace {

constexpr std::size_t kBlock = std::size_t{4} << 20;

class Mapping {
 public:
  Mapping(int descriptor, std::uint64_t begin, std::uint64_t end) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t start = begin / page * page;
    size_ = static_cast<std::size_t>(end - start);
    memory_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(start));
    if (memory_ == MAP_FAILED) throw Failure{kUnreadable, std::string("mapping a storage: ") + std::strerror(errno)};
    bytes_ = static_cast<const char*>(memory_) + (begin - start);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(memory_, size_); }

  const char* bytes() const { return bytes_; }

 private:
  void* memory_;
  std::size_t size_;
  const char* bytes_;
};

// Fills a block and hands it on, again and again.
class Packer {
 public:
  Packer(const Tensor& tensor, const TakeBytes& take) : element_(tensor.element), take_(take) {
    block_.resize(kBlock / element_ * element_);
  }

  // n elements, each `stride` bytes behind the one before.
  void add(const char* from, std::uint64_t n, std::uint64_t stride) {
    while (n > 0) {
      const std::uint64_t some = std::min<std::uint64_t>(n, (block_.size() - used_) / element_);
      copy(from, static_cast<std::size_t>(some), static_cast<std::size_t>(stride));
      used_ += static_cast<std::size_t>(some) * element_;
      from += some * stride;
      n -= some;
      if (used_ == block_.size()) flush();
    }
  }

  void flush() {
    if (used_ > 0) take_(block_.data(), used_);
    used_ = 0;
  }

 private:
  template <std::size_t Bytes>
  static void copy_each(char* to, const char* from, std::size_t n, std::size_t stride) {
    for (std::size_t i = 0; i < n; ++i) std::memcpy(to + i * Bytes, from + i * stride, Bytes);
  }

  void copy(const char* from, std::size_t n, std::size_t stride) {
    char* to = block_.data() + used_;
    if (stride == element_) {
      std::memcpy(to, from, n * element_);
      return;
    }
    switch (element_) {
      case 1: return copy_each<1>(to, from, n, stride);
      case 2: return copy_each<2>(to, from, n, stride);
      case 4: return copy_each<4>(to, from, n, stride);
      default: return copy_each<8>(to, from, n, stride);
    }
  }

  std::size_t element_;
  const TakeBytes& take_;
  std::vector<char> block_;
  std::size_t used_ = 0;
};

// first: the first element of the tensor.
void pack(const char* first, const Tensor& tensor, const TakeBytes& take) {
  Packer packer(tensor, take);
  const std::size_t outer = tensor.shape.size() - 1;
  std::vector<std::uint64_t> index(outer, 0);
  std::uint64_t at = 0;  // of the row, in elements
  for (;;) {
    packer.add(first + at * tensor.element, tensor.shape[outer], tensor.strides[outer] * tensor.element);
    std::size_t i = outer;
    for (; i-- > 0;) {
      at += tensor.strides[i];
      if (++index[i] < tensor.shape[i]) break;
      at -= index[i] * tensor.strides[i];
      index[i] = 0;
    }
    if (i == static_cast<std::size_t>(-1)) break;
  }
  packer.flush();
}

}  // namespace

void gather(const Input& input, const Storage& storage, const Tensor& tensor, const TakeBytes& take) {
  if (tensor.bytes == 0) return;
  const Mapping mapping(input.descriptor(), storage.begin + tensor.begin, storage.begin + tensor.end);
  pack(mapping.bytes(), tensor, take);
}

}  // namespace cli::legacy
