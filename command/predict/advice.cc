#include "command/predict/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>
#include <utility>

#include "command/cli/table.h"
#include "stretto/train/recipes/recipes.h"

namespace stretto::command {
namespace {

/// So many quarters of the ranks, at least one rank; each number once.
std::set<int> quarters_of(int ranks, std::initializer_list<int> quarters) {
  std::set<int> some;
  for (const int number : quarters) some.insert(std::max(1, ranks * number / 4));
  return some;
}

/// The settings of algorithms that are built in.
std::vector<Choice> known(std::vector<Choice> settings) {
  std::erase_if(settings, [](const Choice& choice) {
    return find_recipe(choice.algorithm.substr(0, choice.algorithm.find(':'))) == nullptr;
  });
  return settings;
}

}  // namespace

Interval gain(const Trial& trial, const Trial& base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < trial.rates.size(); ++i) ratios.push_back(trial.rates[i] / base.rates[i]);
  return mean_interval(ratios);
}

const Trial& recommended(const std::vector<Trial>& trials) {
  constexpr double kAsFast = 0.99;
  const auto rate = [](const Trial& trial) { return mean(trial.rates); };
  const Trial& fastest = *std::ranges::max_element(trials, {}, rate);
  const Trial* best = &fastest;
  const auto rank = [&](const Trial& trial) {
    const double unseen = std::isnan(trial.unseen) ? std::numeric_limits<double>::infinity() : trial.unseen;
    return std::pair(-unseen, rate(trial));
  };
  for (const Trial& trial : trials) {
    if (gain(trial, fastest).estimate >= kAsFast && rank(trial) > rank(*best)) best = &trial;
  }
  return *best;
}

std::optional<double> crossover(const std::vector<GainAt>& tried) {
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (tried[i].gain < kWorthwhile) continue;
    if (i == 0) return 0;
    const GainAt &below = tried[i - 1], &above = tried[i];
    return below.skew + (above.skew - below.skew) * (kWorthwhile - below.gain) / (above.gain - below.gain);
  }
  return std::nullopt;
}

namespace {

constexpr double kSkews[] = {0, 0.125, 0.25, 0.5, 1, 2};  // of that of the job

/// What the winner gains where ranks differ less than those of the job, and more.
std::vector<GainAt> gains_at(const Trial& winner, const Trial& sync, const std::vector<StepTimes>& replicas,
                             const SimulatedHosts& hosts, std::uint64_t seed) {
  std::vector<GainAt> gains;
  for (const double factor : kSkews) {
    std::vector<StepTimes> scaled;
    std::vector<double> skews;
    for (const StepTimes& times : replicas) {
      scaled.push_back(times.with_skew(factor));
      skews.push_back(scaled.back().skew());
    }
    std::vector<Trial> both = {winner, sync};
    if (factor != 1) both = try_out({winner.choice, sync.choice}, scaled, hosts, seed);
    gains.push_back({mean(skews), gain(both[0], both[1]).estimate});
  }
  return gains;
}

std::string in_words(const Trial& winner, const Trial& sync, double skew, const std::vector<GainAt>& gains) {
  const double gained = gain(winner, sync).estimate;
  const auto at = crossover(gains);
  if (winner.choice.algorithm == "sync") return "Stay synchronous: nothing that was tried is faster.";
  if (!at) {
    return fmt::format("Stay synchronous: up to {} of skew, twice that of this job, {} gains less than 5 %.",
                       in_milliseconds(gains.back().skew), winner.choice.name());
  }
  if (*at == 0) {
    return fmt::format("{} gains {:.2f}x at the {} of skew that this job has, and 5 % or more even without any.",
                       winner.choice.name(), gained, in_milliseconds(skew));
  }
  return fmt::format("Below {} of skew stay synchronous; above it {} is worthwhile: {:.2f}x at the {} of this job.",
                     in_milliseconds(*at), winner.choice.name(), gained, in_milliseconds(skew));
}

/// What a quorum may cost in steps; empty where there is nothing to say.
std::string price_of(const Trial& winner, int ranks) {
  const double bound = quorum_bound(winner, ranks);
  if (!(bound > 0)) return {};
  return fmt::format(
      " It may need more steps, by a factor in proportion to {} at most: √(τ (P − Q)) / P with τ = {} and Q = {}, by "
      "Theorem 6.3 of the eager-SGD paper.",
      significant(bound), winner.staleness_max, quorum_of(winner.choice, ranks));
}

}  // namespace

Recommendation recommend(std::vector<Choice> choices, const std::vector<StepTimes>& replicas, double skew,
                         const SimulatedHosts& hosts, std::uint64_t seed) {
  std::erase_if(choices, [](const Choice& choice) { return choice.algorithm == "sync"; });
  choices.insert(choices.begin(), {.algorithm = "sync"});
  Recommendation advice{.trials = try_out(choices, replicas, hosts, seed)};
  advice.sync = advice.trials.front();
  advice.winner = recommended(advice.trials);
  std::ranges::sort(advice.trials, std::ranges::greater(), [](const Trial& trial) { return mean(trial.rates); });
  if (advice.winner.choice.algorithm != "sync") {
    advice.gains = gains_at(advice.winner, advice.sync, replicas, hosts, seed);
  }
  advice.verdict =
      in_words(advice.winner, advice.sync, skew, advice.gains) + price_of(advice.winner, replicas.front().ranks());
  return advice;
}

