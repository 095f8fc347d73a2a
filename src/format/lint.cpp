// SPDX-License-Identifier: Apache-2.0
#include "format/lint.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/header.hpp"

namespace st::format {

namespace {

void note(Findings& findings, Status status, std::uint64_t offset, std::string message,
          const Tensor* tensor = nullptr) {
  Finding finding{{status, 0, offset, std::move(message)}, nullptr, true};
  if (tensor != nullptr) finding.tensor = std::make_shared<const std::string>(tensor->name());
  findings.push_back(std::move(finding));
}

void note_alignment(const Table& table, Findings& findings) {
  constexpr std::uint64_t kUsual = 8;
  if (table.data_begin % kUsual != 0) {
    note(findings, Status::misaligned, table.data_begin,
         formatted("the data begins at byte {}, which is not a multiple of {}", table.data_begin, kUsual));
  }
  const auto is_misaligned = [&](const Tensor& tensor) {
    const std::uint64_t bytes = tensor.dtype() == Dtype::unknown ? 0 : info(tensor.dtype()).bits / 8;
    return bytes > 1 && (table.data_begin + tensor.begin) % bytes != 0;
  };
  const auto count = std::count_if(table.tensors.begin(), table.tensors.end(), is_misaligned);
  if (count == 0) return;
  const Tensor& first = *std::find_if(table.tensors.begin(), table.tensors.end(), is_misaligned);
  const std::uint64_t place = table.data_begin + first.begin;
  const std::string name = in_quotes(first.name());
  note(findings, Status::misaligned, place,
       count == 1
           ? formatted("tensor {} begins at byte {}, which is not a multiple of its element size", name, place)
           : formatted("{} tensors begin at bytes that are not multiples of their element size; the first is {} at "
                       "byte {}",
                       count, name, place),
       &first);
}

bool is_before(const Tensor& a, const Tensor& b) {
  const unsigned first = dtype_order(Format::safetensors, a.dtype());
  const unsigned second = dtype_order(Format::safetensors, b.dtype());
  return std::pair(first, a.name()) < std::pair(second, b.name());
}

// Returns the tensors in the order of their data. Empty tensors at the same place are in the order of the reference's
// writer.
std::vector<const Tensor*> in_order(const Table& table) {
  std::vector<const Tensor*> order;
  order.reserve(table.tensors.size());
  for (const Tensor& tensor : table.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const Tensor* a, const Tensor* b) {
    const auto place = [](const Tensor& tensor) { return std::pair(tensor.begin, tensor.end); };
    return place(*a) != place(*b) ? place(*a) < place(*b) : is_before(*a, *b);
  });
  return order;
}

void note_order(const Table& table, const std::vector<const Tensor*>& order, Findings& findings) {
  const auto out = std::adjacent_find(order.begin(), order.end(),
                                      [](const Tensor* a, const Tensor* b) { return is_before(*b, *a); });
  if (out == order.end()) return;
  const Tensor& first = **(out + 1);
  note(findings, Status::offsets, table.data_begin + first.begin,
       formatted("tensors are not in the order of the reference's writer: {} is the first out of place",
                 in_quotes(first.name())),
       &first);
}

void note_spelling(const Table& table, const std::vector<const Tensor*>& order, std::string_view header,
                   Findings& findings) {
  std::vector<NewTensor> tensors;
  tensors.reserve(order.size());
  for (const Tensor* const tensor : order) {
    tensors.push_back({tensor->name(), tensor->shape(), tensor->begin, tensor->end, tensor->dtype()});
  }
  const std::string usual = serialize({tensors, table.metadata, table.has_metadata});
  const std::string_view expected = std::string_view(usual).substr(kLengthBytes);
  const auto differ = std::mismatch(header.begin(), header.end(), expected.begin(), expected.end()).first;
  if (std::all_of(differ, header.end(), [](char c) { return c == ' '; })) return;  // padding of another length
  const std::uint64_t place = kLengthBytes + static_cast<std::uint64_t>(differ - header.begin());
  note(findings, Status::schema, place,
       formatted("the header is formatted differently from the reference's writer, from byte {} on", place));
}

}  // namespace

void lint(const Table& table, std::string_view header, Findings& findings) {
  note_alignment(table, findings);
  const auto is_unknown = [](const Tensor& tensor) { return tensor.dtype() == Dtype::unknown; };
  if (table.format != Format::safetensors || std::any_of(table.tensors.begin(), table.tensors.end(), is_unknown))
    return;
  const std::vector<const Tensor*> order = in_order(table);
  note_order(table, order, findings);
  note_spelling(table, order, header, findings);
}

}  // namespace st::format
