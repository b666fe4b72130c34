#include "stretto/papers/neighbours/neighbour_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/papers/neighbours/graphs.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;

using Next = NeighbourExchange::Next;

NeighbourOptions on_ring(Engine& engine) {
  return {.links = [graph = MixingGraph("ring", engine.size()),
                    rank = engine.rank()](Round round) { return graph.links(rank, round); },
          .graph = "ring"};
}

/// Waits for what begun rounds need.
Result<void> take(NeighbourExchange& exchange, Driver& driver, TimePoint deadline, Round whole,
                  NeighbourExchange::Add add) {
  for (;;) {
    const std::uint64_t seen = exchange.news();
    const auto taken = exchange.try_take(whole, add);
    if (!taken) return taken.error();
    if (*taken) return {};
    if (auto waited = exchange.wait(driver, deadline, seen); !waited) return waited;
  }
}

/// What a rank does without further batches.
template <class Begin>
Result<void> finish(NeighbourExchange& exchange, Driver& driver, TimePoint deadline, Round overlap, const Begin& begin,
                    NeighbourExchange::Add add) {
  exchange.drain();
  for (;;) {
    const std::uint64_t seen = exchange.news();
    const auto next = exchange.try_next(add);
    if (!next) return next.error();
    if (*next == Next::over) return {};
    if (*next == Next::begin) {
      begin();
      const Round whole = exchange.begun() - std::min(exchange.begun(), overlap);
      if (auto taken = take(exchange, driver, deadline, whole, add); !taken) return taken;
    } else if (auto waited = exchange.wait(driver, deadline, seen); !waited) {
      return waited;
    }
  }
}

/// What the ranks have sent and been handed, in all.
struct Account {
  std::uint64_t sent = 0, handed_out = 0;
  Round begun = 0;
  std::string fault;
};

Account run_rank(Engine& engine, Round overlap, Round rounds, std::uint64_t count) {
  Account account;
  const PushGraph graph("exponential", engine.size(), engine.size() > 2 ? 2 : 1);
  const auto links = [&graph, rank = engine.rank()](Round round) { return graph.links(rank, round); };
  NeighbourExchange exchange(engine, {{DataType::float32, count}, {DataType::float64, 3}},
                             {.links = links, .graph = graph.description()});
  EngineDriver driver(engine, {.spin = 0ns});
  const TimePoint deadline = driver.deadline(60s);
  const auto begin = [&] {
    const std::uint64_t value = 1000 * exchange.begun() + static_cast<std::uint64_t>(engine.rank());
    const auto floats = exchange.outgoing(0);
    std::ranges::fill(std::span(reinterpret_cast<float*>(floats.data()), count), static_cast<float>(value));
    const auto doubles = exchange.outgoing(1);
    std::ranges::fill(std::span(reinterpret_cast<double*>(doubles.data()), 3), static_cast<double>(value));
    account.sent += value * links(exchange.begun()).out.size();
    exchange.begin(value);
  };
  const auto add = [&](const NeighbourMessage& message) {
    if (message.word != 1000 * message.round + static_cast<std::uint64_t>(message.sender)) account.fault = "word";
    const std::span floats(reinterpret_cast<const float*>(message.buckets[0].data()), count);
    const std::span doubles(reinterpret_cast<const double*>(message.buckets[1].data()), 3);
    const auto is_other = [&](auto x) { return x != static_cast<decltype(x)>(message.word); };
    if (std::ranges::any_of(floats, is_other) || std::ranges::any_of(doubles, is_other)) account.fault = "torn";
    account.handed_out += message.word;
  };
  while (exchange.begun() < rounds && account.fault.empty()) {
    if (exchange.begun() % 7 == static_cast<Round>(engine.rank())) std::this_thread::sleep_for(300us);
    begin();
    const Round whole = exchange.begun() - std::min(exchange.begun(), overlap);
    if (auto taken = take(exchange, driver, deadline, whole, add); !taken) account.fault = taken.error().message;
  }
  if (auto over = finish(exchange, driver, deadline, overlap, begin, add); !over) account.fault = over.error().message;
  account.begun = exchange.begun();
  return account;
}

TEST(NeighbourExchange, HandsEachMessageOutOnceAndEndsTogether) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const Round overlap : {0, 2}) {
      std::vector<Account> accounts(static_cast<std::size_t>(ranks));
      run_thread_job(ranks, [&](Engine& engine) {
        const auto rank = static_cast<std::size_t>(engine.rank());
        accounts[rank] = run_rank(engine, overlap, 20 + 9 * rank, 5000);
        return true;
      });
      std::uint64_t sent = 0, handed_out = 0;
      for (const Account& account : accounts) {
        EXPECT_EQ(account.fault, "");
        EXPECT_EQ(account.begun, static_cast<Round>(20 + 9 * (ranks - 1)));
        sent += account.sent;
        handed_out += account.handed_out;
      }
      EXPECT_EQ(sent, handed_out) << ranks << " ranks, overlap " << overlap;
    }
  }
}

