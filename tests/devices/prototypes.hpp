// Compares the prototypes of src/device/calls.def with a driver's header: the same number of parameters, of the same
// sizes, and pointers in the same places. Handles are pointers in both, and statuses are enumerations there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

namespace st::device {

// An address on the device is an integer in CUDA and a pointer in HIP.
template <class Ours, class Theirs>
inline constexpr bool kSameType = sizeof(Ours) == sizeof(Theirs) &&
                                  (std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> ||
                                   std::is_same_v<Ours, DeviceAddress>);

template <class Ours, class Theirs>
inline constexpr bool kSamePrototype = false;
template <class Result, class... Ours, class Theirs, class... Parameters>
inline constexpr bool kSamePrototype<Result (*)(Ours...), Theirs (*)(Parameters...)> = [] {
  if constexpr (sizeof...(Ours) == sizeof...(Parameters)) {
    return kSameType<Result, Theirs> && (kSameType<Ours, Parameters> && ...);
  } else {
    return false;
  }
}();

}  // namespace st::device
