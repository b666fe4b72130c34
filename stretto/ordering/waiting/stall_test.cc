#include "stretto/ordering/waiting/stall.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(StallReport, NamesTensorsRanksAndWhatTheseDo) {
  StallReport report;
  report.tensors = {{"norm.3", {0, 1}, {2}}, {"head", {2}, {0, 1}}};
  EXPECT_EQ(report.circle(), "norm.3: ranks 0, 1 wait, rank 2 has not; head: rank 2 waits, ranks 0, 1 have not");
  report.tensors.pop_back();
  report.ranks = {{0, "waits for norm.3"}, {1, "computes"}, {2, "waits for head"}};
  EXPECT_EQ(report.to_text(), "norm.3: ranks 0, 1 have it, rank 2 has not; rank 2 waits for head");
  report.tensors[0].lacking = {1, 2};
  report.tensors[0].waiting = {0};
  EXPECT_EQ(report.to_text(), "norm.3: rank 0 has it, ranks 1, 2 have not; rank 1 computes; rank 2 waits for head");
}

}  // namespace
}  // namespace stretto
