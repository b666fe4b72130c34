// Members that change in virtual time: each batch in one result, equal replicas, the same bits for the same seed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/train/job/members/line_worlds.h"
#include "stretto/train/job/run.h"
#include "stretto/train/job/summary_json.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SimulatedMembersRun : public testing::Test {
 protected:
  SimulatedMembersRun() { ::alarm(100); }
  ~SimulatedMembersRun() override { ::alarm(0); }

  static TrainOptions options(const std::string& algorithm, const std::string& churn) {
    TrainOptions options{.algorithm = algorithm, .ranks = 5, .least = 1, .epochs = 25};
    options.simulated = true;
    options.pace = std::chrono::milliseconds(1);
    options.churn = churn;
    return options;
  }
  static RunSummary run(const TrainOptions& options) {
    return *run_training(options, *linear_task(), {.progress = [](const RunProgress&) {}});
  }
  static void expect_whole(const RunSummary& summary, const std::string& what) {
    EXPECT_EQ(summary.deposits.applied, kBatches) << what;
    EXPECT_GE(summary.deposits.made, kBatches) << what;
    EXPECT_EQ(summary.deposits.lost, 0) << what;
    EXPECT_TRUE(summary.replicas_identical) << what;
    ASSERT_TRUE(summary.members.has_value()) << what;
    const auto& batches = summary.members->batches;
    EXPECT_EQ(std::accumulate(batches.begin(), batches.end(), std::uint64_t{0}), kBatches) << what;
  }
  static std::string complaint(const TrainOptions& options) {
    try {
      run(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing";
  }

  static void expect_repeats(const std::string& algorithm);

  static constexpr std::uint64_t kBatches = 400;  // 25 epochs of 64 samples, 4 a batch
};

TEST_F(SimulatedMembersRun, GoOnWithoutOneThatIsLost) {
  for (const char* algorithm : {"sync", "eager-quorum", "local"}) {
    const RunSummary summary = run(options(algorithm, "loss=1@100ms,back=never"));
    expect_whole(summary, algorithm);
    ASSERT_EQ(summary.members->worlds.size(), 2u) << algorithm;
    EXPECT_THAT(summary.members->worlds[1].members, ElementsAre(0u, 4u, 2u, 3u)) << algorithm;
    EXPECT_GE(summary.members->worlds[1].seconds, 0.1) << algorithm;
    EXPECT_GT(summary.members->batches[0], summary.members->batches[1]) << algorithm;
  }
}

TEST_F(SimulatedMembersRun, ComeLeaveAndAreLostWithoutLosingABatch) {
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum", "diloco", "wagma"}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      TrainOptions churned = options(algorithm, "life=150ms,notice=0.5,back=20ms,detect=3ms");
      // Batches of a whole phase are in a lost hand: those that three members have lost are dropped (rule 13).
      if (std::string(algorithm) == "diloco") churned.churn = "life=100ms,notice=0.5,back=20ms,detect=3ms";
      churned.seed = seed;
      const RunSummary summary = run(churned);
      expect_whole(summary, text(algorithm, ", seed ", seed));
      EXPECT_GT(summary.members->batches.size(), 6u) << "others have come, by numbers of their own";
    }
  }
}

// A rank that is lost stops nobody: the others meet after 100 steps, or at the end. Who stays in a line stays in its
// world.
TEST_F(SimulatedMembersRun, LeaveTheLinesOfALostRankBesideTraining) {
  for (const int ranks : {4, 5, 9, 12}) {
    TrainOptions grid = options("easgd-grid", "loss=1@8ms,loss=3@15ms,detect=2ms,back=never");
    grid.ranks = ranks;
    const RunSummary summary = run(grid);
    EXPECT_EQ(summary.deposits.applied, kBatches) << ranks;
    EXPECT_TRUE(summary.replicas_identical) << ranks;
    ASSERT_EQ(summary.members->worlds.size(), 2u) << "both changes are one, where all meet, of " << ranks;
    EXPECT_GT(summary.members->worlds[1].seconds, 0.4 * summary.wall_seconds) << ranks;
    const auto view_of = [](const std::vector<std::uint64_t>& members) {
      View view;
      for (const MemberNumber member : members) view.members.push_back({.number = member});
      return view;
    };
    std::vector<View> views{view_of(summary.members->worlds[0].members)};
    for (const MemberNumber lost : {1u, 3u}) {
      std::vector<PlacedMember> stay = views.back().members;
      std::erase_if(stay, [&](const PlacedMember& member) { return member.number == lost; });
      View next;
      next.members = views.back().closed_up(stay);
      views.push_back(next);
    }
    ASSERT_EQ(views.back().members, view_of(summary.members->worlds[1].members).members) << ranks;
    std::vector<std::uint64_t> by_number = summary.members->worlds[1].members;
    std::ranges::sort(by_number);
    std::uint64_t sent_in_lines = 0;
    for (int dimension = 0; dimension < 2; ++dimension) {
      for (std::size_t at = 0; at < by_number.size(); ++at) {
        const MemberNumber member = by_number[at];
        std::vector<MemberNumber> before;
        std::uint64_t entered = 0;
        for (const View& view : views) {
          const auto line = line_in(view, true, member, dimension, {}, 1000);
          if (line != before && !line.empty()) ++entered;
          before = line;
        }
        const GridCounts& counts = summary.lines.at(static_cast<std::size_t>(dimension)).at(at);
        EXPECT_EQ(counts.entered, entered) << "member " << member << " of " << ranks << ", dimension " << dimension;
        if (!before.empty()) {
          EXPECT_GT(counts.applied, 10u);
        }
        sent_in_lines += counts.bytes_sent;
      }
    }
    EXPECT_GE(summary.sent.body_bytes, sent_in_lines) << ranks;
  }
}

