// NVIDIA's GPUs, through the CUDA driver (not the runtime, which a program would have to bring along).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/gpu.hpp"

namespace st::device {

// Throws Status::unsupported, range or device: see st_device_open_cuda.
OwnedTable open_cuda(const DriverOptions& options);

}  // namespace st::device
