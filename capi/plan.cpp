// Plans, and buffers to read into.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "guard.hpp"
#include "handles.hpp"
#include "io/memory.hpp"
#include "options.hpp"

using namespace st;
using namespace st::capi;

namespace {

io::Cache cache_of(st_cache cache) {
  switch (cache) {
    case ST_CACHE_AUTO: return io::Cache::automatic;
    case ST_CACHE_THROUGH: return io::Cache::through;
    case ST_CACHE_AROUND: return io::Cache::around;
    case ST_CACHE_MAPPED: return io::Cache::mapped;
    default: fail(Status::unsupported, "options.cache is {}, which is not an st_cache of this version", cache);
  }
}

core::Group group_of(const st_read_options& options) {
  if (options.group == nullptr) return {};
  const st_group given = read_struct(options.group, "st_group");
  refuse_unknown_flags(given.flags, 0, "st_group");
  if (given.rank >= given.size)
    fail(Status::argument, "group.rank is {}, and group.size is {}", given.rank, given.size);
  if (given.size > core::kMostProcesses)
    fail(Status::unsupported, "group.size is {}, more than {}", given.size, core::kMostProcesses);
  if (given.size > 1) {
    require(given.allreduce, "group.allreduce");
    require(given.alltoallv, "group.alltoallv");
  }
  return {given.rank, given.size, options.exchange_bytes, given.ctx, given.allreduce, given.alltoallv};
}

core::ReadOptions read_options(const st_read_options& given) {
  refuse_unknown_flags(given.flags, 0, "st_read_options");
  core::ReadOptions core;
  core.threads = given.threads;
  core.cache = cache_of(given.cache);
  core.chunk_bytes = given.chunk_bytes;
  core.gap_bytes = given.gap_bytes;
  core.ctx = given.ctx;
  core.progress = given.progress;
  core.ready = given.ready;
  core.pool = {given.ctx, given.parallel_for};
  return core;
}

}  // namespace

extern "C" {

st_status st_plan_new(const st_file* file, st_plan** out, st_error* err) {
  return guard(err, [&] {
    require(file, "file");
    require(out, "out");
    *out = reinterpret_cast<st_plan*>(new core::Plan(file_of(file)));
  });
}

st_status st_plan_add(st_plan* plan, const st_tensor* tensor, const int64_t* begin, const int64_t* end,
                      const int64_t* step, void* dst, size_t dst_size, st_error* err) {
  return guard(err, [&] {
    require(plan, "plan");
    require(tensor, "tensor");
    plan_of(plan).add(tensor_of(tensor), begin, end, step, dst, dst_size);
  });
}

st_status st_plan_run(st_plan* plan, const st_read_options* options, st_error* err) {
  return guard(err, [&] {
    const st_read_options given = known_members(options, "st_read_options");
    const core::Group group = group_of(given);
    core::ReadOptions chosen;
    try {
      require(plan, "plan");
      if (options != nullptr) refuse_unknown_members(*options, "st_read_options");
      chosen = read_options(given);
    } catch (const Error& error) {
      core::leave_group(group, error.status);
      throw;
    } catch (const std::bad_alloc&) {  // for the message
      core::leave_group(group, Status::no_memory);
      throw;
    }
    plan_of(plan).run(chosen, group);
  });
}

void st_plan_progress(const st_plan* plan, uint64_t* done, uint64_t* total) {
  if (done != nullptr) *done = plan_of(plan).done();
  if (total != nullptr) *total = plan_of(plan).total();
}

void st_plan_cancel(const st_plan* plan) { plan_of(plan).cancel(); }

int32_t st_plan_is_complete(const st_plan* plan, size_t i) { return plan_of(plan).complete(i) ? 1 : 0; }

void st_plan_get_stats(const st_plan* plan, st_plan_stats* stats) {
  const core::ReadCounts& counts = plan_of(plan).counts();
  st_plan_stats full{};
  full.struct_size = stats->struct_size;
  full.bytes_wanted = plan_of(plan).total();
  full.bytes_read = counts.bytes_read;
  full.reads = counts.reads;
  full.bytes_copied = counts.bytes_copied;
  full.copies = counts.copies;
  full.staging_bytes = plan_of(plan).staging_bytes();
  full.bytes_sent = counts.bytes_sent;
  full.bytes_received = counts.bytes_received;
  full.exchange_bytes = counts.exchange_bytes;
  std::memcpy(stats, &full, std::min<std::size_t>(stats->struct_size, sizeof full));
}

void st_plan_free(st_plan* plan) { delete reinterpret_cast<core::Plan*>(plan); }

st_status st_buffer_new(uint64_t size, uint32_t flags, uint32_t threads, void** out, st_error* err) {
  return guard(err, [&] {
    require(out, "out");
    refuse_unknown_flags(flags, ST_BUFFER_LAZY, "st_buffer_new");
    const bool lazy = (flags & ST_BUFFER_LAZY) != 0;
    *out = io::new_buffer(size, lazy ? io::Pages::as_they_are_touched : io::Pages::at_once, threads);
  });
}

void st_buffer_free(void* buffer) { io::free_buffer(static_cast<std::byte*>(buffer)); }

}  // extern "C"
