// SPDX-License-Identifier: Apache-2.0
#include "fake_gpu.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace fake {

struct Context {
  int device = 0;
};

struct Event {
  int device = 0;
  Stream* stream = nullptr;  // null: nothing was recorded
  std::uint64_t position = 0;
};

namespace {

using Clock = std::chrono::steady_clock;

enum class Kind { copy, fill, mark, wait };

struct Operation {
  Kind kind = Kind::mark;
  std::byte* to = nullptr;  // in the view that the driver's threads have
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  int value = 0;
  bool fails = false;
  Stream* other = nullptr;  // to wait for, up to
  std::uint64_t position = 0;
};

}  // namespace

struct Stream {
  int device = 0;
  std::deque<Operation> queue;
  std::uint64_t begun = 0;   // operations that were put into the queue
  std::uint64_t done = 0;    // and that were carried out
  std::uint64_t forced = 0;  // and that a thread waits for
  bool ends = false;
  bool failed = false;
  std::thread thread;
};

namespace {

constexpr int kDevices = 2;
constexpr int kMostDevices = 16;

struct Memory {
  int device = 0;
  std::byte* view = nullptr;
  std::size_t bytes = 0;
};

struct Machine {
  std::mutex mutex;
  std::condition_variable changed;
  int devices = kDevices;
  int init = kOk;
  bool initialized = false;
  std::int64_t calls = 0;
  std::int64_t failing = -1;
  int failing_code = kOk;
  const char* failed = nullptr;
  int failures = 0;
  std::int64_t failing_copy = -1;
  std::map<std::string, int> refused;
  std::string fault;
  std::array<Context, kMostDevices> primaries;
  std::array<int, kMostDevices> retained{};
  std::array<bool, kMostDevices> lost{};  // everything fails on the device
  std::array<Clock::time_point, kMostDevices> busy_until{};
  std::vector<std::unique_ptr<Context>> contexts;
  const Context* only = nullptr;                                // that may be made current, if it is not null
  std::array<std::array<Stream*, 2>, kMostDevices> defaults{};  // streams, none of them released
  std::uintptr_t next_memory = 0;                               // allocations are adjacent, as a driver's may be
  std::uintptr_t last_memory = 0;
  std::int64_t copies = 0;
  std::set<Stream*> streams;
  std::vector<std::unique_ptr<Stream>> ended;  // other streams may still wait for it, as for finished work
  std::set<Event*> events;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::map<std::uintptr_t, std::size_t> drivers_own;  // of the pinned
  std::map<std::uintptr_t, Memory> memory;
  std::size_t pinned_bytes = 0;
  std::size_t most_pinned = 0;
  double bytes_per_second = 0;
  bool really = true;
  bool breaks_waits = false;
};

Machine& machine() {
  static Machine* const only = new Machine;  // never destroyed: threads may still use it while the program exits
  return *only;
}

using Lock = std::unique_lock<std::mutex>;

void note(Machine& m, const char* what) {
  if (m.fault.empty()) m.fault = what;
}

template <class Map>
typename Map::iterator containing(Map& map, std::uintptr_t address) {
  auto after = map.upper_bound(address);
  return after == map.begin() ? map.end() : std::prev(after);
}

bool is_pinned(Machine& m, const void* memory, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  const auto found = containing(m.pinned, at);
  return found != m.pinned.end() && at - found->first + bytes <= found->second;
}

std::byte* view_of(Machine& m, std::uintptr_t address, std::size_t bytes, int device) {
  const auto found = containing(m.memory, address);
  if (found == m.memory.end() || address - found->first + bytes > found->second.bytes) return nullptr;
  if (device >= 0 && found->second.device != device) return nullptr;
  return found->second.view + (address - found->first);
}

bool is_in_use(Machine& m, const std::byte* begin, std::size_t bytes) {
  const auto inside = [&](const std::byte* at) { return at != nullptr && at >= begin && at < begin + bytes; };
  for (const Stream* stream : m.streams) {
    for (const Operation& one : stream->queue) {
      if (inside(one.from) || inside(one.to)) return true;
    }
  }
  return false;
}

void force(Stream& stream, std::uint64_t position) {
  stream.forced = std::max(stream.forced, position);
  machine().changed.notify_all();
}

void carry_out(Lock& lock, Stream& stream, const Operation& one) {
  Machine& m = machine();
  if (one.kind == Kind::wait) {
    force(*one.other, one.position);
    m.changed.wait(lock, [&] { return one.other->done >= one.position; });
    return;
  }
  if (one.kind == Kind::mark || m.lost[static_cast<std::size_t>(stream.device)]) return;
  if (one.fails) {
    m.lost[static_cast<std::size_t>(stream.device)] = true;
    return;
  }
  Clock::time_point until{};
  if (m.bytes_per_second > 0) {
    auto& busy = m.busy_until[static_cast<std::size_t>(stream.device)];
    const std::chrono::duration<double> takes(static_cast<double>(one.bytes) / m.bytes_per_second);
    // A thread that wakes late catches up, because a device does not pause between two pending copies.
    constexpr auto kLate = std::chrono::milliseconds(10);
    const Clock::time_point now = Clock::now();
    until = busy = (now - busy < kLate ? busy : now) + std::chrono::duration_cast<Clock::duration>(takes);
  }
  const bool really = m.really || m.bytes_per_second <= 0;
  lock.unlock();
  if (one.kind == Kind::fill) std::memset(one.to, one.value, one.bytes);
  if (one.kind == Kind::copy && really) std::memcpy(one.to, one.from, one.bytes);
  if (until != Clock::time_point{}) std::this_thread::sleep_until(until);
  lock.lock();
}

void serve(Stream& stream) {
  Machine& m = machine();
  Lock lock(m.mutex);
  for (;;) {
    m.changed.wait(lock, [&] {
      const bool due = m.bytes_per_second > 0 || stream.forced > stream.done || stream.ends;
      return due && (stream.ends || !stream.queue.empty());
    });
    if (stream.queue.empty()) return;
    const Operation one = stream.queue.front();
    carry_out(lock, stream, one);
    stream.queue.pop_front();
    ++stream.done;
    m.changed.notify_all();
  }
}

std::uint64_t put(Stream& stream, const Operation& one) {
  stream.queue.push_back(one);
  machine().changed.notify_all();
  return ++stream.begun;
}

int status_of(Machine& m, int device) { return m.lost[static_cast<std::size_t>(device)] ? kIllegalAddress : kOk; }

int wait_until(Lock& lock, Stream& stream, std::uint64_t position) {
  Machine& m = machine();
  force(stream, position);
  m.changed.wait(lock, [&] { return stream.done >= position; });
  return status_of(m, stream.device);
}

// Whether a handle of this device may be used now.
int usable(Machine& m, int device, const char* what) {
  const int current = current_device();
  if (current >= 0 && current == device) return kOk;
  note(m, what);
  return current < 0 ? kInvalidContext : kInvalidHandle;
}

int add_pinned(Machine& m, void* memory, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  if (m.pinned.count(at) != 0) return kAlreadyRegistered;
  m.pinned[at] = bytes;
  m.pinned_bytes += bytes;
  m.most_pinned = std::max(m.most_pinned, m.pinned_bytes);
  return kOk;
}

int remove_pinned(Machine& m, void* memory) {
  const auto found = m.pinned.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == m.pinned.end()) {
    note(m, "memory was given back that is not pinned");
    return kNotRegistered;
  }
  if (is_in_use(m, static_cast<std::byte*>(memory), found->second))
    note(m, "memory was unpinned during a copy from it");
  m.pinned_bytes -= found->second;
  m.pinned.erase(found);
  return kOk;
}

