// The opaque handles are the core's own objects under a C name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/file.hpp"
#include "safetensors/safetensors.h"

namespace st::capi {

inline st_file* handle(core::FilePtr file) { return reinterpret_cast<st_file*>(file.release()); }
inline const core::File& file_of(const st_file* file) { return *reinterpret_cast<const core::File*>(file); }
inline const st_tensor* handle(const Tensor* tensor) { return reinterpret_cast<const st_tensor*>(tensor); }
inline const Tensor& tensor_of(const st_tensor* tensor) { return *reinterpret_cast<const Tensor*>(tensor); }

}  // namespace st::capi
