// `safetensors`: looks into safetensors files from the command line, over the library's public API only.
//
// To add a command NAME: write cli/NAME.cpp with `void add_NAME(CLI::App& app)`, which declares the options and a
// callback (show.cpp is the model), declare it in commands.hpp, and add one line to the list in run() below. The
// build takes every .cpp of this folder. Rules that hold for all commands:
//   - results go to standard output through Output, and nothing else does; `--json` where a program may read them;
//   - an error is one line on standard error and an exit code of failure.hpp: throw a Failure, or failure_in();
//   - text that comes from a file passes shown() or printable() on its way to a terminal (text.hpp);
//   - files go through <safetensors/safetensors.hpp>, options through CLI11, JSON is made by nlohmann::json.
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "commands.hpp"
#include "failure.hpp"
#include "system.hpp"

namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0  success\n"
    "  1  the file breaks the format\n"
    "  2  wrong usage\n"
    "  3  the file cannot be read, or the output not written\n"
    "\n"
    "Examples:\n"
    "  safetensors show model.safetensors\n"
    "  safetensors show model.safetensors --json | jq .total\n"
    "  safetensors show --help";

// Keeps the lines of examples and exit codes, which newer versions of the parser would join.
template <class Formatter>
void keep_lines_of_footers(Formatter& formatter) {
  if constexpr (requires { formatter.enable_footer_formatting(false); }) formatter.enable_footer_formatting(false);
}

int run(const std::vector<std::string>& arguments) {
  CLI::App app{"Look into safetensors files, and convert them", "safetensors"};
  keep_lines_of_footers(*app.get_formatter());
  app.allow_windows_style_options(false);  // a path may begin with a slash there too
  app.require_subcommand(1);
  app.set_version_flag("--version", "safetensors " + std::string(safetensors::version()));
  app.footer(kExitCodes);

  cli::add_show(app);
  cli::add_meta(app);
  cli::add_cat(app);
  cli::add_extract(app);
  cli::add_convert(app);
  cli::add_hash(app);

  std::vector<const char*> given;
  given.reserve(arguments.size());
  for (const std::string& argument : arguments) given.push_back(argument.c_str());
  try {
    app.parse(static_cast<int>(given.size()), given.data());
    return cli::kSuccess;
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return cli::complain({cli::kUsage, std::string(error.what()) + " (safetensors --help)"});
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
