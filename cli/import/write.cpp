// SPDX-License-Identifier: Apache-2.0
#include "write.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include <xxhash.h>

#include "base/dtype.hpp"
#include "dry_run.hpp"
#include "error.hpp"
#include "progress.hpp"
#include "storage.hpp"
#include "system.hpp"

namespace cli::importer {
namespace {

constexpr std::size_t kWrittenBlock = std::size_t{2} << 20;

struct Output {
  const Tensor* tensor = nullptr;
  std::size_t index = 0;  // in the writer
  std::vector<std::uint64_t> shape;
  XXH128_hash_t hash{};
};

std::vector<std::uint64_t> written_shape(const Tensor& tensor) {
  std::vector<std::uint64_t> shape = tensor.shape;
  if (tensor.dtype == ST_F4) shape.back() *= 2;  // torch counts pairs
  return shape;
}

// Returns the tensors in the reference's order, in which a stream needs their bytes.
std::vector<Output> in_order(const Checkpoint& checkpoint) {
  std::vector<Output> outputs;
  for (const Tensor& tensor : checkpoint.tensors) outputs.push_back({&tensor, 0, written_shape(tensor), {}});
  const auto order = [](const Output& output) {
    return st::info(static_cast<st::Dtype>(output.tensor->dtype)).write_order;
  };
  std::sort(outputs.begin(), outputs.end(), [&](const Output& a, const Output& b) {
    return order(a) != order(b) ? order(a) > order(b) : a.tensor->name < b.tensor->name;
  });
  return outputs;
}

// ---- copying --------------------------------------------------------------------------------------------------------------

// Writes the bytes of one tensor in sequence, and hashes them.
class TensorSink {
 public:
  TensorSink(const safetensors::Writer& writer, Output& output) : writer_(writer), output_(output) {
    if (!state_ || XXH3_128bits_reset(state_.get()) != XXH_OK) throw std::bad_alloc();
  }

  void add(const char* bytes, std::size_t n) {
    writer_.put(output_.index, at_, bytes, n);
    XXH3_128bits_update(state_.get(), bytes, n);
    at_ += n;
  }

  // Adds the part of the tensor that is among n bytes at offset `begin` of the storage.
  void add_from(std::uint64_t begin, const char* bytes, std::size_t n) {
    const Tensor& tensor = *output_.tensor;
    const std::uint64_t from = std::max(begin, tensor.begin);
    const std::uint64_t to = std::min(begin + n, tensor.end);
    if (from < to) add(bytes + (from - begin), static_cast<std::size_t>(to - from));
  }

  void finish() { output_.hash = XXH3_128bits_digest(state_.get()); }

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  const safetensors::Writer& writer_;
  Output& output_;
  std::unique_ptr<XXH3_state_t, FreeState> state_{XXH3_createState()};
  std::uint64_t at_ = 0;
};

class Copier {
 public:
  Copier(const Checkpoint& checkpoint, const safetensors::Writer& writer, std::uint64_t total)
      : checkpoint_(checkpoint),
        writer_(writer),
        total_(total),
        views_(checkpoint.storages.size()),
        block_(kWrittenBlock) {
    for (const Tensor& tensor : checkpoint.tensors) ++views_[tensor.storage];
  }

  // Writes these tensors, all of which are views of the storage.
  void copy(std::size_t storage, const std::vector<Output*>& outputs);

 private:
  const VerifiedStorage& source_of(std::size_t storage, const std::vector<Output*>& outputs);
  void stream(const VerifiedStorage& source, const std::vector<TensorSink*>& sinks, std::uint64_t begin,
              std::uint64_t end);

  const Checkpoint& checkpoint_;
  const safetensors::Writer& writer_;
  Progress progress_{"convert"};
  std::uint64_t done_ = 0;
  std::uint64_t total_;
  std::vector<std::size_t> views_;  // by storage: number of views not written yet
  std::map<std::size_t, VerifiedStorage> sources_;
  std::vector<char> block_;
};

// Verifies and unpacks each storage only once, even if its views are written one by one.
const VerifiedStorage& Copier::source_of(std::size_t number, const std::vector<Output*>& outputs) {
  const auto [place, is_new] = sources_.try_emplace(number);
  if (!is_new) return place->second;
  const Storage& storage = checkpoint_.storages[number];
  const bool is_last = outputs.size() == views_[number];
  const bool is_mapped =
      !std::all_of(outputs.begin(), outputs.end(), [](const Output* output) { return is_contiguous(*output->tensor); });
  const bool once = is_last && !(storage.deflated && is_mapped);
  place->second = once ? VerifiedStorage{checkpoint_.input.get(), storage, nullptr}
                       : verified(*checkpoint_.input, storage, stop_if_interrupted);
  return place->second;
}

void Copier::copy(std::size_t number, const std::vector<Output*>& outputs) {
  const VerifiedStorage& source = source_of(number, outputs);
  std::vector<std::unique_ptr<TensorSink>> sinks;
  std::vector<TensorSink*> streamed;
  std::uint64_t begin = UINT64_MAX;
  std::uint64_t end = 0;
  for (Output* output : outputs) {
    sinks.push_back(std::make_unique<TensorSink>(writer_, *output));
    if (!is_contiguous(*output->tensor)) continue;
    streamed.push_back(sinks.back().get());
    begin = std::min(begin, output->tensor->begin);
    end = std::max(end, output->tensor->end);
  }
  stream(source, streamed, std::min(begin, end), end);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& tensor = *outputs[i]->tensor;
    if (!is_contiguous(tensor)) {
      gather(*source.input, source.storage, tensor, [&](const char* bytes, std::size_t n) { sinks[i]->add(bytes, n); });
    }
    sinks[i]->finish();
    done_ += tensor.bytes;
    progress_.show(done_, total_);
  }
  views_[number] -= outputs.size();
  if (views_[number] == 0) sources_.erase(number);
}

void Copier::stream(const VerifiedStorage& source, const std::vector<TensorSink*>& sinks, std::uint64_t begin,
                    std::uint64_t end) {
  StorageReader reader(*source.input, source.storage, begin, end);
  for (;;) {
    const std::uint64_t at = reader.position();
    const std::size_t n = reader.read(block_.data(), block_.size());
    if (n == 0) return;
    for (TensorSink* sink : sinks) sink->add_from(at, block_.data(), n);
  }
}

// ---- reading back -----------------------------------------------------------------------------------------------------------

[[noreturn]] void fail_verification(const std::string& what) {
  throw ImportError{kUnreadable,
                    what +
                        " differs from the written data: another process replaced the file, or the disk or "
                        "the memory is damaged"};
}

XXH128_hash_t hash_of(const Input& file, std::uint64_t offset, std::uint64_t bytes, std::vector<char>& block,
                      XXH3_state_t& state) {
  XXH3_128bits_reset(&state);
  while (bytes > 0) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, block.size()));
    stop_if_interrupted();
    file.read(offset, block.data(), n);
    XXH3_128bits_update(&state, block.data(), n);
    offset += n;
    bytes -= n;
  }
  return XXH3_128bits_digest(&state);
}

