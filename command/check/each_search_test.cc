#include "command/check/each_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::command {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

TEST(EachSearch, AViolationKeepsNoOtherCollectiveFromBeingSearched) {
  const std::vector<std::string> names{"partial", "group", "buckets", "server"};
  std::vector<std::string> searched;
  const auto found_in = not_clean(names, [&](const std::string& name) {
    searched.push_back(name);
    return name == "group" || name == "server";
  });
  EXPECT_THAT(searched, ElementsAreArray(names));
  EXPECT_THAT(found_in, ElementsAre("partial", "buckets"));
}

}  // namespace
}  // namespace stretto::command
