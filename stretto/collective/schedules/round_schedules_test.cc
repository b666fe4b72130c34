#include "stretto/collective/schedules/round_schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <sstream>

#include "stretto/base/error.h"
#include "stretto/collective/schedules/allreduce_schedule.h"
#include "stretto/collective/testing/allreduce_algorithms.h"
#include "stretto/collective/testing/schedule_executor.h"
#include "stretto/collective/testing/sizes.h"
#include "stretto/schedule/print.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kLarge = kLargeBucketBytes / 8;
const std::vector<BucketSpec> kBuckets{{DataType::int64, 5}, {DataType::int64, kLarge + 3}, {DataType::int64, 1}};

std::vector<Schedule> schedules_of(int ranks, std::span<const BucketSpec> buckets, SumOrder order,
                                   Activation activation = Activation::flood()) {
  std::vector<Schedule> out;
  for (int rank = 0; rank < ranks; ++rank) {
    out.push_back(partial_allreduce_schedule(rank, ranks, buckets, ReduceOp::sum, order, activation));
  }
  return out;
}

std::int64_t value_of(int rank, std::size_t bucket, std::uint64_t i) {
  return rank * 1000003 + static_cast<std::int64_t>(bucket * 101 + i);
}

/// Runs one round in which `initiators` (none: all, a round without activation) come by themselves and ranks divisible
/// by `nulls` bring nothing, and checks that it is complete, joined once, and right on every rank.
void check_round(std::span<const Schedule> schedules, std::span<const BucketSpec> buckets,
                 const std::vector<int>& initiators, int nulls, std::uint64_t seed) {
  const int ranks = static_cast<int>(schedules.size());
  const auto num_buckets = static_cast<BufferId>(buckets.size());
  const auto where = text(ranks, " ranks, initiator ", initiators.empty() ? -1 : initiators.front(), ", seed ", seed);
  ScheduleExecutor executor(schedules, seed);
  const auto brings = [&](int rank) { return nulls == 0 || rank % nulls != 0; };
  RoundHeader expected(ranks);
  std::vector<std::vector<std::uint32_t>> hooks(schedules.size());

  executor.on_call = [&](int rank, OpId id) {
    const Schedule& schedule = schedules[static_cast<std::size_t>(rank)];
    const std::uint32_t hook = schedule.op(id).hook;
    hooks[static_cast<std::size_t>(rank)].push_back(hook);
    if (hook == kJoinHook) return;
    const BufferId bucket = hook - kFirstReadyHook;
    std::vector<std::int64_t> x;
    for (std::uint64_t i = 0; i < buckets[bucket].count; ++i) x.push_back(value_of(rank, bucket, i));
    executor.give(rank, bucket, brings(rank) ? &x : nullptr);
    executor.give<std::int64_t>(rank, num_buckets + bucket, nullptr);
    if (bucket > 0) {
      EXPECT_EQ(executor.present(rank, num_buckets + bucket - 1), !expected.fresh.empty())
          << where << ": bucket " << bucket << " is ready before the one before it is done";
      return;
    }
    if (brings(rank)) executor.header(rank, 0).fresh.insert(rank);
    executor.header(rank, 0).arrived.insert(rank);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    if (brings(rank)) expected.fresh.insert(rank);
    expected.arrived.insert(rank);
  }
  for (const int rank : initiators) executor.trigger(rank, schedules[static_cast<std::size_t>(rank)].find("internal"));
  executor.run();

  std::vector<std::uint32_t> all_hooks;
  for (std::uint32_t hook = 0; hook <= num_buckets; ++hook) all_hooks.push_back(hook);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(executor.complete(rank)) << where << ", rank " << rank;
    EXPECT_EQ(hooks[static_cast<std::size_t>(rank)], all_hooks) << where << ", rank " << rank;
    EXPECT_EQ(executor.header(rank, num_buckets), expected) << where << ", rank " << rank;
    for (BufferId bucket = 0; bucket < num_buckets; ++bucket) {
      ASSERT_EQ(executor.present(rank, num_buckets + bucket), !expected.fresh.empty()) << where;
      if (expected.fresh.empty()) continue;
      const auto sum = executor.read<std::int64_t>(rank, num_buckets + bucket);
      for (std::uint64_t i = 0; i < sum.size(); ++i) {
        std::int64_t right = 0;
        for (const int r : expected.fresh.members()) right += value_of(r, bucket, i);
        ASSERT_EQ(sum[i], right) << where << ", rank " << rank << ", bucket " << bucket << ", element " << i;
      }
    }
  }
}

