// safetensors.hpp - safetensors.h for C++17 and later: objects that free themselves, errors that are thrown.
//
// Header-only, so that it has no ABI of its own: it compiles into the caller and calls only what
// safetensors.h promises to keep. Names are those of the Python package where it has one: SafeOpen,
// keys, get_tensor, get_slice, metadata, load_file, save_file.
//
//     auto file = safetensors::SafeOpen("model.safetensors");
//     for (const auto& tensor : file) std::cout << tensor.name << ' ' << tensor.dtype << '\n';
//     std::vector<float> bias = file.get_tensor("bias").read<float>();
//     std::vector<float> rows = file.get_slice("weight", {{0, 10}}).read<float>();  // weight[0:10]
//     safetensors::save_file({{"bias", bias}}, "bias.safetensors", {{"format", "pt"}});
//
// Conventions, true of everything below unless it says otherwise:
//
//  1. Every failure is thrown: Error for what the library refuses or the system cannot do,
//     std::bad_alloc where a container of this header finds no memory.
//  2. const members may be called from any number of threads at once, others by one at a time.
//  3. Sizes, offsets and progress are in bytes. Positions in a slice are in elements.
//  4. Views, string_views and pointers that are handed out live as long as the file. SafeOpen, Tensor
//     and Slice keep the file open; copies share it. Plan, Buffer and Writer own what they hold and can
//     only be moved. An object that was moved from may be assigned to or destroyed, and nothing else.
//     Wrong, since only a temporary keeps the file open: auto shape = SafeOpen(path).get_tensor("w").shape;
//  5. Memory that is handed in stays the caller's.
//  6. Text is UTF-8, paths included, on every system.
//  7. Options and flags are those of safetensors.h: ST_INIT(st_open_options) sets all to their defaults.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef SAFETENSORS_HPP
#define SAFETENSORS_HPP

