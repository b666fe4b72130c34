#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/collective/grid_allreduce.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// The numbers of a rank that the lines of a grid average: the parameters of its replica, and behind them, where it is
/// asked for, the momentum of its optimizer, a bucket for each type, which moves by the same rule and the same alpha.
///
/// The momentum is that of SGD alone. What Adam keeps beside its own must not become negative, as it may under
/// ElasticUpdate::carry. One application thread.
class GridModel {
 public:
  /// `momentum`: it is part of the model, where has_momentum(). The replica must outlive this.
  GridModel(Replica& replica, bool momentum);
  /// Whether its optimizer is SGD with one momentum for all parameters.
  static bool has_momentum(const Replica& replica);

  /// In the order of the parameters' buckets, then those of the momentum.
  const std::vector<BucketSpec>& buckets() const { return buckets_; }
  /// At a step boundary, before the other two: finds the momentum, which is in the same place until the next step. A
  /// rank that has made no step has none: it brings zeros, and takes nothing.
  void look();
  /// Moves the numbers of a slice towards their mean.
  void move(const GridSlice& slice, ElasticUpdate update, double alpha);
  /// Copies all to `copy`.
  void copy_to(Contribution& copy);

 private:
  /// Calls `run` with this rank's memory of the elements of a bucket from `begin` on, piece by piece, and with how many
  /// bytes behind `begin` a piece begins.
  void for_each_piece(std::size_t bucket, std::uint64_t begin, std::uint64_t count,
                      FunctionRef<void(std::span<std::byte> mine, std::size_t behind)> run);

  Replica& replica_;
  std::vector<BucketSpec> buckets_;
  std::vector<Replica::Buffer> momentum_;  // as look() has found it
};

}  // namespace stretto
