#include "command/train/run_set.h"

#include <gtest/gtest.h>

#include <set>

namespace stretto::command {
namespace {

TEST(RunSet, EveryRepeatHasAllGroupsAndAnotherOneFirst) {
  std::set<std::size_t> first;
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::set<std::size_t> groups;
    for (std::size_t position = 0; position < 3; ++position) groups.insert(rotated(position, repeat, 3));
    EXPECT_EQ(groups.size(), 3u);
    first.insert(rotated(0, repeat, 3));
  }
  EXPECT_EQ(first.size(), 3u);
}

TEST(RunSet, FolderNamesAreTame) {
  EXPECT_EQ(folder_name("eager-quorum:2"), "eager-quorum-2");
  EXPECT_EQ(folder_name("eager-deadline:4,20ms"), "eager-deadline-4-20ms");
  EXPECT_EQ(folder_name("max_lag 4"), "max_lag-4");
  EXPECT_EQ(folder_name("../x"), "..-x");
}

}  // namespace
}  // namespace stretto::command
