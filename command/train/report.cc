#include "command/train/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "command/cli/table.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/process_limits.h"
#include "stretto/train/job/summary_json.h"

namespace stretto::command {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double or_nan(const std::optional<double>& value) {
  return value.value_or(kNaN);
}

template <class Get>
std::vector<double> each(const RunGroup& group, Get get) {
  std::vector<double> out;
  for (const RunSummary& run : group.runs) out.push_back(get(run));
  return out;
}

std::string spread(const std::vector<double>& values, int digits = 3) {
  return with_spread(mean(values), standard_deviation(values), digits);
}

std::string percent_spread(std::vector<double> values) {
  for (double& value : values) value *= 100;
  return spread(values) + (std::isfinite(mean(values)) ? " %" : "");
}

std::optional<Interval> paired(const RunGroup& first, const RunGroup& group, std::optional<double> RunSummary::*field) {
  const auto get = [field](const RunSummary& run) { return or_nan(run.*field); };
  const Interval interval = paired_interval(each(first, get), each(group, get));
  if (std::isnan(interval.estimate)) return std::nullopt;
  return interval;
}

std::string interval_text(const Interval& interval, double factor, const char* unit) {
  const auto shown = [factor](double value) { return fmt::format("{:+.2f}", factor * value); };
  return fmt::format("{}{} [{}, {}]", shown(interval.estimate), unit, shown(interval.low), shown(interval.high));
}

}  // namespace

PairedDifferences paired_differences(const RunGroup& first, const RunGroup& group) {
  std::vector<double> logs = speedups(first, group);
  for (double& value : logs) value = std::log(value);
  const Interval interval = mean_interval(logs);
  return {{std::exp(interval.estimate), std::exp(interval.low), std::exp(interval.high)},
          paired(first, group, &RunSummary::loss),
          paired(first, group, &RunSummary::accuracy)};
}

std::vector<double> speedups(const RunGroup& first, const RunGroup& group) {
  STRETTO_CHECK(first.runs.size() == group.runs.size(), first.runs.size(), " and ", group.runs.size());
  std::vector<double> out;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    out.push_back(group.runs[i].throughput / first.runs[i].throughput);
  }
  return out;
}

double ideal_speedup(const RunSummary& run) {
  return run.sync_ideal_seconds / run.ideal_seconds;
}

double share_of_ideal(const RunSummary& run) {
  return run.throughput * run.ideal_seconds / static_cast<double>(run.deposits.applied + run.deposits.dropped);
}

std::string comparison_table(std::span<const RunGroup> groups) {
  Table table({"algorithm", "batches/s", "speed-up", "ideal", "test loss", "test acc.", "staleness", "waiting"});
  for (const RunGroup& group : groups) {
    const auto each_of = [&group](auto get) { return each(group, get); };
    std::uint64_t stalest = 0;
    for (const RunSummary& run : group.runs) stalest = std::max(stalest, run.staleness_max);
    table.add(
        {group.label, spread(each_of([](const auto& run) { return run.throughput; })),
         significant(mean(speedups(groups.front(), group))) + "×",
         significant(mean(each_of([](const auto& run) { return ideal_speedup(run); }))) + "×",
         spread(each_of([](const auto& run) { return or_nan(run.loss); })),
         percent_spread(each_of([](const auto& run) { return or_nan(run.accuracy); })),
         fmt::format("{:.2f}, max {}", mean(each_of([](const auto& run) { return run.staleness_mean; })), stalest),
         percent(mean(each_of([](const auto& run) { return run.wait_share; })), 0)});
  }
  return table.to_text();
}

