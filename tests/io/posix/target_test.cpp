// Who may read a file before it is replaced, and after.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/target.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "../faults.hpp"
#include "../files.hpp"
#include "../read_faults.hpp"
#include "../refuse.hpp"
#include "../system.hpp"
#include "io/posix/file.hpp"

namespace st::io::target_test {
namespace {

constexpr uid_t kOwner = 12001;
constexpr uid_t kEve = 12002;
constexpr uid_t kBob = 12003;
constexpr gid_t kGroup = 13001;
constexpr gid_t kOther = 13002;

// An access control list in the kernel's format for extended attributes.
enum Tag : std::uint16_t { kUserObj = 1, kUser = 2, kGroupObj = 4, kNamedGroup = 8, kMask = 16, kOthers = 32 };
struct Entry {
  std::uint16_t tag;
  std::uint16_t rights;
  std::uint32_t id = UINT32_MAX;
};

std::string list_of(const std::vector<Entry>& entries) {
  const std::uint32_t version = 2;
  std::string bytes(reinterpret_cast<const char*>(&version), sizeof version);
  bytes.append(reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(Entry));
  return bytes;
}

std::string attribute(const std::string& path, const char* name) {
  std::string value(4096, '\0');
  const ssize_t n = getxattr(path.c_str(), name, value.data(), value.size());
  value.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return value;
}

bool set(const std::string& path, const char* name, const std::string& value) {
  return setxattr(path.c_str(), name, value.data(), value.size(), 0) == 0;
}

constexpr const char* kList = "system.posix_acl_access";
constexpr const char* kFolderList = "system.posix_acl_default";

struct Rights {
  bool read;
  bool write;
  bool operator==(const Rights&) const = default;
};

// access() asks for the real user, so the test can stay root and needs no process of its own.
Rights rights(const std::string& path, uid_t user, gid_t group) {
  constexpr auto kSame = static_cast<id_t>(-1);
  EXPECT_EQ(setregid(group, kSame) | setreuid(user, kSame), 0);
  const Rights found{access(path.c_str(), R_OK) == 0, access(path.c_str(), W_OK) == 0};
  EXPECT_EQ(setreuid(0, kSame) | setregid(0, kSame), 0);
  return found;
}

class AccessTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  }
  void TearDown() override {
    faults::disarm();
    read_faults::disarm();
    FolderTest::TearDown();
  }
};

struct ListCase {
  const char* name;
  mode_t mode;
  std::vector<Entry> list;         // of the file
  std::vector<Entry> folder_list;  // given to new files
};

TEST_F(AccessTest, a_save_under_access_control_lists_lets_nobody_in) {
  if (!has_linux_io()) GTEST_SKIP() << "no access control lists and attributes in this build";
  if (!set(path("."), kFolderList, list_of({{kUserObj, 7}, {kGroupObj, 7}, {kOthers, 7}}))) {
    GTEST_SKIP() << "this filesystem has no access control lists";
  }
  removexattr(path(".").c_str(), kFolderList);
  const std::vector<ListCase> cases{
      {"the group is shut out, the mask is not",
       0640,
       {{kUserObj, 6}, {kUser, 6, kBob}, {kGroupObj, 0}, {kMask, 6}, {kOthers, 0}},
       {}},
      {"one user is shut out", 0644, {{kUserObj, 6}, {kUser, 0, kEve}, {kGroupObj, 4}, {kMask, 4}, {kOthers, 4}}, {}},
      {"one group is shut out",
       0644,
       {{kUserObj, 6}, {kGroupObj, 4}, {kNamedGroup, 0, kOther}, {kMask, 4}, {kOthers, 4}},
       {}},
      {"the folder lets more in than the file did",
       0640,
       {},
       {{kUserObj, 7}, {kUser, 7, kEve}, {kGroupObj, 7}, {kMask, 7}, {kOthers, 7}}},
      {"both have a list",
       0640,
       {{kUserObj, 6}, {kUser, 6, kBob}, {kGroupObj, 0}, {kMask, 6}, {kOthers, 0}},
       {{kUserObj, 7}, {kUser, 7, kEve}, {kGroupObj, 7}, {kMask, 7}, {kOthers, 7}}},
  };
  for (const bool nameless : {true, false}) {
    for (const ListCase& test : cases) {
      SCOPED_TRACE(std::string(test.name) + (nameless ? "" : ", named temp_file"));
      removexattr(path(".").c_str(), kFolderList);
      fs::remove(path());
      put(path(), "old");
      ASSERT_EQ(chmod(path().c_str(), test.mode) | chown(path().c_str(), kOwner, kGroup), 0);
      ASSERT_TRUE(test.list.empty() || set(path(), kList, list_of(test.list)));
      ASSERT_TRUE(test.folder_list.empty() || set(path("."), kFolderList, list_of(test.folder_list)));
      const std::string list = attribute(path(), kList);
      const mode_t mode = mode_of(path());
      const std::pair<uid_t, gid_t> people[] = {{kEve, kGroup}, {kEve, kOther}, {kBob, kOther}, {kBob, kGroup}};
      std::vector<Rights> before;
      for (const auto& [user, group] : people) before.push_back(rights(path(), user, group));
      faults::Plan kernel;
      kernel.no_nameless_files = !nameless;
      kernel.only_refusals = true;
      faults::arm(kernel);
      write(path(), "new");
      faults::disarm();
      EXPECT_EQ(contents(path()), "new");
      for (std::size_t i = 0; i < std::size(people); ++i) {
        EXPECT_EQ(rights(path(), people[i].first, people[i].second), before[i]) << i;
      }
      EXPECT_EQ(attribute(path(), kList), list);
      EXPECT_EQ(mode_of(path()), mode);
    }
  }
}

