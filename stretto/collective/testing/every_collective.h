#pragma once

// Common to all collectives: an abort that reaches every rank, a failure that is final, and the names of missing ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "stretto/collective/base/collective.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"
#include "stretto/engine/driver.h"

namespace stretto {

/// A collective and one round of it that every rank is needed for.
struct WaitingCollective {
  std::unique_ptr<Collective> collective;
  std::function<Result<void>(Driver&, TimePoint)> run;
};

struct CollectiveKind {
  const char* name;
  std::function<WaitingCollective(Engine&)> make;
};

class EveryCollective : public testing::TestWithParam<CollectiveKind> {};

TEST_P(EveryCollective, SaysWhoIsMissingAndStopsOnEveryRankWhereOneAborts) {
  using namespace std::chrono_literals;
  std::atomic<int> said{0};
  run_thread_job(3, [&](Engine& engine) {
    auto [collective, run] = GetParam().make(engine);
    EngineDriver driver(engine, {.spin = 0ns});
    EXPECT_FALSE(collective->failure());
    if (engine.rank() == 1) {
      while (said < 2) std::this_thread::yield();
      collective->abort(driver, {Errc::aborted, "no more memory", 1});
    } else {
      const auto early = run(driver, driver.deadline(20ms));
      EXPECT_TRUE(!early && early.error().code == Errc::timeout);
      // A collective of messages may know only that its neighbour is silent: rank 0, where that one waits for rank 1,
      // or has not heard that rank 1 has made it.
      using testing::HasSubstr;
      const bool last = engine.rank() == 2;
      EXPECT_THAT(collective->who_is_missing(driver, 1s),
                  testing::AnyOf(HasSubstr("rank 1"), HasSubstr(last ? "nothing has come from rank 0" : "rank 1"),
                                 HasSubstr(last ? "rank 0 has not heard from every rank" : "rank 1"),
                                 HasSubstr("ranks 1 and 2"),  // where that one is late, too
                                 HasSubstr("its neighbours wait")));
      ++said;
    }
    const auto stopped = run(driver, driver.deadline(kWatchdog));
    EXPECT_FALSE(stopped.ok());
    if (stopped.ok() || !collective->failure()) return true;
    for (const Error& error : {stopped.error(), *collective->failure()}) {
      EXPECT_EQ(error.code, Errc::aborted);
      EXPECT_EQ(error.rank, 1);
      EXPECT_EQ(error.message, engine.rank() == 1 ? "no more memory" : "rank 1 stopped the job: no more memory");
    }
    return true;
  });
}

TEST_P(EveryCollective, FailsOnEveryRankWithTheCodeAndTheRankThatOneGives) {
  using namespace std::chrono_literals;
  run_thread_job(3, [&](Engine& engine) {
    auto [collective, run] = GetParam().make(engine);
    EngineDriver driver(engine, {.spin = 0ns});
    if (engine.rank() == 1) collective->abort(driver, {Errc::diverged, "rank 2 has another rate", 2});
    const auto stopped = run(driver, driver.deadline(kWatchdog));
    EXPECT_FALSE(stopped.ok());
    if (stopped.ok() || !collective->failure()) return true;
    for (const Error& error : {stopped.error(), *collective->failure()}) {
      EXPECT_EQ(error.code, Errc::diverged);
      EXPECT_EQ(error.rank, 2);
      EXPECT_EQ(error.message, "rank 2 has another rate");
    }
    return true;
  });
}

TEST_P(EveryCollective, NamesARankThatHasLeftWhileARoundNeedsIt) {
  using namespace std::chrono_literals;
  std::atomic<int> waiting{0};
  run_thread_job(3, [&](Engine& engine) {
    auto [collective, run] = GetParam().make(engine);
    EngineDriver driver(engine, {.spin = 0ns});
    if (engine.rank() == 1) {
      while (waiting < 2) std::this_thread::yield();
      return true;
    }
    EXPECT_FALSE(run(driver, driver.deadline(1ms)).ok());
    ++waiting;
    const auto stopped = run(driver, driver.deadline(kWatchdog));
    EXPECT_FALSE(stopped.ok());
    if (stopped.ok()) return true;
    EXPECT_EQ(stopped.error().code, Errc::lost_peer) << stopped.error().message;
    EXPECT_EQ(stopped.error().rank, 1);
    EXPECT_THAT(stopped.error().message, testing::HasSubstr("rank 1 has left"));
    return true;
  });
}

}  // namespace stretto
