#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/statistics/statistics.h"
#include "command/train/report.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr std::uint64_t kModelBytes = 4 * 25'559'081;  // ResNet-50 in float32
constexpr std::string_view kOneGroup = "wagma, S = P";

/// A step of a rank is one sample here, which takes what a step took there.
TrainOptions late_workers(const ReproduceCommand& command, int ranks, int late, int delay_ms) {
  TrainOptions options = base_options(command, "digits");
  options.ranks = ranks;
  options.batch = 1;
  options.simulated = true;
  options.network = "latency=1us,bandwidth=10GB/s";
  options.no_gradients = true;
  options.model_bytes = kModelBytes;
  options.imbalance = fmt::format("random:ranks={},delay={}ms", std::min(late, ranks - 1), delay_ms);
  if (!options.out.empty()) options.out += fmt::format("/{}-ranks-{}ms", ranks, delay_ms);
  return options;
}

// The last is what is compared with the others.
const std::vector<AlgorithmRow>& wagma_rows() {
  static const std::vector<AlgorithmRow> rows = {
      {"sync (allreduce)", "sync", 0, {}, 1.26},
      {"local, H = 1", "local", 1, {}, 1.25},
      {"d-psgd", "d-psgd", 0, {}, 1.23},
      {"d-psgd, step first", "d-psgd", 0, {{"mix-order", "step-then-average"}}, 1.23},
      {"sgp, 2 neighbours", "sgp", 0, {{"neighbours", "2"}}, 1.25},
      {"eager-solo", "eager-solo", 0, {}, 1.13},
      {"ad-psgd", "ad-psgd", 0, {}, kNone},
      {"eager-quorum", "eager-quorum", 0, {}, kNone},
      {"wagma-quorum", "wagma-quorum", 0, {}, kNone},
      {kOneGroup, "wagma", 0, {}, 1.07},
      {"wagma", "wagma", 0, {}, kNone},
  };
  return rows;
}

constexpr double kTable2Steps[] = {0.45, 0.94, 1.02, 1.19};  // a second, of the rows below

const std::vector<AlgorithmRow>& table2_rows() {
  static const std::vector<AlgorithmRow> rows = {
      {"asynchronous server", "ps-async", 0, {{"servers", "1"}}, 2.64},
      {"d-psgd", "d-psgd", 0, {{"mix-order", "step-then-average"}}, 1.19 / 0.94},
      {"sgp", "sgp", 0, {}, 1.19 / 1.02},
      {"eager-solo", "eager-solo", 0, {}, kNone},
  };
  return rows;
}

const std::vector<AlgorithmRow>& resnet50_rows() {
  static const std::vector<AlgorithmRow> rows = {
      {"sync", "sync", 0, {}, kNone},  // two implementations of it in the paper
      {"eager-majority", "eager-majority", 0, {}, kNone},
      {"eager-quorum", "eager-quorum", 0, {}, kNone},
      {"wagma", "wagma", 0, {}, kNone},
      {"wagma-quorum", "wagma-quorum", 0, {}, kNone},
      {"eager-solo", "eager-solo", 0, {}, kNone},
  };
  return rows;
}

/// A delay of the paper, and what its eager-SGD has over its two synchronous ones under it.
struct Delay {
  int ms;
  double over_deep500, over_horovod;
};
constexpr Delay kDelays[] = {{300, 1.25, 1.14}, {460, 1.29, 1.27}};

double batches_per_second(const RunGroup& group) {
  return mean_over_runs(group, [](const RunSummary& run) { return run.throughput; });
}

/// What the papers count: iterations, also of ranks that had nothing new to bring.
double rounds_per_second(const RunGroup& group) {
  const bool eager = group.options.algorithm.starts_with("eager");
  return mean_over_runs(group, [eager](const RunSummary& run) {
    return eager ? static_cast<double>(run.rounds) / run.wall_seconds : run.throughput / run.ranks;
  });
}

/// Of the batches that the drawn delays leave time for, without any communication.
double share_of_no_communication(const RunGroup& group) {
  return mean_over_runs(group, share_of_ideal);
}

