#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "workloads/dataset.h"

namespace stretto {

/// Anonymous pages that the processes forked from this one share as long as none of them writes, in huge pages where
/// the machine has them. Movable; unmaps itself.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedMemory();

  /// Zeroed. Errc::unavailable says how much `purpose` needs and how much the machine or its container has left.
  static Result<MappedMemory> allocate(std::size_t bytes, std::string_view purpose);

  std::span<std::byte> bytes() const { return bytes_; }

  /// From now on a write is a crash rather than a silent copy.
  void make_read_only();

 private:
  explicit MappedMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

/// Points y = a·x + noise in 8,192 dimensions, the workload of section 7.2.1 of the eager-SGD paper. A unit of work is
/// a row.
///
/// Each coordinate takes one of 256 evenly spaced values with mean 0 and variance 1, so that it is stored in a byte:
/// 256 MiB instead of 1 GiB, and four times less to read in a step; y is exact for the x that is stored. The
/// coefficients are standard normal, and so is the noise times kNoise. Every number is a function of the seed and its
/// own index.
class HyperplaneDataset final : public Dataset {
 public:
  static constexpr std::size_t kDimensions = 8192;
  static constexpr std::uint32_t kTrainPoints = 32768;
  static constexpr std::uint32_t kTestPoints = 4096;
  /// Not published. At this one the validation loss ends near the paper's 4.7: kNoise² times 4/3, for least squares
  /// with four points a dimension.
  static constexpr double kNoise = 1.85;

  /// Requires: `memory` holds (num_train + kTestPoints) × kDimensions bytes.
  HyperplaneDataset(std::uint64_t seed, std::uint32_t num_train, MappedMemory memory);

  /// Writes x of a point, kDimensions numbers.
  void copy_point(Split split, std::uint32_t point, float* x) const;
  float target(Split split, std::uint32_t point) const { return targets_[row(split, point)]; }
  /// a, in double precision as it was drawn.
  std::span<const double> coefficients() const { return coefficients_; }

 private:
  std::size_t row(Split split, std::uint32_t point) const {
    return split == Split::train ? point : num_train() + point;
  }

  MappedMemory memory_;  // levels 0 … 255: training rows, then test rows
  std::vector<double> coefficients_;
  std::vector<float> targets_;  // likewise
};

Result<std::shared_ptr<const Dataset>> generate_hyperplane(const DatasetOptions& options);

}  // namespace stretto
