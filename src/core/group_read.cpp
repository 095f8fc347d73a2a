// SPDX-License-Identifier: Apache-2.0
#include "core/group_read.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <forward_list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "core/group_blocks.hpp"
#include "io/memory.hpp"
#include "io/source.hpp"

namespace st::core {

namespace {

constexpr std::uint64_t kDefaultExchange = std::uint64_t{256} << 20;
constexpr std::uint64_t kMostExchange = std::uint64_t{1} << 31;  // counts have 31 bits
constexpr std::size_t kMostRequested = 100'000;                  // at a time, which bounds the memory for them
constexpr std::size_t kImage = SIZE_MAX / 2;                     // "entries" from here on are ranges of an image

using Kind = GroupBlocks::Kind;
using Requests = std::vector<ReadRequest>;
using ByteCounts = std::vector<std::int32_t>;  // bytes, for each process

// What one process wants of the blocks that another one reads: for each block the number of ranges, and for each range
// its offset in the block and its length. The bytes of the ranges are sent in this order.
using List = std::vector<std::uint32_t>;
constexpr std::size_t kWord = sizeof(List::value_type);

// A range that this process reads for others, and its place in the image of the round.
struct ImageRange {
  std::uint64_t begin = 0;  // an address
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;
};

// The shared blocks of one round. Process (first + i) % size reads block i.
struct Round {
  std::size_t first = 0;
  std::vector<std::uint64_t> blocks;
  List wanted;              // by this process: a list for each reader
  ByteCounts wanted_bytes;  // the lengths of these lists
  ByteCounts receive;       // bytes that each reader sends to this process
  List requested;           // from this process, as a reader: a list of each process
  ByteCounts requested_bytes;
  ByteCounts send;                // bytes that this process sends to each
  std::vector<ImageRange> image;  // ascending, without overlap: what any process has requested
  std::uint64_t image_bytes = 0;

  void clear() {
    blocks.clear();
    wanted.clear();
    requested.clear();
    image.clear();
    image_bytes = 0;
    for (ByteCounts* const counts : {&wanted_bytes, &receive, &requested_bytes, &send})
      std::fill(counts->begin(), counts->end(), 0);
  }

  // Returns the first of the blocks that a process reads. The others follow at a distance of `size`.
  std::size_t first_of(std::size_t reader, std::size_t size) const { return (reader + size - first % size) % size; }
};

using Bytes = std::unique_ptr<std::byte[], void (*)(std::byte*)>;

// Messages follow one another.
void set_offsets(const ByteCounts& counts, ByteCounts& offsets) {
  std::int32_t at = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    offsets[i] = at;
    at += counts[i];
  }
}

Status status_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.status;
  } catch (const std::bad_alloc&) {
    return Status::no_memory;
  } catch (...) {
    return Status::internal;
  }
}

// Between two operations of the group, nothing may throw. guarded() keeps an exception until agree() reports it to all
// processes.
class GroupRead {
 public:
  GroupRead(const Group& group, const Checkpoint& file, const ReadOptions& options, const ReadListener& listener);

  void run(const std::function<Requests()>& make_requests);

 private:
  template <class Work>
  void guarded(const Work& work) noexcept;
  template <class Work>
  void start(std::vector<std::jthread>& threads, const Work& work);
  std::uint64_t agree(std::uint64_t value, bool may_be_cancelled);
  void throw_own_or(std::uint64_t verdict) const;

  void greet(const std::function<Requests()>& make_requests);
  void find_blocks();
  void allocate();

  std::size_t share(std::uint64_t total, std::uint64_t number) const;
  bool has_blocks(std::uint64_t number) const;
  void step(std::uint64_t number);
  void make_lists(Round& round, std::uint64_t number);
  void exchange_lists(Round& round);
  void lay_out_image(Round& round) const;
  ReadListener listener_for(bool reading);
  void read(Round& round, std::uint64_t number);
  void copy_requested(const Round& round, std::size_t word, std::byte* to, const std::byte* image) const;
  void exchange_bytes(Round& round, std::uint64_t number);
  void deliver(const Round& round, std::uint64_t number);

