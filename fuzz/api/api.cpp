// The input is a program of calls of the public API, in any order that the header allows, with good and bad arguments.
//
// The results are compared with the bytes of the files, by other means: tensors, slices, plans and headers are the
// file's, and a saved file contains what was put. A wrong argument is refused with its status, `close` and `release`
// are called once, and no temporary file remains.
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../checkpoint.hpp"

namespace {

namespace fs = std::filesystem;
using fuzz::Call;
using fuzz::Input;
using fuzz::require;

constexpr std::size_t kSlots = 3;
constexpr std::size_t kMostCalls = 200;
constexpr std::uint64_t kMostBytes = 1 << 20;
const char* const kNames[] = {"a.safetensors", "b.safetensors", "model.safetensors", "x/c.safetensors", "."};

fs::path folder() { return fuzz::scratch_folder(); }

std::string content_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// ---- what the session knows of each handle --------------------------------------------------------------------------

struct Bytes {
  std::string text;
  int released = 0;
  std::size_t fails_at = SIZE_MAX;  // which read of a source
  std::size_t reads = 0;
};

struct File {
  st_file* handle = nullptr;
  std::shared_ptr<Bytes> bytes;  // of its only shard; null: not compared
  std::string path;
  bool failing = false;
};

struct Destination {
  std::vector<char> got;
  std::string right;
};

struct Plan {
  st_plan* handle = nullptr;
  File file;
  std::vector<std::unique_ptr<Destination>> destinations;
  bool cancelled = false;
};

struct Writer {
  st_writer* handle = nullptr;
  std::string path;
  std::map<std::string, std::string> tensors;  // as they must be in the file
  std::vector<std::string> names;              // by number; "" for a copied tensor
  std::map<std::string, std::string> metadata;
  std::vector<std::unique_ptr<std::string>> data;  // which the writer borrows
  std::vector<st_file*> sources;
};

void release_bytes(void* ctx) { ++static_cast<Bytes*>(ctx)->released; }

std::int32_t read_bytes(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
  auto& bytes = *static_cast<Bytes*>(ctx);
  require(n > 0 && offset <= bytes.text.size() && n <= bytes.text.size() - offset, "a source is asked for its bytes");
  if (bytes.reads++ >= bytes.fails_at) return 5;
  std::memcpy(dst, bytes.text.data() + offset, n);
  return 0;
}

class Session {
 public:
  explicit Session(Input in) : in_(in) {
    fuzz::empty_scratch_folder();
    fs::create_directory(folder() / "x");
  }
  Session(const Session&) = delete;

  void run() {
    for (std::size_t calls = 0; in_.left() > 0 && calls < kMostCalls; ++calls) step();
    end();
  }

 private:
  void step() {
    File& file = files_[in_.below(kSlots)];
    Plan& plan = plans_[in_.below(kSlots)];
    Writer& writer = writers_[in_.below(kSlots)];
    switch (in_.below(24)) {
      case 0:
      case 1: open_bytes(file, false); break;
      case 2: open_bytes(file, true); break;
      case 3:
      case 4: open_path(file); break;
      case 5: close(file); break;
      case 6: inspect(file); break;
      case 7:
      case 8: read_tensor(file); break;
      case 9: read_slice(file); break;
      case 10: read_shard(file); break;
      case 11: new_plan(plan, file); break;
      case 12:
      case 13: add_to(plan); break;
      case 14: run_plan(plan); break;
      case 15: close(plan); break;
      case 16: new_writer(writer); break;
      case 17:
      case 18: declare(writer, file); break;
      case 19: begin(writer); break;
      case 20: put(writer); break;
      case 21: finish(writer); break;
      case 22: in_.flag() ? edit() : write_tensor(); break;
      default: in_.flag() ? check_path() : wrong_arguments(file);
    }
  }

