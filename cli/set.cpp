// `safetensors set FILE TENSOR IN`: replaces the bytes of one tensor in place.
//
// st_tensor_write takes the whole tensor, so IN is read into memory first. An IN that does not match therefore changes
// nothing.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "arguments.hpp"
#include "blocks.hpp"
#include "failure.hpp"
#include "npy_header.hpp"
#include "one_tensor.hpp"
#include "remote.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kSetNotes =
    "IN contains the new bytes, little-endian and row-major, or a numpy array (.npy) with the dtype and the shape\n"
    "of the tensor. `-` is standard input. Nothing else in FILE changes.\n"
    "\n"
    "The change is made in place and is not atomic: after a crash or a disk error, the tensor may contain only some\n"
    "of the new bytes. If so, run the command again.\n"
    "\n"
    "Examples:\n"
    "  safetensors extract model.safetensors bias bias.npy\n"
    "  safetensors set model.safetensors bias bias.npy\n"
    "  head -c 4096 /dev/zero | safetensors set model.safetensors bias -";

struct SetOptions {
  std::string path;
  std::string tensor;
  std::string in;
  bool npy = false;
  bool sync = false;
};

// The file or stream IN.
class Content {
 public:
  explicit Content(const std::string& path) : path_(path), file_(path == "-" ? stdin : open_to_read(path)) {
    if (file_ == nullptr) fail();
    seen_ = state_of(file_);
  }
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;
  ~Content() {
    if (file_ != stdin) std::fclose(file_);
  }

  // Returns the number of bytes read: fewer than n at the end. Throws a Failure.
  std::size_t read(void* to, std::size_t n) {
    const std::size_t got = std::fread(to, 1, n, file_);
    if (std::ferror(file_) != 0) fail();  // opening a folder does not fail
    position_ += got;
    return got;
  }

  // Returns how many bytes are left to read. nullopt: unknown.
  std::optional<std::uint64_t> left() const {
    const bool is_known = file_ != stdin && seen_ && seen_->size != 0 && seen_->size >= position_;  // 0 also in /proc
    return is_known ? std::optional(seen_->size - position_) : std::nullopt;
  }

  // Throws a Failure if another program wrote to the file meanwhile, because the bytes read may then be a mixture.
  void require_unchanged() const {
    if (!seen_) return;
    const std::optional<st::io::Identity> now = state_of(file_);
    if (!now) fail();
    if (!now->same_bytes(*seen_)) throw Failure{kUnreadable, path_ + ": was changed while it was read"};
  }

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail() const { throw Failure{kUnreadable, path_ + ": " + std::strerror(errno)}; }

  const std::string& path_;
  std::FILE* file_;
  std::optional<st::io::Identity> seen_;  // when it was opened, if it is a regular file
  std::uint64_t position_ = 0;
};

std::string type_text(const std::string& type, const std::vector<std::uint64_t>& shape) {
  return type + " " + shape_text({shape.data(), shape.size()});
}

// Reads the header of a .npy, and throws a Failure unless it describes the tensor.
void require_same(Content& in, const safetensors::Tensor& tensor) {
  NpyHeader header;
  try {
    header = read_npy_header([&](void* to, std::size_t n) { return in.read(to, n); });
  } catch (const NpyError& error) {
    throw Failure{kBadFile, in.path() + ": " + error.message};
  }
  const std::string type = npy_type(tensor);
  const std::vector<std::uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
  // numpy writes a type of another package as |V2 or <V2, and types of one byte with any order.
  const bool has_order = type.front() == '<';
  const bool same = header.type.size() == type.size() && header.type.compare(1, type.npos, type, 1, type.npos) == 0 &&
                    (!has_order || header.type.front() == '<');
  if (!same || header.shape != shape) {
    throw Failure{kUsage, formatted("{}: tensor {} is {}, but the array is {}", in.path(), shown(tensor.name, 80),
                                    type_text(type, shape), type_text(header.type, header.shape))};
  }
  const auto longer = std::count_if(shape.begin(), shape.end(), [](std::uint64_t n) { return n > 1; });
  if (header.fortran_order && longer > 1) {
    throw Failure{kUsage, in.path() + ": the array is in Fortran order; save it with numpy.ascontiguousarray"};
  }
}

