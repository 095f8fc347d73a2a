// safetensors.hpp - safetensors.h for C++17 and later: objects free themselves, errors are thrown.
//
// This header is compiled into the program and calls only safetensors.h, so it has no ABI of its
// own. Names follow the Python package: SafeOpen, keys, get_tensor, get_slice, metadata, load_file,
// save_file.
//
//     auto file = safetensors::SafeOpen("model.safetensors");
//     for (const auto& tensor : file) std::cout << tensor.name << ' ' << tensor.dtype << '\n';
//     std::vector<float> bias = file.get_tensor("bias").read<float>();
//     std::vector<float> rows = file.get_slice("weight", {{0, 10}}).read<float>();  // weight[0:10]
//     safetensors::save_file({{"bias", bias}}, "bias.safetensors", {{"format", "pt"}});
//
// Conventions. They apply to everything below unless its comment says otherwise. Comments on
// statuses, options and flags are short here; the comment of the C function has the details.
//
//  1. Errors. Every failure is thrown: as Error, with the status of the C function, or as
//     std::bad_alloc if a container of this header gets no memory.
//  2. Threads. Any number of threads may call const members of one object at the same time. While a
//     member that is not const runs, no other call may use the object.
//  3. Units. Sizes and offsets are in bytes, positions and shapes in elements.
//  4. Lifetime. SafeOpen, Tensor and Slice keep the file open, and copies share it. Returned views,
//     string_views and pointers are valid while the file is open. So this is wrong, because only a
//     temporary keeps the file open:
//         auto shape = SafeOpen(path).get_tensor("w").shape;
//     Plan, Buffer, Device and Writer can be moved but not copied. A moved-from object can only be
//     destroyed or assigned to.
//  5. Ownership. The caller owns the memory that it passes in.
//  6. Text is UTF-8, including paths.
//  7. Options. ST_INIT(st_open_options), and likewise for other structs, sets every option to its
//     default.
//  8. Versions. CHANGELOG.md lists the additions of each version. All names are in an inline
//     namespace for the minor version. So source files compiled with different minor versions can
//     be linked into one program. They cannot pass these types to each other, nor catch each
//     other's Error. Include this header instead of declaring its classes yourself.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef LIBSAFETENSORS_HPP
#define LIBSAFETENSORS_HPP

#include "safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iostream>  // programs written for earlier C++ bindings expect std::cout from here
#include <iterator>
#include <limits>
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
inline namespace v0_3 {  // another one in each minor version: convention 8

// ---- Errors -------------------------------------------------------------------------------------

// The details of an error. what() is one line that names the file or tensor, and the values.
class Error : public std::runtime_error {
 public:
  Error(st_status status, const std::string& message, std::uint64_t offset = UINT64_MAX,
        int os_error = 0)
      : std::runtime_error(message), status_(status), os_error_(os_error), offset_(offset) {}

  st_status status() const noexcept { return status_; }
  // Returns the name of the status, for example "ST_ERR_JSON".
  const char* status_name() const noexcept { return st_status_name(status_); }
  // Returns errno or GetLastError(); 0 if the system reported no error.
  int os_error() const noexcept { return os_error_; }
  // Returns the offset of the error in the file, if it has one.
  std::optional<std::uint64_t> offset() const noexcept {
    return offset_ == UINT64_MAX ? std::nullopt : std::optional<std::uint64_t>(offset_);
  }

 private:
  st_status status_;
  int os_error_;
  std::uint64_t offset_;
};

// ---- Element types ------------------------------------------------------------------------------

// The type of a tensor's elements, as st_dtype describes them.
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

// Returns the name of a dtype, for example "BF16".
inline std::string_view name(Dtype dtype) { return st_dtype_name(static_cast<st_dtype>(dtype)); }
inline std::ostream& operator<<(std::ostream& out, Dtype dtype) { return out << name(dtype); }
// Returns the size of an element in bits; 0 for Dtype::UNKNOWN.
inline std::uint32_t bits(Dtype dtype) { return st_dtype_bits(static_cast<st_dtype>(dtype)); }
// Returns the dtype with this name, or Dtype::UNKNOWN. Case matters.
inline Dtype dtype_from_name(std::string_view text) {
  return static_cast<Dtype>(st_dtype_from_name(text.data(), text.size()));
}

namespace detail {

// Characters are not numbers, and the signedness of char and wchar_t depends on the machine.
template <class T>
constexpr bool is_character() {
#if defined(__cpp_char8_t)
  if (std::is_same_v<T, char8_t>) return true;
#endif
  return std::is_same_v<T, char> || std::is_same_v<T, wchar_t> || std::is_same_v<T, char16_t> ||
         std::is_same_v<T, char32_t>;
}

constexpr Dtype integer_dtype(std::size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1: return is_signed ? Dtype::I8 : Dtype::U8;
    case 2: return is_signed ? Dtype::I16 : Dtype::U16;
    case 4: return is_signed ? Dtype::I32 : Dtype::U32;
    case 8: return is_signed ? Dtype::I64 : Dtype::U64;
    default: return Dtype::UNKNOWN;
  }
}

// std::float16_t and std::bfloat16_t have the same size. digits: from numeric_limits.
constexpr Dtype floating_dtype(std::size_t bytes, int digits) {
  if (bytes == 2 && digits == 11) return Dtype::F16;
  if (bytes == 2 && digits == 8) return Dtype::BF16;
  if (bytes == 4 && digits == 24) return Dtype::F32;
  if (bytes == 8 && digits == 53) return Dtype::F64;
  return Dtype::UNKNOWN;
}

template <class T>
constexpr Dtype arithmetic_dtype() {
  if (std::is_same_v<T, bool>) return Dtype::BOOL;
  if (std::is_floating_point_v<T>) return floating_dtype(sizeof(T), std::numeric_limits<T>::digits);
  return integer_dtype(sizeof(T), std::is_signed_v<T>);
}

}  // namespace detail

