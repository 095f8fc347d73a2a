// A sandbox around a thread, or around a process with a single thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace st::io {

inline bool filter_calls(std::vector<sock_filter>& program) {
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) == 0;
}

// Makes these calls fail permanently in this thread. Returns false if the system has no call filters.
inline bool answer_calls(const std::vector<long>& calls, std::uint32_t answer) {
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offsetof(seccomp_data, nr)))};
  for (const long call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, answer));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return filter_calls(program);
}

inline bool refuse(const std::vector<long>& calls, int error) {
  return answer_calls(calls, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error));
}

inline std::vector<long> fcntl_calls() {
  return {
    SYS_fcntl,
#if defined(SYS_fcntl64)
        SYS_fcntl64,
#endif
  };
}

// The same for locks of open files alone: fcntl() does more, and other calls need that.
inline bool refuse_file_locks(int error) {
  constexpr auto kCommand = static_cast<std::uint32_t>(offsetof(seccomp_data, args) + sizeof(std::uint64_t) +
                                                       (std::endian::native == std::endian::big ? 4 : 0));
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offsetof(seccomp_data, nr)))};
#if defined(SYS_fcntl64)
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl64, 1, 0));
#endif
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3));
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCommand));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 0, 1));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return filter_calls(program);
}

}  // namespace st::io