double over(const RunGroup& ahead, const RunGroup& other) {
  return batches_per_second(ahead) / batches_per_second(other);
}

double over_in_rounds(const RunGroup& ahead, const RunGroup& other) {
  return rounds_per_second(ahead) / rounds_per_second(other);
}

/// All groups, and what the last of them has over each.
std::string figures(const Experiment& finished) {
  const RunGroup& last = finished.groups.back();
  Table table({"", "batches/s", "of no communication", "rounds/s", last.label + " over it", "in rounds"});
  double ideal = 0;
  for (const RunGroup& group : finished.groups) {
    const double share = share_of_no_communication(group);
    ideal = std::max(ideal, batches_per_second(group) / share);
    table.add({group.label, significant(batches_per_second(group)), significant(share),
               significant(rounds_per_second(group)), significant(over(last, group)) + "×",
               significant(over_in_rounds(last, group)) + "×"});
  }
  table.add({"no communication (ideal)", significant(ideal), "1", "–",
             significant(batches_per_second(last) / ideal) + "×", "–"});
  return table.to_text();
}

/// "wagma over sync: 1.25× there, 1.37× here, 1.38× in rounds": which of the two numbers is judged is the caller's.
Statement is_ahead(const RunGroup& ahead, const RunGroup& other, const std::string& named, double paper,
                   bool in_rounds) {
  const double batches = over(ahead, other), rounds = over_in_rounds(ahead, other);
  return {fmt::format("{} over {}", ahead.label, named), fmt::format("{:.2f}×", paper),
          fmt::format("{}×, {}× in rounds", significant(batches), significant(rounds)),
          (in_rounds ? rounds : batches) >= paper};
}

/// What the paper says the last group has over each of the others.
std::vector<Statement> statements_of(const Experiment& finished, const std::vector<AlgorithmRow>& rows,
                                     bool in_rounds) {
  STRETTO_CHECK(finished.groups.size() == rows.size(), finished.groups.size(), " groups");
  std::vector<Statement> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RunGroup& group = finished.groups[i];
    if (!std::isnan(rows[i].paper)) {
      out.push_back(is_ahead(finished.groups.back(), group, group.label, rows[i].paper, in_rounds));
    }
  }
  return out;
}

/// What WAGMA has over those that Fig. 4 compares it with, the largest of it.
double largest_gain(const Experiment& finished) {
  double gain = 0;
  for (std::size_t i = 0; i < wagma_rows().size(); ++i) {
    const AlgorithmRow& row = wagma_rows()[i];
    if (!std::isnan(row.paper) && row.label != kOneGroup) {
      gain = std::max(gain, over(finished.groups.back(), finished.groups[i]));
    }
  }
  return gain;
}

Experiment late_experiment(const std::vector<AlgorithmRow>& rows, const TrainOptions& options, std::string title,
                           Judgement (*judge)(const Experiment&)) {
  Experiment experiment{std::move(title), {}, {}, judge};
  for (AlgorithmRow row : rows) {
    if (row.label == kOneGroup) row.algorithm += fmt::format(":{}", options.ranks);
    experiment.groups.push_back(group_of(row, options));
    experiment.expect.push_back(std::isnan(row.paper)
                                    ? "no figure in the paper"
                                    : fmt::format("paper: {} has {:.2f}× of it", rows.back().label, row.paper));
  }
  return experiment;
}

/// With more ranks a step takes longer to simulate: fewer of them then.
std::uint64_t steps_of(const ReproduceCommand& command, int ranks) {
  const auto share = static_cast<std::uint64_t>(ranks) / 64;
  return std::max<std::uint64_t>(1, command.steps / (share == 0 || ranks == command.ranks ? 1 : 2 * share));
}

}  // namespace

