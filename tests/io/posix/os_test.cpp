// Libraries that the process has already loaded.
// SPDX-License-Identifier: Apache-2.0
#include "io/os.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace st::io::os_test {
namespace {

TEST(SharedLibrary, IsFoundIfTheProcessHasIt) {
#if !defined(RTLD_NOLOAD)
  GTEST_SKIP() << "the system does not tell what is loaded";
#else
  Dl_info of_c_library{};
  ASSERT_NE(dladdr(dlsym(RTLD_NEXT, "getpid"), &of_c_library), 0);
  const SharedLibrary library = SharedLibrary::loaded(of_c_library.dli_fname);
  ASSERT_TRUE(library) << of_c_library.dli_fname;
  EXPECT_EQ(library.find("getpid"), dlsym(RTLD_NEXT, "getpid"));
  EXPECT_EQ(library.find("st_no_such_function"), nullptr);
  EXPECT_FALSE(SharedLibrary::loaded("libst-that-nobody-has.so"));
#endif
}

}  // namespace
}  // namespace st::io::os_test
