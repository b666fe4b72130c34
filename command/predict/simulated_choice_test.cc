#include "command/predict/simulated_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "command/predict/advice.h"
#include "command/predict/testing/fast_hosts.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto::command {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

StepTimes times_of(int ranks, std::size_t steps, const std::string& imbalance) {
  return drawn_step_times(Imbalance::parse(imbalance, ranks), 0.010, ranks, steps, 1);
}

TEST(SimulatedChoice, OfSyncTakesTheSlowestRankOfEachStep) {
  const StepTimes times = times_of(4, 20, "lognormal:mean=10ms,cv=1");
  double all = 0;
  for (std::size_t step = 0; step < times.steps(); ++step) all += std::ranges::max(times.step(step));
  const Outcome outcome = simulate({"sync"}, times, kFastHosts, 1);
  EXPECT_NEAR(outcome.rate, 80 / all, 0.01 * 80 / all);
  EXPECT_EQ(outcome.fresh_share, 1);
  EXPECT_EQ(outcome.staleness_max, 0u);
}

/// E[max of P] of exponential times with mean 1 is 1 + 1/2 + … + 1/P, and their variance 1 + 1/4 + … + 1/P².
TEST(SimulatedChoice, OfSyncGrowsByTheHarmonicNumberOfItsRanksWithExponentialNoise) {
  const SimulatedHosts no_time{.network = "latency=0s,overhead=0s,bandwidth=1e9GB/s", .model_bytes = 4096};
  const StepTimes times = times_of(4, 2000, "none").with_noise(1, 0.005);
  const double step = 4 / simulate({"sync"}, times, no_time, 1).rate;
  const double harmonic = 1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4, variance = 1 + 1.0 / 4 + 1.0 / 9 + 1.0 / 16;
  EXPECT_NEAR(step, 0.010 + 0.005 * harmonic, 3 * 0.005 * std::sqrt(variance / 2000));
}

TEST(SimulatedChoice, OfNobodyWhoIsSlowIsTheIdeal) {
  for (const char* algorithm : {"sync", "eager-solo", "eager-quorum:2", "local"}) {
    const Outcome outcome = simulate({algorithm}, times_of(4, 20, "none"), kFastHosts, 1);
    EXPECT_THAT(outcome.rate / 400, DoubleNear(1, 0.02)) << algorithm;
    ASSERT_FALSE(outcome.steps.empty()) << algorithm;
    EXPECT_THAT(outcome.steps, ::testing::Each(DoubleNear(0.010, 0.001))) << algorithm;
  }
}

/// While one rank computes a batch and nobody waits, the others compute one each, whether rounds count it or servers.
TEST(SimulatedChoice, LeavesUnseenWhatOthersComputeMeanwhile) {
  const StepTimes times = times_of(4, 100, "lognormal:mean=10ms,cv=1");
  const auto unseen = [&](const Choice& choice) { return simulate(choice, times, kFastHosts, 1).unseen; };
  EXPECT_EQ(unseen({"sync"}), 0);
  EXPECT_EQ(unseen({"ps-sync"}), 0);
  EXPECT_NEAR(unseen({"ps-async"}), 3, 0.2);
  EXPECT_NEAR(unseen({"eager-solo"}), 3, 0.3);
  EXPECT_LT(unseen({"eager-quorum:3"}), 0.6 * unseen({"ps-async"}));
  EXPECT_EQ(unseen({"local", 5}), 2 * 3)
      << "two of the own steps before it, in the mean, and as many of each other rank";
  EXPECT_GT(unseen({"local:quorum", 4}), 1.5 * 3);
  EXPECT_TRUE(std::isnan(unseen({"wagma:2"})));
  EXPECT_TRUE(std::isnan(unseen({"ad-psgd"})));
}

