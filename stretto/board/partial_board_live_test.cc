// A board between threads: of each rank the application and the engine, which sleep.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "stretto/board/partial_seat.h"
#include "stretto/board/testing/quorum_rule.h"
#include "stretto/board/testing/test_support.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t kSeed = 5;

struct Live {
  int ranks = 4;
  int quorum = 2;
  std::uint64_t steps = 3000;
  PartialShape shape;
};

struct Seen {
  std::uint64_t sum = 0, history = 0, batches = 0;
  Round rounds = 0;
  std::string fault;
};

class Rank {
 public:
  Rank(const Live& live, std::span<std::byte> bytes, int rank, Doorbells& engines, Doorbells& apps)
      : live_(live),
        rank_(rank),
        memory_(bytes, live.shape, live.ranks),
        seat_(memory_, rank),
        rule_(memory_, live.quorum),
        board_(memory_, rank, rule_, [&engines](int r) { engines.ring(r); }),
        engine_bell_(engines.at(rank)),
        app_bell_(apps.at(rank)) {}

  void run() {
    std::thread engine([this] { run_engine(); });
    run_application();
    stop_ = true;
    engine_bell_.ring();
    engine.join();
  }
  const Seen& seen() const { return seen_; }
  const QuorumRule& rule() const { return rule_; }

 private:
  bool application_waits() const {
    const Round complete = board_.complete();
    return waits_at_.load() == complete + 1 || (drained_.load() && !rule_.ended(complete));
  }

  void run_engine() {
    Round told = 0;
    while (!stop_) {
      const std::uint32_t rings = engine_bell_.rings();
      const FutexWait signal = look_at(board_.signal());
      const bool waits = application_waits();
      if (board_.step(waits)) continue;
      if (waits && application_waits()) {
        if (board_.go_in()) continue;
      } else {
        board_.leave();
      }
      if (board_.complete() != told) {
        told = board_.complete();
        app_bell_.ring();
        continue;
      }
      engine_bell_.sleep(rings, Doorbell::Sleeper::helper, 60s, signal);
    }
  }

  void wait_beyond(Round round) {
    while (seen_.fault.empty()) {
      const std::uint32_t rings = app_bell_.rings();
      if (board_.complete() > round) return;
      if (!sleeps_well(app_bell_, rings, Doorbell::Sleeper::application)) seen_.fault = "nobody has woken this rank";
    }
  }

  void hand_over() {
    for (; handed_ < board_.complete();) {
      const RoundHeader header = board_.header(handed_);
      seen_.batches += header.batches;
      if (!header.empty()) {
        const auto result = memory_.result(handed_, 0);
        const auto* numbers = reinterpret_cast<const std::uint64_t*>(result.data());
        for (std::size_t i = 0; i < result.size() / 8; ++i) {
          if (numbers[i] != numbers[0]) seen_.fault = "torn";
        }
        seen_.sum += numbers[0];
        seen_.history = random_bits(seen_.history, numbers[0], header.batches + header.sum_of_bases);
      }
      if (seat_.hand_over(++handed_) && board_.wake_one() == 0) engine_bell_.ring();
    }
  }

  void run_application() {
    Random random(kSeed, 1000 + static_cast<std::uint64_t>(rank_));
    for (std::uint64_t step = 0; step < live_.steps && seen_.fault.empty(); ++step) {
      if (random.chance(0.02)) std::this_thread::sleep_for(std::chrono::microseconds(random.below(500)));
      const int set = seat_.acquire();
      const auto data = memory_.data(rank_, set, 0);
      auto* numbers = reinterpret_cast<std::uint64_t*>(data.data());
      for (std::size_t i = 0; i < data.size() / 8; ++i) numbers[i] = deposited(kSeed, rank_, step);
      memory_.set(rank_, set).facts = {.batches = 1, .oldest_base = handed_, .sum_of_bases = handed_};
      memory_.set(rank_, set).ready.store(1, std::memory_order_relaxed);
      PartialSeat::Deposit deposit(seat_, set);
      while (!deposit.step()) {
      }
      if (random.chance(0.2)) continue;
      hand_over();
      const Round round = handed_;
      seat_.arrive(round, 1);
      waits_at_ = round + 1;
      engine_bell_.ring();
      wait_beyond(round);
      hand_over();
    }
    seat_.drain();
    drained_ = true;
    engine_bell_.ring();
    while (!rule_.ended(handed_) && seen_.fault.empty()) {
      wait_beyond(handed_);
      hand_over();
    }
    seen_.rounds = handed_;
  }

