// Another process renames, overwrites, truncates and removes the files of a model while the library opens, reads,
// checks, edits and saves them.
//
// The changes are made in this thread, at the system calls of the library. So the input decides exactly when, and an
// input always has the same result. Every byte of a tensor shows its version. A read returns bytes of one version,
// unless a file was overwritten in place; then each byte was in the file at some time. No temporary file remains.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "../../tests/io/faults.hpp"
#include "../../tests/io/read_faults.hpp"
#include "../checkpoint.hpp"

namespace {

namespace fs = std::filesystem;
using fuzz::Call;
using fuzz::Input;
using fuzz::require;

constexpr std::size_t kShards = 2;
constexpr std::size_t kTensorBytes = 9000;  // more than a page, so that a change can be between two reads
constexpr int kMostVersions = 100;
const char* const kFiles[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                              "model.safetensors.index.json"};
const char* const kAside = "aside";  // a file that was renamed

const std::string& folder() { return fuzz::scratch_folder(); }
std::string path_of(std::string_view name) { return folder() + "/" + std::string(name); }

// ---- versions of the files ------------------------------------------------------------------------------------------

char byte_of(int version, std::size_t shard, std::size_t i) {
  return static_cast<char>(version + 2 * static_cast<int>(shard * 7 + i));
}

// Returns the version that a byte is of.
int version_of(char byte, std::size_t shard, std::size_t i) {
  return static_cast<unsigned char>(byte - byte_of(0, shard, i));
}

// All versions have the same length.
std::string content(std::size_t file, int version) {
  if (file == kShards) {
    return std::string(R"({"metadata":{},"weight_map":{"t0":")") + kFiles[0] + R"(","t1":")" + kFiles[1] + "\"}}";
  }
  fuzz::Tensor tensor{"t" + std::to_string(file), "U8", {kTensorBytes}, std::string(kTensorBytes, '\0')};
  for (std::size_t i = 0; i < kTensorBytes; ++i) tensor.bytes[i] = byte_of(version, file, i);
  return fuzz::file_of({tensor}, "\"version\":\"" + std::to_string(version) + "\"");
}

void write_file(const std::string& path, std::string_view text, int flags) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | flags, 0644);
  if (file < 0) return;
  if (write(file, text.data(), text.size()) < 0) std::perror("write");
  close(file);
}

// ---- the other process ----------------------------------------------------------------------------------------------

class Other {
 public:
  explicit Other(Input& in) : in_(in) {
    fuzz::empty_scratch_folder();
    for (std::size_t file = 0; file <= kShards; ++file) write_file(path_of(kFiles[file]), content(file, 10), 0);
  }

  // Runs a call of the library, and makes changes at its system calls.
  template <class Work>
  auto during(const Work& work) {
    changes_ = 0;
    current = this;
    read_faults::Plan plan;
    plan.call = "*";
    plan.before = [](std::size_t) { current->may_change(); };
    read_faults::arm(plan);
    faults::Plan writing;
    writing.before_open = [](const char*, int) { current->may_change(); };
    writing.before_rename = [] { current->may_change(); };
    writing.before_pwrite = [] { current->may_change(); };
    faults::arm(writing);
    const auto result = work();
    disarm();
    return result;
  }

  void change() {
    const std::size_t kind = in_.below(12);
    const std::size_t file = in_.below(kShards + 1);
    const std::string path = path_of(kFiles[file]);
    if (version_ < kMostVersions && kind < 6) ++version_;
    const std::string text = content(file, version_);
    ++changes_;
    if (kind >= 2 && kind < 8) in_place_ = true;
    switch (kind) {
      case 0:
      case 1:
        write_file(path_of("made"), text, O_TRUNC);
        rename(path_of("made").c_str(), path.c_str());
        break;
      case 2: write_file(path, text, 0); break;
      case 3: write_file(path, text, O_TRUNC); break;
      case 4: write_file(path, std::string_view(text).substr(0, text.size() / 2), 0); break;
      case 5: write_file(path, text.substr(0, in_.byte() * std::size_t{8}), 0); break;
      case 6: resize(path, in_.byte() * std::size_t{40}); break;
      case 7: write_file(path, "more", O_APPEND); break;
      case 8: unlink(path.c_str()); break;
      case 9: rename(path.c_str(), path_of(kAside).c_str()); break;
      case 10: rename(path_of(kAside).c_str(), path.c_str()); break;
      default: replace_by_link(path);
    }
  }

  int version() const { return version_; }
  bool has_changed() const { return changes_ > 0; }
  bool is_in_place() const { return in_place_; }

 private:
  static void disarm() {
    read_faults::disarm();
    faults::disarm();
  }

