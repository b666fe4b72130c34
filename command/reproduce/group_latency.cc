#include "command/reproduce/group_latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/own_ranks.h"
#include "command/cli/table.h"
#include "command/machine/machine.h"
#include "command/machine/measuring.h"
#include "command/statistics/comparison.h"
#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/collective/group_allreduce.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/imbalance/pace.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr Duration kLead = 2ms;  // from the end of the barrier on: all are awake by then
constexpr int kWarmUp = 8;       // rounds after which every set of buffers has been touched
constexpr Round kNoFullRound = 100'000;
constexpr double kAtMost = 1.3;  // wanted: S/P of solo, and so much for what does not shrink with S

struct GroupLatencyCommand {
  GroupLatencyExperiment experiment;
  std::string sizes = "2,4";
  Output output;
};

class LatencyRank {
 public:
  LatencyRank(const GroupLatencyExperiment& experiment, RankContext& context)
      : experiment_(experiment),
        rank_(context.rank()),
        barrier_(*reinterpret_cast<SharedBarrier*>(context.extra().data())),
        engine_(context.world().transport(), clock_),
        solo_(engine_, buckets(), {.policy = Policy::solo(), .max_lag = 2}),
        driver_(engine_, DriverOptions().share_cores()) {
    for (const int size : experiment.group_sizes) {
      groups_.push_back(std::make_unique<GroupAllreduce>(engine_, buckets(),
                                                         GroupOptions{.group_size = size, .full_every = kNoFullRound}));
    }
  }

  Json run() {
    measured_.groups.resize(groups_.size());
    for (int round = 0; round < kWarmUp + experiment_.rounds; ++round) {
      // Another one first every time: a machine that gets slower or faster favours none.
      for (std::size_t i = 0; i <= groups_.size(); ++i) {
        const std::size_t which = (i + static_cast<std::size_t>(round)) % (groups_.size() + 1);
        const double latency = which == 0 ? solo_round() : group_round(*groups_[which - 1]);
        if (round >= kWarmUp) (which == 0 ? measured_.solo : measured_.groups[which - 1]).push_back(latency);
      }
    }
    finish();
    return {{"solo", measured_.solo}, {"groups", measured_.groups}};
  }

 private:
  std::vector<BucketSpec> buckets() const {
    return {{DataType::float32, std::max<std::uint64_t>(1, experiment_.bytes / sizeof(float))}};
  }

  TimePoint synchronize() {
    const TimePoint start = barrier_.wait(static_cast<std::uint32_t>(experiment_.ranks), kLead);
    if (start == TimePoint::never()) throw Failure({Errc::timeout, "a rank did not come to the barrier"});
    return start;
  }

  void check(const std::byte* sum, std::uint64_t wanted) const {
    const float first = *reinterpret_cast<const float*>(sum);
    if (first == static_cast<float>(wanted)) return;
    throw Failure({Errc::aborted, fmt::format("a sum of {} came out as {} on rank {}", wanted, first, rank_)});
  }

  /// All ranks come one after the other, and `call` is timed. The next round begins when all have returned.
  template <class Call>
  double timed(const Call& call) {
    sleep_until(synchronize() + experiment_.skew * rank_);
    const TimePoint begin = clock_.now();
    call(begin + kCallTimeout);
    const TimePoint end = clock_.now();
    synchronize();
    return seconds(end - begin);
  }

  double solo_round() {
    Contribution& contribution = solo_.acquire();
    std::ranges::fill(contribution.as<float>(0), 1.0f);
    solo_.deposit(contribution, {});
    return timed([this](TimePoint deadline) {
      const auto apply = [this](const RoundResult& result) {
        if (!result.empty()) check(result.buckets[0].data(), result.header->batches);
      };
      solo_.exchange(driver_, deadline, apply).or_throw();
    });
  }

  void publish(GroupAllreduce& groups) {
    Contribution& model = groups.acquire();
    std::ranges::fill(model.as<float>(0), 1.0f);
    groups.publish(model, {});
  }

  double group_round(GroupAllreduce& groups) {
    publish(groups);
    return timed([this, &groups](TimePoint deadline) {
      const auto apply = [this](const GroupResult& result) {
        check(result.sum[0].data(), static_cast<std::uint64_t>(result.members));
      };
      groups.exchange(driver_, deadline, apply).or_throw();
    });
  }

  void finish() {
    for (const auto& groups : groups_) {
      groups->drain();
      publish(*groups);
      groups->finish(driver_, clock_.now() + kCallTimeout, [&](const GroupResult&) { publish(*groups); }).or_throw();
    }
    solo_.finish(driver_, clock_.now() + kCallTimeout, [](const RoundResult&) {}).or_throw();
  }

  const GroupLatencyExperiment& experiment_;
  const int rank_;
  SharedBarrier& barrier_;
  const SteadyClock clock_;
  Engine engine_;
  PartialAllreduce solo_;
  std::vector<std::unique_ptr<GroupAllreduce>> groups_;
  EngineDriver driver_;
  GroupLatencies measured_;
};

