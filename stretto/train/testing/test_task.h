#pragma once

#include <functional>
#include <memory>

#include "stretto/train/job/task.h"

namespace stretto {

struct LinearTaskOptions {
  std::uint64_t samples = 64;
  std::uint64_t features = 5;
  bool varied = false;         ///< lengths from 1 to 4 instead of 1 each
  std::uint64_t labels = 0;    ///< sample i has label i mod so many; 0: none has one
  std::int64_t poisoned = -1;  ///< this sample's gradient is not a number
  /// Called in the rank's process before its `step`-th batch (from 0).
  std::function<void(std::uint64_t step)> before_batch;
  /// Called in the rank's process when its replica is saved, and when its buffers or the optimizer's state are
  /// averaged: the other ranks wait for it there.
  std::function<void()> in_save = {}, in_average = {};
  /// Called in the thread that evaluates a model of RankTaskOptions::evaluates, before each of its evaluations.
  std::function<void()> in_evaluation;
};

/// For tests: least squares, y = w·x + b with float32, momentum SGD and two buckets (b, then w), in plain loops, so
/// that trainer and algorithms are tested without Torch. Its one floating buffer holds a running mean of x[0], as
/// BatchNorm has one. Deterministic to the bit.
std::unique_ptr<TrainingTask> linear_task(LinearTaskOptions options = {});

}  // namespace stretto