// Returns the dtype for values of a C++ type: F32 for float, I64 for std::int64_t, BF16 for
// std::bfloat16_t. Does not compile for a type without a dtype, nor for characters: use std::int8_t
// or std::uint8_t for numbers of one byte.
template <class T>
constexpr Dtype dtype_of() {
  using Value = std::remove_cv_t<T>;
  static_assert(std::is_arithmetic_v<Value>, "name the Dtype: this type is no number of C++");
  static_assert(!detail::is_character<Value>(), "name the Dtype: this type is a character");
  constexpr Dtype kDtype = detail::arithmetic_dtype<Value>();
  static_assert(kDtype != Dtype::UNKNOWN, "no dtype holds this type");
  return kDtype;
}

// ---- Views --------------------------------------------------------------------------------------

// Contiguous values that the View does not own: a std::span<const T> for C++17. In C++20 it
// converts to std::span.
template <class T>
class View {
 public:
  using value_type = T;
  using const_iterator = const T*;

  View() = default;
  View(const T* data, std::size_t size) : data_(data), size_(size) {}
  // Views the values of a container with data() and size(): std::vector, std::array, std::span.
  template <class Values, class = std::enable_if_t<std::is_convertible_v<
                              decltype(std::declval<const Values&>().data()), const T*>>>
  // NOLINTNEXTLINE(google-explicit-constructor)
  View(const Values& values) : View(values.data(), values.size()) {}

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

// ---- Calls of the C API; internal ---------------------------------------------------------------

namespace detail {

// Calls a function of safetensors.h with these arguments and an st_error. Throws its error.
template <class... Parameters, class... Arguments>
void call(st_status (*function)(Parameters...), const Arguments&... arguments) {
  st_error error = ST_INIT(st_error);
  const st_status status = function(arguments..., &error);
  if (status != ST_OK) throw Error(status, error.message, error.offset, error.os_error);
}

// As call(), for a function with an out-parameter before the st_error. Returns the out-parameter.
template <class Out, class... Parameters, class... Arguments>
Out result_of(st_status (*function)(Parameters...), const Arguments&... arguments) {
  Out out{};
  call(function, arguments..., &out);
  return out;
}

// A reference to an st_file.
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

// Returns the path for a C function. Throws if it contains a NUL, which would end it.
inline const char* c_path(const std::string& path) {
  const std::size_t nul = path.find('\0');
  if (nul != path.npos)
    throw Error(ST_ERR_ARGUMENT, "a NUL follows '" + path.substr(0, nul) + "' in a path");
  return path.c_str();
}

struct Free {
  void operator()(st_plan* plan) const noexcept { st_plan_free(plan); }
  void operator()(st_device* device) const noexcept { st_device_free(device); }
  void operator()(st_writer* writer) const noexcept { st_writer_free(writer); }
  void operator()(std::byte* buffer) const noexcept { st_buffer_free(buffer); }
  void operator()(st_tensor_list* list) const noexcept { st_tensor_list_free(list); }
  void operator()(st_report* report) const noexcept { st_report_free(report); }
};

inline std::string_view name_of(const st_tensor* tensor) {
  std::size_t length = 0;
  const char* text = st_tensor_name(tensor, &length);
  return {text, length};
}

// Whether a tensor of this dtype holds values of type T: the rule of Tensor::view().
template <class T>
bool holds(Dtype dtype) {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                "tensors are plain bytes");
  static_assert(!std::is_same_v<T, bool>,
                "std::vector<bool> has no bytes of its own: read std::uint8_t");
  if (std::is_same_v<T, std::byte>) return true;
  if (bits(dtype) != sizeof(T) * 8) return false;
  if (std::is_floating_point_v<T>) return dtype == arithmetic_dtype<T>();
  if (std::is_signed_v<T> && !is_character<T>()) return name(dtype).front() == 'I';
  return true;
}

// The next three functions are for Tensor and Slice: `part` has a name, a dtype, nbytes(), data()
// and read().
template <class T, class Part>
void require_dtype(const Part& part) {
  if (holds<T>(part.dtype)) return;
  throw Error(ST_ERR_ARGUMENT, "tensor '" + std::string(part.name) + "' is " +
                                   std::string(name(part.dtype)) + ", not of the type asked for");
}

template <class T, class Part>
View<T> view_of(const Part& part) {
  require_dtype<T>(part);
  const void* bytes = part.data();
  const auto refuse = [&part](const char* why) {
    throw Error(ST_ERR_STATE,
                "tensor '" + std::string(part.name) + "' " + why + ", read it instead");
  };
  if (bytes == nullptr && part.nbytes() != 0) refuse("has no view");
  if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(T) != 0)
    refuse("lies unaligned in the file");
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

// ---- Conversions --------------------------------------------------------------------------------

// Converts n values from one float dtype to another: see st_convert. Throws ST_ERR_UNSUPPORTED if
// `from` is not a float, or `to` is not a float of 8 bits or more.
inline void convert(Dtype from, const void* source, Dtype to, void* destination, std::size_t n) {
  detail::call(st_convert, static_cast<st_dtype>(from), source, static_cast<st_dtype>(to),
               destination, n);
}

// Converts n values that have scales: see st_convert_scaled.
inline void convert_scaled(Dtype from, const void* source, Dtype scale_dtype, const void* scales,
                           std::size_t block, const void* global_scale, Dtype to, void* destination,
                           std::size_t n) {
  detail::call(st_convert_scaled, static_cast<st_dtype>(from), source,
               static_cast<st_dtype>(scale_dtype), scales, block, global_scale,
               static_cast<st_dtype>(to), destination, n);
}

// ---- Tensors, and parts of them -----------------------------------------------------------------

class Slice;

// Positions in one dimension, as Python's begin:end:step. {} is all of them, {-2} the last two,
// {{}, 8} the first eight, {{}, {}, -1} all of them backwards. Positions outside are clamped.
struct Range {
  std::optional<std::int64_t> begin = {};
  std::optional<std::int64_t> end = {};
  std::int64_t step = 1;
};

// One tensor of an open file. Copying it costs an atomic increment.
class Tensor {
 public:
  std::string_view name;
  Dtype dtype;
  View<std::uint64_t> shape;