// Each call for a list or attribute fails once, or from then on. The new file must not admit any user whom the old one
// excluded.
TEST_F(AccessTest, lists_that_cannot_be_read_or_given_let_nobody_in) {
  if (!has_linux_io()) GTEST_SKIP() << "no access control lists and attributes in this build";
  const std::string list = list_of({{kUserObj, 6}, {kUser, 6, kBob}, {kGroupObj, 0}, {kMask, 6}, {kOthers, 0}});
  const std::string wide = list_of({{kUserObj, 7}, {kUser, 7, kEve}, {kGroupObj, 7}, {kMask, 7}, {kOthers, 7}});
  put(path(), "old");
  if (!set(path(), kList, list)) GTEST_SKIP() << "this filesystem has no access control lists";
  const std::pair<uid_t, gid_t> people[] = {{kEve, kGroup}, {kEve, kOther}, {kBob, kOther}};
  for (const bool has_list : {true, false}) {
    for (const char* const call : {"getxattr", "setxattr", "removexattr", "stat", "fstat"}) {
      for (const int error : {EACCES, EIO, ENOMEM}) {
        for (const std::size_t times : {std::size_t{1}, SIZE_MAX}) {
          bool reached = true;
          for (std::size_t at = 0; reached; ++at) {
            SCOPED_TRACE(formatted("{} {}, errno {}, {}", call, at, error, has_list));
            removexattr(path(".").c_str(), kFolderList);
            fs::remove(path());
            put(path(), "old");
            ASSERT_EQ(chmod(path().c_str(), 0600) | chown(path().c_str(), kOwner, kGroup), 0);
            ASSERT_TRUE(!has_list || set(path(), kList, list));
            ASSERT_TRUE(set(path("."), kFolderList, wide));
            read_faults::arm({call, at, times, error});
            const Error failed = error_of([&] { write(path(), "new"); });
            read_faults::disarm();
            reached = read_faults::calls() > at;
            EXPECT_EQ(contents(path()), failed.status == Status::ok ? "new" : "old") << failed.message;
            // Only Bob may have access, and only through the list.
            const std::size_t out = has_list && attribute(path(), kList) == list ? 2 : 3;
            for (std::size_t i = 0; i < out; ++i) {
              EXPECT_EQ(rights(path(), people[i].first, people[i].second), (Rights{false, false})) << i;
            }
          }
        }
      }
    }
  }
}

