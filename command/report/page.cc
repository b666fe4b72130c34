#include "command/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "command/report/recorded_run.h"
#include "command/train/report.h"

namespace stretto::command {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kCurvePoints = 300;

/// Times as whole ticks of the clock of a page: of a run's length as many as 32 bits hold, which is far below a
/// microsecond for an hour.
double tick_of(const RecordedRun& run) {
  double end = 0;
  for (const auto& steps : run.ranks) {
    if (!steps.empty()) end = std::max(end, steps.back().begin);
  }
  return std::max(end, 1e-3) / 4e9;
}

/// The steps of all ranks, one rank behind the other, `merged` of a rank as one. `aged`: whether it is known how stale
/// gradients were.
Json time_line(const RecordedRun& run, std::size_t merged, bool aged) {
  const double tick = tick_of(run);
  std::vector<std::uint32_t> lengths, begin;
  std::vector<float> computed, delayed, waited;
  std::vector<std::int16_t> staleness;
  for (const auto& steps : run.ranks) {
    lengths.push_back(static_cast<std::uint32_t>((steps.size() + merged - 1) / merged));
    for (std::size_t first = 0; first < steps.size(); first += merged) {
      float sums[3] = {0, 0, 0};
      int oldest = -1;
      for (std::size_t i = first; i < std::min(first + merged, steps.size()); ++i) {
        sums[0] += steps[i].computed;
        sums[1] += steps[i].delayed;
        sums[2] += steps[i].waited;
        if (steps[i].staleness) oldest = std::max(oldest, static_cast<int>(std::min(*steps[i].staleness, 32767U)));
      }
      begin.push_back(static_cast<std::uint32_t>(std::llround(steps[first].begin / tick)));
      computed.push_back(sums[0]);
      delayed.push_back(sums[1]);
      waited.push_back(sums[2]);
      staleness.push_back(static_cast<std::int16_t>(oldest));
    }
  }
  Json out = {{"tick", tick}, {"merged", merged}, {"lengths", lengths}};
  out["begin"] = base64_of<std::uint32_t>(begin);
  out["computed"] = base64_of<float>(computed);
  // A column of zeros is left out.
  const auto is_some = [](float value) { return value != 0; };
  if (std::ranges::any_of(delayed, is_some)) out["delayed"] = base64_of<float>(delayed);
  if (std::ranges::any_of(waited, is_some)) out["waited"] = base64_of<float>(waited);
  if (aged) out["staleness"] = base64_of<std::int16_t>(staleness);
  return out;
}

Json rounds_of(const RecordedRun& run) {
  std::vector<double> at;
  std::vector<std::uint32_t> number, contributors;
  for (const RecordedRound& round : run.rounds) {
    at.push_back(round.at);
    number.push_back(static_cast<std::uint32_t>(round.round));
    contributors.push_back(static_cast<std::uint32_t>(round.contributors));
  }
  return {{"at", base64_of<double>(at)},
          {"number", base64_of<std::uint32_t>(number)},
          {"contributors", base64_of<std::uint32_t>(contributors)}};
}

Json ranks_of(const RecordedRun& run, const Bars& bars, bool aged) {
  Json out = Json::array();
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const RankStatistics of = statistics_of(run.ranks[rank]);
    const bool booked = run.summary && rank < run.summary->lost_seconds.size();
    out.push_back({{"steps", of.steps},
                   {"mean", of.mean},
                   {"deviation", of.deviation},
                   {"least", of.least},
                   {"most", of.most},
                   {"computed", of.computed},
                   {"delayed", of.delayed},
                   {"waited", of.waited},
                   {"cost", booked ? Json(run.summary->lost_seconds[rank]) : Json()},
                   {"fresh", aged ? of.fresh : 0},
                   {"stale", aged ? of.stale : 0},
                   {"bars", histogram(run.ranks[rank], bars)}});
    if (run.summary && rank < run.summary->hosts.size()) out.back()["host"] = run.summary->hosts[rank];
  }
  return out;
}

