#include "command/profile/measured_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "command/cli/exit_code.h"
#include "command/cli/print.h"
#include "command/cli/table.h"
#include "command/predict/step_times_argument.h"
#include "command/statistics/statistics.h"
#include "stretto/observe/whole_file.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto::command {

namespace {

/// A rank's steps, and by how much each ended after the first rank's.
struct RankSteps {
  std::vector<double> seconds, late;
  int last = 0;  // steps in which it was the last one; of a step that all end at once nobody is
};

std::vector<RankSteps> by_rank(const StepTimes& times) {
  std::vector<RankSteps> ranks(static_cast<std::size_t>(times.ranks()));
  for (std::size_t number = 0; number < times.steps(); ++number) {
    const auto step = times.step(number);
    const auto [first, last] = std::ranges::minmax_element(step);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].seconds.push_back(step[rank]);
      ranks[rank].late.push_back(static_cast<double>(step[rank]) - static_cast<double>(*first));
    }
    if (*last > *first) ++ranks[static_cast<std::size_t>(last - step.begin())].last;
  }
  return ranks;
}

std::string table_of(const StepTimes& times) {
  Table table({"rank", "mean, s", "sd", "min", "max", "late, mean", "late, p95", "the last"});
  int number = 0;
  for (const RankSteps& rank : by_rank(times)) {
    table.add({std::to_string(number++), significant(mean(rank.seconds)), significant(standard_deviation(rank.seconds)),
               significant(std::ranges::min(rank.seconds)), significant(std::ranges::max(rank.seconds)),
               significant(mean(rank.late)), significant(quantile(rank.late, 0.95)),
               percent(static_cast<double>(rank.last) / static_cast<double>(times.steps()))});
  }
  std::string text = fmt::format("{} ranks, {} steps; computed, without what they waited for others\n\n{}",
                                 times.ranks(), times.steps(), table.to_text());
  text += fmt::format("\n{} s between the first and the last of a step, in the mean\n", significant(times.skew()));
  if (const auto& exchange = times.exchange()) {
    text += fmt::format("{} s of a step in collectives, beside what they waited there\n", significant(*exchange));
  }
  for (const std::string& note : times.notes()) text += fmt::format("{}\n", note);
  return text;
}

}  // namespace

int run_measured_profile(const std::string& file, const std::string& out) {
  const StepTimes times = read_measured_times(file);
  if (out.empty()) {
    print_to(stderr, table_of(times));
    print_to(stdout, times.to_csv());
  } else {
    write_whole_file(out, times.to_csv()).or_throw();
    print_to(stdout, table_of(times));
  }
  return kSuccess;
}

}  // namespace stretto::command
