// A signal that is blocked in this thread and waits to be delivered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace st::io {

// Takes it, if there is one, so that nothing happens once it is no longer blocked.
void take_pending_signal(int number);

}  // namespace st::io
