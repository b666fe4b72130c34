#include <fmt/format.h>

#include <string>
#include <vector>

#include "command/cli/commands.h"
#include "command/cli/values.h"
#include "command/run/program_ranks.h"
#include "command/run/rank_environment.h"
#include "command/run/rank_range.h"
#include "stretto/base/error.h"
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
      "--restarts", "N",
      "With MIN:MAX: so many processes take the places of lost ones, all together; each takes the model over from "
      "the others. Default 0.",
      [&job](std::string_view option, const std::string& text) {
        job.restarts = static_cast<int>(parse_integer(option, text, 0, JobMemory::kMaxRanks, "3"));
      });
  line.option(
      "--grace", "TIME",
      "So long ranks have to end by themselves, once one has failed or a signal has been passed on, before they "
      "are killed. Less loses what they still write. Default 30s.",
      into(job.grace, "5s"));
  line.heading("What ranks write");
  line.flag("--tag", "",
            "Each line begins with the rank that has written it, \"[rank 2] \", and comes out whole. Without it output "
            "is the terminal's, file's or pipe's own, as it is written.",
            [&job](std::string_view, const std::string&) { job.tag = true; });
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

int run_ranks_of_a_program(const ProgramRanks& job) {
  if (job.ranks == 0) {
    throw UsageError("--ranks is missing: expected how many ranks to start, as in --ranks 4 -- python train.py");
  }
  if (job.least == 0 && job.restarts > 0) {
    throw UsageError(fmt::format("--restarts {} with --ranks {}: expected a range, as in --ranks 1:{}", job.restarts,
                                 job.ranks, job.ranks));
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
