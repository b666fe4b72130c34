#include "stretto/collective/base/scheduled_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"
#include "stretto/schedule/builder.h"
#include "stretto/schedule/print.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The two examples of docs/own_collective.md.

/// Each rank gets the sum of its own vector and those of its two neighbours on a ring.
Schedule neighbour_sum(int rank, int ranks, std::uint64_t count) {
  ScheduleBuilder b("neighbour sum", rank, ranks);
  const auto mine = b.buffer("mine", DataType::float32, count);
  const auto sum = b.buffer("sum", DataType::float32, count);
  OpId done = b.copy(b.whole(sum), b.whole(mine), {});
  const int neighbours[] = {(rank + 1) % ranks, (rank + ranks - 1) % ranks};
  for (int side = 0; side < 2; ++side) {
    // What goes to the right comes from the left: channel 0 is clockwise, channel 1 the other way.
    b.send(neighbours[side], side, b.whole(mine), {});
    const auto theirs = b.scratch("theirs", DataType::float32, count);
    const OpId got = b.recv(neighbours[1 - side], side, b.whole(theirs), {});
    done = b.reduce(b.whole(sum), b.whole(theirs), ReduceOp::sum, {done, got});
  }
  return b.build(done);
}

/// Rank 0 gets the sum over the first `enough` of the others to come, and does not wait for the rest.
Schedule sum_of_first(int rank, int ranks, int enough) {
  ScheduleBuilder b("sum of first", rank, ranks);
  const auto value = b.buffer("value", DataType::int64, 1);
  if (rank != 0) return b.build(b.send(0, 0, b.whole(value), {}));
  std::vector<OpId> added;
  for (int peer = 1; peer < ranks; ++peer) {
    const auto theirs = b.scratch("theirs", DataType::int64, 1);
    const OpId got = b.recv(peer, 0, b.whole(theirs), {});
    added.push_back(b.reduce(b.whole(value), b.whole(theirs), ReduceOp::sum, {got}));
  }
  const OpId complete = b.nop(added);
  b.need(complete, Need::count(enough)).label(complete, "complete");
  return b.build(complete);
}

TEST(ScheduledCollective, OfOnesOwnPrintsAsTheManualShows) {
  EXPECT_EQ(to_text(neighbour_sum(0, 4, 4)),
            "schedule \"neighbour sum\" of rank 0 of 4: 7 operations, complete with #6\n"
            "  given   mine: 4 float32\n"
            "  given   sum: 4 float32\n"
            "  scratch theirs: 4 float32\n"
            "  scratch theirs: 4 float32\n"
            "    #0 sum = mine, at once\n"
            "    #1 send mine to 1 on 0, at once\n"
            "    #2 recv theirs from 3 on 0, at once\n"
            "    #3 sum = sum(sum, theirs), after #0, #2\n"
            "    #4 send mine to 3 on 1, at once\n"
            "    #5 recv theirs from 1 on 1, at once\n"
            "    #6 sum = sum(sum, theirs), after #3, #5\n");
}

TEST(ScheduledCollective, RunsACollectiveOfOnesOwn) {
  for (const int ranks : {2, 3, 5, 8}) {
    std::vector<Schedule> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(neighbour_sum(rank, ranks, 4));
    validate(all);
    run_thread_job(ranks, [&](Engine& engine) {
      ScheduledCollective collective(engine, neighbour_sum(engine.rank(), ranks, 4), "4 float32");
      EngineDriver driver(engine);
      for (int round = 0; round < 20; ++round) {
        const auto value = [&](int rank) { return static_cast<float>((rank + ranks) % ranks * 10 + round); };
        const std::vector<float> mine(4, value(engine.rank()));
        std::vector<float> sum(4);
        collective.run(driver, driver.deadline(kWatchdog), {Argument::in(mine), Argument::out(sum)}).or_throw();
        const float expected = value(engine.rank()) + value(engine.rank() + 1) + value(engine.rank() - 1);
        EXPECT_EQ(sum, std::vector<float>(4, expected));
      }
      return true;
    });
  }
}

