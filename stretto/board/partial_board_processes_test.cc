// A board between processes, of which the thread sanitizer sees one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "stretto/board/open_round.h"
#include "stretto/board/partial_seat.h"
#include "stretto/board/testing/quorum_rule.h"
#include "stretto/transport/testing/processes.h"
#include "stretto/transport/testing/shared_zeros.h"

namespace stretto {
namespace {

/// A rank's engine: every step makes one access to shared memory.
class Engine {
 public:
  Engine(PartialMemory& memory, int rank)
      : rule_(memory, 1),
        board_(
            memory, rank, rule_, [](int) {}, true) {}

  template <class Condition>
  void step_until(Condition is_so) {
    while (!is_so()) board_.step(true);
  }
  Round complete() const { return board_.complete(); }

 private:
  QuorumRule rule_;
  PartialBoard board_;
};

void deposit(PartialMemory& memory, PartialSeat& seat, int set, std::uint64_t batches) {
  memory.set(0, set).facts = {.batches = batches};
  memory.set(0, set).ready.store(1, std::memory_order_release);
  PartialSeat::Deposit deposit(seat, set);
  while (!deposit.step()) {
  }
}

/// The helper thread of rank 0 reads what its application has said of a deposit, and writes the header. Rank 1 does all
/// the rest of the round, so that the application learns from rank 1 alone that the set is free.
class AnotherRankSums {
 public:
  void deposit_twice() {
    const int set = seat_.acquire();
    deposit(memory_, seat_, set, 7);
    seat_.arrive(0, 1);
    std::thread helper([this] { Engine(memory_, 0).step_until([this] { return planned(); }); });
    while (memory_.done() == 0) std::this_thread::yield();
    EXPECT_EQ(seat_.acquire(), set);
    deposit(memory_, seat_, set, 8);
    helper.join();
  }
  /// Rank 1.
  void sum() {
    while (!planned()) std::this_thread::yield();
    Engine engine(memory_, 1);
    engine.step_until([&] { return engine.complete() == 1; });
  }

 private:
  bool planned() const {
    const PlanWord plan(memory_.words().plan.load(std::memory_order_relaxed));
    return plan.round() == 0 && plan.final();
  }

  const PartialShape shape_{.buckets = {{DataType::int64, 4}}, .order = SumOrder::fixed, .max_lag = 2};
  const SharedZeros shared_{PartialMemory::bytes_needed(shape_, 2)};
  PartialMemory memory_{shared_.bytes(), shape_, 2};
  PartialSeat seat_{memory_, 0};
};

TEST(PartialBoardProcesses, ASetIsFreeThatAnotherProcessHasSummed) {
  AnotherRankSums round;
  const auto be = [&](JobMemory&, int rank) {
    rank == 0 ? round.deposit_twice() : round.sum();
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_THAT(run_rank_processes(2, be), ::testing::ElementsAre(0, 0));
}

/// The thread sanitizer sees both ranks here, and that what they do is in order.
TEST(PartialBoardProcesses, ASetIsFreeThatAnotherThreadHasSummed) {
  AnotherRankSums round;
  std::thread other([&] { round.sum(); });
  round.deposit_twice();
  other.join();
}

}  // namespace
}  // namespace stretto