void describe_options(CommandLine& line, GroupLatencyCommand& command) {
  GroupLatencyExperiment& experiment = command.experiment;
  line.heading("The experiment");
  line.option("--ranks", "N", "How many. Default 8.", into(experiment.ranks, 2, JobMemory::kMaxRanks, "8"));
  line.option("--group-sizes", "LIST", "Ranks of a group. Default " + command.sizes + ".", into(command.sizes));
  line.option("--bytes", "N", "Of float32 in a model. Default 4194304.", into(experiment.bytes, 4, "4194304"));
  line.option("--rounds", "N", "Measurements of each. Default 60.", into(experiment.rounds, 1, 100'000, "60"));
  line.option("--skew", "TIME", "Rank r comes r times so late, so that no two sum at once. Default 10ms.",
              into(experiment.skew, "10ms"));
  line.heading("Output");
  command.output.add_option(line);
  line.example("stretto reproduce group-latency", "Half a minute.");
}

Json to_json(const Interval& interval) {
  return {{"median", interval.estimate}, {"low", interval.low}, {"high", interval.high}};
}

int run(const GroupLatencyCommand& command) {
  GroupLatencyExperiment experiment = command.experiment;
  experiment.group_sizes = parse_ranks(command.sizes, 2);
  for (const int size : experiment.group_sizes) {
    if (size <= experiment.ranks) continue;
    reject("--group-sizes", std::to_string(size),
           fmt::format("expected a number from 2 to {}, the number of ranks", experiment.ranks));
  }
  const Machine machine = this_machine();
  command.output.say(fmt::format("{}\n{} ranks, {}, {} rounds of each by turns, rank r comes r · {} late (injected)\n",
                                 machine.to_text(), experiment.ranks, to_bytes(experiment.bytes), experiment.rounds,
                                 stretto::to_text(experiment.skew)));
  const GroupLatencies measured = measure_group_latency(experiment).or_throw();

  const auto interval_text = [](const Interval& interval, double unit) {
    return fmt::format("{} [{}, {}]", significant(interval.estimate * unit), significant(interval.low * unit),
                       significant(interval.high * unit));
  };
  Table table({"sum of", "ms from the first arrival", "over solo", "S/P", "over solo, over S/P"});
  const Interval solo = median_interval(measured.solo);
  table.add({fmt::format("all {}, solo", experiment.ranks), interval_text(solo, 1e3), "1", "1", "1"});
  Json rows = Json::array();
  bool holds = true;
  for (std::size_t i = 0; i < experiment.group_sizes.size(); ++i) {
    const int size = experiment.group_sizes[i];
    const double share = static_cast<double>(size) / experiment.ranks;
    const Interval latency = median_interval(measured.groups[i]);
    const Interval over = median_interval(over_share(experiment, measured, i));
    holds = holds && over.estimate <= kAtMost;
    table.add({fmt::format("a group of {}", size), interval_text(latency, 1e3), interval_text(over, share),
               significant(share), interval_text(over, 1)});
    rows.push_back({{"group_size", size}, {"seconds", to_json(latency)}, {"over_share", to_json(over)}});
  }
  command.output.say(table.to_text());
  command.output.say(fmt::format("median and 95 % interval; wanted: at most {} in the last column: {}", kAtMost,
                                 holds ? "reached" : "missed"));
  command.output.emit({{"ranks", experiment.ranks},
                       {"bytes", experiment.bytes},
                       {"rounds", experiment.rounds},
                       {"solo_seconds", to_json(solo)},
                       {"groups", rows},
                       {"machine", machine.to_json()}});
  return kSuccess;
}

}  // namespace

Result<GroupLatencies> measure_group_latency(const GroupLatencyExperiment& experiment) {
  const JobOptions options{.ranks = experiment.ranks, .extra_bytes = sizeof(SharedBarrier)};
  const auto text = report_of_rank_0(options, [&experiment](RankContext& context) {
    const std::string report = LatencyRank(experiment, context).run().dump();
    if (context.rank() == 0) context.report(report);
    return 0;
  });
  if (!text) return text.error();
  const Json report = Json::parse(*text);
  return GroupLatencies{report["solo"].get<std::vector<double>>(),
                        report["groups"].get<std::vector<std::vector<double>>>()};
}

std::vector<double> over_share(const GroupLatencyExperiment& experiment, const GroupLatencies& measured,
                               std::size_t group) {
  const double share = static_cast<double>(experiment.group_sizes[group]) / experiment.ranks;
  std::vector<double> out;
  for (std::size_t round = 0; round < measured.solo.size(); ++round) {
    out.push_back(measured.groups[group][round] / measured.solo[round] / share);
  }
  return out;
}

Subcommand group_latency_command() {
  return make_command(
      {.name = "group-latency",
       .summary = "How long the rank that comes first waits for the sum of its group, beside solo.",
       .introduction = "Time from the first arrival at a group to its result, on a board, beside the same for a "
                       "solo round of all ranks."},
      GroupLatencyCommand(), describe_options, run);
}

}  // namespace stretto::command
