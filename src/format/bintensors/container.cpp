// SPDX-License-Identifier: Apache-2.0
#include "format/bintensors/container.hpp"

#include "format/bintensors/codes.hpp"
#include "format/bintensors/read.hpp"
#include "format/bintensors/serialize.hpp"
#include "format/length_prefix.hpp"

namespace st::format::bintensors {

namespace {

// The first byte says whether there is metadata.
bool recognizes(char first) { return first == '\0' || first == '\1'; }

bool never(char) { return false; }

unsigned write_order(Dtype dtype) { return code_of(dtype); }

}  // namespace

const Container kContainer{.format = Format::bintensors,
                           .name = "bintensors",
                           .recognizes = recognizes,
                           .header_extent = extent_by_length,
                           .read = read,
                           .restore = restore,
                           .check = check,
                           .write_order = write_order,
                           .append = append_header,
                           .survey = survey};

const Container kOldContainer{.format = Format::bintensors_old,
                              .name = "bintensors before 0.1",
                              .recognizes = never,
                              .header_extent = extent_by_length,
                              .read = read,
                              .restore = restore};

}  // namespace st::format::bintensors
