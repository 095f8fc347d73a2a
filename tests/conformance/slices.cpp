// conformance/slices: the reference's results for slices, and numpy's where the reference is wrong.
//
// docs/format.md 1.6 lists the defects. Here each is a rule, not a list of rows: a range whose end is not after its
// begin is empty, wherever it is, and positions outside are clamped.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>

#include "ways.hpp"

namespace {

struct Parsed {
  std::vector<std::int64_t> begin, end, step;
  std::vector<bool> dropped;  // an index, not a range
  bool index_outside = false;
  bool too_many = false;
};

// `N` an index, `a:b` a range, `a:=b` end included, `(a:` begin excluded, `a:b:s` with a step.
void add(Parsed& parsed, const std::string& text, std::uint64_t length) {
  const auto number = [](const std::string& digits, std::int64_t open) {
    return digits.empty() ? open : static_cast<std::int64_t>(std::min<std::uint64_t>(std::stoull(digits), INT64_MAX));
  };
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    const std::int64_t at = number(text, 0);
    parsed.index_outside |= static_cast<std::uint64_t>(at) >= length;
    parsed.begin.push_back(at);
    parsed.end.push_back(at + 1);
    parsed.step.push_back(1);
    parsed.dropped.push_back(true);
    return;
  }
  const bool excluded = text.front() == '(';
  const std::size_t second = text.find(':', colon + 1);
  std::string end = text.substr(colon + 1, second == std::string::npos ? second : second - colon - 1);
  const bool included = !end.empty() && end.front() == '=';
  if (included) end.erase(0, 1);
  const std::int64_t begin = number(text.substr(excluded ? 1 : 0, colon - (excluded ? 1 : 0)), 0);
  parsed.begin.push_back(excluded && begin < INT64_MAX ? begin + 1 : begin);
  parsed.end.push_back(number(end, INT64_MAX) + (included ? 1 : 0));
  parsed.step.push_back(second == std::string::npos ? 1 : number(text.substr(second + 1), 1));
  parsed.dropped.push_back(false);
}

Parsed parse(const std::string& spec, const st_tensor* tensor) {
  Parsed parsed;
  const std::size_t rank = st_tensor_rank(tensor);
  std::istringstream parts(spec);
  for (std::string part; std::getline(parts, part, ',');) {
    if (parsed.begin.size() == rank) {
      parsed.too_many = true;
      return parsed;
    }
    add(parsed, part, st_tensor_shape(tensor)[parsed.begin.size()]);
  }
  while (parsed.begin.size() < rank) add(parsed, ":", 0);
  return parsed;
}

std::string fnv(const std::string& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

// Our result in the notation of the table.
std::string answer(const st_tensor* tensor, const std::string& spec) {
  const Parsed parsed = parse(spec, tensor);
  if (parsed.too_many) return "err TooManySlices";
  if (parsed.index_outside) return "err SliceOutOfRange";
  st_error error = ST_INIT(st_error);
  std::vector<std::uint64_t> shape(parsed.begin.size());
  std::uint64_t bytes = 0;
  const void* view = nullptr;
  const st_status status = st_tensor_slice(tensor, parsed.begin.data(), parsed.end.data(), parsed.step.data(),
                                           shape.data(), &bytes, &view, &error);
  if (status == ST_ERR_MISALIGNED) return "err MisalignedSlice";
  if (status != ST_OK) return error.message;
  std::string data(static_cast<std::size_t>(bytes), '\0');
  EXPECT_EQ(st_tensor_read_slice(tensor, parsed.begin.data(), parsed.end.data(), parsed.step.data(), data.data(),
                                 data.size(), &error),
            ST_OK)
      << error.message;
  if (view != nullptr) {
    EXPECT_EQ(std::memcmp(view, data.data(), data.size()), 0) << spec;
  }
  std::string text;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (parsed.dropped[d]) continue;
    if (!text.empty()) text += ", ";
    text += std::to_string(shape[d]);
  }
  return "ok newshape=[" + text + "] bytes=" + std::to_string(bytes) + " fnv=" + fnv(data);
}

