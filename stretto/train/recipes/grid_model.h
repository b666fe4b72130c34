#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/collective/grid_allreduce.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// Moves numbers of this node, from `behind` bytes behind the begin of a slice on, towards their mean: all that
/// ElasticUpdate says.
void move_towards_mean(DataType type, std::span<std::byte> mine, const GridSlice& slice, std::size_t behind,
                       ElasticUpdate update, double alpha);

/// The numbers of a rank that the lines of a grid average: the parameters of its replica, and behind them, where it is
/// asked for, the momentum of its optimizer, a bucket for each type, which moves by the same rule and the same alpha;
/// or is exchanged, along a direction of which all nodes of a line draw the same for a round (turn_about_mean()).
///
/// The momentum is that of SGD alone. What Adam keeps beside its own must not become negative, as it may under
/// ElasticUpdate::carry. One application thread.
class GridModel {
 public:
  enum class Momentum : std::uint8_t {
    local,      ///< is no part of the model
    averaged,   ///< moves as the parameters do
    exchanged,  ///< with ElasticUpdate::carry; of float32 alone
  };

  /// `momentum`: where has_momentum(). Throws UsageError where it cannot be exchanged. The replica must outlive this.
  GridModel(Replica& replica, Momentum momentum);
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
  void exchange(const GridSlice& slice);

  Replica& replica_;
  const Momentum kind_;
  std::vector<BucketSpec> buckets_;
  std::vector<Replica::Buffer> momentum_;  // as look() has found it
};

}  // namespace stretto
