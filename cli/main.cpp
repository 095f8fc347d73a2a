// `safetensors`: looks into safetensors files from the command line, over the library's public API only.
//
// To add a command NAME: write cli/NAME.cpp with `void add_NAME(CLI::App& app)`, which declares the options and a
// callback (show.cpp is the model), declare it in commands.hpp, and add one line to the list in run() below. The
// build takes every .cpp of this folder. Rules that hold for all commands:
//   - results go to standard output through Output, and nothing else does; `--json` where a program may read them;
//   - an error is one line on standard error and an exit code of failure.hpp: throw a Failure, or failure_in();
//   - text that comes from a file passes shown() or printable() on its way to a terminal (text.hpp);
//   - files are read through <safetensors/safetensors.hpp>, options through CLI11, JSON is made by nlohmann::json.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "commands.hpp"
#include "failure.hpp"
#include "text.hpp"

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

int complain(const std::string& line, cli::ExitCode code) {
  if (!line.empty()) std::fprintf(stderr, "safetensors: %s\n", cli::printable(line).c_str());
  return code;
}

int run(int argc, char** argv) {
  CLI::App app{"Look into safetensors files, and convert them", "safetensors"};
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
    return complain(std::string(error.what()) + " (safetensors --help)", cli::kUsage);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const cli::Failure& failure) {
    return complain(failure.line, failure.code);
  } catch (const safetensors::Error& error) {
    return complain(error.what(), cli::exit_code_of(error.status()));
  } catch (const std::bad_alloc&) {
    return complain("out of memory", cli::kUnreadable);
  } catch (const std::exception& error) {
    return complain(error.what(), cli::kDefect);
  }
}