bool is_current(const char* what) {
  Machine& m = machine();
  if (current_device() >= 0) return true;
  note(m, what);
  return false;
}

}  // namespace

int giving_back(const char* name) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const std::int64_t number = m.calls++;
  const auto refused = m.refused.find(name);
  if (number != m.failing && refused == m.refused.end()) return kOk;
  m.failed = name;
  ++m.failures;
  return refused != m.refused.end() ? refused->second : m.failing_code;
}

int enter(const char* name) {
  const int code = giving_back(name);
  if (code != kOk) return code;
  Machine& m = machine();
  const Lock lock(m.mutex);
  return m.initialized ? kOk : kNotInitialized;
}

void fault(const char* what) {
  const Lock lock(machine().mutex);
  note(machine(), what);
}

int device_count() {
  const Lock lock(machine().mutex);
  return machine().devices;
}

int init_code() {
  const Lock lock(machine().mutex);
  return machine().init;
}

void mark_initialized() {
  const Lock lock(machine().mutex);
  machine().initialized = true;
}

const char* name_of(int code) {
  switch (code) {
    case kInvalidValue: return "FAKE_INVALID_VALUE";
    case kNoMemory: return "FAKE_NO_MEMORY";
    case kInvalidContext: return "FAKE_INVALID_CONTEXT";
    case kIllegalAddress: return "FAKE_ILLEGAL_ADDRESS";
    default: return nullptr;
  }
}

