// Opens a checkpoint by URL, and gives access to its files: for the command, which downloads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <safetensors/http.h>

#include <memory>
#include <string>
#include <vector>

#include "client.hpp"
#include "remote_file.hpp"

namespace st::http {

// Throws a Failure.
Settings settings_of(const st_http_options* given);

// An open file, and its name relative to the directory of the URL.
struct NamedFile {
  std::string name;
  std::shared_ptr<RemoteFile> file;
};

// As st_open_url. Unless `files` is null, it gets all files that were opened, first the one at the URL, whose name is as
// in the URL. Throws a Failure.
st_status open_url(const std::string& url, Settings settings, const st_open_options* options, st_file** out,
                   st_error* err, std::vector<NamedFile>* files);

}  // namespace st::http
