#include "stretto/papers/pairs/pair_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "stretto/base/random.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"
#include "stretto/kernel/mix.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// One rank's model of residues in two buckets.
struct Model {
  std::vector<std::int64_t> a = std::vector<std::int64_t>(1000, 5), b = {11, 12, 13};

  std::vector<std::span<const std::byte>> buckets() const {
    return {std::as_bytes(std::span(a)), std::as_bytes(std::span(b))};
  }
  std::span<std::byte> bucket(int i) { return std::as_writable_bytes(std::span(i == 0 ? a : b)); }
};

const std::vector<BucketSpec> kBuckets{{DataType::int64, 1000}, {DataType::int64, 3}};

void step(PairExchange& pairs, Model& model, std::int64_t by) {
  for (auto& x : model.a) x = (x + by) % kMixPrime;
  for (auto& x : model.b) x = (x + by) % kMixPrime;
  for (int i = 0; i < 2; ++i) (void)pairs.add_step(i, model.bucket(i));
}

class EveryPairing : public testing::TestWithParam<Pairing> {};

// Ranks as threads, so that the thread sanitizer sees application and helper thread at one model.
TEST_P(EveryPairing, KeepsTheSumOfTheModelsButForTheSteps) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    std::atomic<std::int64_t> steps{0}, first{0}, last{0};
    const bool center = GetParam() == Pairing::center;
    run_thread_job(ranks, [&](Engine& engine) {
      PairExchange pairs(engine, kBuckets, {.pairing = GetParam(), .weight = 0.5, .back = 0.5, .seed = 3});
      EngineDriver driver(engine, {.spin = 0ns});
      Model model;
      pairs.begin(model.buckets());
      Random random(static_cast<std::uint64_t>(engine.rank()));
      for (int i = 0; i < 30 + 10 * engine.rank(); ++i) {
        const auto by = static_cast<std::int64_t>(random.below(1000));
        steps += by;
        step(pairs, model, by);
        EXPECT_TRUE(pairs.exchange(driver, driver.deadline(kWatchdog)).ok());
      }
      EXPECT_TRUE(pairs.settle(driver, driver.deadline(kWatchdog)).ok());
      const auto note = [&] {
        first += model.a[999];
        last += model.b[2];
      };
      for (int i = 0; i < 2; ++i) pairs.read(i, model.bucket(i));
      note();
      if (pairs.owns_center()) {
        for (int i = 0; i < 2; ++i) pairs.read_center(i, model.bucket(i));
        note();
      }
      return true;
    });
    const std::int64_t models = ranks + (center ? 1 : 0);
    EXPECT_EQ(first % kMixPrime, (5 * models + steps) % kMixPrime) << ranks;
    EXPECT_EQ(last % kMixPrime, (13 * models + steps) % kMixPrime) << ranks;
  }
}

