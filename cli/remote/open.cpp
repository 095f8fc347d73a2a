// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "http/url.hpp"
#include "remote.hpp"
#include "remote/environment.hpp"

namespace cli {

safetensors::SafeOpen open_remote(const std::string& url, const st_open_options& options) {
  const std::string whole = whole_url(url);
  const HttpEnvironment environment(whole);
  st_error error = ST_INIT(st_error);
  st_file* file = nullptr;
  const st_status status = st_open_url(whole.c_str(), &environment.options(), &options, &file, &error);
  if (status != ST_OK) throw safetensors::Error(status, error.message, error.offset, error.os_error);
  return safetensors::SafeOpen::from_c_handle(file, url);
}

std::string https_url(const std::string& url) {
  if (!st::http::is_hub_url(url)) return url;
  const st::http::HubFile hub = st::http::parse_hub_url(url);
  return hub.directory + st::http::encoded(hub.file);
}

}  // namespace cli
