#include <fmt/format.h>

#include "command/bench/peers.h"
#include "command/bench/rank_places.h"
#include "command/bench/timed_overlap.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/statistics/comparison.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

struct OverlapCommand {
  RankPlaces places{"4"};
  std::string sizes = "64MiB";
  OverlapExperiment experiment;
  ComparisonOptions comparison;
};

void describe_options(CommandLine& line, OverlapCommand& command) {
  line.heading("The measurement");
  command.places.describe(line);
  line.option("--sizes", "LIST", "Bytes of float32 that are summed in a step. Default " + command.sizes + ".",
              into(command.sizes));
  line.option("--buckets", "N", "In so many parts, each handed over when it is computed. Default 8.",
              into(command.experiment.buckets, 1, 1024, "8"));
  line.option("--work", "TIME", "How long rank 0 computes in a step. Default 20ms.",
              into(command.experiment.work, "20ms"));
  line.option("--skew", "TIME", "So much longer computes each rank than the one before. Default 1ms.",
              into(command.experiment.skew, "1ms"));
  line.option("--steps", "N", "Steps of each kind in a repetition. Default 20.",
              into(command.experiment.steps, 1, 1'000'000, "20"));
  command.comparison.describe_measurement(line, peer_names());
  command.comparison.describe_output(line);
  line.example("stretto bench overlap --against openmpi,mpich,gloo", "Who communicates while ranks compute.");
  line.note(
      "The computation is injected: a rank sleeps, as one whose accelerator computes, so that the cores are free for "
      "whoever makes progress. Measured, on the slowest rank, are steps of computing alone; of communicating alone, "
      "bucket after bucket (\"collective\") and all handed over \"at once\"; of computing and then communicating "
      "(\"blocking\"); and of handing each bucket over as soon as it is computed (\"overlapped\": ours reduces it in a "
      "helper thread; MPI_Iallreduce for each bucket and MPI_Waitall; async_op=True).");
  line.note(
      "\"hidden\" is (computing + communicating alone - the step) over the smaller of the first two: 1 where the "
      "shorter has disappeared behind the longer, 0 where nothing has, below that where doing both costs more than "
      "their sum; it says nothing where the shorter is within the noise of the longer. Blocking is compared with "
      "\"collective\", overlapped with \"at once\".");
  line.note(ComparisonOptions::note());
}

// How much is hidden, behind the times of a step.
Result<std::vector<Reading>> with_hidden_shares(Result<std::vector<Reading>> readings) {
  if (!readings) return readings;
  for (Reading& reading : *readings) {
    const std::vector<double>& v = reading.values;
    const OverlapTimes times{v[0], v[1], v[2], v[3], v[4]};
    reading.values.push_back(hidden_share(times.compute, times.collective, times.blocking));
    reading.values.push_back(hidden_share(times.compute, times.at_once, times.overlapped));
  }
  return readings;
}

std::vector<std::uint64_t> parse_sizes(const OverlapCommand& command) {
  std::vector<std::uint64_t> sizes = parse_float32_sizes("--sizes", command.sizes);
  const std::uint64_t smallest = sizeof(float) * static_cast<std::uint64_t>(command.experiment.buckets);
  for (const std::uint64_t bytes : sizes) {
    if (bytes % smallest == 0) continue;
    reject("--sizes", command.sizes,
           fmt::format("expected {} buckets of whole float32 elements, a multiple of {} bytes",
                       command.experiment.buckets, smallest),
           "4MiB");
  }
  return sizes;
}

Comparison::Plan make_plan(const OverlapCommand& command) {
  const std::vector<std::uint64_t> sizes = parse_sizes(command);
  OverlapExperiment experiment = command.experiment;
  experiment.hosts = command.places.make_hosts();
  const std::vector<Peer> peers = parse_peers(command.comparison.against);
  Comparison::Plan plan{
      "overlap",
      command.places.ranks(),
      "",
      {{"compute_ms", "computing ms"},
       {"collective_ms", "collective ms"},
       {"at_once_ms", "at once ms"},
       {"blocking_ms", "blocking ms"},
       {"overlapped_ms", "overlapped ms"},
       {"hidden_blocking", "hidden, blocking"},
       {"hidden_overlapped", "hidden, overlapped"}},
      {{kOurs, "", [=](int ranks) { return with_hidden_shares(measure_overlap(ranks, experiment, sizes)); }}},
      command.places.words(peers)};
  for (const Peer& peer : peers) {
    plan.contenders.push_back({peer.name, "", [=](int ranks) {
                                 const Duration step = 4 * (experiment.work + ranks * experiment.skew) + 500ms;
                                 const PeerJob job{
                                     "overlap",
                                     ranks,
                                     {std::to_string(experiment.steps), std::to_string(experiment.work.count()),
                                      std::to_string(experiment.skew.count()), std::to_string(experiment.buckets)},
                                     kPeerStart + step * experiment.steps * static_cast<int>(sizes.size()),
                                     experiment.hosts};
                                 return with_hidden_shares(measure_peer(peer, job, sizes, kOverlapValues));
                               }});
  }
  return plan;
}

int run(const OverlapCommand& command) {
  Comparison comparison(make_plan(command), command.comparison);
  comparison.run([&] { return comparison.table({0, 1, 2, 3, 4, 5, 6}); });
  return kSuccess;
}

}  // namespace

Subcommand bench_overlap_command() {
  return make_command({.name = "overlap",
                       .summary = "How much of the communication disappears behind computation.",
                       .introduction = "How much of the communication disappears behind computation."},
                      OverlapCommand(), describe_options, run);
}

}  // namespace stretto::command