#include "safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iostream>  // programs written for earlier C++ bindings expect std::cout from here
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace safetensors {

// ---- Errors -------------------------------------------------------------------------------------

// what() is one line and names the file or the tensor, and the numbers.
class Error : public std::runtime_error {
 public:
  Error(st_status status, const std::string& message, std::uint64_t offset = UINT64_MAX, int os_error = 0)
      : std::runtime_error(message), status_(status), os_error_(os_error), offset_(offset) {}

  st_status status() const noexcept { return status_; }
  const char* status_name() const noexcept { return st_status_name(status_); }
  int os_error() const noexcept { return os_error_; }  // errno or GetLastError(); 0 when the system is not to blame
  // The byte of the file where the fault lies, if it has a place there.
  std::optional<std::uint64_t> offset() const noexcept {
    return offset_ == UINT64_MAX ? std::nullopt : std::optional<std::uint64_t>(offset_);
  }

 private:
  st_status status_;
  int os_error_;
  std::uint64_t offset_;
};

// ---- Element types ------------------------------------------------------------------------------

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

// "BF16"
inline std::string_view name(Dtype dtype) { return st_dtype_name(static_cast<st_dtype>(dtype)); }
inline std::ostream& operator<<(std::ostream& out, Dtype dtype) { return out << name(dtype); }
// Per element; 0 for Dtype::UNKNOWN.
inline std::uint32_t bits(Dtype dtype) { return st_dtype_bits(static_cast<st_dtype>(dtype)); }
// Dtype::UNKNOWN if there is no such name; names are compared byte for byte.
inline Dtype dtype_from_name(std::string_view text) {
  return static_cast<Dtype>(st_dtype_from_name(text.data(), text.size()));
}

// The dtype that holds values of a C++ type: F32 for float, I64 for std::int64_t.
template <class T>
constexpr Dtype dtype_of() {
  static_assert(std::is_arithmetic_v<T>, "name the Dtype: only numbers of C++ have one of their own");
  static_assert(sizeof(T) <= 8, "no dtype is this large");
  constexpr Dtype kSigned[] = {Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64};
  constexpr Dtype kUnsigned[] = {Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64};
  constexpr std::size_t kLog = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  if (std::is_same_v<T, bool>) return Dtype::BOOL;
  if (std::is_floating_point_v<T>) return sizeof(T) == 4 ? Dtype::F32 : Dtype::F64;
  return std::is_signed_v<T> ? kSigned[kLog] : kUnsigned[kLog];
}

// ---- Views --------------------------------------------------------------------------------------

// Values that somebody else keeps. std::span<const T>, into which it converts, for C++17.
template <class T>
class View {
 public:
  using value_type = T;
  using const_iterator = const T*;

  View() = default;
  View(const T* data, std::size_t size) : data_(data), size_(size) {}
  // Of a container with its values in one piece, such as std::vector, std::array or std::span.
  template <class Values,
            class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<const Values&>().data()), const T*>>>
  View(const Values& values) : View(values.data(), values.size()) {}  // NOLINT(google-explicit-constructor)

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

// ---- How the C API is called; not for users of this header --------------------------------------

namespace detail {

// Calls a function of safetensors.h with `arguments` and an st_error, and throws what it returns.
template <class... Parameters, class... Arguments>
void call(st_status (*function)(Parameters...), const Arguments&... arguments) {
  st_error error = ST_INIT(st_error);
  const st_status status = function(arguments..., &error);
  if (status != ST_OK) throw Error(status, error.message, error.offset, error.os_error);
}

// The same with an out-parameter before the st_error.
template <class Out, class... Parameters, class... Arguments>
Out result_of(st_status (*function)(Parameters...), const Arguments&... arguments) {
  Out out{};
  call(function, arguments..., &out);
  return out;
}

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

// For a C function, to which a NUL would be the end of the path.
inline const char* c_path(const std::string& path) {
  const std::size_t nul = path.find('\0');
  if (nul != path.npos) throw Error(ST_ERR_ARGUMENT, "a NUL follows '" + path.substr(0, nul) + "' in a path");
  return path.c_str();
}

struct Free {
  void operator()(st_plan* plan) const noexcept { st_plan_free(plan); }
  void operator()(st_writer* writer) const noexcept { st_writer_free(writer); }
  void operator()(std::byte* buffer) const noexcept { st_buffer_free(buffer); }
};

inline std::string_view name_of(const st_tensor* tensor) {
  std::size_t length = 0;
  const char* text = st_tensor_name(tensor, &length);
  return {text, length};
}

// Whether values of type T are what a tensor of this dtype holds. Signed and floating types take only
// their own dtype, unsigned ones any of their width (a uint16_t is how most programs hold a BF16), and
// so do classes, for the half types of other libraries. std::byte takes everything.
template <class T>
bool holds(Dtype dtype) {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>, "tensors are plain bytes");
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no bytes of its own: read std::uint8_t");
  if (std::is_same_v<T, std::byte>) return true;
  if (bits(dtype) != sizeof(T) * 8) return false;
  if (std::is_floating_point_v<T>) return name(dtype).front() == 'F' || dtype == Dtype::BF16;
  if (std::is_signed_v<T>) return name(dtype).front() == 'I';
  return true;
}

// What Tensor and Slice have in common: `part` has a name, a dtype, nbytes(), data() and read().
template <class T, class Part>
void require_dtype(const Part& part) {
  if (holds<T>(part.dtype)) return;
  throw Error(ST_ERR_ARGUMENT, "tensor '" + std::string(part.name) + "' is " + std::string(name(part.dtype)) +
                                   ", not of the type asked for");
}

template <class T, class Part>
View<T> view_of(const Part& part) {
  require_dtype<T>(part);
  const void* bytes = part.data();
  const auto refuse = [&part](const char* why) {
    throw Error(ST_ERR_STATE, "tensor '" + std::string(part.name) + "' " + why + ", read it instead");
  };
  if (bytes == nullptr && part.nbytes() != 0) refuse("has no view");
  if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(T) != 0) refuse("lies unaligned in the file");
  return {static_cast<const T*>(bytes), static_cast<std::size_t>(part.nbytes() / sizeof(T))};
}