class PartialSchedule : public ::testing::TestWithParam<std::tuple<int, SumOrder>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  std::vector<Schedule> schedules(std::span<const BucketSpec> buckets) const {
    return schedules_of(ranks(), buckets, std::get<1>(GetParam()));
  }
};

TEST_P(PartialSchedule, IsValid) {
  validate(schedules(kBuckets));
}

TEST_P(PartialSchedule, AnyInitiatorReachesEveryRank) {
  const std::vector<BucketSpec> buckets{{DataType::int64, 3}};
  const auto all = schedules(buckets);
  std::uint64_t seed = 0;
  for (int initiator = 0; initiator < ranks(); ++initiator) {
    for (const int nulls : {0, 1, 2}) check_round(all, buckets, {initiator}, nulls, ++seed);
  }
}

TEST_P(PartialSchedule, SeveralInitiatorsStartItOnce) {
  const std::vector<BucketSpec> buckets{{DataType::int64, 3}, {DataType::int64, 40}};
  const auto all = schedules(buckets);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    std::vector<int> initiators;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (random.chance(0.5) || rank == ranks() - 1) initiators.push_back(rank);
    }
    check_round(all, buckets, initiators, static_cast<int>(random.below(4)), seed);
  }
}

TEST_P(PartialSchedule, SmallAndLargeBucketsFollowOneAnother) {
  const auto all = schedules(kBuckets);
  for (const int nulls : {0, 1, 3}) check_round(all, kBuckets, {ranks() / 2}, nulls, 9);
}

TEST_P(PartialSchedule, ATreeReachesEveryRankFromAnyRootWithOneMessageEach) {
  const std::vector<BucketSpec> buckets{{DataType::int64, 3}};
  for (int root = 0; root < ranks(); ++root) {
    const auto all = schedules_of(ranks(), buckets, std::get<1>(GetParam()), Activation::tree(root));
    validate(all);
    check_round(all, buckets, {root}, root % 3, static_cast<std::uint64_t>(root));
    int activations = 0;
    for (const Schedule& schedule : all) {
      for (const Op& op : schedule.ops()) activations += op.kind == OpKind::send && op.channel == 0;
    }
    EXPECT_EQ(activations, ranks() - 1);
  }
}

TEST_P(PartialSchedule, WithoutActivationEveryRankBeginsByItself) {
  const auto all = schedules_of(ranks(), kBuckets, std::get<1>(GetParam()), Activation::none());
  validate(all);
  for (const int nulls : {0, 1, 3}) check_round(all, kBuckets, {}, nulls, 5);
}

TEST_P(PartialSchedule, NothingHappensWithoutAnInitiator) {
  const auto all = schedules(kBuckets);
  ScheduleExecutor executor(all, 1);
  executor.on_call = [](int rank, OpId) { ADD_FAILURE() << "rank " << rank << " joined by itself"; };
  executor.run();
  for (int rank = 0; rank < ranks(); ++rank) EXPECT_FALSE(executor.complete(rank));
}

