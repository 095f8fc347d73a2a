// SPDX-License-Identifier: Apache-2.0
#include "slice_text.hpp"

#include <charconv>

#include "failure.hpp"
#include "formatted.hpp"
#include "text.hpp"

namespace cli {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(at); end != text.npos; end = text.find(at)) {
    parts.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  parts.push_back(trimmed(text));
  return parts;
}

[[noreturn]] void fail(std::string_view part, std::string_view what) {
  throw Failure{kUsage, formatted("slice '{}': {}", printable(part), what)};
}

std::int64_t integer(std::string_view text, std::string_view part) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(part, "neither N, nor BEGIN:END, nor BEGIN:END:STEP");
  return value;
}

void add_index(SliceText& slice, std::string_view part, std::uint64_t length) {
  std::int64_t at = integer(part, part);
  const bool outside = at < 0 ? 0 - static_cast<std::uint64_t>(at) > length : static_cast<std::uint64_t>(at) >= length;
  if (outside) fail(part, formatted("outside of dimension {}, which has {}", slice.ranges.size(), length));
  if (at < 0) at += static_cast<std::int64_t>(length);
  slice.ranges.push_back({at, at + 1});
  slice.dropped.push_back(true);
}

void add_range(SliceText& slice, std::string_view part) {
  const auto fields = split(part, ':');
  if (fields.size() > 3) fail(part, "too many colons");
  safetensors::Range range;
  if (!fields[0].empty()) range.begin = integer(fields[0], part);
  if (!fields[1].empty()) range.end = integer(fields[1], part);
  if (fields.size() == 3 && !fields[2].empty()) range.step = integer(fields[2], part);
  if (range.step == 0) fail(part, "the step is 0");
  slice.ranges.push_back(range);
  slice.dropped.push_back(false);
}

}  // namespace

SliceText parse_slice(std::string_view text, safetensors::View<std::uint64_t> shape) {
  text = trimmed(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = trimmed(text.substr(1, text.size() - 2));
  auto parts = split(text, ',');
  if (text.empty()) parts.clear();
  std::size_t ellipses = 0;
  for (const std::string_view part : parts) ellipses += part == "..." ? 1 : 0;
  if (ellipses > 1) fail(text, "more than one '...'");
  if (parts.size() - ellipses > shape.size()) {
    fail(text, formatted("{} parts for {} dimensions", parts.size() - ellipses, shape.size()));
  }
  if (ellipses == 0) parts.push_back("...");  // dimensions without a part are whole
  const std::size_t rest = shape.size() - (parts.size() - 1);
  SliceText slice;
  for (const std::string_view part : parts) {
    if (part == "...") {
      for (std::size_t i = 0; i < rest; ++i) add_range(slice, ":");
    } else if (part.find(':') == part.npos) {
      add_index(slice, part, shape[slice.ranges.size()]);
    } else {
      add_range(slice, part);
    }
  }
  return slice;
}

}  // namespace cli