TEST_F(AccessTest, a_file_is_open_to_its_owner_only_until_it_takes_the_others_place) {
  put(path(), "old");
  chmod(path().c_str(), 0666);
  set(path("."), kFolderList, list_of({{kUserObj, 7}, {kUser, 7, kEve}, {kGroupObj, 7}, {kMask, 7}, {kOthers, 7}}));
  faults::Plan kernel;
  kernel.no_nameless_files = true;
  kernel.only_refusals = true;
  faults::arm(kernel);
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  file.write_at(0, "new", 3);
  int temp_files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() == "x") continue;
    ++temp_files;
    EXPECT_EQ(mode_of(entry.path()), 0600U);
    EXPECT_EQ(rights(entry.path(), kEve, kOther), (Rights{false, false}));
  }
  EXPECT_EQ(temp_files, 1);
  file.commit();
  EXPECT_EQ(mode_of(path()), 0666U);
}

TEST(Access, IsTheSameOnlyIfAllOfItIs) {
  const Access access{1, 2, 0644, {{{"list", "a"}}, {{"other", "b"}}, true}};
  EXPECT_TRUE(access == Access(access));
  void (*const changes[])(Access&) = {
      [](Access& a) { ++a.owner; },
      [](Access& a) { ++a.group; },
      [](Access& a) { ++a.mode; },
      [](Access& a) { a.attributes.lists[0].name += "x"; },
      [](Access& a) { a.attributes.lists[0].value += "x"; },
      [](Access& a) { a.attributes.lists.clear(); },
      [](Access& a) { a.attributes.others[0].value += "x"; },
      [](Access& a) { a.attributes.lists_known = false; },
  };
  for (const auto& change : changes) {
    Access changed = access;
    change(changed);
    EXPECT_FALSE(access == changed) << "change " << &change - changes;
  }
}

TEST_F(AccessTest, who_narrows_the_access_while_a_file_is_written_keeps_it_narrow) {
  put(path(), "old");
  AtomicFile file = AtomicFile::create(path().c_str(), {});
  AtomicFile absent = AtomicFile::create(path("y").c_str(), {});
  chmod(path().c_str(), 0600);
  put(path("y"), "secret");
  chmod(path("y").c_str(), 0600);
  file.commit();
  absent.commit();
  EXPECT_EQ(mode_of(path()), 0600U);
  EXPECT_EQ(mode_of(path("y")), 0600U);
}

TEST_F(AccessTest, a_replaced_file_runs_nothing_as_its_owner) {
  put(path(), "old");
  ASSERT_EQ(chmod(path().c_str(), 06755), 0);
  write(path(), "new");
  EXPECT_EQ(mode_of(path()), 0755U);
}

// The new file cannot get the old file's group, so the members of that group count as others.
TEST_F(AccessTest, a_group_with_fewer_rights_than_all_others_gains_none) {
  const struct {
    mode_t old;
    mode_t now;
  } cases[] = {{0606, 0600}, {0646, 0644}, {0626, 0622}, {0666, 0666}, {0676, 0666}, {0662, 0622}};
  for (const auto& [old, now] : cases) {
    SCOPED_TRACE(old);
    fs::remove(path());
    put(path(), "old");
    ASSERT_EQ(chmod(path().c_str(), old) | chown(path().c_str(), kOwner, kGroup), 0);
    const Rights before = rights(path(), kEve, kGroup);
    ASSERT_EQ(as_user(kBob, kOther, [&] { return error_of([&] { write(path(), "new"); }).os_error; }), 0);
    EXPECT_EQ(mode_of(path()), now);
    const Rights after = rights(path(), kEve, kGroup);
    EXPECT_TRUE((before.read || !after.read) && (before.write || !after.write));
  }
}

