#include "stretto/ordering/stall.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(StallReport, NamesTensorsRanksAndWhatTheseDo) {
  StallReport report;
  report.tensors = {{"norm.3", {0, 1}, {2}}, {"head", {2}, {0, 1}}};
  EXPECT_EQ(report.circle(), "norm.3: ranks 0, 1 wait, rank 2 has not; head: rank 2 waits, ranks 0, 1 have not");
  report.tensors.pop_back();
  report.ranks = {{0, false, "norm.3"}, {1, false, ""}, {2, false, "head"}};
  EXPECT_EQ(report.to_text(), "norm.3: ranks 0, 1 wait, rank 2 has not; rank 2 waits for head");
  report.ranks[2] = {2, false, ""};
  EXPECT_EQ(report.to_text(), "norm.3: ranks 0, 1 wait, rank 2 has not; rank 2 computes");
  report.ranks[2] = {2, true, ""};
  EXPECT_EQ(report.to_text(), "norm.3: ranks 0, 1 wait, rank 2 has not; rank 2 has ended the step");
}

}  // namespace
}  // namespace stretto