  void end() {
    for (Plan& plan : plans_) close(plan);
    for (Writer& writer : writers_) close(writer);
    for (File& file : files_) close(file);
    for (const auto& bytes : opened_) require(bytes->released == 1, "close and release are called once");
    std::set<std::string> known(std::begin(kNames), std::end(kNames));
    known.insert("x");
    for (const auto& entry : fs::recursive_directory_iterator(folder()))
      require(known.count(fs::relative(entry.path(), folder()).string()) == 1, "no temporary file remains");
  }

  // ---- files --------------------------------------------------------------------------------------------------------

  std::string new_bytes() {
    static constexpr std::pair<const char*, std::uint64_t> kTypes[] = {
        {"U8", 8}, {"F32", 32}, {"BF16", 16}, {"F64", 64}, {"F4", 4}, {"BOOL", 8}, {"I64", 64}, {"F6_E2M3", 6}};
    std::vector<fuzz::Tensor> tensors;
    for (std::size_t i = in_.below(5); i > 0; --i) {
      const auto& [dtype, bits] = kTypes[in_.below(std::size(kTypes))];
      fuzz::Tensor& tensor = tensors.emplace_back(fuzz::Tensor{"t" + std::to_string(i), dtype, {}, {}});
      std::uint64_t elements = 1;
      for (std::size_t rank = in_.below(4); rank > 0; --rank) {
        tensor.shape.push_back(in_.below(32) == 0 ? 0 : 1 + in_.below(9));
        elements *= tensor.shape.back();
      }
      for (std::uint64_t k = 0; k < elements * bits / 8; ++k) tensor.bytes += static_cast<char>(k * 7 + i);
    }
    std::string text = fuzz::file_of(tensors, in_.flag() ? R"("format":"pt","k":"v")" : "");
    if (in_.below(4) == 0) text[in_.below(text.size())] = static_cast<char>(in_.byte());
    if (in_.below(16) == 0) text.resize(in_.below(text.size() + 1));
    return text;
  }

  st_open_options open_options() {
    st_open_options options = ST_INIT(st_open_options);
    static constexpr std::uint32_t kFlags[] = {0, ST_OPEN_STRICT, ST_OPEN_REFERENCE, ST_OPEN_UNKNOWN_DTYPES};
    options.flags = kFlags[in_.below(4)];
    options.io = static_cast<st_io>(in_.below(4));
    options.threads = static_cast<std::uint32_t>(in_.below(3));
    if (in_.below(16) == 0) options.max_header_bytes = in_.number();
    return options;
  }

  void opened(File& file, st_file* handle, std::shared_ptr<Bytes> bytes, std::string path) {
    close(file);
    file = {handle, std::move(bytes), std::move(path), false};
    require(handle != nullptr && st_count_shards(handle) >= 1, "an open file has a shard");
    if (file.bytes == nullptr) return;
    std::size_t length = 0;
    const char* const header = st_get_header(handle, 0, &length);
    require(header != nullptr && file.bytes->text.compare(8, length, header, length) == 0, "the header is the file's");
    require(st_get_shard_size(handle, 0) == file.bytes->text.size(), "the size is the file's");
  }

  void open_bytes(File& file, bool source) {
    auto bytes = std::make_shared<Bytes>();
    opened_.push_back(bytes);
    bytes->text = new_bytes();
    if (in_.below(8) == 0) bytes->fails_at = in_.below(6);
    const st_open_options options = open_options();
    st_file* handle = nullptr;
    Call call;
    st_status status = ST_OK;
    if (source) {
      st_source given = ST_INIT(st_source);
      given.ctx = bytes.get();
      given.size = bytes->text.size();
      given.read_at = read_bytes;
      given.close = release_bytes;
      given.flags = static_cast<std::uint32_t>(in_.below(2));
      given.chunk_bytes = in_.number();
      given.gap_bytes = in_.number();
      given.parallel = static_cast<std::uint32_t>(in_.below(4));
      status = st_open_source(&given, &options, &handle, call);
    } else {
      status =
          st_open_memory(bytes->text.data(), bytes->text.size(), release_bytes, bytes.get(), &options, &handle, call);
    }
    if (call.check(status)) {
      opened(file, handle, bytes, "");
      file.failing = bytes->fails_at != SIZE_MAX && source;
    } else {
      require(handle == nullptr && bytes->released == 1, "what does not open is closed at once");
    }
  }

