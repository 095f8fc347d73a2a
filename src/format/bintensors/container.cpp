// SPDX-License-Identifier: Apache-2.0
#include "format/bintensors/container.hpp"

#include "format/bintensors/codes.hpp"
#include "format/bintensors/read.hpp"
#include "format/bintensors/serialize.hpp"

namespace st::format::bintensors {

namespace {

// The first byte says whether there is metadata.
bool recognizes(char first) { return first == '\0' || first == '\1'; }

bool never(char) { return false; }

unsigned dtype_rank(Dtype dtype) { return code_of(dtype); }

}  // namespace

const Container kContainer{.format = Format::bintensors,
                           .recognizes = recognizes,
                           .read = read,
                           .restore = restore,
                           .check = check,
                           .dtype_rank = dtype_rank,
                           .append = append_header,
                           .splice_metadata = nullptr};

const Container kOldContainer{.format = Format::bintensors_old,
                              .recognizes = never,
                              .read = read,
                              .restore = restore,
                              .check = nullptr,
                              .dtype_rank = nullptr,
                              .append = nullptr,
                              .splice_metadata = nullptr};

}  // namespace st::format::bintensors
