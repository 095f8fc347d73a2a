// Casts between the opaque handles of the C API and the objects of the core.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/checkpoint.hpp"
#include "core/device.hpp"
#include "core/plan.hpp"
#include "core/writer.hpp"
#include "safetensors/safetensors.h"

namespace st::capi {

inline st_file* handle(core::CheckpointPtr file) { return reinterpret_cast<st_file*>(file.release()); }
inline const core::Checkpoint& file_of(const st_file* file) { return *reinterpret_cast<const core::Checkpoint*>(file); }
inline const st_tensor* handle(const core::Tensor* tensor) { return reinterpret_cast<const st_tensor*>(tensor); }
inline const core::Tensor& tensor_of(const st_tensor* tensor) { return *reinterpret_cast<const core::Tensor*>(tensor); }
inline st_writer* handle(core::Writer* writer) { return reinterpret_cast<st_writer*>(writer); }
inline core::Writer& writer_of(st_writer* writer) { return *reinterpret_cast<core::Writer*>(writer); }
inline const core::Writer& writer_of(const st_writer* writer) { return *reinterpret_cast<const core::Writer*>(writer); }
inline core::Plan& plan_of(st_plan* plan) { return *reinterpret_cast<core::Plan*>(plan); }
inline const core::Plan& plan_of(const st_plan* plan) { return *reinterpret_cast<const core::Plan*>(plan); }

// An st_device is one reference to the device. Plans hold others.
using DevicePtr = std::shared_ptr<core::Device>;
inline st_device* handle(DevicePtr* device) { return reinterpret_cast<st_device*>(device); }
inline DevicePtr* reference_of(st_device* device) { return reinterpret_cast<DevicePtr*>(device); }
inline const DevicePtr& device_of(const st_device* device) { return *reinterpret_cast<const DevicePtr*>(device); }

}  // namespace st::capi
