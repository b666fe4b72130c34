#include <fmt/format.h>

#include "command/bench/peers.h"
#include "command/bench/timed_spin.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/statistics/comparison.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

struct SpinCommand {
  std::string ranks = "8";
  std::string sizes = "4KiB";
  SpinExperiment experiment;
  ComparisonOptions comparison;
};

void describe_options(CommandLine& line, SpinCommand& command) {
  line.heading("The measurement");
  line.option("--ranks", "LIST", "How many processes: one computes, the others wait. Default " + command.ranks + ".",
              into(command.ranks));
  line.option("--sizes", "LIST", "Bytes of float32 that are summed. Default " + command.sizes + ".",
              into(command.sizes));
  line.option("--work", "TIME", "How long the computation takes, about. Default 60ms.",
              into(command.experiment.work, "60ms"));
  line.option("--pairs", "N", "Measurements with and without waiting ranks in each repetition. Default 5.",
              into(command.experiment.pairs, 1, 10000, "5"));
  command.comparison.describe_measurement(line, peer_names());
  command.comparison.describe_output(line);
  line.example("stretto bench spin --against openmpi,openmpi-spin,mpich,gloo", "Half a minute.");
  line.note(
      "Rank 0 computes a fixed amount (passes over 32 KiB of integers) while the others wait for it in an allreduce, "
      "and again while they sleep, which are taken in turns. \"slowdown\" is the time of the one over that of the "
      "other, the median over the pairs: 1 where waiting costs nothing. Sleeping ranks wake up after three times "
      "--work; on a machine slower than that it comes out too small.");
  line.note(ComparisonOptions::note());
}

Comparison::Plan make_plan(const SpinCommand& command) {
  const SpinExperiment experiment = command.experiment;
  const std::vector<std::uint64_t> sizes = parse_float32_sizes("--sizes", command.sizes);
  Comparison::Plan plan{
      "spin",
      parse_ranks(command.ranks, 2),
      "",
      {{"asleep_ms", "others sleep, ms"}, {"waiting_ms", "others wait, ms"}, {"slowdown", "slowdown"}},
      {{kOurs, "", [=](int ranks) { return measure_spin(ranks, experiment, sizes); }}}};
  for (const Peer& peer : parse_peers(command.comparison.against)) {
    plan.contenders.push_back(
        {peer.name, "", [=](int ranks) {
           // A rank among spinning ones has its share of a core.
           const Duration pair = (4 + ranks) * experiment.work + 1s;
           const Duration limit = kPeerStart + pair * experiment.pairs * static_cast<int>(sizes.size());
           return measure_peer(
               peer,
               {"spin", ranks, {std::to_string(experiment.pairs), fmt::format("{}", seconds(experiment.work))}, limit},
               sizes, kSpinValues);
         }});
  }
  return plan;
}

int run(const SpinCommand& command) {
  Comparison comparison(make_plan(command), command.comparison);
  comparison.run([&] { return comparison.table({0, 1, 2}); });
  return kSuccess;
}

}  // namespace

Subcommand bench_spin_command() {
  return make_command({.name = "spin",
                       .summary = "What ranks that wait cost the one that computes.",
                       .introduction = "What ranks that wait in an allreduce cost the rank that computes."},
                      SpinCommand(), describe_options, run);
}

}  // namespace stretto::command
