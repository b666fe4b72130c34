#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stretto/predict/model/training_job.h"

namespace stretto {

/// How many steps profile_training() makes.
struct ProfileOptions {
  int warm_up = 5;  ///< first, before anything is timed: the first steps of a process load and allocate
  int traced = 5;   ///< in which each operation is timed; they show the layers and how a pass is divided among them
  int steps = 50;   ///< that count: more show more of what varies from step to step
};

/// The times of one worker's steps, layer by layer.
struct TrainingProfile {
  /// Of each step that counts its layers, the same in each: seconds of the forward pass, of the backward pass and of
  /// the update, and bytes of the trained parameters.
  std::vector<ProfiledStep> steps;
  std::vector<std::string> unused;  ///< parameters that are trained and that no loss has depended on
};

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
