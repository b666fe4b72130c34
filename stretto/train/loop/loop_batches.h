#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "stretto/membership/job.h"
#include "stretto/train/job/members/run_members.h"
#include "stretto/train/loop/batch_pool.h"
#include "stretto/train/loop/loop_checkpoint.h"
#include "stretto/train/replica/meeting.h"

namespace stretto {

/// One rank's share of the pool that a loop draws its batches from, and its place in checkpoints. Every rank calls the
/// same, in the same order. One thread.
class LoopBatches {
 public:
  /// All must outlive it.
  LoopBatches(RankContext& rank, Meeting& meeting) : rank_(rank), meeting_(meeting) {}
  ~LoopBatches();
  LoopBatches(const LoopBatches&) = delete;
  LoopBatches& operator=(const LoopBatches&) = delete;

  /// The pool will begin where this checkpoint was.
  void restore(const LoopCheckpoint& checkpoint);
  /// Once. Waits for all ranks, but where members of the job change: then the batches are those of the job's pool.
  /// Throws UsageError for batches that do not fit, that differ from rank 0's, or that are not those of the checkpoint.
  std::shared_ptr<BatchPool> make(Driver& driver, const PlanOptions& plan, Sharing sharing);
  bool made() const { return pool_ != nullptr; }
  /// All batches drawn so far have been handed over.
  void deposited();
  /// Adds the pool's position, after all that has been drawn. Waits for all ranks.
  void save_to(LoopCheckpoint& checkpoint, Driver& driver);

 private:
  RankContext& rank_;
  Meeting& meeting_;
  std::optional<MembersPool> members_pool_;
  std::shared_ptr<BatchPool> pool_;
  int counter_ = -1;                           // borrowed by pool_
  std::string identity_;                       // what must be the same where it is continued
  std::string restored_;                       // the same of the checkpoint; empty: none
  std::optional<DispenserPosition> position_;  // at the last checkpoint
  std::size_t saved_ = 0;                      // of this rank's log then
};

}  // namespace stretto
