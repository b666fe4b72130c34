// Common to all collectives: an abort that reaches every rank, a failure that is final, and the names of missing ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/plain.h"
#include "stretto/collective/server/parameter_server.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;

/// A collective and one round of it that every rank is needed for.
struct Waiting {
  std::unique_ptr<Collective> collective;
  std::function<Result<void>(Driver&, TimePoint)> run;
};

struct Kind {
  const char* name;
  std::function<Waiting(Engine&)> make;
};

Waiting barrier(Engine& engine) {
  auto made = std::make_unique<Barrier>(engine);
  Barrier& barrier = *made;
  return {std::move(made), [&barrier](Driver& driver, TimePoint by) { return barrier.run(driver, by); }};
}

Waiting allreduce(Engine& engine, const AllreduceOptions& options) {
  auto made = std::make_unique<Allreduce>(engine, DataType::int32, 100, ReduceOp::sum, options);
  Allreduce& sum = *made;
  return {std::move(made), [&sum](Driver& driver, TimePoint by) { return sum.run(driver, by); }};
}

Waiting partial(Engine& engine, int seats) {
  auto made = std::make_unique<PartialAllreduce>(engine, std::vector<BucketSpec>{{DataType::int32, 100}},
                                                 PartialOptions{.seats = seats});
  PartialAllreduce& sum = *made;
  return {std::move(made), [&sum](Driver& driver, TimePoint by) -> Result<void> {
            const auto rounds = sum.exchange(driver, by, [](const RoundResult&) {});
            return rounds ? Result<void>() : Result<void>(rounds.error());
          }};
}

/// One step of a sync parameter server.
Waiting server(Engine& engine) {
  struct Step {
    explicit Step(Engine& engine)
        : server(engine, {{DataType::int32, 100}}, {},
                 [](int, std::span<std::byte>, std::span<const std::byte>, std::span<std::byte>, int) {}) {}
    Result<void> run(Driver& driver, TimePoint by) {
      const auto bytes = std::as_writable_bytes(std::span(value));
      const std::span<const std::byte> first = bytes;
      if (!server.begun()) {
        server.begin({&first, 1});
        server.push(0, std::as_writable_bytes(std::span(gradient)), bytes);
      }
      return server.wait(driver, by);
    }
    std::vector<std::int32_t> value = std::vector<std::int32_t>(100), gradient = value;
    ParameterServer server;
  };
  auto step = std::make_shared<Step>(engine);
  struct Made final : Collective {
    explicit Made(std::shared_ptr<Step> step) : step(std::move(step)) {}
    void abort(Driver& driver, const Error& why) override { step->server.abort(driver, why); }
    std::optional<Error> failure() const override { return step->server.failure(); }
    std::string who_is_missing(Driver& driver, Duration timeout) override {
      return step->server.who_is_missing(driver, timeout);
    }
    std::shared_ptr<Step> step;
  };
  return {std::make_unique<Made>(step), [&step = *step](Driver& driver, TimePoint by) { return step.run(driver, by); }};
}

const Kind kKinds[] = {
    {"Barrier", barrier},
    {"AllreduceByMessages", [](Engine& e) { return allreduce(e, {.through = AllreduceOptions::Through::messages}); }},
    {"AllreduceByExchange", [](Engine& e) { return allreduce(e, {.through = AllreduceOptions::Through::exchange}); }},
    {"AllreduceByGather", [](Engine& e) { return allreduce(e, {.through = AllreduceOptions::Through::gather}); }},
    {"AllreduceOnSeveralBoards", [](Engine& e) { return allreduce(e, {.seats = 2}); }},
    {"PartialOnABoard", [](Engine& e) { return partial(e, 0); }},
    {"PartialByMessages", [](Engine& e) { return partial(e, 1); }},
    {"PartialOnSeveralBoards", [](Engine& e) { return partial(e, 2); }},
    {"ParameterServer", server},
};

class EveryCollective : public testing::TestWithParam<Kind> {};

TEST_P(EveryCollective, SaysWhoIsMissingAndStopsOnEveryRankWhereOneAborts) {
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
      // A collective of messages may know only that its neighbour is silent: rank 0, where that one waits for rank 1.
      const char* also = engine.rank() == 2 ? "nothing has come from rank 0" : "rank 1";
      EXPECT_THAT(collective->who_is_missing(driver, 1s),
                  AnyOf(HasSubstr("rank 1"), HasSubstr(also), HasSubstr("its neighbours wait")));
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
    EXPECT_THAT(stopped.error().message, HasSubstr("rank 1 has left"));
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(All, EveryCollective, testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace stretto
