#include "stretto/collective/schedules/plain_schedules.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/collective/testing/schedule_executor.h"
#include "stretto/schedule/builder.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

class PlainSchedules : public ::testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  template <class Make>
  std::vector<Schedule> for_all(Make make) const {
    std::vector<Schedule> out;
    for (int rank = 0; rank < ranks(); ++rank) out.push_back(make(rank));
    validate(out);
    return out;
  }
  void expect_complete(const ScheduleExecutor& executor) const {
    for (int rank = 0; rank < ranks(); ++rank) EXPECT_TRUE(executor.complete(rank)) << "rank " << rank;
  }
};

TEST_P(PlainSchedules, BroadcastFromAnyRootInPieces) {
  for (int root = 0; root < ranks(); ++root) {
    const int piece = root % 7;  // of 5 elements; 0: of all
    const auto schedules = for_all([&](int rank) {
      return broadcast_schedule(rank, ranks(), root, DataType::int32, 5, static_cast<std::uint64_t>(piece));
    });
    const std::vector<std::int32_t> data{root, 7, -1, 40, root * 3};
    ScheduleExecutor executor(schedules, static_cast<std::uint64_t>(root));
    executor.give(root, 0, &data);
    executor.run();
    expect_complete(executor);
    int messages = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      EXPECT_EQ(executor.read<std::int32_t>(rank, 0), data) << "rank " << rank << ", root " << root;
      messages += executor.messages_sent(rank);
    }
    const int pieces = piece == 0 ? 1 : (5 + piece - 1) / piece;
    EXPECT_EQ(messages, (ranks() - 1) * pieces) << "pieces of " << piece;
  }
}

TEST_P(PlainSchedules, BroadcastOfNothingCompletes) {
  const auto schedules = for_all([&](int rank) { return broadcast_schedule(rank, ranks(), 0, DataType::int32, 0); });
  ScheduleExecutor executor(schedules, 1);
  executor.run();
  expect_complete(executor);
}

/// A rank that has not begun holds up everyone: its schedule waits for a trigger that never comes.
TEST_P(PlainSchedules, BarrierWaitsForEveryRank) {
  for (int missing = 0; missing < ranks(); ++missing) {
    auto schedules = for_all([&](int rank) { return barrier_schedule(rank, ranks()); });
    {
      ScheduleExecutor executor(schedules, 3);
      executor.run();
      expect_complete(executor);
    }
    ScheduleBuilder late("late", missing, ranks());
    const OpId begun = late.nop({});
    late.external(begun);
    const Schedule& whole = schedules[static_cast<std::size_t>(missing)];
    for (const Op& op : whole.ops()) {
      if (op.kind == OpKind::send) late.send(op.peer, op.channel, {}, {begun});
      if (op.kind == OpKind::recv) late.recv(op.peer, op.channel, {}, {begun});
    }
    schedules[static_cast<std::size_t>(missing)] = late.build(begun);
    ScheduleExecutor executor(schedules, 3);
    executor.run();
    for (int rank = 0; rank < ranks(); ++rank) {
      EXPECT_FALSE(executor.complete(rank)) << "rank " << rank << " did not wait for rank " << missing;
    }
  }
}

TEST_P(PlainSchedules, AllgatherPutsBlocksInOrder) {
  for (const std::uint64_t count : {0, 1, 3}) {
    const auto schedules =
        for_all([&](int rank) { return allgather_schedule(rank, ranks(), DataType::float64, count); });
    ScheduleExecutor executor(schedules, 11 + count);
    std::vector<double> all;
    for (int rank = 0; rank < ranks(); ++rank) {
      std::vector<double> mine;
      for (std::uint64_t i = 0; i < count; ++i) mine.push_back(rank + static_cast<double>(i) / 4);
      executor.give(rank, 0, &mine);
      executor.give<double>(rank, 1, nullptr);
      all.insert(all.end(), mine.begin(), mine.end());
    }
    executor.run();
    expect_complete(executor);
    for (int rank = 0; rank < ranks(); ++rank) {
      EXPECT_EQ(executor.read<double>(rank, 1), all) << "rank " << rank << ", " << count << " elements";
      EXPECT_EQ(executor.bytes_sent(rank), static_cast<std::uint64_t>(ranks() - 1) * count * sizeof(double));
    }
  }
}

TEST_P(PlainSchedules, AllreduceSums) {
  for (const auto algorithm : {AllreduceAlgorithm::recursive_doubling, AllreduceAlgorithm::halving_doubling}) {
    const auto schedules = for_all(
        [&](int rank) { return allreduce_schedule(rank, ranks(), DataType::int64, 6, ReduceOp::max, algorithm); });
    ScheduleExecutor executor(schedules, 5);
    for (int rank = 0; rank < ranks(); ++rank) {
      const std::vector<std::int64_t> mine{rank, -rank, 5, rank % 3, 1 - rank, rank * rank};
      executor.give(rank, 0, &mine);
      executor.give<std::int64_t>(rank, 1, nullptr);
    }
    executor.run();
    expect_complete(executor);
    const std::int64_t last = ranks() - 1;
    const std::vector<std::int64_t> expected{last, 0, 5, std::min<std::int64_t>(last, 2), 1, last * last};
    for (int rank = 0; rank < ranks(); ++rank) EXPECT_EQ(executor.read<std::int64_t>(rank, 1), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlainSchedules, ::testing::Values(1, 2, 3, 4, 5, 7, 8, 16, 33),
                         ::testing::PrintToStringParamName());

TEST(BroadcastSchedule, RefusesARootOutsideTheJob) {
  EXPECT_THROW(broadcast_schedule(0, 4, 4, DataType::int32, 1), UsageError);
  EXPECT_THROW(broadcast_schedule(0, 4, -1, DataType::int32, 1), UsageError);
}

}  // namespace
}  // namespace stretto
