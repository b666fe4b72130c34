#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stretto/base/shared_counter.h"
#include "stretto/dispenser/batch_plan.h"
#include "stretto/dispenser/position.h"

namespace stretto {

/// Which rank gets which batch.
enum class Sharing {
  shared,       ///< the rank that is ready first takes the next batch: no rank runs out before the others
  partitioned,  ///< batch i belongs to rank i mod ranks: repeats to the bit
  sampled,      ///< as many as when shared, each drawn with replacement from (seed, rank, own step)
  ring,         ///< as partitioned; a rank's share of the samples is in the next pass that of the rank behind it
  labels,       ///< as many as when shared, each of the rank's own part of the data, which has few of the labels
};
const char* name_of(Sharing sharing);
/// The inverse, which also takes "labels:4"; throws UsageError.
Sharing parse_sharing(const std::string& name);
/// So many labels a rank has at most, by the name of a sharing: 4 of "labels:4", 3 of "labels", 0 of the others.
int labels_a_rank(const std::string& name);
/// Whether batch i belongs to rank i mod ranks, and no rank takes over what another has not come to.
bool belongs_to_ranks(Sharing sharing);

/// Batch `sequence` of the job, as the `step`-th of the rank that gets it. Its samples are valid until the plan is
/// asked again. Requires: a plan with parts, for Sharing::labels.
BatchRef batch_of(BatchPlan& plan, Sharing sharing, std::uint64_t sequence, int rank, std::uint64_t step);

/// Hands out one rank's batches and keeps the log of them. One thread.
class Dispenser {
 public:
  /// `plan` is this rank's own; `counter` is the same for all ranks, and 0 at the start; both must outlive the
  /// dispenser. `start` is the same on every rank. Throws UsageError where it does not fit the plan.
  Dispenser(BatchPlan& plan, Sharing sharing, int rank, SharedCounter& counter, DispenserPosition start);
  /// From the beginning.
  Dispenser(BatchPlan& plan, Sharing sharing, int rank, SharedCounter& counter);

  /// The next batch, or nothing from the end on. Its samples are valid until the next call.
  std::optional<BatchRef> next();

  /// Where members of the job change: batches may have come back, and next() looks again.
  void look_again() { at_end_ = false; }

  /// The oldest batch that was handed out and not deposited has been deposited. Requires: there is one.
  void deposited();

  /// This rank's own step that the next batch will have.
  std::uint64_t step() const { return first_step_ + log_.handed_out.size(); }
  /// Batches handed out and deposited since the start.
  const RankLog& log() const { return log_; }

 private:
  std::optional<std::uint64_t> next_sequence();

  BatchPlan& plan_;
  const Sharing sharing_;
  const int rank_;
  SharedCounter& counter_;
  const std::uint64_t first_new_;  // sequence number after those that came back
  const std::uint64_t first_step_;
  const std::vector<std::uint64_t>
      returned_;             // handed out again, before new ones; only this rank's where they belong to ranks
  std::uint64_t taken_ = 0;  // where batches belong to ranks: so many of this rank's
  bool at_end_ = false;
  RankLog log_;
};

}  // namespace stretto