template <class T, class Part>
std::vector<T> values_of(const Part& part) {
  require_dtype<T>(part);
  const std::uint64_t count = part.nbytes() / sizeof(T);
  std::vector<T> values;
  if (count > values.max_size()) throw std::bad_alloc();
  values.resize(static_cast<std::size_t>(count));
  part.read(values.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace detail

// ---- Tensors, and parts of them -----------------------------------------------------------------

class Slice;

// Positions of one dimension as Python's begin:end:step: {} is all of them, {-2} the last two, {{}, 8}
// the first eight, {{}, {}, -1} all of them backwards. What lies outside is cut off.
struct Range {
  std::optional<std::int64_t> begin = {};
  std::optional<std::int64_t> end = {};
  std::int64_t step = 1;
};

// One tensor of an open file. Cheap to copy; keeps the file open.
class Tensor {
 public:
  // Borrowed from the file.
  std::string_view name;
  Dtype dtype;
  View<std::uint64_t> shape;

  std::string_view dtype_name() const { return st_tensor_dtype_name(tensor_); }  // as in the file
  std::size_t rank() const { return st_tensor_rank(tensor_); }
  std::uint64_t elements() const { return st_tensor_elements(tensor_); }
  std::uint64_t nbytes() const { return st_tensor_bytes(tensor_); }
  std::uint64_t offset() const { return st_tensor_offset(tensor_); }  // absolute, in its file
  std::size_t shard() const { return st_tensor_shard(tensor_); }      // which file, from 0
  const st_tensor* c_handle() const { return tensor_; }

  // The bytes where they lie, without a copy. nullptr if the file is not mapped: read them then. If
  // somebody truncates a mapped file, touching them raises SIGBUS; the reads below throw instead.
  const void* data() const { return st_tensor_data(tensor_); }

  // data() as values. Throws ST_ERR_ARGUMENT if T does not fit the dtype (unsigned types take any of
  // their width, std::byte takes all), ST_ERR_STATE if there is no view or it is unaligned for T.
  template <class T>
  View<T> view() const {
    return detail::view_of<T>(*this);
  }

  // Copies all bytes to `destination`. size: exactly nbytes(), else ST_ERR_BUFFER_SIZE.
  void read(void* destination, std::size_t size) const { detail::call(st_tensor_read, tensor_, destination, size); }

  // A copy: read<float>() of an F32 tensor, read() for its bytes. T as for view().
  template <class T = std::byte>
  std::vector<T> read() const {
    return detail::values_of<T>(*this);
  }

  // A range for each dimension; dimensions without one are whole. Reads nothing. Throws
  // ST_ERR_ARGUMENT for more ranges than dimensions or a step of 0, ST_ERR_MISALIGNED if the part would
  // begin or end inside a byte.
  Slice slice(const std::vector<Range>& ranges) const;

  // A hint to the system: these bytes will soon be touched, or not again.
  void advise(st_advice advice) const { st_tensor_advise(&tensor_, 1, advice); }

 private:
  friend class SafeOpen;
  friend class Writer;
  Tensor(detail::Handle file, const st_tensor* tensor)
      : name(detail::name_of(tensor)),
        dtype(static_cast<Dtype>(st_tensor_dtype(tensor))),
        shape(st_tensor_shape(tensor), st_tensor_rank(tensor)),
        file_(std::move(file)),
        tensor_(tensor) {}

  detail::Handle file_;
  const st_tensor* tensor_;
};

// A part of a tensor, with as many dimensions as the tensor. Nothing is read until it is asked for.
class Slice {
 public:
  std::string_view name;  // the tensor's
  Dtype dtype;
  std::vector<std::uint64_t> shape;

  std::uint64_t nbytes() const { return nbytes_; }  // of the packed result

  // The bytes where they lie. nullptr if they are not contiguous or the file is not mapped.
  const void* data() const {
    const void* contiguous = nullptr;
    st_tensor_slice(tensor_.c_handle(), begin_.data(), end_.data(), step_.data(), nullptr, nullptr, &contiguous,
                    nullptr);
    return contiguous;
  }

  // As those of Tensor. Reads on the calling thread, without what the part leaves out; many parts, and
  // large ones, come sooner through a Plan.
  template <class T>
  View<T> view() const {
    return detail::view_of<T>(*this);
  }
  void read(void* destination, std::size_t size) const {
    detail::call(st_tensor_read_slice, tensor_.c_handle(), begin_.data(), end_.data(), step_.data(), destination, size);
  }
  template <class T = std::byte>
  std::vector<T> read() const {
    return detail::values_of<T>(*this);
  }

 private:
  friend class Tensor;
  friend class Plan;
  Slice(const Tensor& tensor, const std::vector<Range>& ranges)
      : name(tensor.name), dtype(tensor.dtype), shape(tensor.rank()), tensor_(tensor) {
    if (ranges.size() > shape.size()) {
      throw Error(ST_ERR_ARGUMENT, "tensor '" + std::string(name) + "': " + std::to_string(ranges.size()) +
                                       " ranges for " + std::to_string(shape.size()) + " dimensions");
    }
    const Range whole;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Range& range = d < ranges.size() ? ranges[d] : whole;
      const bool backwards = range.step < 0;
      begin_.push_back(range.begin.value_or(backwards ? INT64_MAX : 0));
      end_.push_back(range.end.value_or(backwards ? INT64_MIN : INT64_MAX));
      step_.push_back(range.step);
    }
    detail::call(st_tensor_slice, tensor_.c_handle(), begin_.data(), end_.data(), step_.data(), shape.data(), &nbytes_,
                 nullptr);
  }

  Tensor tensor_;
  std::vector<std::int64_t> begin_;
  std::vector<std::int64_t> end_;
  std::vector<std::int64_t> step_;
  std::uint64_t nbytes_ = 0;
};

inline Slice Tensor::slice(const std::vector<Range>& ranges) const { return Slice(*this, ranges); }

// ---- Files --------------------------------------------------------------------------------------

using Metadata = std::map<std::string, std::string>;

// An open checkpoint: one file, or all shards of one model. Immutable and cheap to copy.
class SafeOpen {
 public:
  // A file, a *.safetensors.index.json, or a folder that holds either.
  explicit SafeOpen(const std::string& path, const st_open_options& options = ST_INIT(st_open_options))
      : SafeOpen(path, opened(st_open, detail::c_path(path), &options)) {}

  // A whole file in the caller's memory, which must stay as it is while the file or a tensor of it
  // lives. `owner`, if given, is kept until then.
  static SafeOpen from_memory(const void* data, std::size_t size, std::shared_ptr<const void> owner = nullptr,
                              const st_open_options& options = ST_INIT(st_open_options)) {
    using Owner = std::shared_ptr<const void>;
    auto* kept = new Owner(std::move(owner));  // st_open_memory releases it, also when it fails
    const auto release = [](void* ctx) { delete static_cast<Owner*>(ctx); };
    return {"memory", opened(st_open_memory, data, size, +release, kept, &options)};
  }

  // `size` bytes from `offset` inside an open file (size 0: to its end). The descriptor stays the
  // caller's, and may be closed at once.
  static SafeOpen from_fd(std::intptr_t fd, std::uint64_t offset = 0, std::uint64_t size = 0,
                          const st_open_options& options = ST_INIT(st_open_options)) {
    return {"descriptor " + std::to_string(fd), opened(st_open_fd, fd, offset, size, &options)};
  }

  // Any random-access bytes: see st_source. Its close is called exactly once, also when this throws.
  static SafeOpen from_source(const st_source& source, const st_open_options& options = ST_INIT(st_open_options)) {
    return {"source", opened(st_open_source, &source, &options)};
  }

  // Throws ST_ERR_NOT_FOUND if there is no such tensor; find() tells without throwing.
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

  // A part of a tensor, one range for each dimension: {{0, 10}, {{}, {}, 2}} is [0:10, ::2]. Throws what
  // get_tensor and Tensor::slice throw.
  Slice get_slice(std::string_view name, const std::vector<Range>& ranges = {}) const {
    return get_tensor(name).slice(ranges);
  }

  bool contains(std::string_view name) const {
    return st_get_tensor_n(file_.get(), name.data(), name.size()) != nullptr;
  }

  // All names, sorted; and in the order of the data.
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
    for (const Tensor& tensor : *this) tensors.emplace(tensor.name, tensor);
    return tensors;
  }

  // Empty if the file has none, or an empty map, which has_metadata tells apart.
  Metadata metadata() const {
    Metadata pairs;
    for (std::size_t i = 0; i < st_count_metadata(file_.get()); ++i) {
      const char* value = nullptr;
      std::size_t length = 0;
      std::size_t key_length = 0;
      const char* key = st_get_metadata_at(file_.get(), i, &key_length, &value, &length);
      pairs.insert_or_assign(std::string(key, key_length), std::string(value, length));
    }
    return pairs;
  }
  bool has_metadata() const { return st_has_metadata(file_.get()) != 0; }

  st_format format() const { return st_get_format(file_.get()); }
  // What is odd and no error, a line each.
  std::vector<std::string> warnings() const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < st_count_warnings(file_.get()); ++i) {
      lines.emplace_back(st_get_warning(file_.get(), i));
    }
    return lines;
  }

  // The files of the checkpoint, numbered from 0.
  std::size_t count_shards() const { return st_count_shards(file_.get()); }
  std::string_view shard_path(std::size_t shard) const {
    const char* path = st_get_shard_path(file_.get(), shard);
    return path ? std::string_view(path) : std::string_view();
  }
  // The header as the file spells it, without the eight bytes of its length.
  std::string_view header(std::size_t shard = 0) const {
    std::size_t length = 0;
    const char* text = st_get_header(file_.get(), shard, &length);
    return text ? std::string_view(text, length) : std::string_view();
  }
  std::uint64_t shard_size(std::size_t shard = 0) const { return st_get_shard_size(file_.get(), shard); }
  // `size` bytes of the file itself, header included, as it was opened: to digest it, or to send it on.
  void read_shard(std::size_t shard, std::uint64_t offset, void* destination, std::size_t size) const {
    detail::call(st_read_shard, file_.get(), shard, offset, destination, size);
  }

  const st_file* c_handle() const { return file_.get(); }

  // The file is a range of Tensors in the order of the data.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Tensor;
    using difference_type = std::ptrdiff_t;
    using reference = Tensor;
    struct Arrow {
      Tensor tensor;
      const Tensor* operator->() const { return &tensor; }
    };
    using pointer = Arrow;

    Iterator() = default;
    Tensor operator*() const { return file_->tensor_at(i_); }
    Arrow operator->() const { return {**this}; }
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
    const SafeOpen* file_ = nullptr;
    std::size_t i_ = 0;
  };

  std::size_t size() const { return st_count_tensors(file_.get()); }
  bool empty() const { return size() == 0; }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }
  // i: below size().
  Tensor tensor_at(std::size_t i) const { return Tensor(file_, st_get_tensor_at(file_.get(), i)); }

 private:
  SafeOpen(std::string shown, detail::Handle file) : file_(std::move(file)), shown_(std::move(shown)) {}

  template <class Open, class... Arguments>
  static detail::Handle opened(Open* open, const Arguments&... arguments) {
    return detail::Handle(detail::result_of<st_file*>(open, arguments...));
  }

  detail::Handle file_;
  std::string shown_;  // how messages call the file
};

