// The parts of C++20's standard library that the library uses, for C++17.
// Names: span dynamic_extent endian bit_cast has_single_bit jthread erase erase_if ssize to_array
// SPDX-License-Identifier: Apache-2.0
namespace cxx20 {

// libc++ has none before LLVM 20.
class jthread {
 public:
  template <class Function>
  explicit jthread(Function&& function) : thread_(std::forward<Function>(function)) {}
  jthread(jthread&&) noexcept = default;
  ~jthread() {
    if (thread_.joinable()) thread_.join();
  }
  bool joinable() const { return thread_.joinable(); }
  void join() { thread_.join(); }

 private:
  std::thread thread_;
};

#if __cplusplus >= 202002L && defined(__cpp_lib_bit_cast) && defined(__cpp_lib_span)  // clang may have an older library

using std::bit_cast;
using std::dynamic_extent;
using std::endian;
using std::erase;
using std::erase_if;
using std::has_single_bit;
using std::span;
using std::ssize;
using std::to_array;

#else

enum class endian {
#if defined(_WIN32) || __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  little = 0,
  big = 1,
  native = little
#else
  little = 0,
  big = 1,
  native = big
#endif
};

template <class To, class From>
To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To> && std::is_trivially_copyable_v<From>);
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

template <class T>
constexpr bool has_single_bit(T value) {
  return value != 0 && (value & (value - 1)) == 0;
}

template <class Container>
constexpr std::ptrdiff_t ssize(const Container& container) {
  return static_cast<std::ptrdiff_t>(container.size());
}

template <class Container, class Predicate>
std::size_t erase_if(Container& container, Predicate predicate) {
  const std::size_t before = container.size();
  container.erase(std::remove_if(container.begin(), container.end(), predicate), container.end());
  return before - container.size();
}

template <class Container, class T>
std::size_t erase(Container& container, const T& value) {
  return erase_if(container, [&](const auto& element) { return element == value; });
}

template <class T, std::size_t n, std::size_t... i>
constexpr std::array<T, n> to_array(const T (&values)[n], std::index_sequence<i...>) {
  return {{values[i]...}};
}
template <class T, std::size_t n>
constexpr std::array<T, n> to_array(const T (&values)[n]) {
  return to_array(values, std::make_index_sequence<n>());
}

inline constexpr std::size_t dynamic_extent = static_cast<std::size_t>(-1);

// Without static extents, which the library does not use.
template <class T>
class span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using size_type = std::size_t;
  using iterator = T*;

  constexpr span() = default;
  constexpr span(T* data, std::size_t size) : data_(data), size_(size) {}
  constexpr span(T* begin, T* end) : data_(begin), size_(static_cast<std::size_t>(end - begin)) {}
  template <std::size_t n>
  constexpr span(T (&array)[n]) : data_(array), size_(n) {}
  template <class Container,
            class = std::enable_if_t<std::is_convertible_v<
                std::remove_pointer_t<decltype(std::data(std::declval<Container&>()))> (*)[], T (*)[]> > >
  constexpr span(Container&& container) : data_(std::data(container)), size_(std::size(container)) {}

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr std::size_t size_bytes() const { return size_ * sizeof(T); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& operator[](std::size_t i) const { return data_[i]; }
  constexpr T& front() const { return data_[0]; }
  constexpr T& back() const { return data_[size_ - 1]; }
  constexpr span first(std::size_t n) const { return {data_, n}; }
  constexpr span last(std::size_t n) const { return {data_ + size_ - n, n}; }
  constexpr span subspan(std::size_t at, std::size_t n = dynamic_extent) const {
    return {data_ + at, n == dynamic_extent ? size_ - at : n};
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

template <class T, std::size_t n>
span(T (&)[n]) -> span<T>;
template <class Container>
span(Container&&) -> span<std::remove_pointer_t<decltype(std::data(std::declval<Container&>()))> >;
template <class T>
span(T*, std::size_t) -> span<T>;

#endif

}  // namespace cxx20
