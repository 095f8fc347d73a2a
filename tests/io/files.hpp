// Helpers for tests of writing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "io/atomic_file.hpp"
#include "io/posix/file.hpp"

namespace st::io {

namespace fs = std::filesystem;

inline std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

inline void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

inline void write(const std::string& path, const std::string& text, const CreateOptions& options = {}) {
  AtomicFile file = AtomicFile::create(path.c_str(), options);
  file.set_size(text.size());
  file.write_at(0, text.data(), text.size());
  file.commit();
}

inline mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

inline Error error_of(auto&& body) {
  try {
    body();
    return {Status::ok, 0, 0, ""};
  } catch (const Error& error) {
    return error;
  }
}

// A new folder with access for all users.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    umask(022);
    std::string name = testing::TempDir() + "iowriteXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const std::string& name = "x") const { return folder / name; }

  fs::path folder;
};

// Runs the body in its own process, and returns its result, 0..255.
int in_child(auto&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Root of a user namespace without other users may not.
inline bool may_give_files_away() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  return geteuid() == 0 && file != nullptr && fchown(fileno(file.get()), 12345, 12345) == 0;
}

// As a user without rights of root.
int as_user(uid_t user, gid_t group, auto&& body) {
  return in_child([&] {
    if (setgroups(0, nullptr) != 0 || setgid(group) != 0 || setuid(user) != 0) return 99;
    return static_cast<int>(body());
  });
}

}  // namespace st::io