std::vector<Experiment> wagma_throughput_experiments(const ReproduceCommand& command) {
  std::vector<Experiment> out;
  const auto add = [&](int ranks, Judgement (*judge)(const Experiment&)) {
    TrainOptions options = late_workers(command, ranks, 2, 320);
    options.steps = steps_of(command, ranks);
    out.push_back(late_experiment(
        wagma_rows(), options, fmt::format("{} ranks, each step {} of them 320 ms late", ranks, std::min(2, ranks - 1)),
        judge));
  };
  for (const int ranks : {4, 16, 256, 1024}) {
    if (ranks != command.ranks) add(ranks, show_wagma_throughput);
  }
  add(command.ranks, judge_wagma_throughput);
  return out;
}

std::vector<Experiment> table2_experiments(const ReproduceCommand& command) {
  return {late_experiment(
      table2_rows(), late_workers(command, command.ranks, 4, 460),
      fmt::format("{} ranks, each step {} of them 460 ms late", command.ranks, std::min(4, command.ranks - 1)),
      judge_table2)};
}

std::vector<Experiment> resnet50_experiments(const ReproduceCommand& command) {
  std::vector<Experiment> out;
  const auto add = [&](int ranks, Judgement (*judge)(const Experiment&)) {
    for (const Delay& delay : kDelays) {
      const int late = std::max(1, ranks / 16);
      TrainOptions options = late_workers(command, ranks, late, delay.ms);
      options.steps = steps_of(command, ranks);
      out.push_back(late_experiment(resnet50_rows(), options,
                                    fmt::format("{} ranks, each step {} of them {} ms late", ranks, late, delay.ms),
                                    judge));
    }
  };
  for (const int ranks : {16, 256}) {
    if (ranks != command.ranks) add(ranks, show_resnet50);
  }
  add(command.ranks, judge_resnet50);
  return out;
}

Judgement judge_wagma_throughput(const Experiment& finished) {
  constexpr double kRequired = 1.25;
  Judgement judgement{.statements = statements_of(finished, wagma_rows(), false)};
  const RunGroup& wagma = finished.groups.back();
  const RunGroup& pairs = labelled(finished, "ad-psgd");
  judgement.statements.push_back(
      {"ad-psgd is ahead of wagma", "yes", significant(over(pairs, wagma)) + "×", over(pairs, wagma) > 1});
  std::string ahead;
  for (std::size_t i = 0; i < wagma_rows().size(); ++i) {
    const RunGroup& group = finished.groups[i];
    if (!std::isnan(wagma_rows()[i].paper) && over(wagma, group) < 1) {
      ahead += (ahead.empty() ? "" : "; ") + group.label;
    }
  }
  judgement.statements.push_back({"nothing else is", "yes", ahead.empty() ? "yes" : "ahead: " + ahead, ahead.empty()});
  judgement.holds = over(wagma, labelled(finished, "sync (allreduce)")) >= kRequired &&
                    over(wagma, labelled(finished, "local, H = 1")) >= kRequired;
  judgement.text =
      figures(finished) + "\n" + statements_table(judgement.statements) +
      fmt::format("Required here, at least {} times sync and local: {}.\n", kRequired,
                  judgement.holds ? "pass" : "FAIL") +
      "The paper counts rounds, on a machine whose network other jobs use; here nothing shares it. d-psgd sends the "
      "model that the next gradient is computed on,\nso that a neighbour who is late by less than a step holds nobody "
      "up; with the step first it does. A late rank of eager-solo computes on, and its batch counts a round later.\n";
  return judgement;
}

Judgement show_wagma_throughput(const Experiment& finished) {
  return {.text = figures(finished), .statements = {}};
}

Judgement judge_wagma_scaling(std::span<const Experiment> finished) {
  constexpr int kMany = 256;
  constexpr double kGainOfMany = 1.37;
  const Experiment& asked = finished.back();
  const auto many = std::ranges::find(
      finished, kMany, [](const Experiment& experiment) { return experiment.groups.front().options.ranks; });
  STRETTO_CHECK(many != finished.end(), "nothing has run with ", kMany, " ranks");
  const double gain = largest_gain(*many), before = largest_gain(asked);
  Judgement judgement;
  judgement.statements.push_back({fmt::format("wagma's largest gain with {} ranks", kMany),
                                  fmt::format("{}×", kGainOfMany), significant(gain) + "×", gain >= kGainOfMany});
  if (const int ranks = asked.groups.front().options.ranks; ranks < kMany) {
    judgement.statements.push_back({fmt::format("it is larger than with {}", ranks), "yes",
                                    fmt::format("{}× and {}×", significant(before), significant(gain)), gain > before});
  }
  judgement.text = statements_table(judgement.statements);
  return judgement;
}

