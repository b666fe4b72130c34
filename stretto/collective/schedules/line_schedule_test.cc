#include "stretto/collective/schedules/line_schedule.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "stretto/collective/testing/schedule_executor.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

const std::vector<BucketSpec> kLineModel{{DataType::int64, 11}, {DataType::int64, 3}};

std::vector<int> all_ranks(int ranks) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

std::vector<Schedule> line_of(int nodes) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < nodes; ++rank) {
    schedules.push_back(line_round_schedule(rank, all_ranks(nodes), nodes, kLineModel));
  }
  return schedules;
}

/// A node brings a digit of its own, so that a sum shows who is in it.
std::int64_t digit_of(int node) {
  return std::int64_t{1} << node;
}

/// A round of a line in which sums stand for means. A node averages once `contributions` have come, and is done once it
/// has `means`.
class RoundOfLine {
 public:
  RoundOfLine(int nodes, std::size_t contributions, std::size_t means, std::uint64_t seed,
              std::set<int> brings_nothing = {})
      : nodes_(nodes),
        schedules_(line_of(nodes)),
        came_(schedules_.size()),
        means_(schedules_.size()),
        executor(schedules_, seed),
        nothing_(brings_nothing) {
    for (int node = 0; node < nodes; ++node) {
      if (!nothing_.contains(node)) executor.header(node, 0).fresh.insert(node);
      for (std::size_t i = 0; i < kLineModel.size(); ++i) {
        const std::vector<std::int64_t> model(kLineModel[i].count, digit_of(node));
        executor.give(node, buffers().model(i), nothing_.contains(node) ? nullptr : &model);
        for (int slice = 0; slice < nodes; ++slice) {
          executor.give<std::int64_t>(node, buffers().mean_of(slice, i), nullptr);
        }
      }
    }
    const auto look = [this, contributions, means](int node) {
      const auto me = static_cast<std::size_t>(node);
      if (came_[me].size() >= contributions && means_[me].insert(node).second) {
        average(node);
        executor.trigger(node, find("average"));
      }
      if (!done_[me] && means_[me].contains(node) && means_[me].size() >= means) {
        done_[me] = true;
        executor.trigger(node, find("complete"));
      }
    };
    executor.on_call = [this, look](int node, OpId op) {
      const auto me = static_cast<std::size_t>(node);
      const LineHook hook = LineHook::decode(schedules_[me].op(op).hook);
      if (hook.kind == LineHook::Kind::mean) means_[me].insert(hook.node);
      if (hook.kind == LineHook::Kind::contribution) came_[me].insert(hook.node);
      look(node);
    };
    for (int node = 0; node < nodes; ++node) {
      came_[static_cast<std::size_t>(node)].insert(node);
      look(node);
    }
  }

  LineBuffers buffers() const { return {kLineModel.size(), nodes_}; }
  OpId find(const char* label) const { return schedules_[0].find(label); }
  /// The sum of all elements' digits in a slice as it is at a node; nothing: it is not there.
  std::optional<std::int64_t> sum_at(int node, int slice) const {
    std::optional<std::int64_t> sum;
    if (!means_[static_cast<std::size_t>(node)].contains(slice)) return sum;
    for (std::size_t i = 0; i < kLineModel.size(); ++i) {
      for (const std::int64_t element : executor.read<std::int64_t>(node, buffers().mean_of(slice, i))) {
        if (!executor.present(node, buffers().mean_of(slice, i))) return std::nullopt;
        EXPECT_TRUE(!sum || *sum == element) << "a slice of different nodes' sums";
        sum = element;
      }
    }
    return sum;
  }