  void open_path(File& file) {
    const std::string path = (folder() / kNames[in_.below(std::size(kNames))]).string();
    const st_open_options options = open_options();
    st_file* handle = nullptr;
    Call call;
    if (!call.check(st_open(path.c_str(), &options, &handle, call))) {
      require(handle == nullptr, "a failure leaves the handle alone");
      return;
    }
    auto bytes = std::make_shared<Bytes>();
    const std::string shard = st_get_shard_path(handle, 0);
    bytes->text = content_of(shard);
    opened(file, handle, bytes, shard);
  }

  void close(File& file) {
    if (file.handle != nullptr && in_.flag()) st_free(st_retain(file.handle));
    st_free(file.handle);
    file = {};
  }

  // Handles show a change in place.
  void changed(const std::string& path) {
    for (File* file : all_files())
      if (file->path == path) file->bytes = nullptr;
  }

  std::vector<File*> all_files() {
    std::vector<File*> all;
    for (File& file : files_) all.push_back(&file);
    for (Plan& plan : plans_) all.push_back(&plan.file);
    return all;
  }

  void inspect(const File& file) {
    if (file.handle == nullptr) return;
    const std::size_t count = st_count_tensors(file.handle);
    st_tensor_list* list = nullptr;
    Call call;
    const std::uint32_t flags = static_cast<std::uint32_t>(in_.below(3));
    if (!call.check(st_list_tensors(file.handle, flags, &list, call))) {
      require(flags > 1, "tensors can be listed");
      list = nullptr;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const st_tensor* const tensor = st_get_tensor_at(file.handle, i);
      std::size_t length = 0;
      const char* const name = st_tensor_name(tensor, &length);
      require(st_get_tensor_n(file.handle, name, length) == tensor, "a tensor is found by its name");
      require(st_dtype_bits(st_tensor_dtype(tensor)) != 0 || st_tensor_dtype(tensor) == ST_DTYPE_UNKNOWN,
              "it has a dtype");
      const void* const view = st_tensor_data(tensor);
      if (view != nullptr && file.bytes != nullptr)
        require(same(file, tensor, {static_cast<const char*>(view), size_of(tensor)}), "a view has the file's bytes");
      if (list != nullptr) {
        require(list->count == count && list->sizes[i] == st_tensor_bytes(tensor) && list->tensors[i] == tensor &&
                    std::strcmp(list->names + list->name_offsets[i], name) == 0,
                "the list says the same");
      }
      st_tensor_advise(&tensor, 1, static_cast<st_advice>(in_.below(4)));
    }
    require(st_get_tensor_at(file.handle, count) == nullptr, "there is no further tensor");
    for (std::size_t i = 0; i < st_count_metadata(file.handle); ++i) {
      std::size_t key_length = 0;
      const char* value = nullptr;
      const char* const key = st_get_metadata_at(file.handle, i, &key_length, &value, nullptr);
      require(st_get_metadata_n(file.handle, key, key_length, nullptr) == value, "a value is found by its key");
    }
    Call unchanged;
    unchanged.check(st_check_unchanged(file.handle, in_.below(2), unchanged));
    for (std::size_t i = 0; i < st_count_warnings(file.handle); ++i) require(st_get_warning(file.handle, i), "a text");
    st_tensor_list_free(list);
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  static std::size_t size_of(const st_tensor* tensor) { return static_cast<std::size_t>(st_tensor_bytes(tensor)); }

  static bool same(const File& file, const st_tensor* tensor, std::string_view got) {
    return std::string_view(file.bytes->text).substr(st_tensor_offset(tensor), size_of(tensor)) == got;
  }

  const st_tensor* tensor_of(const File& file) {
    if (file.handle == nullptr) return nullptr;
    return st_get_tensor_at(file.handle, in_.below(6));
  }

  void read_tensor(const File& file) {
    const st_tensor* const tensor = tensor_of(file);
    if (tensor == nullptr) return;
    const std::size_t size = size_of(tensor);
    const bool wrong = in_.below(8) == 0;
    std::string got(size + (wrong ? 1 : 0), '?');
    Call call;
    const st_status status = st_tensor_read(tensor, got.data(), got.size(), call);
    if (wrong) return call.refuses(status, ST_ERR_BUFFER_SIZE);
    if (call.check(status)) {
      require(file.bytes == nullptr || same(file, tensor, got), "a read returns the file's bytes");
    } else {
      require(file.failing || file.bytes == nullptr, "a tensor can be read");
    }
  }

  struct Slice {
    std::vector<std::int64_t> begin, end, step;
    bool has_begin = false, has_end = false, has_step = false;
    const std::int64_t* from() const { return has_begin ? begin.data() : nullptr; }
    const std::int64_t* to() const { return has_end ? end.data() : nullptr; }
    const std::int64_t* by() const { return has_step ? step.data() : nullptr; }
  };

  Slice new_slice(const st_tensor* tensor) {
    Slice slice;
    const auto position = [&] {
      const std::uint8_t kind = in_.byte();
      return kind < 200   ? static_cast<std::int64_t>(kind % 20) - 8
             : kind < 220 ? ST_SLICE_BEGIN
             : kind < 240 ? ST_SLICE_END
                          : static_cast<std::int64_t>(in_.number());
    };
    for (std::size_t i = 0; i < st_tensor_rank(tensor); ++i) {
      slice.begin.push_back(position());
      slice.end.push_back(position());
      slice.step.push_back(in_.below(3) == 0 ? position() : 1);
    }
    const std::uint8_t has = in_.byte();
    slice.has_begin = has % 2 != 0, slice.has_end = has % 4 > 1, slice.has_step = has % 8 > 3;
    return slice;
  }

  // As Python does it. Nothing for what must be refused, and for sub-byte types, which only have to stay in bounds.
  static std::optional<std::string> right_slice(const File& file, const st_tensor* tensor, const Slice& slice) {
    const std::uint32_t bits = st_dtype_bits(st_tensor_dtype(tensor));
    if (bits % 8 != 0 || bits == 0 || file.bytes == nullptr) return std::nullopt;
    const std::string_view all = std::string_view(file.bytes->text).substr(st_tensor_offset(tensor), size_of(tensor));
    std::vector<std::uint64_t> places{0};  // in elements
    for (std::size_t i = 0; i < st_tensor_rank(tensor); ++i) {
      const auto n = static_cast<std::int64_t>(st_tensor_shape(tensor)[i]);
      const std::int64_t step = slice.has_step ? slice.step[i] : 1;
      if (step == 0) return std::nullopt;
      const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
      const auto clamped = [&](std::int64_t at) {
        if (at == ST_SLICE_BEGIN) return low;
        if (at == ST_SLICE_END) return high;
        return std::clamp(at < 0 ? at + n : at, low, high);
      };
      const std::int64_t begin = slice.has_begin ? clamped(slice.begin[i]) : step > 0 ? low : high;
      const std::int64_t end = slice.has_end ? clamped(slice.end[i]) : step > 0 ? high : low;
      std::vector<std::uint64_t> next;
      for (const std::uint64_t place : places) {
        for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
          next.push_back(place * static_cast<std::uint64_t>(n) + static_cast<std::uint64_t>(at));
          if (step > n || step < -n) break;
          at += step;
        }
      }
      places = std::move(next);
    }
    std::string right;
    for (const std::uint64_t place : places) right += all.substr(place * (bits / 8), bits / 8);
    return right;
  }