Context* primary(int device) { return &machine().primaries[static_cast<std::size_t>(device)]; }

int retain(int device) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.primaries[static_cast<std::size_t>(device)].device = device;
  ++m.retained[static_cast<std::size_t>(device)];
  return kOk;
}

int release(int device) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (m.retained[static_cast<std::size_t>(device)]-- > 0) return kOk;
  note(m, "a context was released more often than retained");
  return kInvalidContext;
}

int device_of(const Context* context) { return context->device; }

void check_context(const Context* context) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (m.only != nullptr && m.only != context) note(m, "another context than the caller's was made current");
}

void expect_flags(unsigned flags, unsigned expected, const char* what) {
  if (flags != expected) fault(what);
}

namespace {

// Called with the machine locked.
Stream* default_of(Machine& m, int device, bool per_thread) {
  Stream*& stream = m.defaults[static_cast<std::size_t>(device)][per_thread ? 1 : 0];
  if (stream == nullptr) {
    stream = new Stream;
    stream->device = device;
    stream->thread = std::thread([only = stream] { serve(*only); });
    stream->thread.detach();
  }
  return stream;
}

bool is_stream(Machine& m, Stream* stream) {
  if (m.streams.count(stream) != 0) return true;
  return std::any_of(m.defaults.begin(), m.defaults.end(),
                     [stream](const auto& two) { return stream == two[0] || stream == two[1]; });
}

}  // namespace

Stream* default_stream(bool per_thread) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  return default_of(m, std::max(current_device(), 0), per_thread);
}

int new_stream(Stream** out) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (!is_current("a stream was made without a context")) return kInvalidContext;
  if (const int code = status_of(m, current_device()); code != kOk) return code;
  auto* const stream = new Stream;
  stream->device = current_device();
  stream->thread = std::thread([stream] { serve(*stream); });
  m.streams.insert(stream);
  *out = stream;
  return kOk;
}

int free_stream(Stream* stream) {
  Machine& m = machine();
  {
    const Lock lock(m.mutex);
    if (m.streams.count(stream) == 0) {
      note(m, "no stream was destroyed");
      return kInvalidHandle;
    }
    usable(m, stream->device, "a stream was destroyed in another context");
    stream->ends = true;
    m.changed.notify_all();
  }
  stream->thread.join();
  const Lock lock(m.mutex);
  m.streams.erase(stream);
  for (Event* event : m.events) {
    if (event->stream == stream) event->stream = nullptr;
  }
  m.ended.emplace_back(stream);
  return kOk;
}

