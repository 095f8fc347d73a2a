// SPDX-License-Identifier: Apache-2.0
#include "storage.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#ifdef ST_ZIP
#include <zlib.h>
#endif

#include "error.hpp"

namespace cli::importer {

#ifdef ST_ZIP

bool reads_zip() { return true; }

struct StorageReader::Inflater {
  Inflater() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }

  z_stream stream{};
  bool ended = false;
  std::array<unsigned char, 1 << 16> packed;
};

// Loads the next compressed bytes. Loads nothing at the end.
void StorageReader::load() {
  const std::uint64_t left = storage_.packed - packed_at_;
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left, inflater_->packed.size()));
  input_.read(storage_.begin + packed_at_, inflater_->packed.data(), bytes);
  packed_at_ += bytes;
  inflater_->stream.next_in = inflater_->packed.data();
  inflater_->stream.avail_in = static_cast<uInt>(bytes);
}

// Returns the number of bytes unpacked: n, or fewer at the end of the compressed bytes.
std::size_t StorageReader::unpack(void* to, std::size_t n) {
  z_stream& stream = inflater_->stream;
  stream.next_out = static_cast<Bytef*>(to);
  stream.avail_out = static_cast<uInt>(n);
  bool is_last = false;
  while (stream.avail_out > 0 && !inflater_->ended && !is_last) {
    if (stream.avail_in == 0) load();
    is_last = stream.avail_in == 0;  // the inflater may still have buffered some bits
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    inflater_->ended = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      fail(storage_.begin, "zip: compressed data of '{}' is damaged", storage_.name);
    }
  }
  return n - stream.avail_out;
}

void StorageReader::inflate(void* to, std::size_t n) {
  const std::size_t unpacked = unpack(to, n);
  if (unpacked == n) return;
  fail(storage_.begin, "zip: '{}' unpacks to {} bytes, expected {}", storage_.name, at_ + unpacked, storage_.bytes);
}

// Throws unless the compressed data ends here. Its end mark may not be loaded yet.
void StorageReader::check_end() {
  unsigned char extra = 0;
  if (inflater_ && unpack(&extra, 1) > 0) {
    fail(storage_.begin, "zip: '{}' unpacks to more than the expected {} bytes", storage_.name, storage_.bytes);
  }
  if (inflater_ && !inflater_->ended) {
    fail(storage_.begin, "zip: compressed data of '{}' has no end", storage_.name);
  }
  if (!storage_.crc || *storage_.crc == crc_) return;
  fail(storage_.begin, "zip: '{}' has CRC {:08x}, expected {:08x}", storage_.name, crc_, *storage_.crc);
}

#else

bool reads_zip() { return false; }
struct StorageReader::Inflater {};
void StorageReader::inflate(void*, std::size_t) {}
void StorageReader::check_end() {}

#endif

StorageReader::StorageReader(const Input& input, Storage storage, std::uint64_t begin, std::uint64_t end)
    : input_(input), storage_(std::move(storage)), at_(begin), end_(end) {
  if (storage_.crc || storage_.deflated) {
    at_ = 0;
    end_ = storage_.bytes;
  }
  if (storage_.deflated) inflater_ = std::make_unique<Inflater>();
  if (at_ == end_) check_end();
}

StorageReader::~StorageReader() = default;

std::size_t StorageReader::read(void* to, std::size_t n) {
  n = static_cast<std::size_t>(std::min<std::uint64_t>(n, end_ - at_));
  if (n == 0) return 0;
  storage_.deflated ? inflate(to, n) : input_.read(storage_.begin + at_, to, n);
#ifdef ST_ZIP
  if (storage_.crc) crc_ = static_cast<std::uint32_t>(crc32_z(crc_, static_cast<const Bytef*>(to), n));
#endif
  at_ += n;
  if (at_ == end_) check_end();
  return n;
}

std::string read_whole(const Input& input, const Storage& storage, std::uint64_t limit) {
  if (storage.bytes > limit) {
    fail(storage.begin, "'{}' has {} bytes (limit: {})", storage.name, storage.bytes, limit);
  }
  std::string bytes(static_cast<std::size_t>(storage.bytes), '\0');
  StorageReader reader(input, storage, 0, storage.bytes);
  reader.read(bytes.data(), bytes.size());
  return bytes;
}

namespace {

// ---- unpacking into a temporary file --------------------------------------------------------------------------------------

constexpr std::size_t kUnpackedBlock = std::size_t{4} << 20;

std::string temporary_folder() {
  const char* const given = std::getenv("TMPDIR");
  return given == nullptr || *given == '\0' ? "/tmp" : given;
}

[[noreturn]] void fail_temporary() { fail_os(temporary_folder() + ": temporary file"); }

// Creates an unnamed file so that a crash leaves nothing behind. Without O_TMPFILE it briefly has a name, and a signal
// at that moment leaves an empty file.
Descriptor temporary_file() {
  const std::string folder = temporary_folder();
#ifdef O_TMPFILE
  if (Descriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600)); file) return file;
#endif
  std::string path = folder + "/safetensors-XXXXXX";
  Descriptor file(mkstemp(path.data()));
  if (!file || unlink(path.c_str()) != 0 || fcntl(file.get(), F_SETFD, FD_CLOEXEC) != 0) fail_temporary();
  return file;
}

void write_all(int file, const char* at, std::size_t n) {
  while (n > 0) {
    const ssize_t written = write(file, at, n);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_temporary();
    at += written;
    n -= static_cast<std::size_t>(written);
  }
}