TEST_P(EveryPairing, ExchangesModelsOfAMegabyte) {
  const std::vector<BucketSpec> buckets{{DataType::float32, 300'000}, {DataType::float32, 3}};
  std::atomic<int> moved{0};
  run_thread_job(3, [&](Engine& engine) {
    PairExchange pairs(engine, buckets, {.pairing = GetParam(), .weight = 0.25, .back = 0.25});
    EngineDriver driver(engine, {.spin = 0ns});
    std::vector<float> a(300'000), b(3);
    pairs.begin(std::vector<std::span<const std::byte>>{std::as_bytes(std::span(a)), std::as_bytes(std::span(b))});
    for (int i = 0; i < 5; ++i) {
      for (float& x : a) x += 1;
      for (float& x : b) x += 1;
      (void)pairs.add_step(0, std::as_writable_bytes(std::span(a)));
      (void)pairs.add_step(1, std::as_writable_bytes(std::span(b)));
      EXPECT_TRUE(pairs.exchange(driver, driver.deadline(kWatchdog)).ok());
    }
    EXPECT_TRUE(pairs.settle(driver, driver.deadline(kWatchdog)).ok());
    pairs.read(0, std::as_writable_bytes(std::span(a)));
    EXPECT_EQ(std::ranges::count(a, a[0]), 300'000) << "one access a bucket";
    if (a[0] != 0) ++moved;
    return true;
  });
  EXPECT_EQ(moved, 3);
}

TEST_P(EveryPairing, SaysWhoIsMissing) {
  std::atomic<bool> said{false};
  run_thread_job(2, [&](Engine& engine) {
    PairExchange pairs(engine, kBuckets, {.pairing = GetParam()});
    EngineDriver driver(engine, {.spin = 0ns});
    const Model model;
    const int waiting = GetParam() == Pairing::center ? 0 : 1;
    if (engine.rank() == waiting) {
      pairs.begin(model.buckets());
      const auto early = pairs.settle(driver, driver.deadline(10ms));
      EXPECT_FALSE(early.ok());
      if (early.ok()) return true;
      EXPECT_EQ(early.error().code, Errc::timeout);
      EXPECT_THAT(early.error().message, HasSubstr(text("rank ", 1 - waiting)));
      said = true;
      EXPECT_TRUE(pairs.settle(driver, driver.deadline(kWatchdog)).ok());
    } else {
      while (!said) std::this_thread::yield();
      pairs.begin(model.buckets());
      EXPECT_TRUE(pairs.settle(driver, driver.deadline(kWatchdog)).ok());
    }
    return true;
  });
}

TEST_P(EveryPairing, AnswersWhileTheApplicationComputes) {
  std::atomic<int> exchanges{0};
  run_thread_job(2, [&](Engine& engine) {
    PairExchange pairs(engine, kBuckets, {.pairing = GetParam()});
    EngineDriver driver(engine, {.spin = 0ns});
    Model model;
    pairs.begin(model.buckets());
    const bool asks = engine.rank() == (GetParam() == Pairing::center ? 1 : 0);
    if (asks) {
      for (int i = 0; i < 5; ++i) {
        step(pairs, model, 1);
        EXPECT_TRUE(pairs.exchange(driver, driver.deadline(kWatchdog)).ok());
        ++exchanges;
      }
    } else {
      while (exchanges < 5) std::this_thread::yield();
    }
    EXPECT_TRUE(pairs.settle(driver, driver.deadline(kWatchdog)).ok());
    return true;
  });
  EXPECT_EQ(exchanges, 5);
}

TEST_P(EveryPairing, FailsOnEveryRankWhereOneAbortsOrLeaves) {
  for (const bool leaves : {false, true}) {
    std::atomic<bool> heard{false};
    run_thread_job(3, [&](Engine& engine) {
      PairExchange pairs(engine, kBuckets, {.pairing = GetParam()});
      EngineDriver driver(engine, {.spin = 0ns});
      const Model model;
      pairs.begin(model.buckets());
      if (engine.rank() == 2) {
        if (!leaves) pairs.abort(driver, {Errc::aborted, "no more memory", 2});
        return true;
      }
      // The rank that waits for none stays until the other one has heard.
      if (engine.rank() == (GetParam() == Pairing::center ? 1 : 0)) {
        while (!heard) std::this_thread::yield();
        return true;
      }
      const auto stopped = pairs.settle(driver, driver.deadline(kWatchdog));
      heard = true;
      EXPECT_FALSE(stopped.ok());
      if (stopped.ok()) return true;
      EXPECT_EQ(stopped.error().code, leaves ? Errc::lost_peer : Errc::aborted) << stopped.error().message;
      return true;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPairing, testing::Values(Pairing::bipartite, Pairing::center),
                         [](const auto& info) { return info.param == Pairing::center ? "Center" : "Pairs"; });

TEST(PairExchange, RefusesWhatItCannotMix) {
  run_thread_job(1, [](Engine& engine) {
    const auto make = [&](std::vector<BucketSpec> buckets, PairOptions options = {}) {
      const PairExchange pairs(engine, std::move(buckets), options);
    };
    EXPECT_THROW(make({}), UsageError);
    EXPECT_THROW(make({{DataType::int32, 3}}), UsageError);
    EXPECT_THROW(make({{DataType::float32, 0}}), UsageError);
    EXPECT_THROW(make({{DataType::float32, 1}}, {.weight = 1.5}), UsageError);
    EXPECT_THROW(make({{DataType::float32, 1}}, {.back = -0.1}), UsageError);
    return true;
  });
}

}  // namespace
}  // namespace stretto
