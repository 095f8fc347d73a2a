// Devices, and plans that fill their memory.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "core/device.hpp"
#include "core/plan.hpp"
#include "device/gpu.hpp"
#include "guard.hpp"
#include "handles.hpp"
#include "options.hpp"

using namespace st;
using namespace st::capi;

namespace {

static_assert(sizeof(st_device_copy) == sizeof(device::Copy) && offsetof(st_device_copy, dst) == 0 &&
              offsetof(st_device_copy, src) == sizeof(void*) && offsetof(st_device_copy, n) == 2 * sizeof(void*));

st_device_options device_options(const st_device_options* options) {
  const st_device_options given = read_struct(options, "st_device_options");
  refuse_unknown_flags(given.flags, 0, "st_device_options");
  return given;
}

core::DeviceLimits limits_of(const st_device_options& options) {
  return core::device_limits(options.staging_bytes, options.queues);
}

// A type of our own, for the same reason as Row in check.cpp.
struct KeptOps : st_device_ops {};

const st_device_ops& ops_of(void* ctx) { return *static_cast<const KeptOps*>(ctx); }

// Wraps the caller's functions; ctx points to a copy of the caller's struct. `copy` needs a wrapper, because the public
// and the internal struct of a copy are different types.
device::OwnedOps callers_ops(const st_device_ops& given) {
  device::Ops ops;
  ops.ctx = new KeptOps{given};
  ops.host_alloc = [](void* ctx, std::size_t size) { return ops_of(ctx).host_alloc(ops_of(ctx).ctx, size); };
  ops.host_free = [](void* ctx, void* ptr, std::size_t size) { ops_of(ctx).host_free(ops_of(ctx).ctx, ptr, size); };
  ops.copy = [](void* ctx, std::uint32_t queue, const device::Copy* copies, std::size_t n, std::uint64_t* mark) {
    return ops_of(ctx).copy(ops_of(ctx).ctx, queue, reinterpret_cast<const st_device_copy*>(copies), n, mark);
  };
  ops.wait = [](void* ctx, std::uint32_t queue, std::uint64_t mark) {
    return ops_of(ctx).wait(ops_of(ctx).ctx, queue, mark);
  };
  if (given.after != nullptr) {
    ops.after = [](void* ctx, void* stream) { return ops_of(ctx).after(ops_of(ctx).ctx, stream); };
  }
  if (given.alloc != nullptr) {
    ops.alloc = [](void* ctx, std::uint64_t size, void** out) { return ops_of(ctx).alloc(ops_of(ctx).ctx, size, out); };
    ops.release = [](void* ctx, void* ptr) { ops_of(ctx).release(ops_of(ctx).ctx, ptr); };
  }
  if (given.error_name != nullptr) {
    ops.error_name = [](void* ctx, std::int32_t code) { return ops_of(ctx).error_name(ops_of(ctx).ctx, code); };
  }
  ops.close = [](void* ctx) {
    const std::unique_ptr<KeptOps> owned(static_cast<KeptOps*>(ctx));
    if (owned->close != nullptr) owned->close(owned->ctx);
  };
  return device::OwnedOps(ops);
}

void require_functions(const st_device_ops& ops) {
  require(ops.host_alloc, "ops.host_alloc");
  require(ops.host_free, "ops.host_free");
  require(ops.copy, "ops.copy");
  require(ops.wait, "ops.wait");
  if (ops.alloc != nullptr) require(ops.release, "ops.release");
}

void refuse_drivers_options(const st_device_options& options) {
  if (options.ordinal == 0 && options.context == nullptr && options.library == nullptr) return;
  fail(Status::argument, "st_device_options.ordinal, .context and .library are for CUDA and HIP devices only");
}

using OpenDriver = device::OwnedOps (*)(const device::DriverOptions& options);

st_status open_driver(OpenDriver open, const st_device_options* options, st_device** out, st_error* err) {
  return guard(err, [&] {
    const st_device_options given = device_options(options);
    require(out, "out");
    const core::DeviceLimits limits = limits_of(given);
    device::DriverOptions wanted;
    wanted.ordinal = given.ordinal;
    wanted.queues = limits.queues;
    wanted.context = given.context;
    wanted.library = given.library;
    *out = handle(new DevicePtr(std::make_shared<core::Device>(open(wanted), limits)));
  });
}

}  // namespace

extern "C" {

st_status st_device_open_cuda(const st_device_options* options, st_device** out, st_error* err) {
  return open_driver(device::open_cuda, options, out, err);
}

st_status st_device_open_hip(const st_device_options* options, st_device** out, st_error* err) {
  return open_driver(device::open_hip, options, out, err);
}

st_status st_device_new(const st_device_ops* ops, const st_device_options* options, st_device** out, st_error* err) {
  return guard(err, [&] {
    require(ops, "ops");
    const st_device_ops given = known_members(ops, "st_device_ops");
    struct CloseUnlessTaken {
      const st_device_ops& ops;
      bool taken = false;
      ~CloseUnlessTaken() {
        if (!taken && ops.close != nullptr) device::ignoring_exceptions([this] { ops.close(ops.ctx); });
      }
    } closing{given};
    refuse_unknown_members(*ops, "st_device_ops");
    refuse_unknown_flags(given.flags, 0, "st_device_ops");
    require_functions(given);
    const st_device_options wanted = device_options(options);
    refuse_drivers_options(wanted);
    require(out, "out");
    device::OwnedOps owned = callers_ops(given);
    closing.taken = true;
    *out = handle(new DevicePtr(std::make_shared<core::Device>(std::move(owned), limits_of(wanted))));
  });
}

void st_device_free(st_device* device) { delete reference_of(device); }

st_status st_device_alloc(const st_device* device, uint64_t size, void** out, st_error* err) {
  return guard(err, [&] {
    require(device, "device");
    require(out, "out");
    *out = device_of(device)->alloc(size);
  });
}

void st_device_release(const st_device* device, void* ptr) {
  if (device != nullptr) device_of(device)->release(ptr);
}

st_status st_plan_add_device(st_plan* plan, const st_device* device, void* stream, const st_tensor* tensor,
                             const int64_t* begin, const int64_t* end, const int64_t* step, void* dst, size_t dst_size,
                             st_error* err) {
  return guard(err, [&] {
    require(plan, "plan");
    require(device, "device");
    require(tensor, "tensor");
    if (stream != nullptr && !device_of(device)->takes_streams())
      fail(Status::unsupported, "this device does not support streams");
    plan_of(plan).add(tensor_of(tensor), begin, end, step, dst, dst_size, device_of(device), stream);
  });
}

}  // extern "C"
