// `safetensors fetch URL FOLDER`: downloads a model, or continues the download.
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app.hpp"
#include "arguments.hpp"
#include "failure.hpp"
#include "output.hpp"
#include "remote.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kFetchNotes =
    "URL is https://HOST/PATH or hf://OWNER/MODEL[@REVISION][/FILE], and names a file or an index of shards. All\n"
    "headers are checked before the download. The files get their names when all are complete, the index last.\n"
    "If the download is interrupted, run the same command again: it continues.\n"
    "\n"
    "Environment:\n"
    "  HF_TOKEN                  token for huggingface.co\n"
    "  SAFETENSORS_HTTP_HEADER   'ORIGIN NAME: VALUE': a header for one origin; more of them on further lines\n"
    "  SAFETENSORS_HTTP_ALLOW    plain: allow http://; private: allow addresses that are not public\n"
    "  SAFETENSORS_HTTP_CA_FILE  the trusted authorities, in PEM, instead of the system's\n"
    "  SAFETENSORS_HTTP_PROXY    URL of a proxy\n"
    "\n"
    "Examples:\n"
    "  safetensors fetch hf://openai-community/gpt2 gpt2/\n"
    "  safetensors fetch https://example.com/model.safetensors.index.json model/";

}  // namespace

void add_fetch(Command& app) {
  const auto options = std::make_shared<FetchOptions>();
  Command command = app.add_command("fetch", "Download a model from a web server");
  command.add_input("URL", options->url, "The URL of a file or an index of shards").required();
  command.add_output("FOLDER", options->folder, "The folder for the files; created if necessary").required();
  command.add_flag("--replace", options->replace, "Replace files that exist");
  command.footer(kFetchNotes);
  command.on_run([options] {
    if (!is_url(options->url)) {
      throw Failure{kUsage, formatted("{}: not a URL that begins with https:// or hf://", shown(options->url, 1000))};
    }
    if (options->folder.empty()) throw Failure{kUsage, "FOLDER is empty"};
    fetch(*options);
  });
}

}  // namespace cli
