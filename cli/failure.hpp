// Failures of a command: one line on standard error, and an exit code.
//
// The codes are stable. Scripts rely on 1 meaning an invalid file, never a file that could not be read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <safetensors/safetensors.hpp>

namespace cli {

enum ExitCode : int {
  kSuccess = 0,
  kBadFile = 1,     // the file is invalid
  kUsage = 2,       // usage error, or arguments that the library rejects
  kUnreadable = 3,  // no such file, no permission, I/O error, no memory, or output that cannot be written
  kDefect = 4,      // a bug of the command or the library
  kDiffers = 5,     // `diff` found a difference, or `verify --values` found NaN or infinity
};

struct Failure {
  ExitCode code = kDefect;
  std::string line;  // for standard error; prints nothing if empty
};

// The first digit of a status determines the exit code (safetensors.h).
ExitCode exit_code_of(const safetensors::Error& error);

// Returns the worse code: kDiffers counts as less severe than an invalid or unreadable file.
ExitCode worse_of(ExitCode a, ExitCode b);

// Returned if the reader has closed the pipe: the command ends silently, by SIGPIPE if the system has it.
Failure closed_pipe();

// Returns a line such as "model.safetensors: tensor 'a': offsets 16..8 run backwards (byte 8, ST_ERR_OFFSETS)", or
// closed_pipe() if the reader has closed the pipe.
Failure failure_in(const std::string& path, const safetensors::Error& error);

// Prints the failure on standard error and returns its code.
ExitCode complain(const Failure& failure);

}  // namespace cli
