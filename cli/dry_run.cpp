// SPDX-License-Identifier: Apache-2.0
#include "dry_run.hpp"

#include "output.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kNullDevice = "/dev/null";
constexpr std::size_t kLongestPlanned = 1000;
constexpr std::size_t kLongestPlannedValue = 100;

}  // namespace

void PlannedFile::add(std::string_view name, safetensors::Dtype dtype, safetensors::View<std::uint64_t> shape,
                      std::uint64_t bytes) {
  ++tensors_;
  bytes_ += bytes;
  lines_ += formatted("  {}  {}  {}  {}\n", safetensors::name(dtype), shape_text(shape), human_bytes(bytes),
                      shown(name, kLongestPlanned));
}

void PlannedFile::print(const safetensors::Metadata& metadata) const {
  Output out;
  out.print("{}: {}, {}\n", printable(path_), counted(tensors_, "tensor"), human_bytes(bytes_));
  out.write(lines_);
  for (const auto& [key, value] : metadata) {
    out.print("  metadata  {}: {}\n", shown(key, kLongestPlannedValue), shown(value, kLongestPlannedValue));
  }
  out.flush();
}

void begin_dry_run(safetensors::Writer& writer, st_write_options options) {
  options.flags &= ~std::uint32_t{ST_WRITE_NO_REPLACE};
  if (exists(kNullDevice)) writer.begin(kNullDevice, options);
}

}  // namespace cli