  // Returns the dtype as spelled in the file, even if it is Dtype::UNKNOWN.
  std::string_view dtype_name() const { return st_tensor_dtype_name(tensor_); }
  // Returns the number of dimensions; 0 for a scalar.
  std::size_t rank() const { return st_tensor_rank(tensor_); }
  // Returns the number of elements: the product of the shape, 1 for a scalar.
  std::uint64_t elements() const { return st_tensor_elements(tensor_); }
  // The size of the data in bytes.
  std::uint64_t nbytes() const { return st_tensor_bytes(tensor_); }
  // Returns the offset of the data in its file.
  std::uint64_t offset() const { return st_tensor_offset(tensor_); }
  // Returns the number of the file that contains it; 0 for a checkpoint of one file.
  std::size_t shard() const { return st_tensor_shard(tensor_); }
  // For calls to functions of safetensors.h.
  const st_tensor* c_handle() const { return tensor_; }

  // Returns a pointer to the bytes, without a copy, or nullptr if the file is not mapped. The bytes
  // may be less aligned than the elements need. If another process truncates the file, touching
  // them raises SIGBUS; read() throws instead.
  const void* data() const { return st_tensor_data(tensor_); }

  // Returns data() as values of type T. T matches the dtype if it is
  //   - std::byte, for every dtype;
  //   - a floating-point type or a signed integer type, and the dtype is dtype_of<T>();
  //   - another type with the size of an element: an unsigned integer type (most programs hold a
  //     BF16 as std::uint16_t), a character, or a class such as the half of another library.
  // Throws ST_ERR_ARGUMENT if T does not match. Throws ST_ERR_STATE if the file is not mapped or
  // the bytes are not aligned for T.
  template <class T>
  View<T> view() const {
    return detail::view_of<T>(*this);
  }

  // Copies all bytes to destination. Throws ST_ERR_BUFFER_SIZE if size is not nbytes().
  void read(void* destination, std::size_t size) const {
    detail::call(st_tensor_read, tensor_, destination, size);
  }

  // Returns a copy of the values: read<float>() for an F32 tensor, read() for the bytes of any
  // tensor. Throws ST_ERR_ARGUMENT if T does not match the dtype: see view().
  template <class T = std::byte>
  std::vector<T> read() const {
    return detail::values_of<T>(*this);
  }

  // Returns the values of a float tensor as float or double, for example a BF16 tensor as float.
  // Scales in other tensors are not applied: see convert_scaled().
  // The values are little-endian even on a big-endian machine, like all elements in memory. Throws
  // ST_ERR_UNSUPPORTED if convert() does not accept the dtype.
  template <class T>
  std::vector<T> read_as() const {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
    if (dtype == dtype_of<T>()) return read<T>();
    convert(dtype, nullptr, dtype_of<T>(), nullptr, 0);
    const std::vector<std::byte> bytes = read();
    std::vector<T> values;
    if (elements() > values.max_size()) throw std::bad_alloc();
    values.resize(static_cast<std::size_t>(elements()));
    convert(dtype, bytes.data(), dtype_of<T>(), values.data(), values.size());
    return values;
  }

  // Returns a DLPack tensor for another library. It has its own reference to the file. Its last
  // owner calls its deleter. flags: ST_DLPACK_COPY, ST_DLPACK_NO_COPY or 0. st_tensor_to_dlpack
  // says when it is a view, and lists the errors.
  ::DLManagedTensorVersioned* to_dlpack(std::uint32_t flags = 0) const {
    return detail::result_of<::DLManagedTensorVersioned*>(st_tensor_to_dlpack, tensor_, flags);
  }
  // As to_dlpack(), for consumers of DLPack before 1.0: see st_tensor_to_dlpack_legacy.
  ::DLManagedTensor* to_dlpack_legacy(std::uint32_t flags = 0) const {
    return detail::result_of<::DLManagedTensor*>(st_tensor_to_dlpack_legacy, tensor_, flags);
  }

  // Returns a part of the tensor: one range per dimension. Trailing ranges may be omitted. Reads
  // nothing. Throws ST_ERR_ARGUMENT if there are more ranges than dimensions or a step is 0. Throws
  // ST_ERR_MISALIGNED if the part begins or ends inside a byte, and ST_ERR_UNSUPPORTED for a part
  // of a tensor with an unknown dtype.
  Slice slice(const std::vector<Range>& ranges) const;

  // Gives the system a hint about the bytes: see st_advice.
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

// A part of a tensor, with the same number of dimensions. It contains no data.
class Slice {
 public:
  std::string_view name;  // of the tensor
  Dtype dtype;
  std::vector<std::uint64_t> shape;

  // The size of the data in bytes, packed.
  std::uint64_t nbytes() const { return nbytes_; }

  // As Tensor::data(). Returns nullptr if the bytes are not contiguous.
  const void* data() const {
    const void* contiguous = nullptr;
    st_tensor_slice(tensor_.c_handle(), begin_.data(), end_.data(), step_.data(), nullptr, nullptr,
                    &contiguous, nullptr);
    return contiguous;
  }

  // As in Tensor. These functions read on the calling thread, and only the slice and small gaps in
  // it. For many slices, or large ones, a Plan is faster.
  template <class T>
  View<T> view() const {
    return detail::view_of<T>(*this);
  }
  void read(void* destination, std::size_t size) const {
    detail::call(st_tensor_read_slice, tensor_.c_handle(), begin_.data(), end_.data(), step_.data(),
                 destination, size);
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
      throw Error(ST_ERR_ARGUMENT, "tensor '" + std::string(name) +
                                       "': " + std::to_string(ranges.size()) + " ranges for " +
                                       std::to_string(shape.size()) + " dimensions");
    }
    const Range whole;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Range& range = d < ranges.size() ? ranges[d] : whole;
      const bool backwards = range.step < 0;
      begin_.push_back(range.begin.value_or(backwards ? ST_SLICE_END : ST_SLICE_BEGIN));
      end_.push_back(range.end.value_or(backwards ? ST_SLICE_BEGIN : ST_SLICE_END));
      step_.push_back(range.step);
    }
    detail::call(st_tensor_slice, tensor_.c_handle(), begin_.data(), end_.data(), step_.data(),
                 shape.data(), &nbytes_, nullptr);
  }