  void read_slice(const File& file) {
    const st_tensor* const tensor = tensor_of(file);
    if (tensor == nullptr) return;
    const Slice slice = new_slice(tensor);
    std::uint64_t size = 0;
    const void* view = nullptr;
    Call call;
    const st_status status = st_tensor_slice(tensor, slice.from(), slice.to(), slice.by(), nullptr, &size, &view, call);
    const auto right = right_slice(file, tensor, slice);
    if (!call.check(status)) {
      require(!right, "a slice of whole bytes is not refused");
      return;
    }
    require(size <= st_tensor_bytes(tensor), "a slice is no longer than its tensor");
    std::string got(static_cast<std::size_t>(size), '?');
    Call read;
    const bool done =
        read.check(st_tensor_read_slice(tensor, slice.from(), slice.to(), slice.by(), got.data(), got.size(), read));
    require(done || file.failing || file.bytes == nullptr, "a slice can be read");
    if (done && right) require(got == *right, "a slice is Python's");
    if (view != nullptr && right) require(std::memcmp(view, right->data(), right->size()) == 0, "and its view, too");
  }

  void read_shard(const File& file) {
    if (file.handle == nullptr) return;
    const std::uint64_t offset = in_.number();
    const std::size_t n = static_cast<std::size_t>(in_.byte());
    std::string got(n, '?');
    Call call;
    if (!call.check(st_read_shard(file.handle, in_.below(16) == 0 ? 1 : 0, offset, got.data(), n, call))) return;
    require(file.bytes == nullptr || file.bytes->text.compare(offset, n, got) == 0, "bytes of a shard are the file's");
  }

