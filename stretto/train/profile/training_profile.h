#pragma once

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

}  // namespace stretto