void verify(const std::string& path, const std::vector<Output>& outputs) {
  const safetensors::SafeOpen written(path);
  const Input file(path);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  if (!state) throw std::bad_alloc();
  std::vector<char> block(kWrittenBlock);
  if (written.size() != outputs.size()) fail_verification("the list of tensors");
  for (const Output& output : outputs) {
    const safetensors::Tensor tensor = written.get_tensor(output.tensor->name);
    const bool same_shape =
        std::equal(tensor.shape.begin(), tensor.shape.end(), output.shape.begin(), output.shape.end());
    if (static_cast<st_dtype>(tensor.dtype) != output.tensor->dtype || !same_shape)
      fail_verification("a dtype or a shape");
    const XXH128_hash_t hash = hash_of(file, tensor.offset(), tensor.nbytes(), block, *state);
    if (XXH128_isEqual(hash, output.hash) == 0) fail_verification("tensor '" + output.tensor->name + "'");
  }
}

// If the file differs, does not remove it, because another process may have replaced it.
void read_back(const std::string& path, const std::vector<Output>& outputs) {
  try {
    verify(path, outputs);
  } catch (const ImportError& error) {
    throw Failure{kUnreadable, failure_in(path, error).line};
  } catch (const safetensors::Error& error) {
    throw Failure{kUnreadable, path + ": cannot be read back: " + error.what()};
  }
}

// Groups the outputs by storage, in the order of the input.
std::map<std::size_t, std::vector<Output*>> by_storage(std::vector<Output>& outputs) {
  std::map<std::size_t, std::vector<Output*>> storages;
  for (Output& output : outputs) storages[output.tensor->storage].push_back(&output);
  return storages;
}

safetensors::Dtype dtype_of(const Output& output) { return static_cast<safetensors::Dtype>(output.tensor->dtype); }

void add_all(safetensors::Writer& writer, const Checkpoint& checkpoint, std::vector<Output>& outputs) {
  writer.set_metadata(checkpoint.metadata);
  for (Output& output : outputs) output.index = writer.add(output.tensor->name, dtype_of(output), output.shape);
}

}  // namespace

void print_checkpoint(const Checkpoint& checkpoint, const std::string& into, const st_write_options& options) {
  std::vector<Output> outputs = in_order(checkpoint);
  safetensors::Writer writer;
  add_all(writer, checkpoint, outputs);
  begin_dry_run(writer, options);
  PlannedFile file(into);
  for (const Output& output : outputs) {
    file.add(output.tensor->name, dtype_of(output), output.shape, output.tensor->bytes);
  }
  file.print(checkpoint.metadata);
}

void write_checkpoint(const Checkpoint& checkpoint, const std::string& into, st_write_options options,
                      const std::function<void()>& published) {
  std::vector<Output> outputs = in_order(checkpoint);
  const bool stream = is_stream(into);
  if (stream) options.flags |= ST_WRITE_KEEP_ORDER;
  std::optional<InterruptGuard> guard;  // otherwise a signal could leave a named temporary file
  if (!stream) guard.emplace();
  safetensors::Writer writer;
  add_all(writer, checkpoint, outputs);
  writer.begin(into, options);
  const std::uint64_t total =
      std::accumulate(checkpoint.tensors.begin(), checkpoint.tensors.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const Tensor& tensor) { return sum + tensor.bytes; });
  Copier copier(checkpoint, writer, total);
  if (stream) {
    for (Output& output : outputs) copier.copy(output.tensor->storage, {&output});
  } else {
    for (const auto& [storage, views] : by_storage(outputs)) copier.copy(storage, views);
  }
  checkpoint.input->require_unchanged();
  writer.finish();
  published();
  if (!stream) read_back(into, outputs);
}

}  // namespace cli::importer
