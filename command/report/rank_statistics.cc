#include "command/report/rank_statistics.h"

#include <algorithm>
#include <cmath>

#include "command/statistics/statistics.h"

namespace stretto::command {

namespace {

constexpr std::size_t kBars = 60;
constexpr std::size_t kMostStale = 1000;  // a histogram of more than that says nothing to a person

}  // namespace

RankStatistics statistics_of(std::span<const RecordedStep> steps) {
  RankStatistics statistics{.steps = steps.size()};
  std::vector<double> times;
  times.reserve(steps.size());
  for (const RecordedStep& step : steps) {
    times.push_back(step.seconds());
    statistics.computed += double{step.computed};
    statistics.delayed += double{step.delayed};
    statistics.waited += double{step.waited};
    if (step.staleness) ++(*step.staleness == 0 ? statistics.fresh : statistics.stale);
  }
  const double none = std::nan("");
  statistics.mean = steps.empty() ? none : mean(times);
  statistics.deviation = standard_deviation(times);
  statistics.least = steps.empty() ? none : *std::ranges::min_element(times);
  statistics.most = steps.empty() ? none : *std::ranges::max_element(times);
  return statistics;
}

Bars bars_of(std::span<const RecordedRun> runs) {
  std::vector<double> times;
  for (const RecordedRun& run : runs) {
    for (const auto& steps : run.ranks) {
      for (const RecordedStep& step : steps) times.push_back(step.seconds());
    }
  }
  std::ranges::sort(times);
  const double least = times.front(), most = times.back();
  const double usual = times[(times.size() - 1) * 99 / 100];
  const double end = most > 3 * usual ? 1.5 * usual : most;
  if (end <= least) return {.from = least, .width = 0, .count = 1, .open = most > least};
  return {.from = least, .width = (end - least) / kBars, .count = kBars, .open = most > end};
}

std::vector<std::uint64_t> histogram(std::span<const RecordedStep> steps, const Bars& bars) {
  std::vector<std::uint64_t> counts(bars.count);
  for (const RecordedStep& step : steps) {
    const double place = bars.width > 0 ? (step.seconds() - bars.from) / bars.width : 0;
    ++counts[static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(bars.count - 1)))];
  }
  return counts;
}

std::vector<std::uint64_t> staleness_histogram(const RecordedRun& run) {
  std::vector<std::uint64_t> counts;
  for (const auto& steps : run.ranks) {
    for (const RecordedStep& step : steps) {
      if (!step.staleness) continue;
      const std::size_t entry = std::min<std::size_t>(*step.staleness, kMostStale);
      if (counts.size() <= entry) counts.resize(entry + 1);
      ++counts[entry];
    }
  }
  return counts;
}

}  // namespace stretto::command
