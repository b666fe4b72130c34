// Jobs under topo in which a rank is waited for: who is named, with what, and what that costs in messages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <csignal>
#include <latch>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/testing/process_job.h"
#include "stretto/ordering/testing/ordered_job.h"
#include "stretto/transport/testing/shared_zeros.h"
#include "stretto/transport/testing/thread_ranks.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// Tensors a and b, of which neither waits for the other.
struct TwoTensors {
  TwoTensors() {
    for (const char* name : {"a", "b"}) {
      tensors.push_back({.name = name, .type = DataType::int64, .count = 3});
      graph.collectives.push_back({graph.num_nodes++, tensors.back()});
    }
  }
  std::vector<TensorDescription> tensors;
  ExecutedGraph graph;
};

/// "ranks 0, 1 have it, rank 2 has not; rank 2", where the last rank has not.
std::string all_but_the_last(int ranks) {
  const std::string have = ranks == 2   ? "rank 0 has it"
                           : ranks == 3 ? "ranks 0, 1 have it"
                                        : "ranks 0, 1, 2, 3 have it";
  return text(have, ", rank ", ranks - 1, " has not; rank ", ranks - 1);
}

TEST(StalledTopo, ARankThatComputesForLongIsNamedAndNobodyAsksOtherwise) {
  for (const int ranks : {2, 3, 5}) {
    for (const std::uint64_t seed : {0u, 1u}) {
      std::vector<std::vector<std::string>> lines(static_cast<std::size_t>(ranks));
      const TwoTensors two;
      run_ordered(ranks, seed, OrderingOptions::named("topo"), {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
        const bool last = rank.rank() == ranks - 1;
        OrderedMemory memory(two.tensors);
        std::map<StepNumber, std::uint64_t> messages;
        for (StepNumber step = 0; step < 4; ++step) {
          memory.fill(rank.rank(), step);
          all.begin_step({});
          memory.submit(all, 0);
          if (last && step == 2) rank.compute(30s);
          memory.submit(all, 1);
          all.executed(two.graph);
          all.end_step(rank, rank.deadline(100s), kNothing).or_throw();
          memory.expect_sums(ranks_from_0(ranks), step);
          messages[step] = all.statistics().control_messages;
        }
        EXPECT_EQ(messages[1], messages[0]);
        // Each other rank asks all, and answers the others that ask.
        const int sent = last ? ranks - 1 : (ranks - 1) + (ranks - 2);
        EXPECT_EQ(messages[2], messages[1] + static_cast<std::uint64_t>(sent)) << "rank " << rank.rank();
        EXPECT_EQ(messages[3], messages[2]);
        EXPECT_EQ(all.finish(rank, rank.deadline(100s), kNothing).or_throw(), 0);
        lines[static_cast<std::size_t>(rank.rank())] = all.take_lines();
      });
      const std::string expected = "step 2, after 10 s: b: " + all_but_the_last(ranks) + " has computed for 10 s";
      for (int rank = 0; rank + 1 < ranks; ++rank) {
        EXPECT_THAT(lines[static_cast<std::size_t>(rank)], ElementsAre(expected)) << "rank " << rank;
      }
      EXPECT_THAT(lines.back(), IsEmpty());
    }
  }
}

TEST(StalledTopo, TheJobFailsWithTheSameLineWhenTheTimeIsOver) {
  for (const int ranks : {2, 3, 5}) {
    OrderingOptions options = OrderingOptions::named("topo");
    options.stall_warning = 5s;
    options.stall_abort = 20s;
    const TwoTensors two;
    run_ordered(ranks, 1, options, {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
      OrderedMemory memory(two.tensors);
      for (StepNumber step = 0; step < 3; ++step) {
        all.begin_step({});
        memory.submit(all, 0);
        if (rank.rank() == ranks - 1 && step == 2) rank.compute(30s);
        memory.submit(all, 1);
        all.executed(two.graph);
        const auto result = all.end_step(rank, rank.deadline(100s), kNothing);
        ASSERT_EQ(result.ok(), step < 2);
        if (result.ok()) continue;
        EXPECT_EQ(result.error().code, Errc::timeout);
        EXPECT_EQ(result.error().message,
                  "step 2, after 20 s: b: " + all_but_the_last(ranks) + " has computed for 20 s");
      }
    });
  }
}

