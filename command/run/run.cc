#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "command/cli/commands.h"
#include "command/cli/values.h"
#include "command/run/job_options.h"
#include "command/run/program_ranks.h"
#include "command/run/rank_environment.h"
#include "command/run/rank_range.h"
#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

constexpr const char* kName = "stretto run";

void describe_run(CommandLine& line, ProgramRanks& job) {
  line.heading("The job");
  line.option("--ranks", "N",
              "How many processes of the program are started, from 1 to 1024. Must be given. MIN:MAX: MAX are started, "
              "and a program of Stretto goes on without those that are lost as long as MIN are left. SIGTERM to one of "
              "them has it leave with nothing lost (docs/elastic.md).",
              [&job](std::string_view option, const std::string& text) {
                const RankRange range = parse_rank_range(option, text);
                job.ranks = range.most;
                job.least = range.is_range ? range.least : 0;
              });
  line.option(
      "--here", "N",
      "With MIN:MAX: so many processes are started. Those above MAX wait as spares for the place of one that is "
      "lost or has left; 0: others come by stretto join. Default MAX.",
      [&job](std::string_view option, const std::string& text) {
        job.here = static_cast<int>(parse_integer(option, text, 0, JobMemory::kMaxRanks, "4"));
      });
  line.option(
      "--listen", "[ADDRESS:]PORT",
      "With MIN:MAX: at this port more processes come by stretto join, and stretto members and leave work; 0: "
      "any that is free. ADDRESS: one of this host's; 127.0.0.1: they come from this host alone; none: "
      "that of the first interface that STRETTO_INTERFACE allows (docs/clusters.md). A line says where, and where "
      "the job's secret lies. Default: they come from here alone.",
      into_address(job.listen));
  line.option(
      "--token-file", "FILE",
      "With --listen: the job's secret is written there, for this user alone, as long as the job lasts. Default: "
      "a file that the line names; none where STRETTO_TOKEN says the secret.",
      into(job.secret_file));
  line.option(
      "--liveness", "TIME",
      "With --listen: a host of which nothing comes for so long, and whose kernel acknowledges nothing, is lost "
      "with its members; from 1s. Less goes on sooner, more outlives a longer break of a link. Default 5s.",
      [&job](std::string_view option, const std::string& text) {
        job.liveness = parse_duration(option, text, "5s");
        if (job.liveness < std::chrono::seconds(1)) reject(option, text, "expected a time from 1s", "--liveness 5s");
      });
  line.option(
      "--patience", "TIME",
      "With MIN:MAX: so long fewer than MIN wait for others, before the job is given up. Default 0s; 5m where "
      "others may come by --restarts or --listen.",
      [&job](std::string_view option, const std::string& text) { job.patience = parse_duration(option, text, "30s"); });
  line.option(
      "--evict", "TIME",
      "With MIN:MAX: a member for which others have waited in a call for so long is excluded: the others go on, "
      "and its process is ended, which counts as a loss. A step that takes longer is one, too; from 2s. Default: "
      "it is waited for, and named after ten seconds.",
      [&job](std::string_view option, const std::string& text) {
        job.evict = parse_duration(option, text, "5s");
        if (job.evict < std::chrono::seconds(2)) reject(option, text, "expected a time from 2s", "--evict 5s");
      });
  describe_restarts(line, job);
  describe_grace(line, job);
  describe_tag(line, job);
  line.rest("PROGRAM", job.program, CommandLine::Presence::required);
  line.example("stretto run --ranks 4 -- python train.py", "Four ranks of a script with stretto.Optimizer.");
  line.example("stretto run --ranks 4 --tag -- ./mine --epochs 3 2> log", "Which rank says what?");
  line.note(
      "A rank finds in its environment what torchrun sets: RANK, LOCAL_RANK, ROLE_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, "
      "ROLE_WORLD_SIZE, ROLE_NAME, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID, "
      "TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_MAX_RESTARTS. By these torch.distributed, accelerate, Lightning and "
      "programs of Stretto, in C++ and in Python, find each other. TORCHELASTIC_USE_AGENT_STORE is not set: there is "
      "no store, and rank 0 opens its own at MASTER_PORT. What another launcher has said there is replaced.");
  line.note(
      "OMP_NUM_THREADS, where it is not set and there is more than one rank, is the ranks' share of the cores of this "
      "host, at least 1. (torchrun sets 1.) Rank 0 has the command's standard input; that of the others is empty.");
  line.note(
      "A rank that fails ends the job: the others get SIGTERM at once. The exit status is that of the first rank that "
      "fails, 128 + signal where it was killed. With MIN:MAX it ends the job only where too few are left, or nobody "
      "who "
      "has the model, and the status is 0 where the job has come to its end. SIGINT, SIGTERM, SIGHUP and SIGQUIT are "
      "passed on to the ranks, whose ends are awaited, and the status is 128 + signal; at the second one they are "
      "killed. 127: there is no such program; 126: it cannot be run. All that the ranks have started ends with the "
      "job, "
      "unless it has made a session of its own.");
}

/// That of this command among processes that another launcher has started.
std::optional<LaunchedRank> own_place() {
  try {
    return launched_rank();
  } catch (const UsageError&) {
    return std::nullopt;  // a variable alone, as people set it, says nothing
  }
}

int run_ranks_of_a_program(const ProgramRanks& job) {
  if (job.ranks == 0) {
    throw UsageError("--ranks is missing: expected how many ranks to start, as in --ranks 4 -- python train.py");
  }
  const auto require_range = [&job](bool given, std::string_view option) {
    if (!given || job.least > 0) return;
    throw UsageError(
        fmt::format("{} with --ranks {}: expected a range, as in --ranks 1:{}", option, job.ranks, job.ranks));
  };
  if (const auto place = own_place(); job.least > 0 && place && place->ranks > 1) {
    throw UsageError(fmt::format(
        "--ranks {}:{} in each of {} processes that {} has started, which would be as many jobs: expected it once, and "
        "stretto join on the others",
        job.least, job.ranks, place->ranks, place->starter));
  }
  require_range(job.restarts > 0, fmt::format("--restarts {}", job.restarts));
  require_range(job.here.has_value(), fmt::format("--here {}", job.here.value_or(0)));
  require_range(job.listen.has_value(), "--listen");
  require_range(job.patience.has_value(), "--patience");
  require_range(job.evict > Duration::zero(), "--evict");
  if (!job.secret_file.empty() && !job.listen) {
    throw UsageError("--token-file without --listen: expected both, since nobody else needs the secret");
  }
  if (!job.listen && job.here.value_or(job.ranks) < job.least) {
    throw UsageError(fmt::format("--here {} of at least {} ranks, and nobody else comes: expected more, or --listen",
                                 *job.here, job.least));
  }
  return run_program_ranks(job, kName);
}

}  // namespace

Subcommand run_command() {
  return make_command({.name = "run",
                       .summary = "Starts a program as the ranks of a job on this host.",
                       .introduction = "Starts any program as the ranks of a job on this host, each a process of its "
                                       "own, and ends when they have ended."},
                      ProgramRanks{.ranks = 0}, describe_run, run_ranks_of_a_program);
}

}  // namespace stretto::command
