// `safetensors`: looks into safetensors files from the command line, over the library's public API only.
//
// To add a command NAME: write cli/NAME.cpp with `void add_NAME(Command& app)`, which declares the options and a
// callback (show.cpp is the model), declare it in commands.hpp, and add one line to the list in app.cpp. The
// build takes every .cpp of this folder. Rules that hold for all commands:
//   - results go to standard output through Output, and nothing else does; `--json` where a program may read them;
//   - an error is one line on standard error and an exit code of failure.hpp: throw a Failure, or failure_in();
//   - text that comes from a file passes shown() or printable() on its way to a terminal (text.hpp);
//   - files go through <safetensors/safetensors.hpp>, options through parser.hpp, JSON is made by nlohmann::json.
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <new>
#include <system_error>

#include "app.hpp"
#include "failure.hpp"
#include "system.hpp"

int main(int argc, char** argv) {
  try {
    cli::prepare_process();
    return cli::run(cli::arguments(argc, argv));
  } catch (const cli::Failure& failure) {
    return cli::complain(failure);
  } catch (const safetensors::Error& error) {
    return cli::complain({cli::exit_code_of(error), error.what()});
  } catch (const std::bad_alloc&) {
    return cli::complain({cli::kUnreadable, "out of memory"});
  } catch (const std::system_error& error) {
    return cli::complain({cli::kUnreadable, error.what()});
  } catch (const std::exception& error) {
    return cli::complain({cli::kDefect, error.what()});
  }
}
