// SPDX-License-Identifier: Apache-2.0
#include "io/posix/mount.hpp"

#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

namespace st::io {

namespace {

// Facts of linux/magic.h and of the filesystems' own headers.
constexpr std::array<std::uint32_t, 5> kKernelMounts{0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x63677270};
constexpr std::array<std::uint32_t, 11> kRemoteMounts{
    0x6969,      // NFS
    0x517B,      // SMB
    0xFE534D42,  // SMB2
    0xFF534D42,  // CIFS
    0x65735546,  // FUSE
    0x01021997,  // 9P
    0x00C36400,  // Ceph
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
    0x5346414F,  // AFS
    0x19830326,  // BeeGFS
};

}  // namespace

MountKind mount_kind(int descriptor, const struct stat& status) {
  if (major(status.st_dev) != 0) return MountKind::local;  // a real disk; the rest share major number 0
  struct statfs mount {};
  if (fstatfs(descriptor, &mount) != 0) return MountKind::local;
  const auto type = static_cast<std::uint32_t>(mount.f_type);
  if (std::find(kKernelMounts.begin(), kKernelMounts.end(), type) != kKernelMounts.end()) return MountKind::kernel;
  const bool remote = std::find(kRemoteMounts.begin(), kRemoteMounts.end(), type) != kRemoteMounts.end();
  return remote ? MountKind::remote : MountKind::local;
}

}  // namespace st::io
