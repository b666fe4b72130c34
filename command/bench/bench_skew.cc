#include <fmt/format.h>

#include <algorithm>

#include "command/bench/rank_places.h"
#include "command/bench/skew.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/own_ranks.h"
#include "command/statistics/comparison.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

const std::vector<std::string> kResults = {"view", "plain"};

struct SkewCommand {
  RankPlaces places{"32"};
  std::string sizes = "64,4MiB";
  std::string activations;
  std::string results = "view";
  SkewExperiment experiment;
  ComparisonOptions comparison{.repeats = 3};
};

void describe_options(CommandLine& line, SkewCommand& command) {
  line.heading("The measurement");
  command.places.describe(line, ", as in the paper");
  line.option("--sizes", "LIST", "Bytes of float32 that are summed. Default " + command.sizes + ".",
              into(command.sizes));
  line.option("--activations", "LIST",
              "Who may start a round: solo, majority, quorum:N, full, deadline:N,TIME. Default full, solo, majority, "
              "quorum of half the ranks.",
              into(command.activations, activation_names()));
  line.option("--results", "LIST",
              "Of ours: view (default) fills what acquire() gives and reads a result where it lies; plain copies from "
              "and to the caller's own memory, and is a library of its own, stretto-plain.",
              into(command.results, kResults));
  line.option("--seats", "N", std::string(kSeatsHelp) + " The library is then stretto-messages, or stretto-seats-N.",
              seats_into(command.experiment.seats));
  line.option("--skew", "TIME", "Rank r, counted from 1, comes r times so late. Default 1ms.",
              into(command.experiment.skew, "1ms"));
  line.option("--rounds", "N", "Rounds of each repetition. Default 64.",
              into(command.experiment.rounds, 1, 1'000'000, "64"));
  line.option("--seed", "N", "Of the draws of majority. Default 1.", into(command.experiment.seed, 0, "1"));
  command.comparison.describe_measurement(line, peer_names());
  command.comparison.describe_output(line);
  line.example("stretto bench skew --against openmpi,mpich", "What not waiting is worth: three to four minutes.");
  line.example("stretto bench skew --ranks 8 --activations full,quorum:4 --sizes 64 --rounds 16", "Seconds.");
  line.note(
      "The micro-benchmark of eager-SGD (Figs 8 and 9): an untimed barrier, then rank r sleeps (injected) and calls. "
      "\"ideal\" is what waiting alone costs, for the initiators that were drawn; \"over ideal\" is what the library "
      "adds. \"cores\" is the CPU time of all ranks together over time. \"arrived\" ranks are in a round, \"fresh\" "
      "ones with a contribution of this round and no older one. Other libraries know full alone.");
  line.note(ComparisonOptions::note());
}

Reading reading_of(const SkewResult& result, int ranks, std::uint64_t bytes) {
  return {
      ranks,
      bytes,
      {result.mean_ms, result.ideal_ms, result.mean_ms - result.ideal_ms, result.cores, result.arrived, result.fresh}};
}

Contender ours(const Policy& policy, const SkewExperiment& experiment, const std::vector<std::uint64_t>& sizes) {
  return {name_of_ours(experiment), policy.to_string(), [=](int ranks) -> Result<std::vector<Reading>> {
            SkewExperiment one = experiment;
            one.ranks = ranks;
            one.policy = policy;
            std::vector<Reading> out;
            for (const std::uint64_t bytes : sizes) {
              one.bytes = bytes;
              const auto result = measure_skew(one);
              if (!result) return result.error();
              out.push_back(reading_of(*result, ranks, bytes));
            }
            return out;
          }};
}

Contender theirs(const Peer& peer, const SkewExperiment& experiment, const std::vector<std::uint64_t>& sizes) {
  return {peer.name, "full", [=](int ranks) -> Result<std::vector<Reading>> {
            SkewExperiment one = experiment;
            one.ranks = ranks;
            const auto results = measure_peer_skew(peer, one, sizes);
            if (!results) return results.error();
            std::vector<Reading> out;
            for (std::size_t i = 0; i < sizes.size(); ++i) out.push_back(reading_of((*results)[i], ranks, sizes[i]));
            return out;
          }};
}

Comparison::Plan make_plan(const SkewCommand& command) {
  const std::vector<std::uint64_t> sizes = parse_float32_sizes("--sizes", command.sizes);
  const std::vector<Peer> peers = parse_peers(command.comparison.against);
  Comparison::Plan plan{"skew",
                        command.places.ranks(),
                        "activation",
                        {{"mean_ms", "mean ms"},
                         {"ideal_ms", "ideal ms"},
                         {"over_ideal_ms", "over ideal ms"},
                         {"cores", "cores"},
                         {"arrived", "arrived"},
                         {"fresh", "fresh"}},
                        {},
                        command.places.words(peers)};
  const int fewest = *std::ranges::min_element(plan.ranks);
  check_seats(command.experiment.seats, fewest);
  const std::string activations =
      command.activations.empty() ? fmt::format("full,solo,majority,quorum:{}", (fewest + 1) / 2) : command.activations;
  SkewExperiment experiment = command.experiment;
  experiment.hosts = command.places.make_hosts();
  for (const std::string& results : parse_names("--results", command.results, kResults)) {
    experiment.copies = results == "plain";
    for (const Policy& policy : parse_activations(activations, fewest)) {
      plan.contenders.push_back(ours(policy, experiment, sizes));
    }
  }
  for (const Peer& peer : peers) {
    plan.contenders.push_back(theirs(peer, experiment, sizes));
  }
  return plan;
}

int run(const SkewCommand& command) {
  Comparison comparison(make_plan(command), command.comparison);
  comparison.run([&] { return comparison.table({0, 1, 2, 3, 4, 5}); });
  return kSuccess;
}

}  // namespace

Subcommand bench_skew_command() {
  return make_command(
      {.name = "skew",
       .summary = "The same when ranks come one after the other, by who may start it.",
       .introduction = "Latency of an allreduce that ranks come to one after the other, by who may start it."},
      SkewCommand(), describe_options, run);
}

}  // namespace stretto::command