  Tensor tensor_;
  std::vector<std::int64_t> begin_;
  std::vector<std::int64_t> end_;
  std::vector<std::int64_t> step_;
  std::uint64_t nbytes_ = 0;
};

inline Slice Tensor::slice(const std::vector<Range>& ranges) const { return Slice(*this, ranges); }

// ---- Lists --------------------------------------------------------------------------------------

// All tensors of a file in columns, in the order of the data. For programs that pass them to an
// environment in which a call per tensor is slow. It keeps the file open.
class TensorList {
 public:
  std::size_t size() const { return static_cast<std::size_t>(list_->count); }
  // The columns: see st_tensor_list.
  const st_tensor_list& columns() const { return *list_; }

  // i must be less than size().
  std::string_view name(std::size_t i) const {
    const std::uint64_t* offsets = list_->name_offsets;
    return {list_->names + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i] - 1)};
  }
  Dtype dtype(std::size_t i) const { return static_cast<Dtype>(list_->dtypes[i]); }
  View<std::uint64_t> shape(std::size_t i) const {
    return {list_->dims + list_->dim_offsets[i], list_->ranks[i]};
  }

 private:
  friend class SafeOpen;
  TensorList(detail::Handle file, std::uint32_t flags)
      : file_(std::move(file)),
        list_(detail::result_of<st_tensor_list*>(st_list_tensors, file_.get(), flags)) {}

  detail::Handle file_;
  std::unique_ptr<st_tensor_list, detail::Free> list_;
};

// ---- Files --------------------------------------------------------------------------------------

using Metadata = std::map<std::string, std::string>;

// An open checkpoint: one file, or all files ("shards") of one model. It is immutable, and copying
// it costs an atomic increment. It is a range of Tensors, in the order of the data.
class SafeOpen {
 public:
  // Opens a safetensors or bintensors file, the index of a model, or a directory with either: see
  // st_open.
  explicit SafeOpen(const std::string& path,
                    const st_open_options& options = ST_INIT(st_open_options))
      : SafeOpen(path, opened(st_open, detail::c_path(path), &options)) {}

  // Opens a file in memory, which must not change while the file is open. If there is an owner, it
  // is kept until the file is closed.
  static SafeOpen from_memory(const void* data, std::size_t size,
                              std::shared_ptr<const void> owner = nullptr,
                              const st_open_options& options = ST_INIT(st_open_options)) {
    using Owner = std::shared_ptr<const void>;
    auto* kept = new Owner(std::move(owner));  // st_open_memory releases it, even if it fails
    const auto release = [](void* ctx) { delete static_cast<Owner*>(ctx); };
    return {"memory", opened(st_open_memory, data, size, +release, kept, &options)};
  }

  // Opens a file embedded in an open descriptor: size bytes starting at offset. size 0: to the end.
  // The caller keeps the descriptor and may close it at once.
  static SafeOpen from_fd(std::intptr_t fd, std::uint64_t offset = 0, std::uint64_t size = 0,
                          const st_open_options& options = ST_INIT(st_open_options)) {
    return {"descriptor " + std::to_string(fd), opened(st_open_fd, fd, offset, size, &options)};
  }

  // Opens a file that the caller's functions read: see st_source. Its close is called exactly once,
  // even if this throws.
  static SafeOpen from_source(const st_source& source,
                              const st_open_options& options = ST_INIT(st_open_options)) {
    return {"source", opened(st_open_source, &source, &options)};
  }

  // Opens the file or the index with this name in a store: see st_open_store. Its close is called
  // exactly once, even if this throws. Since version 0.3.0.
  static SafeOpen from_store(const st_store& store, std::string_view name,
                             const st_open_options& options = ST_INIT(st_open_options)) {
    const char* const text = name.data() == nullptr ? "" : name.data();
    detail::Handle file = opened(st_open_store_n, &store, text, name.size(), &options);
    return {std::string(name), std::move(file)};
  }

  // Takes over a file from a function of C, for example st_open_url, and frees it. name is for
  // messages. Since version 0.3.0.
  static SafeOpen from_c_handle(st_file* file, const std::string& name = "file") {
    return {name, detail::Handle(file)};
  }

  // Returns the tensor with this name. Throws ST_ERR_NOT_FOUND if there is none.
  Tensor get_tensor(std::string_view name) const {
    std::optional<Tensor> found = find(name);
    if (!found) throw Error(ST_ERR_NOT_FOUND, "no tensor '" + std::string(name) + "' in " + shown_);
    return *std::move(found);
  }

  // Returns the tensor with this name, if there is one.
  std::optional<Tensor> find(std::string_view name) const {
    const st_tensor* tensor = st_get_tensor_n(file_.get(), name.data(), name.size());
    if (tensor == nullptr) return std::nullopt;
    return Tensor(file_, tensor);
  }

  // Returns a part of a tensor, one range for each dimension: {{0, 10}, {{}, {}, 2}} is
  // tensor[0:10, ::2]. Throws what get_tensor() and Tensor::slice() throw.
  Slice get_slice(std::string_view name, const std::vector<Range>& ranges = {}) const {
    return get_tensor(name).slice(ranges);
  }

  bool contains(std::string_view name) const {
    return st_get_tensor_n(file_.get(), name.data(), name.size()) != nullptr;
  }

  // Returns the names of all tensors, sorted.
  std::vector<std::string> keys() const {
    std::vector<std::string> names = offset_keys();
    std::sort(names.begin(), names.end());
    return names;
  }
  // Returns the names of all tensors, in the order of the data.
  std::vector<std::string> offset_keys() const {
    std::vector<std::string> names;
    names.reserve(size());
    for (std::size_t i = 0; i < size(); ++i)
      names.emplace_back(detail::name_of(st_get_tensor_at(file_.get(), i)));
    return names;
  }

  // Returns all tensors by name. Reads no data.
  std::map<std::string, Tensor> get_tensors() const {
    std::map<std::string, Tensor> tensors;
    for (const Tensor& tensor : *this) tensors.emplace(tensor.name, tensor);
    return tensors;
  }

