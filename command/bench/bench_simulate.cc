#include <fmt/format.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "stretto/check/harness/simulated_rounds.h"

namespace stretto::command {

namespace {

struct SimulateCommand {
  int ranks = 1024;
  int hosts = 0;
  int steps = 2;
  std::string policy = "solo";
  std::uint64_t seed = 1;
  Output output;
};

void describe_options(CommandLine& line, SimulateCommand& command) {
  line.heading("The measurement");
  line.option("--ranks", "N", "How many ranks are simulated. Default 1024.", into(command.ranks, 1, 60000, "10000"));
  line.option("--hosts", "N",
              "They are shared out over so many hosts, and those of each meet in its memory; at most 1024 ranks then. "
              "Default: none share memory.",
              into(command.hosts, 1, 1024, "128"));
  line.option("--steps", "N", "What each rank deposits, one after the other. Default 2.",
              into(command.steps, 1, 1000, "2"));
  line.option("--policy", "POLICY", "Who may start a round: full, solo, majority, quorum:N. Default solo.",
              into(command.policy));
  line.option("--seed", "N", "Of arrivals and delays. Default 1.", into(command.seed, 1, "1"));
  command.output.add_option(line);
  line.example("stretto bench simulate --ranks 10000", "A job of ten thousand ranks in one process.");
  line.example("stretto bench simulate --ranks 1024 --hosts 128", "What the leaders of 128 hosts say to each other.");
  line.note(
      "All ranks run in one thread on a virtual clock: the engine and the protocol as they are, over a simulated "
      "network that carries one number a rank. Every rank makes its deposits, arriving within 20 us of the others, and "
      "leaves; the time a round takes to simulate is the mean over all rounds, those of leaving among them. Memory is "
      "the largest that the process has had.");
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

int run(const SimulateCommand& command) {
  SimulatedRoundsOptions options{
      .ranks = command.ranks, .hosts = command.hosts, .steps = command.steps, .seed = command.seed};
  options.options.policy = Policy::parse(command.policy, command.ranks);
  const SimulatedRounds result = simulate_rounds(options);

  const auto rounds = static_cast<double>(result.rounds);
  const double round = result.seconds / rounds;
  const double events = static_cast<double>(result.events) / result.seconds;
  const double memory = peak_mib();
  const double busiest = static_cast<double>(result.busiest.messages) / rounds;
  Table table({"ranks", "policy", "rounds", "set up, s", "a round, s", "events/s", "messages a round", "memory, MiB"});
  table.add({std::to_string(command.ranks), command.policy, std::to_string(result.rounds),
             significant(result.setup_seconds), significant(round), significant(events),
             significant(static_cast<double>(result.messages) / rounds), significant(memory)});
  command.output.say(table.to_text());
  if (command.hosts > 1) {
    command.output.say(fmt::format("between hosts the busiest rank sends {} messages a round, to {} others",
                                   significant(busiest), result.busiest.peers));
  }
  command.output.emit({{"ranks", command.ranks},
                       {"policy", command.policy},
                       {"rounds", result.rounds},
                       {"setup_seconds", result.setup_seconds},
                       {"round_seconds", round},
                       {"events", result.events},
                       {"events_per_second", events},
                       {"messages", result.messages},
                       {"hosts", command.hosts},
                       {"busiest_messages_a_round", busiest},
                       {"busiest_peers", result.busiest.peers},
                       {"peak_mib", memory}});
  const auto batches = static_cast<std::uint64_t>(command.ranks) * static_cast<std::uint64_t>(command.steps);
  if (result.all_ranks_agree && result.batches == batches) return kSuccess;
  command.output.say(fmt::format("{} batches were applied of {}, and the ranks {}", result.batches, batches,
                                 result.all_ranks_agree ? "agree" : "do not agree"));
  return kFailedRun;
}

}  // namespace

Subcommand bench_simulate_command() {
  return make_command(
      {.name = "simulate",
       .summary = "What it takes to simulate rounds of many ranks.",
       .introduction = "Measures what it takes to simulate rounds of a partial allreduce among many ranks."},
      SimulateCommand(), describe_options, run);
}

}  // namespace stretto::command
