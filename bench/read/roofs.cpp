// SPDX-License-Identifier: Apache-2.0
#include "roofs.hpp"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

namespace bench {

namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

struct Chunk {
  std::size_t file;
  std::uint64_t offset;
  std::uint64_t bytes;
};

std::vector<Chunk> chunks_of(const std::vector<RawFile>& files, std::uint64_t bytes) {
  std::vector<Chunk> chunks;
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (std::uint64_t at = 0; at < files[f].size; at += bytes)
      chunks.push_back({f, at, std::min(bytes, files[f].size - at)});
  }
  return chunks;
}

void on_threads(unsigned threads, std::size_t n, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < n; i = next++) body(i);
  };
  std::vector<std::thread> crew;
  for (unsigned t = 1; t < threads; ++t) crew.emplace_back(work);
  work();
  for (std::thread& thread : crew) thread.join();
}

std::vector<int> open_all(const std::vector<RawFile>& files, int flags) {
  std::vector<int> descriptors;
  for (const RawFile& file : files) {
    descriptors.push_back(open(file.path.c_str(), O_RDONLY | O_CLOEXEC | flags));
    if (descriptors.back() < 0) die(file.path.c_str());
  }
  return descriptors;
}

void close_all(const std::vector<int>& descriptors) {
  for (const int descriptor : descriptors) close(descriptor);
}

// The rings of io_uring without a library: a queue of at most `depth` reads, waited for one at a time.
class Ring {
 public:
  explicit Ring(unsigned depth) {
    io_uring_params params{};
    descriptor_ = static_cast<int>(syscall(SYS_io_uring_setup, depth, &params));
    if (descriptor_ < 0) return;
    const std::size_t sq = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    const std::size_t cq = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
    rings_bytes_ = std::max(sq, cq);
    rings_ = map(rings_bytes_, IORING_OFF_SQ_RING);
    entries_bytes_ = params.sq_entries * sizeof(io_uring_sqe);
    entries_ = reinterpret_cast<io_uring_sqe*>(map(entries_bytes_, IORING_OFF_SQES));
    sq_tail_ = at<unsigned>(params.sq_off.tail);
    sq_array_ = at<unsigned>(params.sq_off.array);
    sq_mask_ = *at<unsigned>(params.sq_off.ring_mask);
    cq_head_ = at<unsigned>(params.cq_off.head);
    cq_tail_ = at<unsigned>(params.cq_off.tail);
    cq_mask_ = *at<unsigned>(params.cq_off.ring_mask);
    completions_ = at<io_uring_cqe>(params.cq_off.cqes);
  }
  Ring(Ring&&) = delete;
  ~Ring() {
    if (descriptor_ < 0) return;
    munmap(entries_, entries_bytes_);
    munmap(rings_, rings_bytes_);
    close(descriptor_);
  }

  bool works() const { return descriptor_ >= 0; }

  void queue_read(unsigned slot, int file, void* dst, std::uint64_t bytes, std::uint64_t offset) {
    io_uring_sqe& entry = entries_[slot];
    std::memset(&entry, 0, sizeof entry);
    entry.opcode = IORING_OP_READ;
    entry.fd = file;
    entry.addr = reinterpret_cast<std::uint64_t>(dst);
    entry.len = static_cast<unsigned>(bytes);
    entry.off = offset;
    entry.user_data = slot;
    const unsigned tail = *sq_tail_;
    sq_array_[tail & sq_mask_] = slot;
    __atomic_store_n(sq_tail_, tail + 1, __ATOMIC_RELEASE);
    ++queued_;
  }

  // Submits what is queued and waits for at least one; tells the slots that are free again.
  void wait(std::vector<unsigned>& free_slots) {
    if (syscall(SYS_io_uring_enter, descriptor_, queued_, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0)
      die("io_uring_enter");
    queued_ = 0;
    unsigned head = *cq_head_;
    for (; head != __atomic_load_n(cq_tail_, __ATOMIC_ACQUIRE); ++head) {
      const io_uring_cqe& done = completions_[head & cq_mask_];
      if (done.res <= 0) {
        errno = -done.res;
        die("io_uring read");
      }
      free_slots.push_back(static_cast<unsigned>(done.user_data));
    }
    __atomic_store_n(cq_head_, head, __ATOMIC_RELEASE);
  }

 private:
  char* map(std::size_t bytes, off_t offset) const {
    void* const mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_, offset);
    if (mapping == MAP_FAILED) die("mmap of a ring");
    return static_cast<char*>(mapping);
  }
  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(rings_ + offset);
  }

  int descriptor_ = -1;
  char* rings_ = nullptr;
  std::size_t rings_bytes_ = 0;
  io_uring_sqe* entries_ = nullptr;
  std::size_t entries_bytes_ = 0;
  unsigned* sq_tail_ = nullptr;
  unsigned* sq_array_ = nullptr;
  unsigned sq_mask_ = 0;
  unsigned* cq_head_ = nullptr;
  unsigned* cq_tail_ = nullptr;
  unsigned cq_mask_ = 0;
  io_uring_cqe* completions_ = nullptr;
  unsigned queued_ = 0;
};

}  // namespace