std::string score_table(std::span<const RunGroup> groups) {
  const auto some_have = [groups](std::optional<double> RunSummary::*field) {
    return std::ranges::any_of(groups,
                               [field](const RunGroup& group) { return std::isfinite(or_nan(group.runs[0].*field)); });
  };
  if (!some_have(&RunSummary::train_loss)) return {};
  const bool many_classes = some_have(&RunSummary::top5);
  std::vector<std::string> headings = {"model at the end", "train loss", "train acc."};
  if (many_classes) headings.insert(headings.end(), {"train top-5", "test acc.", "test top-5"});
  Table table(headings);
  for (const RunGroup& group : groups) {
    const auto each_of = [&group](std::optional<double> RunSummary::*field) {
      return each(group, [field](const RunSummary& run) { return or_nan(run.*field); });
    };
    std::vector<std::string> cells = {text(group.label, ", ", group.options.final_model),
                                      spread(each_of(&RunSummary::train_loss)),
                                      percent_spread(each_of(&RunSummary::train_accuracy))};
    if (many_classes) {
      for (const auto field : {&RunSummary::train_top5, &RunSummary::accuracy, &RunSummary::top5}) {
        cells.push_back(percent_spread(each_of(field)));
      }
    }
    table.add(cells);
  }
  return table.to_text();
}

std::string paired_table(std::span<const RunGroup> groups) {
  if (groups.size() < 2 || groups.front().runs.size() < 2) return {};
  Table table({fmt::format("against {}, 95 %", groups.front().label), "speed-up", "test accuracy", "test loss"});
  for (const RunGroup& group : groups.subspan(1)) {
    const PairedDifferences paired = paired_differences(groups.front(), group);
    table.add(
        {group.label,
         fmt::format("{:.3f}× [{:.3f}, {:.3f}]", paired.speedup.estimate, paired.speedup.low, paired.speedup.high),
         paired.accuracy ? interval_text(*paired.accuracy, 100, " points") : "–",
         paired.loss ? interval_text(*paired.loss, 1, "") : "–"});
  }
  return table.to_text();
}

std::string about_the_ideal(std::span<const RunGroup> groups) {
  std::string out = "ideal: the speed-up if no rank ever waited, over a sync that costs nothing but its waiting";
  const RunGroup& first = groups.front();
  const auto above = [&](const RunGroup& group) {
    const auto ideals = each(group, [](const RunSummary& run) { return ideal_speedup(run); });
    return mean(speedups(first, group)) > mean(ideals);
  };
  const auto faster = std::ranges::find_if(groups.subspan(1), above);
  if (faster == groups.end() || first.options.algorithm != "sync" || first.options.simulated) return out;
  const double own =
      1 - mean(each(first, [](const RunSummary& run) { return share_of_ideal(run) * ideal_speedup(run); }));
  if (own <= 0) return out;
  return out + fmt::format("\n{} exceeds it: the sync measured here loses another {} to cores that its ranks share",
                           faster->label, percent(own, 0));
}

// Of those that are not clearly less accurate the fastest; of all, where there is none.
const RunGroup& best_of(std::span<const RunGroup> groups) {
  const RunGroup& first = groups.front();
  const RunGroup* best = &first;
  double gain = 0;
  for (const RunGroup& group : groups.subspan(1)) {
    const PairedDifferences paired = paired_differences(first, group);
    const bool worse = paired.accuracy && paired.accuracy->high < 0;
    const double here = mean(speedups(first, group)) * (worse ? 1e-3 : 1);
    if (here <= gain) continue;
    best = &group;
    gain = here;
  }
  return *best;
}

std::string conclusion(std::span<const RunGroup> groups) {
  if (groups.size() < 2) return {};
  const RunGroup& first = groups.front();
  const RunGroup* best = &best_of(groups);
  const PairedDifferences paired = paired_differences(first, *best);
  std::string out = fmt::format(
      "{} applies {:.2f}× as many batches/s as {}", best->label,
      std::isnan(paired.speedup.estimate) ? mean(speedups(first, *best)) : paired.speedup.estimate, first.label);
  if (first.runs.size() < 2) return out + "; one run of each says nothing of accuracy: --repeats 3";
  const bool has_accuracy = paired.accuracy.has_value();
  const auto& difference = has_accuracy ? paired.accuracy : paired.loss;
  if (!difference) return out;
  const char* measure = has_accuracy ? "accuracy" : "test loss";
  const auto shown = [&](double value) {
    return has_accuracy ? fmt::format("{:+.1f}", 100 * value) : fmt::format("{:+.3f}", value);
  };
  const std::string interval =
      fmt::format("{} to {}{}", shown(difference->low), shown(difference->high), has_accuracy ? " points" : "");
  if (difference->low <= 0 && difference->high >= 0) {
    return out + fmt::format(" at equal {} (difference {})", measure, interval);
  }
  return out + fmt::format(", at {} {} by {}{} ({})", measure, difference->estimate < 0 ? "lower" : "higher",
                           shown(std::abs(difference->estimate)).substr(1), has_accuracy ? " points" : "", interval);
}

