#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "command/cli/table.h"
#include "command/predict/advice.h"
#include "command/predict/simulated_choice.h"
#include "command/reproduce/experiments.h"
#include "command/statistics/statistics.h"
#include "command/train/run_set.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr int kSamples = 8;
constexpr const char* kAlone = "one worker";
const SimulatedHosts kHosts{.network = "latency=1us,bandwidth=10GB/s", .model_bytes = 100'000};

/// With "Q" for half of the ranks. Neighbours are of one family.
constexpr const char* kAlgorithms[] = {"sync",  "eager-solo", "eager-majority", "eager-quorum", "eager-deadline:Q,10ms",
                                       "local", "wagma",      "ps-sync",        "ps-async",     "ssp:3"};

std::string with_quorum(std::string algorithm, int ranks) {
  const std::size_t quorum = algorithm.find('Q');
  if (quorum != std::string::npos) algorithm.replace(quorum, 1, std::to_string((ranks + 1) / 2));
  return algorithm;
}

/// The algorithms of one situation: four of the ten, of several families. Any five situations that follow one another
/// have each algorithm twice. All ten in each would leave time for 40 steps of a job, and the share of fresh
/// contributions of so few differs by up to four points and a half between two runs of one job.
std::vector<const char*> algorithms_of(std::size_t situation) {
  constexpr std::size_t kTurns = 5;
  std::vector<const char*> chosen;
  for (std::size_t i = 0; i < std::size(kAlgorithms); ++i) {
    const std::size_t turn = (i + kTurns - situation % kTurns) % kTurns;
    if (turn == 0 || turn == 2) chosen.push_back(kAlgorithms[i]);
  }
  return chosen;
}

struct Shape {
  const char* name;
  std::string imbalance;
};

/// By the time of a step without any. In all of them steps take any time, as those of real work do: where ranks compute
/// equally long what the scheduler does within a millisecond decides who comes first, and what is fresh.
std::vector<Shape> shapes(Duration step) {
  constexpr double kMeanOfUcf101 = 1.235;  // seconds
  const auto uneven = [](Duration mean) { return fmt::format("lognormal:mean={},cv=1", to_text(mean)); };
  const std::string whole = to_text(step), little = "+" + uneven(step / 8);
  return {{"one rank late, another one each step", "random:ranks=1,delay=" + whole + little},
          {"one rank three times slower", "persistent:rank=1,factor=3" + little},
          {"ranks late by their number", fmt::format("linear:0ms..{}", whole) + little},
          {"each rank and step its own delay", uneven(step / 2)},
          {"as long as videos are", fmt::format("ucf101:scale={:.6g}", seconds(step) / 2 / kMeanOfUcf101)},
          {"one rank twice as slow, all uneven", "persistent:rank=1,factor=2+" + uneven(step / 4)}};
}

std::string title_of(int ranks, const Shape& shape) {
  return fmt::format("{} ranks: {}", ranks, shape.name);
}

std::string shape_in(const std::string& title) {
  return title.substr(title.find(": ") + 2);
}

/// Few ranks, an odd number of them, half, and all.
std::set<int> numbers_of_ranks(int most) {
  return {2, std::min(3, most), std::max(2, most / 2), most};
}

/// With more ranks than this two cores are too few for the pace.
constexpr int kRanksOfPace = 8;

/// Of a prediction. The noise of a run is not known before it: one replica is as far from the mean as the run is.
constexpr int kReplicas = 5;
constexpr std::uint64_t kSeedsApart = 1'000'003;  // the noise of two runs is not the same

/// Of a time: about what waking up and handing over take of a step here, which no prediction knows exactly.
constexpr double kResolution = 0.05;

/// A configuration that has been measured, and what was said of it.
struct Case {
  std::string algorithm;
  double rate_error = 0;   // predicted / measured − 1
  double fresh_error = 0;  // predicted − measured; NaN where there is none
  double ks = 0;           // between the step times; NaN where none are recorded
  double rough_ks = 0;     // the same, if times are equal that differ by kResolution at most
  double rate = 0;         // measured
  Trial predicted;         // with which it competes
};

/// The mean over replicas, of which each draws its own noise; the step times of all of them.
Outcome predict(const TrainOptions& options, std::uint64_t seed, double noise) {
  // What a rank draws that makes more steps than the mean, too.
  const std::size_t drawn = 4 * options.steps;
  const StepTimes times = drawn_step_times(Imbalance::parse(options.imbalance, options.ranks),
                                           seconds(options.pace) * kSamples, options.ranks, drawn, seed);
  Outcome all;
  all.unseen = 0;
  for (int replica = 0; replica < kReplicas; ++replica) {
    const std::uint64_t noise_seed = seed + static_cast<std::uint64_t>(replica) * kSeedsApart;
    const Outcome one = simulate({options.algorithm}, times.with_noise(noise_seed, noise), kHosts, seed, options.steps);
    all.rate += one.rate / kReplicas;
    all.fresh_share += one.fresh_share / kReplicas;
    all.staleness_mean += one.staleness_mean / kReplicas;
    all.unseen += one.unseen / kReplicas;
    all.steps.insert(all.steps.end(), one.steps.begin(), one.steps.end());
  }
  return all;
}

/// `noise`: seconds that a step takes longer than it is paced, in the mean.
Case case_of(const RunGroup& group, const RunSummary& run, double noise) {
  const TrainOptions& options = group.options;
  const Outcome outcome = predict(options, run.seed, noise);
  double ks = std::nan(""), rough_ks = ks;
  if (!options.out.empty()) {
    const auto recorded = recorded_steps(options.out + "/" + run_folder_name(group, run.seed), options.ranks);
    ks = ks_distance(outcome.steps, recorded);
    rough_ks = ks_distance(outcome.steps, recorded, kResolution);
  }
  return {.algorithm = group.label,
          .rate_error = outcome.rate / run.throughput - 1,
          .fresh_error = outcome.fresh_share - run.fresh_share,
          .ks = ks,
          .rough_ks = rough_ks,
          .rate = run.throughput,
          .predicted = {.choice = {options.algorithm},
                        .rates = {outcome.rate},
                        .fresh_share = outcome.fresh_share,
                        .staleness_mean = outcome.staleness_mean,
                        .unseen = outcome.unseen}};
}

/// By how much the setting that the predictions recommend was slower than the fastest of all that were measured.
double short_of_best(const std::vector<Case>& cases) {
  std::vector<Trial> trials;
  for (const Case& one : cases) trials.push_back(one.predicted);
  const auto taken = static_cast<std::size_t>(&recommended(trials) - trials.data());
  return 1 - cases[taken].rate / std::ranges::max_element(cases, {}, &Case::rate)->rate;
}

struct Errors {
  std::vector<double> rate;          // of each case, without sign
  double fresh = std::nan("");       // the largest; NaN where there is none
  std::vector<double> ks, rough_ks;  // of those with records
};

Errors errors_of(const std::vector<Case>& cases) {
  Errors errors;
  for (const Case& one : cases) {
    errors.rate.push_back(std::abs(one.rate_error));
    errors.fresh = std::fmax(errors.fresh, std::abs(one.fresh_error));
    if (std::isnan(one.ks)) continue;
    errors.ks.push_back(one.ks);
    errors.rough_ks.push_back(one.rough_ks);
  }
  return errors;
}

void add_row(Table& table, const std::string& name, const std::vector<Case>& cases) {
  const Errors errors = errors_of(cases);
  const auto worst = [](const std::vector<double>& values) {
    return values.empty() ? "–" : significant(std::ranges::max(values));
  };
  table.add({name, std::to_string(cases.size()), percent(mean(errors.rate)), percent(median(errors.rate)),
             percent(quantile(errors.rate, 0.95)), percent(std::ranges::max(errors.rate)), percent(errors.fresh),
             significant(median(errors.ks)), worst(errors.ks), significant(median(errors.rough_ks)),
             worst(errors.rough_ks)});
}

using Named = std::vector<std::pair<std::string, std::vector<Case>>>;  // in the order in which they have run

std::vector<Case>& of(Named& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &Named::value_type::first);
  if (found != all.end()) return found->second;
  return all.emplace_back(name, std::vector<Case>()).second;
}

