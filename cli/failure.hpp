// How a command ends when it does not succeed, and the number that the shell sees.
//
// The numbers are a promise to scripts: 1 says "this file is bad", and never "this file could not be read".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <safetensors/safetensors.hpp>

namespace cli {

enum ExitCode : int {
  kSuccess = 0,
  kBadFile = 1,     // the file breaks the format
  kUsage = 2,       // the command line, or a call the library refuses
  kUnreadable = 3,  // the machine: no such file, no permission, I/O errors, no memory, output that cannot be written
  kDefect = 4,      // a fault of this program
  kDiffers = 5,     // what was compared differs, or what was looked for was found
};

struct Failure {
  ExitCode code = kDefect;
  std::string line;  // for standard error; empty: print nothing
};

// The hundreds of a status say whose fault it is (safetensors.h).
ExitCode exit_code_of(const safetensors::Error& error);

// Of two ends of one command the one that it has: a difference says less than a file that is bad or cannot be read.
ExitCode worse_of(ExitCode a, ExitCode b);

// A reader that has closed its end is no failure.
// "model.safetensors: tensor 'a': offsets 16..8 run backwards (byte 8, ST_ERR_OFFSETS)"
Failure failure_in(const std::string& path, const safetensors::Error& error);

// Prints the failure on standard error and returns its code, for a command that continues.
ExitCode complain(const Failure& failure);

}  // namespace cli
