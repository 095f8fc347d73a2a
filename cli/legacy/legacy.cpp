// SPDX-License-Identifier: Apache-2.0
#include "legacy.hpp"

#include <filesystem>
#include <utility>

#include "refusal.hpp"
#include "shared.hpp"
#include "text.hpp"
#include "write.hpp"

namespace cli::legacy {
namespace {

void say(const std::string& path, const std::string& what) { complain({kSuccess, path + ": " + what}); }

// What a user would miss.
void say_what_is_missing(const std::string& path, const Checkpoint& checkpoint, const Dropped& dropped) {
  if (checkpoint.left_out > 0) {
    say(path, formatted("left out what is no tensor: {}, '{}' first", counted(checkpoint.left_out, "value"),
                        checkpoint.first_left_out));
  }
  if (dropped.views > 0) {
    say(path, formatted("left out parts of others and what has another shape: {}, '{}' first; "
                        "--keep-shared writes them, too",
                        counted(dropped.views, "tensor"), dropped.first_view));
  }
}

}  // namespace

Written convert_file(const Conversion& conversion) {
  try {
    Checkpoint checkpoint = read_checkpoint(std::make_unique<const Input>(conversion.from),
                                            std::filesystem::path(conversion.from).stem().string());
    check_names(checkpoint);
    const Dropped dropped = conversion.keep_shared ? Dropped{} : drop_shared(checkpoint);
    check_growth(checkpoint);
    write_checkpoint(checkpoint, conversion.into, conversion.write);
    say_what_is_missing(conversion.from, checkpoint, dropped);
    Written written;
    written.dropped = checkpoint.metadata;
    for (const Tensor& tensor : checkpoint.tensors) {
      written.names.push_back(tensor.name);
      written.bytes += tensor.bytes;
    }
    return written;
  } catch (const Refusal& refusal) {
    throw failure_in(conversion.from, refusal);
  } catch (const safetensors::Error& error) {
    // Names and metadata that the library does not write came from the file that is read.
    throw cli::failure_in(error.os_error() == 0 ? conversion.from : conversion.into, error);
  }
}

}  // namespace cli::legacy