[[noreturn]] void fail_size(const Content& in, const safetensors::Tensor& tensor, const std::string& size) {
  throw Failure{kUsage, formatted("{}: tensor {} has {} bytes, but the input has {}", in.path(), shown(tensor.name, 80),
                                  tensor.nbytes(), size)};
}

std::vector<char> content_for(const safetensors::Tensor& tensor, const SetOptions& options) {
  Content in(options.in);
  if (options.npy) require_same(in, tensor);
  const std::optional<std::uint64_t> left = in.left();  // asked before memory for the tensor is allocated
  if (left && *left != tensor.nbytes()) fail_size(in, tensor, formatted("{}", *left));
  constexpr std::size_t kBlock = std::size_t{16} << 20;
  std::vector<char> bytes(static_cast<std::size_t>(tensor.nbytes()));
  std::size_t have = 0;
  for (std::size_t got = 1; got != 0 && have < bytes.size(); have += got) {
    got = in.read(bytes.data() + have, std::min(kBlock, bytes.size() - have));
  }
  char more = 0;
  const bool longer = have == bytes.size() && in.read(&more, 1) != 0;
  in.require_unchanged();
  if (have != bytes.size() || longer) fail_size(in, tensor, longer ? "more" : formatted("{}", have));
  return bytes;
}

// Opens FILE and finds the tensor in it.
Source open_tensor(const SetOptions& options) {
  st_open_options reading = ST_INIT(st_open_options);
  reading.io = ST_IO_READ;
  const safetensors::SafeOpen file(options.path, reading);
  return {file, tensor_named(file, options.path, options.tensor)};
}

// Another program may have replaced FILE while IN, for example a pipe, was read.
void require_same_type(const safetensors::Tensor& now, const safetensors::Tensor& before, const SetOptions& options) {
  const bool same = now.dtype == before.dtype &&
                    std::equal(now.shape.begin(), now.shape.end(), before.shape.begin(), before.shape.end());
  if (same) return;
  throw Failure{kUnreadable, formatted("{}: the dtype or the shape of tensor {} changed while the input was read",
                                       options.path, shown(now.name, 80))};
}

void set(const SetOptions& options) {
  require_local(options.path, "set changes");
  require_local(options.in, "set reads");
  try {
    const Source before = open_tensor(options);
    const std::vector<char> bytes = content_for(before.tensor, options);
    const Source now = open_tensor(options);
    require_same_type(now.tensor, before.tensor, options);
    st_write_options writing = ST_INIT(st_write_options);
    writing.flags = options.sync ? ST_WRITE_SYNC : 0;
    const InterruptGuard whole;  // an interruption leaves no tensor half written
    safetensors::write_tensor(std::string(now.file.shard_path(now.tensor.shard())), now.tensor.name, bytes.data(),
                              bytes.size(), writing);
    stop_if_interrupted();
  } catch (const safetensors::Error& error) {
    throw failure_in(options.path, error);
  }
}

}  // namespace

void add_set(Command& app) {
  const auto options = std::make_shared<SetOptions>();
  Command command = app.add_command("set", "Replace the bytes of one tensor in place");
  command.add_input("FILE", options->path, "A .safetensors file, an index of shards, or a model folder").required();
  command.add_option("TENSOR", options->tensor, "The tensor's name").required();
  command.add_input("IN", options->in, "A file with the new bytes, or a .npy file; - for standard input").required();
  command.add_flag("--npy", options->npy, "Read IN as .npy; the default if its name ends in .npy");
  command.add_flag("--sync", options->sync, "Wait until the new bytes are on disk");
  command.footer(kSetNotes);
  command.on_run([options] {
    options->npy = options->npy || options->in.ends_with(".npy");
    set(*options);
  });
}

}  // namespace cli