  const Live& live_;
  const int rank_;
  PartialMemory memory_;
  PartialSeat seat_;
  QuorumRule rule_;
  PartialBoard board_;
  Doorbell engine_bell_, app_bell_;
  std::atomic<bool> stop_{false};
  std::atomic<Round> waits_at_{0};
  std::atomic<bool> drained_{false};
  Round handed_ = 0;  // the application's, as what follows
  Seen seen_;
};

void expect_exact(const Live& live) {
  const ZeroMemory memory(PartialMemory::bytes_needed(live.shape, live.ranks));
  Doorbells engines(live.ranks), apps(live.ranks);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < live.ranks; ++rank) {
    ranks.push_back(std::make_unique<Rank>(live, memory.bytes(), rank, engines, apps));
  }
  std::vector<std::thread> threads;
  for (auto& rank : ranks) threads.emplace_back([&rank] { rank->run(); });
  for (auto& thread : threads) thread.join();

  std::uint64_t sum = 0;
  for (int rank = 0; rank < live.ranks; ++rank) {
    for (std::uint64_t step = 0; step < live.steps; ++step) sum += deposited(kSeed, rank, step);
  }
  const Round rounds = ranks[0]->seen().rounds;
  std::vector<int> started(rounds), sealed(rounds);
  for (int rank = 0; rank < live.ranks; ++rank) {
    const Seen& seen = ranks[static_cast<std::size_t>(rank)]->seen();
    ASSERT_EQ(seen.fault, "") << "rank " << rank;
    ASSERT_EQ(seen.rounds, rounds) << "rank " << rank;
    EXPECT_EQ(seen.batches, live.steps * static_cast<std::uint64_t>(live.ranks)) << "rank " << rank;
    EXPECT_EQ(seen.sum, sum) << "rank " << rank;
    EXPECT_EQ(seen.history, ranks[0]->seen().history) << "rank " << rank;
    const QuorumRule& rule = ranks[static_cast<std::size_t>(rank)]->rule();
    for (const Round round : rule.rounds_started()) ++started[round];
    for (const auto& taken : rule.all_taken()) ++sealed[taken.round];
    for (const int come : rule.come()) EXPECT_GE(come, live.quorum);
  }
  EXPECT_EQ(started, std::vector<int>(rounds, 1));
  EXPECT_EQ(sealed, std::vector<int>(rounds, live.ranks));
}

PartialShape shape_of(std::uint64_t count, SumOrder order, int max_lag, std::uint64_t piece_bytes = 256) {
  return {.buckets = {{DataType::int64, count}}, .order = order, .max_lag = max_lag, .piece_bytes = piece_bytes};
}

TEST(PartialBoardLive, Quorum) {
  expect_exact({.steps = 5000, .shape = shape_of(100, SumOrder::fixed, 4)});
}

TEST(PartialBoardLive, SoloWithTheSmallestLag) {
  expect_exact({.quorum = 1, .steps = 2000, .shape = shape_of(20, SumOrder::fixed, 1)});
}

TEST(PartialBoardLive, Full) {
  expect_exact({.ranks = 3, .quorum = 3, .steps = 3000, .shape = shape_of(100, SumOrder::arrival, 2)});
}

TEST(PartialBoardLive, LargeContributionsSummedAsTheyCome) {
  expect_exact({.ranks = 6, .quorum = 6, .steps = 200, .shape = shape_of(10'000, SumOrder::arrival, 2, 8 << 10)});
  expect_exact({.ranks = 6, .quorum = 5, .steps = 200, .shape = shape_of(10'000, SumOrder::arrival, 3, 8 << 10)});
}

}  // namespace
}  // namespace stretto