/// Rank 2 computes; rank 1 waits for it in set 0, and rank 0 for rank 1 in set 1.
TEST(StalledTopo, ARankThatWaitsInAnotherSetIsNamedWithWhatItWaitsFor) {
  const TensorDescription x{.name = "x", .set = 0, .type = DataType::int64, .count = 3};
  const TensorDescription y{.name = "y", .set = 1, .type = DataType::int64, .count = 2};
  const ExecutedGraph graph{.num_nodes = 3, .edges = {{0, 1}, {1, 2}}, .collectives = {{0, x}, {1, y}}};
  OrderingOptions options = OrderingOptions::named("topo");
  options.sets = {{0, 1}};
  std::vector<std::vector<std::string>> lines(3);
  const std::vector<TensorDescription> tensors = {x, y};
  run_ordered(3, 1, options, {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
    OrderedMemory memory(tensors);
    for (StepNumber step = 0; step < 4; ++step) {
      memory.fill(rank.rank(), step);
      all.begin_step({});
      if (rank.rank() == 2 && step == 2) rank.compute(15s);
      memory.submit(all, 0);
      if (rank.rank() == 1) all.wait(rank, "x", rank.deadline(100s)).or_throw();
      if (rank.rank() < 2) memory.submit(all, 1);
      if (rank.rank() == 0) all.wait(rank, "y", rank.deadline(100s)).or_throw();
      all.executed(graph);
      all.end_step(rank, rank.deadline(100s), kNothing).or_throw();
    }
    EXPECT_EQ(all.finish(rank, rank.deadline(100s), kNothing).or_throw(), 0);
    EXPECT_EQ(all.statistics().deviations, 0u);
    lines[static_cast<std::size_t>(rank.rank())] = all.take_lines();
  });
  EXPECT_THAT(lines[0], ElementsAre("step 2, after 10 s: y: rank 0 has it, rank 1 has not; rank 1 has waited 10 s for "
                                    "x of set 0"));
  EXPECT_THAT(lines[1], ElementsAre("step 2, after 10 s: x: ranks 0, 1 have it, rank 2 has not; rank 2 has computed "
                                    "for 10 s"));
  EXPECT_THAT(lines[2], IsEmpty());
}

/// Rank 1 has no thread that drives its engine while it computes.
TEST(StalledTopo, ARankWhoseEngineNobodyDrivesIsNamedAsSilent) {
  SimulatedCluster cluster(2, {.jitter = 20us}, 1);
  const TwoTensors two;
  std::vector<std::string> lines;
  VirtualRanks(cluster).run([&](VirtualRank& rank) {
    Engine engine(rank.transport(), rank.clock());
    rank.drive_engine(&engine, rank.rank() == 1 ? ProgressBy::application : ProgressBy::thread);
    OrderedAllreduce all(engine, OrderingOptions::named("topo"));
    OrderedMemory memory(two.tensors);
    for (StepNumber step = 0; step < 3; ++step) {
      all.begin_step({});
      memory.submit(all, 0);
      if (rank.rank() == 1 && step == 2) rank.compute(30s);
      memory.submit(all, 1);
      all.executed(two.graph);
      all.end_step(rank, rank.deadline(100s), kNothing).or_throw();
    }
    EXPECT_EQ(all.finish(rank, rank.deadline(100s), kNothing).or_throw(), 0);
    if (rank.rank() == 0) lines = all.take_lines();
  });
  EXPECT_THAT(lines, ElementsAre("step 2, after 10 s: a: rank 0 has it; rank 1 has not answered within 1 s"));
}

/// The real clock, which a test stops, sets forward and starts again. Thread-safe.
class StoppableClock final : public Clock {
 public:
  TimePoint now() const override {
    const MutexLock lock(mutex_);
    return stopped_at_ ? *stopped_at_ : steady_.now() + ahead_;
  }
  void stop() {
    const MutexLock lock(mutex_);
    stopped_at_ = steady_.now() + ahead_;
  }
  /// While it is stopped.
  void pass(Duration duration) {
    const MutexLock lock(mutex_);
    stopped_at_ = *stopped_at_ + duration;
  }
  void start() {
    const MutexLock lock(mutex_);
    ahead_ = *stopped_at_ - steady_.now();
    stopped_at_.reset();
  }

 private:
  SteadyClock steady_;
  mutable Mutex mutex_;
  std::optional<TimePoint> stopped_at_ GUARDED_BY(mutex_);
  Duration ahead_ GUARDED_BY(mutex_){0};
};

