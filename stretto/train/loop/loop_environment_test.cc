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
    for (const char* name :
         {"STRETTO_ALGORITHM", "STRETTO_RANKS", "STRETTO_SEATS", "STRETTO_SEED", "STRETTO_IMBALANCE", "STRETTO_OUT"})
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
  ::setenv("STRETTO_SEATS", "2", 1);
  ::setenv("STRETTO_SEED", "7", 1);
  ::setenv("STRETTO_IMBALANCE", "rotate:1ms..4ms", 1);
  ::setenv("STRETTO_OUT", "", 1);
  const LoopEnvironment there = loop_environment();
  EXPECT_EQ(there.algorithm, "eager-quorum:3");
  EXPECT_EQ(there.ranks, 5);
  EXPECT_EQ(there.seats, 2);
  EXPECT_EQ(there.seed, 7u);
  EXPECT_EQ(there.imbalance, "rotate:1ms..4ms");
  EXPECT_EQ(there.out, "") << "empty is as good as not set";
}

TEST_F(LoopEnvironmentTest, WhatIsNoNumberIsRefused) {
  for (const char* value : {"0", "-1", "two", "4x", " 4", "99999999999999999999"}) {
    EXPECT_THAT(complaint("STRETTO_RANKS", value),
                HasSubstr("expected a whole number from 1 to 1024, as in STRETTO_RANKS=4"))
        << value;
  }
  EXPECT_THAT(complaint("STRETTO_SEED", "-3"), HasSubstr("STRETTO_SEED=-3: expected a whole number from 0"));
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

TEST_F(LoopEnvironmentTest, SeatsReachTheRecipeFromTheOptionsOrInTheirPlace) {
  const auto seats = [](int of_options, std::optional<int> of_environment) {
    LoopEnvironment environment;
    environment.seats = of_environment;
    return session_options(overridden({.seats = of_options}, environment), 4).recipe_options.seats;
  };
  EXPECT_EQ(seats(0, std::nullopt), 0);
  EXPECT_EQ(seats(2, std::nullopt), 2);
  EXPECT_EQ(seats(2, 1), 1);
  EXPECT_THROW(seats(5, std::nullopt), UsageError);
}

}  // namespace
}  // namespace stretto
