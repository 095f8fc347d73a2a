// What two states of a file have in common.
// SPDX-License-Identifier: Apache-2.0
#include "io/identity.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "io/posix/identity.hpp"

namespace st::io {
namespace {

TEST(Identity, EachFieldTellsTwoStatesApartAndTwoOfThemTwoFiles) {
  struct Case {
    const char* name;
    Identity other;
    bool same_file;
  };
  const Identity given{1, 2, 3, {4, 5}, {6, 7}};
  const Case cases[] = {
      {"device", {9, 2, 3, {4, 5}, {6, 7}}, false},        {"inode", {1, 9, 3, {4, 5}, {6, 7}}, false},
      {"size", {1, 2, 9, {4, 5}, {6, 7}}, true},           {"modified, seconds", {1, 2, 3, {9, 5}, {6, 7}}, true},
      {"modified, rest", {1, 2, 3, {4, 9}, {6, 7}}, true}, {"changed, seconds", {1, 2, 3, {4, 5}, {9, 7}}, true},
      {"changed, rest", {1, 2, 3, {4, 5}, {6, 9}}, true},
  };
  EXPECT_TRUE(given == given);
  EXPECT_TRUE(given.same_file(given));
  for (const Case& which : cases) {
    EXPECT_FALSE(given == which.other) << which.name;
    EXPECT_EQ(given.same_file(which.other), which.same_file) << which.name;
    EXPECT_EQ(which.other.same_file(given), which.same_file) << which.name;
  }
}

TEST(Identity, IsTakenFromEachFieldOfTheSystemsAnswer) {
  struct stat status {};
  status.st_dev = 1;
  status.st_ino = 2;
  status.st_size = 3;
#if defined(__APPLE__)
  status.st_mtimespec = {4, 5};
  status.st_ctimespec = {6, 7};
#else
  status.st_mtim = {4, 5};
  status.st_ctim = {6, 7};
#endif
  EXPECT_EQ(identity_of(status), (Identity{1, 2, 3, {4, 5}, {6, 7}}));
}

}  // namespace
}  // namespace st::io