  // ---- plans --------------------------------------------------------------------------------------------------------

  void new_plan(Plan& plan, const File& file) {
    if (file.handle == nullptr) return;
    close(plan);
    Call call;
    require(call.check(st_plan_new(file.handle, &plan.handle, call)), "a plan can be made");
    plan.file = file;
    plan.file.handle = st_retain(file.handle);
  }

  void add_to(Plan& plan) {
    if (plan.handle == nullptr) return;
    const st_tensor* const tensor = tensor_of(plan.file);
    if (tensor == nullptr) return;
    Slice slice = new_slice(tensor);
    if (in_.flag()) slice.has_begin = slice.has_end = slice.has_step = false;
    std::uint64_t size = 0;
    if (st_tensor_slice(tensor, slice.from(), slice.to(), slice.by(), nullptr, &size, nullptr, nullptr) != ST_OK)
      return;
    const auto right = right_slice(plan.file, tensor, slice);
    auto made = std::make_unique<Destination>();
    const bool wrong = in_.below(16) == 0;
    made->got.assign(static_cast<std::size_t>(size) + (wrong ? 1 : 0), '?');
    if (right) made->right = *right;
    Call call;
    const st_status status = st_plan_add(plan.handle, tensor, slice.from(), slice.to(), slice.by(), made->got.data(),
                                         made->got.size(), call);
    if (wrong) return call.refuses(status, ST_ERR_BUFFER_SIZE);
    require(call.check(status), "a slice can be added");
    plan.destinations.push_back(std::move(made));
  }

  void run_plan(Plan& plan) {
    if (plan.handle == nullptr) return;
    st_read_options options = ST_INIT(st_read_options);
    options.threads = in_.below(16) == 0 ? 2 : 1;
    options.cache = static_cast<st_cache>(in_.below(4));
    options.chunk_bytes = in_.number();
    options.gap_bytes = in_.number();
    const bool cancels = in_.below(16) == 0;
    if (cancels) st_plan_cancel(plan.handle);
    Call call;
    const bool done = call.check(st_plan_run(plan.handle, &options, call));
    require(done || cancels || plan.file.failing || plan.file.bytes == nullptr, "a plan runs");
    for (std::size_t i = 0; i < plan.destinations.size(); ++i) {
      const Destination& one = *plan.destinations[i];
      if (done) require(st_plan_is_complete(plan.handle, i) == 1, "a run completes its destinations");
      if (st_plan_is_complete(plan.handle, i) == 1 && plan.file.bytes != nullptr && !one.right.empty())
        require(std::equal(one.got.begin(), one.got.end(), one.right.begin(), one.right.end()),
                "a plan reads the file");
    }
    st_plan_stats stats = ST_INIT(st_plan_stats);
    st_plan_get_stats(plan.handle, &stats);
    std::uint64_t total = 0;
    st_plan_progress(plan.handle, nullptr, &total);
    require(total == stats.bytes_wanted, "the numbers of a plan agree");
  }