int wait_for_event(Stream* stream, Event* event) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (const int code = usable(m, stream->device, "a stream was used in another context"); code != kOk) return code;
  if (event->stream == nullptr) return kOk;
  Operation one;
  one.kind = Kind::wait;
  one.other = event->stream;
  one.position = event->position;
  put(*stream, one);
  return status_of(m, stream->device);
}

int synchronize(Stream* stream) {
  Machine& m = machine();
  Lock lock(m.mutex);
  if (const int code = usable(m, stream->device, "a stream was used in another context"); code != kOk) return code;
  return wait_until(lock, *stream, stream->begun);
}

int new_event(Event** out) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (!is_current("an event was made without a context")) return kInvalidContext;
  if (const int code = status_of(m, current_device()); code != kOk) return code;
  *out = *m.events.insert(new Event{current_device(), nullptr, 0}).first;
  return kOk;
}

int free_event(Event* event) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (m.events.erase(event) == 0) {
    note(m, "no event was destroyed");
    return kInvalidHandle;
  }
  delete event;
  return kOk;
}

int record(Event* event, Stream* stream) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (m.events.count(event) == 0 || !is_stream(m, stream)) {
    note(m, "an event or stream that is none was used");
    return kInvalidHandle;
  }
  if (const int code = usable(m, stream->device, "an event was recorded in another context"); code != kOk) return code;
  event->stream = stream;
  event->position = put(*stream, Operation{});
  return status_of(m, stream->device);
}

int synchronize(Event* event) {
  Machine& m = machine();
  Lock lock(m.mutex);
  if (m.events.count(event) == 0) {
    note(m, "an event that is none was waited for");
    return kInvalidHandle;
  }
  if (event->stream == nullptr || m.breaks_waits) return kOk;
  return wait_until(lock, *event->stream, event->position);
}

int query(Event* event) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (m.events.count(event) == 0) {
    note(m, "an event that is none was asked about");
    return kInvalidHandle;
  }
  if (event->stream == nullptr) return kOk;
  if (const int code = status_of(m, event->device); code != kOk) return code;
  return event->stream->done >= event->position ? kOk : kNotReady;
}

int copy(std::uintptr_t dst, const void* src, std::size_t bytes, Stream* stream) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (m.streams.count(stream) == 0) {
    note(m, "a copy in a stream that is none");
    return kInvalidHandle;
  }
  if (const int code = usable(m, stream->device, "a copy in another context"); code != kOk) return code;
  Operation one;
  one.kind = Kind::copy;
  one.from = static_cast<const std::byte*>(src);
  one.to = view_of(m, dst, bytes, stream->device);
  one.bytes = bytes;
  if (!is_pinned(m, src, bytes)) {
    note(m, "a copy from memory that is not pinned");
    return kInvalidValue;
  }
  if (one.to == nullptr || bytes == 0) {
    note(m, "a copy to where the device has no memory");
    return kInvalidValue;
  }
  one.fails = m.failing_copy >= 0 && m.failing_copy-- == 0;
  m.failures += one.fails ? 1 : 0;
  ++m.copies;
  put(*stream, one);
  return status_of(m, stream->device);
}

int copy_back(void* dst, std::uintptr_t src, std::size_t bytes) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (!is_current("memory was copied without a context")) return kInvalidContext;
  const std::byte* const view = view_of(m, src, bytes, current_device());
  if (view == nullptr) return kInvalidValue;
  std::memcpy(dst, view, bytes);
  return kOk;
}

int pin(void* memory, std::size_t bytes) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (!is_current("memory was pinned without a context")) return kInvalidContext;
  return add_pinned(m, memory, bytes);
}

int unpin(void* memory) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (!is_current("memory was unpinned without a context")) return kInvalidContext;
  if (m.drivers_own.count(reinterpret_cast<std::uintptr_t>(memory)) != 0) {
    note(m, "memory was unpinned that the driver allocated");
    return kInvalidValue;
  }
  return remove_pinned(m, memory);
}

