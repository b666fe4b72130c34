#include "stretto/collective/schedules/group_schedule.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "stretto/base/error.h"
#include "stretto/collective/schedules/plain_schedules.h"
#include "stretto/collective/testing/allreduce_algorithms.h"
#include "stretto/collective/testing/schedule_executor.h"
#include "stretto/schedule/print.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

constexpr BufferId kModel = 0, kGroupSum = 1;

using Values = std::vector<std::int64_t>;

/// Runs the round on all ranks at once: rank r brings all[r], and ends with what is returned as [r].
std::vector<Values> run(const Groups& groups, Round round, AllreduceAlgorithm algorithm, const std::vector<Values>& all,
                        std::uint64_t seed) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < groups.ranks(); ++rank) {
    schedules.push_back(
        group_allreduce_schedule(rank, groups, round, DataType::int64, all[0].size(), ReduceOp::sum, algorithm));
  }
  validate(schedules);
  ScheduleExecutor executor(schedules, seed);
  for (int rank = 0; rank < groups.ranks(); ++rank) {
    executor.give(rank, kModel, &all[static_cast<std::size_t>(rank)]);
    executor.give<std::int64_t>(rank, kGroupSum, nullptr);
  }
  executor.run();
  std::vector<Values> out;
  for (int rank = 0; rank < groups.ranks(); ++rank) {
    EXPECT_TRUE(executor.complete(rank)) << "rank " << rank;
    out.push_back(executor.read<std::int64_t>(rank, kGroupSum));
  }
  return out;
}

TEST(GroupSchedule, SumsWithinEachGroup) {
  std::uint64_t seed = 0;
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33}) {
    std::vector<Values> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back({rank, 1000 - rank, rank * rank, 7, -rank});
    for (int size = ranks == 1 ? 1 : 2; size <= ranks; size += 1 + size / 4) {
      for (const GroupOrder order : {GroupOrder::dynamic, GroupOrder::fixed}) {
        const Groups groups(ranks, size, order);
        for (Round round = 0; round < 5; ++round) {
          const auto sums = run(groups, round, kAlgorithms[seed % 3], all, seed);
          ++seed;
          for (const auto& group : groups.all(round)) {
            Values expected(5);
            for (const int member : group) {
              for (std::size_t i = 0; i < 5; ++i) expected[i] += all[static_cast<std::size_t>(member)][i];
            }
            for (const int member : group) {
              EXPECT_EQ(sums[static_cast<std::size_t>(member)], expected)
                  << ranks << " ranks, size " << size << ", round " << round << ", rank " << member;
            }
          }
        }
      }
    }
  }
}

/// Sums of sums: where groups are equally large and meet evenly, they are those of all ranks after M rounds.
TEST(GroupSchedule, TwoRoundsOfSixtyFourRanksAreASumOfAll) {
  const Groups groups(64, 8);
  for (const Round first : {Round{0}, Round{1}}) {
    std::vector<Values> all;
    for (int rank = 0; rank < 64; ++rank) all.push_back({std::int64_t{1} << (rank % 40), rank});
    Values sum(2);
    for (const Values& one : all) {
      sum[0] += one[0];
      sum[1] += one[1];
    }
    for (const Round round : {first, first + 1})
      all = run(groups, round, AllreduceAlgorithm::recursive_doubling, all, 9);
    for (const Values& one : all) EXPECT_EQ(one, sum);
  }
}

TEST(GroupSchedule, OfOneGroupIsAnAllreduce) {
  for (const auto algorithm : kAlgorithms) {
    for (int rank = 0; rank < 6; ++rank) {
      const Schedule all = allreduce_schedule(rank, 6, DataType::float32, 10, ReduceOp::max, algorithm);
      const Schedule group =
          group_allreduce_schedule(rank, Groups(6, 6), 3, DataType::float32, 10, ReduceOp::max, algorithm);
      const std::string text = to_text(all), other = to_text(group);
      EXPECT_EQ(text.substr(text.find('\n')), other.substr(other.find('\n'))) << "all but the name";
    }
  }
}

TEST(GroupSchedule, TalksToTheMembersOnly) {
  const Schedule schedule = group_allreduce_schedule(5, Groups(8, 4), 1, DataType::float32, 10, ReduceOp::sum,
                                                     AllreduceAlgorithm::recursive_doubling);
  EXPECT_EQ(schedule.rank(), 5);
  EXPECT_EQ(schedule.ranks(), 8);
  std::vector<int> peers;
  for (const Op& op : schedule.ops()) {
    if (op.kind == OpKind::send) peers.push_back(op.peer);
  }
  EXPECT_EQ(peers, (std::vector<int>{4, 1})) << "of 0, 1, 4, 5";
}

TEST(GroupSchedule, RefusesARankOutsideTheJob) {
  const auto of = [](int rank) {
    return group_allreduce_schedule(rank, Groups(8, 4), 0, DataType::float32, 1, ReduceOp::sum,
                                    AllreduceAlgorithm::direct);
  };
  EXPECT_THROW(of(8), UsageError);
  EXPECT_THROW(of(-1), UsageError);
}

TEST(ActivationNeighbours, ReachAllRanks) {
  for (const int quorum : {0, 1}) {
    for (int ranks = 1; ranks <= 20; ++ranks) {
      std::set<int> told{0}, next{0};
      while (!next.empty()) {
        std::set<int> heard;
        for (const int rank : next) {
          for (const int peer : activation_neighbours(rank, ranks, quorum)) {
            if (told.insert(peer).second) heard.insert(peer);
          }
        }
        next = heard;
      }
      EXPECT_EQ(static_cast<int>(told.size()), ranks) << "quorum " << quorum;
    }
  }
}

}  // namespace
}  // namespace stretto
