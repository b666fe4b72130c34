#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto {

/// The learning rate as a function of the batches applied before a round, which every rank reads from the headers:
/// never of a rank's own steps or of rounds, or the replicas would part (docs/protocol.md, rule 5). One step here is
/// `ranks` batches, so that a schedule means the same for every algorithm.
class LrSchedule {
 public:
  /// "constant", or parts joined with '+': "warmup:N" rises linearly to the full rate over N steps;
  /// "decay:F@A@B…" divides by F at each of the steps A, B, … Throws UsageError.
  static LrSchedule parse(const std::string& text);

  /// The factor of the rate.
  double factor(std::uint64_t batches_applied, int ranks) const;

 private:
  std::uint64_t warmup_ = 0;
  double divide_by_ = 1;
  std::vector<std::uint64_t> milestones_;  // ascending
};

}  // namespace stretto
