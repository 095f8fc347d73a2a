// SPDX-License-Identifier: Apache-2.0
#include "format/containers.hpp"

#include <algorithm>
#include <array>

#include "format/bintensors/container.hpp"
#include "format/safetensors/container.hpp"

namespace st::format {

namespace {

constexpr std::array kContainers{&safetensors::kContainer, &bintensors::kContainer, &bintensors::kOldContainer};

}  // namespace

const Container* container_of(Format format) {
  const auto found =
      std::find_if(kContainers.begin(), kContainers.end(), [format](auto* each) { return each->format == format; });
  return found == kContainers.end() ? nullptr : *found;
}

const Container* recognize(char first, Rules rules) {
  for (const Container* const container : kContainers) {
    if (container->recognizes(first)) return container;
    if (rules == Rules::reference) return nullptr;
  }
  return nullptr;
}

}  // namespace st::format