std::string ledger_text(const RunGroup& group) {
  if (group.runs.size() == 1 && !group.runs.front().ledger.empty()) {
    return fmt::format("{}:\n{}", group.label, group.runs.front().ledger);
  }
  std::vector<double> lost(static_cast<std::size_t>(group.options.ranks));
  RunSummary::Deposits deposits;
  double fresh = 0;
  for (const RunSummary& run : group.runs) {
    for (std::size_t rank = 0; rank < std::min(lost.size(), run.lost_seconds.size()); ++rank) {
      lost[rank] += run.lost_seconds[rank];
    }
    deposits.made += run.deposits.made;
    deposits.applied += run.deposits.applied;
    deposits.dropped += run.deposits.dropped;
    deposits.pending += run.deposits.pending;
    deposits.lost += run.deposits.lost;
    deposits.passed_over += run.deposits.passed_over;
    if (run.deposits.kept) deposits.kept = deposits.kept.value_or(0) + *run.deposits.kept;
    fresh += run.fresh_share / static_cast<double>(group.runs.size());
  }
  const auto worst = std::ranges::max_element(lost);
  const double total = mean(lost) * static_cast<double>(lost.size());
  const std::string most =
      total > 0 ? fmt::format(", {} of it for rank {}", percent(*worst / total, 0), std::distance(lost.begin(), worst))
                : std::string();
  return fmt::format(
      "{}: {} gradients made, {} applied, {}{}{} pending, {} lost{}; contributions {} fresh, {} stale; waited for "
      "others "
      "{:.1f} s in all{}",
      group.label, deposits.made, deposits.applied,
      deposits.passed_over > 0
          ? fmt::format("{:.1f} of them passed over by a replica on average, ", deposits.passed_over)
          : "",
      deposits.dropped > 0 ? fmt::format("{} dropped, ", deposits.dropped) : "", deposits.pending, deposits.lost,
      deposits.kept ? fmt::format(", the movement of {:.1f} kept", *deposits.kept) : "", percent(fresh, 0),
      percent(1 - fresh, 0), total, most);
}

std::string traffic_text(std::span<const RunGroup> groups) {
  std::string out;
  for (const RunGroup& group : groups) {
    const double messages = mean(each(group, [](const RunSummary& run) { return run.messages_per_step; }));
    const double bytes = mean(each(group, [](const RunSummary& run) { return run.bytes_per_step; }));
    out += fmt::format("{}{} ", out.empty() ? "sent by a rank in a step: " : "; ", group.label);
    out += messages == 0 ? "no message"
                         : fmt::format("{} messages, {}", significant(messages),
                                       format_bytes(static_cast<std::uint64_t>(std::llround(bytes))));
  }
  return out;
}

std::string conditions(const TrainOptions& options, const std::string& unit) {
  const bool injected = options.imbalance != "none";
  const std::string scale = options.time_scale == 1 ? "" : fmt::format(", all times × {}", options.time_scale);
  const std::string imbalance = injected ? fmt::format("imbalance {} (injected)", options.imbalance)
                                         : "imbalance natural: what the data brings, nothing injected";
  const std::string how = options.simulated ? "simulated: all times are virtual" : "emulated by sleeping";
  const std::string pace = options.pace > Duration(0)
                               ? fmt::format("pace {} per {} ({})", to_text(options.pace), unit, how)
                               : "real computing time, unpaced";
  const std::string network = options.simulated ? fmt::format("; network {}", options.network) : "";
  const std::string nothing = options.no_gradients ? "; nothing is computed" : "";
  return imbalance + "; " + pace + scale + network + nothing;
}

Json to_json(const RunSummary& run, std::optional<double> speedup) {
  Json out = Json::parse(stretto::to_json(run));
  out.erase("curve");
  out["speedup"] = speedup ? Json(*speedup) : Json(nullptr);
  out["ideal_speedup"] = ideal_speedup(run);
  out["share_of_ideal"] = share_of_ideal(run);
  return out;
}