  void may_change() {
    if (busy_ || in_.left() == 0 || in_.byte() % 4 != 1) return;
    busy_ = true;
    change();
    busy_ = false;
  }

  static void resize(const std::string& path, std::size_t size) {
    if (truncate(path.c_str(), static_cast<off_t>(size)) != 0) return;
  }

  static void replace_by_link(const std::string& path) {
    if (rename(path.c_str(), path_of(kAside).c_str()) == 0 && symlink(kAside, path.c_str()) != 0)
      std::perror("symlink");
  }

  static Other* current;
  Input& in_;
  int version_ = 10;
  std::size_t changes_ = 0;  // of one call
  bool in_place_ = false;    // ever
  bool busy_ = false;
};

Other* Other::current = nullptr;

// ---- the library ----------------------------------------------------------------------------------------------------

class Session {
 public:
  explicit Session(Input in) : in_(in), other_(in_) {}
  Session(const Session&) = delete;
  ~Session() { st_free(file_); }

  void run() {
    for (int calls = 0; in_.left() > 0 && calls < 30; ++calls) {
      switch (in_.below(10)) {
        case 0: open(); break;
        case 1:
        case 2: read(); break;
        case 3: run_plan(); break;
        case 4: check(); break;
        case 5: check_unchanged(); break;
        case 6: edit(); break;
        case 7: write_tensor(); break;
        case 8: save(); break;
        default: other_.change();
      }
      require_no_litter();
    }
  }

 private:
  static void require_no_litter() {
    std::set<std::string> known(std::begin(kFiles), std::end(kFiles));
    known.insert(kAside);
    for (const auto& entry : fs::directory_iterator(folder()))
      require(known.count(entry.path().filename().string()) == 1, "no temporary file remains");
  }

  void open() {
    st_free(file_);
    file_ = nullptr;
    st_open_options options = ST_INIT(st_open_options);
    options.threads = 1;
    options.io = in_.below(3) == 0 ? ST_IO_READ : ST_IO_AUTO;
    const std::string path = in_.flag() ? folder() : path_of(kFiles[in_.below(3)]);
    Call call;
    st_file* file = nullptr;
    if (!call.check(other_.during([&] { return st_open(path.c_str(), &options, &file, call); }))) return;
    file_ = file;
    for (std::size_t i = 0; i < st_count_tensors(file_); ++i) {
      const st_tensor* const tensor = st_get_tensor_at(file_, i);
      require(st_tensor_bytes(tensor) == kTensorBytes, "a table is that of a file");
    }
  }

  // The version that the header of a shard says.
  int opened_version(std::size_t shard) const {
    constexpr std::string_view kKey = "\"version\":\"";
    std::size_t length = 0;
    const char* const header = st_get_header(file_, shard, &length);
    const std::size_t at = std::string_view(header, length).find(kKey);
    return at == std::string_view::npos ? -1 : std::atoi(header + at + kKey.size());
  }

