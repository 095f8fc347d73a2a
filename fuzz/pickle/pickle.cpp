// Any bytes as a pickle of torch: reading it must never fault, and what it makes must hold.
//
// Whatever is accepted is checked again here: every value refers to values that exist, and every tensor lies in its
// storage. Whatever is refused must be explained by one place and one line.
// SPDX-License-Identifier: Apache-2.0
#include "import/pickle.hpp"

#include <memory>
#include <string>

#include "../fuzz.hpp"
#include "import/error.hpp"
#include "import/torch_tensors.hpp"

namespace {

using fuzz::require;
using namespace cli::importer;

__extension__ using Wide = unsigned __int128;

void check_values(const Pickle& pickle, std::size_t size) {
  require(pickle.values.size() <= size, "no value is made without an opcode");
  require(pickle.root < pickle.values.size(), "the root is a value");
  for (const Value& value : pickle.values) {
    require(value.offset < size, "a value lies in the pickle");
    for (const ValueId item : value.items) require(item < pickle.values.size(), "an item is a value");
    require(value.kind != Kind::dict || value.items.size() % 2 == 0, "each key has a value");
    if (value.kind == Kind::call) require(pickle[value.items.at(0)].kind == Kind::tuple, "arguments are a tuple");
  }
}

void check_tensor(const Tensor& tensor, const Storage& storage) {
  require(tensor.dtype != ST_DTYPE_UNKNOWN && tensor.element > 0, "a tensor has a dtype");
  require(tensor.shape.size() == tensor.strides.size(), "each dimension has a stride");
  Wide elements = 1;
  Wide last = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 0) elements = 0;
    if (elements == 0) continue;
    elements *= tensor.shape[i];
    last += Wide{tensor.shape[i] - 1} * tensor.strides[i];
    require(elements >> 64 == 0 && last >> 64 == 0, "a tensor can be counted");
  }
  require(elements * tensor.element == tensor.bytes, "a tensor is as long as its shape says");
  require(tensor.begin <= tensor.end && tensor.end <= storage.bytes, "a tensor lies in its storage");
  if (elements > 0)
    require(tensor.begin + (last + 1) * tensor.element == tensor.end, "a tensor ends with its last element");
}

std::string repaired(std::string file) {
  if (file.size() < 2) return file;
  file[0] = '\x80';
  file[1] = '\x02';
  file.back() = '.';
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const Input input = Input::of_memory(std::string(data, data + size));
  try {
    Cursor cursor(input, 0, input.size());
    Checkpoint checkpoint(std::make_unique<const Input>(Input::of_memory(std::string(data, data + size))));
    const Pickle pickle = read_pickle(cursor, torch_globals(), checkpoint.budget);
    check_values(pickle, size);
    add_tensors(
        pickle, "",
        [&](const StorageName& name) {
          const std::uint64_t bytes = bytes_of(name);
          checkpoint.storages.push_back({std::string(name.key), 0, bytes, bytes, false, {}});
          return checkpoint.storages.size() - 1;
        },
        checkpoint);
    for (const Tensor& tensor : checkpoint.tensors) check_tensor(tensor, checkpoint.storages[tensor.storage]);
  } catch (const ImportError& error) {
    require(error.offset <= size || error.offset == kNoOffset, "an error points into the pickle");
    require(!error.message.empty(), "an error has a message");
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  const std::size_t changed = LLVMFuzzerMutate(data, size, most);
  return seed % 2 == 0 ? changed : fuzz::change(data, changed, most, repaired);
}
