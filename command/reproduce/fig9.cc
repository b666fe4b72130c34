#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "command/bench/peers.h"
#include "command/bench/skew.h"
#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/own_ranks.h"
#include "command/cli/progress.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "stretto/base/clock.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

struct Fig9Command {
  int ranks = 32;
  int rounds = 64;
  std::string sizes = "64,1KiB,16KiB,256KiB,4MiB";
  std::string activations;
  int seats = 0;
  Duration skew = 1ms;
  std::uint64_t seed = 1;
  bool peers = true;
  Output output;
};

// One line of the table and of the JSON.
struct Fig9Row {
  std::string library;
  std::string activation;  // "solo", "quorum:16", …
  std::uint64_t bytes = 0;
  SkewResult result;
};

void describe_options(CommandLine& line, Fig9Command& command) {
  line.heading("The experiment");
  line.option("--ranks", "N", "How many processes. Default 32, as in the paper.",
              into(command.ranks, 1, JobMemory::kMaxRanks, "32"));
  line.option("--rounds", "N", "Rounds that are measured, for each line of the table. Default 64.",
              into(command.rounds, 1, 1'000'000, "64"));
  line.option("--sizes", "LIST", "Sizes of the bucket. Default " + command.sizes + ".", into(command.sizes));
  line.option(
      "--activations", "LIST",
      "Who may start a round: solo, majority, quorum:N, full, deadline:N,TIME. Default solo, majority, quorum of "
      "half the ranks, full.",
      into(command.activations, activation_names()));
  line.option("--seats", "N", kSeatsHelp, seats_into(command.seats));
  line.option("--skew", "TIME", "Rank r, counted from 1, comes r times so late. Default 1ms.",
              into(command.skew, "1ms"));
  line.option("--seed", "N", "Of the draws of majority. Default 1.", into(command.seed, 0, "1"));
  line.flag("--no-peers", "",
            "Leaves MPI_Allreduce out, which is measured in the same run where Open MPI is installed.",
            [&command](std::string_view, const std::string&) { command.peers = false; });
  line.heading("Output");
  command.output.add_option(line);
  line.example("stretto reproduce fig9", "The whole figure: about a minute and a half.");
  line.example("stretto reproduce fig9 --sizes 64 --activations solo,full --json",
               "Two lines of it, for a program to read.");
  line.note(
      "An untimed barrier stands before each round, so that the ideals hold: they are what waiting alone costs, for "
      "the initiators that were drawn. What a round did not take stays pending and counts as stale in the next. "
      "\"cores\" is the CPU time of all ranks together over time. The delays are injected; no computation is "
      "measured.");
}

SkewExperiment experiment_of(const Fig9Command& command) {
  return {.ranks = command.ranks,
          .rounds = command.rounds,
          .seats = command.seats,
          .skew = command.skew,
          .seed = command.seed};
}

Fig9Row measure(const Fig9Command& command, const Policy& policy, std::uint64_t bytes) {
  SkewExperiment experiment = experiment_of(command);
  experiment.bytes = bytes;
  experiment.policy = policy;
  return {name_of_ours(experiment), policy.to_string(), bytes, measure_skew(experiment).or_throw()};
}

// MPI_Allreduce for all sizes at once. Says why when there is none.
std::vector<Fig9Row> measure_openmpi(const Fig9Command& command, const std::vector<std::uint64_t>& sizes) {
  const auto results = measure_peer_skew(openmpi(), experiment_of(command), sizes);
  if (!results) {
    command.output.say(fmt::format("MPI_Allreduce is left out: {}", results.error().message));
    return {};
  }
  std::vector<Fig9Row> rows;
  for (std::size_t i = 0; i < sizes.size(); ++i) rows.push_back({openmpi().name, "full", sizes[i], (*results)[i]});
  return rows;
}

void print_table(const Fig9Command& command, const std::vector<Fig9Row>& rows) {
  Table table({"library", "activation", "size", "mean ms", "ideal ms", "below full", "arrived", "fresh", "cores"});
  for (const Fig9Row& row : rows) {
    double full_ms = std::numeric_limits<double>::quiet_NaN();
    for (const Fig9Row& other : rows) {
      if (is_ours(other.library) && other.activation == "full" && other.bytes == row.bytes) {
        full_ms = other.result.mean_ms;
      }
    }
    const SkewResult& result = row.result;
    table.add({row.library, row.activation, to_bytes(row.bytes), significant(result.mean_ms),
               significant(result.ideal_ms), significant(full_ms / result.mean_ms) + "×", significant(result.arrived),
               significant(result.fresh), fmt::format("{:.3f}", result.cores)});
  }
  command.output.say(table.to_text());
  if (command.ranks == 32 && command.skew == 1ms) {
    command.output.say(
        "The paper (Cray MPICH, 32 nodes): solo 53.3× and majority 2.46× below MPI_Allreduce, active ranks about 1 and "
        "16. By arithmetic: full 15.5 ms, majority 5.33 ms on average over all initiators, a quorum of 16 3.75 ms.");
  }
}

nlohmann::ordered_json to_json(const Fig9Command& command, const std::vector<Fig9Row>& rows, const Machine& machine) {
  nlohmann::ordered_json out = {{"rows", nlohmann::ordered_json::array()}};
  for (const Fig9Row& row : rows) {
    out["rows"].push_back({{"library", row.library},
                           {"activation", row.activation},
                           {"ranks", command.ranks},
                           {"bytes", row.bytes},
                           {"rounds", command.rounds},
                           {"mean_ms", row.result.mean_ms},
                           {"ideal_ms", row.result.ideal_ms},
                           {"arrived", row.result.arrived},
                           {"fresh", row.result.fresh},
                           {"cores", row.result.cores}});
  }
  out["machine"] = machine.to_json();
  return out;
}

int run(const Fig9Command& command) {
  check_seats(command.seats, command.ranks);
  const std::vector<std::uint64_t> sizes = parse_float32_sizes("--sizes", command.sizes);
  const std::string activations = command.activations.empty()
                                      ? fmt::format("solo,majority,quorum:{},full", (command.ranks + 1) / 2)
                                      : command.activations;
  const std::vector<Policy> policies = parse_activations(activations, command.ranks);
  const Machine machine = this_machine();
  command.output.say(fmt::format("{}\n{} ranks, {} rounds, rank r comes r · {} late (injected)\n", machine.to_text(),
                                 command.ranks, command.rounds, to_text(command.skew)));

  std::vector<Fig9Row> rows;
  std::optional<Progress> progress(std::in_place, "fig9", "lines", sizes.size() * policies.size());
  for (const std::uint64_t bytes : sizes) {
    for (const Policy& policy : policies) {
      rows.push_back(measure(command, policy, bytes));
      progress->update(rows.size());
    }
  }
  progress.reset();
  if (command.peers) {
    for (Fig9Row& row : measure_openmpi(command, sizes)) rows.push_back(std::move(row));
    std::ranges::stable_sort(rows, {}, &Fig9Row::bytes);
  }
  print_table(command, rows);
  command.output.emit(to_json(command, rows, machine));
  return kSuccess;
}

}  // namespace

Subcommand fig9_command() {
  return make_command({.name = "fig9",
                       .summary = "Latency of allreduces under linear skew: solo, majority, quorum, full, Open MPI.",
                       .introduction = "Latency of an allreduce that ranks come to one after the other, by who may "
                                       "start it (eager-SGD, Figs 8 and 9)."},
                      Fig9Command(), describe_options, run);
}

}  // namespace stretto::command
