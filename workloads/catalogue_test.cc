#include "workloads/catalogue.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "stretto/base/error.h"

namespace stretto {
namespace {

TEST(Catalogue, EveryWorkloadHasDefaultsThatCanBeRun) {
  std::set<std::string_view> names;
  for (const WorkloadInfo& info : workload_catalogue()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(&workload_info(info.name), &info);
    EXPECT_FALSE(info.description.empty());
    EXPECT_FALSE(info.unit.empty());
    EXPECT_FALSE(info.needs.empty());
    EXPECT_GT(info.batch, 0);
    EXPECT_GT(info.lr, 0);
    EXPECT_GE(info.momentum, 0);
    EXPECT_LT(info.momentum, 1);
    EXPECT_GT(info.epochs, 0u);
  }
  EXPECT_THAT(names, testing::ElementsAre("branches", "digits", "digits-conv", "digits-wide", "hyperplane", "plaid",
                                          "resnet-small", "vowels"));
}

TEST(Catalogue, UnknownNameIsAnsweredWithTheKnownOnes) {
  try {
    workload_info("vowel");
    FAIL() << "no exception";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "unknown workload 'vowel'; there are branches, digits, digits-conv, digits-wide, hyperplane, plaid, "
                 "resnet-small, vowels");
  }
}

}  // namespace
}  // namespace stretto
