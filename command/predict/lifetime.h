#pragma once

#include <string>

#include "command/predict/trial.h"

namespace stretto::command {

/// The cost of members that come and go, for a setting of a job.
struct LifetimeCost {
  bool goes_on = false;         ///< whether the algorithm goes on where members change
  double changes = 0;           ///< of members an hour: a loss and a newcomer for each life
  double lost_share = 0;        ///< of the members' time, where a change costs each about a step
  double lost_by_restarts = 0;  ///< of it, where the job begins anew from checkpoints instead (restarts_keep())
  std::string sentence;         ///< of all this
};

/// Of `ranks` members that live `life` seconds in the mean, with steps of `step` seconds.
LifetimeCost cost_of_lifetime(const Choice& choice, int ranks, double step, double life);

}  // namespace stretto::command