// A user who may not change the owner may still set one of their own groups. The group's rights are then kept.
TEST_F(AccessTest, a_member_of_the_group_hands_the_group_on) {
  const struct {
    gid_t own;
    bool member;
    gid_t group;
    mode_t mode;
  } cases[] = {{kOther, true, kGroup, 0664}, {kGroup, false, kGroup, 0664}, {kOther, false, kOther, 0644}};
  for (const auto& [own, member, group, mode] : cases) {
    SCOPED_TRACE(testing::Message() << own << ' ' << member);
    fs::remove(path());
    put(path(), "old");
    ASSERT_EQ(chmod(path().c_str(), 0664) | chown(path().c_str(), kOwner, kGroup), 0);
    const int result = in_child([&, own = own, member = member] {
      const gid_t more = kGroup;
      if (setgroups(member ? 1 : 0, &more) != 0 || setgid(own) != 0 || setuid(kBob) != 0) return 99;
      // Others may write to the file; otherwise they could not replace it.
      return error_of([&] { write(path(), "new"); }).os_error;
    });
    EXPECT_EQ(result, own == kGroup || member ? 0 : EACCES);
    struct stat status {};
    ASSERT_EQ(stat(path().c_str(), &status), 0);
    if (result != 0) continue;
    EXPECT_EQ(status.st_uid, kBob);
    EXPECT_EQ(status.st_gid, group);
    EXPECT_EQ(mode_of(path()), mode);
  }
}

// The replacement of a user's own file belongs to the same user, but initially has the group of new files.
TEST_F(AccessTest, the_owner_leaves_the_group_as_it_is) {
  put(path(), "old");
  ASSERT_EQ(chmod(path().c_str(), 0640) | chown(path().c_str(), static_cast<uid_t>(-1), kGroup), 0);
  write(path(), "new");
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, geteuid());
  EXPECT_EQ(status.st_gid, kGroup);
  EXPECT_EQ(mode_of(path()), 0640U);
}

// An inherited list is removed, and the file gets the mode of the file that it replaces.
TEST_F(AccessTest, a_file_without_a_list_gets_none_from_its_folder_and_keeps_its_mode) {
  if (!has_linux_io()) GTEST_SKIP() << "no access control lists and attributes in this build";
  const std::string list = list_of({{kUserObj, 7}, {kUser, 7, kEve}, {kGroupObj, 7}, {kMask, 7}, {kOthers, 7}});
  if (!set(path("."), kFolderList, list)) GTEST_SKIP() << "this filesystem has no access control lists";
  for (const mode_t mode : {0640U, 0644U, 0664U, 0600U, 0755U}) {
    removexattr(path(".").c_str(), kFolderList);
    fs::remove(path());
    put(path(), "old");
    ASSERT_EQ(chmod(path().c_str(), mode), 0);
    ASSERT_TRUE(set(path("."), kFolderList, list));
    write(path(), "new");
    EXPECT_EQ(contents(path()), "new");
    EXPECT_EQ(attribute(path(), kList), "");
    EXPECT_EQ(mode_of(path()), mode);
  }
}

// Another process changes the access between our two checks. Each time that happens, we check again.
TEST_F(AccessTest, access_that_changes_while_it_is_read_is_read_again) {
  put(path(), "old");
  const Descriptor inside(::open(path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct Change {
    const char* name;
    int (*apply)(const char* path);
  };
  const Change changes[] = {
      {"mode", [](const char* file) { return ::chmod(file, 0640); }},
      {"owner", [](const char* file) { return ::chown(file, kOwner, static_cast<gid_t>(-1)); }},
      {"group", [](const char* file) { return ::chown(file, static_cast<uid_t>(-1), kGroup); }},
      {"another file",
       [](const char* file) {
         const std::string other = std::string(file) + ".other";
         put(other, "other");
         return ::chmod(other.c_str(), 0600) | ::rename(other.c_str(), file);
       }},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name);
    ASSERT_EQ(chmod(path().c_str(), 0600) | chown(path().c_str(), 0, 0), 0);
    read_faults::Plan plan;
    plan.call = "stat";
    plan.before = [&](std::size_t number) {
      if (number != 1) return;  // the second check
      EXPECT_EQ(change.apply(path().c_str()), 0);
    };
    read_faults::arm(plan);
    const auto access = access_of(inside.get(), "x");
    read_faults::disarm();
    ASSERT_TRUE(access);
    struct stat now {};
    ASSERT_EQ(stat(path().c_str(), &now), 0);
    EXPECT_EQ(access->mode, now.st_mode & 0777);
    EXPECT_EQ(access->owner, now.st_uid);
    EXPECT_EQ(access->group, now.st_gid);
    EXPECT_TRUE(access->attributes.lists_known);
    EXPECT_GE(read_faults::calls(), 4U);  // twice before and after
  }
  // If the changes never stop, the file gets the narrowest access.
  read_faults::Plan plan;
  plan.call = "stat";
  plan.before = [&](std::size_t number) { chmod(path().c_str(), number % 2 == 0 ? 0600 : 0644); };
  read_faults::arm(plan);
  const auto access = access_of(inside.get(), "x");
  read_faults::disarm();
  ASSERT_TRUE(access);
  EXPECT_FALSE(access->attributes.lists_known);
}

// In a user namespace, this number also stands for every user without a number there.
TEST_F(AccessTest, nobody_stays_the_owner_where_that_is_a_user) {
  struct stat status {};
  constexpr ino_t kFirstNamespace = 0xEFFFFFFD;
  if (stat("/proc/self/ns/user", &status) != 0 || status.st_ino != kFirstNamespace) {
    GTEST_SKIP() << "65534 is not a user of its own in this user namespace";
  }
  put(path(), "old");
  ASSERT_EQ(chown(path().c_str(), 65534, 65534), 0);
  write(path(), "new");
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 65534U);
  EXPECT_EQ(status.st_gid, 65534U);
}

