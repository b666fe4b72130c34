#include "stretto/predict/fine/shared_link.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace stretto {
namespace {

using Ends = std::vector<std::pair<int, double>>;

/// Runs until no flow is left; each worker has one.
Ends run_out(SharedLink& link) {
  Ends ends;
  while (!link.empty()) {
    const int worker = link.first();
    const double now = link.earliest();
    link.finish(now, std::nullopt);
    ends.emplace_back(worker, now);
  }
  return ends;
}

TEST(EqualShares, DividesTheRateAmongThoseThatTransfer) {
  const auto link = make_link(LinkSharing::equal_shares, 1);
  link->begin(0, 0, 1);
  link->begin(1.0 / 2, 1, 1);  // worker 0 has half of its work left, and half of the rate
  EXPECT_EQ(run_out(*link), (Ends{{0, 1.5}, {1, 2}}));
}

TEST(EqualShares, LimitsAFlowThatHasTheLinkForItself) {
  const auto link = make_link(LinkSharing::equal_shares, 0.25);
  for (int worker = 0; worker < 4; ++worker) link->begin(0, worker, 1);
  EXPECT_EQ(run_out(*link), (Ends{{0, 4}, {1, 4}, {2, 4}, {3, 4}}));  // and four use it up
  link->begin(10, 0, 1);
  EXPECT_EQ(run_out(*link), (Ends{{0, 14}}));
}

TEST(EqualShares, KeepsTheDigitsOfShortTransfersAfterLongOnes) {
  const auto link = make_link(LinkSharing::equal_shares, 1);
  link->begin(0, 0, 1e12);
  EXPECT_EQ(run_out(*link), (Ends{{0, 1e12}}));
  link->begin(0, 0, 1e-6);
  EXPECT_EQ(run_out(*link), (Ends{{0, 1e-6}}));
}

TEST(InOrder, ServesThoseThatCameFirst) {
  const auto link = make_link(LinkSharing::in_order, 1);
  link->begin(0, 2, 3);
  link->begin(1, 0, 1);
  link->begin(1, 1, 1);
  EXPECT_EQ(run_out(*link), (Ends{{2, 3}, {0, 4}, {1, 5}}));
}

TEST(InOrder, GivesTheLastOfThoseServedWhatIsLeft) {
  const auto link = make_link(LinkSharing::in_order, 0.4);  // 0.4, 0.4, 0.2; the fourth waits
  for (int worker = 0; worker < 4; ++worker) link->begin(0, worker, 0.4);
  const Ends ends = run_out(*link);
  ASSERT_EQ(ends.size(), 4U);
  EXPECT_EQ(ends[0], (std::pair(0, 1.0)));
  EXPECT_EQ(ends[1], (std::pair(1, 1.0)));
  EXPECT_EQ(ends[2].first, 2);
  EXPECT_NEAR(ends[2].second, 1.5, 1e-12);  // 0.2 of its 0.4 at the rate 0.2, the rest at 0.4
  EXPECT_EQ(ends[3].first, 3);
  EXPECT_NEAR(ends[3].second, 2, 1e-12);
}

TEST(InOrder, UsesUpTheRateWithoutARestOfRounding) {
  const auto link = make_link(LinkSharing::in_order, 0.1);
  for (int worker = 0; worker < 11; ++worker) link->begin(0, worker, 0.1);
  const Ends ends = run_out(*link);
  EXPECT_NEAR(ends[9].second, 1, 1e-12);
  EXPECT_NEAR(ends[10].second, 2, 1e-12);  // not served by what rounding leaves of the rate
}

TEST(InOrder, ServesAsManyAtOnceAsThereAreWhereTheLimitIsLow) {
  const auto link = make_link(LinkSharing::in_order, 1e-15);
  for (int worker = 0; worker < 3; ++worker) link->begin(0, worker, 1);
  const Ends ends = run_out(*link);
  ASSERT_EQ(ends.size(), 3U);
  for (const auto& [worker, end] : ends) EXPECT_NEAR(end, 1e15, 1e3);
}

TEST(BothLinks, KeepThePlaceOfAWorkerThatHasMore) {
  const auto in_order = make_link(LinkSharing::in_order, 1);
  in_order->begin(0, 0, 1);
  in_order->begin(0, 1, 1);
  in_order->finish(1, 2);
  EXPECT_EQ(run_out(*in_order), (Ends{{0, 3}, {1, 4}}));

  const auto equal = make_link(LinkSharing::equal_shares, 1);
  equal->begin(0, 0, 1);
  equal->begin(0, 1, 2);
  equal->finish(2, 1);
  EXPECT_EQ(run_out(*equal), (Ends{{0, 4}, {1, 4}}));
}

TEST(BothLinks, EndATransferWithoutWorkAtOnce) {
  for (const LinkSharing sharing : {LinkSharing::equal_shares, LinkSharing::in_order}) {
    const auto link = make_link(sharing, 1);
    link->begin(5, 0, 0);
    EXPECT_EQ(run_out(*link), (Ends{{0, 5}}));
  }
}

}  // namespace
}  // namespace stretto
