#include "command/reproduce/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "command/cli/table.h"
#include "command/predict/advice.h"
#include "command/predict/simulated_choice.h"
#include "command/statistics/statistics.h"
#include "command/train/run_set.h"
#include "stretto/base/error.h"
#include "stretto/imbalance/duration.h"

namespace stretto::command {

namespace {

constexpr int kBatch = 8;
constexpr const char* kAlone = "one worker";
const SimulatedHosts kHosts{.network = "latency=1us,bandwidth=10GB/s", .model_bytes = 100'000};

/// With "Q" for half of the ranks.
constexpr const char* kAlgorithms[] = {"sync",  "eager-solo", "eager-majority", "eager-quorum", "eager-deadline:Q,10ms",
                                       "local", "wagma",      "ps-sync",        "ps-async",     "ssp:3"};

std::string with_quorum(std::string algorithm, int ranks) {
  const std::size_t quorum = algorithm.find('Q');
  if (quorum != std::string::npos) algorithm.replace(quorum, 1, std::to_string((ranks + 1) / 2));
  return algorithm;
}

struct Shape {
  const char* name;
  std::string imbalance;
};

/// By the time of a step without any.
std::vector<Shape> shapes(Duration step) {
  const std::string whole = to_text(step), half = to_text(step / 2);
  return {{"one rank late, another one each step", "random:ranks=1,delay=" + whole},
          {"each rank and step its own delay", fmt::format("lognormal:mean={},cv=1", half)},
          {"one rank three times slower", "persistent:rank=1,factor=3"},
          {"ranks late by their number", fmt::format("linear:0ms..{}", whole)}};
}

/// A configuration that has been measured, and what was said of it.
struct Case {
  std::string algorithm;
  double rate_error = 0;   // predicted / measured − 1
  double fresh_error = 0;  // predicted − measured; NaN where there is none
  double ks = 0;           // between the step times; NaN where none are recorded
  double rate = 0;         // measured
  Trial predicted;         // with which it competes
};

/// `noise`: seconds that a step takes longer than it is paced, in the mean.
Case case_of(const RunGroup& group, const RunSummary& run, double noise) {
  const TrainOptions& options = group.options;
  // What a rank draws that makes more steps than the mean, too.
  const std::size_t drawn = 4 * options.steps;
  const StepTimes times = drawn_step_times(Imbalance::parse(options.imbalance, options.ranks),
                                           seconds(options.pace) * kBatch, options.ranks, drawn, run.seed)
                              .with_noise(run.seed, noise);
  const Outcome outcome = simulate({options.algorithm}, times, kHosts, run.seed, options.steps);
  return {.algorithm = group.label,
          .rate_error = outcome.rate / run.throughput - 1,
          .fresh_error = outcome.fresh_share - run.fresh_share,
          .ks = options.out.empty()
                    ? std::nan("")
                    : ks_distance(outcome.steps,
                                  recorded_steps(options.out + "/" + run_folder_name(group, run.seed), options.ranks)),
          .rate = run.throughput,
          .predicted = {.choice = {options.algorithm},
                        .rates = {outcome.rate},
                        .fresh_share = outcome.fresh_share,
                        .staleness_mean = outcome.staleness_mean}};
}

/// By how much the setting that the predictions recommend was slower than the fastest of all that were measured.
double short_of_best(const std::vector<Case>& cases) {
  std::vector<Trial> trials;
  for (const Case& one : cases) trials.push_back(one.predicted);
  const auto taken = static_cast<std::size_t>(&recommended(trials) - trials.data());
  return 1 - cases[taken].rate / std::ranges::max_element(cases, {}, &Case::rate)->rate;
}

struct Errors {
  std::vector<double> rate;     // of each case, without sign
  double fresh = std::nan("");  // the largest; NaN where there is none
  std::vector<double> ks;       // of those with records
};

Errors errors_of(const std::vector<Case>& cases) {
  Errors errors;
  for (const Case& one : cases) {
    errors.rate.push_back(std::abs(one.rate_error));
    errors.fresh = std::fmax(errors.fresh, std::abs(one.fresh_error));
    if (!std::isnan(one.ks)) errors.ks.push_back(one.ks);
  }
  return errors;
}

void add_row(Table& table, const std::string& name, const Errors& errors) {
  table.add({name, std::to_string(errors.rate.size()), percent(median(errors.rate)),
             percent(quantile(errors.rate, 0.95)), percent(std::ranges::max(errors.rate)), percent(errors.fresh),
             errors.ks.empty() ? "–" : significant(median(errors.ks)),
             errors.ks.empty() ? "–" : significant(std::ranges::max(errors.ks))});
}

Statement at_most(const std::string& text, double limit, double here) {
  return {text, "at most " + percent(limit), percent(here), here <= limit};
}

}  // namespace

std::vector<Experiment> prediction_experiments(const ReproduceCommand& command) {
  const std::set<int> ranks = {2, 3, 4, 6, command.ranks};
  TrainOptions alone = base_options(command, "digits");
  alone.ranks = 1;
  alone.batch = kBatch;
  if (!alone.out.empty()) alone.out += "/alone";
  std::vector<Experiment> experiments = {
      {"One worker by itself, which the predictions know", {{kAlone, std::move(alone), {}}}, {""}}};
  for (const int count : ranks) {
    for (const Shape& shape : shapes(command.pace * kBatch)) {
      Experiment experiment{fmt::format("{} ranks: {}", count, shape.name), {}, {}};
      for (const char* algorithm : kAlgorithms) {
        TrainOptions options = base_options(command, "digits");
        options.algorithm = with_quorum(algorithm, count);
        options.ranks = count;
        options.batch = kBatch;
        options.seats = 1;  // simulated ranks send messages; on a board more comes in time for a round
        options.imbalance = shape.imbalance;
        if (!options.out.empty()) options.out += fmt::format("/{}", experiments.size());
        experiment.groups.push_back({algorithm, std::move(options), {}});
        experiment.expect.emplace_back("as predicted");
      }
      experiments.push_back(std::move(experiment));
    }
  }
  return experiments;
}

Judgement judge_predictions(std::span<const Experiment> finished) {
  STRETTO_CHECK(finished.size() > 1, "nothing has run");
  const RunGroup& alone = finished.front().groups.front();
  std::vector<double> rates;
  for (const RunSummary& run : alone.runs) rates.push_back(run.throughput);
  const double noise = std::max(0.0, 1 / mean(rates) - seconds(alone.options.pace) * kBatch);

  std::vector<Case> all;
  std::map<std::string, std::vector<Case>> of_algorithm;
  std::vector<double> shorts;
  for (const Experiment& experiment : finished.subspan(1)) {
    std::map<std::uint64_t, std::vector<Case>> of_seed;  // runs that drew the same delays
    for (const RunGroup& group : experiment.groups) {
      for (const RunSummary& run : group.runs) {
        all.push_back(case_of(group, run, noise));
        of_algorithm[group.label].push_back(all.back());
        of_seed[run.seed].push_back(all.back());
      }
    }
    for (const auto& [seed, cases] : of_seed) shorts.push_back(short_of_best(cases));
  }
  Table table({"batches/s, predicted / measured − 1", "runs", "median", "95 %", "largest", "fresh, largest",
               "KS, median", "largest"});
  for (const char* algorithm : kAlgorithms) {
    if (of_algorithm.contains(algorithm)) add_row(table, algorithm, errors_of(of_algorithm[algorithm]));
  }
  const Errors errors = errors_of(all);
  add_row(table, "all", errors);

  Judgement judgement;
  judgement.statements = {
      at_most("median error of the batches a second", 0.03, median(errors.rate)),
      at_most("95th percentile", 0.08, quantile(errors.rate, 0.95)),
      at_most("largest", 0.12, std::ranges::max(errors.rate)),
      at_most("largest error of the fresh share", 0.03, std::isnan(errors.fresh) ? 0 : errors.fresh),
      at_most(fmt::format("what would have been advised, slower than the best measured: median of {}", shorts.size()),
              0.02, median(shorts)),
      at_most("largest", 0.05, std::ranges::max(shorts))};
  if (!errors.ks.empty()) {
    const double ks = median(errors.ks);
    judgement.statements.push_back(
        {"KS distance of the step times, median", "at most 0.1", significant(ks), ks <= 0.1});
  }
  judgement.holds = std::ranges::all_of(judgement.statements, &Statement::holds);
  judgement.text = fmt::format(
      "by itself a worker takes {} ms a step longer than it is paced, in the mean; predicted with so much noise"
      "\n\n{}\n{}",
      significant(1e3 * noise), table.to_text(), statements_table(judgement.statements));
  return judgement;
}

}  // namespace stretto::command
