// What the machine can do with the whole of some files, without a library: the roofs that loaders are held against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct RawFile {
  std::string path;
  std::uint64_t size = 0;
  std::uint64_t at = 0;  // where its bytes go in the destination, a multiple of 4096
};

std::vector<RawFile> raw_files(const std::vector<std::string>& paths);
std::uint64_t total_size(const std::vector<RawFile>& files);

std::vector<const char*> populated_mappings(const std::vector<RawFile>& files);
void copy_from(const std::vector<const char*>& mappings, const std::vector<RawFile>& files, char* dst,
               unsigned threads);
void pread_pool(const std::vector<RawFile>& files, char* dst, unsigned threads, std::uint64_t chunk, bool direct);
bool io_uring_pool(const std::vector<RawFile>& files, char* dst, unsigned depth, std::uint64_t chunk);  // false: denied

double resident_share(const std::vector<RawFile>& files);
void evict(const std::vector<RawFile>& files);

}  // namespace bench
