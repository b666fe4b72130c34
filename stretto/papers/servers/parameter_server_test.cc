#include "stretto/papers/servers/parameter_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "stretto/collective/testing/process_job.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

void add(int, std::span<std::byte> to, std::span<const std::byte> from, std::span<std::byte> sum, int) {
  const auto* in = reinterpret_cast<const std::int64_t*>(from.data());
  const auto* gradient = reinterpret_cast<const std::int64_t*>(sum.data());
  auto* out = reinterpret_cast<std::int64_t*>(to.data());
  for (std::size_t i = 0; i < to.size() / sizeof(std::int64_t); ++i) out[i] = in[i] + gradient[i];
}

/// A rank whose gradients are ones, in buckets of 3 and of 100,000 elements.
struct Worker {
  Worker(Engine& engine, const ServerOptions& options)
      : server(engine, {{DataType::int64, 3}, {DataType::int64, 100'000}}, options, add) {
    const std::array<std::span<const std::byte>, 2> first{bytes(values[0]), bytes(values[1])};
    server.begin(first);
  }
  Result<void> step(Driver& driver) {
    for (std::size_t b = 0; b < 2; ++b) {
      std::ranges::fill(gradients[b], 1);
      server.push(static_cast<int>(b), bytes(gradients[b]), bytes(values[b]));
    }
    return server.wait(driver, driver.deadline(kWatchdog));
  }
  Result<void> settle(Driver& driver) {
    const std::array<std::span<std::byte>, 2> last{bytes(values[0]), bytes(values[1])};
    return server.settle(driver, driver.deadline(kWatchdog), last);
  }
  /// Whether all elements are this.
  bool is(std::int64_t expected) const {
    return std::ranges::all_of(values, [&](const auto& value) {
      return std::ranges::all_of(value, [&](std::int64_t x) { return x == expected; });
    });
  }
  static std::span<std::byte> bytes(std::vector<std::int64_t>& numbers) {
    return std::as_writable_bytes(std::span(numbers));
  }

  std::array<std::vector<std::int64_t>, 2> values{std::vector<std::int64_t>(3), std::vector<std::int64_t>(100'000)};
  std::array<std::vector<std::int64_t>, 2> gradients = values;
  ParameterServer server;
};

TEST(ParameterServer, TakesEveryGradientOnceInEveryMode) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    for (const ServerMode mode : {ServerMode::sync, ServerMode::async, ServerMode::ssp, ServerMode::k_sync}) {
      run_thread_job(ranks, [&](Engine& engine) {
        Worker worker(engine, {.mode = mode, .staleness = 1, .enough = ranks, .servers = (ranks + 1) / 2});
        EngineDriver driver(engine, {.spin = 0ns});
        const int steps = 3 + engine.rank() % 2;
        for (int step = 0; step < steps; ++step) {
          worker.step(driver).or_throw();
          if (mode == ServerMode::sync && step < 3) {
            EXPECT_TRUE(worker.is((step + 1) * ranks));
          }
        }
        worker.settle(driver).or_throw();
        EXPECT_TRUE(worker.is(3 * ranks + ranks / 2)) << worker.values[0][0];
        return true;
      });
    }
  }
}

TEST(ParameterServer, PhasesEndWithEveryGradientOnAllRanks) {
  for (const int ranks : {1, 2, 4, 7}) {
    for (const ServerMode mode : {ServerMode::sync, ServerMode::async, ServerMode::ssp, ServerMode::k_sync}) {
      run_thread_job(ranks, [&](Engine& engine) {
        Worker worker(engine, {.mode = mode, .staleness = 1, .enough = ranks, .servers = (ranks + 1) / 2});
        EngineDriver driver(engine, {.spin = 0ns});
        std::int64_t made = 0;
        for (int phase = 0; phase < 5; ++phase) {
          if (phase > 0) worker.server.go_on();
          const auto steps = [phase](int rank) { return (phase + rank) % 3; };
          for (int step = 0; step < steps(engine.rank()); ++step) worker.step(driver).or_throw();
          for (int rank = 0; rank < ranks; ++rank) made += steps(rank);
          worker.settle(driver).or_throw();
          EXPECT_TRUE(worker.is(made)) << worker.values[0][0] << " after phase " << phase << ", not " << made;
        }
        return true;
      });
    }
  }
}

TEST(ParameterServer, WorksWithServersThatPushNothing) {
  run_thread_job(4, [](Engine& engine) {
    Worker worker(engine, {.servers = 1, .dedicated = true});
    EngineDriver driver(engine, {.spin = 0ns});
    for (int step = 0; engine.rank() != 3 && step < 5; ++step) worker.step(driver).or_throw();
    worker.settle(driver).or_throw();
    EXPECT_TRUE(worker.is(15));
    EXPECT_EQ(worker.server.counts().ages.count(), engine.rank() == 3 ? 30u : 0u);
    return true;
  });
}

/// Rank 2 brings nothing until the others have given up waiting for it once.
TEST(ParameterServer, SaysWhoseGradientAServerWaitsFor) {
  std::atomic<int> told{0};
  run_thread_job(3, [&](Engine& engine) {
    Worker worker(engine, {});
    EngineDriver driver(engine, {.spin = 0ns});
    if (engine.rank() != 2) {
      for (std::size_t b = 0; b < 2; ++b) {
        worker.server.push(static_cast<int>(b), Worker::bytes(worker.gradients[b]), Worker::bytes(worker.values[b]));
      }
      const auto early = worker.server.wait(driver, driver.deadline(50ms));
      EXPECT_FALSE(early.ok());
      if (!early.ok()) {
        EXPECT_EQ(early.error().code, Errc::timeout);
        EXPECT_THAT(early.error().message, AllOf(HasSubstr("parameter server of 2 buckets"), HasSubstr("waits for"),
                                                 HasSubstr("2 (version 0)")));
      }
      ++told;
      worker.server.wait(driver, driver.deadline(kWatchdog)).or_throw();
    } else {
      while (told < 2) std::this_thread::yield();
      worker.step(driver).or_throw();
    }
    worker.settle(driver).or_throw();
    return true;
  });
}

TEST(ParameterServer, NamesARankThatIsKilled) {
  const auto status = run_process_job(3, [](Engine& engine) {
    Worker worker(engine, {});
    EngineDriver driver(engine, {.spin = 0ns});
    for (int step = 0;; ++step) {
      if (engine.rank() == 1 && step == 3) kill(getpid(), SIGKILL);
      const auto result = worker.step(driver);
      if (!result) return result.error().code == Errc::lost_peer && result.error().rank == 1 ? 0 : 2;
    }
  });
  EXPECT_EQ(status[0], 0);
  EXPECT_EQ(status[2], 0);
}

TEST(ParameterServer, RanksWithOtherOptionsAreTold) {
  run_thread_job(3, [](Engine& engine) {
    Worker worker(engine, {.mode = ServerMode::ssp, .staleness = engine.rank() == 1 ? 4u : 3u});
    EngineDriver driver(engine, {.spin = 0ns});
    Result<void> result;
    for (int step = 0; result && step < 10; ++step) result = worker.step(driver);
    EXPECT_FALSE(result.ok());
    if (result.ok()) return true;
    EXPECT_EQ(result.error().code, Errc::bad_input) << result.error().message;
    EXPECT_THAT(result.error().message, HasSubstr("ssp of 4 steps"));
    return true;
  });
}

TEST(ParameterServer, RefusesMisuse) {
  run_thread_job(1, [](Engine& engine) {
    EXPECT_THROW(ParameterServer(engine, {}, {}, add), UsageError);
    EXPECT_THROW(ParameterServer(engine, {{DataType::int64, 0}}, {}, add), UsageError);
    EXPECT_THROW(ParameterServer(engine, {{DataType::int64, 1}}, {.servers = 2}, add), UsageError);
    ParameterServer server(engine, {{DataType::int64, 1}}, {}, add);
    std::vector<std::int64_t> one(1), two(2);
    EXPECT_THROW(server.push(0, Worker::bytes(one), Worker::bytes(one)), UsageError) << "before begin()";
    const std::span<const std::byte> first = Worker::bytes(one);
    server.begin({&first, 1});
    EXPECT_THROW(server.begin({&first, 1}), UsageError);
    EXPECT_THROW(server.push(0, Worker::bytes(two), Worker::bytes(one)), UsageError);
    server.push(0, Worker::bytes(one), Worker::bytes(one));
    EXPECT_THROW(server.push(0, Worker::bytes(one), Worker::bytes(one)), UsageError);
    EngineDriver driver(engine);
    server.wait(driver, driver.deadline(kWatchdog)).or_throw();
    const std::span<std::byte> last = Worker::bytes(one);
    server.settle(driver, driver.deadline(kWatchdog), {&last, 1}).or_throw();
    EXPECT_THROW(server.push(0, Worker::bytes(one), Worker::bytes(one)), UsageError) << "after settle()";
    server.go_on();
    EXPECT_THROW(server.go_on(), UsageError) << "before settle()";
    server.settle(driver, driver.deadline(kWatchdog), {&last, 1}).or_throw();
    return true;
  });
}

}  // namespace
}  // namespace stretto