/// The training loss as the ranks have recorded it, where no summary has it: the mean over stretches of time.
Json recorded_curve(const RecordedRun& run) {
  std::vector<std::pair<double, double>> ends;
  for (const auto& steps : run.ranks) {
    for (const RecordedStep& step : steps) {
      ends.emplace_back(step.begin + step.seconds() + double{step.waited}, double{step.loss});
    }
  }
  std::ranges::sort(ends, {}, &std::pair<double, double>::first);
  const std::size_t length = std::max<std::size_t>(1, ends.size() / kCurvePoints);
  Json curve = Json::array();
  for (std::size_t first = 0; first + length <= ends.size(); first += length) {
    double sum = 0;
    for (std::size_t i = first; i < first + length; ++i) sum += ends[i].second;
    const double loss = sum / static_cast<double>(length);
    if (std::isfinite(loss)) curve.push_back({ends[first + length - 1].first, first + length, loss});
  }
  return curve;
}

Json curve_of(const RecordedRun& run) {
  if (!run.summary) return recorded_curve(run);
  Json curve = Json::array();
  for (const auto& point : run.summary->curve) {
    if (std::isfinite(point.loss)) curve.push_back({point.seconds, point.batches, point.loss});
  }
  return curve;
}

/// [seconds, batches, loss, accuracy], those on test data; the last is that of the model that counts.
Json evaluations_of(const RecordedRun& run) {
  Json points = Json::array();
  if (!run.summary) return points;
  const auto accuracy = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  for (const auto& point : run.summary->evaluations) {
    points.push_back({point.seconds, point.batches, point.loss, accuracy(point.accuracy)});
  }
  const std::uint64_t evaluated = run.summary->evaluations.empty() ? 0 : run.summary->evaluations.back().batches;
  if (run.summary->loss && run.summary->final_batches > evaluated) {
    points.push_back(
        {run.summary->wall_seconds, run.summary->final_batches, *run.summary->loss, accuracy(run.summary->accuracy)});
  }
  return points;
}

/// What the table at the top says: of a whole run what its summary says, of another what its records say.
Json result_of(const RecordedRun& run) {
  double end = 0, waited = 0;
  std::size_t steps = 0;
  for (const auto& of_rank : run.ranks) {
    steps += of_rank.size();
    for (const RecordedStep& step : of_rank) {
      end = std::max(end, step.begin + step.seconds() + double{step.waited});
      waited += double{step.waited};
    }
  }
  if (!run.summary) {
    const auto all_ranks = static_cast<double>(run.ranks.size());
    return {{"whole", false},
            {"batches_per_s", static_cast<double>(steps) / end},
            {"seconds", end},
            {"batches", steps},
            {"wait_share", waited / (end * all_ranks)}};
  }
  const RunSummary& summary = *run.summary;
  Json out = {{"whole", true},
              {"batches_per_s", summary.throughput},
              {"of_ideal", share_of_ideal(summary)},
              {"seconds", summary.wall_seconds},
              {"batches", summary.deposits.applied},
              {"rounds", summary.rounds},
              {"wait_share", summary.wait_share},
              {"staleness_mean", summary.staleness_mean},
              {"staleness_max", summary.staleness_max},
              {"fresh_share", summary.fresh_share}};
  if (summary.loss) out["loss"] = *summary.loss;
  if (summary.accuracy) out["accuracy"] = *summary.accuracy;
  return out;
}

/// By the run's own account; of a run that has none yet, from its records.
std::vector<std::uint64_t> staleness_of(const RecordedRun& run) {
  return run.summary ? run.summary->staleness_histogram : staleness_histogram(run);
}

