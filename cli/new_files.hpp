// The files of a new model, which appear one after another: if the last of them does not come, none of them stays.
//
// cli/SYSTEM has what is behind it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace cli {

class NewFiles {
 public:
  // Makes the folder if there is none. Throws a Failure if one of the files exists. Names may hold slashes.
  NewFiles(const std::string& folder, const std::vector<std::string>& names);
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;
  // Removes the files that were begun, and the folder if it was made here, unless keep() was called.
  ~NewFiles();

  // The next file of the list is going to appear; a signal that ends the process removes it, too.
  void begin_next();
  // The file that was begun has not appeared.
  void drop_last();
  void keep();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cli