bool is_empty(const std::string& ours) { return ours.find(" bytes=0 ") != std::string::npos; }

// The reference's result without the parts that only its own interface has: chunks, remaining bytes, the fields of an
// error.
std::string comparable(const std::string& theirs) {
  if (theirs.starts_with("err ")) return theirs.substr(0, theirs.find(' ', 4));
  if (!theirs.starts_with("ok ")) return theirs;
  const std::size_t shape_end = theirs.find(']') + 1;
  const std::size_t bytes = theirs.find(" bytes=");
  return theirs.substr(0, shape_end) + theirs.substr(bytes, theirs.find(" head=") - bytes);
}

enum class Verdict { same, defect, wrong };

Verdict compare(const std::string& ours, const std::string& theirs, const std::string& spec) {
  if (ours == theirs) return Verdict::same;
  const bool outside = theirs == "err SliceOutOfRange" && ours.starts_with("ok ");  // numpy cuts off
  const bool range = spec.find(':') != std::string::npos;
  const bool emptiness = is_empty(ours) && (theirs == "PANIC" || theirs.starts_with("ok "));
  return range && (outside || emptiness) ? Verdict::defect : Verdict::wrong;
}

// numpy's shapes for the rows where the reference is wrong, so our results are not checked against themselves.
struct Known {
  const char* tensor;
  const char* spec;
  const char* shape;
};
constexpr Known kKnown[] = {
    {"x", "2:1", "[0, 4, 5]"},
    {"x", "3:3", "[0, 4, 5]"},
    {"x", "(2:", "[0, 4, 5]"},
    {"x", "0:0,0:1", "[0, 1, 5]"},
    {"x", "1:3,2:2,1:2", "[2, 0, 1]"},
    {"x", "(18446744073709551615:", "[0, 4, 5]"},
    {"x", "0:0:2", "[0, 4, 5]"},
    {"u", ":9", "[8]"},
    {"u", "2:1", "[0]"},
    {"z", ":,:", "[2, 0, 3]"},
    {"z", ":,:,1:2", "[2, 0, 1]"},
};

const Known* known(const std::string& tensor, const std::string& spec) {
  for (const Known& row : kKnown) {
    if (tensor == row.tensor && spec == row.spec) return &row;
  }
  return nullptr;
}

TEST(Slices, AnswerAsTheReferenceOrWhereItIsWrongAsNumpy) {
  const std::string folder = std::string(ST_CONFORMANCE_DIR) + "/slices";
  st_error error = ST_INIT(st_error);
  st_file* file = nullptr;
  ASSERT_EQ(st_open((folder + "/slices.safetensors").c_str(), nullptr, &file, &error), ST_OK) << error.message;
  int rows = 0, same = 0, defects = 0;
  for (const auto& row : conformance::rows_of(folder + "/slices.tsv")) {
    ASSERT_EQ(row.size(), 4U);
    SCOPED_TRACE(row[0] + "[" + row[1] + "]");
    const st_tensor* const tensor = st_get_tensor(file, row[0].c_str());
    ASSERT_NE(tensor, nullptr);
    const std::string ours = answer(tensor, row[1]);
    const std::string theirs = comparable(row[2] == "n/a" ? row[3] : row[2]);
    const Known* const numpy = known(row[0], row[1]);
    switch (compare(ours, theirs, row[1])) {
      case Verdict::same:
        EXPECT_EQ(numpy, nullptr) << "the reference is right here";
        ++same;
        break;
      case Verdict::defect:
        ASSERT_NE(numpy, nullptr) << ours << " against " << theirs;
        EXPECT_EQ(ours.substr(0, ours.find(']') + 1), std::string("ok newshape=") + numpy->shape);
        ++defects;
        break;
      case Verdict::wrong: ADD_FAILURE() << ours << " against " << theirs;
    }
    ++rows;
  }
  st_free(file);
  std::printf("%d slices: %d as the reference, %d as numpy where the reference is wrong\n", rows, same, defects);
  EXPECT_EQ(rows, 60);
}

}  // namespace
