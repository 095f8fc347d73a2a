// JSON as the command prints it: one object per line, members in the order in which they were added. This is a separate
// header because nlohmann's takes 4 s to compile, and most files of the command print no JSON. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cli {

using Json = nlohmann::ordered_json;

// In ASCII. Bytes that are not UTF-8 become U+FFFD.
inline std::string json_text(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

}  // namespace cli
