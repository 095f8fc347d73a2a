// SPDX-License-Identifier: Apache-2.0
#include "import.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "error.hpp"
#include "formats.hpp"
#include "text.hpp"
#include "write.hpp"

namespace cli::importer {
namespace {

bool is_regular(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

void warn(const std::string& path, const std::string& what) { complain({kSuccess, path + ": " + what}); }

// Reports what the output does not contain.
void report_left_out(const std::string& path, const Checkpoint& checkpoint, const Dropped& dropped) {
  if (checkpoint.left_out > 0) warn(path, "left out " + words_of_left_out(checkpoint));
  if (checkpoint.elsewhere > 0) {
    warn(path, formatted("left out tensors outside 'state_dict': {} (first: '{}'); --key chooses another dictionary",
                         checkpoint.elsewhere, checkpoint.first_elsewhere));
  }
  if (dropped.views > 0) {
    warn(path, formatted("left out tensors that are parts or reshaped views of others: {} (first: '{}'); "
                         "--keep-shared writes them too",
                         dropped.views, dropped.first_view));
  }
}

}  // namespace

bool is_importable(const std::string& path) {
  try {
    return is_regular(path) && is_checkpoint(Input(path));
  } catch (const ImportError& error) {
    if (error.code == kUnreadable) throw failure_in(path, error);  // it may be a checkpoint
    return false;
  }
}

Imported import_file(const Import& request) {
  try {
    Checkpoint checkpoint = read_checkpoint(std::make_unique<const Input>(request.from),
                                            {std::filesystem::path(request.from).stem().string(), request.key});
    const Dropped dropped = request.keep_shared ? Dropped{} : drop_shared(checkpoint);
    check_growth(checkpoint);
    if (request.dry_run) {
      print_checkpoint(checkpoint, request.into, request.write);
    } else {
      write_checkpoint(checkpoint, request.into, request.write, request.published);
    }
    report_left_out(request.from, checkpoint, dropped);
    Imported written;
    written.dropped = dropped.names;
    written.seen = checkpoint.input->seen();
    for (const Tensor& tensor : checkpoint.tensors) {
      written.names.push_back(tensor.name);
      written.bytes += tensor.bytes;
    }
    return written;
  } catch (const ImportError& error) {
    throw failure_in(request.from, error);
  } catch (const safetensors::Error& error) {
    // If the library rejects names or metadata, the input is at fault.
    throw cli::failure_in(error.os_error() == 0 ? request.from : request.into, error);
  }
}

}  // namespace cli::importer