int new_pinned(void** out, std::size_t bytes) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (!is_current("memory was allocated without a context")) return kInvalidContext;
  void* memory = nullptr;
  if (posix_memalign(&memory, 4096, bytes) != 0) return kNoMemory;
  m.drivers_own[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  *out = memory;
  return add_pinned(m, memory, bytes);
}

int free_pinned(void* memory) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (m.drivers_own.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0) {
    note(m, "memory was freed that the driver did not allocate");
    return kInvalidValue;
  }
  const int code = remove_pinned(m, memory);
  std::free(memory);
  return code;
}

namespace {

// A hint for its address: next to the previous memory, in pages.
void* place_for(Machine& m, std::size_t bytes) {
  constexpr auto kReserved = static_cast<std::size_t>(std::min(std::uint64_t{1} << 36, std::uint64_t{SIZE_MAX / 32}));
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t size = (bytes + page - 1) / page * page;
  if (m.next_memory == 0) {
    // Free addresses that no other allocation will use soon.
    void* const room = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return nullptr;
    munmap(room, kReserved);
    m.next_memory = reinterpret_cast<std::uintptr_t>(room);
    m.last_memory = m.next_memory + kReserved / 2;
  }
  if (m.last_memory - m.next_memory < size) return nullptr;
  void* const place = reinterpret_cast<void*>(m.next_memory);
  m.next_memory += size;
  return place;
}

}  // namespace

int new_memory(std::uintptr_t* out, std::size_t bytes) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (!is_current("device memory was allocated without a context")) return kInvalidContext;
  const int file = memfd_create("device", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return kNoMemory;
  void* const address = mmap(place_for(m, bytes), bytes, PROT_NONE, MAP_SHARED, file, 0);
  void* const view = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (address == MAP_FAILED || view == MAP_FAILED) return kNoMemory;
  *out = reinterpret_cast<std::uintptr_t>(address);
  m.memory[*out] = {current_device(), static_cast<std::byte*>(view), bytes};
  return kOk;
}

int range_of_memory(std::uintptr_t* begin, std::size_t* bytes, std::uintptr_t address) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = containing(m.memory, address);
  if (found == m.memory.end() || address - found->first >= found->second.bytes) return kInvalidValue;
  *begin = found->first;
  *bytes = found->second.bytes;
  return kOk;
}

int free_memory(std::uintptr_t memory) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = m.memory.find(memory);
  if (found == m.memory.end()) {
    note(m, "device memory was freed that is none");
    return kInvalidValue;
  }
  usable(m, found->second.device, "device memory was freed in another context");
  if (is_in_use(m, found->second.view, found->second.bytes)) note(m, "device memory was freed during a copy to it");
  munmap(found->second.view, found->second.bytes);
  munmap(reinterpret_cast<void*>(memory), found->second.bytes);
  m.memory.erase(found);
  return kOk;
}

}  // namespace fake

using namespace fake;

extern "C" {

void fake_reset() {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.devices = kDevices;
  m.init = kOk;
  m.calls = 0;
  m.failing = m.failing_copy = -1;
  m.failed = nullptr;
  m.failures = 0;
  m.refused.clear();
  m.fault.clear();
  m.lost.fill(false);
  m.bytes_per_second = 0;
  m.really = true;
  m.breaks_waits = false;
  m.only = nullptr;
  m.copies = 0;
  m.most_pinned = m.pinned_bytes;
}

void fake_set_devices(int count) {
  const Lock lock(machine().mutex);
  machine().devices = count;
}

void fake_set_init(int code) {
  const Lock lock(machine().mutex);
  machine().init = code;
}

void fake_fail_call(std::int64_t nth, int code) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.calls = 0;
  m.failing = nth;
  m.failing_code = code;
  m.failed = nullptr;
}

