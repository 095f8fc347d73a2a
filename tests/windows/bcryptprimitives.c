/* The one function of a DLL that programs of Rust want and wine 8 lacks, for the reference's package.
 * SPDX-License-Identifier: Apache-2.0 */
#include <windows.h>

#include <ntsecapi.h>

__declspec(dllexport) BOOL ProcessPrng(PBYTE data, SIZE_T size) { return RtlGenRandom(data, (ULONG)size); }