// Every tensor of a file by name. Their bytes are read when they are asked for.
inline std::map<std::string, Tensor> load_file(const std::string& path) { return SafeOpen(path).get_tensors(); }

// ---- Reading much at once -----------------------------------------------------------------------

// Memory for destinations: zeroed, aligned to 2 MiB, on huge pages where the system has them.
class Buffer {
 public:
  Buffer() = default;
  // flags: 0 or ST_BUFFER_LAZY. threads: to make it, gone when this returns; 0: the library chooses.
  // Throws ST_ERR_NO_MEMORY.
  explicit Buffer(std::uint64_t size, std::uint32_t flags = 0, std::uint32_t threads = 0)
      : data_(static_cast<std::byte*>(detail::result_of<void*>(st_buffer_new, size, flags, threads))),
        size_(static_cast<std::size_t>(size)) {}

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<std::byte, detail::Free> data_;
  std::size_t size_ = 0;
};

// Told about every 10 ms and at the end of a run; `false` cancels it. One thread at a time calls it, the
// one that called run() unless options.parallel_for is set. What it throws, run() throws.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

// Many reads as one pass over the files: sorted, merged, split, by several threads. Keeps its file open.
class Plan {
 public:
  explicit Plan(const SafeOpen& file) : plan_(detail::result_of<st_plan*>(st_plan_new, file.c_handle())) {}