TEST_F(AccessTest, a_file_that_cannot_be_looked_at_is_not_taken_for_an_absent_one) {
  put(path(), "old");
  read_faults::arm({"stat", 0, 1, EIO});
  const Error error = error_of([&] { static_cast<void>(access_of(AT_FDCWD, path())); });
  read_faults::disarm();
  EXPECT_EQ(error.os_error, EIO);
}

// The users in that list would gain access when the group's rights are restored.
TEST_F(AccessTest, a_file_keeps_no_list_of_its_folder_if_the_old_files_is_unknown) {
  if (!has_linux_io()) GTEST_SKIP() << "no access control lists and attributes in this build";
  const std::string wide = list_of({{kUserObj, 7}, {kUser, 7, kEve}, {kGroupObj, 7}, {kMask, 7}, {kOthers, 7}});
  if (!set(path("."), kFolderList, wide)) GTEST_SKIP() << "this filesystem has no access control lists";
  put(path(), "new");
  const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(give_access(file.get(), {geteuid(), getegid(), 0640, {{}, {}, false}}), 0);
  EXPECT_EQ(attribute(path(), kList), "");
  EXPECT_EQ(mode_of(path()), 0600U);
  // Nor is the mode restored if the new file's list is unknown.
  read_faults::arm({"getxattr", 0, 1, EIO});
  EXPECT_EQ(give_access(file.get(), {geteuid(), getegid(), 0640, {{}, {}, true}}), 0);
  read_faults::disarm();
  EXPECT_EQ(mode_of(path()), 0600U);
}

TEST_F(AccessTest, a_file_that_cannot_be_looked_at_is_given_no_access) {
  put(path(), "new");
  const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  for (const std::size_t look : {0U, 1U, 2U}) {
    read_faults::arm({"fstat", look, 1, EIO});
    const int error = give_access(file.get(), {});
    read_faults::disarm();
    if (read_faults::calls() == 0) GTEST_SKIP() << "fstat cannot be made to fail here";
    EXPECT_EQ(error, EIO) << look;
  }
}

TEST_F(AccessTest, a_list_that_speaks_of_another_group_is_not_kept) {
  put(path(), "old");
  const std::string list = list_of({{kUserObj, 6}, {kUser, 6, kBob}, {kGroupObj, 6}, {kMask, 6}, {kOthers, 0}});
  if (!set(path(), kList, list)) GTEST_SKIP() << "this filesystem has no access control lists";
  ASSERT_EQ(chown(path().c_str(), kOwner, kGroup), 0);
  ASSERT_EQ(as_user(kBob, kOther, [&] { return error_of([&] { write(path(), "new"); }).os_error; }), 0);
  EXPECT_EQ(attribute(path(), kList), "");
  EXPECT_EQ(mode_of(path()), 0600U);
}

