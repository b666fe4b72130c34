// A branch that one rank alone takes, and in which it waits for a sum. Where the others end the step without it, the
// job goes on, and topo says what has changed. Where they wait for that rank meanwhile, nobody can go on: that is
// certain.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "stretto/collective/testing/thread_job.h"
#include "stretto/collective/testing/watchdog.h"
#include "stretto/ordering/testing/ordered_job.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr StepNumber kBranch = 4;  // topo has a plan by then

struct Ended {
  std::optional<Error> error;
  Duration after{0};  // the begin of step kBranch
  std::vector<std::string> lines;
};

/// Steps of one tensor. In step kBranch rank 0 waits for another one, before (`circle`: the others wait for it there)
/// or after it hands over the first one.
template <class Driver>
Ended run_branch(OrderedAllreduce& all, Driver& driver, int rank, const Clock& clock, bool circle) {
  const std::vector<TensorDescription> tensors = {{.name = "weight", .type = DataType::int64, .count = 3},
                                                  {.name = "branch", .type = DataType::int64, .count = 1}};
  const ExecutedGraph graph{.num_nodes = 1, .collectives = {{0, tensors[0]}}};
  OrderedMemory memory(tensors);
  Ended ended;
  const auto wait = [&](const char* name) {
    const auto result = all.wait(driver, name, driver.deadline(kWatchdog));
    if (!result.ok()) ended.error = result.error();
  };
  for (StepNumber step = 0; step <= kBranch && !ended.error; ++step) {
    memory.fill(rank, step);
    const TimePoint began = clock.now();
    all.begin_step({});
    const bool branches = rank == 0 && step == kBranch;
    if (!(branches && circle)) memory.submit(all, 0);
    if (branches) {
      memory.submit(all, 1);
      wait("branch");
    } else if (circle && step == kBranch) {
      wait("weight");
    }
    if (!ended.error) {
      all.executed(graph);
      const auto result = all.end_step(driver, driver.deadline(kWatchdog), kNothing);
      if (!result.ok()) ended.error = result.error();
    }
    ended.after = clock.now() - began;
  }
  ended.lines = all.take_lines();
  if (!ended.error) {
    EXPECT_TRUE(all.finish(driver, driver.deadline(kWatchdog), kNothing).ok());
  }
  return ended;
}

void expect_named(const Ended& ended, int ranks, const std::string& ordering) {
  ASSERT_TRUE(ended.error) << ordering;
  const std::string others = ranks == 2 ? "rank 1" : "ranks 1, 2";
  EXPECT_THAT(ended.error->message, HasSubstr("step 4: no rank can go on: ")) << ordering;
  EXPECT_THAT(ended.error->message, HasSubstr("branch: rank 0 waits, " + others)) << ordering;
  EXPECT_THAT(ended.error->message, HasSubstr("weight: " + others)) << ordering;
}

TEST(Branch, OfOneRankIsToldAndTheJobGoesOn) {
  for (const int ranks : {2, 3}) {
    for (const std::uint64_t seed : {0u, 1u}) {
      run_ordered(ranks, seed, OrderingOptions::named("topo"), {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
        const Ended ended = run_branch(all, rank, rank.rank(), rank.clock(), false);
        EXPECT_FALSE(ended.error) << ended.error->message;
        EXPECT_LE(ended.after, 1s);
        if (rank.rank() != 0) return;
        EXPECT_THAT(ended.lines, ElementsAre(AllOf(StartsWith("step 4: rank 0"), HasSubstr("branch"),
                                                   HasSubstr("coordinator until the graph is stable"))));
      });
    }
  }
}

TEST(Branch, InWhichNobodyCanGoOnIsNamedWithinASecond) {
  for (const char* ordering : {"coordinator", "gs", "nbcs", "topo"}) {
    for (const int ranks : {2, 3}) {
      for (const std::uint64_t seed : {0u, 1u}) {
        run_ordered(ranks, seed, OrderingOptions::named(ordering), {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
          const Ended ended = run_branch(all, rank, rank.rank(), rank.clock(), true);
          expect_named(ended, ranks, ordering);
          EXPECT_LE(ended.after, 1s) << ordering;
        });
      }
    }
  }
}

/// The time is recorded, not judged: microbench/orderings.py shows it.
TEST(Branch, InWhichNobodyCanGoOnIsNamedInThreads) {
  for (const char* ordering : {"coordinator", "nbcs", "topo"}) {
    Duration after{0};  // of rank 0, whose thread alone writes it
    run_thread_job(3, [&](Engine& engine) {
      OrderedAllreduce all(engine, OrderingOptions::named(ordering));
      EngineDriver driver(engine, {.progress_by = ProgressBy::thread, .spin = Duration{0}});
      const Ended ended = run_branch(all, driver, engine.rank(), engine.clock(), true);
      expect_named(ended, 3, ordering);
      if (engine.rank() == 0) after = ended.after;
      return true;
    });
    RecordProperty(ordering, static_cast<int>(after / 1us));
  }
}

}  // namespace
}  // namespace stretto
