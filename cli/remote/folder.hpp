// The folder that fetch writes a model to, and the folder of parts in it.
//
// Other users may be able to write to the model's folder. They cannot redirect anything: both folders are open
// descriptors, names are relative to them, and no link below them is followed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <string>

#include "io/posix/file.hpp"

namespace cli {

constexpr const char* kPartsFolder = ".safetensors-fetch";

[[noreturn]] void fail_on_file(const std::string& path, int error = errno);
void sync_or_fail(const std::string& path, const st::io::Descriptor& file);

// A name in an open folder. There is no descriptor if the folder does not exist.
struct Place {
  st::io::Descriptor folder;
  std::string name;
  std::string shown;  // the whole path

  // Returns the status of the file or link with this name.
  std::optional<struct stat> status() const;
  // Throws unless the name is free, or may get another file: with `replace`, and unless it is a folder, or belongs to
  // another user in a sticky folder.
  void require_free(bool replace) const;
};

class ModelFolder {
 public:
  explicit ModelFolder(const std::string& path);  // makes it if necessary

  const std::string& path() const { return path_; }
  int descriptor() const { return folder_.get(); }
  // Returns the place of a file whose name may contain slashes. Throws if one of its folders is a link.
  Place place_of(const std::string& name, bool make_folders) const;
  void sync() const { sync_or_fail(path_, folder_); }

 private:
  const std::string path_;
  st::io::Descriptor folder_;
};

// Only this user may write to this folder. It may have been made, or filled, when others could: files that are not
// regular, belong to another user, may be written by others or have other names are not this program's.
//
// On a filesystem without owners or modes, the same users may write to this folder and to the model's.
class PartsFolder {
 public:
  // Makes it if necessary. Throws if others may write to it, or another process uses it.
  explicit PartsFolder(const ModelFolder& model);

  std::string shown(const std::string& name) const;
  int descriptor() const { return folder_.get(); }
  // Whether the filesystem keeps the owner and mode of each file.
  bool keeps_modes() const { return keeps_modes_; }

  // Returns no descriptor if there is no such file. Removes a file that is not this program's.
  st::io::Descriptor open_own(const std::string& name, int flags) const;
  // Throws if the name exists.
  st::io::Descriptor create(const std::string& name) const;
  void remove(const std::string& name) const;
  // For short texts. The text of a file that is missing is empty. write() is atomic; only one thread may call it.
  std::string read(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;

 private:
  bool is_own(const st::io::Descriptor& file) const;

  const std::string path_;
  const bool keeps_modes_;
  st::io::Descriptor folder_;
  st::io::Descriptor lock_;
};

}  // namespace cli
