#include "stretto/train/replica/meeting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "stretto/collective/testing/thread_job.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

void fill(std::span<std::byte> bytes, float value) {
  std::vector<float> numbers(bytes.size() / sizeof(float), value);
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
}

// Runs `main` on every rank of a job, each with a model of its own.
void meet(int ranks, const std::function<void(int rank, Replica&, Meeting&, Driver&)>& main) {
  const auto task = linear_task();
  run_thread_job(ranks, [&](Engine& engine) {
    const auto rank_task = task->start_rank({.seed = static_cast<std::uint64_t>(engine.rank())});
    Meeting meeting(engine, rank_task->replica());
    EngineDriver driver(engine);
    main(engine.rank(), rank_task->replica(), meeting, driver);
    return true;
  });
}

class MeetingTest : public testing::TestWithParam<int> {};

TEST_P(MeetingTest, BroadcastsAllWeights) {
  std::vector<std::vector<float>> seen(static_cast<std::size_t>(GetParam()));
  meet(GetParam(), [&](int rank, Replica& replica, Meeting& meeting, Driver& driver) {
    fill(replica.local_buffers()->floating_buffers()[0].memory, static_cast<float>(rank + 7));
    meeting.broadcast_weights(driver);
    for (const auto& piece : replica.weights()) {
      for (const float number : floats(piece)) seen[static_cast<std::size_t>(rank)].push_back(number);
    }
  });
  for (const auto& weights : seen) EXPECT_EQ(weights, seen[0]);
  EXPECT_EQ(seen[0].back(), 7.0f) << "the buffer, too";
}