  // Returns all tensors in columns. flags: ST_LIST_DATA, which maps the file, or 0.
  TensorList list(std::uint32_t flags = 0) const { return TensorList(file_, flags); }

  // Returns the metadata. It is empty if the file has none or has an empty map: see has_metadata().
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
  // Whether the file has metadata, even an empty map: see st_has_metadata.
  bool has_metadata() const { return st_has_metadata(file_.get()) != 0; }

  // Returns ST_FORMAT_SAFETENSORS, or a format of bintensors.
  st_format format() const { return st_get_format(file_.get()); }
  // Returns one line for each shard with tensors that the index does not list.
  std::vector<std::string> warnings() const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < st_count_warnings(file_.get()); ++i) {
      lines.emplace_back(st_get_warning(file_.get(), i));
    }
    return lines;
  }

  // Returns the number of files. They are numbered from 0.
  std::size_t count_shards() const { return st_count_shards(file_.get()); }
  // Returns the path of a shard. It is empty if there is no such shard, or it was not opened by
  // path.
  std::string_view shard_path(std::size_t shard) const {
    const char* path = st_get_shard_path(file_.get(), shard);
    return path ? std::string_view(path) : std::string_view();
  }
  // Returns the header of a shard as it is in the file, without the eight bytes of its length. It
  // is empty if there is no such shard, or no memory.
  std::string_view header(std::size_t shard = 0) const {
    std::size_t length = 0;
    const char* text = st_get_header(file_.get(), shard, &length);
    return text ? std::string_view(text, length) : std::string_view();
  }
  // Throws ST_ERR_READ if the file of a shard was overwritten in place since it was opened: see
  // st_check_unchanged.
  void check_unchanged(std::size_t shard = 0) const {
    detail::call(st_check_unchanged, file_.get(), shard);
  }
  // Returns the size of a shard's file in bytes; 0 if there is no such shard.
  std::uint64_t shard_size(std::size_t shard = 0) const {
    return st_get_shard_size(file_.get(), shard);
  }
  // Copies size bytes of a shard's file, starting at offset, to destination. This includes the
  // header, for example to compute a digest. Throws ST_ERR_RANGE if there is no such shard, or the
  // range exceeds its file.
  void read_shard(std::size_t shard, std::uint64_t offset, void* destination,
                  std::size_t size) const {
    detail::call(st_read_shard, file_.get(), shard, offset, destination, size);
  }

  // For calls to functions of safetensors.h.
  const st_file* c_handle() const { return file_.get(); }

  // An iterator is valid as long as its SafeOpen.
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
  // Returns tensor i in the order of the data. i must be less than size().
  Tensor tensor_at(std::size_t i) const { return Tensor(file_, st_get_tensor_at(file_.get(), i)); }

 private:
  SafeOpen(std::string shown, detail::Handle file)
      : file_(std::move(file)), shown_(std::move(shown)) {}

  template <class Open, class... Arguments>
  static detail::Handle opened(Open* open, const Arguments&... arguments) {
    return detail::Handle(detail::result_of<st_file*>(open, arguments...));
  }

  detail::Handle file_;
  std::string shown_;  // how messages call the file
};

// Opens a file and returns all its tensors by name. Reads no data.
inline std::map<std::string, Tensor> load_file(const std::string& path) {
  return SafeOpen(path).get_tensors();
}

// ---- Checking -----------------------------------------------------------------------------------

// One finding about a file: an error or, if is_note, a lint note.
struct Finding {
  st_status status;
  bool is_note;
  int os_error;
  std::optional<std::uint64_t> offset;  // in the file at path
  std::string path;
  std::optional<std::string> tensor;
  std::string message;
};

// Returns all findings about a file or a model: see st_check. Throws only the errors that st_check
// returns. Its name is in parentheses because headers of macOS define a macro check(assertion).
inline std::vector<Finding>(check)(const std::string& path,
                                   const st_open_options& options = ST_INIT(st_open_options)) {
  const std::unique_ptr<st_report, detail::Free> report(
      detail::result_of<st_report*>(st_check, detail::c_path(path), &options));
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < st_count_findings(report.get()); ++i) {
    const st_finding& row = *st_get_finding(report.get(), i);
    Finding& finding = findings.emplace_back();
    finding.status = row.status;
    finding.is_note = (row.flags & ST_FINDING_NOTE) != 0;
    finding.os_error = row.os_error;
    if (row.offset != UINT64_MAX) finding.offset = row.offset;
    finding.path.assign(row.path, row.path_len);
    if (row.tensor != nullptr) finding.tensor.emplace(row.tensor, row.tensor_len);
    finding.message.assign(row.message, row.message_len);
  }
  return findings;
}

// ---- Reading many tensors -----------------------------------------------------------------------

// Zeroed memory to read into, aligned to 2 MiB, on huge pages if the system has them.
class Buffer {
 public:
  Buffer() = default;
  // Allocates size bytes with this many threads; 0: the library chooses. flags: 0 or
  // ST_BUFFER_LAZY. Throws ST_ERR_NO_MEMORY.
  explicit Buffer(std::uint64_t size, std::uint32_t flags = 0, std::uint32_t threads = 0)
      : data_(
            static_cast<std::byte*>(detail::result_of<void*>(st_buffer_new, size, flags, threads))),
        size_(static_cast<std::size_t>(size)) {}

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<std::byte, detail::Free> data_;
  std::size_t size_ = 0;
};

// A device, for example a GPU, with memory that plans can fill: see st_device. Plans that use it
// keep it open.
class Device {
 public:
  // Loads the driver and opens a GPU: see st_device_open_cuda. Throws ST_ERR_UNSUPPORTED if there
  // is no driver or device, and ST_ERR_RANGE if there is no such ordinal.
  static Device cuda(std::int32_t ordinal = 0) { return cuda(with_ordinal(ordinal)); }
  static Device cuda(const st_device_options& options) {
    return Device(detail::result_of<st_device*>(st_device_open_cuda, &options));
  }
  static Device hip(std::int32_t ordinal = 0) { return hip(with_ordinal(ordinal)); }
  static Device hip(const st_device_options& options) {
    return Device(detail::result_of<st_device*>(st_device_open_hip, &options));
  }
  // Creates a device from the caller's functions: see st_device_ops.
  static Device from_ops(const st_device_ops& ops,
                         const st_device_options& options = ST_INIT(st_device_options)) {
    return Device(detail::result_of<st_device*>(st_device_new, &ops, &options));
  }