  Round& round(std::uint64_t number) { return rounds_[static_cast<std::size_t>(number % rounds_.size())]; }
  std::byte* image_of(std::uint64_t number) const {
    return sent_.get() + (number % 2 == 0 ? 0 : image_room_ + copies_room_);
  }
  std::byte* received_of(std::uint64_t number) const { return received_.get() + number % 2 * received_room_; }

  const Group group_;
  const std::size_t size_;
  const Checkpoint& file_;
  ReadOptions options_;
  const ReadListener& listener_;
  bool in_background_ = false;

  Requests requests_;  // moved to blocks_
  std::uint64_t exchange_bytes_ = 0;
  std::optional<GroupBlocks> blocks_;
  std::uint64_t count_ = 0;  // rounds
  std::uint64_t steps_ = 0;

  std::array<Round, 3> rounds_;    // one is read, one exchanged, one delivered
  std::uint64_t next_shared_ = 0;  // the cursor of make_lists()
  std::uint64_t next_own_ = 0;     // the cursor of read()
  Bytes sent_{nullptr, nullptr};   // an image, copies for processes that want only parts of it, and the other image
  Bytes received_{nullptr, nullptr};
  Bytes unpacked_{nullptr, nullptr};  // the blocks of one reader, for deliver()
  std::uint64_t image_room_ = 0;
  std::uint64_t copies_room_ = 0;
  std::uint64_t received_room_ = 0;
  ByteCounts words_;  // the length of a number for each process
  ByteCounts send_offsets_;
  ByteCounts received_offsets_;

  std::atomic<std::uint64_t> left_{0};  // bytes that have not reached their destinations
  std::mutex mutex_;                    // for the next member, and for listener_.count()
  std::exception_ptr failure_;          // the first in this process
};

GroupRead::GroupRead(const Group& group, const Checkpoint& file, const ReadOptions& options,
                     const ReadListener& listener)
    : group_(group), size_(group.size), file_(file), options_(options), listener_(listener) {
  for (std::size_t i = 0; i < file.count_shards() && options_.threads == 0; ++i) {
    if (file.shard(i).source->traits().serial) options_.threads = 1;
  }
  in_background_ = options_.threads != 1 && options_.pool.parallel_for == nullptr;
}