TEST_F(SimulatedMembersRun, TakeOneIntoAGridThatComesAndGoOnAtOnce) {
  TrainOptions grid = options("easgd-grid", "loss=1@20ms,back=5ms,detect=2ms");
  grid.ranks = 4;
  const RunSummary summary = run(grid);
  expect_whole(summary, "one is lost and another one comes");
  const auto& batches = summary.members->batches;
  ASSERT_EQ(batches.size(), 5u);
  for (const std::size_t stayed : {0, 2, 3}) EXPECT_GT(batches[stayed], batches[4]) << stayed;
  EXPECT_GT(batches[4], 0u);
  EXPECT_EQ(summary.members->worlds.size(), 2u) << "all meet at the end alone";
}

TEST_F(SimulatedMembersRun, MakeLinesOfThoseThatComeAndGo) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    TrainOptions grid = options("easgd-grid", "life=200ms,notice=0.5,back=20ms,detect=3ms");
    grid.ranks = 4 + static_cast<int>(2 * seed);
    grid.seed = seed;
    const RunSummary summary = run(grid);
    expect_whole(summary, text("seed ", seed));
    const auto has_changed = [](const std::vector<GridCounts>& dimension) {
      return std::ranges::any_of(dimension, [](const GridCounts& counts) { return counts.entered > 1; });
    };
    EXPECT_TRUE(std::ranges::any_of(summary.lines, has_changed)) << seed;
  }
}

// The one that reports has come late, and tells of the whole run.
TEST_F(SimulatedMembersRun, ReportAllFromAMemberThatCameLate) {
  const RunSummary summary =
      run(options("sync", "loss=0@60ms,loss=1@90ms,loss=2@120ms,loss=3@150ms,loss=4@180ms,back=1ms"));
  expect_whole(summary, "all that began are lost");
  EXPECT_THAT(summary.members->worlds.front().members, ElementsAre(0u, 1u, 2u, 3u, 4u));
  for (const std::uint64_t member : summary.members->worlds.back().members) EXPECT_GE(member, 5u);
  EXPECT_EQ(summary.members->worlds.back().members.size(), 5u);
  EXPECT_GT(summary.wall_seconds, 0.3) << "since the first step of the job";
}

TEST_F(SimulatedMembersRun, RepeatToTheBit) {
  for (const char* algorithm : {"eager-quorum", "easgd-grid"}) expect_repeats(algorithm);
}

void SimulatedMembersRun::expect_repeats(const std::string& algorithm) {
  TrainOptions one = options(algorithm, "life=100ms,notice=0.3,back=10ms");
  one.compute_threads = 1;
  TrainOptions other = one;
  other.compute_threads = 3;
  const std::string first = to_json(run(one));
  EXPECT_EQ(first, to_json(run(one)));
  EXPECT_EQ(first, to_json(run(other))) << "on several cores";
  one.seed = 2;
  EXPECT_NE(first, to_json(run(one)));
}

TEST_F(SimulatedMembersRun, GiveUpWithFewerThanTheLeastWhereNobodyComes) {
  TrainOptions two = options("sync", "loss=1@50ms,loss=2@50ms,back=never");
  two.least = 4;
  try {
    run(two);
    ADD_FAILURE() << "it has gone on";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("too few of its members"));
  }
  two.churn = "loss=1@50ms,loss=2@50ms,back=1s";
  expect_whole(run(two), "where others come");
}

TEST_F(SimulatedMembersRun, FailWhereNobodyIsLeft) {
  const auto failure_of = [](const std::string& churn) -> std::string {
    try {
      run(options("sync", churn));
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().code, Errc::lost_peer);
      return failure.what();
    }
    return "nothing";
  };
  const auto all_at = [](const std::string& when) {
    std::string churn;
    for (int place = 0; place < 5; ++place) churn += text("loss=", place, '@', when, ',');
    return churn + "back=never";
  };
  EXPECT_EQ(failure_of(all_at("100us")), "no member is left after 0 of 400 batches: none lives long enough to begin");
  EXPECT_THAT(failure_of(all_at("30ms")), testing::MatchesRegex("no member is left after [1-9][0-9]* of 400 batches"));
}

TEST_F(SimulatedMembersRun, RefuseWhatDoesNotFit) {
  TrainOptions fixed = options("sync", "life=1s");
  fixed.least = 0;
  EXPECT_THAT(complaint(fixed), HasSubstr("churn life=1s: expected ranks MIN:MAX"));
  TrainOptions real = options("sync", "life=1s");
  real.simulated = false;
  EXPECT_THAT(complaint(real), HasSubstr("churn life=1s: expected a simulated run"));
  EXPECT_THAT(complaint(options("sync", "life=1s,notice=2")), HasSubstr("'notice=2': expected"));
  TrainOptions kept = options("sync", "life=1s");
  kept.out = "nowhere";
  kept.checkpoint_every = 100;
  EXPECT_THAT(complaint(kept), HasSubstr("checkpoints in virtual time"));
}

}  // namespace
}  // namespace stretto