  // Allocates device memory, which release() frees. Throws ST_ERR_UNSUPPORTED if the device has no
  // such function, and ST_ERR_DEVICE if the function fails.
  void* alloc(std::uint64_t size) const {
    return detail::result_of<void*>(st_device_alloc, device_.get(), size);
  }
  void release(void* memory) const { st_device_release(device_.get(), memory); }

  // For calls to functions of safetensors.h.
  const st_device* c_handle() const { return device_.get(); }

 private:
  explicit Device(st_device* owned) : device_(owned) {}

  static st_device_options with_ordinal(std::int32_t ordinal) {
    st_device_options options = ST_INIT(st_device_options);
    options.ordinal = ordinal;
    return options;
  }

  std::unique_ptr<st_device, detail::Free> device_;
};

// Receives the bytes read or written so far and the total, when and where st_read_options.progress
// or st_write_options.progress is called. Returns false to cancel. An exception ends the run or the
// Writer, and run(), put() or finish() throws it.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

// A list of tensors and slices, each with a destination in memory, to be read together: see
// st_plan. It keeps its file open.
class Plan {
 public:
  explicit Plan(const SafeOpen& file)
      : plan_(detail::result_of<st_plan*>(st_plan_new, file.c_handle())) {}

  // Adds a tensor or a slice. Returns the number of its destination, counted from 0. The memory
  // must stay valid until the plan has run for the last time. Destinations must not overlap. Throws
  // ST_ERR_BUFFER_SIZE if size is not nbytes() of the tensor or slice, and ST_ERR_ARGUMENT if it
  // belongs to another file.
  std::size_t add(const Tensor& tensor, void* destination, std::size_t size) {
    return add(tensor.c_handle(), nullptr, nullptr, nullptr, destination, size);
  }
  std::size_t add(const Slice& slice, void* destination, std::size_t size) {
    return add(slice.tensor_.c_handle(), slice.begin_.data(), slice.end_.data(), slice.step_.data(),
               destination, size);
  }
  // As above, for a destination in device memory. The run writes to it after the work submitted to
  // `stream` before run(); with nullptr, immediately. See st_plan_add_device.
  std::size_t add(const Tensor& tensor, const Device& device, void* destination, std::size_t size,
                  void* stream = nullptr) {
    return add(tensor.c_handle(), nullptr, nullptr, nullptr, device, destination, size, stream);
  }
  std::size_t add(const Slice& slice, const Device& device, void* destination, std::size_t size,
                  void* stream = nullptr) {
    return add(slice.tensor_.c_handle(), slice.begin_.data(), slice.end_.data(), slice.step_.data(),
               device, destination, size, stream);
  }
  // The number of destinations.
  std::size_t size() const { return size_; }

  // Reads all destinations, each time it is called. Threads that it starts end before it returns.
  // The first error ends the run; its message names the tensor, the file and the offset. Throws
  // ST_ERR_CANCELLED if the run was cancelled.
  void run(const st_read_options& options = ST_INIT(st_read_options)) {
    detail::call(st_plan_run, plan_.get(), &options);
  }
  // As above, with progress(done, total) instead of options.progress.
  template <class Function, class = std::enable_if_t<std::is_convertible_v<Function, Progress>>>
  void run(Function&& progress, const st_read_options& options = ST_INIT(st_read_options)) {
    run_reporting(Progress(std::forward<Function>(progress)), options);
  }

  // progress(), cancel() and is_complete() may be called from any thread while the plan runs.
  struct Bytes {
    std::uint64_t done;
    std::uint64_t total;
  };
  // Returns the bytes that the current or last run has read, and the bytes of the whole plan.
  Bytes progress() const {
    Bytes bytes{};
    st_plan_progress(plan_.get(), &bytes.done, &bytes.total);
    return bytes;
  }
  // Ends the current run early or, if the plan is not running, its next run.
  void cancel() const { st_plan_cancel(plan_.get()); }
  // Whether the current or last run has read every byte of destination i, even if that run failed
  // or was cancelled.
  bool is_complete(std::size_t i) const { return st_plan_is_complete(plan_.get(), i) != 0; }

  // Returns statistics of the last run. The plan must not be running.
  st_plan_stats stats() const {
    st_plan_stats stats = ST_INIT(st_plan_stats);
    st_plan_get_stats(plan_.get(), &stats);
    return stats;
  }

 private:
  // The ctx of the C callbacks. No exception may leave them.
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
    static void parallel_for(void* ctx, std::size_t n, void (*body)(void*, std::size_t),
                             void* argument) {
      const st_read_options& given = static_cast<Reporter*>(ctx)->given;
      given.parallel_for(given.ctx, n, body, argument);
    }
    static void ready(void* ctx, std::size_t i) {
      const st_read_options& given = static_cast<Reporter*>(ctx)->given;
      given.ready(given.ctx, i);
    }
  };

  void run_reporting(const Progress& progress, const st_read_options& options) {
    Reporter reporter{progress, options, nullptr};
    st_read_options reporting = options;
    reporting.ctx = &reporter;
    reporting.progress = progress ? &Reporter::report : nullptr;
    reporting.parallel_for = options.parallel_for != nullptr ? &Reporter::parallel_for : nullptr;
    reporting.ready = options.ready != nullptr ? &Reporter::ready : nullptr;
    try {
      run(reporting);
    } catch (const Error&) {
      if (!reporter.thrown) throw;
    }
    if (reporter.thrown) std::rethrow_exception(reporter.thrown);
  }

  std::size_t add(const st_tensor* tensor, const std::int64_t* begin, const std::int64_t* end,
                  const std::int64_t* step, void* destination, std::size_t size) {
    detail::call(st_plan_add, plan_.get(), tensor, begin, end, step, destination, size);
    return size_++;
  }

  std::size_t add(const st_tensor* tensor, const std::int64_t* begin, const std::int64_t* end,
                  const std::int64_t* step, const Device& device, void* destination,
                  std::size_t size, void* stream) {
    detail::call(st_plan_add_device, plan_.get(), device.c_handle(), stream, tensor, begin, end,
                 step, destination, size);
    return size_++;
  }

  std::unique_ptr<st_plan, detail::Free> plan_;
  std::size_t size_ = 0;
};

