// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cli {

// Gives the file `to` the owner, the mode and the access control list of the file `from`, which it is going to replace.
// Where the system refuses a part, the mode keeps less than it had: nobody may do with `to` what they could not do
// with `from`. Returns 0, or the errno of a mode that could not be set.
int hand_on_permissions(int from, int to);

}  // namespace cli
