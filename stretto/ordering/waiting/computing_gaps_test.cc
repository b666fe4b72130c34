#include <gtest/gtest.h>

#include "stretto/ordering/waiting/rank_patience.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

class ComputingGapsTest : public ::testing::Test {
 protected:
  void submit_after(Duration time) { gaps_.submitted(now_ = now_ + time, patience_); }
  void wait(int set) { patience_.waits(set, RankPatience::Wait{set, "t", now_}); }
  void go_on(int set) { patience_.waits(set, std::nullopt); }

  RankPatience patience_;
  ComputingGaps gaps_;
  TimePoint now_;
};

TEST_F(ComputingGapsTest, AreBetweenTheTensorsOfAStep) {
  submit_after(9s);
  EXPECT_EQ(gaps_.longest(), 0s) << "before the first";
  submit_after(2s);
  submit_after(1s);
  EXPECT_EQ(gaps_.longest(), 2s);
  gaps_.clear();
  EXPECT_EQ(gaps_.longest(), 0s);
  submit_after(5s);
  EXPECT_EQ(gaps_.longest(), 0s);
}

TEST_F(ComputingGapsTest, DoNotCountWaitsForWhateverProcessSet) {
  submit_after(0s);
  wait(1);
  go_on(1);
  submit_after(3s);
  EXPECT_EQ(gaps_.longest(), 0s);
  wait(2);  // begins in one look with the submission before it
  submit_after(0s);
  go_on(2);
  submit_after(4s);
  EXPECT_EQ(gaps_.longest(), 0s);
  submit_after(1s);
  EXPECT_EQ(gaps_.longest(), 1s);
}

}  // namespace
}  // namespace stretto