TEST(ScheduledCollective, ARoundThatIsWaitedForInSlicesIsRunOnce) {
  constexpr int kRanks = 3;
  run_thread_job(kRanks, [&](Engine& engine) {
    ScheduledCollective collective(engine, neighbour_sum(engine.rank(), kRanks, 1), "1 float32");
    EngineDriver driver(engine);
    for (int round = 0; round < 500; ++round) {
      const std::vector<float> mine = {static_cast<float>(round)};
      std::vector<float> sum(1);
      Result<void> done;
      // Between two calls, too, the helper thread goes on: the round may be complete before the next one.
      do {
        done = collective.run(driver, driver.deadline(Duration(0)), {Argument::in(mine), Argument::out(sum)});
        if (!done && round % 10 == engine.rank()) std::this_thread::sleep_for(200us);
        if (!done && done.error().code != Errc::timeout) return false;
      } while (!done);
      if (sum[0] != 3 * mine[0]) return false;
    }
    return true;
  });
}

TEST(ScheduledCollective, AThresholdDoesNotWaitForTheRest) {
  std::atomic<bool> first_is_over{false}, late_has_sent{false};
  run_thread_job(4, [&](Engine& engine) {
    ScheduledCollective collective(engine, sum_of_first(engine.rank(), 4, 2));
    EngineDriver driver(engine);
    std::vector<std::int64_t> value{engine.rank() * 100};
    const auto run = [&](Argument argument) {
      collective.run(driver, driver.deadline(kWatchdog), {argument}).or_throw();
    };
    if (engine.rank() == 0) {
      run(Argument::out(value));
      EXPECT_EQ(value[0], 300) << "ranks 1 and 2 are enough";
      first_is_over = true;
      while (!late_has_sent) std::this_thread::yield();
      run(Argument::out(value));
      EXPECT_TRUE(value[0] == 300 || value[0] == 400 || value[0] == 500 || value[0] == 600) << value[0];
    } else {
      while (engine.rank() == 3 && !first_is_over) std::this_thread::yield();
      run(Argument::in(value));
      if (engine.rank() == 3) late_has_sent = true;
      run(Argument::in(value));
    }
    return true;
  });
}

/// Sends without a receive, which validate() would have found.
TEST(ScheduledCollective, SchedulesThatDoNotBelongTogetherFailOnEveryRankAndNameThePeer) {
  std::vector<Schedule> all;
  for (int rank = 0; rank < 3; ++rank) {
    ScheduleBuilder b("apart", rank, 3);
    const auto x = b.buffer("x", DataType::int64, 1);
    if (rank == 0) {
      all.push_back(b.build(b.nop({b.recv(1, 0, b.whole(x), {})})));
      continue;
    }
    // Rank 1 means another channel, and waits for an answer that rank 0 does not know of; rank 2 waits for rank 1. So
    // no rank can end before it hears of the mistake.
    std::vector<OpId> before;
    if (rank == 1) before.push_back(b.send(0, 7, b.whole(x), {}));
    all.push_back(b.build(b.recv(rank - 1, 0, b.whole(b.scratch("y", DataType::int64, 1)), before)));
  }
  EXPECT_THROW(validate(all), UsageError);
  run_thread_job(3, [&](Engine& engine) {
    ScheduledCollective collective(engine, all[static_cast<std::size_t>(engine.rank())]);
    EngineDriver driver(engine);
    std::vector<std::int64_t> value{1};
    const auto result = collective.run(driver, driver.deadline(kWatchdog), {Argument::in_out(value)});
    EXPECT_FALSE(result.ok());
    if (result.ok()) return true;
    EXPECT_EQ(result.error().code, Errc::bad_input);
    EXPECT_EQ(result.error().rank, 1);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("rank 1 has sent a message of round 0 on channel 7"), HasSubstr("validate()")));
    return true;
  });
}

