// `safetensors`: looks into safetensors files from the command line, over the library's public API only.
//
// To add a command NAME: write cli/NAME.cpp with `void add_NAME(CLI::App& app)`, which declares the options and a
// callback (show.cpp is the model), declare it in commands.hpp, and add one line to the list in app.cpp. The
// build takes every .cpp of this folder. Rules that hold for all commands:
//   - results go to standard output through Output, and nothing else does; `--json` where a program may read them;
//   - an error is one line on standard error and an exit code of failure.hpp: throw a Failure, or failure_in();
//   - text that comes from a file passes shown() or printable() on its way to a terminal (text.hpp);
//   - files go through <safetensors/safetensors.hpp>, options through CLI11, JSON is made by nlohmann::json.
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "app.hpp"
#include "failure.hpp"
#include "system.hpp"

namespace {

int run(const std::vector<std::string>& arguments) {
  const std::unique_ptr<CLI::App> app = cli::make_app();
  std::vector<const char*> given;
  given.reserve(arguments.size());
  for (const std::string& argument : arguments) given.push_back(argument.c_str());
  try {
    app->parse(static_cast<int>(given.size()), given.data());
    return cli::kSuccess;
  } catch (const CLI::Success& help_or_version) {
    return app->exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return cli::complain({cli::kUsage, cli::explain(*app, error, arguments) + " (safetensors --help)"});
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    cli::prepare_process();
    return run(cli::arguments(argc, argv));
  } catch (const cli::Failure& failure) {
    return cli::complain(failure);
  } catch (const safetensors::Error& error) {
    return cli::complain({cli::exit_code_of(error), error.what()});
  } catch (const std::bad_alloc&) {
    return cli::complain({cli::kUnreadable, "out of memory"});
  } catch (const std::exception& error) {
    return cli::complain({cli::kDefect, error.what()});
  }
}
