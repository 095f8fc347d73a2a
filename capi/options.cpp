// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "format/header.hpp"

namespace st::capi {

namespace {

io::Mode mode_of(st_io io) {
  switch (io) {
    case ST_IO_AUTO: return io::Mode::automatic;
    case ST_IO_MAP: return io::Mode::map;
    case ST_IO_COPY: return io::Mode::copy_on_write;
    case ST_IO_READ: return io::Mode::read;
    default: fail(Status::unsupported, "options.io is {}, which is not an st_io of this version", io);
  }
}

format::Rules rules_of(std::uint32_t flags) {
  const bool strict = (flags & ST_OPEN_STRICT) != 0;
  const bool reference = (flags & ST_OPEN_REFERENCE) != 0;
  if (strict && reference) fail(Status::argument, "ST_OPEN_STRICT and ST_OPEN_REFERENCE are mutually exclusive");
  return strict ? format::Rules::strict : reference ? format::Rules::reference : format::Rules::standard;
}

core::Allocator allocator_of(const st_allocator* given) {
  if (given == nullptr) return {};
  const st_allocator allocator = read_struct(given, "st_allocator");
  refuse_unknown_flags(allocator.flags, 0, "st_allocator");
  if (allocator.alloc == nullptr || allocator.free == nullptr)
    fail(Status::argument, "st_allocator.alloc or .free is NULL");
  return {allocator.ctx, allocator.alloc, allocator.free};
}

}  // namespace

core::OpenOptions open_options(const st_open_options* given) {
  const st_open_options options = read_struct(given, "st_open_options");
  constexpr std::uint32_t kFlags = ST_OPEN_STRICT | ST_OPEN_REFERENCE | ST_OPEN_UNKNOWN_DTYPES | ST_OPEN_FOLLOW_LINKS;
  refuse_unknown_flags(options.flags, kFlags, "st_open_options");
  core::OpenOptions core;
  core.io = mode_of(options.io);
  core.threads = options.threads;
  core.follow_links = (options.flags & ST_OPEN_FOLLOW_LINKS) != 0;
  core.header.rules = rules_of(options.flags);
  core.header.unknown_dtypes = (options.flags & ST_OPEN_UNKNOWN_DTYPES) != 0;
  if (options.max_header_bytes != 0) core.header.max_bytes = options.max_header_bytes;
  core.allocator = allocator_of(options.allocator);
  return core;
}

st_write_options write_options(const st_write_options* given, std::uint32_t known_flags) {
  const st_write_options options = read_struct(given, "st_write_options");
  refuse_unknown_flags(options.flags, known_flags, "st_write_options");
  if (options.format != 0) format::require_writable(options.format);
  if (options.reserved != 0) fail(Status::argument, "options.reserved is {}, not 0", options.reserved);
  if (options.data_alignment != 0) format::require_alignment(options.data_alignment);
  return options;
}

}  // namespace st::capi