/// In step 2 the clock stands. It is set forward once, when nothing is missing but tensor b of the last rank, and
/// starts again when rank 0 has been told of that.
TEST(StalledTopo, InThreadsTheHelperOfARankThatComputesAnswers) {
  for (const int ranks : {2, 3}) {
    StoppableClock clock;
    std::barrier together(ranks, [&]() noexcept { clock.stop(); });
    std::latch waiting(ranks - 1), told(1);
    run_thread_ranks(ranks, [&](Transport& transport, const Clock&) {
      Engine engine(transport, clock);
      OrderingOptions options = OrderingOptions::named("topo");
      options.cycle_time = 1ms;
      options.stall_warning = 100ms;
      OrderedAllreduce all(engine, options);
      EngineDriver driver(engine, {.progress_by = ProgressBy::thread, .spin = Duration{0}});
      const TwoTensors two;
      OrderedMemory memory(two.tensors);
      const bool first = engine.rank() == 0, last = engine.rank() == ranks - 1;
      for (StepNumber step = 0; step < 4; ++step) {
        const bool stands = step == 2;
        memory.fill(engine.rank(), step);
        if (stands) together.arrive_and_wait();
        all.begin_step({});
        memory.submit(all, 0);
        if (stands && last) {
          waiting.wait();
          clock.pass(200ms);
          told.wait();
          clock.start();
        }
        memory.submit(all, 1);
        all.executed(two.graph);
        std::vector<std::string> lines;
        bool waits = false, tells = false;
        for (bool complete = false; !complete;) {
          // At once: while the clock stands no other time comes.
          const auto result = all.end_step(driver, driver.deadline(0ms), kNothing);
          if (stands && !last && !std::exchange(waits, true)) waiting.count_down();
          complete = result.ok();
          if (!complete && result.error().code != Errc::timeout) result.or_throw();
          for (std::string& line : all.take_lines()) lines.push_back(std::move(line));
          if (stands && first && !lines.empty() && !std::exchange(tells, true)) told.count_down();
          std::this_thread::yield();
        }
        memory.expect_sums(ranks_from_0(ranks), step);
        if (!stands || !first) continue;
        EXPECT_THAT(lines,
                    ElementsAre("step 2, after 0.1 s: b: " + all_but_the_last(ranks) + " has computed for 0.2 s"));
      }
      all.finish(driver, driver.deadline(60s), kNothing).or_throw();
      return true;
    });
  }
}

/// The loss is what the others hear, whether they have asked by then or not.
class StalledTopoKilled : public testing::TestWithParam<bool> {};

TEST_P(StalledTopoKilled, ARankThatIsKilledWhileItIsWaitedForIsLost) {
  const bool asked = GetParam();
  const SharedZeros zeros(sizeof(std::atomic<int>));
  auto& told = *new (zeros.bytes().data()) std::atomic<int>(0);  // ranks to which a line has named rank 1
  const auto statuses = run_process_job(3, [&](Engine& engine) {
    OrderingOptions options = OrderingOptions::named("topo");
    options.cycle_time = 1ms;
    options.stall_warning = asked ? Duration(20ms) : Duration(1h);
    OrderedAllreduce all(engine, options);
    EngineDriver driver(engine, {.progress_by = ProgressBy::thread, .spin = Duration{0}});
    const TwoTensors two;
    OrderedMemory memory(two.tensors);
    const auto end_step = [&](StepNumber step) {
      for (bool tell = step == 2;;) {
        auto result = all.end_step(driver, driver.deadline(20ms), kNothing);
        if (result.ok() || result.error().code != Errc::timeout) return result;
        if (tell && !all.take_lines().empty()) {
          tell = false;
          ++told;
        }
      }
    };
    for (StepNumber step = 0;; ++step) {
      all.begin_step({});
      memory.submit(all, 0);
      if (engine.rank() == 1 && step == 2) {
        while (asked && told < 2) std::this_thread::sleep_for(1ms);
        std::raise(SIGKILL);
      }
      memory.submit(all, 1);
      all.executed(two.graph);
      const auto result = end_step(step);
      if (result.ok()) continue;
      return step == 2 && result.error().code == Errc::lost_peer && result.error().rank == 1 ? 0 : 2;
    }
  });
  ASSERT_EQ(statuses.size(), 3u);
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[2], 0);
}

INSTANTIATE_TEST_SUITE_P(Whether, StalledTopoKilled, testing::Bool(),
                         [](const auto& info) { return info.param ? "asked" : "not_asked"; });

}  // namespace
}  // namespace stretto