  // Adds a destination and returns its number, counted from 0. `destination` must live until the plan has
  // run. size: exactly nbytes() of the tensor or slice, else ST_ERR_BUFFER_SIZE.
  std::size_t add(const Tensor& tensor, void* destination, std::size_t size) {
    return add(tensor.c_handle(), nullptr, nullptr, nullptr, destination, size);
  }
  std::size_t add(const Slice& slice, void* destination, std::size_t size) {
    return add(slice.tensor_.c_handle(), slice.begin_.data(), slice.end_.data(), slice.step_.data(), destination, size);
  }
  std::size_t size() const { return size_; }  // how many destinations there are

  // Reads everything; a second run reads everything again. The first error ends it, and its message
  // names tensor, file and offset. Throws ST_ERR_CANCELLED after a cancel. Its threads are gone when it
  // returns.
  void run(const st_read_options& options = ST_INIT(st_read_options)) {
    detail::call(st_plan_run, plan_.get(), &options);
  }
  // The same, telling progress(done, total) in bytes how far it has come, in the place of options.progress. It cancels by
  // returning false, except from its last call, where done is total.
  template <class Function, class = std::enable_if_t<std::is_convertible_v<Function, Progress>>>
  void run(Function&& progress, const st_read_options& options = ST_INIT(st_read_options)) {
    run_reporting(Progress(std::forward<Function>(progress)), options);
  }

