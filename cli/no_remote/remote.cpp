// For a command that was built without libcurl.
// SPDX-License-Identifier: Apache-2.0
#include "remote.hpp"

#include "failure.hpp"

namespace cli {
namespace {

[[noreturn]] void fail_without_http(const std::string& url) {
  throw Failure{kUsage, url + ": this command was built without HTTP: build it with -DST_BUILD_HTTP=ON"};
}

}  // namespace

safetensors::SafeOpen open_remote(const std::string& url, const st_open_options& /*options*/) {
  fail_without_http(url);
}

std::string https_url(const std::string& url) { return url; }

void fetch(const FetchOptions& options) { fail_without_http(options.url); }

}  // namespace cli
