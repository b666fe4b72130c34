#include "stretto/train/options/option_table.h"

#include <gtest/gtest.h>

#include <set>

namespace stretto {
namespace {

TEST(JobOptions, EachHasANameOfItsOwnAPlaceAndAnExampleThatFits) {
  std::set<std::string> names;
  for (const JobOption& option : job_options()) {
    EXPECT_TRUE(names.insert(option.key()).second) << option.name;
    EXPECT_TRUE(option.train.index() != 0 || option.loop.index() != 0) << option.name;
    EXPECT_NO_THROW(check_value(option, std::string(option.example))) << option.name;
  }
}

}  // namespace
}  // namespace stretto
