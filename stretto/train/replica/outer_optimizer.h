#pragma once

#include <span>
#include <string>
#include <vector>

#include "stretto/kernel/bucket.h"

namespace stretto {

/// How the outer model of DiLoCo moves by what a round has brought.
struct OuterOptimizerOptions {
  double lr = 0.7;        ///< of the outer step; 1, without momentum, is plain averaging
  double momentum = 0.9;  ///< Nesterov's, from 0 to below 1
};

/// The outer optimizer of DiLoCo: gradient descent with Nesterov's momentum (nesterov_step() in flat_math.h), over a
/// model in flat buckets that the caller owns. Every rank has one and feeds it the same rounds, so that all have the
/// same bits. One thread.
class OuterOptimizer {
 public:
  /// Throws UsageError for a momentum outside [0, 1), or a rate that is not a number above 0.
  OuterOptimizer(std::vector<BucketSpec> buckets, OuterOptimizerOptions options);

  /// Moves bucket `bucket` of the model by the pseudo-gradient sum / divisor. Each bucket once a round.
  void step(int bucket, std::span<std::byte> model, std::span<const std::byte> sum, double divisor);

  /// The velocities of all buckets, one after another, as they lie in memory.
  std::string state() const;
  /// Takes over what state() of one over the same buckets gave. Throws Failure (Errc::bad_input) for another length.
  void set_state(const std::string& state);
  /// Memory held.
  std::uint64_t bytes() const;

 private:
  const std::vector<BucketSpec> buckets_;
  const OuterOptimizerOptions options_;
  std::vector<std::vector<std::byte>> velocity_;  // of each bucket
};

}  // namespace stretto