TEST(SimulatedChoice, GoesOnWhereTheModelTakesHours) {
  const SimulatedHosts slow{.network = "latency=1us,bandwidth=1Mbit/s", .model_bytes = 4'000'000'000};
  for (const char* algorithm : {"sync", "eager-solo", "local", "ps-async", "d-psgd"}) {
    const double rate = simulate({algorithm}, times_of(2, 3, "none"), slow, 1).rate;
    EXPECT_GT(rate, 0) << algorithm;
    EXPECT_LT(rate, 2 * 3 / 32'000.0) << algorithm;
  }
}

TEST(SimulatedChoice, AQuorumOfAllIsSynchronousAndASmallerOneIsNeverSlower) {
  const StepTimes times = times_of(4, 40, "random:ranks=1,delay=40ms");
  const double sync = simulate({"sync"}, times, kFastHosts, 1).rate;
  double before = simulate({"eager-quorum:4"}, times, kFastHosts, 1).rate;
  EXPECT_NEAR(before, sync, 0.03 * sync);
  for (const char* algorithm : {"eager-quorum:3", "eager-quorum:2", "eager-quorum:1"}) {
    const double rate = simulate({algorithm}, times, kFastHosts, 1).rate;
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
  EXPECT_EQ(simulate_run(run, times, kFastHosts, 20, within).rate,
            simulate({"eager-quorum:3"}, times, kFastHosts, 1, 20).rate);
  run.quorum = 1;
  EXPECT_EQ(simulate_run(run, times, kFastHosts, 20, within).rate,
            simulate({"eager-quorum:1"}, times, kFastHosts, 1, 20).rate);
  run.data = "labels:3";
  EXPECT_NO_THROW(require_simulation(run));
  run.max_lag = 0;
  EXPECT_THROW(require_simulation(run), UsageError);
}

TEST(SimulatedChoice, RepeatsToTheBit) {
  const StepTimes times = times_of(3, 20, "lognormal:mean=10ms,cv=1");
  for (const Choice& choice : {Choice{"eager-majority"}, Choice{"local", 4}}) {
    const Outcome once = simulate(choice, times, kFastHosts, 7), again = simulate(choice, times, kFastHosts, 7);
    EXPECT_EQ(once.rate, again.rate);
    EXPECT_EQ(once.steps, again.steps);
  }
}

TEST(SimulatedChoice, EachForSomeRanksRunsAndIsThereOnce) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    std::set<std::string> names;
    for (const Choice& choice : all_settings_for(ranks, kFastHosts)) {
      EXPECT_TRUE(names.insert(choice.name()).second) << choice.name();
      EXPECT_GT(simulate(choice, times_of(ranks, 12, "none"), kFastHosts, 1).rate, 0) << choice.name();
    }
  }
}

TEST(SimulatedChoice, EachAlgorithmOfTheLibraryIsThereForFewRanks) {
  std::set<std::string> tried;
  for (const Choice& choice : all_settings_for(8, kFastHosts)) {
    tried.insert(choice.algorithm.substr(0, choice.algorithm.find(':')));
  }
  for (const RecipeInfo& recipe : recipes()) EXPECT_TRUE(tried.contains(std::string(recipe.name))) << recipe.name;
  for (const Choice& choice : settings_without_shape()) EXPECT_FALSE(shape_of(choice, 8)) << choice.name();
  EXPECT_EQ(all_settings_for(kFewRanks + 1, kFastHosts).size(), settings_for(kFewRanks + 1, kFastHosts).size());
}

/// A server's card takes in what seven others push, and sends each of them the model, the one while the other where
/// ranks go on as their weights come: on one server all of it, on eight an eighth.
TEST(SimulatedChoice, OfServersSharesOutTheBucketsOfAModel) {
  const SimulatedHosts slow{.network = "latency=1us,bandwidth=1GB/s", .model_bytes = 32 << 20};
  ASSERT_EQ(slow.buckets(), 8);
  const StepTimes times = times_of(8, 6, "none");
  const auto step = [&](const char* servers) {
    return 8 / simulate({"ps-sync", 0, {{"servers", servers}}}, times, slow, 1).rate - 0.010;
  };
  const double model = static_cast<double>(slow.model_bytes) / 1e9;
  EXPECT_GT(step("1"), 7 * model);
  EXPECT_LT(step("1"), 14 * model);
  EXPECT_GT(step("8"), 7 * model / 8);
  EXPECT_LT(step("8"), step("1") / 4);
  EXPECT_EQ((SimulatedHosts{.model_bytes = 1000}).buckets(), 1);
  EXPECT_EQ((SimulatedHosts{.model_bytes = 1'000'000'000'000}).buckets(), kMostModelBuckets);
}

/// One worker, one server, two layers that each take 10 ms to send, 10 to compute forward and 20 backward.
TEST(SimulatedChoice, OfServersLayerByLayerSendsWhileItComputes) {
  const SimulatedHosts hosts{.network = "latency=0s,overhead=0s,bandwidth=100MB/s",
                             .model_bytes = 2'000'000,
                             .layers = {{1e6, 10, 20}, {1e6, 10, 20}}};
  const StepTimes times = drawn_step_times(Imbalance::parse("none", 2), 0.060, 2, 40, 1);
  const auto step = [&](const std::string& layerwise) {
    return 1 / simulate({"ps-sync", 0, {{"servers", "dedicated:1"}, {"layerwise", layerwise}}}, times, hosts, 1).rate;
  };
  // All has come after 60 + 20 + 20; by layer the second one is with the server at 50 and back at 60, the first one,
  // computed at 60, at 80: then the next step begins. The last step of each run waits for both.
  EXPECT_NEAR(step("no"), 0.100, 0.001);
  EXPECT_NEAR(step("yes"), 0.080, 0.001);
}

TEST(SimulatedChoice, OfAnOrderSendsTheGradientsToo) {
  const SimulatedHosts slow{.network = "latency=1us,bandwidth=100MB/s", .model_bytes = 10'000'000};
  const double sync = simulate({"sync"}, times_of(4, 20, "none"), slow, 1).rate;
  EXPECT_LT(sync, 40) << "most of a step is the exchange";
  EXPECT_NEAR(simulate({"sync", 0, {{"ordering", "topo"}}}, times_of(4, 20, "none"), slow, 1).rate, sync, 0.05 * sync);
}

TEST(SimulatedChoice, ThereIsNotIsRefused) {
  EXPECT_THAT([] { parse_choices("--algorithms", "sync,egaer"); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("--algorithms egaer: expected one of the algorithms")));
  EXPECT_THAT([] { parse_choices("--algorithms", ""); }, ::testing::Throws<UsageError>());
  EXPECT_EQ(parse_choices("--algorithms", "eager-deadline:4,20ms,sync").size(), 2u);
}

TEST(SimulatedChoice, IsThereOnce) {
  EXPECT_THAT([] { parse_choices("--algorithms", "local,H=4,sync,local,H=4"); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("local, H = 4: expected each algorithm once")));
  EXPECT_EQ(parse_choices("--algorithms", "local,H=4,local,H=8").size(), 2u);
}

TEST(SimulatedChoice, IsReadAsItIsNamed) {
  std::string list;
  const std::vector<Choice> all = settings_for(16, {.model_bytes = 100'000'000});
  for (const Choice& choice : all) list += (list.empty() ? "" : ",") + choice.name();
  const std::vector<Choice> read = parse_choices("--algorithms", list);
  ASSERT_EQ(read.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(read[i].algorithm, all[i].algorithm);
    EXPECT_EQ(read[i].sync_every, all[i].sync_every);
    EXPECT_EQ(read[i].options, all[i].options);
  }
  const std::vector<Choice> typed = parse_choices("--algorithms", "sync,local,H=32,ps-async,servers=2");
  ASSERT_EQ(typed.size(), 3u);
  EXPECT_EQ(typed[1].name(), "local, H = 32");
  EXPECT_EQ(typed[2].name(), "ps-async, servers = 2");
}

TEST(SimulatedChoice, WithASettingThatThereIsNotIsRefused) {
  const auto refused = [](const std::string& list, const std::string& why) {
    EXPECT_THAT([&] { parse_choices("--algorithms", list); }, ::testing::ThrowsMessage<UsageError>(HasSubstr(why)));
  };
  refused("sync,tau=3", "--algorithms sync, tau=3: there is no such setting; Known: ordering, ");
  refused("wagma:2,tua=3", "--algorithms wagma:2, tua=3: there is no such setting; did you mean tau");
  refused("wagma:2,tau=x", "tau");
  refused("wagma:2,tau=3,tau=4", "expected each setting once");
  refused("local,H=0", "--algorithms 0: expected a whole number");
  refused("eager-solo,H=4", "--algorithms eager-solo, H=4: there is no such setting; Known: rounds");
  refused("H=4", "expected one of the algorithms");
}

}  // namespace
}  // namespace stretto::command
