// `safetensors`: the command-line tool for safetensors files.
//
// To add a command NAME: write cli/NAME.cpp with `void add_NAME(Command& app)` (show.cpp is an example), declare it in
// app.hpp, and add a line to add_commands() in app.cpp. CMake finds the new file by itself. All commands follow these
// rules:
//   - Results go to standard output through Output. Programs can read them with `--json`.
//   - An error is one line on standard error and an exit code: throw a Failure, or failure_in() (failure.hpp).
//   - Text from a file goes through shown() or printable() before it is printed on a terminal (text.hpp).
//   - Models are read and written through <safetensors/safetensors.hpp>. Other files are written by OutputFile.
//   - Options are declared through arguments.hpp. JSON is made with nlohmann::json.
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <new>
#include <system_error>

#include "app.hpp"
#include "base/error.hpp"
#include "failure.hpp"
#include "system.hpp"

namespace {

int run(int argc, char** argv) {
  try {
    cli::prepare_process();
    return cli::run(cli::arguments(argc, argv));
  } catch (const cli::Interruption&) {
    return cli::kUnreadable;
  } catch (const cli::Failure& failure) {
    return cli::complain(failure);
  } catch (const safetensors::Error& error) {
    return cli::complain({cli::exit_code_of(error), error.what()});
  } catch (const st::Error& error) {
    return cli::complain({cli::kUnreadable, error.message});
  } catch (const std::bad_alloc&) {
    return cli::complain({cli::kUnreadable, "out of memory"});
  } catch (const std::system_error& error) {
    return cli::complain({cli::kUnreadable, error.what()});
  } catch (const std::exception& error) {
    return cli::complain({cli::kDefect, error.what()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run(argc, argv);
  cli::end_if_interrupted();
  return code;
}