  // These three from any thread, also while the plan runs.
  struct Bytes {
    std::uint64_t done;
    std::uint64_t total;
  };
  Bytes progress() const {
    Bytes bytes{};
    st_plan_progress(plan_.get(), &bytes.done, &bytes.total);
    return bytes;
  }
  // The run, or if there is none the next one.
  void cancel() const { st_plan_cancel(plan_.get()); }
  // Whether every byte of destination i is there, also after a run that failed or was cancelled.
  bool is_complete(std::size_t i) const { return st_plan_is_complete(plan_.get(), i) != 0; }

 private:
  // What the C callbacks get as their ctx. No exception may pass through the library's frames.
  struct Reporter {
    const Progress& progress;
    const st_read_options& given;
    std::exception_ptr thrown;

    static std::int32_t report(void* ctx, std::uint64_t done, std::uint64_t total) noexcept {
      auto* self = static_cast<Reporter*>(ctx);
      try {
        return self->progress(done, total) ? 0 : 1;
      } catch (...) {
        self->thrown = std::current_exception();
        return 1;
      }
    }
    static void parallel_for(void* ctx, std::size_t n, void (*body)(void*, std::size_t), void* argument) {
      const st_read_options& given = static_cast<Reporter*>(ctx)->given;
      given.parallel_for(given.ctx, n, body, argument);
    }
  };

  void run_reporting(const Progress& progress, const st_read_options& options) {
    Reporter reporter{progress, options, nullptr};
    st_read_options reporting = options;
    reporting.ctx = &reporter;
    reporting.progress = progress ? &Reporter::report : nullptr;
    reporting.parallel_for = options.parallel_for != nullptr ? &Reporter::parallel_for : nullptr;
    try {
      run(reporting);
    } catch (const Error&) {
      if (!reporter.thrown) throw;
    }
    if (reporter.thrown) std::rethrow_exception(reporter.thrown);
  }

  std::size_t add(const st_tensor* tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step,
                  void* destination, std::size_t size) {
    detail::call(st_plan_add, plan_.get(), tensor, begin, end, step, destination, size);
    return size_++;
  }

  std::unique_ptr<st_plan, detail::Free> plan_;
  std::size_t size_ = 0;
};

// ---- Writing ------------------------------------------------------------------------------------

// Values to be written, which the caller keeps.
struct TensorView {
  Dtype dtype;
  std::vector<std::uint64_t> shape;
  const void* data;
  std::size_t nbytes;