// ---- Writing ------------------------------------------------------------------------------------

namespace detail {

// Whether a type with data() owns its values: containers do, views do not. Copying a container
// copies more than pointers, or a const container has a const data().
template <class Values>
constexpr bool owns_values() {
  return !std::is_trivially_copyable_v<Values> ||
         !std::is_same_v<decltype(std::declval<Values&>().data()),
                         decltype(std::declval<const Values&>().data())>;
}

}  // namespace detail

// Values to write, in memory of the caller.
struct TensorView {
  Dtype dtype;
  std::vector<std::uint64_t> shape;
  const void* data;
  std::size_t nbytes;

  TensorView(Dtype of, std::vector<std::uint64_t> dimensions, const void* bytes, std::size_t size)
      : dtype(of), shape(std::move(dimensions)), data(bytes), nbytes(size) {}
  // Numbers in a std::vector, std::array, std::span or View: {values, {2, 3}}. Without a shape
  // there is one dimension. The dtype is dtype_of<T>().
  template <class Values, class T = std::remove_cv_t<typename Values::value_type>,
            class = decltype(std::declval<const Values&>().data())>
  TensorView(const Values& values, std::vector<std::uint64_t> dimensions)
      : TensorView(dtype_of<T>(), std::move(dimensions), values.data(), values.size() * sizeof(T)) {
  }
  template <class Values, class T = std::remove_cv_t<typename Values::value_type>,
            class = decltype(std::declval<const Values&>().data())>
  // NOLINTNEXTLINE(google-explicit-constructor): save_file({{"bias", bias}}, ...)
  TensorView(const Values& values) : TensorView(values, {values.size()}) {}

  // Deleted: a temporary container is destroyed before its values are written. Temporary views,
  // which own nothing, are accepted.
  template <class Values, class = decltype(std::declval<const Values&>().data()),
            class = std::enable_if_t<detail::owns_values<Values>()>>
  TensorView(const Values&& values, std::vector<std::uint64_t> dimensions) = delete;
  template <class Values, class = decltype(std::declval<const Values&>().data()),
            class = std::enable_if_t<detail::owns_values<Values>()>>
  TensorView(const Values&& values) = delete;  // NOLINT(google-explicit-constructor)
};

// Writes one file. The write is atomic: the complete file replaces the old one, or nothing changes.
// Call the members in this order:
//
//     set_metadata, add   ->   begin   ->   put, from any number of threads   ->   finish
//
// If a Writer is destroyed before finish(), its unfinished file is removed. In safetensors.h, the
// comment on st_writer describes replacing, links and pipes, and the failures that end a writer.
class Writer {
 public:
  Writer() : writer_(detail::result_of<st_writer*>(st_writer_new)) {}

  // Sets a metadata pair. A later value of the same key replaces the earlier one. Throws
  // ST_ERR_UTF8.
  void set_metadata(std::string_view key, std::string_view value) {
    detail::call(st_writer_set_metadata_n, writer_.get(), key.data() == nullptr ? "" : key.data(),
                 key.size(), value.data(), value.size());
  }
  // Sets all pairs of a map. If the map is empty, the file gets an empty metadata map.
  void set_metadata(const Metadata& metadata) {
    constexpr std::size_t kNone = 0;
    detail::call(st_writer_set_metadata_n, writer_.get(), nullptr, kNone, nullptr, kNone);
    for (const auto& [key, value] : metadata) set_metadata(key, value);
  }
  // Copies all metadata pairs of an open file, or its empty map.
  void copy_metadata(const SafeOpen& file) {
    detail::call(st_writer_copy_metadata, writer_.get(), file.c_handle());
  }

  // Declares a tensor and returns its number. data points to as many bytes as dtype and shape need,
  // which must be valid and unchanged until finish() has returned. If it is nullptr, pass the bytes
  // to put(). Throws ST_ERR_DUPLICATE, ST_ERR_UTF8, ST_ERR_DTYPE, ST_ERR_OVERFLOW or
  // ST_ERR_MISALIGNED: see st_writer_add.
  std::size_t add(std::string_view name, Dtype dtype, View<std::uint64_t> shape,
                  const void* data = nullptr) {
    return detail::result_of<std::size_t>(st_writer_add_n, writer_.get(), name.data(), name.size(),
                                          static_cast<st_dtype>(dtype), shape.size(), shape.data(),
                                          data);
  }
  std::size_t add(std::string_view name, Dtype dtype, std::initializer_list<std::uint64_t> shape,
                  const void* data = nullptr) {
    return add(name, dtype, View<std::uint64_t>(shape.begin(), shape.size()), data);
  }
  // Declares a tensor with its data. Also throws ST_ERR_BUFFER_SIZE if nbytes does not match dtype
  // and shape.
  std::size_t add(std::string_view name, const TensorView& tensor) {
    if (!has_right_size(tensor)) {
      throw Error(ST_ERR_BUFFER_SIZE, "tensor '" + std::string(name) +
                                          "': its dtype and shape do not need " +
                                          std::to_string(tensor.nbytes) + " bytes");
    }
    return add(name, tensor.dtype, tensor.shape, tensor.data);
  }

  // Declares a copy of a tensor of an open file, under its own name or another. The writer keeps
  // the file open until finish() has copied the data.
  void add_tensor(const Tensor& tensor) { add_tensor(tensor, tensor.name); }
  void add_tensor(const Tensor& tensor, std::string_view name) {
    if (sources_.empty() || sources_.back().get() != tensor.file_.get())
      sources_.push_back(tensor.file_);
    detail::call(st_writer_add_tensor, writer_.get(), name.data() == nullptr ? "" : name.data(),
                 name.size(), tensor.c_handle());
  }

