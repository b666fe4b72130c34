#include "stretto/train/simulated/churn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(Churn, ReadsWhatItWrites) {
  for (const char* written : {"life=2h,notice=0.5", "life=30min,back=never,detect=1s", "loss=1@20s,leave=0@30s",
                              "back=10s,life=1s,loss=2@0s"}) {
    const std::string text = to_text(parse_churn(written, 3));
    EXPECT_EQ(to_text(parse_churn(text, 3)), text) << written;
  }
  const Churn churn = parse_churn("life=2h,notice=0.5,loss=1@20s", 2);
  EXPECT_EQ(churn.life, Duration(2h));
  EXPECT_EQ(churn.notice, 0.5);
  EXPECT_EQ(churn.back, Duration(0));
  ASSERT_EQ(churn.planned.size(), 1u);
  EXPECT_EQ(churn.planned[0].at, Duration(20s));
  EXPECT_FALSE(parse_churn("life=1s,back=never", 2).back.has_value());
}

TEST(Churn, RefusesWhatItDoesNotKnow) {
  for (const char* written :
       {"life=0s", "life=-1s", "life", "lives=2h", "life=2h,notice=1.5", "life=2h,notice=-0.5", "life=2h,notice=nan",
        "life=2h,", "back=1s", "loss=3@1s", "loss=-1@1s", "loss=1", "leave=a@1s", "life=2h,back=soon", ""}) {
    try {
      parse_churn(written, 3);
      ADD_FAILURE() << written << " is taken";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("life=2h,notice=0.5")) << written;
    }
  }
}

TEST(Churn, DrawsLivesByTheSeedWithTheirMean) {
  const Churn churn = parse_churn("life=100s,notice=0.25", 2);
  constexpr int kProcesses = 20'000;
  double sum = 0, leave = 0;
  for (std::uint64_t number = 0; number < kProcesses; ++number) {
    const Churn::End end = churn.end_of(7, number), again = churn.end_of(7, number);
    ASSERT_TRUE(end.after.has_value());
    EXPECT_EQ(end.after, again.after);
    sum += seconds(*end.after);
    leave += end.leaves;
  }
  EXPECT_NEAR(sum / kProcesses, 100, 3);  // four standard deviations
  EXPECT_NEAR(leave / kProcesses, 0.25, 0.0125);
  EXPECT_NE(churn.end_of(7, 0).after, churn.end_of(8, 0).after);
  EXPECT_FALSE(parse_churn("loss=0@1s", 2).end_of(7, 0).after.has_value());
}

}  // namespace
}  // namespace stretto
