#pragma once

#include <cstdint>
#include <functional>

#include "stretto/predict/measured/step_times.h"
#include "stretto/predict/shape/algorithm_shape.h"

namespace stretto {

/// The durations of exchanges, in seconds.
struct ExchangeCosts {
  double round = 0;  ///< from the start of a round that need not wait for all to the moment when all have its result
  double full_round = 0;  ///< the same of one that all have come to
  double push = 0;        ///< a server is busy with each gradient; the others queue
  double answer = 0;      ///< from then on until the rank that has asked has the weights
};

/// The job of ranks whose algorithm has some shape.
struct ShapeJob {
  std::uint64_t steps = 0;   ///< batches a rank; 0: as many as there are times
  bool shared_data = false;  ///< the batches belong to whoever asks first; else to each rank as many
  ExchangeCosts costs = {};  ///< of the network
  std::uint64_t seed = 0;    ///< of the draws of `majority`
  /// Hears of rounds of all ranks when each has ended, in seconds from the begin, in their order. Empty: nobody does.
  std::function<void(double)> on_round = {};
};

/// The outcome of a simulated ShapeJob.
struct ShapeOutcome {
  double seconds = 0;               ///< from the begin to the last round
  double rate = 0;                  ///< batches applied a second, over all ranks
  double wait_share = 0;            ///< of the ranks' time, between their first step and their last
  double fresh_share = 0;           ///< of the contributions to rounds; NaN where there are none that could be stale
  double staleness_mean = 0;        ///< of batches, in rounds or in versions of the weights; NaN: is not known
  std::uint64_t staleness_max = 0;  ///< the largest
  std::uint64_t rounds = 0;         ///< rounds, or versions of the weights
  std::uint64_t dropped = 0;        ///< batches that no round or version has
};

/// Lets ranks compute as long as `times` says (beyond its end from its begin on) and wait for one another as `shape`
/// says. The rules are those of a real job (Ticket, PolicyRule, GroupTicket, Shard), each rank's and each round's moves
/// are events, and messages are the costs that are given. With costs of 0 it agrees with a job in virtual time whose
/// network is as fast, event by event. Repeats to the bit. Throws UsageError for a shape that does not fit so many
/// ranks.
ShapeOutcome simulate_shape(const AlgorithmShape& shape, const StepTimes& times, const ShapeJob& job);

}  // namespace stretto