  // Lays out the file, checks all declarations, and only then opens the path. For a FIFO, waits
  // until it has a reader. Throws the errors of st_writer_begin.
  void begin(const std::string& path, const st_write_options& options = ST_INIT(st_write_options)) {
    detail::call(st_writer_begin, writer_.get(), detail::c_path(path), &options);
  }
  // As above, with progress(done, total) instead of options.progress.
  template <class Function, class = std::enable_if_t<std::is_convertible_v<Function, Progress>>>
  void begin(const std::string& path, Function&& progress,
             const st_write_options& options = ST_INIT(st_write_options)) {
    auto reporter = std::make_unique<Reporter>();
    reporter->progress = std::forward<Function>(progress);
    st_write_options reporting = options;
    reporting.ctx = reporter.get();
    reporting.progress = reporter->progress ? &Reporter::report : nullptr;
    begin(path, reporting);
    reporter_ = std::move(reporter);
  }

  // Gives the writer size bytes of tensor index, starting at byte `at` of the tensor. They are
  // copied or written before it returns. Bytes may come in any order, each byte once. Throws
  // ST_ERR_RANGE, ST_ERR_STATE or ST_ERR_WRITE. The ST_ERR_WRITE may come from an earlier put().
  void put(std::size_t index, std::uint64_t at, const void* data, std::size_t size) const {
    or_rethrow([&] { detail::call(st_writer_put, writer_.get(), index, at, data, size); });
  }

  // Moves the file to its path. Throws ST_ERR_STATE if bytes are missing; the message says how
  // many, and of which tensor.
  void finish() {
    or_rethrow([&] { detail::call(st_writer_finish, writer_.get()); });
    sources_.clear();
    // An exception from the last report, after the file was in place.
    if (reporter_ && reporter_->thrown) std::rethrow_exception(reporter_->thrown);
  }

 private:
  // The ctx of the C callback. No exception may leave it.
  struct Reporter {
    Progress progress;
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
  };

  // Reads `thrown` only after the writer is cancelled. Before that, the put() of another thread may
  // set it.
  template <class Call>
  void or_rethrow(const Call& call) const {
    try {
      call();
    } catch (const Error& error) {
      if (error.status() == ST_ERR_CANCELLED && reporter_ && reporter_->thrown)
        std::rethrow_exception(reporter_->thrown);
      throw;
    }
  }

  // Also returns true if the size cannot be computed: the library rejects such a shape with a
  // message.
  static bool has_right_size(const TensorView& tensor) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : tensor.shape) {
      if (dimension != 0 && elements > UINT64_MAX / dimension) return true;
      elements *= dimension;
    }
    const std::uint64_t whole =
        elements / 8;  // eight elements fill whole bytes, whatever the dtype
    const std::uint64_t per_eight = bits(tensor.dtype);
    if (per_eight == 0 || whole > UINT64_MAX / per_eight) return true;
    const std::uint64_t rest_bits = elements % 8 * per_eight;
    return rest_bits % 8 != 0 || tensor.nbytes - whole * per_eight == rest_bits / 8;
  }

  std::vector<detail::Handle> sources_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<st_writer, detail::Free> writer_;  // last, so freed before what it uses
};

// Writes a whole file. tensors is a map from names to TensorViews or to Tensors of open files,
// another range of such pairs, or a range of Tensors, for example a SafeOpen. Writes no metadata if
// metadata is empty. progress, if given, replaces options.progress. Throws the errors of a Writer.
//
//     save_file({{"bias", bias}, {"weight", {weight, {2, 3}}}}, path, {{"format", "pt"}});
template <class Tensors = std::map<std::string, TensorView>>
void save_file(const Tensors& tensors, const std::string& path, const Metadata& metadata = {},
               const st_write_options& options = ST_INIT(st_write_options),
               const Progress& progress = {}) {
  Writer writer;
  if (!metadata.empty()) writer.set_metadata(metadata);
  for (const auto& entry : tensors) {
    if constexpr (std::is_same_v<std::decay_t<decltype(entry)>, Tensor>) {
      writer.add_tensor(entry);
    } else if constexpr (std::is_same_v<std::decay_t<decltype(entry.second)>, Tensor>) {
      writer.add_tensor(entry.second, entry.first);
    } else {
      static_assert(
          std::is_lvalue_reference_v<decltype(*std::begin(tensors))> ||
              std::is_same_v<std::decay_t<decltype(entry.second)>, TensorView>,
          "values are read after the last of them was made: make them first, in a map or vector");
      writer.add(entry.first, entry.second);
    }
  }
  if (progress) {
    writer.begin(path, progress, options);
  } else {
    writer.begin(path, options);
  }
  writer.finish();
}

// Sets metadata keys of one file to values, or removes the keys with std::nullopt: see
// st_edit_metadata. Makes all changes or none, and leaves tensors unchanged. Throws ST_ERR_ARGUMENT
// if a key or a value contains a NUL.
inline void edit_metadata(const std::string& path,
                          const std::map<std::string, std::optional<std::string>>& changes,
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
  detail::call(st_edit_metadata, detail::c_path(path), keys.data(), values.data(), keys.size(),
               &options);
}

// Replaces the bytes of one tensor of a file, in place and not atomically: see st_tensor_write.
// dtype and shape stay the same, so `bytes` must be the size of the tensor. Throws ST_ERR_NOT_FOUND
// if the file has no such tensor.
inline void write_tensor(const std::string& path, std::string_view name, const void* data,
                         std::size_t bytes,
                         const st_write_options& options = ST_INIT(st_write_options)) {
  detail::call(st_tensor_write_n, path.data(), path.size(), name.data(), name.size(), data, bytes,
               &options);
}

// ---- Library ------------------------------------------------------------------------------------

// Returns the version of the loaded library: "0.3.0 (simdjson 3.0.1)".
inline std::string_view version() { return st_version_string(); }

}  // namespace v0_3
}  // namespace safetensors

#endif  // LIBSAFETENSORS_HPP