// Verifies a storage, and copies it to `file` unless that is null.
void read_all(StorageReader& reader, const Descriptor* file, const std::function<void()>& each_block) {
  std::vector<char> block(kUnpackedBlock);
  while (const std::size_t n = reader.read(block.data(), block.size())) {
    each_block();
    if (file != nullptr) write_all(file->get(), block.data(), n);
  }
}

// ---- elements with strides --------------------------------------------------------------------------------------------

// The current mapping, for the signal handler.
std::atomic<char*> mapped_begin{nullptr};
std::atomic<char*> mapped_end{nullptr};
std::atomic<bool> lost_pages{false};
static_assert(std::atomic<char*>::is_always_lock_free);

// If another process truncates the mapped file, or the disk fails, touching a lost page raises SIGBUS. This handler
// then replaces the rest of the mapping by zero pages, and the reader detects that afterwards. Any other SIGBUS ends
// the process.
extern "C" void catch_lost_page(int number, siginfo_t* info, void*) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  char* const end = mapped_end;
  char* const at = static_cast<char*>(info->si_addr);
  const bool is_of_page = info->si_code > 0;  // otherwise a process has sent the signal
  if (is_of_page && at != nullptr && at >= mapped_begin && at < end) {
    char* const begin = at - reinterpret_cast<std::uintptr_t>(at) % page;
    const auto bytes = static_cast<std::size_t>(end - begin);
    lost_pages = true;
    if (mmap(begin, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) return;
  }
  signal(number, SIG_DFL);
  if (!is_of_page) raise(number);
}

class Mapping {
 public:
  Mapping(int descriptor, std::uint64_t begin, std::uint64_t end) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t start = begin / page * page;
    size_ = static_cast<std::size_t>(end - start);
    memory_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(start));
    if (memory_ == MAP_FAILED) fail_os("mapping a storage");
    bytes_ = static_cast<const char*>(memory_) + (begin - start);
    lost_pages = false;
    mapped_begin = static_cast<char*>(memory_);
    mapped_end = static_cast<char*>(memory_) + size_;
    struct sigaction action {};
    action.sa_sigaction = catch_lost_page;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    sigaction(SIGBUS, &before_, nullptr);
    mapped_begin = nullptr;
    mapped_end = nullptr;
    munmap(memory_, size_);
  }

  const char* bytes() const { return bytes_; }

 private:
  void* memory_;
  std::size_t size_;
  const char* bytes_;
  struct sigaction before_ {};
};

// Collects elements in a block, and passes each full block to `take`.
class Packer {
 public:
  Packer(const Tensor& tensor, const TakeBytes& take) : element_(tensor.element), take_(take) {
    block_.resize(kUnpackedBlock / element_ * element_);
  }

  // Adds n elements that are `stride` bytes apart.
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

// Drops dimensions of size 1, and merges adjacent dimensions whose elements have one common stride. Otherwise pack()
// would step through up to 127 dimensions of size 1 for each element of a small file.
void join_dimensions(const Tensor& tensor, std::vector<std::uint64_t>& shape, std::vector<std::uint64_t>& strides) {
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 1) continue;
    if (!shape.empty() && strides.back() == tensor.shape[i] * tensor.strides[i]) {
      shape.back() *= tensor.shape[i];
      strides.back() = tensor.strides[i];
    } else {
      shape.push_back(tensor.shape[i]);
      strides.push_back(tensor.strides[i]);
    }
  }
  if (shape.empty()) shape = strides = {1};
}

void pack(const char* first, const Tensor& tensor, const TakeBytes& take) {
  Packer packer(tensor, take);
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
  join_dimensions(tensor, shape, strides);
  const std::size_t outer = shape.size() - 1;
  std::vector<std::uint64_t> index(outer, 0);
  std::uint64_t at = 0;  // offset of the row, in elements
  for (;;) {
    packer.add(first + at * tensor.element, shape[outer], strides[outer] * tensor.element);
    std::size_t i = outer;
    for (; i-- > 0;) {
      at += strides[i];
      if (++index[i] < shape[i]) break;
      at -= index[i] * strides[i];
      index[i] = 0;
    }
    if (i == static_cast<std::size_t>(-1)) break;
  }
  packer.flush();
}

}  // namespace

VerifiedStorage verified(const Input& input, const Storage& storage, const std::function<void()>& each_block) {
  StorageReader reader(input, storage, 0, storage.bytes);
  if (!storage.deflated) {
    if (storage.crc) read_all(reader, nullptr, each_block);
    return {&input, {storage.name, storage.begin, storage.bytes, storage.bytes, false, {}}, nullptr};
  }
  Descriptor file = temporary_file();
  read_all(reader, &file, each_block);
  auto unpacked = std::make_unique<const Input>(std::move(file), storage.bytes);
  const Input* const from = unpacked.get();
  return {from, {storage.name, 0, storage.bytes, storage.bytes, false, {}}, std::move(unpacked)};
}

void gather(const Input& input, const Storage& storage, const Tensor& tensor, const TakeBytes& take) {
  if (tensor.bytes == 0) return;
  const Mapping mapping(input.descriptor(), storage.begin + tensor.begin, storage.begin + tensor.end);
  pack(mapping.bytes(), tensor, [&](const char* bytes, std::size_t n) {
    if (lost_pages) fail_changed("truncated");
    take(bytes, n);
  });
}

}  // namespace cli::importer