  TensorView(Dtype of, std::vector<std::uint64_t> dimensions, const void* bytes, std::size_t size)
      : dtype(of), shape(std::move(dimensions)), data(bytes), nbytes(size) {}
  // Numbers in a std::vector, std::array, std::span or View: {values, {2, 3}}. Without a shape they have
  // one dimension.
  template <class Values, class T = std::remove_cv_t<typename Values::value_type>,
            class = decltype(std::declval<const Values&>().data())>
  TensorView(const Values& values, std::vector<std::uint64_t> dimensions)
      : TensorView(dtype_of<T>(), std::move(dimensions), values.data(), values.size() * sizeof(T)) {}
  template <class Values, class T = std::remove_cv_t<typename Values::value_type>,
            class = decltype(std::declval<const Values&>().data())>
  TensorView(const Values& values)  // NOLINT(google-explicit-constructor): save_file({{"bias", bias}}, ...)
      : TensorView(values, {values.size()}) {}
};

// A file in the making, which appears under its path whole, in one step, or not at all:
//
//     set_metadata, add   ->   begin   ->   put, from any number of threads   ->   finish
//
// A Writer destroyed before finish() leaves nothing behind. Which failures end a writer, what is
// replaced and how links and pipes are treated is told at st_writer in safetensors.h.
class Writer {
 public:
  Writer() : writer_(detail::result_of<st_writer*>(st_writer_new)) {}

  // The last value of a key counts.
  void set_metadata(std::string_view key, std::string_view value) {
    detail::call(st_writer_set_metadata_n, writer_.get(), key.data() == nullptr ? "" : key.data(), key.size(),
                 value.data(), value.size());
  }
  // Every pair of a map; an empty one writes a map without pairs, instead of no map.
  void set_metadata(const Metadata& metadata) {
    constexpr std::size_t kNone = 0;
    detail::call(st_writer_set_metadata_n, writer_.get(), nullptr, kNone, nullptr, kNone);
    for (const auto& [key, value] : metadata) set_metadata(key, value);
  }
  // As the file has it, map or none, over what was set before.
  void copy_metadata(const SafeOpen& file) { detail::call(st_writer_copy_metadata, writer_.get(), file.c_handle()); }

  // Declares a tensor and returns its number for put(). data: as many bytes as dtype and shape need,
  // read by finish() and unchanged until then; nullptr: they come through put(). Throws if the name was
  // given before or is not UTF-8, or if dtype or shape cannot be.
  std::size_t add(std::string_view name, Dtype dtype, View<std::uint64_t> shape, const void* data = nullptr) {
    return detail::result_of<std::size_t>(st_writer_add_n, writer_.get(), name.data(), name.size(),
                                          static_cast<st_dtype>(dtype), shape.size(), shape.data(), data);
  }
  std::size_t add(std::string_view name, Dtype dtype, std::initializer_list<std::uint64_t> shape,
                  const void* data = nullptr) {
    return add(name, dtype, View<std::uint64_t>(shape.begin(), shape.size()), data);
  }
  // With its data, which finish() reads and which must be unchanged until then. Throws ST_ERR_BUFFER_SIZE if nbytes is
  // not what dtype and shape need.
  std::size_t add(std::string_view name, const TensorView& tensor) {
    if (!has_right_size(tensor)) {
      throw Error(ST_ERR_BUFFER_SIZE, "tensor '" + std::string(name) + "': its dtype and shape do not need " +
                                          std::to_string(tensor.nbytes) + " bytes");
    }
    return add(name, tensor.dtype, tensor.shape, tensor.data);
  }

  // A vector that is gone before finish() could read it.
  template <class Values, class = std::enable_if_t<!std::is_lvalue_reference_v<Values> &&
                                                   !std::is_same_v<std::decay_t<Values>, TensorView> &&
                                                   !std::is_trivially_copyable_v<std::decay_t<Values>>>>
  std::size_t add(std::string_view name, Values&& values) = delete;

  // A tensor of an open file, under its own name or another. finish() copies its bytes, inside the
  // kernel where that is possible; until then the writer keeps the file open.
  void add_tensor(const Tensor& tensor) { add_tensor(tensor, tensor.name); }
  void add_tensor(const Tensor& tensor, std::string_view name) {
    if (sources_.empty() || sources_.back().get() != tensor.file_.get()) sources_.push_back(tensor.file_);
    detail::call(st_writer_add_tensor, writer_.get(), name.data() == nullptr ? "" : name.data(), name.size(),
                 tensor.c_handle());
  }