  static void close(Plan& plan) {
    st_plan_free(plan.handle);
    st_free(plan.file.handle);
    plan = {};
  }

  // ---- writing ------------------------------------------------------------------------------------------------------

  static void close(Writer& writer) {
    st_writer_free(writer.handle);
    for (st_file* const file : writer.sources) st_free(file);
    writer = {};
  }

  void new_writer(Writer& writer) {
    close(writer);
    Call call;
    require(call.check(st_writer_new(&writer.handle, call)), "a writer can be made");
  }

  void declare(Writer& writer, const File& file) {
    if (writer.handle == nullptr) return;
    static constexpr const char* kTensors[] = {"a", "b", "\xC3\xA9", "\xFF", "__metadata__", "c.d"};
    const char* const name = kTensors[in_.below(std::size(kTensors))];
    Call call;
    const std::size_t kind = in_.below(4);
    if (kind == 0) {
      const char* const value = in_.below(8) == 0 ? "\x80" : "v";
      if (call.check(st_writer_set_metadata(writer.handle, name, value, call))) writer.metadata[name] = value;
      return;
    }
    if (kind == 1 && file.handle != nullptr) {
      const st_tensor* const tensor = tensor_of(file);
      if (tensor == nullptr || file.failing || file.bytes == nullptr) return;
      if (!call.check(st_writer_add_tensor(writer.handle, name, std::strlen(name), tensor, call))) return;
      writer.sources.push_back(st_retain(file.handle));
      writer.names.emplace_back();
      writer.tensors[name] = file.bytes->text.substr(st_tensor_offset(tensor), size_of(tensor));
      return;
    }
    const std::uint64_t shape[] = {in_.below(64) == 0 ? in_.number() : in_.below(40), in_.below(40)};
    const auto dtype = static_cast<st_dtype>(in_.byte() % 24);
    const std::uint64_t bytes = shape[0] < 1000 ? shape[0] * shape[1] * st_dtype_bits(dtype) / 8 : 0;
    const bool given = shape[0] < 1000 && in_.flag();
    auto data = std::make_unique<std::string>(bytes, static_cast<char>('A' + writer.names.size()));
    std::size_t index = 77;
    if (!call.check(
            st_writer_add(writer.handle, name, dtype, 2, shape, given ? data->data() : nullptr, &index, call))) {
      require(index == 77, "a failure leaves the number alone");
      return;
    }
    require(index == writer.names.size(), "tensors are numbered in order");
    writer.names.push_back(name);
    writer.tensors[name] = *data;
    writer.data.push_back(std::move(data));
  }

  void begin(Writer& writer) {
    if (writer.handle == nullptr) return;
    st_write_options options = ST_INIT(st_write_options);
    options.flags = static_cast<std::uint32_t>(in_.byte() % 32) & ~std::uint32_t{ST_WRITE_SYNC};
    options.format = static_cast<st_format>(in_.below(16) == 0 ? in_.byte() : in_.below(3));
    options.data_alignment = in_.below(8) == 0 ? in_.number() : 0;
    options.header_reserve = in_.below(64);
    const std::string path = (folder() / kNames[in_.below(std::size(kNames))]).string();
    Call call;
    if (call.check(st_writer_begin(writer.handle, path.c_str(), &options, call))) writer.path = path;
  }

  void put(Writer& writer) {
    if (writer.handle == nullptr) return;
    const std::size_t index = in_.below(6);
    const std::string name = index < writer.names.size() ? writer.names[index] : "";
    const std::string all = name.empty() ? "" : writer.tensors[name];
    std::size_t at = in_.below(2) == 0 ? 0 : in_.byte();
    std::size_t n = in_.below(3) == 0 ? in_.byte() : all.size() - std::min(at, all.size());
    if (in_.below(32) == 0) at = static_cast<std::size_t>(in_.number());
    const std::string bytes(n, all.empty() ? '?' : all[0]);
    Call call;
    const bool done = call.check(st_writer_put(writer.handle, index, at, bytes.data(), n, call));
    require(!done || (at <= all.size() && n <= all.size() - at), "no bytes are taken beyond the end of a tensor");
  }