Judgement judge_table2(const Experiment& finished) {
  Judgement judgement;
  STRETTO_CHECK(finished.groups.size() == std::size(kTable2Steps), finished.groups.size(), " groups");
  std::vector<double> steps;
  std::string there, here;
  for (std::size_t i = 0; i < finished.groups.size(); ++i) {
    steps.push_back(rounds_per_second(finished.groups[i]));
    there += fmt::format("{}{}", i == 0 ? "" : ", ", kTable2Steps[i]);
    here += (i == 0 ? "" : ", ") + significant(steps.back());
  }
  judgement.holds = std::is_sorted(steps.begin() + 1, steps.end());
  judgement.statements = statements_of(finished, table2_rows(), true);
  judgement.statements.push_back(
      {"the server is the slowest, in steps/s", there, here, std::ranges::min_element(steps) == steps.begin()});
  judgement.statements.push_back(
      {"d-psgd, then sgp, then eager-solo", "yes", judgement.holds ? "yes" : "no", judgement.holds});
  judgement.text = figures(finished) + "\n" + statements_table(judgement.statements) +
                   "The order of the last three is required here. The server's network is unpublished; here it has "
                   "that of a rank.\n";
  return judgement;
}

Judgement judge_resnet50(const Experiment& finished) {
  constexpr double kWeakScaling = 49.8;
  constexpr int kRanksThere = 64;
  const RunGroup &solo = finished.groups.back(), &sync = labelled(finished, "sync");
  const TrainOptions& options = solo.options;
  const auto delay = std::ranges::find_if(
      kDelays, [&options](const Delay& one) { return options.imbalance.ends_with(fmt::format("={}ms", one.ms)); });
  STRETTO_CHECK(delay != std::end(kDelays), "the delay of ", options.imbalance);
  Judgement judgement;
  judgement.statements = {is_ahead(solo, sync, "sync (Deep500)", delay->over_deep500, false),
                          is_ahead(solo, sync, "sync (Horovod)", delay->over_horovod, false)};
  judgement.holds = judgement.statements[0].holds && judgement.statements[1].holds;
  if (delay == std::prev(std::end(kDelays))) {
    const double alone = 1 / (seconds(options.pace) * options.time_scale);
    const double times = batches_per_second(solo) / alone;
    judgement.statements.push_back({"eager-solo over one rank alone",
                                    fmt::format("{}× with {}", kWeakScaling, kRanksThere),
                                    fmt::format("{}× with {}", significant(times), options.ranks),
                                    times / options.ranks >= kWeakScaling / kRanksThere});
  }
  judgement.text =
      figures(finished) + "\n" + statements_table(judgement.statements) +
      "The paper counts steps, and compares with two implementations of synchronous SGD; here there is one, and "
      "batches "
      "applied are judged.\nNothing shares the simulated network. Of other numbers of ranks the paper says nothing.\n";
  return judgement;
}

Judgement show_resnet50(const Experiment& finished) {
  return {.text = figures(finished), .statements = {}};
}

Judgement judge_resnet50_delays(std::span<const Experiment> finished) {
  STRETTO_CHECK(finished.size() >= 2, finished.size(), " experiments");
  const auto gain = [](const Experiment& experiment) {
    return over(experiment.groups.back(), labelled(experiment, "sync"));
  };
  const double shorter = gain(finished[finished.size() - 2]), longer = gain(finished.back());
  Judgement judgement;
  judgement.statements = {{"eager-solo gains more over sync the later the late ranks are",
                           fmt::format("{}× and {}×", kDelays[0].over_deep500, kDelays[1].over_deep500),
                           fmt::format("{}× and {}×", significant(shorter), significant(longer)), longer > shorter}};
  judgement.text = statements_table(judgement.statements);
  return judgement;
}

}  // namespace stretto::command
