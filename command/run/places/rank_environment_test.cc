#include "command/run/places/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace stretto::command {
namespace {

using testing::Contains;
using testing::Pair;
using testing::StartsWith;

std::map<std::string, std::string> variables_of(const std::vector<std::string>& entries) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : entries) {
    const std::size_t equals = entry.find('=');
    const bool is_new = variables.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second;
    EXPECT_TRUE(is_new) << entry;
  }
  return variables;
}

TEST(RankEnvironment, HasWhatTorchrunSetsButItsStore) {
  const RankEnvironment environment(4, {"HOME=/here", "EQUAL=a=b"});
  auto of_rank_2 = variables_of(environment.of(2));
  EXPECT_THAT(of_rank_2["TORCHELASTIC_RUN_ID"], StartsWith("stretto-run-"));
  const int port = std::stoi(of_rank_2["MASTER_PORT"]);
  EXPECT_GT(port, 0);
  EXPECT_GE(std::stoi(of_rank_2["OMP_NUM_THREADS"]), 1);
  of_rank_2.erase("TORCHELASTIC_RUN_ID");
  of_rank_2.erase("MASTER_PORT");
  of_rank_2.erase("OMP_NUM_THREADS");
  EXPECT_EQ(of_rank_2, (std::map<std::string, std::string>{{"HOME", "/here"},
                                                           {"EQUAL", "a=b"},
                                                           {"RANK", "2"},
                                                           {"LOCAL_RANK", "2"},
                                                           {"ROLE_RANK", "2"},
                                                           {"ROLE_NAME", "default"},
                                                           {"WORLD_SIZE", "4"},
                                                           {"LOCAL_WORLD_SIZE", "4"},
                                                           {"ROLE_WORLD_SIZE", "4"},
                                                           {"GROUP_RANK", "0"},
                                                           {"GROUP_WORLD_SIZE", "1"},
                                                           {"MASTER_ADDR", "127.0.0.1"},
                                                           {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                           {"TORCHELASTIC_MAX_RESTARTS", "0"}}));
}

TEST(RankEnvironment, SaysWhichHostItIsOfSeveral) {
  const RanksOfHost on_host{
      .first = 4, .host = 1, .hosts = 3, .run_id = "stretto-run-x", .place = {"fd77::1", 29500, 4711}};
  const RankEnvironment environment(7, 2, on_host, {"OMP_NUM_THREADS=3", "STRETTO_MEETING=far:1"});
  EXPECT_EQ(variables_of(environment.of(5)),
            (std::map<std::string, std::string>{{"RANK", "5"},
                                                {"LOCAL_RANK", "1"},
                                                {"ROLE_RANK", "5"},
                                                {"ROLE_NAME", "default"},
                                                {"WORLD_SIZE", "7"},
                                                {"LOCAL_WORLD_SIZE", "2"},
                                                {"ROLE_WORLD_SIZE", "7"},
                                                {"GROUP_RANK", "1"},
                                                {"GROUP_WORLD_SIZE", "3"},
                                                {"MASTER_ADDR", "fd77::1"},
                                                {"MASTER_PORT", "29500"},
                                                {"OMP_NUM_THREADS", "3"},
                                                {"STRETTO_MEETING", "[fd77::1]:4711"},
                                                {"TORCHELASTIC_RUN_ID", "stretto-run-x"},
                                                {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                {"TORCHELASTIC_MAX_RESTARTS", "0"}}));
}

TEST(RankEnvironment, NothingOfAnotherLauncherIsLeft) {
  const RankEnvironment environment(2, {"RANK=7",
                                        "WORLD_SIZE=9",
                                        "LOCAL_WORLD_SIZE=9",
                                        "GROUP_WORLD_SIZE=3",
                                        "MASTER_PORT=1",
                                        "MASTER_ADDR=far",
                                        "TORCHELASTIC_USE_AGENT_STORE=True",
                                        "TORCHELASTIC_RUN_ID=other",
                                        "STRETTO_MEETING=far:1",
                                        "STRETTO_RANK=3",
                                        "STRETTO_RANKS=4",
                                        "OMPI_COMM_WORLD_SIZE=3",
                                        "OMPI_COMM_WORLD_RANK=1",
                                        "PMIX_NAMESPACE=x",
                                        "PMI_RANK=1",
                                        "PMI_SIZE=2",
                                        "MPI_LOCALNRANKS=2",
                                        "SLURM_STEP_NUM_TASKS=4",
                                        "SLURM_PROCID=0",
                                        "STRETTO_JOB=mine",
                                        "OMP_NUM_THREADS=3",
                                        "SLURM_JOB_ID=5"});
  const auto variables = variables_of(environment.of(1));
  for (const char* gone : {"TORCHELASTIC_USE_AGENT_STORE", "STRETTO_MEETING", "STRETTO_RANK", "STRETTO_RANKS",
                           "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE",
                           "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}) {
    EXPECT_FALSE(variables.contains(gone)) << gone;
  }
  EXPECT_THAT(variables, Contains(Pair("RANK", "1")));
  EXPECT_THAT(variables, Contains(Pair("WORLD_SIZE", "2")));
  EXPECT_THAT(variables, Contains(Pair("MASTER_ADDR", "127.0.0.1")));
  EXPECT_THAT(variables, Contains(Pair("STRETTO_JOB", "mine")));
  EXPECT_THAT(variables, Contains(Pair("SLURM_JOB_ID", "5")));
  EXPECT_THAT(variables, Contains(Pair("OMP_NUM_THREADS", "3")));
}

TEST(RankEnvironment, JobsHaveNamesOfTheirOwn) {
  EXPECT_NE(variables_of(RankEnvironment(2, {}).of(0))["TORCHELASTIC_RUN_ID"],
            variables_of(RankEnvironment(2, {}).of(0))["TORCHELASTIC_RUN_ID"]);
}

TEST(RankEnvironment, OneRankKeepsAllThreads) {
  EXPECT_FALSE(variables_of(RankEnvironment(1, {}).of(0)).contains("OMP_NUM_THREADS"));
}

}  // namespace
}  // namespace stretto::command