 private:
  void average(int node) {
    std::set<int> who = came_[static_cast<std::size_t>(node)];
    std::erase_if(who, [this](int peer) { return nothing_.contains(peer); });
    RoundHeader& header = executor.header(node, buffers().mean_of(node, 0));
    std::int64_t sum = 0;
    for (const int peer : who) {
      sum += peer == node ? digit_of(node) : executor.read<std::int64_t>(node, buffers().from(peer, 0)).at(0);
      header.fresh.insert(peer);
    }
    for (std::size_t i = 0; !who.empty() && i < kLineModel.size(); ++i) {
      const std::vector<std::int64_t> mean(part(kLineModel[i].count, node, nodes_).count(), sum);
      executor.give(node, buffers().mean_of(node, i), &mean);
    }
  }

  int nodes_;
  std::vector<Schedule> schedules_;
  std::vector<std::set<int>> came_, means_;  // by node
  std::vector<bool> done_ = std::vector<bool>(static_cast<std::size_t>(nodes_));

 public:
  ScheduleExecutor executor;

 private:
  std::set<int> nothing_;
};

TEST(LineSchedule, WhereNobodyIsLateEverySliceHasAll) {
  for (int nodes = 1; nodes <= 6; ++nodes) {
    validate(line_of(nodes));
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto all_of_them = static_cast<std::size_t>(nodes);
      RoundOfLine round(nodes, all_of_them, all_of_them, seed);
      round.executor.run();
      std::int64_t all = 0;
      for (int node = 0; node < nodes; ++node) all += digit_of(node);
      for (int node = 0; node < nodes; ++node) {
        EXPECT_TRUE(round.executor.complete(node));
        for (int slice = 0; slice < nodes; ++slice) EXPECT_EQ(round.sum_at(node, slice), all) << nodes << ' ' << seed;
        EXPECT_EQ(round.executor.messages_sent(node), 4 * (nodes - 1));
      }
    }
  }
}

TEST(LineSchedule, ASliceHasAtLeastTheNeedAndIsTheSameWhereverItArrives) {
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RoundOfLine round(4, 3, 2, seed);
    round.executor.run();
    for (int slice = 0; slice < 4; ++slice) {
      const auto sum = round.sum_at(slice, slice);
      ASSERT_TRUE(sum) << "of the own slice";
      EXPECT_GE(__builtin_popcountll(static_cast<std::uint64_t>(*sum)), 3);
      EXPECT_EQ(round.executor.header(slice, round.buffers().mean_of(slice, 0)).fresh.count(),
                __builtin_popcountll(static_cast<std::uint64_t>(*sum)));
      seen.insert(*sum);
      for (int node = 0; node < 4; ++node) {
        EXPECT_TRUE(round.executor.complete(node));
        const auto theirs = round.sum_at(node, slice);
        EXPECT_TRUE(!theirs || *theirs == *sum) << "slice " << slice << " at " << node << ", seed " << seed;
      }
    }
  }
  EXPECT_GT(seen.size(), 2u) << "some leave one node out";
}

TEST(LineSchedule, WithoutAModelANodeTakesPartByItsHeaderAlone) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RoundOfLine round(3, 3, 3, seed, {1});
    round.executor.run();
    for (int node = 0; node < 3; ++node) {
      for (int slice = 0; slice < 3; ++slice) EXPECT_EQ(round.sum_at(node, slice), digit_of(0) + digit_of(2));
    }
    RoundOfLine empty(3, 3, 3, seed, {0, 1, 2});
    empty.executor.run();
    for (int node = 0; node < 3; ++node) {
      EXPECT_TRUE(empty.executor.complete(node));
      EXPECT_FALSE(empty.sum_at(node, 2));
    }
  }
}

TEST(LineSchedule, RunsAmongSomeRanksOfAJob) {
  const std::vector<int> members{1, 4, 7};
  const Schedule schedule = line_round_schedule(4, members, 9, kLineModel);
  EXPECT_EQ(schedule.rank(), 4);
  EXPECT_EQ(schedule.ranks(), 9);
  std::set<int> peers;
  for (const Op& op : schedule.ops()) {
    if (op.kind == OpKind::send) peers.insert(op.peer);
  }
  EXPECT_EQ(peers, (std::set<int>{1, 7}));
}

}  // namespace
}  // namespace stretto