std::string in_milliseconds(double seconds) {
  return fmt::format("{} ms", significant(1e3 * seconds));
}

double quorum_bound(int ranks, int quorum, std::uint64_t tau) {
  return std::sqrt(static_cast<double>(tau) * (ranks - quorum)) / ranks;
}

int quorum_of(const Choice& choice, int ranks) {
  const Algorithm algorithm = parse_algorithm(choice.algorithm, ranks);
  if (moves_own_weights(*algorithm.recipe)) return 0;
  switch (algorithm.policy.kind) {
    case Policy::Kind::full: return ranks;
    case Policy::Kind::solo:
    case Policy::Kind::majority:
      return 1;  // about half of the ranks in the mean, and the one that is drawn for certain
    case Policy::Kind::quorum:
    case Policy::Kind::deadline: return static_cast<int>(algorithm.policy.quorum);
  }
  return 0;
}

double quorum_bound(const Trial& trial, int ranks) {
  const int quorum = quorum_of(trial.choice, ranks);
  if (quorum == 0) return std::numeric_limits<double>::quiet_NaN();
  return quorum_bound(ranks, quorum, trial.staleness_max);
}

Finalists pick_finalists(const std::vector<Choice>& choices, const std::vector<StepTimes>& replicas,
                         const SimulatedHosts& hosts, std::uint64_t seed) {
  Finalists finalists;
  const auto trials = try_shapes(choices, replicas, hosts, seed);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (trials[i]) {
      finalists.by_shape.push_back(*trials[i]);
    } else {
      finalists.choices.push_back(choices[i]);
    }
  }
  std::vector<Trial> left = finalists.by_shape;
  for (std::size_t picked = 0; picked < kFinalists && !left.empty(); ++picked) {
    const Trial& best = recommended(left);
    finalists.choices.push_back(best.choice);
    left.erase(left.begin() + (&best - left.data()));
  }
  std::ranges::sort(finalists.by_shape, std::ranges::greater(), [](const Trial& trial) { return mean(trial.rates); });
  return finalists;
}

std::vector<Choice> settings_for(int ranks, const SimulatedHosts& hosts) {
  std::vector<Choice> settings = {{"sync"}};
  if (ranks == 1) return settings;
  settings.push_back({"eager-solo"});
  settings.push_back({"eager-majority"});
  std::set<int> quorums;
  for (int quorum = 2; quorum < ranks; quorum *= 2) quorums.insert(quorum);
  for (int eighths = 3; eighths < 8; ++eighths) quorums.insert(ranks * eighths / 8);
  quorums.insert(ranks - 1);
  for (const int quorum : quorums) {
    if (quorum > 1) settings.push_back({fmt::format("eager-quorum:{}", quorum)});
  }
  for (const int some : quarters_of(ranks, {1, 2, 3})) {
    settings.push_back({fmt::format("eager-deadline:{},adaptive", some)});
  }
  for (int group = 2; group < ranks; group *= 2) {
    if (ranks % group != 0) continue;
    for (const char* tau : {"5", "10", "20", "40"}) {
      settings.push_back({fmt::format("wagma:{}", group), 0, {{"tau", tau}}});
    }
    for (const char* tau : {"10", "40"}) {
      settings.push_back({fmt::format("wagma-quorum:{}", group), 0, {{"tau", tau}}});
    }
  }
  for (const std::uint64_t steps : {2, 4, 8, 16, 32}) settings.push_back({"local", steps});
  for (const std::uint64_t steps : {4, 16}) settings.push_back({"local:quorum", steps});
  settings.push_back({"diloco", 16});
  settings.push_back({"ps-sync"});
  settings.push_back({"ps-async"});
  const int most_servers = std::min(hosts.buckets(), ranks);
  for (int servers = 1; servers < most_servers; servers *= 4) {
    settings.push_back({"ps-async", 0, {{"servers", std::to_string(servers)}}});
  }
  for (const char* bound : {"1", "3", "10"}) settings.push_back({fmt::format("ssp:{}", bound)});
  for (const int some : quarters_of(ranks, {2, 3})) settings.push_back({fmt::format("k-sync:{}", some)});
  return known(settings);
}

std::vector<Choice> settings_without_shape() {
  return known(
      {{"d-psgd"}, {"sgp"}, {"osgp"}, {"gossip-grad"}, {"ad-psgd"}, {"easgd"}, {"easgd-async"}, {"easgd-grid"}});
}

std::vector<Choice> all_settings_for(int ranks, const SimulatedHosts& hosts) {
  std::vector<Choice> settings = settings_for(ranks, hosts);
  if (ranks == 1 || ranks > kFewRanks) return settings;
  for (Choice& choice : settings_without_shape()) settings.push_back(std::move(choice));
  return settings;
}

}  // namespace stretto::command
