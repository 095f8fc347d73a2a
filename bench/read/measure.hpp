// What one load costs: wall time, processor time, page faults, bytes from the disk and through read calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace bench {

struct Cost {
  double seconds = 0;
  double cpu = 0;
  long faults = 0;
  std::uint64_t disk = 0;  // bytes that came from the block device
  std::uint64_t read = 0;  // bytes that read calls returned
};

inline double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

inline Cost now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Cost cost;
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  cost.cpu = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  cost.faults = usage.ru_minflt + usage.ru_majflt;
  std::ifstream io("/proc/self/io");
  std::string key;
  for (std::uint64_t value = 0; io >> key >> value;) {
    if (key == "rchar:") cost.read = value;
    if (key == "read_bytes:") cost.disk = value;
  }
  return cost;
}

template <class Work>
Cost measure(const Work& work) {
  const Cost before = now();
  work();
  const Cost after = now();
  return {after.seconds - before.seconds, after.cpu - before.cpu, after.faults - before.faults,
          after.disk - before.disk, after.read - before.read};
}

// One line that read.py understands.
inline void report(const Cost& cost, std::uint64_t bytes, std::uint64_t checksum) {
  std::printf(
      "{\"seconds\": %.6f, \"cpu\": %.6f, \"faults\": %ld, \"disk\": %llu, \"read\": %llu, \"bytes\": %llu, \"checksum\": \"%016llx\"}\n",
      cost.seconds, cost.cpu, cost.faults, static_cast<unsigned long long>(cost.disk),
      static_cast<unsigned long long>(cost.read), static_cast<unsigned long long>(bytes),
      static_cast<unsigned long long>(checksum));
}

}  // namespace bench
