#include "command/train/ordering_table.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "command/cli/table.h"
#include "stretto/transport/memory_budget.h"

namespace stretto::command {
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

}  // namespace stretto::command
