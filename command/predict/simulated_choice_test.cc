#include "command/predict/simulated_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>

#include "command/predict/step_times_argument.h"

namespace stretto::command {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

const SimulatedHosts kHosts{.network = "latency=1us,bandwidth=100GB/s", .model_bytes = 4096};

StepTimes times_of(int ranks, std::size_t steps, const std::string& imbalance) {
  return drawn_step_times(Imbalance::parse(imbalance, ranks), 0.010, ranks, steps, 1);
}

TEST(SimulatedChoice, OfSyncTakesTheSlowestRankOfEachStep) {
  const StepTimes times = times_of(4, 20, "lognormal:mean=10ms,cv=1");
  double all = 0;
  for (std::size_t step = 0; step < times.steps(); ++step) all += std::ranges::max(times.step(step));
  const Outcome outcome = simulate({"sync"}, times, kHosts, 1);
  EXPECT_NEAR(outcome.rate, 80 / all, 0.01 * 80 / all);
  EXPECT_EQ(outcome.fresh_share, 1);
  EXPECT_EQ(outcome.staleness_max, 0u);
}

TEST(SimulatedChoice, OfNobodyWhoIsSlowIsTheIdeal) {
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum:2", "local"}) {
    const Outcome outcome = simulate({algorithm}, times_of(4, 20, "none"), kHosts, 1);
    EXPECT_THAT(outcome.rate / 400, DoubleNear(1, 0.02)) << algorithm;
    ASSERT_FALSE(outcome.steps.empty()) << algorithm;
    EXPECT_THAT(outcome.steps, ::testing::Each(DoubleNear(0.010, 0.001))) << algorithm;
  }
}

TEST(SimulatedChoice, AQuorumOfAllIsSynchronousAndASmallerOneIsNeverSlower) {
  const StepTimes times = times_of(4, 40, "random:ranks=1,delay=40ms");
  const double sync = simulate({"sync"}, times, kHosts, 1).rate;
  double before = simulate({"eager-quorum:4"}, times, kHosts, 1).rate;
  EXPECT_NEAR(before, sync, 0.03 * sync);
  for (const char* algorithm : {"eager-quorum:3", "eager-quorum:2", "eager-quorum:1"}) {
    const double rate = simulate({algorithm}, times, kHosts, 1).rate;
    EXPECT_GE(rate, 0.99 * before) << algorithm;
    before = rate;
  }
  EXPECT_GT(before, 1.5 * sync);
}

TEST(SimulatedChoice, ARunIsSimulatedByItsOwnOptions) {
  const StepTimes times = times_of(4, 20, "lognormal:mean=10ms,cv=1");
  TrainOptions run{.workload = "digits",
                   .algorithm = "eager-quorum",
                   .ranks = 4,
                   .epochs = 7,
                   .imbalance = "persistent:rank=3,factor=3",
                   .pace = std::chrono::seconds(1),
                   .data = "shared",
                   .quorum = 3,
                   .evaluate_every = 10,
                   .final_model = "best"};
  const auto within = std::filesystem::temp_directory_path();
  EXPECT_EQ(simulate_run(run, times, kHosts, 20, within).rate, simulate({"eager-quorum:3"}, times, kHosts, 1, 20).rate);
  run.quorum = 1;
  EXPECT_EQ(simulate_run(run, times, kHosts, 20, within).rate, simulate({"eager-quorum:1"}, times, kHosts, 1, 20).rate);
  run.data = "labels:3";
  EXPECT_NO_THROW(require_simulation(run));
  run.max_lag = 0;
  EXPECT_THROW(require_simulation(run), UsageError);
}

TEST(SimulatedChoice, RepeatsToTheBit) {
  const StepTimes times = times_of(3, 20, "lognormal:mean=10ms,cv=1");
  for (const Choice& choice : {Choice{"eager-majority"}, Choice{"local", 4}}) {
    const Outcome once = simulate(choice, times, kHosts, 7), again = simulate(choice, times, kHosts, 7);
    EXPECT_EQ(once.rate, again.rate);
    EXPECT_EQ(once.steps, again.steps);
  }
}