template <class Work>
void GroupRead::guarded(const Work& work) noexcept {
  try {
    work();
  } catch (...) {
    listener_.stop();
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

// Runs guarded(work), on a new thread if threads may be started.
template <class Work>
void GroupRead::start(std::vector<std::jthread>& threads, const Work& work) {
  if (in_background_) {
    try {
      threads.emplace_back([this, work] { guarded(work); });
      return;
    } catch (const std::exception&) {
      // The system cannot start more threads.
    }
  }
  guarded(work);
}

// Throws in all processes if one has failed, and its own error in one that has. Returns the largest of their values.
std::uint64_t GroupRead::agree(std::uint64_t value, bool may_be_cancelled) {
  Status status = Status::ok;
  if (failure_) {
    status = status_of(failure_);
  } else if (may_be_cancelled && listener_.stopped()) {
    status = Status::cancelled;
  }
  std::array<std::uint64_t, 2> values{verdict_of(group_, status), value};
  allreduce(group_, Reduce::max, values.data(), values.size());
  throw_own_or(values[0]);
  return values[1];
}

// Its own error ends the run even if the group lost it: the rest of a failed round is not valid.
void GroupRead::throw_own_or(std::uint64_t verdict) const {
  if (failure_) std::rethrow_exception(failure_);
  throw_verdict(group_, verdict);
}

// ---- before the first round ----------------------------------------------------------------------------------------

void GroupRead::greet(const std::function<Requests()>& make_requests) {
  Greeting greeting;
  guarded([&] {
    greeting.digest = digest_of(file_);
    greeting.not_digest = ~greeting.digest;
    greeting.exchange_bytes = group_.exchange_bytes == 0 ? kDefaultExchange : group_.exchange_bytes;
    words_.assign(size_, kWord);
    send_offsets_.resize(size_);
    received_offsets_.resize(size_);
    for (Round& one : rounds_) {
      for (ByteCounts* const counts : {&one.wanted_bytes, &one.receive, &one.requested_bytes, &one.send})
        counts->resize(size_);
    }
    requests_ = make_requests();
  });
  if (failure_) greeting.not_verdict = ~verdict_of(group_, status_of(failure_));
  greeting.combine(group_);
  throw_own_or(~greeting.not_verdict);
  if (!greeting.same_digest()) fail(Status::state, "the processes of the group have not opened the same checkpoint");
  exchange_bytes_ = std::min(greeting.exchange_bytes, kMostExchange);
}

// Finds the blocks of each kind, and how many rounds they take.
void GroupRead::find_blocks() {
  // Buffers for one block of each process: two images, the copies of one round, what two rounds receive, and a block for
  // deliver(). Lists take up to a fifth of that.
  const std::uint64_t buffers = 4 * size_ + 1;
  guarded([&] {
    const std::uint64_t bytes = block_bytes_for(file_, exchange_bytes_ / buffers / 4, size_);
    blocks_.emplace(file_, bytes, std::move(requests_));
    left_.store(blocks_->wanted_bytes(), std::memory_order_relaxed);
  });
  agree(0, false);
  blocks_->count_wishes(group_);
  const std::uint64_t room = exchange_bytes_ / blocks_->block_bytes();
  const std::uint64_t most_shared = std::max<std::uint64_t>(room / buffers, 1) * size_;
  const std::uint64_t most_own = std::max<std::uint64_t>(2 * room, 1);  // they need no buffers
  const std::uint64_t own = agree((blocks_->own() + most_own - 1) / most_own, false);
  if (own > blocks_->count()) fail(Status::callback, "the group's allreduce delivered {} as a number of rounds", own);
  count_ = std::max((blocks_->shared() + most_shared - 1) / most_shared, own);
  steps_ = blocks_->shared() == 0 ? count_ : count_ + 2;
}

void GroupRead::allocate() {
  const std::uint64_t blocks = (blocks_->shared() + count_ - 1) / count_;
  const std::uint64_t each = (blocks + size_ - 1) / size_;
  image_room_ = each * blocks_->block_bytes();
  copies_room_ = image_room_ * size_;
  received_room_ = blocks * blocks_->block_bytes();
  ReadCounts counts;
  const auto buffer_of = [&counts](std::uint64_t bytes) -> Bytes {
    counts.exchange_bytes += bytes;
    return {io::new_buffer(bytes, io::Pages::as_they_are_touched, 1), io::free_buffer};
  };
  sent_ = buffer_of(2 * image_room_ + copies_room_);
  received_ = buffer_of(2 * received_room_);
  unpacked_ = buffer_of(image_room_);
  // After it has received the lengths of lists, this process must have memory for them.
  const std::uint64_t list = 1 + 2 * (blocks_->block_bytes() / (GroupBlocks::kGap + 1) + 1);
  for (Round& one : rounds_) one.requested.reserve(static_cast<std::size_t>(each * size_ * list));
  listener_.count(counts);
}

// ---- rounds --------------------------------------------------------------------------------------------------------

// Returns how many of `total` blocks are in the rounds before this one.
std::size_t GroupRead::share(std::uint64_t total, std::uint64_t number) const {
  return static_cast<std::size_t>(total * number / count_);
}

bool GroupRead::has_blocks(std::uint64_t number) const {
  return number < count_ && share(blocks_->shared(), number) != share(blocks_->shared(), number + 1);
}

// Reads this round, exchanges the previous one, and delivers the one before.
void GroupRead::step(std::uint64_t number) {
  Round& next = round(number);
  next.clear();
  if (has_blocks(number)) {
    guarded([&] { make_lists(next, number); });  // if it fails, the lists that it has not finished are empty
    exchange_lists(next);
  }
  std::vector<std::jthread> threads;  // joined by their destructors
  if (number < count_) start(threads, [this, &next, number] { read(next, number); });
  if (number >= 2 && has_blocks(number - 2)) {
    start(threads, [this, number] { deliver(round(number - 2), number - 2); });
  }
  try {
    if (number >= 1 && has_blocks(number - 1)) exchange_bytes(round(number - 1), number - 1);
  } catch (...) {
    listener_.stop();
    throw;
  }
  threads.clear();
  listener_.report();
  // At the end, a cancel is too late if this process has all its bytes.
  agree(0, number + 1 != steps_ || left_.load(std::memory_order_relaxed) != 0);
}

void GroupRead::make_lists(Round& round, std::uint64_t number) {
  round.first = share(blocks_->shared(), number);
  for (std::size_t i = round.first; i < share(blocks_->shared(), number + 1); ++i) {
    round.blocks.push_back(blocks_->next(next_shared_, Kind::shared));
    next_shared_ = round.blocks.back() + 1;
  }
  std::vector<Range> ranges;
  for (std::size_t reader = 0; reader < size_; ++reader) {
    const std::size_t before = round.wanted.size();
    for (std::size_t i = round.first_of(reader, size_); i < round.blocks.size(); i += size_) {
      const std::uint64_t begin = blocks_->range_of(round.blocks[i]).begin;
      blocks_->find_wanted(round.blocks[i], ranges);
      round.wanted.push_back(static_cast<std::uint32_t>(ranges.size()));
      for (const Range& range : ranges) {
        round.wanted.push_back(static_cast<std::uint32_t>(range.begin - begin));
        round.wanted.push_back(static_cast<std::uint32_t>(range.end - range.begin));
        round.receive[reader] += static_cast<std::int32_t>(range.end - range.begin);
      }
    }
    round.wanted_bytes[reader] = static_cast<std::int32_t>((round.wanted.size() - before) * kWord);
  }
}

void GroupRead::exchange_lists(Round& round) {
  set_offsets(words_, send_offsets_);
  alltoallv(group_, round.wanted_bytes.data(), words_, send_offsets_, round.requested_bytes.data(), words_,
            send_offsets_);
  std::uint64_t words = 0;
  for (const std::int32_t bytes : round.requested_bytes) {
    words += static_cast<std::uint32_t>(bytes) / kWord;
    if (bytes % static_cast<std::int32_t>(kWord) != 0 || words > round.requested.capacity())
      fail(Status::callback, "the group's alltoallv delivered {} as the length of a list", bytes);
  }
  round.requested.resize(static_cast<std::size_t>(words));
  set_offsets(round.wanted_bytes, send_offsets_);
  set_offsets(round.requested_bytes, received_offsets_);
  alltoallv(group_, round.wanted.data(), round.wanted_bytes, send_offsets_, round.requested.data(),
            round.requested_bytes, received_offsets_);
}

// Finds what this process reads for others, and where it goes in the image. Checks the lists of the others.
void GroupRead::lay_out_image(Round& round) const {
  std::vector<std::size_t> at(size_);
  std::vector<std::size_t> end(size_);
  std::size_t words = 0;
  for (std::size_t process = 0; process < size_; ++process) {
    at[process] = words;
    words += static_cast<std::size_t>(round.requested_bytes[process]) / kWord;
    end[process] = words;
  }
  const List& list = round.requested;
  std::vector<Range> ranges;
  for (std::size_t i = round.first_of(group_.rank, size_); i < round.blocks.size(); i += size_) {
    const Range block = blocks_->range_of(round.blocks[i]);
    ranges.clear();
    for (std::size_t process = 0; process < size_; ++process) {
      if (round.requested_bytes[process] == 0) continue;  // it has failed, and the bytes will not be exchanged
      std::uint64_t count = at[process] < end[process] ? list[at[process]++] : UINT64_MAX;
      bool valid = count <= (end[process] - at[process]) / 2;
      for (std::uint64_t last = block.begin; valid && count > 0; --count) {
        const std::uint64_t begin = block.begin + list[at[process]++];
        const std::uint64_t bytes = list[at[process]++];
        valid = begin >= last && bytes != 0 && begin + bytes <= block.end;
        if (!valid) break;  // the sum below may overflow
        last = begin + bytes;
        ranges.push_back({begin, last});
        round.send[process] += static_cast<std::int32_t>(bytes);
      }
      if (!valid) fail(Status::callback, "the group's alltoallv delivered an invalid list of process {}", process);
    }
    merge_ranges(ranges, 0);
    for (const Range& range : ranges) {
      round.image.push_back({range.begin, range.end - range.begin, round.image_bytes});
      round.image_bytes += range.end - range.begin;
    }
  }
}

// Only the calling thread reports progress. Two bulk reads may run at the same time. Delivering is not reading.
ReadListener GroupRead::listener_for(bool reading) {
  ReadListener listener = listener_;
  listener.report = [this] {
    if (!in_background_) listener_.report();
  };
  listener.arrived = [this](std::size_t entry, std::uint64_t bytes) {
    if (entry >= kImage) return;
    left_.fetch_sub(bytes, std::memory_order_relaxed);
    listener_.arrived(entry, bytes);
  };
  listener.count = [this, reading](ReadCounts counts) {
    if (!reading) counts.bytes_read = counts.reads = 0;
    const std::lock_guard lock(mutex_);
    listener_.count(counts);
  };
  return listener;
}

// Reads the image of a round, and a share of the blocks that only this process wants straight to their destinations.
void GroupRead::read(Round& round, std::uint64_t number) {
  if (listener_.stopped()) return;
  lay_out_image(round);
  ReadListener listener = listener_for(true);
  listener.name_of = [this, &round](std::size_t entry) {
    return entry < kImage ? listener_.name_of(entry) : blocks_->tensor_at(round.image[entry - kImage].begin);
  };
  ReadOptions options = options_;
  options.most_gap = blocks_->block_bytes() / 2;  // or it would read the blocks of other processes
  Requests requests;
  std::forward_list<format::Slice> slices;
  const auto flush = [&] {
    for (ReadRequest& request : requests) request.begin = blocks_->offset_of(request.begin);
    sort_by_position(requests);
    read_shards(requests, file_, options, listener);
    requests.clear();
    slices.clear();
  };
  for (std::uint64_t left = share(blocks_->own(), number + 1) - share(blocks_->own(), number); left > 0;) {
    const Range range = blocks_->together(blocks_->next(next_own_, Kind::own), left);
    blocks_->cut_requests(range, requests, slices);
    next_own_ = range.end / blocks_->block_bytes();
    left -= (range.end - range.begin) / blocks_->block_bytes();
    if (requests.size() >= kMostRequested) flush();
  }
  for (std::size_t i = 0; i < round.image.size(); ++i) {
    const ImageRange& range = round.image[i];
    requests.push_back({blocks_->shard_at(range.begin), range.begin, range.bytes, image_of(number) + range.at,
                        kImage + i, nullptr, nullptr, nullptr});
  }
  flush();
}

// Copies the ranges of the list that begins with this word.
void GroupRead::copy_requested(const Round& round, std::size_t word, std::byte* to, const std::byte* image) const {
  auto found = round.image.begin();
  for (std::size_t i = round.first_of(group_.rank, size_); i < round.blocks.size(); i += size_) {
    const std::uint64_t block = blocks_->range_of(round.blocks[i]).begin;
    for (std::uint32_t count = round.requested[word++]; count > 0; --count) {
      const std::uint64_t begin = block + round.requested[word++];
      const std::uint32_t bytes = round.requested[word++];
      while (begin >= found->begin + found->bytes) ++found;
      std::memcpy(to, image + found->at + (begin - found->begin), bytes);
      to += bytes;
    }
  }
}

void GroupRead::exchange_bytes(Round& round, std::uint64_t number) {
  const std::byte* const image = image_of(number);
  std::byte* copies = sent_.get() + image_room_;
  std::size_t word = 0;
  ReadCounts counts;
  for (std::size_t process = 0; process < size_; ++process) {
    const std::byte* from = image;  // if it wants all of it, or nothing: then its list may be empty
    if (round.send[process] != 0 && static_cast<std::uint64_t>(round.send[process]) != round.image_bytes) {
      from = copies;
      copy_requested(round, word, copies, image);
      copies += round.send[process];
    }
    word += static_cast<std::size_t>(round.requested_bytes[process]) / kWord;
    send_offsets_[process] = static_cast<std::int32_t>(from - sent_.get());
    if (process == group_.rank) continue;
    counts.bytes_sent += static_cast<std::uint64_t>(round.send[process]);
    counts.bytes_received += static_cast<std::uint64_t>(round.receive[process]);
  }
  set_offsets(round.receive, received_offsets_);
  alltoallv(group_, sent_.get(), round.send, send_offsets_, received_of(number), round.receive, received_offsets_);
  const std::lock_guard lock(mutex_);
  listener_.count(counts);
}

// Copies what was received to the destinations: the engine reads it like a file in memory. Several ranges of a block are
// copied to their places in it first, so that the requests are cut once for each block.
void GroupRead::deliver(const Round& round, std::uint64_t number) {
  const std::byte* const received = received_of(number);
  const ReadListener listener = listener_for(false);
  const std::unique_ptr<io::Source> sources[] = {io::memory_source(received, received_room_, nullptr, nullptr),
                                                 io::memory_source(unpacked_.get(), image_room_, nullptr, nullptr)};
  Readers readers;
  for (const auto& source : sources) readers.push_back(source->open_reader(io::Cache::automatic));
  Requests requests;
  std::forward_list<format::Slice> slices;
  const auto cut = [&](const Range& range, std::size_t source, std::uint64_t begin) {
    std::size_t part = requests.size();
    blocks_->cut_requests(range, requests, slices);
    for (; part < requests.size(); ++part) {
      requests[part].source = source;
      requests[part].begin += begin - range.begin;
    }
  };
  const auto flush = [&] {
    sort_by_position(requests);
    const OtherDestinations others = split_overlaps(requests);
    read_all(requests, readers, options_, listener);
    requests.clear();
    slices.clear();
  };
  std::size_t word = 0;
  std::uint64_t at = 0;
  for (std::size_t reader = 0; reader < size_; ++reader) {
    std::uint64_t unpacked = 0;
    for (std::size_t i = round.first_of(reader, size_); i < round.blocks.size(); i += size_) {
      const Range block = blocks_->range_of(round.blocks[i]);
      const std::uint32_t count = round.wanted[word++];
      for (std::uint32_t k = 0; k < count; ++k) {
        const std::uint64_t offset = round.wanted[word++];
        const std::uint64_t bytes = round.wanted[word++];
        if (count == 1) {
          cut({block.begin + offset, block.begin + offset + bytes}, 0, at);
        } else {
          std::memcpy(unpacked_.get() + unpacked + offset, received + at, static_cast<std::size_t>(bytes));
        }
        at += bytes;
      }
      if (count > 1) {
        cut(block, 1, unpacked);
        unpacked += blocks_->block_bytes();
      }
      if (requests.size() >= kMostRequested) flush();
    }
    if (unpacked != 0) flush();
  }
  flush();
}

void GroupRead::run(const std::function<Requests()>& make_requests) {
  greet(make_requests);
  find_blocks();
  if (count_ == 0) return;                                   // no process wants anything
  if (blocks_->shared() != 0) guarded([&] { allocate(); });  // other blocks need no buffers
  agree(0, false);
  for (std::uint64_t number = 0; number < steps_; ++number) step(number);
}

}  // namespace

void read_in_group(const Group& group, const Checkpoint& file, const ReadOptions& options, const ReadListener& listener,
                   const std::function<std::vector<ReadRequest>()>& make_requests) {
  GroupRead(group, file, options, listener).run(make_requests);
}

}  // namespace st::core