void fake_fail_copy(std::int64_t nth) {
  const Lock lock(machine().mutex);
  machine().failing_copy = nth;
}

void fake_refuse(const char* name, int code) {
  const Lock lock(machine().mutex);
  machine().refused[name] = code;
}

std::int64_t fake_calls() {
  const Lock lock(machine().mutex);
  return machine().calls;
}

const char* fake_failed_call() {
  const Lock lock(machine().mutex);
  return machine().failed;
}

int fake_failures() {
  const Lock lock(machine().mutex);
  return machine().failures;
}

const char* fake_fault() {
  const Lock lock(machine().mutex);
  return machine().fault.empty() ? nullptr : machine().fault.c_str();
}

int fake_leaks() {
  Machine& m = machine();
  const Lock lock(m.mutex);
  int retained = 0;
  for (const int count : m.retained) retained += count;
  return retained + static_cast<int>(m.streams.size() + m.events.size() + m.pinned.size() + m.memory.size());
}

std::size_t fake_pinned() {
  const Lock lock(machine().mutex);
  return machine().pinned_bytes;
}

const void* fake_first_pinned() {
  const Lock lock(machine().mutex);
  return machine().pinned.empty() ? nullptr : reinterpret_cast<const void*>(machine().pinned.begin()->first);
}

std::size_t fake_most_pinned() {
  const Lock lock(machine().mutex);
  return machine().most_pinned;
}

std::int64_t fake_copies() {
  const Lock lock(machine().mutex);
  return machine().copies;
}

void fake_allow_only(const void* context) {
  const Lock lock(machine().mutex);
  machine().only = static_cast<const Context*>(context);
}

void* fake_default_stream(int ordinal, int per_thread) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  return default_of(m, ordinal, per_thread != 0);
}

std::int64_t fake_in_flight() {
  const Lock lock(machine().mutex);
  std::int64_t copies = 0;
  for (const Stream* stream : machine().streams) {
    copies += std::count_if(stream->queue.begin(), stream->queue.end(),
                            [](const Operation& one) { return one.kind == Kind::copy; });
  }
  return copies;
}

void fake_read(const void* device, void* to, std::size_t bytes) {
  std::byte* view = nullptr;
  {
    const Lock lock(machine().mutex);
    view = view_of(machine(), reinterpret_cast<std::uintptr_t>(device), bytes, -1);
  }
  if (view == nullptr) std::abort();
  std::memcpy(to, view, bytes);
}

void fake_fill(void* stream, void* device, int value, std::size_t bytes) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  Operation one;
  one.kind = Kind::fill;
  one.to = view_of(m, reinterpret_cast<std::uintptr_t>(device), bytes, -1);
  one.value = value;
  one.bytes = bytes;
  put(*static_cast<Stream*>(stream), one);
}

void fake_pace(double bytes_per_second, int really) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.bytes_per_second = bytes_per_second;
  m.really = really != 0;
}

void fake_break_waits(int broken) {
  const Lock lock(machine().mutex);
  machine().breaks_waits = broken != 0;
}

void fake_drain() {
  Lock lock(machine().mutex);
  for (Stream* stream : machine().streams) wait_until(lock, *stream, stream->begun);
}

void* fake_new_context(int ordinal) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.contexts.push_back(std::make_unique<Context>(Context{ordinal}));
  return m.contexts.back().get();
}

void* fake_new_stream(int ordinal) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  auto* const stream = new Stream;
  stream->device = ordinal;
  stream->thread = std::thread([stream] { serve(*stream); });
  m.streams.insert(stream);
  return stream;
}

void fake_free_stream(void* stream) {
  Machine& m = machine();
  auto* const own = static_cast<Stream*>(stream);
  {
    const Lock lock(m.mutex);
    own->ends = true;
    m.changed.notify_all();
  }
  own->thread.join();
  const Lock lock(m.mutex);
  m.streams.erase(own);
  m.ended.emplace_back(own);
}
}
