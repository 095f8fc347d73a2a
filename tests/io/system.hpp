// Which directories of src/io are under test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace st::io {

// false: src/io/posix alone, without the features that only Linux has.
bool has_linux_io();

}  // namespace st::io