TEST_P(MeetingTest, BroadcastsATextOrWhyThereIsNone) {
  meet(GetParam(), [](int rank, Replica&, Meeting& meeting, Driver& driver) {
    for (const std::size_t bytes : {0, 1, 5, 100'000}) {
      const auto made = [&] {
        EXPECT_EQ(rank, 0);
        return std::string(bytes, '\n');
      };
      EXPECT_EQ(meeting.broadcast_text(driver, made), std::string(bytes, '\n'));
    }
    try {
      meeting.broadcast_text(driver, []() -> std::string { throw UsageError("there is no text"); });
      ADD_FAILURE();
    } catch (const UsageError& error) {
      EXPECT_STREQ(error.what(), "there is no text");
    }
    EXPECT_EQ(meeting.broadcast_text(driver, [] { return "and it goes on"; }), "and it goes on");
  });
}

/// Those that get the texts take them only once all others have gone on.
TEST_P(MeetingTest, GivesTextsWhileTheOthersGoOn) {
  const int from = GetParam() / 2;
  std::vector<int> to;
  for (int rank = 0; rank < GetParam(); ++rank) {
    if (rank != from && rank % 2 == 0) to.push_back(rank);
  }
  const std::vector<std::string> texts{std::string(3'000'001, 'w'), "", "the account"};
  std::atomic<int> gone_on = 0;
  meet(GetParam(), [&](int rank, Replica&, Meeting& meeting, Driver& driver) {
    const auto made = [&] {
      EXPECT_EQ(rank, from);
      return texts;
    };
    meeting.begin_giving(driver, made, from, to);
    if (std::ranges::find(to, rank) == to.end()) {
      ++gone_on;
    } else {
      while (gone_on.load() < GetParam() - std::ssize(to)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(meeting.take_given(driver), texts);
    }
    EXPECT_EQ(meeting.gather(driver, {})[0][0], 0u);  // until all have what they get
    meeting.forget_given();
  });
}

TEST_P(MeetingTest, SaysToAllWhyNothingIsGiven) {
  meet(GetParam(), [](int, Replica&, Meeting& meeting, Driver& driver) {
    const auto refuse = []() -> std::vector<std::string> { throw UsageError("it has no state"); };
    try {
      meeting.begin_giving(driver, refuse, 0, {});
      ADD_FAILURE();
    } catch (const UsageError& error) {
      EXPECT_STREQ(error.what(), "it has no state");
    }
  });
}

TEST_P(MeetingTest, AveragesParametersAndBuffers) {
  const auto ranks = static_cast<float>(GetParam());
  meet(GetParam(), [&](int rank, Replica& replica, Meeting& meeting, Driver& driver) {
    for (const int bucket : {0, 1}) fill(replica.parameters(bucket), static_cast<float>(rank + bucket));
    fill(replica.local_buffers()->floating_buffers()[0].memory, static_cast<float>(10 * rank));
    meeting.average_parameters(driver);
    const float mean = (ranks - 1) / 2;
    EXPECT_EQ(floats(replica.parameters(0)), std::vector<float>(1, mean));
    EXPECT_EQ(floats(replica.parameters(1)), std::vector<float>(5, mean + 1));
    EXPECT_EQ(floats(replica.local_buffers()->floating_buffers()[0].memory)[0], static_cast<float>(10 * rank))
        << "not yet";
    meeting.average_buffers(driver);
    EXPECT_EQ(floats(replica.local_buffers()->floating_buffers()[0].memory)[0], 10 * mean);
  });
}

TEST_P(MeetingTest, AveragesTheOptimizersState) {
  meet(GetParam(), [&](int rank, Replica& replica, Meeting& meeting, Driver& driver) {
    for (int again = 0; again < 2; ++again) {
      for (const auto& array : replica.optimizer_arrays()) fill(array.memory, static_cast<float>(2 * rank + again));
      meeting.average_optimizer(driver);
      for (const auto& array : replica.optimizer_arrays()) {
        EXPECT_EQ(floats(array.memory)[0], static_cast<float>(GetParam() - 1 + again));
      }
    }
  });
}

TEST_P(MeetingTest, AveragesThoseThatWeighAndGivesItToAll) {
  const int ranks = GetParam();
  if (ranks == 1) return;
  meet(ranks, [&](int rank, Replica& replica, Meeting& meeting, Driver& driver) {
    const auto fill_all = [&] {
      fill(replica.parameters(0), static_cast<float>(2 * rank));
      fill(replica.local_buffers()->floating_buffers()[0].memory, static_cast<float>(4 * rank));
      for (const auto& array : replica.optimizer_arrays()) fill(array.memory, static_cast<float>(6 * rank));
    };
    const auto expect_means = [&](float mean_rank) {
      meeting.average_parameters(driver);
      meeting.average_buffers(driver);
      meeting.average_optimizer(driver);
      EXPECT_EQ(floats(replica.parameters(0))[0], 2 * mean_rank);
      EXPECT_EQ(floats(replica.local_buffers()->floating_buffers()[0].memory)[0], 4 * mean_rank);
      for (const auto& array : replica.optimizer_arrays()) EXPECT_EQ(floats(array.memory)[0], 6 * mean_rank);
    };
    fill_all();
    std::vector<bool> all_but_0(static_cast<std::size_t>(ranks), true);
    all_but_0[0] = false;
    meeting.let_weigh(all_but_0);
    expect_means(static_cast<float>(ranks) / 2);
    fill_all();
    meeting.let_weigh({});
    expect_means(static_cast<float>(ranks - 1) / 2);
  });
}

TEST_P(MeetingTest, GathersNumbersAndLists) {
  meet(GetParam(), [&](int rank, Replica&, Meeting& meeting, Driver& driver) {
    const auto numbers = meeting.gather(driver, {static_cast<std::uint64_t>(rank), ~std::uint64_t{0}});
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(GetParam()));
    std::vector<std::uint64_t> mine(static_cast<std::size_t>(rank) * 50);
    std::iota(mine.begin(), mine.end(), 1000 * rank);
    const auto lists = meeting.gather_lists(driver, mine);
    for (std::size_t r = 0; r < numbers.size(); ++r) {
      EXPECT_EQ(numbers[r][0], r);
      EXPECT_EQ(numbers[r][1], ~std::uint64_t{0});
      ASSERT_EQ(lists[r].size(), 50 * r) << "rank 0 has none";
      for (std::size_t i = 0; i < lists[r].size(); ++i) EXPECT_EQ(lists[r][i], 1000 * r + i);
    }
  });
}

TEST_P(MeetingTest, NamesTheLowestRankThatDiffersFromRank0) {
  meet(GetParam(), [&](int rank, Replica&, Meeting& meeting, Driver& driver) {
    EXPECT_EQ(meeting.differing_rank(driver, {7, 8}), std::nullopt);
    const auto other = meeting.differing_rank(driver, {7, rank >= 2 ? 9u : 8u});
    EXPECT_EQ(other, GetParam() > 2 ? std::optional(2) : std::nullopt);
  });
}

TEST_P(MeetingTest, NamesARankThatHasLeft) {
  if (GetParam() == 1) return;
  meet(GetParam(), [&](int rank, Replica&, Meeting& meeting, Driver& driver) {
    if (rank == 1) return;
    try {
      meeting.gather(driver, {});
      ADD_FAILURE() << "rank 1 is not there";
    } catch (const Failure& failure) {
      EXPECT_NE(std::string(failure.what()).find("rank 1 has left"), std::string::npos) << failure.what();
      EXPECT_EQ(failure.error().rank, 1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, MeetingTest, testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace stretto
