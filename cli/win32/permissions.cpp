// SPDX-License-Identifier: Apache-2.0
#include "permissions.hpp"

#include <vector>

namespace cli {
namespace {

// Filesystems without access control lists, as FAT, answer that they cannot.
bool has_none(DWORD error) {
  return error == ERROR_NOT_SUPPORTED || error == ERROR_INVALID_FUNCTION || error == ERROR_CALL_NOT_IMPLEMENTED;
}

}  // namespace

DWORD hand_on_permissions(const std::wstring& from, HANDLE to) {
  const Handle old = handle_of(CreateFileW(from.c_str(), READ_CONTROL, kShareAll, nullptr, OPEN_EXISTING, 0, nullptr));
  if (!old) return GetLastError() == ERROR_FILE_NOT_FOUND ? 0 : GetLastError();
  DWORD size = 0;
  GetKernelObjectSecurity(old.get(), DACL_SECURITY_INFORMATION, nullptr, 0, &size);
  if (size == 0) return has_none(GetLastError()) ? 0 : GetLastError();
  std::vector<std::byte> list(size);
  if (GetKernelObjectSecurity(old.get(), DACL_SECURITY_INFORMATION, list.data(), size, &size) == FALSE) {
    return GetLastError();
  }
  SECURITY_DESCRIPTOR_CONTROL control = 0;
  DWORD revision = 0;
  GetSecurityDescriptorControl(list.data(), &control, &revision);
  // What the old file had from its folder, the new one has as well, and else it shuts the folder's list out.
  const DWORD inherits =
      (control & SE_DACL_PROTECTED) != 0 ? PROTECTED_DACL_SECURITY_INFORMATION : UNPROTECTED_DACL_SECURITY_INFORMATION;
  const BOOL done = SetKernelObjectSecurity(to, DACL_SECURITY_INFORMATION | inherits, list.data());
  return done != FALSE || has_none(GetLastError()) ? 0 : GetLastError();
}

}  // namespace cli