/// The error with which each rank's calls end, where one of them does something else after ten rounds.
std::vector<Error> errors_where(int odd_rank, const std::function<bool(NeighbourExchange&, Driver&)>& odd) {
  std::vector<Error> errors(4, Error{Errc::io, "no error", -1});
  run_thread_job(4, [&](Engine& engine) {
    const auto exchange = std::make_unique<NeighbourExchange>(
        engine, std::vector<BucketSpec>{{DataType::float32, 100'000}}, on_ring(engine));
    EngineDriver driver(engine, {.spin = 0ns});
    for (;;) {
      if (engine.rank() == odd_rank && exchange->begun() == 10) return odd(*exchange, driver);
      exchange->begin(0);
      const auto add = [](const NeighbourMessage&) {};
      if (auto taken = take(*exchange, driver, driver.deadline(60s), exchange->begun(), add); !taken) {
        errors[static_cast<std::size_t>(engine.rank())] = taken.error();
        return true;
      }
    }
  });
  return errors;
}

TEST(NeighbourExchange, NamesALostRankToAllOthers) {
  const auto errors = errors_where(2, [](NeighbourExchange&, Driver&) { return false; });
  for (const int rank : {0, 1, 3}) {
    const Error& error = errors[static_cast<std::size_t>(rank)];
    EXPECT_EQ(error.code, Errc::lost_peer) << error.message;
    EXPECT_EQ(error.rank, 2) << error.message;
  }
}

TEST(NeighbourExchange, StopsOnAllRanksByAnAbort) {
  const auto errors = errors_where(1, [](NeighbourExchange& exchange, Driver& driver) {
    exchange.abort(driver, {Errc::aborted, "enough", 1});
    EXPECT_EQ(exchange.failure()->code, Errc::aborted);
    EXPECT_FALSE(exchange.try_take(0, [](const NeighbourMessage&) {}));
    return true;
  });
  for (const int rank : {0, 2, 3}) {
    const Error& error = errors[static_cast<std::size_t>(rank)];
    EXPECT_EQ(error.code, Errc::aborted) << error.message;
    EXPECT_THAT(error.message, HasSubstr("rank 1 stopped the job: enough"));
  }
}

TEST(NeighbourExchange, NamesARankThatLeavesBeforeTheOthersHaveNoMoreBatches) {
  const auto errors = errors_where(3, [](NeighbourExchange&, Driver&) { return true; });
  for (const int rank : {0, 1, 2}) {
    const Error& error = errors[static_cast<std::size_t>(rank)];
    EXPECT_EQ(error.code, Errc::lost_peer) << error.message;
    EXPECT_EQ(error.rank, 3) << error.message;
  }
}

TEST(NeighbourExchange, FailsWhereRanksDisagree) {
  std::vector<std::string> errors(3);
  run_thread_job(3, [&](Engine& engine) {
    NeighbourOptions options = on_ring(engine);
    options.graph = engine.rank() == 1 ? "complete" : "ring";
    NeighbourExchange exchange(engine, {{DataType::float32, 10}}, options);
    EngineDriver driver(engine, {.spin = 0ns});
    Result<void> taken;
    while (taken) {
      exchange.begin(0);
      taken = take(exchange, driver, driver.deadline(60s), exchange.begun(), [](const NeighbourMessage&) {});
    }
    errors[static_cast<std::size_t>(engine.rank())] = taken.error().message;
    return true;
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("rank 1 runs \"exchange with neighbours of 1 bucket, complete\""));
  }
}

/// Rank 0 brings nothing until rank 1 has given up waiting for it once.
TEST(NeighbourExchange, SaysForWhomItWaits) {
  std::atomic<bool> told{false};
  run_thread_job(3, [&](Engine& engine) {
    NeighbourExchange exchange(engine, {{DataType::float32, 10}}, on_ring(engine));
    EngineDriver driver(engine, {.spin = 0ns});
    const auto nothing = [](const NeighbourMessage&) {};
    if (engine.rank() != 0) {
      exchange.begin(0);
      if (engine.rank() == 1) {
        const auto taken = take(exchange, driver, driver.deadline(50ms), 1, nothing);
        EXPECT_EQ(taken.error().code, Errc::timeout);
        EXPECT_THAT(taken.error().message,
                    AnyOf("round 0 of the neighbours waits for rank 0", HasSubstr("waits for rank 0, rank 2")));
        told.store(true);
        told.notify_all();
      }
    } else {
      told.wait(false);
    }
    const auto begin = [&] { exchange.begin(0); };
    EXPECT_TRUE(finish(exchange, driver, driver.deadline(60s), 0, begin, nothing));
    EXPECT_EQ(exchange.begun(), 1u);
    return true;
  });
}

TEST(NeighbourExchange, RefusesBucketsThatCannotBe) {
  run_thread_job(1, [&](Engine& engine) {
    EXPECT_THROW(NeighbourExchange(engine, {}, on_ring(engine)), UsageError);
    EXPECT_THROW(NeighbourExchange(engine, {{DataType::float32, ~std::uint64_t{0}}}, on_ring(engine)), UsageError);
    return true;
  });
}

}  // namespace
}  // namespace stretto
