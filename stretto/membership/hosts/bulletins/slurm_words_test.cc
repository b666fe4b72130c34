#include "stretto/membership/hosts/bulletins/slurm_words.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(SlurmWords, TheFirstNodeOfAList) {
  EXPECT_EQ(first_node("n1"), "n1");
  EXPECT_EQ(first_node("n1,n2"), "n1");
  EXPECT_EQ(first_node("n[1-3,7],m2"), "n1");
  EXPECT_EQ(first_node("n[07,9-11]"), "n07");
  EXPECT_EQ(first_node("m2,n[1-3]"), "m2");
  EXPECT_EQ(first_node("r[2-3]n[4-5]-ib"), "r2n4-ib");
  EXPECT_EQ(first_node("n[3]"), "n3");
  for (const char* bad : {"", ",n1", "n[1-3", "n[]", "n[a-b]", "n1]", "n[-3]"}) EXPECT_EQ(first_node(bad), "") << bad;
}

TEST(SlurmWords, HowManyTasksANodeHas) {
  EXPECT_EQ(tasks_on(0, "3"), 3);
  EXPECT_EQ(tasks_on(1, "3"), std::nullopt);
  EXPECT_EQ(tasks_on(0, "4(x2),3"), 4);
  EXPECT_EQ(tasks_on(1, "4(x2),3"), 4);
  EXPECT_EQ(tasks_on(2, "4(x2),3"), 3);
  EXPECT_EQ(tasks_on(3, "4(x2),3"), std::nullopt);
  for (const char* bad : {"", "x", "4(x", "4(2)", "4(x2", ",3"}) EXPECT_EQ(tasks_on(0, bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace stretto
