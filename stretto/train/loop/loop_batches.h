#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "stretto/membership/job.h"
#include "stretto/train/job/members/run_members.h"
#include "stretto/train/job/session.h"
#include "stretto/train/loop/batch_pool.h"
#include "stretto/train/loop/loop_checkpoint.h"

namespace stretto {

/// One rank's share of the pool that a loop draws its batches from, and its place in checkpoints. Every rank calls the
/// same, in the same order. One thread.
class LoopBatches {
 public:
  /// All must outlive it.
  LoopBatches(RankContext& rank, Session& session) : rank_(rank), session_(session) {}
  ~LoopBatches();
  LoopBatches(const LoopBatches&) = delete;
  LoopBatches& operator=(const LoopBatches&) = delete;

  /// The pool will begin where this checkpoint was.
  void restore(const LoopCheckpoint& checkpoint);
  /// Where members of the job change: in words, where the pool began, for a rank that comes later.
  std::string start() const;
  /// Takes over start() of a rank that was there before.
  void take_start(const std::string& start);
  /// Once. Waits for all ranks, but where members of the job change: then the batches are those of the job's pool.
  /// Throws UsageError for batches that do not fit, that differ from rank 0's, or that are not those of the checkpoint.
  std::shared_ptr<BatchPool> make(const PlanOptions& plan, Sharing sharing);
  bool made() const { return pool_ != nullptr; }
  /// All batches drawn so far have been handed over.
  void deposited();
  /// Adds the pool's position, after all that has been handed over. Waits for all ranks.
  void save_to(LoopCheckpoint& checkpoint);

 private:
  std::shared_ptr<BatchPool> make_of_members(Changes& changes, const PlanOptions& plan, Sharing sharing);

  RankContext& rank_;
  Session& session_;
  std::optional<MembersPool> members_pool_;
  std::shared_ptr<BatchPool> pool_;
  int counter_ = -1;                           // borrowed by pool_
  std::string identity_;                       // what must be the same where it is continued
  std::string restored_;                       // the same of the checkpoint; empty: none
  DispenserPosition start_;                    // of that
  std::optional<DispenserPosition> position_;  // at the last checkpoint
  std::size_t saved_ = 0;                      // of this rank's log then
  std::uint64_t saved_in_ = 0;                 // the epoch, where members change
};

}  // namespace stretto
