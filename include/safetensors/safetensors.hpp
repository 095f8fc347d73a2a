// safetensors.hpp - safetensors.h for C++17 and later: objects that free themselves, errors that are thrown.
//
// Header-only, so that it has no ABI of its own: it compiles into the caller and calls only what safetensors.h
// promises to keep. Names are those of the Python package where it has one: SafeOpen, keys, offset_keys,
// get_tensor, get_tensors, metadata. Everything that safetensors.h says about threads and lifetimes holds here,
// except that a Tensor keeps its file open by itself.
//
//     auto file = safetensors::SafeOpen("model.safetensors");
//     for (const auto& tensor : file) use(tensor.name(), tensor.shape(), tensor.data());
//     std::vector<float> bias = file.get_tensor("ln_f.bias").read<float>();
//
// SPDX-License-Identifier: Apache-2.0
#ifndef SAFETENSORS_HPP
#define SAFETENSORS_HPP

#include "safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace safetensors {

// What the functions here throw, beside the std::bad_alloc of their own containers. what() is one line and names the file or the tensor.
class Error : public std::runtime_error {
 public:
  Error(st_status status, const std::string& message, std::uint64_t offset = UINT64_MAX, int os_error = 0)
      : std::runtime_error(message), status_(status), os_error_(os_error), offset_(offset) {}

  st_status status() const noexcept { return status_; }
  const char* status_name() const noexcept { return st_status_name(status_); }
  int os_error() const noexcept { return os_error_; }  // errno or GetLastError(); 0 when the system is not to blame
  // Where in the file, when the fault has a place there.
  std::optional<std::uint64_t> offset() const noexcept {
    return offset_ == UINT64_MAX ? std::nullopt : std::optional<std::uint64_t>(offset_);
  }

 private:
  st_status status_;
  int os_error_;
  std::uint64_t offset_;
};

enum class Dtype : st_dtype {
  UNKNOWN = ST_DTYPE_UNKNOWN,
  BOOL = ST_BOOL,
  U8 = ST_U8,
  I8 = ST_I8,
  U16 = ST_U16,
  I16 = ST_I16,
  U32 = ST_U32,
  I32 = ST_I32,
  U64 = ST_U64,
  I64 = ST_I64,
  F16 = ST_F16,
  BF16 = ST_BF16,
  F32 = ST_F32,
  F64 = ST_F64,
  C64 = ST_C64,
  F8_E4M3 = ST_F8_E4M3,
  F8_E5M2 = ST_F8_E5M2,
  F8_E8M0 = ST_F8_E8M0,
  F8_E4M3FNUZ = ST_F8_E4M3FNUZ,
  F8_E5M2FNUZ = ST_F8_E5M2FNUZ,
  F6_E2M3 = ST_F6_E2M3,
  F6_E3M2 = ST_F6_E3M2,
  F4 = ST_F4,
};

inline std::string_view name(Dtype dtype) { return st_dtype_name(static_cast<st_dtype>(dtype)); }
inline std::uint32_t bits(Dtype dtype) { return st_dtype_bits(static_cast<st_dtype>(dtype)); }
// Dtype::UNKNOWN when there is no such name.
inline Dtype dtype_from_name(std::string_view text) {
  return static_cast<Dtype>(st_dtype_from_name(text.data(), text.size()));
}

// Of the library as loaded: "0.1.0 (...)".
inline std::string_view version() { return st_version_string(); }

// Where C++20 has std::span<const T>, which a View turns into by itself.
template <class T>
class View {
 public:
  using value_type = T;
  using const_iterator = const T*;

