// SPDX-License-Identifier: Apache-2.0
#include "io/win32/identity.hpp"

#include <cstring>

namespace st::io {

namespace {

constexpr std::int64_t kTicksPerSecond = 10'000'000;

void set_time(std::int64_t (&time)[2], const LARGE_INTEGER& ticks) {
  time[0] = ticks.QuadPart / kTicksPerSecond;
  time[1] = ticks.QuadPart % kTicksPerSecond * 100;
}

// ReFS tells files apart by 128 bits, NTFS by 64, and FAT has no numbers that stay: there it is a position in a folder.
bool take_number(HANDLE file, Identity& identity) {
  FILE_ID_INFO number{};
  if (GetFileInformationByHandleEx(file, FileIdInfo, &number, sizeof number) != FALSE) {
    std::uint64_t halves[2];
    static_assert(sizeof halves == sizeof number.FileId);
    std::memcpy(halves, &number.FileId, sizeof halves);
    identity.device = number.VolumeSerialNumber;
    identity.inode = halves[0] + halves[1] * 0x9E3779B97F4A7C15;
    return true;
  }
  BY_HANDLE_FILE_INFORMATION older{};
  if (GetFileInformationByHandle(file, &older) == FALSE) return false;
  identity.device = older.dwVolumeSerialNumber;
  identity.inode = static_cast<std::uint64_t>(older.nFileIndexHigh) << 32 | older.nFileIndexLow;
  return true;
}

}  // namespace

std::optional<Identity> identity_of(HANDLE file) {
  Identity identity;
  FILE_BASIC_INFO times{};
  LARGE_INTEGER size{};
  if (!take_number(file, identity) || GetFileSizeEx(file, &size) == FALSE ||
      GetFileInformationByHandleEx(file, FileBasicInfo, &times, sizeof times) == FALSE) {
    return std::nullopt;
  }
  identity.size = static_cast<std::uint64_t>(size.QuadPart);
  set_time(identity.modified, times.LastWriteTime);
  set_time(identity.changed, times.ChangeTime);
  return identity;
}

}  // namespace st::io
