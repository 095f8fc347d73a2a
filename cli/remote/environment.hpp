// How the command reaches web servers: the environment variables in docs/command.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <safetensors/http.h>

#include <string>
#include <vector>

namespace cli {

// The options for one URL. Headers are only those for its origin.
class HttpEnvironment {
 public:
  // Throws a Failure if a variable is invalid.
  explicit HttpEnvironment(const std::string& whole_url);
  HttpEnvironment(const HttpEnvironment&) = delete;
  HttpEnvironment& operator=(const HttpEnvironment&) = delete;

  const st_http_options& options() const { return options_; }

 private:
  void add_headers(const std::string& origin);

  std::vector<std::string> headers_;
  std::vector<const char*> lines_;
  st_http_options options_ = ST_INIT(st_http_options);
};

}  // namespace cli
