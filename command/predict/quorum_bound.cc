#include "command/predict/quorum_bound.h"

#include <cmath>
#include <limits>

#include "stretto/train/recipes/recipes.h"

namespace stretto::command {

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

}  // namespace stretto::command
