// SPDX-License-Identifier: Apache-2.0
#include "device/gpu.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "io/memory.hpp"

namespace st::device {

namespace {

// Both drivers use the same numbers for these errors and flags.
constexpr int kOutOfMemory = 2;
constexpr int kNotReady = 600;
constexpr unsigned kNonBlockingStream = 1;  // not synchronized with the default stream
constexpr unsigned kBlockingEvent = 1;      // waiting threads sleep, because there may be more threads than processors
constexpr unsigned kEventWithoutTime = 2;
constexpr unsigned kPortable = 1;  // pinned for all contexts

// A thread polls for a copy for this long, then sleeps. On an H200, copying a slot of 4 MiB takes 80 µs and waking a thread
// 20 µs: a tensor of 4 KiB took 52 µs when the thread slept at once, and 31 µs when it polled.
constexpr auto kAwake = std::chrono::microseconds(100);

}  // namespace

// Prefers a library that the process has already loaded, because two copies of a driver in one process do not share
// contexts.
DriverLibrary::DriverLibrary(const char* driver, const char* path, std::span<const char* const> names)
    : driver_(driver) {
  if (path != nullptr) {
    if (*path == '\0') fail(Status::argument, "{}: the path of the driver's library is empty", driver);
    std::string why;
    library_ = io::SharedLibrary::load(path, &why);
    if (!library_) {
      fail(Status::unsupported, "{}: {} cannot be loaded as a library{}{}", driver, in_quotes(path),
           why.empty() ? "" : ": ", why);
    }
    return;
  }
  for (const char* const name : names) {
    if (library_ = io::SharedLibrary::loaded(name); library_) return;
  }
  for (const char* const name : names) {
    if (library_ = io::SharedLibrary::load(name); library_) return;
  }
  std::string all;
  for (const char* const name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  fail(Status::unsupported, "{}: no driver is installed: cannot load any of {}", driver, all);
}

void* DriverLibrary::address(const char* name) const {
  void* const found = library_.find(name);
  if (found == nullptr) fail(Status::unsupported, "{}: the driver is too old: it has no {}", driver_, name);
  return found;
}

// Keeps the GPU current on this thread while it exists.
class Gpu::Current {
 public:
  // Tries twice, because destructors that wait for copies in flight need the context even if one call fails.
  explicit Current(Gpu& gpu) : gpu_(gpu), first_(gpu.enter(&before_)) {
    entered_ = first_ == 0 || gpu.enter(&before_) == 0;
    if (first_ != 0) gpu.forget_error();
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() { leave(); }

  int error() const { return first_; }  // of the first attempt
  bool entered() const { return entered_; }

  int leave() { return std::exchange(entered_, false) ? gpu_.noted(gpu_.leave(before_)) : 0; }

 private:
  Gpu& gpu_;
  std::intptr_t before_ = 0;
  int first_;
  bool entered_ = false;
};

// Clears HIP's per-thread last error, which the program would mistake for an error of its own calls.
int Gpu::noted(int code) {
  if (code != 0) forget_error();
  return code;
}

void Gpu::fail_call(int code, const char* what) {
  forget_error();
  const char* const name = error_name(code);
  throw Error{Status::device, code, kNowhere,
              formatted("{} returned {}{}{}", what, code, name == nullptr ? "" : ", ", name == nullptr ? "" : name)};
}

OwnedOps Gpu::ops(std::unique_ptr<Gpu> gpu, std::uint32_t queues) {
  Ops ops;
  ops.ctx = gpu.get();
  ops.host_alloc = [](void* ctx, std::size_t size) { return static_cast<Gpu*>(ctx)->new_staging(size); };
  ops.host_free = [](void* ctx, void* memory, std::size_t) { static_cast<Gpu*>(ctx)->free_staging(memory); };
  ops.copy = [](void* ctx, std::uint32_t queue, const Copy* copies, std::size_t n, std::uint64_t* mark) {
    auto* const self = static_cast<Gpu*>(ctx);
    return self->noted(self->copy(queue, {copies, n}, mark));
  };
  ops.wait = [](void* ctx, std::uint32_t queue, std::uint64_t mark) {
    auto* const self = static_cast<Gpu*>(ctx);
    return self->noted(self->wait(queue, reinterpret_cast<void*>(static_cast<std::uintptr_t>(mark))));
  };
  ops.after = [](void* ctx, void* stream) {
    auto* const self = static_cast<Gpu*>(ctx);
    return self->noted(self->after(stream));
  };
  ops.alloc = [](void* ctx, std::uint64_t size, void** out) {
    auto* const self = static_cast<Gpu*>(ctx);
    return self->noted(self->alloc(size, out));
  };
  ops.release = [](void* ctx, void* memory) { static_cast<Gpu*>(ctx)->release(memory); };
  ops.error_name = [](void* ctx, std::int32_t code) { return static_cast<Gpu*>(ctx)->error_name(code); };
  ops.close = [](void* ctx) {
    const std::unique_ptr<Gpu> owned(static_cast<Gpu*>(ctx));
    owned->close();
  };
  Gpu& opening = *gpu.release();
  OwnedOps owned(ops);
  opening.open(queues);
  return owned;
}

void Gpu::open(std::uint32_t queues) {
  streams_.reserve(queues);
  Current current(*this);
  if (current.error() != 0) fail_call(current.error(), "making the device current");
  while (streams_.size() < queues) {
    void* stream = nullptr;
    if (const int code = calls.stream_create(&stream, kNonBlockingStream); code != 0) fail_call(code, "a new stream");
    streams_.push_back(stream);
  }
  if (const int code = current.leave(); code != 0) fail_call(code, "making another device current");
}

void Gpu::close() noexcept {
  Current current(*this);
  for (void* const event : events_) noted(calls.event_destroy(event));
  for (void* const stream : streams_) noted(calls.stream_destroy(stream));
}

int Gpu::take_event(void** event) {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      *event = events_.back();
      events_.pop_back();
      return 0;
    }
    events_.reserve(++event_count_);  // so that give_back() need not allocate
  }
  return calls.event_create(event, kBlockingEvent | kEventWithoutTime);
}

void Gpu::give_back(void* event) noexcept {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

// Returns how many copies, from the first on, can be merged: those that are adjacent in both memories and inside one
// allocation on the device. A driver's copy cannot cross allocations.
std::size_t Gpu::count_adjacent(std::span<const Copy> copies) {
  const auto end_of = [](const Copy& copy) { return reinterpret_cast<DeviceAddress>(copy.dst) + copy.bytes; };
  DeviceAddress limit = 0;
  std::size_t count = 1;
  for (; count < copies.size(); ++count) {
    const Copy& last = copies[count - 1];
    const Copy& next = copies[count];
    if (end_of(last) != reinterpret_cast<DeviceAddress>(next.dst)) break;
    if (static_cast<const std::byte*>(last.src) + last.bytes != next.src) break;
    if (limit == 0) limit = end_of_allocation(reinterpret_cast<DeviceAddress>(copies[0].dst));
    if (end_of(next) > limit) break;
  }
  return count;
}

// Returns 0 if the driver does not know the allocation.
DeviceAddress Gpu::end_of_allocation(DeviceAddress address) {
  DeviceAddress begin = 0;
  std::size_t bytes = 0;
  return noted(calls.mem_range(&begin, &bytes, address)) == 0 ? begin + bytes : 0;
}

int Gpu::begin(std::uint32_t queue, std::span<const Copy> copies, void* event) {
  void* const stream = streams_[queue];
  while (!copies.empty()) {
    const std::size_t together = count_adjacent(copies);
    Copy copy = copies.front();
    for (const Copy& next : copies.subspan(1, together - 1)) copy.bytes += next.bytes;
    copies = copies.subspan(together);
    const int code = calls.copy(reinterpret_cast<DeviceAddress>(copy.dst), copy.src, copy.bytes, stream);
    if (code != 0) return code;
  }
  return calls.event_record(event, stream);
}

// Called after a failed call. Waits for everything in flight.
void Gpu::finish(std::uint32_t queue) noexcept {
  const Current current(*this);
  calls.stream_synchronize(streams_[queue]);
}

int Gpu::copy(std::uint32_t queue, std::span<const Copy> copies, std::uint64_t* mark) {
  Current current(*this);
  if (current.error() != 0) return current.error();
  void* event = nullptr;
  if (const int code = take_event(&event); code != 0) return code;
  int code = begin(queue, copies, event);
  const int left = current.leave();
  if (code == 0) code = left;
  if (code != 0) {
    finish(queue);
    give_back(event);
    return code;
  }
  *mark = reinterpret_cast<std::uintptr_t>(event);
  return 0;
}

// Waits for the event, awake at first.
int Gpu::wait_for(void* event) {
  const auto begin = std::chrono::steady_clock::now();
  do {
    const int code = calls.event_query(event);
    if (code != kNotReady) return code;
    forget_error();
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() - begin < kAwake);
  return calls.event_synchronize(event);
}

int Gpu::wait(std::uint32_t queue, void* event) noexcept {
  Current current(*this);
  int code = wait_for(event);
  const int left = current.leave();
  if (code != 0) finish(queue);
  give_back(event);
  if (code == 0) code = current.error() != 0 ? current.error() : left;
  return code;
}

int Gpu::after(void* stream) {
  Current current(*this);
  if (current.error() != 0) return current.error();
  void* event = nullptr;
  if (const int code = take_event(&event); code != 0) return code;
  int code = calls.event_record(event, stream_of(stream));
  for (std::size_t i = 0; i < streams_.size() && code == 0; ++i) code = calls.stream_wait(streams_[i], event, 0);
  give_back(event);
  return code != 0 ? code : current.leave();
}

int Gpu::alloc(std::uint64_t bytes, void** out) {
  Current current(*this);
  if (current.error() != 0) return current.error();
  if (bytes > SIZE_MAX) return kOutOfMemory;
  DeviceAddress memory = 0;
  int code = calls.mem_alloc(&memory, static_cast<std::size_t>(bytes));
  if (code != 0) return code;
  code = current.leave();
  if (code != 0) {
    release(reinterpret_cast<void*>(memory));
    return code;
  }
  *out = reinterpret_cast<void*>(memory);
  return 0;
}

void Gpu::release(void* memory) {
  const Current current(*this);
  noted(calls.mem_free(reinterpret_cast<DeviceAddress>(memory)));
}

// Allocating memory, touching it and then registering it takes half as long as the driver's own allocation. If the
// driver cannot register it, uses the driver's allocation.
void* Gpu::new_staging(std::size_t bytes) {
  const Current current(*this);
  if (!current.entered()) fail_call(current.error(), "making the device current");
  std::byte* const memory = io::new_buffer(bytes, io::Pages::as_they_are_touched, 1);
  io::keep_from_children(memory, bytes);
  io::prefer_node(memory, bytes, node);
  std::memset(memory, 0, bytes);
  if (noted(calls.host_register(memory, bytes, kPortable)) == 0) return memory;
  io::free_buffer(memory);
  return new_drivers_memory(bytes);
}

void* Gpu::new_drivers_memory(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  drivers_memory_.reserve(drivers_memory_.size() + 1);
  void* memory = nullptr;
  const int code = noted(calls.host_alloc(&memory, bytes, kPortable));
  if (code == 0) {
    drivers_memory_.push_back(memory);
    return memory;
  }
  if (code != kOutOfMemory) fail_call(code, "pinning staging memory");
  return nullptr;
}

// Called only when the device is closed. No other thread uses it then.
void Gpu::free_staging(void* memory) {
  const Current current(*this);
  if (std::erase(drivers_memory_, memory) != 0) {
    noted(calls.host_free(memory));
    return;
  }
  noted(calls.host_unregister(memory));
  io::free_buffer(static_cast<std::byte*>(memory));
}

}  // namespace st::device
