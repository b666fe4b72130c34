#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "command/reproduce/experiments.h"
#include "command/train/training_options.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

std::vector<Experiment> accuracy_experiments() {
  return wagma_accuracy_experiments({.ranks = 64, .steps = 80, .pace = 12500us});
}

/// As if each group had been run three times and had come to 90 % after about 10 seconds; groups whose label is in
/// `slow` after 20, those in `fast` after 5.
Experiment with_speeds(const std::set<std::string>& slow, const std::set<std::string>& fast = {}) {
  Experiment experiment = accuracy_experiments().front();
  int number = 0;
  for (RunGroup& group : experiment.groups) {
    ++number;
    const double seconds = slow.contains(group.label) ? 20 : fast.contains(group.label) ? 5 : 10;
    for (int run = 0; run < 3; ++run) {
      RunSummary summary;
      summary.evaluations = {{.seconds = seconds + 0.001 * run * (number % 3), .accuracy = 0.9}};
      summary.accuracy = 0.95;
      summary.wall_seconds = 30;
      group.runs.push_back(summary);
    }
  }
  return experiment;
}

TEST(WagmaAccuracy, EveryRowIsARunThatCanBe) {
  ASSERT_EQ(accuracy_experiments().size(), 2u);
  for (const Experiment& experiment : accuracy_experiments()) {
    std::set<std::string> labels;
    for (const RunGroup& group : experiment.groups) {
      EXPECT_NO_THROW(check_training(group.options)) << group.label;
      EXPECT_TRUE(labels.insert(group.label).second) << group.label;
      EXPECT_TRUE(group.options.simulated);
      EXPECT_EQ(group.options.imbalance, "random:ranks=2,delay=50ms+lognormal:mean=3ms,cv=1");
    }
  }
  EXPECT_EQ(accuracy_experiments()[0].groups[0].options.data, "labels:3");
  EXPECT_EQ(accuracy_experiments()[1].groups[0].options.data, "") << "the algorithm's own";
  EXPECT_EQ(accuracy_experiments()[1].groups[0].options.evaluate, "replica");
}

TEST(WagmaAccuracy, HasAlgorithmsOfAllFamilies) {
  std::set<std::string> there;
  const std::vector<Experiment> all = accuracy_experiments();
  for (const RunGroup& group : all.front().groups) {
    there.insert(group.options.algorithm.substr(0, group.options.algorithm.find(':')));
  }
  for (const char* name :
       {"sync", "local", "diloco", "eager-solo", "eager-quorum", "wagma", "wagma-quorum", "d-psgd", "sgp", "osgp",
        "gossip-grad", "ad-psgd", "easgd", "easgd-async", "ps-sync", "ps-async", "ssp", "k-sync"}) {
    EXPECT_TRUE(there.contains(name)) << name;
  }
}

TEST(WagmaAccuracy, WithinTheSpreadOfTheFirstItHolds) {
  const Judgement judgement = judge_wagma_accuracy(with_speeds({"d-psgd", "sgp"}));
  EXPECT_TRUE(judgement.holds) << judgement.text;
  EXPECT_THAT(judgement.text, Not(HasSubstr("FAIL")));
  EXPECT_THAT(judgement.text, HasSubstr("75.8 %"));
}

TEST(WagmaAccuracy, BehindOneOfThemItFails) {
  EXPECT_FALSE(judge_wagma_accuracy(with_speeds({}, {"sync"})).holds);
  EXPECT_FALSE(judge_wagma_accuracy(with_speeds({}, {"k-sync of half"})).holds) << "behind one that the paper has not";
  EXPECT_FALSE(judge_wagma_accuracy(with_speeds({"wagma"})).holds);
  EXPECT_TRUE(judge_wagma_accuracy(with_speeds({}, {"wagma-quorum"})).holds);
}

TEST(WagmaAccuracy, SaysWhereARunNeverCameToIt) {
  Experiment experiment = with_speeds({});
  for (RunSummary& run : experiment.groups.front().runs) {
    run.evaluations.clear();
    run.accuracy = 0.85;
  }
  const Judgement judgement = judge_wagma_accuracy(experiment);
  EXPECT_TRUE(judgement.holds);
  EXPECT_THAT(judgement.text, HasSubstr("over 30"));
  EXPECT_THAT(judgement.text, HasSubstr("0 of 3"));
}

}  // namespace
}  // namespace stretto::command
