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
#include <csignal>
#include <exception>
#include <new>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "commands.hpp"
#include "failure.hpp"

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

// If a standard descriptor is closed, the next file that is opened would get its number, and the messages meant for it.
void keep_standard_descriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Keeps the lines of examples and exit codes, which newer versions of the parser would join.
template <class Formatter>
void keep_lines_of_footers(Formatter& formatter) {
  if constexpr (requires { formatter.enable_footer_formatting(false); }) formatter.enable_footer_formatting(false);
}

int run(int argc, char** argv) {
  CLI::App app{"Look into safetensors files, and convert them", "safetensors"};
  keep_lines_of_footers(*app.get_formatter());
  app.require_subcommand(1);
  app.set_version_flag("--version", "safetensors " + std::string(safetensors::version()));
  app.footer(kExitCodes);

  cli::add_show(app);
  cli::add_meta(app);
  cli::add_cat(app);
  cli::add_extract(app);
  cli::add_convert(app);
  cli::add_hash(app);

  try {
    app.parse(argc, argv);
    return cli::kSuccess;
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return cli::complain({cli::kUsage, std::string(error.what()) + " (safetensors --help)"});
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_descriptors();
  signal(SIGXFSZ, SIG_IGN);  // so that a write beyond the limit of file sizes is an error and does not end the process
  try {
    return run(argc, argv);
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