  View() = default;
  View(const T* data, std::size_t size) : data_(data), size_(size) {}

  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail {

class Status {
 public:
  st_error* out() { return &error_; }
  void check(st_status status) const {
    if (status != ST_OK) throw Error(status, error_.message, error_.offset, error_.os_error);
  }

 private:
  st_error error_ = ST_INIT(st_error);
};

class Handle {
 public:
  explicit Handle(st_file* owned) : file_(owned) {}
  Handle(const Handle& other) : file_(other.file_ ? st_retain(other.file_) : nullptr) {}
  Handle(Handle&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  Handle& operator=(Handle other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Handle() { st_free(file_); }

  const st_file* get() const { return file_; }

 private:
  st_file* file_;
};

inline std::string_view name_of(const st_tensor* tensor) {
  std::size_t length = 0;
  const char* text = st_tensor_name(tensor, &length);
  return {text, length};
}

// Whether values of type T are what a tensor of this dtype holds. Signed and floating types take only their own
// dtype, unsigned ones any of their width (a uint16_t is how most programs hold a BF16), and so do classes, for
// the half types of other libraries. std::byte takes everything.
template <class T>
bool holds(Dtype dtype) {
  static_assert(std::is_trivially_copyable_v<T>, "tensors are plain bytes");
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no bytes of its own: read std::uint8_t");
  if (std::is_same_v<T, std::byte>) return true;
  if (bits(dtype) != sizeof(T) * 8) return false;
  if (std::is_floating_point_v<T>) return name(dtype).front() == 'F' || dtype == Dtype::BF16;
  if (std::is_signed_v<T>) return name(dtype).front() == 'I';
  return true;
}

}  // namespace detail

// One tensor of an open file. Cheap to copy; keeps the file open.
class Tensor {
 public:
  std::string_view name() const { return detail::name_of(tensor_); }
  Dtype dtype() const { return static_cast<Dtype>(st_tensor_dtype(tensor_)); }
  std::string_view dtype_name() const { return st_tensor_dtype_name(tensor_); }  // as in the file
  View<std::uint64_t> shape() const { return {st_tensor_shape(tensor_), st_tensor_rank(tensor_)}; }
  std::size_t rank() const { return st_tensor_rank(tensor_); }
  std::uint64_t elements() const { return st_tensor_elements(tensor_); }
  std::uint64_t nbytes() const { return st_tensor_bytes(tensor_); }
  std::uint64_t offset() const { return st_tensor_offset(tensor_); }  // absolute, in its file
  std::size_t shard() const { return st_tensor_shard(tensor_); }      // which file
  const st_tensor* c_handle() const { return tensor_; }

  // The bytes where they lie, without a copy, or nullptr: then read them. A view into a mapped file raises SIGBUS
  // when somebody truncates the file; the reads below throw instead.
  const void* data() const { return st_tensor_data(tensor_); }

  // data() as values. Throws when there is no view, the dtype is another one, or the bytes are not aligned for T.
  template <class T>
  View<T> view() const {
    require_dtype<T>();
    const void* bytes = data();
    if (bytes == nullptr && nbytes() != 0) throw error(ST_ERR_STATE, "has no view, read it instead");
    if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(T) != 0) {
      throw error(ST_ERR_STATE, "lies unaligned in the file, read it instead");
    }
    return {static_cast<const T*>(bytes), static_cast<std::size_t>(nbytes() / sizeof(T))};
  }

  // Into the caller's memory, size: exactly nbytes().
  void read(void* destination, std::size_t size) const {
    detail::Status status;
    status.check(st_tensor_read(tensor_, destination, size, status.out()));
  }

  // Into a vector of its own: read<float>() of a F32 tensor; read() for its bytes.
  template <class T = std::byte>
  std::vector<T> read() const {
    require_dtype<T>();
    const std::uint64_t count = nbytes() / sizeof(T);
    std::vector<T> values;
    if (count > values.max_size()) throw std::bad_alloc();
    values.resize(static_cast<std::size_t>(count));
    read(values.data(), values.size() * sizeof(T));
    return values;
  }

  void advise(st_advice advice) const { st_tensor_advise(&tensor_, 1, advice); }

 private:
  friend class SafeOpen;
  Tensor(detail::Handle file, const st_tensor* tensor) : file_(std::move(file)), tensor_(tensor) {}

  Error error(st_status status, const std::string& what) const {
    return Error(status, "tensor '" + std::string(name()) + "' " + what, offset());
  }

  template <class T>
  void require_dtype() const {
    if (!detail::holds<T>(dtype())) {
      throw error(ST_ERR_ARGUMENT, "is " + std::string(safetensors::name(dtype())) + ", not of the type asked for");
    }
  }

  detail::Handle file_;
  const st_tensor* tensor_;
};

// An open checkpoint: one file, or all shards of one model. Immutable, and cheap to copy: copies share the file.
class SafeOpen {
 public:
  // A file, a *.safetensors.index.json, or a folder that holds either. The path is UTF-8 on every system.
  explicit SafeOpen(const std::string& path, const st_open_options& options = ST_INIT(st_open_options))
      : SafeOpen(path,
                 opened([&](st_file** out, st_error* error) { return st_open(path.c_str(), &options, out, error); })) {}

  // Bytes that the caller keeps for as long as the file or a tensor of it lives; `owner`, when given, does that.
  static SafeOpen from_memory(const void* data, std::size_t size, std::shared_ptr<const void> owner = nullptr,
                              const st_open_options& options = ST_INIT(st_open_options)) {
    using Owner = std::shared_ptr<const void>;
    auto* kept = new Owner(std::move(owner));  // st_open_memory releases it, also when it fails
    const auto release = [](void* ctx) { delete static_cast<Owner*>(ctx); };
    return {"memory", opened([&](st_file** out, st_error* error) {
              return st_open_memory(data, size, release, kept, &options, out, error);
            })};
  }

  // `size` bytes from `offset` inside an open file (0: to its end). The descriptor stays the caller's.
  static SafeOpen from_fd(std::intptr_t fd, std::uint64_t offset = 0, std::uint64_t size = 0,
                          const st_open_options& options = ST_INIT(st_open_options)) {
    return {"descriptor " + std::to_string(fd),
            opened([&](st_file** out, st_error* error) { return st_open_fd(fd, offset, size, &options, out, error); })};
  }

  // Any random-access bytes: see st_source. The source's close is called exactly once, also when this throws.
  static SafeOpen from_source(const st_source& source, const st_open_options& options = ST_INIT(st_open_options)) {
    return {"source",
            opened([&](st_file** out, st_error* error) { return st_open_source(&source, &options, out, error); })};
  }

  // Throws ST_ERR_NOT_FOUND.
  Tensor get_tensor(std::string_view name) const {
    std::optional<Tensor> found = find(name);
    if (!found) throw Error(ST_ERR_NOT_FOUND, "no tensor '" + std::string(name) + "' in " + shown_);
    return *std::move(found);
  }

  std::optional<Tensor> find(std::string_view name) const {
    const st_tensor* tensor = st_get_tensor_n(file_.get(), name.data(), name.size());
    if (tensor == nullptr) return std::nullopt;
    return Tensor(file_, tensor);
  }

  bool contains(std::string_view name) const {
    return st_get_tensor_n(file_.get(), name.data(), name.size()) != nullptr;
  }

  // Names, sorted; and in the order of the data.
  std::vector<std::string> keys() const {
    std::vector<std::string> names = offset_keys();
    std::sort(names.begin(), names.end());
    return names;
  }
  std::vector<std::string> offset_keys() const {
    std::vector<std::string> names;
    names.reserve(size());
    for (std::size_t i = 0; i < size(); ++i) names.emplace_back(detail::name_of(st_get_tensor_at(file_.get(), i)));
    return names;
  }

  std::map<std::string, Tensor> get_tensors() const {
    std::map<std::string, Tensor> tensors;
    for (const Tensor& tensor : *this) tensors.emplace(tensor.name(), tensor);
    return tensors;
  }

  // Empty when the file has none.
  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> pairs;
    for (std::size_t i = 0; i < st_count_metadata(file_.get()); ++i) {
      const char* value = nullptr;
      std::size_t length = 0;
      std::size_t key_length = 0;
      const char* key = st_get_metadata_at(file_.get(), i, &key_length, &value, &length);
      pairs.insert_or_assign(std::string(key, key_length), std::string(value, length));
    }
    return pairs;
  }

  std::size_t count_shards() const { return st_count_shards(file_.get()); }
  std::string_view shard_path(std::size_t shard) const {
    const char* path = st_get_shard_path(file_.get(), shard);
    return path ? std::string_view(path) : std::string_view();
  }
  // The header of one file as it spells it, without the eight bytes of its length.
  std::string_view header(std::size_t shard = 0) const {
    std::size_t length = 0;
    const char* text = st_get_header(file_.get(), shard, &length);
    return text ? std::string_view(text, length) : std::string_view();
  }
  const st_file* c_handle() const { return file_.get(); }

  // A range of Tensors in the order of the data.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Tensor;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Tensor;

    Tensor operator*() const { return file_->tensor_at(i_); }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    Iterator operator++(int) { return {file_, i_++}; }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.i_ == b.i_; }
    friend bool operator!=(const Iterator& a, const Iterator& b) { return a.i_ != b.i_; }

   private:
    friend class SafeOpen;
    Iterator(const SafeOpen* file, std::size_t i) : file_(file), i_(i) {}
    const SafeOpen* file_;
    std::size_t i_;
  };

  std::size_t size() const { return st_count_tensors(file_.get()); }
  bool empty() const { return size() == 0; }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }
  // By place in the order of the data, below size().
  Tensor tensor_at(std::size_t i) const { return Tensor(file_, st_get_tensor_at(file_.get(), i)); }

 private:
  SafeOpen(std::string shown, detail::Handle file) : file_(std::move(file)), shown_(std::move(shown)) {}

  template <class Open>
  static detail::Handle opened(const Open& open) {
    st_file* file = nullptr;
    detail::Status status;
    status.check(open(&file, status.out()));
    return detail::Handle(file);
  }

  detail::Handle file_;
  std::string shown_;  // how messages call the file
};

// Every tensor of a file by name. The bytes are read when they are looked at.
inline std::map<std::string, Tensor> load_file(const std::string& path) { return SafeOpen(path).get_tensors(); }

}  // namespace safetensors

#endif  // SAFETENSORS_HPP
