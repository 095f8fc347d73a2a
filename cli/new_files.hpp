// The files of a new model, which appear one after another: if the last of them does not come, none of them stays.
//
// cli/SYSTEM has what is behind it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
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
  // Removes the files that were made, and the folder if it was made here, unless keep() was called.
  ~NewFiles();

  // Makes the next file of the list, which a signal that ends the process removes, too. If it cannot be made, what has
  // its name is somebody else's, and stays.
  void make_next(const std::function<void()>& make) {
    begin_next();
    try {
      make();
    } catch (...) {
      end_next(false);
      throw;
    }
    end_next(true);
  }
  void keep();

 private:
  void begin_next();
  void end_next(bool made);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cli