Json to_json(const Interval& interval) {
  return {{"estimate", interval.estimate}, {"low", interval.low}, {"high", interval.high}};
}

Json to_json(std::span<const RunGroup> groups, const Machine& machine) {
  Json out = {{"runs", Json::array()}, {"paired", Json::array()}};
  for (const RunGroup& group : groups) {
    const std::vector<double> over_first = speedups(groups.front(), group);
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      out["runs"].push_back(to_json(group.runs[i], over_first[i]));
      out["runs"].back()["algorithm"] = group.label;
    }
    if (&group == &groups.front() || group.runs.size() < 2) continue;
    const PairedDifferences paired = paired_differences(groups.front(), group);
    out["paired"].push_back({{"algorithm", group.label},
                             {"against", groups.front().label},
                             {"confidence", 0.95},
                             {"speedup", to_json(paired.speedup)},
                             {"loss", paired.loss ? to_json(*paired.loss) : Json(nullptr)},
                             {"accuracy", paired.accuracy ? to_json(*paired.accuracy) : Json(nullptr)}});
  }
  const TrainOptions& options = groups.front().options;
  out["workload"] = options.workload;
  out["imbalance"] = options.imbalance;
  out["pace"] = options.pace > Duration(0) ? Json(to_text(options.pace)) : Json(nullptr);
  out["time_scale"] = options.time_scale;
  out["simulated"] = options.simulated;
  out["network"] = options.simulated ? Json(options.network) : Json(nullptr);
  out["machine"] = machine.to_json();
  return out;
}

std::string broken_promise(const RunGroup& group) {
  for (const RunSummary& run : group.runs) {
    if (run.deposits.lost > 0) {
      return fmt::format("{}, seed {}: {} gradients were lost", group.label, run.seed, run.deposits.lost);
    }
    if (!run.replicas_identical && group.options.delivery == "every") {
      return fmt::format("{}, seed {}: the replicas differ", group.label, run.seed);
    }
  }
  return {};
}

