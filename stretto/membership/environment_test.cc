#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "stretto/membership/changes.h"
#include "stretto/membership/hosts/bulletin.h"
#include "stretto/membership/job.h"
#include "stretto/membership/masters/job_master.h"
#include "stretto/membership/views/member_place.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/transport/testing/conformance.h"

namespace stretto {
namespace {

using testing::HasSubstr;

/// Environment variables as they were, afterwards.
class EnvironmentTest : public testing::Test {
 protected:
  EnvironmentTest() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMIX_NAMESPACE",
                             "PMI_SIZE",
                             "PMI_RANK",
                             "WORLD_SIZE",
                             "LOCAL_WORLD_SIZE",
                             "RANK",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "TORCHELASTIC_USE_AGENT_STORE",
                             "STRETTO_MEETING",
                             "STRETTO_RANK",
                             "STRETTO_RANKS",
                             "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_RESTART_COUNT",
                             "STRETTO_JOB",
                             MemberPlace::kVariable,
                             "SLURM_NTASKS",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_TASKS_PER_NODE",
                             "SLURM_PROCID",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value != nullptr ? std::optional<std::string>(value) : std::nullopt);
      unsetenv(name);
    }
  }
  ~EnvironmentTest() override {
    for (const auto& [name, value] : before_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST_F(EnvironmentTest, AProcessOnItsOwnIsNoRank) {
  EXPECT_FALSE(launched_from_outside());
  const auto result = run_as_launched([](RankContext&) { return 0; });
  EXPECT_EQ(result.error().code, Errc::unavailable);
  EXPECT_THAT(result.error().message, HasSubstr("mpirun"));
}

TEST_F(EnvironmentTest, AJobOnOneHostRefusesOptionsOfSeveralThatAreNone) {
  using namespace std::chrono_literals;
  EXPECT_THROW((void)join_job({.job = "of bad options", .liveness = 10ms}), UsageError);
  EXPECT_THROW((void)join_job({.job = "of bad options", .between = "mpi"}), UsageError);
}

TEST_F(EnvironmentTest, OneOfOneIsNoRank) {
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_FALSE(launched_from_outside());
}

TEST_F(EnvironmentTest, ABatchScriptOfSlurmIsNoRankButAStepIs) {
  setenv("SLURM_NTASKS", "4", 1);
  setenv("SLURM_PROCID", "0", 1);
  EXPECT_FALSE(launched_from_outside());
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_TRUE(launched_from_outside());
}

TEST_F(EnvironmentTest, KnowsMpirun) {
  setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
  setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  EXPECT_TRUE(launched_from_outside());
}

TEST_F(EnvironmentTest, SaysWhatIsMissingWhereTorchrunOnSeveralHostsKeepsNoStore) {
  setenv("WORLD_SIZE", "8", 1);
  setenv("LOCAL_WORLD_SIZE", "4", 1);
  setenv("RANK", "1", 1);
  EXPECT_TRUE(launched_from_outside());
  const auto result = launch({.ranks = 3}, [](RankContext&) { return 0; });
  EXPECT_EQ(result.error().code, Errc::unavailable);
  EXPECT_EQ(result.error().message,
            "torchrun has started 8 ranks, 4 of them on this host, and keeps no store where they could meet: expected "
            "STRETTO_MEETING=host:port, an address of rank 0's host");
}

TEST_F(EnvironmentTest, RunJobIsRefusedAmongRanksOfAnother) {
  for (const auto& [size, rank, starter] :
       {std::tuple{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun"},
        std::tuple{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"}, std::tuple{"WORLD_SIZE", "RANK", "torchrun"}}) {
    setenv(size, "3", 1);
    setenv(rank, "1", 1);
    const auto result = run_job({.ranks = 2}, [](RankContext&) { return 0; });
    unsetenv(size);
    unsetenv(rank);
    ASSERT_FALSE(result.ok()) << starter;
    EXPECT_EQ(result.error().code, Errc::unavailable);
    EXPECT_THAT(result.error().message,
                HasSubstr(text("the 3 processes that ", starter, " has started: use launch()")));
  }
}

TEST_F(EnvironmentTest, LaunchStartsTheRanksOfAProcessOnItsOwn) {
  const auto result = launch({.ranks = 3}, [](RankContext& context) {
                        context.report(text(context.rank(), " of ", context.size()));
                        return 0;
                      }).or_throw();
  EXPECT_THAT(result.reports, testing::ElementsAre("0 of 3", "1 of 3", "2 of 3"));
}

TEST_F(EnvironmentTest, KnowsHowManyRanksShareTheHost) {
  setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
  setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  EXPECT_EQ(launched_rank()->local_ranks, 8);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
  EXPECT_EQ(launched_rank()->local_ranks, 4);
  unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
}

using Variables = std::vector<std::pair<const char*, const char*>>;

/// What join_options_by_environment() finds: rank, ranks and job, or the error.
std::string found(const Variables& variables) {
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  std::string out;
  try {
    const JoinOptions options = join_options_by_environment();
    out = text(options.rank, " of ", options.ranks, ", ", options.job);
    if (options.bulletin) out += text(", at '", options.bulletin->given_address(), '\'');
  } catch (const UsageError& error) {
    out = error.what();
  } catch (const Failure& failure) {
    out = text(name_of(failure.error().code), ": ", failure.what());
  }
  for (const auto& [name, value] : variables) unsetenv(name);
  return out;
}

TEST_F(EnvironmentTest, FindsAsWhomToJoinWhateverStartedTheRanks) {
  const std::string alone = text("0 of 1, process ", getpid(), " alone");
  EXPECT_EQ(found({}), alone);
  EXPECT_EQ(found({{"WORLD_SIZE", "1"}, {"RANK", "0"}}), alone);
  EXPECT_EQ(found({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}}), alone);
  const Variables torchrun{{"WORLD_SIZE", "4"},
                           {"RANK", "3"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "here"},
                           {"MASTER_PORT", "29500"},
                           {"TORCHELASTIC_RUN_ID", "none"},
                           {"TORCHELASTIC_RESTART_COUNT", "1"},
                           {"STRETTO_JOB", "mine"}};
  const std::string by_torchrun =
      "3 of 4, torchrun MASTER_ADDR=here MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=1 "
      "STRETTO_JOB=mine";
  EXPECT_EQ(found(torchrun), by_torchrun);
  Variables by_run = torchrun;
  by_run[5].second = "stretto-run-0123";
  EXPECT_EQ(found(by_run),
            "3 of 4, stretto run MASTER_ADDR=here MASTER_PORT=29500 TORCHELASTIC_RUN_ID=stretto-run-0123 "
            "TORCHELASTIC_RESTART_COUNT=1 STRETTO_JOB=mine");
  const Variables mpirun{{"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "prterun-5"}};
  EXPECT_EQ(found(mpirun), "1 of 2, mpirun PMIX_NAMESPACE=prterun-5 STRETTO_JOB=");
  EXPECT_EQ(found({{"SLURM_STEP_NUM_TASKS", "3"},
                   {"SLURM_PROCID", "2"},
                   {"SLURM_STEP_TASKS_PER_NODE", "3"},
                   {"SLURM_JOB_ID", "7"},
                   {"SLURM_STEP_ID", "0"}}),
            "2 of 3, srun SLURM_JOB_ID=7 SLURM_STEP_ID=0 STRETTO_JOB=");
  Variables both = torchrun;
  both.insert(both.end(), mpirun.begin(), mpirun.end());
  EXPECT_EQ(found(both), by_torchrun);
  both = mpirun;
  both.insert(both.end(), {{"WORLD_SIZE", "1"}, {"RANK", "0"}});  // left by something else
  EXPECT_EQ(found(both), "1 of 2, mpirun PMIX_NAMESPACE=prterun-5 STRETTO_JOB=");
}

TEST_F(EnvironmentTest, FindsWhereRanksOnSeveralHostsMeet) {
  const Variables by_hand{{"STRETTO_MEETING", "h1:4711"}, {"STRETTO_RANKS", "4"}, {"STRETTO_RANK", "3"}};
  EXPECT_EQ(found(by_hand), "3 of 4, STRETTO_MEETING STRETTO_MEETING=h1:4711 STRETTO_JOB=, at 'h1:4711'");
  Variables pod{{"STRETTO_MEETING", "h1:4711"},
                {"STRETTO_RANKS", "4"},
                {"JOB_COMPLETION_INDEX", "2"},
                {"STRETTO_TOKEN", "secret"}};
  EXPECT_EQ(found(pod), "2 of 4, STRETTO_MEETING STRETTO_MEETING=h1:4711 STRETTO_JOB=, at 'h1:4711'");
  pod.pop_back();
  EXPECT_EQ(
      found(pod),
      "STRETTO_MEETING=h1:4711 in a pod of Kubernetes (JOB_COMPLETION_INDEX=2) without STRETTO_TOKEN: expected the "
      "same in all of them, from a secret");
  pod.back().second = "4";
  EXPECT_EQ(found(pod), "JOB_COMPLETION_INDEX='4' with STRETTO_RANKS=4: expected a rank from 0 to 3");

  Variables mpirun{{"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_RANK", "1"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                   {"PMIX_NAMESPACE", "prterun-5"},
                   {"PMIX_RANK", "1"}};
  EXPECT_EQ(found(mpirun), "1 of 4, mpirun PMIX_NAMESPACE=prterun-5 STRETTO_JOB=, at ''");
  mpirun.back().second = "0";  // another process manager's
  EXPECT_THAT(found(mpirun), HasSubstr("unavailable: mpirun has started 4 ranks, 2 of them on this host"));
  EXPECT_EQ(found({{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}, {"PMI_FD", "5"}}),
            "1 of 4, mpiexec STRETTO_JOB=, at ''");
  Variables srun{{"SLURM_STEP_NUM_TASKS", "11"},
                 {"SLURM_PROCID", "9"},
                 {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                 {"SLURM_STEP_NODELIST", "n[1-2],m7"},
                 {"SLURM_NODEID", "2"},
                 {"SLURM_JOB_ID", "10007"},
                 {"SLURM_STEP_ID", "3"}};
  EXPECT_EQ(found(srun), "9 of 11, srun SLURM_JOB_ID=10007 SLURM_STEP_ID=3 STRETTO_JOB=, at 'n1:20059'");
  srun[1].second = "0";  // not on the first node
  EXPECT_THAT(found(srun), HasSubstr("unavailable: srun has started 11 ranks, 3 of them on this host"));
  srun[1].second = "9";
  srun.push_back({"SLURM_DISTRIBUTION", "arbitrary"});
  EXPECT_THAT(found(srun), HasSubstr("unavailable: srun"));
}

TEST_F(EnvironmentTest, AMemberComesToItsMasterWhateverElseIsSaid) {
  const Token token = new_token();
  const JobMaster master({.token = token});
  const MemberPlace place{.port = master.port(), .number = 17, .most = 4, .token = token};
  setenv(MemberPlace::kVariable, place.encoded().c_str(), 1);
  setenv("WORLD_SIZE", "4", 1);
  setenv("RANK", "1", 1);
  EXPECT_TRUE(launched_from_outside());
  bool prepared = false;
  const auto job = launch({.ranks = 2, .prepare = [&](RankContext&) { prepared = true; }}, [](RankContext& rank) {
                     Changes& changes = *rank.changes();
                     rank.report(text("member ", changes.number(), ", at most ", changes.most(), ", of ", rank.size()));
                     return changes.begin() && changes.finish() ? 0 : 1;
                   }).or_throw();
  EXPECT_TRUE(prepared);
  EXPECT_TRUE(job.ok());
  EXPECT_THAT(job.reports, testing::ElementsAre("member 17, at most 4, of 1"));
}

TEST_F(EnvironmentTest, AMemberComesWhenItsWorldIsAskedFor) {
  const MemberPlace place{.port = 1, .number = 17, .most = 4, .token = new_token()};
  setenv(MemberPlace::kVariable, place.encoded().c_str(), 1);
  JoinedRank rank = join_job(join_options_by_environment()).or_throw();
  RankContext& context = rank.context();
  EXPECT_EQ(context.changes()->number(), 17);
  try {
    context.rank();
    ADD_FAILURE() << "nobody listens there";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().code, Errc::unavailable);
  }
}

TEST_F(EnvironmentTest, SaysWhichVariablesDoNotFit) {
  EXPECT_EQ(found({{"WORLD_SIZE", "4"}}),
            "WORLD_SIZE=4 without RANK: expected both, as torchrun sets them, or neither");
  for (const char* rank : {"", "two", "2x", " 2", "-1", "4", "99999999999"}) {
    EXPECT_EQ(found({{"WORLD_SIZE", "4"}, {"RANK", rank}}),
              text("RANK='", rank, "' with WORLD_SIZE=4: expected a rank from 0 to 3"));
  }
  for (const char* ranks : {"", "four", "4.0", "0", "-4"}) {
    EXPECT_EQ(found({{"WORLD_SIZE", ranks}, {"RANK", "0"}}),
              text("WORLD_SIZE='", ranks, "', as torchrun sets it: expected a number of ranks, from 1"));
  }
  EXPECT_EQ(found({{"WORLD_SIZE", "four"}, {"RANK", "0"}, {"TORCHELASTIC_RUN_ID", "stretto-run-0"}}),
            "WORLD_SIZE='four', as stretto run sets it: expected a number of ranks, from 1");
  EXPECT_EQ(found({{"STRETTO_MEETING", "h1:4711"}, {"STRETTO_RANKS", "4"}}),
            "STRETTO_RANKS=4 without STRETTO_RANK: expected both, as STRETTO_MEETING sets them, or neither");
  EXPECT_EQ(found({{"WORLD_SIZE", "1"}, {"RANK", "3"}}), "RANK='3' with WORLD_SIZE=1: expected a rank from 0 to 0");
  for (const char* local : {"", "all", "0", "5"}) {
    EXPECT_EQ(found({{"WORLD_SIZE", "4"}, {"RANK", "0"}, {"LOCAL_WORLD_SIZE", local}}),
              text("LOCAL_WORLD_SIZE='", local,
                   "' with WORLD_SIZE=4: expected the number of ranks on this host, from 1 to 4"));
  }
  const char* several_hosts =
      " has started 8 ranks, 4 of them on this host, and keeps no store where they could meet: expected "
      "STRETTO_MEETING=host:port, an address of rank 0's host";
  EXPECT_EQ(found({{"WORLD_SIZE", "8"}, {"RANK", "0"}, {"LOCAL_WORLD_SIZE", "4"}}),
            text("unavailable: torchrun", several_hosts));
  EXPECT_EQ(found({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}}),
            text("unavailable: srun", several_hosts));
  EXPECT_EQ(
      found({{"STRETTO_MEETING", "h1:4711"}}),
      "STRETTO_MEETING=h1:4711 without STRETTO_RANKS: expected how many ranks meet there, and STRETTO_RANK of each");
}

struct Ended {
  int status = 0;
  std::string said;  ///< the lines that begin with "stretto: "
};

/// Runs a line of the shell.
Ended run_line(const std::string& command) {
  Ended ended;
  FILE* out = popen(command.c_str(), "r");
  char line[1000] = {};
  while (std::fgets(line, sizeof(line), out) != nullptr) {
    std::fputs(line, stdout);
    if (std::string_view(line).starts_with("stretto: ")) ended.said += line;
  }
  ended.status = WEXITSTATUS(pclose(out));
  return ended;
}

/// Runs launched_rank.cc as torchrun does: a process a rank, told by the environment what it is.
Ended run_as_torchrun(int ranks, const std::string& test) {
  static int port = 0;
  std::string command = text("export WORLD_SIZE=", ranks, " LOCAL_WORLD_SIZE=", ranks, " MASTER_ADDR=test-", getpid(),
                             " MASTER_PORT=", ++port, "; ");
  for (int rank = 0; rank < ranks; ++rank) {
    command += text("RANK=", rank, " timeout -k 5 90 " STRETTO_LAUNCHED_RANK " ", test, " 2>&1 & P", rank, "=$!; ");
  }
  command += "S=0; ";
  for (int rank = 0; rank < ranks; ++rank) command += text("wait $P", rank, " || S=$((S * 10 + $?)); ");
  return run_line(command + "exit $S");
}

/// Runs launched_rank.cc under mpirun.
Ended run_under_mpirun(int ranks, const std::string& test) {
  if (geteuid() == 0) {
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  // Two mpirun of one user at once race for the folder that they share: one removes it where the other makes it.
  const TemporaryFolder folder;
  setenv("OMPI_MCA_orte_tmpdir_base", folder.path().c_str(), 1);
  // MPI moves nothing on one host.
  return run_line(text("STRETTO_BETWEEN=mpi timeout -k 5 90 mpirun --oversubscribe -n ", ranks,
                       " " STRETTO_LAUNCHED_RANK " ", test, " 2>&1"));
}

/// Its exit status.
int mpirun(int ranks, const std::string& test) {
  return run_under_mpirun(ranks, test).status;
}

const char* why_no_mpirun() {
  return std::system("command -v mpirun > /dev/null") == 0 ? nullptr : "there is no mpirun (openmpi-bin)";
}

class TorchrunConformance : public testing::TestWithParam<std::string> {};

TEST_P(TorchrunConformance, Passes) {
  EXPECT_EQ(run_as_torchrun(3, GetParam()).status, 0);
}

std::vector<std::string> torchrun_tests() {
  std::vector<std::string> out{"count"};
  for (const auto& test : conformance_cases()) out.push_back(test.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Torchrun, TorchrunConformance, testing::ValuesIn(torchrun_tests()),
                         [](const auto& info) { return info.param; });

TEST(RunAsTorchrun, OneErrorIsToldOnceAndTheCauseRatherThanWhatFollows) {
  EXPECT_THAT(run_as_torchrun(3, "misuse").said, testing::MatchesRegex("stretto: rank .: as this test wants it\n"));
  const Ended follow = run_as_torchrun(3, "follow");
  EXPECT_EQ(follow.said, "stretto: as this test wants it\n");
  EXPECT_EQ(follow.status, 131);  // each rank's own
}

TEST(RunAsLaunched, ARankThatFailsEndsTheJobWithItsStatus) {
  if (const char* why = why_no_mpirun()) GTEST_SKIP() << "mpirun is NOT TESTED: " << why;
  EXPECT_EQ(mpirun(3, "fail"), 7);
  EXPECT_EQ(mpirun(3, "crash"), 1);
}

TEST(RunAsLaunched, OneErrorIsToldOnceAndTheCauseRatherThanWhatFollows) {
  if (const char* why = why_no_mpirun()) GTEST_SKIP() << "mpirun is NOT TESTED: " << why;
  EXPECT_THAT(run_under_mpirun(3, "misuse").said, testing::MatchesRegex("stretto: rank .: as this test wants it\n"));
  const Ended follow = run_under_mpirun(3, "follow");
  EXPECT_EQ(follow.said, "stretto: as this test wants it\n");
  EXPECT_EQ(follow.status, 3);
  EXPECT_THAT(run_under_mpirun(3, "follow_silence").said,
              testing::MatchesRegex("stretto: rank .: rank 1 stopped the job\n"));
}

}  // namespace
}  // namespace stretto
