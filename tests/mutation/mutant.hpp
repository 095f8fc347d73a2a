// What a mutated source calls: each function does what the replaced operator did, unless its mutant is the active one.
//
// All mutants are compiled in at once, and the environment chooses: ST_MUTANT is the number of the active one, and
// ST_MUTANT_TRACE names a file with one byte per mutant, in which those that were reached are set to 1. The file is
// mapped shared, so that children and killed processes are counted too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__cplusplus) && __cplusplus >= 202002L

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <type_traits>

namespace st_mutant {

struct State {
  int active = -1;
  unsigned char* reached = nullptr;
  long count = 0;

  State() {
    if (const char* number = std::getenv("ST_MUTANT")) active = std::atoi(number);
    const char* trace = std::getenv("ST_MUTANT_TRACE");
    const int file = trace == nullptr ? -1 : ::open(trace, O_RDWR | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || ::fstat(file, &status) != 0) return;
    void* const mapped =
        ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (mapped == MAP_FAILED) return;
    reached = static_cast<unsigned char*>(mapped);
    count = status.st_size;
  }
};

inline const State state;

inline bool runtime_on(int id) noexcept {
  if (state.reached != nullptr && id < state.count) state.reached[id] = 1;
  return state.active == id;
}

constexpr bool on(int id) noexcept { return !std::is_constant_evaluated() && runtime_on(id); }

template <class T>
constexpr bool flip(int id, const T& value) {
  return static_cast<bool>(value) != on(id);
}

template <class T>
constexpr T plus_one(int id, T value) {
  if (on(id)) return static_cast<T>(value + 1);
  return value;
}

// Comparisons: `id` moves the boundary, `id` + 1 negates.
template <class A, class B>
constexpr bool lt(int id, const A& a, const B& b) {
  if (on(id)) return a <= b;
  return on(id + 1) ? !(a < b) : a < b;
}
template <class A, class B>
constexpr bool le(int id, const A& a, const B& b) {
  if (on(id)) return a < b;
  return on(id + 1) ? !(a <= b) : a <= b;
}
template <class A, class B>
constexpr bool gt(int id, const A& a, const B& b) {
  if (on(id)) return a >= b;
  return on(id + 1) ? !(a > b) : a > b;
}
template <class A, class B>
constexpr bool ge(int id, const A& a, const B& b) {
  if (on(id)) return a > b;
  return on(id + 1) ? !(a >= b) : a >= b;
}
template <class A, class B>
constexpr bool eq(int id, const A& a, const B& b) {
  return on(id) ? !(a == b) : a == b;
}
template <class A, class B>
constexpr bool ne(int id, const A& a, const B& b) {
  return on(id) ? !(a != b) : a != b;
}

template <class A, class B>
constexpr auto add(int id, const A& a, const B& b) {
  return on(id) ? a - b : a + b;
}
template <class A, class B>
constexpr auto sub(int id, const A& a, const B& b) {
  return on(id) ? a + b : a - b;
}
template <class A, class B>
constexpr auto mul(int id, const A& a, const B& b) {
  return on(id) ? a + b : a * b;
}
template <class A, class B>
constexpr auto bit_and(int id, const A& a, const B& b) {
  return on(id) ? a | b : a & b;
}
template <class A, class B>
constexpr auto bit_or(int id, const A& a, const B& b) {
  return on(id) ? a & b : a | b;
}

template <class T>
constexpr T min(int id, const std::type_identity_t<T>& a, const std::type_identity_t<T>& b) {
  return (b < a) != on(id) ? b : a;
}
template <class A, class B>
constexpr A min(int id, const A& a, const B& b) {
  return (b < a) != on(id) ? b : a;
}
template <class T>
constexpr T max(int id, const std::type_identity_t<T>& a, const std::type_identity_t<T>& b) {
  return (a < b) != on(id) ? b : a;
}
template <class A, class B>
constexpr A max(int id, const A& a, const B& b) {
  return (a < b) != on(id) ? b : a;
}

template <class Mutex>
class [[nodiscard]] LockGuard {
 public:
  LockGuard(int id, Mutex& mutex) : mutex_(on(id) ? nullptr : &mutex) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  LockGuard(const LockGuard&) = delete;
  ~LockGuard() {
    if (mutex_ != nullptr) mutex_->unlock();
  }

 private:
  Mutex* mutex_;
};

}  // namespace st_mutant

#endif