Table table_of(const char* what, const Named& all) {
  Table table({what, "runs", "mean", "median", "95 %", "largest", "fresh, largest", "KS, median", "largest",
               "within 5 %, median", "largest"});
  for (const auto& [name, cases] : all) add_row(table, name, cases);
  return table;
}

/// Of the paper on throughput prediction, on clusters of its own, over limited links.
constexpr const char* kTable1 =
    "the paper's Table 1, mean (largest): asynchronous with a server 4.7 % (11.1 %) by formulas and 5.4 % (15.0 %) by "
    "simulation, with overlap 4.7 % (15.2 %) and 4.4 % (11.4 %), with unequal workers 4.8 % (16.0 %) and 3.5 % (11.1 "
    "%), with both 3.8 % (11.4 %) and 3.0 % (9.6 %); synchronous with a server 3.2 % (10.0 %) and 5.2 % (11.9 %), with "
    "overlap 4.1 % (10.5 %) and 4.7 % (10.2 %); allreduce 5.0 % (11.6 %) and 2.5 % (9.3 %)";

Statement at_most(const std::string& text, double limit, double here) {
  return {text, "at most " + percent(limit), percent(here), here <= limit};
}

}  // namespace

std::vector<Experiment> prediction_experiments(const ReproduceCommand& command) {
  TrainOptions alone = base_options(command, "digits");
  alone.ranks = 1;
  alone.batch = kSamples;
  if (!alone.out.empty()) alone.out += "/alone";
  std::vector<Experiment> experiments = {
      {"One worker by itself, which the predictions know", {{kAlone, std::move(alone), {}}}, {""}}};
  for (const int count : numbers_of_ranks(command.ranks)) {
    const Duration pace = command.pace * std::max(1, count / kRanksOfPace);
    for (const Shape& shape : shapes(pace * kSamples)) {
      Experiment experiment{title_of(count, shape), {}, {}};
      for (const char* algorithm : algorithms_of(experiments.size() - 1)) {
        TrainOptions options = base_options(command, "digits");
        options.algorithm = with_quorum(algorithm, count);
        options.ranks = count;
        options.batch = kSamples;
        options.pace = pace;
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
  const double noise = std::max(0.0, 1 / mean(rates) - seconds(alone.options.pace) * kSamples);

  std::vector<Case> all;
  Named of_algorithm, of_shape, of_ranks;
  std::vector<double> shorts;
  for (const Experiment& experiment : finished.subspan(1)) {
    std::map<std::uint64_t, std::vector<Case>> of_seed;  // runs that drew the same delays
    for (const RunGroup& group : experiment.groups) {
      for (const RunSummary& run : group.runs) {
        all.push_back(case_of(group, run, noise));
        of(of_algorithm, group.label).push_back(all.back());
        of(of_shape, shape_in(experiment.title)).push_back(all.back());
        of(of_ranks, fmt::format("{} ranks", group.options.ranks)).push_back(all.back());
        of_seed[run.seed].push_back(all.back());
      }
    }
    for (const auto& [seed, cases] : of_seed) shorts.push_back(short_of_best(cases));
  }
  std::string tables;
  tables += table_of("batches/s, predicted / measured − 1", of_algorithm).to_text() + "\n";
  tables += table_of("by imbalance", of_shape).to_text() + "\n";
  of(of_ranks, "all") = all;
  tables += table_of("by ranks", of_ranks).to_text();

  const Errors errors = errors_of(all);
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
      "\n\n{}\n{}\n\n{}",
      significant(1e3 * noise), tables, kTable1, statements_table(judgement.statements));
  return judgement;
}

}  // namespace stretto::command