  void finish(Writer& writer) {
    if (writer.handle == nullptr) return;
    Call call;
    if (call.check(st_writer_finish(writer.handle, call))) {
      st_file* file = nullptr;
      Call open;
      require(open.check(st_open(writer.path.c_str(), nullptr, &file, open)), "what was written can be opened");
      require(st_count_tensors(file) == writer.tensors.size(), "it has the tensors");
      for (const auto& [name, right] : writer.tensors) {
        const st_tensor* const tensor = st_get_tensor(file, name.c_str());
        require(tensor != nullptr && size_of(tensor) == right.size(), "each has its size");
        std::string got(right.size(), '?');
        require(st_tensor_read(tensor, got.data(), got.size(), nullptr) == ST_OK && got == right, "and its bytes");
      }
      for (const auto& [key, value] : writer.metadata) {
        const char* const got = st_get_metadata(file, key.c_str(), nullptr);
        require(got != nullptr && got == value, "each pair of metadata is there");
      }
      st_free(file);
    }
    if (in_.below(4) != 0) close(writer);
  }

  // ---- paths --------------------------------------------------------------------------------------------------------

  void edit() {
    const std::string path = (folder() / kNames[in_.below(std::size(kNames))]).string();
    const std::string value(in_.below(8) == 0 ? 5000 : in_.below(30), in_.below(16) == 0 ? '\xFF' : 'v');
    const char* const keys[] = {"k", "format"};
    const char* const values[] = {value.c_str(), in_.flag() ? nullptr : "np"};
    Call call;
    const bool done = call.check(st_edit_metadata(path.c_str(), keys, values, in_.below(3), nullptr, call));
    changed(path);
    if (!done || fs::is_directory(path)) return;
    st_file* file = nullptr;
    Call open;
    require(open.check(st_open(path.c_str(), nullptr, &file, open)), "what was edited can be opened");
    st_free(file);
  }

  void write_tensor() {
    const std::string path = (folder() / kNames[in_.below(std::size(kNames))]).string();
    const std::string name = in_.flag() ? "a" : "t1";
    st_file* file = nullptr;
    if (st_open(path.c_str(), nullptr, &file, nullptr) != ST_OK) return;
    const st_tensor* const tensor = st_get_tensor(file, name.c_str());
    const std::size_t size = (tensor != nullptr ? size_of(tensor) : 4) + (in_.below(8) == 0 ? 1 : 0);
    st_free(file);
    const std::string data(size, 'W');
    changed(path);
    for (Writer& writer : writers_) close(writer);  // which may copy from the file
    Call call;
    if (!call.check(st_tensor_write(path.c_str(), name.c_str(), data.data(), size, nullptr, call))) return;
    require(st_open(path.c_str(), nullptr, &file, nullptr) == ST_OK, "the file is still valid");
    std::string got(size, '?');
    require(st_tensor_read(st_get_tensor(file, name.c_str()), got.data(), size, nullptr) == ST_OK && got == data,
            "the tensor has the new bytes");
    st_free(file);
  }

  // Handles keep the old file.
  void replace(const std::string& path) {
    const fs::path made = folder() / "x" / "made";
    std::ofstream(made, std::ios::binary) << new_bytes();
    std::error_code error;
    fs::rename(made, path, error);
    if (error) fs::remove(made);
  }

  void check_path() {
    const std::string path = (folder() / kNames[in_.below(std::size(kNames))]).string();
    if (in_.flag()) replace(path);
    st_report* report = nullptr;
    st_file* file = nullptr;
    Call call, open;
    const bool checked = call.check(st_check(path.c_str(), nullptr, &report, call));
    const bool valid = open.check(st_open(path.c_str(), nullptr, &file, open));
    st_free(file);
    if (!checked) return require(!valid, "what opens can be checked");
    std::size_t errors = 0;
    for (std::size_t i = 0; i < st_count_findings(report); ++i) {
      const st_finding& finding = *st_get_finding(report, i);
      if ((finding.flags & ST_FINDING_NOTE) != 0) continue;
      if (errors++ == 0) require(finding.status == open.error().status, "the first error is that of opening");
    }
    require(valid == (errors == 0), "a file has an error, or it opens");
    st_report_free(report);
  }

