#include "command/reproduce/claim.h"

#include <fmt/format.h>

#include <cmath>

#include "command/cli/table.h"
#include "command/statistics/statistics.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

Interval ratio_of(const std::vector<double>& group, const std::vector<double>& other) {
  STRETTO_CHECK(group.size() == other.size(), group.size(), " runs and ", other.size());
  std::vector<double> logs;
  for (std::size_t run = 0; run < group.size(); ++run) logs.push_back(std::log(group[run] / other[run]));
  const Interval interval = mean_interval(logs);
  return {std::exp(interval.estimate), std::exp(interval.low), std::exp(interval.high)};
}

}  // namespace

Judgement judge_claims(const Experiment& finished, const std::string& of_what, std::span<const Claim> claims,
                       std::span<const std::vector<double>> values) {
  Judgement judgement;
  Table table({of_what, "ratio", "95 %", ""});
  for (const Claim& claim : claims) {
    const bool below = claim.kind == Claim::Kind::below;
    const Interval ratio = ratio_of(values[claim.group], values[claim.other]);
    const bool known = values[claim.group].size() > 1;
    const bool holds = !known || (below ? ratio.high < 1 : !(ratio.low > 1));
    judgement.holds = judgement.holds && holds;
    const std::string statement = fmt::format("{} {} {}", finished.groups[claim.group].label,
                                              below ? "below" : "not above", finished.groups[claim.other].label);
    const std::string interval = fmt::format("{} to {}", significant(ratio.low), significant(ratio.high));
    table.add({statement, significant(ratio.estimate), interval,
               !known  ? "one run says nothing"
               : holds ? "pass"
                       : "FAIL"});
    judgement.statements.push_back({fmt::format("{}: {}", of_what, statement), below ? "below 1" : "not above 1",
                                    fmt::format("{} ({})", significant(ratio.estimate), interval), holds});
  }
  judgement.text = table.to_text();
  return judgement;
}

}  // namespace stretto::command
