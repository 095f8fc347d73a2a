// SPDX-License-Identifier: Apache-2.0
#include "io/win32/access.hpp"

#include <vector>

namespace st::io {

namespace {

constexpr DWORD kHandedOn = FILE_ATTRIBUTE_HIDDEN | FILE_ATTRIBUTE_SYSTEM | FILE_ATTRIBUTE_NOT_CONTENT_INDEXED;

void hand_on_attributes(HANDLE from, HANDLE to) {
  FILE_BASIC_INFO old{};
  FILE_BASIC_INFO now{};
  if (GetFileInformationByHandleEx(from, FileBasicInfo, &old, sizeof old) == FALSE ||
      GetFileInformationByHandleEx(to, FileBasicInfo, &now, sizeof now) == FALSE ||
      (old.FileAttributes & kHandedOn) == (now.FileAttributes & kHandedOn)) {
    return;
  }
  FILE_BASIC_INFO changed{};  // times of 0 stay as they are
  changed.FileAttributes = (now.FileAttributes & ~kHandedOn) | (old.FileAttributes & kHandedOn);
  SetFileInformationByHandle(to, FileBasicInfo, &changed, sizeof changed);
}

// Filesystems without access control lists, as FAT, answer that they cannot.
bool has_none(int error) {
  return error == ERROR_NOT_SUPPORTED || error == ERROR_INVALID_FUNCTION || error == ERROR_CALL_NOT_IMPLEMENTED;
}

}  // namespace

int take_over_access(const std::wstring& from, HANDLE to) {
  const Handle old(CreateFileW(from.c_str(), READ_CONTROL | FILE_READ_ATTRIBUTES, kShareAll, nullptr, OPEN_EXISTING,
                               FILE_FLAG_OPEN_REPARSE_POINT | kNotActedFor, nullptr));
  if (!old) return GetLastError() == ERROR_FILE_NOT_FOUND ? 0 : last_error();
  hand_on_attributes(old.get(), to);
  DWORD size = 0;
  GetKernelObjectSecurity(old.get(), DACL_SECURITY_INFORMATION, nullptr, 0, &size);
  if (size == 0) return has_none(last_error()) ? 0 : last_error();
  std::vector<std::byte> list(size);
  if (GetKernelObjectSecurity(old.get(), DACL_SECURITY_INFORMATION, list.data(), size, &size) == FALSE) {
    return last_error();
  }
  SECURITY_DESCRIPTOR_CONTROL control = 0;
  DWORD revision = 0;
  GetSecurityDescriptorControl(list.data(), &control, &revision);
  // What the old file had from its folder, the new one has as well, and else it shuts the folder's list out.
  const DWORD inherits =
      (control & SE_DACL_PROTECTED) != 0 ? PROTECTED_DACL_SECURITY_INFORMATION : UNPROTECTED_DACL_SECURITY_INFORMATION;
  const BOOL done = SetKernelObjectSecurity(to, DACL_SECURITY_INFORMATION | inherits, list.data());
  return done != FALSE || has_none(last_error()) ? 0 : last_error();
}

}  // namespace st::io