  // ---- wrong arguments ----------------------------------------------------------------------------------------------

  void wrong_arguments(const File& file) {
    Call call;
    st_file* handle = nullptr;
    st_open_options options = ST_INIT(st_open_options);
    auto bytes = std::make_shared<Bytes>();
    st_source source = ST_INIT(st_source);
    source.ctx = bytes.get();
    source.close = release_bytes;
    source.read_at = read_bytes;
    const std::string path = (folder() / kNames[0]).string();
    const st_tensor* const tensor = tensor_of(file);
    char byte = 0;
    void* buffer = nullptr;
    switch (in_.below(15)) {
      case 0: return call.refuses(st_open(nullptr, nullptr, &handle, call), ST_ERR_ARGUMENT);
      case 1: return call.refuses(st_open(path.c_str(), nullptr, nullptr, call), ST_ERR_ARGUMENT);
      case 2:
        options.struct_size = 3;
        return call.refuses(st_open(path.c_str(), &options, &handle, call), ST_ERR_STRUCT_SIZE);
      case 3:
        options.flags = 1U << (8 + in_.below(24));
        return call.refuses(st_open(path.c_str(), &options, &handle, call), ST_ERR_UNSUPPORTED);
      case 4:
        options.io = 4 + static_cast<st_io>(in_.byte());
        return call.refuses(st_open(path.c_str(), &options, &handle, call), ST_ERR_UNSUPPORTED);
      case 5:
        return call.refuses(st_open_memory(nullptr, 5, nullptr, nullptr, nullptr, &handle, call), ST_ERR_ARGUMENT);
      case 6:
        opened_.push_back(bytes);
        source.flags = 4;
        return call.refuses(st_open_source(&source, nullptr, &handle, call), ST_ERR_UNSUPPORTED);
      case 7:
        opened_.push_back(bytes);
        source.read_at = nullptr;
        return call.refuses(st_open_source(&source, nullptr, &handle, call), ST_ERR_ARGUMENT);
      case 8:
        source.struct_size = 9;
        return call.refuses(st_open_source(&source, nullptr, &handle, call), ST_ERR_STRUCT_SIZE);
      case 9:
        if (tensor == nullptr || size_of(tensor) == 0) return;
        return call.refuses(st_tensor_read(tensor, nullptr, size_of(tensor), call), ST_ERR_ARGUMENT);
      case 10:
        if (file.handle == nullptr) return;
        return call.refuses(st_read_shard(file.handle, 7, 0, &byte, 1, call), ST_ERR_RANGE);
      case 11: return call.refuses(st_convert(24 + in_.byte(), &byte, ST_F32, &byte, 1, call), ST_ERR_UNSUPPORTED);
      case 12: return call.refuses(st_buffer_new(16, 8, 1, &buffer, call), ST_ERR_UNSUPPORTED);
      case 13: return call.refuses(st_edit_metadata(path.c_str(), nullptr, nullptr, 1, nullptr, call), ST_ERR_ARGUMENT);
      default:
        if (!call.check(st_buffer_new(in_.number() % kMostBytes, 1, 1, &buffer, call))) return;
        st_buffer_free(buffer);
    }
  }

  Input in_;
  File files_[kSlots];
  Plan plans_[kSlots];
  Writer writers_[kSlots];
  std::vector<std::shared_ptr<Bytes>> opened_;
};

// A writer allocates the space of its file at once. With a large alignment, that can be all of the disk.
bool limit_files() {
  rlimit most{};
  getrlimit(RLIMIT_FSIZE, &most);
  most.rlim_cur = rlim_t{256} << 20;
  return setrlimit(RLIMIT_FSIZE, &most) == 0;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const bool limited = limit_files();
  Session(Input(data, size)).run();
  return 0;
}
