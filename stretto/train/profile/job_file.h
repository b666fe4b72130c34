#pragma once

#include <optional>
#include <string>

#include "stretto/train/profile/training_profile.h"

namespace stretto {

/// Facts of a job that its profile does not have.
struct ProfiledJob {
  double batch = 0;          ///< examples in a step
  double bandwidth = 0;      ///< of each link of a server, bytes per second
  std::string workload{};    ///< its name
  std::string machine{};     ///< where it was measured, in words
  ProfileOptions options{};  ///< as it was measured

  /// The cost of profiling, as a share of the step, where that was measured.
  struct Cost {
    double median = 0;  ///< of pairs of blocks of steps
    double low = 0;     ///< of its 95 % interval
    double high = 0;    ///< of its 95 % interval
  };
  std::optional<Cost> cost{};  ///< of profiling
};

/// The profile as a job of one worker, in JSON: what `stretto predict` reads (docs/prediction.md). Times are rounded to
/// nanoseconds.
std::string to_job(const TrainingProfile& profile, const ProfiledJob& job);

}  // namespace stretto
