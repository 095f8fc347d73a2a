// Whether this build has AddressSanitizer or ThreadSanitizer, which make each test many times as slow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace st {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kUnderSanitizer = true;
#elif defined(__has_feature)
constexpr bool kUnderSanitizer = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kUnderSanitizer = false;
#endif

}  // namespace st