namespace {

std::string milliseconds(double seconds) {
  return significant(1000 * seconds);
}

/// A dash for what is not known.
double known(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

void add(Table& table, std::string name, const OrderingFigures::Rank& rank) {
  table.add({std::move(name),
             milliseconds(rank.step_p50),
             milliseconds(rank.step_p99),
             significant(rank.buffers),
             format_bytes(static_cast<std::uint64_t>(rank.fill)),
             significant(rank.control_messages),
             format_bytes(static_cast<std::uint64_t>(rank.control_bytes)),
             significant(rank.cycles),
             rank.cycle_p50 > 0 ? milliseconds(rank.cycle_p50) : "–",
             milliseconds(rank.negotiation),
             percent(rank.negotiation_share),
             milliseconds(known(rank.stall)),
             percent(known(rank.stall_share)),
             milliseconds(rank.application_cpu),
             milliseconds(rank.input_cpu),
             milliseconds(rank.background_cpu),
             milliseconds(rank.spin_cpu),
             milliseconds(rank.oversleep_p50),
             milliseconds(rank.oversleep_p90),
             milliseconds(rank.oversleep_p99),
             milliseconds(rank.oversleep_max)});
}

/// What the oversleeps may come from.
std::string sharing(const OrderingFigures::Rank& all) {
  const std::string periods = all.throttled_periods ? fmt::format("{:.0f}", *all.throttled_periods) : "–";
  return fmt::format(
      "beside oversleep: the kernel gives a thread slices of {} ms; the control group was throttled in {} periods, for "
      "{} ms\n",
      milliseconds(known(all.slice_seconds)), periods, milliseconds(known(all.throttled_seconds)));
}

std::string cores(const OrderingFigures& figures) {
  return figures.cores ? fmt::format("cores of a rank's threads: {}\n", to_text(*figures.cores)) : "";
}

std::string skew(const OrderingFigures& figures) {
  if (figures.cascade.empty()) return {};
  std::string lags;
  for (const double correlation : figures.cascade)
    lags += fmt::format("{}{:.2f}", lags.empty() ? "" : ", ", correlation);
  return fmt::format(
      "ranks came to an agreement {} ms apart in the middle, {} ms in 1 of 100; of a deviation is still "
      "there after 1, 2, … agreements: {}\n",
      milliseconds(figures.skew_p50), milliseconds(figures.skew_p99), lags);
}

}  // namespace

std::string ordering_table(std::span<const RunGroup> groups) {
  std::string out;
  for (const RunGroup& group : groups) {
    const RunSummary& run = group.runs.front();
    if (!run.ordering) continue;
    Table table({fmt::format("{}, a step", group.options.algorithm_options.word("ordering", "ordered")),
                 "step p50 ms",
                 "p99",
                 "buffers",
                 "fill",
                 "control msgs",
                 "control bytes",
                 "cycles",
                 "cycle p50 ms",
                 "negotiation ms",
                 "of step",
                 "stall ms",
                 "of step",
                 "app. CPU ms",
                 "input",
                 "background",
                 "spun",
                 "oversleep p50 ms",
                 "p90",
                 "p99",
                 "max"});
    if (run.ordering->ranks.size() <= 8) {
      for (std::size_t rank = 0; rank < run.ordering->ranks.size(); ++rank) {
        add(table, fmt::format("rank {}", rank), run.ordering->ranks[rank]);
      }
    }
    add(table, "all", run.ordering->all);
    out += table.to_text() + cores(*run.ordering) + sharing(run.ordering->all) + skew(*run.ordering);
    out += fmt::format("a step takes {} ms in the middle, {} ms in 1 of 100", milliseconds(run.step_p50),
                       milliseconds(run.step_p99));
    if (run.ordering->all.deviations > 0) {
      out += fmt::format("; the plan was left in {} steps", run.ordering->all.deviations);
    }
    if (run.ordering->all.void_buffers > 0) {
      out += fmt::format("; {} buffers were thrown away, since the graph had changed", run.ordering->all.void_buffers);
    }
    out += '\n';
  }
  if (!out.empty()) out.pop_back();
  return out;
}

std::string lines_table(std::span<const RunGroup> groups) {
  Table table({"lines of a grid", "rounds a rank", "own steps a round", "at most", "applied after s", "models", "null",
               "missing", "late", "forced", "skipped", "dropped", "entered", "sent a step"});
  bool any = false;
  for (const RunGroup& group : groups) {
    const RunSummary& run = group.runs.front();
    for (std::size_t dimension = 0; dimension < run.lines.size(); ++dimension) {
      any = true;
      GridCounts all;
      std::vector<double> rounds, steps, after;
      for (const GridCounts& rank : run.lines[dimension]) {
        rounds.push_back(static_cast<double>(rank.applied));
        steps.push_back(rank.steps_per_round());
        if (rank.contributed > 0) after.push_back(rank.seconds_to_apply());
        all.add(rank);
      }
      const auto share = [&](std::uint64_t number) {
        return percent(static_cast<double>(number) /
                           static_cast<double>(std::max<std::uint64_t>(1, all.fresh + all.null + all.missing)),
                       0);
      };
      const auto made = static_cast<double>(std::max<std::uint64_t>(1, run.deposits.made));
      table.add({fmt::format("{}, dimension {}", group.label, dimension), significant(mean(rounds)),
                 significant(mean(steps)), significant(std::ranges::max(steps)),
                 after.empty() ? "–" : significant(mean(after)), share(all.fresh), share(all.null), share(all.missing),
                 share(all.late), fmt::format("{}", all.forced), fmt::format("{}", all.skipped),
                 fmt::format("{}", all.abandoned), fmt::format("{}", all.entered),
                 format_bytes(static_cast<std::uint64_t>(std::llround(static_cast<double>(all.bytes_sent) / made)))});
    }
  }
  std::string out = any ? table.to_text() : std::string();
  for (const RunGroup& group : groups) {
    const std::vector<double>& apart = group.runs.front().apart;
    if (apart.empty()) continue;
    out += fmt::format("{}: a rank's model was {} to {} from the average of all (of its norm) when all met\n",
                       group.label, percent(std::ranges::min(apart)), percent(std::ranges::max(apart)));
  }
  if (any) out.pop_back();
  return out;
}

}  // namespace stretto::command