TEST(SimulatedChoice, EachForSomeRanksRunsAndIsThereOnce) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    std::set<std::string> names;
    for (const Choice& choice : choices_for(ranks)) {
      EXPECT_TRUE(names.insert(choice.name()).second) << choice.name();
      EXPECT_GT(simulate(choice, times_of(ranks, 12, "none"), kHosts, 1).rate, 0) << choice.name();
    }
  }
}

TEST(SimulatedChoice, ThereIsNotIsRefused) {
  EXPECT_THAT([] { parse_choices("--algorithms", "sync,egaer"); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("--algorithms egaer: expected one of the algorithms")));
  EXPECT_THAT([] { parse_choices("--algorithms", ""); }, ::testing::Throws<UsageError>());
  EXPECT_EQ(parse_choices("--algorithms", "eager-deadline:4,20ms,sync").size(), 2u);
}

TEST(StepTimesArgument, NeedsAFileOrATime) {
  StepTimesArgument argument;
  EXPECT_THAT([&] { argument.read(); }, ::testing::ThrowsMessage<UsageError>(HasSubstr("expected a FILE")));
  argument.compute = std::chrono::milliseconds(10);
  argument.imbalance = "random:ranks=1,delay=40ms";
  argument.noise = 0;
  const StepTimesSource drawn = argument.read();
  EXPECT_EQ(drawn.all().ranks(), 8);
  EXPECT_THAT(drawn.all().mean(), DoubleNear(0.015, 1e-6));
  EXPECT_EQ(drawn.hosts().model_bytes, 100'000'000u);
  EXPECT_NE(drawn.replica(1).to_csv(), drawn.all().to_csv());
  argument.file = "times.csv";
  EXPECT_THAT([&] { argument.read(); }, ::testing::ThrowsMessage<UsageError>(HasSubstr("expected a FILE")));
}

TEST(StepTimesArgument, DrawsRanksFromAProfile) {
  const std::string file = ::testing::TempDir() + "/profile_" + std::to_string(::getpid()) + ".json";
  std::ofstream(file) << R"({"bandwidth": 1e9, "workers": [{"batch": 4, "profile": [
    [{"name": "a", "bytes": 8, "forward": 0.25, "backward": 0.5, "update": 0.25}],
    [{"name": "a", "bytes": 8, "forward": 1, "backward": 0.5, "update": 0.5}]]}]})";
  StepTimesArgument argument;
  argument.file = file;
  argument.ranks = 3;
  argument.noise = 0;
  const StepTimesSource source = argument.read();
  EXPECT_EQ(source.all().ranks(), 3);
  EXPECT_EQ(source.all().steps(), 100u);
  EXPECT_EQ(source.hosts().model_bytes, 8u);
  std::set<float> times;
  for (std::size_t step = 0; step < 100; ++step)
    times.insert(source.all().step(step).begin(), source.all().step(step).end());
  EXPECT_EQ(times, (std::set<float>{1, 2}));
  argument.imbalance = "persistent:rank=1,delay=1s";
  EXPECT_THAT(argument.read().all().step(0)[1], ::testing::Ge(2));
}

TEST(StepTimesArgument, AFileThatSaysWhoIsSlowNeedsNoImbalance) {
  const std::string file = ::testing::TempDir() + "/times_" + std::to_string(::getpid()) + ".csv";
  std::ofstream(file) << "0,0,1\n0,1,2\n";
  StepTimesArgument argument;
  argument.file = file;
  EXPECT_EQ(argument.read().all().ranks(), 2);
  argument.ranks = 4;
  EXPECT_THAT([&] { argument.read(); }, ::testing::ThrowsMessage<UsageError>(HasSubstr("--ranks 4: expected none")));
  argument.ranks = 0;
  argument.imbalance = "cloud";
  EXPECT_THAT([&] { argument.read(); }, ::testing::ThrowsMessage<UsageError>(HasSubstr("--imbalance cloud")));
}

}  // namespace
}  // namespace stretto::command
