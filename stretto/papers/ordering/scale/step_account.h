#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "stretto/papers/ordering/scale/ordered_job.h"

namespace stretto {

/// How alike the skew of ranks is from one synchronization to later ones: skew is a rank's arrival minus the mean of
/// all. Near 1 where a rank that comes late goes on to come late (the cascade), near 0 where each has its own reasons.
class SkewCorrelation {
 public:
  static constexpr std::size_t kLags = 8;

  explicit SkewCorrelation(std::size_t ranks);
  /// The next synchronization. Requires: a value for each rank.
  void add(std::span<const double> arrivals);
  /// Over all ranks and synchronizations: Σ x(k) x(k + lag) / Σ x². Lags 1 … kLags; NaN where there were too few.
  std::array<double, kLags> at_lags() const;
  /// Seconds: the mean, over the synchronizations, of the last arrival minus the mean arrival.
  double mean_of_last() const { return seen_ == 0 ? 0 : last_ / static_cast<double>(seen_); }

 private:
  const std::size_t ranks_;
  std::vector<std::vector<double>> recent_;  // of the last kLags + 1, as a ring
  std::array<double, kLags> products_{};     // by lag
  std::array<double, kLags> squares_{};      // of the same pairs: geometric mean of both
  std::array<double, kLags> later_squares_{};
  std::array<double, kLags + 1> own_{};  // Σ x² of each in the ring
  std::size_t seen_ = 0;
  double last_ = 0;
};

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