TEST(ScheduledCollective, CallsHooksInTheirPlace) {
  run_thread_job(1, [](Engine& engine) {
    ScheduleBuilder b("hooks", 0, 1);
    const auto x = b.buffer("x", DataType::int32, 1);
    const auto y = b.buffer("y", DataType::int32, 1);
    const OpId fill = b.call(7, {});
    const OpId copy = b.copy(b.whole(y), b.whole(x), {fill});
    ScheduledCollective collective(engine, b.build(b.call(8, {copy})));
    std::vector<std::int32_t> mine{1}, out{0}, seen;
    collective.on_call([&](std::uint32_t hook) {
      if (hook == 7) mine[0] += 41;
      seen.push_back(static_cast<std::int32_t>(hook * 1000) + out[0]);
    });
    EngineDriver driver(engine);
    collective.run(driver, driver.deadline(kWatchdog), {Argument::in_out(mine), Argument::out(out)}).or_throw();
    EXPECT_EQ(seen, (std::vector<std::int32_t>{7000, 8042}));
    return true;
  });
}

/// Many ranks in one thread, each stepped in turn.
TEST(ScheduledCollective, CanBeSteppedWithoutBlocking) {
  constexpr int kRanks = 6;
  auto memory = JobMemory::create(kRanks).or_throw();
  const SteadyClock clock;
  std::vector<std::unique_ptr<ShmTransport>> transports;
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<std::unique_ptr<ScheduledCollective>> collectives;
  std::vector<std::vector<float>> mine, sum(kRanks, std::vector<float>(3));
  for (int rank = 0; rank < kRanks; ++rank) {
    transports.push_back(std::make_unique<ShmTransport>(memory, rank));
    engines.push_back(std::make_unique<Engine>(*transports.back(), clock));
    collectives.push_back(std::make_unique<ScheduledCollective>(*engines.back(), neighbour_sum(rank, kRanks, 3)));
    mine.emplace_back(3, static_cast<float>(rank));
  }
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(*collectives[rank]->finished());
    collectives[rank]->start({Argument::in(mine[rank]), Argument::out(sum[rank])});
    EXPECT_FALSE(*collectives[rank]->finished());
    EXPECT_THROW(collectives[rank]->start({Argument::in(mine[rank]), Argument::out(sum[rank])}), UsageError);
  }
  const TimePoint watchdog = clock.now() + kWatchdog;
  for (std::size_t unfinished = kRanks; unfinished > 0;) {
    ASSERT_LT(clock.now(), watchdog);
    unfinished = 0;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      engines[rank]->step();
      if (!*collectives[rank]->finished()) ++unfinished;
    }
  }
  EXPECT_EQ(sum[0], std::vector<float>(3, 0 + 1 + 5));
  EXPECT_EQ(sum[3], std::vector<float>(3, 2 + 3 + 4));
}

TEST(ScheduledCollective, RefusesWhatDoesNotFit) {
  run_thread_job(1, [](Engine& engine) {
    EXPECT_THROW(ScheduledCollective(engine, neighbour_sum(0, 2, 4)), UsageError) << "a schedule of another job";
    ScheduleBuilder b("one", 0, 1);
    b.buffer("x", DataType::int32, 2);
    const Schedule schedule = b.build(b.nop({}));
    ScheduledCollective collective(engine, schedule);
    std::vector<std::int32_t> two(2), three(3);
    std::vector<float> floats(2);
    EXPECT_THROW(collective.start({}), UsageError);
    EXPECT_THROW(collective.start({Argument::in(two), Argument::in(two)}), UsageError);
    EXPECT_THROW(collective.start({Argument::in(three)}), UsageError);
    EXPECT_THROW(collective.start({Argument::in(floats)}), UsageError);
    EngineDriver driver(engine);
    EXPECT_TRUE(collective.run(driver, driver.deadline(kWatchdog), {Argument::in(two)}).ok());
    return true;
  });
}

}  // namespace
}  // namespace stretto
