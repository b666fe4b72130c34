#pragma once

#include <array>
#include <span>
#include <vector>

#include "stretto/predict/ordering/ordered_job.h"
#include "stretto/predict/ordering/skew_correlation.h"

namespace stretto {

/// The duration of a step and its parts; means over ranks and steps. Times in seconds. For the last group of tensors:
/// step = computing + overhead + waiting + transfer.
struct OrderedSteps {
  std::vector<double> steps;  ///< how long each took, in order
  double computing = 0;       ///< from the step's begin until its last tensors are ready
  double overhead = 0;        ///< from ready to issued
  double waiting = 0;         ///< from issued until the last rank has issued: in the transfer, for others
  double transfer = 0;        ///< from then until the step's end
  double processor = 0;       ///< processor time of the background thread, per step
  double syncs = 0;           ///< synchronizations of all ranks, per step
  double skew = 0;            ///< at a synchronization: the last arrival minus the mean one
  std::array<double, SkewCorrelation::kLags> skew_correlation{};  ///< at lags 1, 2, …; NaN without synchronizations

  double mean_step() const;
};

/// Keeps account of the steps of a job: when the transfer of each group of tensors ends, and what steps took.
class StepAccount {
 public:
  /// The first `warm_up` steps are not counted.
  StepAccount(const OrderedJob& job, int warm_up, int steps);

  bool finished() const { return finished_ == warm_up_ + steps_; }
  /// When the present step has begun.
  double begin() const { return begin_; }
  /// The group of the present step that is to be issued next.
  std::size_t group() const { return group_; }

  /// Each rank's tensors of group() were ready, and were issued. Returns when their transfer ends: all ranks have
  /// issued them, and the transfer before is over. After the last group the next step begins then.
  double issue(std::span<const double> ready, std::span<const double> issued);
  /// The background threads of all ranks together have used so much processor time.
  void use_processor(double seconds) { processor_ += counting() ? seconds : 0; }
  /// All ranks have synchronized.
  void synchronize(std::span<const double> arrivals);

  OrderedSteps result() const;

 private:
  bool counting() const { return finished_ >= warm_up_; }

  const OrderedJob& job_;
  const int warm_up_;
  const int steps_;
  int finished_ = 0;
  std::size_t group_ = 0;
  double begin_ = 0;
  double link_free_ = 0;  // when the transfer before is over
  double processor_ = 0;  // of all ranks
  int syncs_ = 0;
  SkewCorrelation skew_;
  OrderedSteps sums_;
};

}  // namespace stretto
