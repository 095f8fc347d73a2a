// Writes the bytes of tensors. A regular file accepts them in any order. A stream (FIFO, device, standard output) needs
// them in order, so tensors with known data are written between the puts.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "core/writer.hpp"

namespace st::core {

template <class Body>
void Writer::or_give_up(const Body& body) const {
  try {
    body();
  } catch (const Error& error) {
    give_up(error);
    throw;
  } catch (const std::bad_alloc&) {
    give_up({Status::no_memory, 0, kNowhere, "out of memory"});
    throw;
  } catch (...) {  // thrown by the caller's progress function
    give_up({Status::internal, 0, kNowhere, "an unknown exception"});
    throw;
  }
}

void Writer::give_up(const Error& error) const noexcept {
  const std::lock_guard lock(failure_mutex_);
  try {
    if (!failure_) failure_ = error;
  } catch (const std::bad_alloc&) {
    failure_ = {error.status, error.os_error, error.offset, "writing failed"};  // short enough not to allocate
  }
  state_.store(State::failed, std::memory_order_release);
}

// Calls write(at, n) to write n bytes at `offset` in the file: once, or piece by piece if progress is reported.
template <class Write>
void Writer::in_pieces(std::uint64_t offset, std::uint64_t n, const Write& write) const {
  if (!progress_.wanted()) return write(std::uint64_t{0}, n);
  for (std::uint64_t at = 0; at < n;) {
    const std::uint64_t piece = std::min(n - at, WriteProgress::kPiece - (offset + at) % WriteProgress::kPiece);
    write(at, piece);
    progress_.add(piece);
    at += piece;
  }
}

void Writer::begin(const char* path, const WriteOptions& options) {
  require_state(State::declaring, "begin");
  order_ = data_order(options);
  const std::string header = lay_out(options);
  written_.reset(tensors_.size());
  small_.expect(file_size_);
  progress_.start(options.callback, header.size(), file_size_);
  file_ = io::AtomicFile::create(path, options.create);
  state_ = State::begun;
  or_give_up([&] {
    file_.set_size(file_size_);
    const bool copies =
        std::any_of(tensors_.begin(), tensors_.end(), [](const Declared& tensor) { return tensor.source != nullptr; });
    if (!copies) file_.reserve(file_size_);
    file_.write_at(0, header.data(), header.size());
  });
}

void Writer::put(std::size_t number, std::uint64_t at, const void* data, std::size_t n) const {
  require_state(State::begun, "put");
  if (number >= tensors_.size())
    fail(Status::range, "no tensor has index {}; the writer has {} tensors", number, tensors_.size());
  const Declared& tensor = tensors_[number];
  if (at > tensor.bytes || n > tensor.bytes - at) {
    fail(Status::range, "tensor {}: {} bytes at {} exceed its {} bytes", in_quotes(tensor.text), n, at, tensor.bytes);
  }
  if (n == 0) return;
  if (tensor.given)
    fail(Status::state, "tensor {}: its data was already passed when it was added", in_quotes(tensor.text));
  or_give_up([&] {
    const std::uint64_t offset = tensor.begin + at;
    if (file_.in_order()) return put_in_order(number, offset, data, n);
    claim(number, {offset, offset + n});
    in_pieces(offset, n, [&](std::uint64_t from, std::uint64_t some) {
      small_.add(offset + from, static_cast<const std::byte*>(data) + from, static_cast<std::size_t>(some));
    });
  });
}

void Writer::claim(std::size_t number, ByteRange range) const {
  const Declared& tensor = tensors_[number];
  const bool whole = range.end - range.begin == tensor.bytes;
  const auto twice = whole ? written_.claim_whole(number, range) : written_.claim(number, range);
  if (!twice) return;
  fail(Status::state, "tensor {}: bytes {}..{} were put twice", in_quotes(tensor.text), twice->begin - tensor.begin,
       twice->end - tensor.begin);
}

void Writer::put_in_order(std::size_t number, std::uint64_t offset, const void* data, std::size_t n) const {
  const std::lock_guard lock(stream_mutex_);
  claim(number, {offset, offset + n});
  write_given(offset);
  in_pieces(offset, n, [&](std::uint64_t from, std::uint64_t some) {
    file_.write_at(offset + from, static_cast<const std::byte*>(data) + from, static_cast<std::size_t>(some));
  });
}

// Writes the tensors with known data that begin before `stop` and are not yet written.
void Writer::write_given(std::uint64_t stop) const {
  Gathering small(file_);
  for (; next_given_ < order_.size() && tensors_[order_[next_given_]].begin < stop; ++next_given_) {
    const Declared& tensor = tensors_[order_[next_given_]];
    if (tensor.bytes == 0 || !tensor.given) continue;
    if (tensor.source == nullptr) {
      const auto* const data = static_cast<const std::byte*>(tensor.data);
      in_pieces(tensor.begin, tensor.bytes, [&](std::uint64_t from, std::uint64_t some) {
        small.add(tensor.begin + from, data + from, static_cast<std::size_t>(some));
      });
      continue;
    }
    small.flush();
    const Shard& shard = shard_of(*tensor.source);
    const std::uint64_t offset = shard.offset_of(*tensor.source);
    in_pieces(tensor.begin, tensor.bytes, [&](std::uint64_t from, std::uint64_t some) {
      file_.copy_at(tensor.begin + from, *shard.source, offset + from, some);
    });
  }
  small.flush();
}

void Writer::require_complete() const {
  const Declared* first = nullptr;
  std::uint64_t first_missing = 0;
  std::size_t others = 0;
  for (const std::uint32_t number : order_) {
    const Declared& tensor = tensors_[number];
    const std::uint64_t missing = tensor.given ? 0 : written_.missing(number, tensor.range());
    if (missing == 0) continue;
    if (first != nullptr) {
      ++others;
      continue;
    }
    first = &tensor;
    first_missing = missing;
  }
  if (first == nullptr) return;
  const std::string more = others == 0 ? "" : formatted("; other incomplete tensors: {}", others);
  fail(Status::state, "tensor {}: {} of its {} bytes were never put{}", in_quotes(first->text), first_missing,
       first->bytes, more);
}

// Otherwise the new file could contain bytes of two models, with the header of the first.
void Writer::require_sources_unchanged() const {
  std::set<const Shard*> checked;
  for (const std::uint32_t number : order_) {
    const Tensor* const source = tensors_[number].source;
    if (source == nullptr || !checked.insert(&shard_of(*source)).second) continue;
    const Shard& shard = shard_of(*source);
    const std::string change = change_of(shard);
    if (!change.empty()) fail(Status::read, "tensor {}: {}", in_quotes(tensors_[number].text), change);
  }
}

void Writer::finish() {
  require_state(State::begun, "finish");
  require_complete();
  or_give_up([&] {
    small_.flush();
    write_given(UINT64_MAX);
    file_.commit([&] { require_sources_unchanged(); });
  });
  state_ = State::finished;
  progress_.finish();
}

}  // namespace st::core
