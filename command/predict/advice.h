#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command/predict/trial.h"
#include "command/statistics/statistics.h"

namespace stretto::command {

/// Of the mean over replicas of rates[i] / base.rates[i]. Requires: the same replicas.
Interval gain(const Trial& trial, const Trial& base);

/// The trial to recommend: of those whose gain over the fastest is not below 0.99 the one that leaves the fewest
/// batches unseen (Trial::unseen), then the fastest. One of which that is not known comes after all of which it is.
/// `trials` are not empty.
const Trial& recommended(const std::vector<Trial>& trials);

/// From so much gain on it is worth to leave synchronous training.
inline constexpr double kWorthwhile = 1.05;

/// A skew, in seconds, and what a choice gains there over another.
struct GainAt {
  double skew = 0;
  double gain = 0;
};

/// The skew from which on the gain is worthwhile, linear between those tried; none where it never is, 0 where it always
/// is. `tried`: by ascending skew.
std::optional<double> crossover(const std::vector<GainAt>& tried);

/// Which way to train is the fastest with the step times of a job.
struct Recommendation {
  std::vector<Trial> trials;  ///< the fastest first; sync is one of them
  Trial sync;
  Trial winner;
  std::vector<GainAt> gains;  ///< of the winner over sync, by skew; empty where sync wins
  std::string verdict;        ///< a sentence
};

/// Tries `choices`, and sync, with all of `replicas`, which are not empty; `skew` is that of the job, in seconds.
/// Throws what simulate() throws.
Recommendation recommend(std::vector<Choice> choices, const std::vector<StepTimes>& replicas, double skew,
                         const SimulatedHosts& hosts, std::uint64_t seed);

/// "12.3 ms".
std::string in_milliseconds(double seconds);

/// √(τ (P − Q)) / P: where each round of P ranks takes the gradients of at least Q, and no gradient comes more than τ
/// rounds late, the learning rate has to fall, and the steps grow, by no more than a factor in proportion to this
/// (Theorem 6.3 of the eager-SGD paper, PPoPP 2020). 0: as synchronous training.
double quorum_bound(int ranks, int quorum, std::uint64_t tau);

/// Of how many ranks a round takes the gradients at least; 0 where rounds take models, or there are none. Throws
/// UsageError for a choice that does not fit so many ranks.
int quorum_of(const Choice& choice, int ranks);

/// The bound of a trial, with the oldest gradient that was seen for τ; NaN where quorum_of() is 0.
double quorum_bound(const Trial& trial, int ranks);

/// So many of the settings that were compared by their shapes are run.
inline constexpr std::size_t kFinalists = 10;

/// Of many settings those that are worth a run on the virtual clock.
struct Finalists {
  std::vector<Choice> choices;  ///< the settings that recommended() prefers by their shapes, and those without a shape
  std::vector<Trial> by_shape;  ///< of all that have one, the fastest first
};

/// At most kFinalists of the choices that have a shape. Throws what try_shapes() throws.
Finalists pick_finalists(const std::vector<Choice>& choices, const std::vector<StepTimes>& replicas,
                         const SimulatedHosts& hosts, std::uint64_t seed);

/// Every setting that may be the best for so many ranks, of the library's algorithms that have a shape: about sixty of
/// 64. Numbers of servers are among them where the model has several buckets.
std::vector<Choice> settings_for(int ranks, const SimulatedHosts& hosts);

/// Up to so many ranks the algorithms without a shape are tried unless settings are named: each is a run more.
inline constexpr int kFewRanks = 16;
/// The library's algorithms among neighbours, in pairs and around a center, with their defaults.
std::vector<Choice> settings_without_shape();
/// settings_for(), and of few ranks those without a shape.
std::vector<Choice> all_settings_for(int ranks, const SimulatedHosts& hosts);

}  // namespace stretto::command
