#include "stretto/imbalance/pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// A clock that stands still but for compute() and sleeping.
class Bench final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void compute(Duration duration) { now_ = now_ + duration; }
  std::function<void(TimePoint)> sleeper() {
    return [this](TimePoint when) {
      ++sleeps;
      EXPECT_GT(when, now_);
      now_ = when + oversleep;
    };
  }
  int sleeps = 0;
  Duration oversleep{0};

 private:
  TimePoint now_{5s};
};

PacedStep run(Pacer& pacer, Bench& bench, Duration real, std::uint64_t units, ImbalanceDraw draw = {}) {
  pacer.begin();
  bench.compute(real);
  return pacer.end(units, draw);
}

TEST(Pacer, StretchesAStepToItsPaceAndAddsTheDelay) {
  Bench bench;
  Pacer pacer(50us, bench, bench.sleeper());
  const auto start = bench.now();
  const auto step = run(pacer, bench, 1ms, 100, {.delay = 40ms, .factor = 1});
  EXPECT_EQ(bench.now() - start, 45ms);
  EXPECT_EQ(step.begin, start);
  EXPECT_EQ(step.computed, 1ms);
  EXPECT_EQ(step.paced, 4ms);
  EXPECT_EQ(step.delayed, 40ms);
  EXPECT_EQ(bench.sleeps, 1);
}

TEST(Pacer, StretchesPartsOfAStepAlike) {
  Bench bench;
  Pacer pacer(50us, bench, bench.sleeper());
  for (const Duration delay : {0ms, 7ms}) {
    const ImbalanceDraw draw{.delay = delay, .factor = 2};
    const auto start = bench.now();
    pacer.begin();
    bench.compute(1ms);
    pacer.reach(0.25, 100, draw);
    EXPECT_EQ(bench.now() - start, 2500us);
    bench.compute(4ms);
    pacer.reach(0.5, 100, draw);  // is over already
    EXPECT_EQ(bench.now() - start, 6500us);
    pacer.stood_still(1ms);
    pacer.reach(0.75, 100, draw);
    EXPECT_EQ(bench.now() - start, 8500us);
    const auto step = pacer.end(100, draw);
    EXPECT_EQ(bench.now() - start, 11ms + delay);
    EXPECT_EQ(step.computed, 4ms) << "of 5 ms one stood still";
    EXPECT_EQ(step.paced, 6ms);
    EXPECT_EQ(step.delayed, delay);
  }
}

TEST(Pacer, TheFactorMultipliesThePaceNotTheDelay) {
  Bench bench;
  Pacer pacer(50us, bench, bench.sleeper());
  const auto start = bench.now();
  const auto step = run(pacer, bench, 1ms, 100, {.delay = 2ms, .factor = 3});
  EXPECT_EQ(bench.now() - start, 17ms);
  EXPECT_EQ(step.paced, 14ms);
  EXPECT_EQ(step.delayed, 2ms);
}

TEST(Pacer, WithoutAPaceTheFactorMultipliesTheRealComputation) {
  Bench bench;
  Pacer pacer(0ns, bench, bench.sleeper());
  EXPECT_EQ(run(pacer, bench, 2ms, 100, {.delay = 0ms, .factor = 3}).paced, 4ms);
  EXPECT_EQ(pacer.real_compute_share(), 0);
  const int sleeps = bench.sleeps;
  EXPECT_EQ(run(pacer, bench, 2ms, 100).paced, 0ms);
  EXPECT_EQ(run(pacer, bench, 2ms, 100, {.delay = 0ms, .factor = 0.5}).paced, 0ms);
  EXPECT_EQ(bench.sleeps, sleeps) << "nothing to sleep for";
}

TEST(Pacer, ALateComputationIsNotStretchedButDelayed) {
  Bench bench;
  Pacer pacer(1us, bench, bench.sleeper());
  const auto step = run(pacer, bench, 7ms, 100, {.delay = 5ms, .factor = 1});
  EXPECT_EQ(step.computed, 7ms);
  EXPECT_EQ(step.paced, 0ms);
  EXPECT_EQ(step.delayed, 5ms);
  EXPECT_EQ(pacer.overruns(), 1u);
}

TEST(Pacer, WhatIsOversleptIsSaidAndNotAddedUp) {
  Bench bench;
  bench.oversleep = 60us;
  Pacer pacer(50us, bench, bench.sleeper());
  const auto plain = run(pacer, bench, 1ms, 100);
  EXPECT_EQ(plain.paced, 4ms + 60us);
  EXPECT_EQ(plain.delayed, 0ms);
  const auto delayed = run(pacer, bench, 1ms, 100, {.delay = 3ms, .factor = 1});
  EXPECT_EQ(delayed.paced, 4ms);
  EXPECT_EQ(delayed.delayed, 3ms + 60us);
}

TEST(Pacer, CountsTheShareOfRealCompute) {
  Bench bench;
  Pacer pacer(50us, bench, bench.sleeper());
  run(pacer, bench, 1ms, 100);
  run(pacer, bench, 1ms, 60);
  EXPECT_DOUBLE_EQ(pacer.real_compute_share(), 2.0 / 8.0);
  EXPECT_EQ(pace_warning(pacer.real_compute_share(), pacer.pace()), std::nullopt);
  run(pacer, bench, 4ms, 40);
  EXPECT_DOUBLE_EQ(pacer.real_compute_share(), 6.0 / 12.0);
  EXPECT_EQ(pacer.overruns(), 1u);
  EXPECT_EQ(
      pace_warning(pacer.real_compute_share(), pacer.pace()),
      "real compute is 50 % of the pace of 50us (above 25 %): speeds show this machine's scheduler, too; a pace of "
      "100us would do");
}

TEST(Pacer, StepTimesAreWhatAnInfinitelyFastMachineWouldTake) {
  EXPECT_EQ(paced_step_time(50us, 100, {.delay = 2ms, .factor = 3}), 17ms);
  EXPECT_EQ(paced_step_time(0ns, 100, {.delay = 2ms, .factor = 3}), 2ms);
  Bench bench;
  Pacer pacer(50us, bench, bench.sleeper());
  const auto start = bench.now();
  run(pacer, bench, 0ms, 73, {.delay = 3ms, .factor = 1.7});
  EXPECT_EQ(bench.now() - start, paced_step_time(50us, 73, {.delay = 3ms, .factor = 1.7}));
}

TEST(Pacer, ANegativePaceIsRefused) {
  const SteadyClock clock;
  EXPECT_THROW(Pacer(-1ns, clock), UsageError);
}

TEST(Pacer, SleepsOnTheRealClock) {
  const SteadyClock clock;
  Pacer pacer(10us, clock);
  const auto start = clock.now();
  pacer.begin();
  pacer.end(100, {.delay = 1ms, .factor = 1});
  EXPECT_GE(clock.now() - start, 2ms);
}

}  // namespace
}  // namespace stretto