// Security modules log each refused attempt to set a list.
TEST_F(AccessTest, a_list_that_a_file_has_already_is_not_set) {
  if (!has_linux_io()) GTEST_SKIP() << "no access control lists and attributes in this build";
  put(path(), "old");
  const std::string list = list_of({{kUserObj, 6}, {kUser, 6, kBob}, {kGroupObj, 4}, {kMask, 6}, {kOthers, 0}});
  if (!set(path(), kList, list)) GTEST_SKIP() << "this filesystem has no access control lists";
  const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  const int given = in_child([&] {
    if (!refuse({SYS_fsetxattr}, EPERM)) return 255;
    return give_lists(file.get(), {{kList, list}}) ? 1 : 0;
  });
  if (given == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(given, 1);
}

// A file that has an attribute.
class AttributesTest : public AccessTest {
 protected:
  void SetUp() override {
    AccessTest::SetUp();
    if (IsSkipped()) return;
    if (!has_linux_io()) GTEST_SKIP() << "no access control lists and attributes in this build";
    put(path(), "old");
    if (!set(path(), "user.note", "mine")) GTEST_SKIP() << "this filesystem has no extended attributes";
    inside_ = Descriptor(::open(path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }

  int count(const char* name) const { return static_cast<int>(attributes_of(inside_.get(), name).others.size()); }

  Descriptor inside_;
};

TEST_F(AttributesTest, are_kept_but_those_of_the_bytes) {
  ASSERT_TRUE(set(path(), "user.empty", "") && set(path(), "user.long", std::string(3000, 'l')));
  ASSERT_TRUE(set(path(), "security.test", "label"));
  const std::string capability("\1\0\0\2\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
  ASSERT_TRUE(set(path(), "security.capability", capability));
  write(path(), "new");
  EXPECT_EQ(attribute(path(), "user.note"), "mine");
  EXPECT_GE(getxattr(path().c_str(), "user.empty", nullptr, 0), 0);
  EXPECT_EQ(attribute(path(), "user.long"), std::string(3000, 'l'));
  EXPECT_EQ(attribute(path(), "security.test"), "label");
  EXPECT_EQ(attribute(path(), "security.capability"), "");
}

TEST_F(AttributesTest, take_no_descriptor) {
  const int found = in_child([&] {
    const rlimit none{0, 0};
    return setrlimit(RLIMIT_NOFILE, &none) != 0 ? 99 : count("x");
  });
  EXPECT_EQ(found, 1);
}

TEST_F(AttributesTest, are_found_where_proc_is_not_mounted) {
  const int found = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
      return 255;
    }
    return count("x");
  });
  if (found == 255) GTEST_SKIP() << "/proc cannot be hidden here";
  EXPECT_EQ(found, 1);
}

// A container may have the /proc of another one.
TEST_F(AttributesTest, are_those_of_the_file_itself_where_proc_shows_others) {
  const std::string shown = path(formatted("proc/thread-self/fd/{}", inside_.get()));
  fs::create_directories(shown);
  put(shown + "/x", "another's");
  const int found = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount(path("proc").c_str(), "/proc", nullptr, MS_BIND, nullptr) != 0) {
      return 255;
    }
    return count("x");
  });
  if (found == 255) GTEST_SKIP() << "/proc cannot be replaced here";
  EXPECT_EQ(found, 1);
}

TEST_F(AttributesTest, that_a_file_has_already_are_changed) {
  const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  give_others(file.get(), {{"user.note", "another"}});
  EXPECT_EQ(attribute(path(), "user.note"), "another");
}

// Then by its descriptor, which must not be a descriptor of the link's target.
TEST_F(AttributesTest, are_those_of_the_file_itself_where_proc_is_out_of_reach) {
  fs::create_symlink("x", path("link"));
  std::vector<long> looks;
#if defined(SYS_newfstatat)
  looks.push_back(SYS_newfstatat);
#endif
#if defined(SYS_lstat)
  looks.push_back(SYS_lstat);
#endif
  const int result = in_child([&] {
    struct stat status {};
    if (!refuse(looks, EACCES) || lstat(path().c_str(), &status) == 0 || errno != EACCES) return 255;
    return 10 * count("x") + count("link");
  });
  if (result == 255) GTEST_SKIP() << "looking at files cannot be refused here";
  EXPECT_EQ(result, 10);
}

}  // namespace
}  // namespace st::io::target_test
