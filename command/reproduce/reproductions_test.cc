#include "command/reproduce/reproductions.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "stretto/base/error.h"

namespace stretto::command {
namespace {

const Reproduction& named(const std::string& name) {
  for (const Reproduction& reproduction : training_reproductions()) {
    if (reproduction.name == name) return reproduction;
  }
  throw UsageError(name);
}

// The options that `arguments` give. Throws UsageError.
ReproduceCommand parsed(const std::string& name, const Arguments& arguments) {
  ReproduceCommand out;
  const auto keep = [&out](const Reproduction&, const ReproduceCommand& command) {
    out = command;
    return 0;
  };
  reproduction_command(named(name), keep).run("stretto reproduce " + name, arguments);
  return out;
}

TEST(Reproductions, IdealOfARandomDelayIsThatOfBatchesApplied) {
  EXPECT_NEAR(ideal_of_random_delay(0.4, 0.2, 8), 1.41, 0.005);
  EXPECT_NEAR(ideal_of_random_delay(0.4, 0.3, 8), 1.60, 0.005);
  EXPECT_NEAR(ideal_of_random_delay(0.4, 0.4, 8), 1.78, 0.005);
}

TEST(Reproductions, EveryGroupHasAnExpectation) {
  for (const Reproduction& reproduction : training_reproductions()) {
    for (const Experiment& experiment : reproduction.experiments(reproduction.defaults)) {
      EXPECT_EQ(experiment.groups.size(), experiment.expect.size()) << reproduction.name;
    }
  }
}

TEST(Reproductions, EveryExperimentKeepsItsRunsInAFolderOfItsOwn) {
  for (const Reproduction& reproduction : training_reproductions()) {
    ReproduceCommand command = reproduction.defaults;
    command.out = "kept";
    std::set<std::string> folders;
    for (const Experiment& experiment : reproduction.experiments(command)) {
      const std::string& folder = experiment.groups.front().options.out;
      EXPECT_TRUE(folder.starts_with("kept")) << reproduction.name << ": " << folder;
      EXPECT_TRUE(folders.insert(folder).second) << reproduction.name << ": " << folder << " twice";
      for (const RunGroup& group : experiment.groups) EXPECT_EQ(group.options.out, folder) << reproduction.name;
    }
  }
}

TEST(Reproductions, AStatementIsALineWithItsVerdict) {
  const std::vector<Statement> statements = {{"wagma over sync", "1.26×", "1.37×", true}, {"a", "b", "c", false}};
  const std::string table = statements_table(statements);
  EXPECT_NE(table.find("1.37×  pass"), std::string::npos) << table;
  EXPECT_NE(table.find("c  FAIL"), std::string::npos) << table;
}

TEST(Reproductions, HyperplaneIsThePapers) {
  const auto experiments = named("hyperplane").experiments(parsed("hyperplane", {}));
  ASSERT_EQ(experiments.size(), 3u);
  const TrainOptions& options = experiments[0].groups[1].options;
  EXPECT_EQ(options.algorithm, "eager-solo");
  EXPECT_EQ(options.ranks, 8);
  EXPECT_EQ(options.steps, 768u);
  EXPECT_EQ(options.batch * options.ranks, 2048);
  EXPECT_EQ(options.pace * options.batch, std::chrono::milliseconds(400));
  EXPECT_EQ(options.time_scale, 0.1);
  EXPECT_EQ(options.imbalance, "random:ranks=1,delay=200ms");
  EXPECT_EQ(experiments[0].groups[2].options.algorithm, "eager-quorum:4");
}

TEST(Reproductions, BadInput) {
  EXPECT_THROW(parsed("lag", {"--ranks", "1"}), UsageError);
  EXPECT_THROW(parsed("lag", {"--steps", "10"}), UsageError);
  EXPECT_THROW(parsed("vowels", {"--scale", "0"}), UsageError);
}

}  // namespace
}  // namespace stretto::command