std::vector<RawFile> raw_files(const std::vector<std::string>& paths) {
  std::vector<RawFile> files;
  std::uint64_t at = 0;
  for (const std::string& path : paths) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) die(path.c_str());
    files.push_back({path, static_cast<std::uint64_t>(status.st_size), at});
    at += (files.back().size + 8191) / 4096 * 4096;  // a direct read of the tail may write up to a page more
  }
  return files;
}

std::uint64_t total_size(const std::vector<RawFile>& files) {
  std::uint64_t total = 0;
  for (const RawFile& file : files) total += file.size;
  return total;
}

std::vector<const char*> populated_mappings(const std::vector<RawFile>& files) {
  std::vector<const char*> mappings;
  for (const int descriptor : open_all(files, 0)) {
    const auto bytes = static_cast<std::size_t>(files[mappings.size()].size);
    void* const mapping = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, descriptor, 0);
    if (mapping == MAP_FAILED) die("mmap");
    close(descriptor);
    mappings.push_back(static_cast<const char*>(mapping));
  }
  return mappings;
}

void copy_from(const std::vector<const char*>& mappings, const std::vector<RawFile>& files, char* dst,
               unsigned threads) {
  const auto chunks = chunks_of(files, std::uint64_t{8} << 20);
  on_threads(threads, chunks.size(), [&](std::size_t i) {
    const Chunk& chunk = chunks[i];
    std::memcpy(dst + files[chunk.file].at + chunk.offset, mappings[chunk.file] + chunk.offset, chunk.bytes);
  });
}

void pread_pool(const std::vector<RawFile>& files, char* dst, unsigned threads, std::uint64_t chunk_bytes,
                bool direct) {
  const auto descriptors = open_all(files, direct ? O_DIRECT : 0);
  const auto chunks = chunks_of(files, chunk_bytes);
  on_threads(threads, chunks.size(), [&](std::size_t i) {
    const Chunk& chunk = chunks[i];
    char* const to = dst + files[chunk.file].at + chunk.offset;
    for (std::uint64_t done = 0; done < chunk.bytes;) {
      const std::uint64_t left = chunk.bytes - done;
      const std::size_t asked = static_cast<std::size_t>(direct ? (left + 4095) / 4096 * 4096 : left);
      const ssize_t got = pread(descriptors[chunk.file], to + done, asked, static_cast<off_t>(chunk.offset + done));
      if (got <= 0) die("pread");
      done += static_cast<std::uint64_t>(got);
    }
  });
  close_all(descriptors);
}

bool io_uring_pool(const std::vector<RawFile>& files, char* dst, unsigned depth, std::uint64_t chunk_bytes) {
  Ring ring(depth);
  if (!ring.works()) return false;
  const auto descriptors = open_all(files, O_DIRECT);
  const auto chunks = chunks_of(files, chunk_bytes);
  std::vector<unsigned> free_slots;
  for (unsigned slot = 0; slot < depth; ++slot) free_slots.push_back(slot);
  for (std::size_t next = 0; next < chunks.size() || free_slots.size() < depth;) {
    for (; next < chunks.size() && !free_slots.empty(); ++next) {
      const Chunk& chunk = chunks[next];
      char* const to = dst + files[chunk.file].at + chunk.offset;
      ring.queue_read(free_slots.back(), descriptors[chunk.file], to, (chunk.bytes + 4095) / 4096 * 4096, chunk.offset);
      free_slots.pop_back();
    }
    ring.wait(free_slots);
  }
  close_all(descriptors);
  return true;
}

double resident_share(const std::vector<RawFile>& files) {
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  for (const int descriptor : open_all(files, 0)) {
    struct stat status {};
    fstat(descriptor, &status);
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* const mapping = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (mapping == MAP_FAILED) die("mmap");
    std::vector<unsigned char> present((bytes + 4095) / 4096);
    if (mincore(mapping, bytes, present.data()) != 0) die("mincore");
    munmap(mapping, bytes);
    pages += present.size();
    resident += static_cast<std::uint64_t>(
        std::count_if(present.begin(), present.end(), [](unsigned char p) { return (p & 1) != 0; }));
  }
  return static_cast<double>(resident) / static_cast<double>(pages);
}

void evict(const std::vector<RawFile>& files) {
  const auto descriptors = open_all(files, 0);
  for (const int descriptor : descriptors) {
    fdatasync(descriptor);
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  }
  close_all(descriptors);
}

}  // namespace bench
