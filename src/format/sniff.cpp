// SPDX-License-Identifier: Apache-2.0
#include "format/sniff.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "format/length_prefix.hpp"

namespace st::format {

namespace {

using namespace std::string_view_literals;

struct Kind {
  std::size_t at;
  std::string_view bytes;
  std::string_view what;
};

constexpr std::array kKinds{
    Kind{0, "version https://git-lfs"sv, "a git-lfs pointer, not the model itself: fetch it with 'git lfs pull'"},
    Kind{0, "PK\x03\x04"sv, "a zip archive, as PyTorch's .pt and .bin and numpy's .npz are: convert it to safetensors"},
    Kind{0, "PK\x05\x06"sv, "an empty zip archive"},
    Kind{0, "GGUF"sv, "a GGUF file, the format of llama.cpp"},
    Kind{0, "lmgg"sv, "a GGML file"},
    Kind{0, "tjgg"sv, "a GGML file"},
    Kind{0, "\x93NUMPY"sv, "a numpy .npy array"},
    Kind{0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras and older TensorFlow write"},
    Kind{0, "\x1f\x8b"sv, "gzip-compressed: unpack it first"},
    Kind{0, "\x28\xb5\x2f\xfd"sv, "zstd-compressed: unpack it first"},
    Kind{0,
         "\xfd"
         "7zXZ"sv,
         "xz-compressed: unpack it first"},
    Kind{0, "BZh"sv, "bzip2-compressed: unpack it first"},
    Kind{4, "TFL3"sv, "a TensorFlow Lite model"},
    Kind{0,
         "\x7f"
         "ELF"sv,
         "an executable or library (ELF)"},
};

constexpr std::array kHtml{"<!doctype"sv, "<html"sv, "<head"sv, "<?xml"sv};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool starts_with_lower(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) { return a == lower(b); });
}

bool is_html(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return std::any_of(kHtml.begin(), kHtml.end(), [text](auto word) { return starts_with_lower(text, word); });
}

// Protocols 2 to 5 begin with the PROTO opcode and the protocol, then a frame, a tuple, a dictionary or a long.
bool is_pickle(std::string_view text) {
  return text.size() >= 3 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5 &&
         "\x95}](c\x8aX"sv.find(text[2]) != text.npos;
}

}  // namespace

void refuse_other_kinds(std::span<const char> prefix, std::uint64_t file_size) {
  const std::string_view text(prefix.data(), prefix.size());
  for (const Kind& kind : kKinds) {
    if (text.size() >= kind.at && starts_with(text.substr(kind.at), kind.bytes)) {
      fail_at(Status::format, 0, "not a safetensors file: it is {}", kind.what);
    }
  }
  if (is_pickle(text))
    fail_at(Status::format, 0, "not a safetensors file: it is a Python pickle: convert it to safetensors");
  if (is_html(text)) {
    fail_at(Status::format, 0, "not a safetensors file: it is an HTML or XML page, such as a download's error message");
  }
  const bool may_be_length = text.size() >= kLengthBytes && text.substr(4, 4) == "\0\0\0\0"sv;  // below 4 GiB
  if (starts_with(text, "{") && !may_be_length) {
    fail_at(Status::format, 0, "not a safetensors file: it is JSON text without the length field");
  }
  const bool zeros = std::all_of(text.begin(), text.end(), [](char c) { return c == '\0'; });
  if (zeros && text.size() > 8) {
    fail_at(Status::format, 0, "not a safetensors file: it begins with zeros, as an unfinished download of {} does",
            human_bytes(file_size));
  }
}

}  // namespace st::format