/// Whether the staleness of each step is known: its mean is that of the run's own account, but for a twentieth. Some
/// algorithms count otherwise than in rounds, and which of two late gradients a round took is not always certain.
bool steps_are_aged(const RecordedRun& run) {
  const std::vector<std::uint64_t> counts = staleness_histogram(run);
  double sum = 0, batches = 0;
  for (std::size_t entry = 0; entry < counts.size(); ++entry) {
    sum += static_cast<double>(entry * counts[entry]);
    batches += static_cast<double>(counts[entry]);
  }
  if (batches == 0) return false;
  return !run.summary || std::abs(sum / batches - run.summary->staleness_mean) <= 0.05 * run.summary->staleness_mean;
}

/// The run's algorithm as Choice::name() has it.
std::string setting_of(const TrainOptions& options) {
  if (options.algorithm != "eager-quorum") return options.algorithm;
  return fmt::format("{}:{}", options.algorithm, options.quorum);
}

Json to_json(const RecordedRun& run, const Bars& bars, std::size_t merged) {
  const bool aged = steps_are_aged(run);
  return {{"name", run.name},
          {"algorithm", run.options.algorithm},
          {"setting", setting_of(run.options)},
          {"workload", run.options.workload},
          {"seed", run.options.seed},
          {"conditions", conditions(run.options, "unit of work")},
          {"result", result_of(run)},
          {"timeline", time_line(run, merged, aged)},
          {"rounds", rounds_of(run)},
          {"ranks", ranks_of(run, bars, aged)},
          {"staleness", staleness_of(run)},
          {"curve", curve_of(run)},
          {"evaluations", evaluations_of(run)},
          {"gaps", run.gaps},
          {"prediction", run.prediction.empty() ? Json() : Json::parse(run.prediction)}};
}

Json to_json(const ReportAdvice& advice) {
  const Recommendation& all = advice.recommendation;
  Json settings = Json::array();
  for (const Trial& trial : all.trials) {
    Json setting = to_json(trial);
    const Interval gained = gain(trial, all.sync);
    setting["gain"] = gained.estimate;
    setting["recommended"] = trial.choice.name() == all.winner.choice.name();
    settings.push_back(std::move(setting));
  }
  return {{"run", advice.run}, {"messages", advice.messages}, {"verdict", all.verdict}, {"settings", settings}};
}

}  // namespace

Json page_data(std::span<const RecordedRun> runs, const std::optional<ReportAdvice>& advice,
               const std::string& no_advice, std::size_t most_steps) {
  std::size_t steps = 0;
  for (const RecordedRun& run : runs) {
    for (const auto& of_rank : run.ranks) steps += of_rank.size();
  }
  const std::size_t merged = std::max<std::size_t>(1, (steps + most_steps - 1) / most_steps);
  const Bars bars = bars_of(runs);
  Json out = {{"bars", {{"from", bars.from}, {"width", bars.width}, {"count", bars.count}, {"open", bars.open}}},
              {"runs", Json::array()}};
  for (const RecordedRun& run : runs) out["runs"].push_back(to_json(run, bars, merged));
  out["advice"] = advice ? to_json(*advice) : Json();
  out["no_advice"] = no_advice;
  return out;
}

namespace {

/// JSON in which no "</script>" or "<!--" is left: "<" is written as an escape, which strings alone have need of.
std::string in_script(const nlohmann::ordered_json& data) {
  // Names of folders need not be UTF-8.
  const std::string dump = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(dump.size());
  for (const char c : dump) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string page_of(const PageParts& parts, const nlohmann::ordered_json& data) {
  const std::string json = in_script(data);
  const std::pair<std::string_view, std::string_view> values[] = {{"{{library_style}}", parts.library_style},
                                                                  {"{{style}}", parts.style},
                                                                  {"{{data}}", json},
                                                                  {"{{library}}", parts.library},
                                                                  {"{{script}}", parts.script}};
  // In the order in which the page has them, each once: what has been put in is not looked at again.
  std::string page;
  std::string_view rest = parts.html;
  for (const auto& [name, value] : values) {
    const std::size_t place = rest.find(name);
    page.append(rest.substr(0, place)).append(value);
    rest.remove_prefix(place + name.size());
  }
  return page.append(rest);
}

}  // namespace stretto::command