  // Checks all that was declared before the path is touched, lays the file out, and opens it. Waits for
  // the reader of a FIFO.
  void begin(const std::string& path, const st_write_options& options = ST_INIT(st_write_options)) {
    detail::call(st_writer_begin, writer_.get(), detail::c_path(path), &options);
  }

  // `size` bytes of tensor `index`, from its byte `at`; from any number of threads. Pieces come in any
  // order, each byte once. data is the caller's again when it returns.
  void put(std::size_t index, std::uint64_t at, const void* data, std::size_t size) const {
    detail::call(st_writer_put, writer_.get(), index, at, data, size);
  }

  // Throws ST_ERR_STATE while bytes are missing; the message says of which tensor, and how many.
  void finish() {
    detail::call(st_writer_finish, writer_.get());
    sources_.clear();
  }

 private:
  // True where the size cannot be counted: the library refuses such a shape, and says why.
  static bool has_right_size(const TensorView& tensor) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : tensor.shape) {
      if (dimension != 0 && elements > UINT64_MAX / dimension) return true;
      elements *= dimension;
    }
    const std::uint64_t whole = elements / 8;  // eight elements fill whole bytes, whatever the dtype
    const std::uint64_t per_eight = bits(tensor.dtype);
    if (per_eight == 0 || whole > UINT64_MAX / per_eight) return true;
    const std::uint64_t rest_bits = elements % 8 * per_eight;
    return rest_bits % 8 != 0 || tensor.nbytes - whole * per_eight == rest_bits / 8;
  }

  std::vector<detail::Handle> sources_;
  std::unique_ptr<st_writer, detail::Free> writer_;  // freed before what it reads from
};

// Writes a file at once. tensors: a map, or any range of pairs, from names to TensorViews or to Tensors
// of open files; or any range of such Tensors, as SafeOpen is one. An empty metadata map writes none.
//
//     save_file({{"bias", bias}, {"weight", {weight, {2, 3}}}}, path, {{"format", "pt"}});
template <class Tensors = std::map<std::string, TensorView>>
void save_file(const Tensors& tensors, const std::string& path, const Metadata& metadata = {},
               const st_write_options& options = ST_INIT(st_write_options)) {
  Writer writer;
  if (!metadata.empty()) writer.set_metadata(metadata);
  for (const auto& entry : tensors) {
    if constexpr (std::is_same_v<std::decay_t<decltype(entry)>, Tensor>) {
      writer.add_tensor(entry);
    } else if constexpr (std::is_same_v<std::decay_t<decltype(entry.second)>, Tensor>) {
      writer.add_tensor(entry.second, entry.first);
    } else {
      static_assert(std::is_lvalue_reference_v<decltype(*std::begin(tensors))> ||
                        std::is_same_v<std::decay_t<decltype(entry.second)>, TensorView>,
                    "the values are read after the last of them was made: make them first, in a map or vector");
      writer.add(entry.first, entry.second);
    }
  }
  writer.begin(path, options);
  writer.finish();
}

// Sets metadata keys of a file to values, or removes those with std::nullopt; a missing key to remove is
// no error. All changes are made or none. No tensor's byte is touched: see st_edit_metadata. Of options
// only ST_WRITE_SYNC, data_alignment and header_reserve apply. Throws ST_ERR_ARGUMENT if a key or value
// holds a NUL.
inline void edit_metadata(const std::string& path, const std::map<std::string, std::optional<std::string>>& changes,
                          const st_write_options& options = ST_INIT(st_write_options)) {
  std::vector<const char*> keys;
  std::vector<const char*> values;
  for (const auto& [key, value] : changes) {
    if (key.find('\0') != key.npos || (value && value->find('\0') != value->npos)) {
      throw Error(ST_ERR_ARGUMENT, "'" + path + "': a metadata key or value to set holds a NUL");
    }
    keys.push_back(key.c_str());
    values.push_back(value ? value->c_str() : nullptr);
  }
  detail::call(st_edit_metadata, detail::c_path(path), keys.data(), values.data(), keys.size(), &options);
}

// ---- Library ------------------------------------------------------------------------------------

// Of the library as loaded: "0.1.0 (...)".
inline std::string_view version() { return st_version_string(); }

}  // namespace safetensors

#endif  // SAFETENSORS_HPP
