// Without libFuzzer: the same main as fuzz/pickle's.
// SPDX-License-Identifier: Apache-2.0
#include "../pickle/main.cpp"  // NOLINT(bugprone-suspicious-include)
