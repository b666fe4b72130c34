#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "command/cli/commands.h"
#include "command/cli/values.h"
#include "command/run/calling_launcher.h"
#include "command/run/hosts_of_job.h"
#include "command/run/job_options.h"
#include "command/run/places/rank_environment.h"
#include "command/run/places/rank_range.h"
#include "command/run/program_ranks.h"
#include "stretto/base/error.h"
#include "stretto/membership/job.h"

namespace stretto::command {

namespace {

constexpr const char* kName = "stretto run";

struct RunCommand {
  ProgramRanks job{.ranks = 0};
  bool is_for_caller = false;  // a launcher on another host has the job
};

void describe_run(CommandLine& line, RunCommand& run) {
  ProgramRanks& job = run.job;
  line.heading("The job");
  line.option(
      "--ranks", "N",
      "How many processes of the program are started, from 1 to 1024. Must be given, but with --hosts. MIN:MAX: "
      "MAX are started, "
      "and a program of Stretto goes on without those that are lost as long as MIN are left. SIGTERM to one of "
      "them has it leave with nothing lost (docs/elastic.md).",
      [&job](std::string_view option, const std::string& text) {
        const RankRange range = parse_rank_range(option, text);
        job.ranks = range.most;
        job.least = range.is_range ? range.least : 0;
      });
  describe_hosts(line, job);
  describe_members(line, job);
  line.option(
      "--liveness", "TIME",
      "With --listen: a host of which nothing comes for so long, and whose kernel acknowledges nothing, is lost "
      "with its members; from 1s. Less goes on sooner, more outlives a longer break of a link. With --hosts the ranks "
      "of a host are ended where nothing comes from this command for so long, too. Default 5s.",
      [&job](std::string_view option, const std::string& text) {
        job.liveness = parse_duration(option, text, "5s");
        if (job.liveness < std::chrono::seconds(1)) reject(option, text, "expected a time from 1s", "5s");
      });
  describe_restarts(line, job);
  describe_grace(line, job);
  describe_tag(line, job);
  line.flag("--from-launcher", "", "For --hosts, which calls it on the hosts: the job comes by standard input.",
            [&run](std::string_view, const std::string&) { run.is_for_caller = true; });
  line.rest("PROGRAM", job.program, CommandLine::Presence::required);
  line.example("stretto run --ranks 4 -- python train.py", "Four ranks of a script with stretto.Optimizer.");
  line.example("stretto run --ranks 4 --tag -- ./mine --epochs 3 2> log", "Which rank says what?");
  line.example("stretto run --hosts a,b:4 -- python train.py", "Five ranks, by ssh: one on a, four on b.");
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

int run_ranks_of_a_program(const RunCommand& command) {
  if (command.is_for_caller) return run_for_caller();
  ProgramRanks job = command.job;
  if (!job.hosts.empty()) {
    check_hosts(job);
  } else if (!job.rsh.empty()) {
    throw UsageError(fmt::format("--rsh {} without --hosts: expected both, as in --hosts a,b:4", job.rsh));
  }
  if (job.ranks == 0) {
    throw UsageError("--ranks is missing: expected how many ranks to start, as in --ranks 4 -- python train.py");
  }
  if (const auto place = own_place(); job.least > 0 && place && place->ranks > 1) {
    throw UsageError(fmt::format(
        "--ranks {}:{} in each of {} processes that {} has started, which would be as many jobs: expected it once, and "
        "stretto join on the others",
        job.least, job.ranks, place->ranks, place->starter));
  }
  check_member_options(job);
  return run_program_ranks(job, kName).status;
}

}  // namespace

Subcommand run_command() {
  return make_command({.name = "run",
                       .summary = "Starts a program as the ranks of a job, on this host or others.",
                       .introduction = "Starts any program as the ranks of a job, on this host or others, each a "
                                       "process of its own, and ends when they have ended."},
                      RunCommand(), describe_run, run_ranks_of_a_program);
}

}  // namespace stretto::command