  void require_bytes(const st_tensor* tensor, std::string_view bytes) const {
    const std::size_t file = st_tensor_name(tensor, nullptr)[1] == '0' ? 0 : 1;
    const int opened = opened_version(st_tensor_shard(tensor));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const int version = version_of(bytes[i], file, i);
      if (!other_.is_in_place() && !written_) {
        require(version == opened, "a tensor is of the version that was opened");
      } else {
        // A file that was made shorter and longer again has zeros, and one that got more at its end has that.
        require((version >= 10 && version <= other_.version()) || written_ || bytes[i] == 0 || resized(bytes[i]),
                "a byte was in the file");
      }
    }
  }
  static bool resized(char byte) { return std::strchr("more", byte) != nullptr; }

  const st_tensor* some_tensor() { return file_ == nullptr ? nullptr : st_get_tensor_at(file_, in_.below(kShards)); }

  void read() {
    const st_tensor* const tensor = some_tensor();
    if (tensor == nullptr) return;
    std::string bytes(kTensorBytes, '?');
    Call call;
    if (call.check(other_.during([&] { return st_tensor_read(tensor, bytes.data(), bytes.size(), call); })))
      require_bytes(tensor, bytes);
  }

  void run_plan() {
    if (file_ == nullptr) return;
    st_plan* plan = nullptr;
    require(st_plan_new(file_, &plan, nullptr) == ST_OK, "a plan is made");
    std::vector<std::string> bytes(st_count_tensors(file_), std::string(kTensorBytes, '?'));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      require(st_plan_add(plan, st_get_tensor_at(file_, i), nullptr, nullptr, nullptr, bytes[i].data(), kTensorBytes,
                          nullptr) == ST_OK,
              "a tensor can be added");
    }
    st_read_options options = ST_INIT(st_read_options);
    options.threads = 1;
    options.cache = static_cast<st_cache>(in_.below(3));  // ST_CACHE_MAPPED may raise SIGBUS
    Call call;
    if (call.check(other_.during([&] { return st_plan_run(plan, &options, call); }))) {
      for (std::size_t i = 0; i < bytes.size(); ++i) require_bytes(st_get_tensor_at(file_, i), bytes[i]);
    }
    st_plan_free(plan);
  }

  void check() {
    st_report* report = nullptr;
    Call call;
    if (call.check(other_.during([&] { return st_check(folder().c_str(), nullptr, &report, call); })))
      st_report_free(report);
  }

  void check_unchanged() {
    if (file_ == nullptr) return;
    Call call;
    const std::size_t shard = in_.below(kShards);
    const bool same = call.check(other_.during([&] { return st_check_unchanged(file_, shard, call); }));
    require(same || other_.is_in_place() || written_ || st_count_shards(file_) <= shard || other_.has_changed(),
            "a file that was not overwritten has not changed");
  }

  void edit() {
    const std::string path = path_of(kFiles[in_.below(kShards)]);
    const std::string value(in_.below(3) * 3000, 'v');
    const char* const key = "k";
    const char* const values = value.c_str();
    st_write_options options = ST_INIT(st_write_options);
    options.header_reserve = in_.below(2) * 64;
    Call call;
    const bool done =
        call.check(other_.during([&] { return st_edit_metadata(path.c_str(), &key, &values, 1, &options, call); }));
    written_ = true;
    if (!done || other_.has_changed()) return;
    st_file* file = nullptr;
    require(st_open(path.c_str(), nullptr, &file, nullptr) == ST_OK, "what was edited can be opened");
    const char* const got = st_get_metadata(file, key, nullptr);
    require(got != nullptr && got == value, "an edit is in the file");
    st_free(file);
  }

  void write_tensor() {
    const std::size_t shard = in_.below(kShards);
    const std::string path = path_of(kFiles[shard]);
    const std::string name = "t" + std::to_string(shard);
    const std::string bytes(kTensorBytes, 'W');
    Call call;
    call.check(other_.during(
        [&] { return st_tensor_write(path.c_str(), name.c_str(), bytes.data(), bytes.size(), nullptr, call); }));
    written_ = true;
  }

  void save() {
    const st_tensor* const tensor = some_tensor();
    const std::string path = path_of(kFiles[in_.below(kShards)]);
    st_writer* writer = nullptr;
    require(st_writer_new(&writer, nullptr) == ST_OK, "a writer is made");
    const std::string bytes(kTensorBytes, 'S');
    const std::uint64_t shape[] = {kTensorBytes};
    st_write_options options = ST_INIT(st_write_options);
    static constexpr std::uint32_t kFlags[] = {0, ST_WRITE_ONLY_UNCHANGED, ST_WRITE_NO_REPLACE, ST_WRITE_REPLACE_LINK};
    options.flags = kFlags[in_.below(4)];
    const bool copies = tensor != nullptr && in_.flag();
    Call declare, call;
    require(declare.check(copies ? st_writer_add_tensor(writer, nullptr, 0, tensor, declare)
                                 : st_writer_add(writer, "t0", ST_U8, 1, shape, bytes.data(), nullptr, declare)),
            "a tensor is declared");
    bool in_place_before = other_.is_in_place();
    const bool done = call.check(other_.during([&] {
      const st_status begun = st_writer_begin(writer, path.c_str(), &options, call);
      return begun != ST_OK ? begun : st_writer_finish(writer, call);
    }));
    st_writer_free(writer);
    const bool known = !other_.has_changed() && !(copies && (in_place_before || written_));
    written_ = true;
    if (!done || !known) return;
    st_file* file = nullptr;
    require(st_open(path.c_str(), nullptr, &file, nullptr) == ST_OK, "what was saved can be opened");
    std::string got(kTensorBytes, '?');
    require(st_tensor_read(st_get_tensor_at(file, 0), got.data(), got.size(), nullptr) == ST_OK, "and read");
    if (copies) {
      require_version(tensor, got);
    } else {
      require(got == bytes, "a save has the bytes");
    }
    st_free(file);
  }

  void require_version(const st_tensor* tensor, std::string_view bytes) const {
    const std::size_t file = st_tensor_name(tensor, nullptr)[1] == '0' ? 0 : 1;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      require(version_of(bytes[i], file, i) == opened_version(st_tensor_shard(tensor)), "a copy is of one version");
  }

  Input in_;
  Other other_;
  st_file* file_ = nullptr;
  bool written_ = false;  // by the library, whose bytes have no version
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Session(Input(data, size)).run();
  return 0;
}
