// AMD's GPUs, through the HIP runtime, which is AMD's driver in user space.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/gpu.hpp"

namespace st::device {

// Throws Status::unsupported, range or device: see st_device_open_hip.
OwnedTable open_hip(const DriverOptions& options);

}  // namespace st::device
