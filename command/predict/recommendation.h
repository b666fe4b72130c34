#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command/predict/advice.h"

namespace stretto::command {

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

}  // namespace stretto::command