TEST_P(PartialSchedule, AsGoalEveryMessageHasOneSendAndOneRecv) {
  const std::vector<BucketSpec> buckets{{DataType::float32, 16}};
  const auto all = schedules(buckets);
  for (int initiator = 0; initiator < ranks(); ++initiator) {
    std::istringstream goal(to_goal(all, initiator));
    std::multiset<std::string> sends, recvs;
    std::string line;
    int rank = -1, num_complete = 0;
    const OpId internal = all[0].find("internal");
    while (std::getline(goal, line)) {
      std::istringstream words(line);
      std::string label, kind, bytes, direction, tag_word;
      int peer = 0, tag = 0;
      words >> label >> kind >> bytes >> direction >> peer >> tag_word >> tag;
      if (label == "rank") rank = std::stoi(kind);
      if (kind == "send") sends.insert(text(rank, '>', peer, ' ', bytes, ' ', tag));
      if (kind == "recv") recvs.insert(text(peer, '>', rank, ' ', bytes, ' ', tag));
      if (label == text('l', internal, ':')) {
        EXPECT_EQ(rank, initiator) << "only the initiator comes by itself";
      }
      if (rank >= 0 && label == text('l', all[static_cast<std::size_t>(rank)].completion(), ':')) ++num_complete;
    }
    EXPECT_EQ(sends, recvs);
    EXPECT_EQ(std::set<std::string>(sends.begin(), sends.end()).size(), sends.size());
    EXPECT_EQ(num_complete, ranks());
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartialSchedule,
                         ::testing::Combine(::testing::ValuesIn(kSizes),
                                            ::testing::Values(SumOrder::fixed, SumOrder::arrival)),
                         [](const auto& info) {
                           return text(std::get<0>(info.param),
                                       std::get<1>(info.param) == SumOrder::fixed ? "_fixed" : "_arrival");
                         });

TEST(PartialAllreduceSchedule, LooksLikeFig6OfThePaper) {
  const std::vector<BucketSpec> buckets{{DataType::float32, 4}};
  EXPECT_EQ(to_text(partial_allreduce_schedule(3, 4, buckets, ReduceOp::sum, SumOrder::arrival)),
            "schedule \"partial_allreduce\" of rank 3 of 4: 15 operations, complete with complete\n"
            "  given   x.0: 4 float32\n"
            "  given   sum.0: 4 float32\n"
            "  scratch sum.0.from.2: 4 float32\n"
            "  scratch sum.0.from.1: 4 float32\n"
            "    #0 internal: nop, after a trigger\n"
            "    #1 activate.from.2: recv nothing from 2 on 0, at once\n"
            "    #2 activate.from.1: recv nothing from 1 on 0, at once\n"
            "    #3 activated: nop, after any of internal, activate.from.2, activate.from.1\n"
            "    #4 activate.to.2: send nothing to 2 on 0, after activated\n"
            "    #5 activate.to.1: send nothing to 1 on 0, after activated\n"
            "    #6 join: call hook 0, after activated\n"
            "    #7 ready.0: call hook 1, after join\n"
            "    #8 send x.0 with header to 2 on 1, after ready.0\n"
            "    #9 recv sum.0.from.2 with header from 2 on 1, at once\n"
            "   #10 sum.0.from.2 = sum(sum.0.from.2, x.0) with header, after ready.0, #9\n"
            "   #11 send sum.0.from.2 with header to 1 on 1, after #10\n"
            "   #12 recv sum.0.from.1 with header from 1 on 1, at once\n"
            "   #13 sum.0 = sum(sum.0.from.1, sum.0.from.2) with header, after #10, #12\n"
            "   #14 complete: nop, after #13\n");
}

TEST(PartialAllreduceSchedule, ChoosesTheAlgorithmBySizeAndOrder) {
  const BucketSpec small{DataType::float64, kLargeBucketBytes / 8 - 1}, large{DataType::float64, kLargeBucketBytes / 8};
  EXPECT_EQ(algorithm_for(small, SumOrder::fixed), AllreduceAlgorithm::recursive_doubling);
  EXPECT_EQ(algorithm_for(small, SumOrder::arrival), AllreduceAlgorithm::recursive_doubling);
  EXPECT_EQ(algorithm_for(large, SumOrder::fixed), AllreduceAlgorithm::halving_doubling);
  EXPECT_EQ(algorithm_for(large, SumOrder::arrival), AllreduceAlgorithm::direct);
}

TEST(PartialAllreduceSchedule, RefusesNoBuckets) {
  EXPECT_THROW(partial_allreduce_schedule(0, 2, {}, ReduceOp::sum, SumOrder::fixed), UsageError);
}

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
      ScheduleBuilder b("allreduce", rank, 6);
      const BufferId mine = b.buffer("mine", DataType::float32, 10), sum = b.buffer("sum", DataType::float32, 10);
      const AllreducePlan plan = append_allreduce(
          b, {.algorithm = algorithm, .contribution = mine, .result = sum, .op = ReduceOp::max}, kNoOp);
      b.label(plan.done, "complete");
      const Schedule all = b.build(plan.done);
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
