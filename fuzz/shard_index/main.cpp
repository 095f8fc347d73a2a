// Without libFuzzer: the same main as fuzz/header's.
// SPDX-License-Identifier: Apache-2.0
#include "../header/main.cpp"
