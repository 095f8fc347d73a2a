// SPDX-License-Identifier: Apache-2.0
#include "failure.hpp"

#include <gtest/gtest.h>

namespace cli {
namespace {

safetensors::Error error(st_status status, int os_error = 0) {
  return {status, "two and two are five", UINT64_MAX, os_error};
}

TEST(Failure, HasTheExitCodeOfTheStatus) {
  EXPECT_EQ(exit_code_of(error(ST_ERR_ARGUMENT)), kUsage);
  EXPECT_EQ(exit_code_of(error(ST_ERR_OPEN, 2)), kUnreadable);
  EXPECT_EQ(exit_code_of(error(ST_ERR_JSON)), kBadFile);
  EXPECT_EQ(exit_code_of(error(ST_ERR_INTERNAL)), kDefect);
}

TEST(Failure, OfAMissingShardIsNotABadFile) { EXPECT_EQ(exit_code_of(error(ST_ERR_SHARD, 2)), kUnreadable); }

TEST(Failure, OfALockedFileIsNoUsageError) { EXPECT_EQ(exit_code_of(error(ST_ERR_STATE)), kUnreadable); }

TEST(Failure, NamesThePathOnceAndTheStatus) {
  const Failure failure = failure_in("a.safetensors", error(ST_ERR_INTERNAL));
  EXPECT_EQ(failure.code, kDefect);
  EXPECT_EQ(failure.line, "a.safetensors: two and two are five (ST_ERR_INTERNAL)");
  const safetensors::Error named(ST_ERR_OPEN, "'a.safetensors': no such file");
  EXPECT_EQ(failure_in("a.safetensors", named).line, "'a.safetensors': no such file (ST_ERR_OPEN)");
}

}  // namespace
}  // namespace cli
