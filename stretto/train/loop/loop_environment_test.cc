#include "stretto/train/loop/loop_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "stretto/base/error.h"
#include "stretto/train/loop/session_options.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto {
namespace {

using testing::HasSubstr;

class LoopEnvironmentTest : public testing::Test {
 protected:
  ~LoopEnvironmentTest() override {
    for (const char* name : {"STRETTO_ALGORITHM", "STRETTO_RANKS", "STRETTO_SEED", "STRETTO_IMBALANCE", "STRETTO_OUT"})
      ::unsetenv(name);
  }
  static std::string complaint(const char* name, const char* value) {
    ::setenv(name, value, 1);
    std::string said;
    try {
      loop_environment();
    } catch (const UsageError& error) {
      said = error.what();
    }
    ::unsetenv(name);
    return said;
  }
};

TEST_F(LoopEnvironmentTest, SaysWhatIsSet) {
  EXPECT_FALSE(loop_environment().algorithm);
  EXPECT_FALSE(loop_environment().ranks);
  ::setenv("STRETTO_ALGORITHM", "eager-quorum:3", 1);
  ::setenv("STRETTO_RANKS", "5", 1);
  ::setenv("STRETTO_SEED", "7", 1);
  ::setenv("STRETTO_IMBALANCE", "rotate:1ms..4ms", 1);
  ::setenv("STRETTO_OUT", "", 1);
  const LoopEnvironment there = loop_environment();
  EXPECT_EQ(there.algorithm, "eager-quorum:3");
  EXPECT_EQ(there.ranks, 5);
  EXPECT_EQ(there.seed, 7u);
  EXPECT_EQ(there.imbalance, "rotate:1ms..4ms");
  EXPECT_EQ(there.out, "") << "empty is as good as not set";
}

TEST_F(LoopEnvironmentTest, WhatIsNoNumberIsRefused) {
  for (const char* value : {"0", "-1", "two", "4x", " 4", "99999999999999999999"}) {
    EXPECT_THAT(complaint("STRETTO_RANKS", value), HasSubstr("expected a number from 1 to")) << value;
  }
  EXPECT_THAT(complaint("STRETTO_SEED", "-3"), HasSubstr("STRETTO_SEED=-3: expected a number"));
  EXPECT_EQ(complaint("STRETTO_SEED", "0"), "");
}

TEST_F(LoopEnvironmentTest, AnyProgramsOptionsFitAnyAlgorithm) {
  DistributedOptions all[] = {{.algorithm = "sync", .overlap = true},
                              {.algorithm = "eager-quorum", .quorum = 2},
                              {.algorithm = "local", .sync_every = 4},
                              {.algorithm = "sync", .normalize = Normalize::ranks}};
  for (const DistributedOptions& options : all) {
    EXPECT_NO_THROW(session_options(options, 4)) << options.algorithm;
    for (const std::string& algorithm : algorithm_names()) {
      LoopEnvironment environment;
      environment.algorithm = algorithm == "eager-deadline" ? "eager-deadline:2,5ms"
                              : algorithm == "ssp"          ? "ssp:2"
                              : algorithm == "k-sync"       ? "k-sync:2"
                                                            : algorithm;
      environment.seed = 2;
      const DistributedOptions here = overridden(options, environment);
      EXPECT_EQ(here.algorithm, *environment.algorithm);
      EXPECT_EQ(here.seed, draws(here) ? 2u : 0u) << algorithm;
      EXPECT_NO_THROW(session_options(here, 4)) << options.algorithm << " as " << algorithm;
    }
  }
  EXPECT_EQ(overridden(all[1], {}).quorum, 2);
}

}  // namespace
}  // namespace stretto
