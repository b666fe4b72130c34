#include "stretto/train/loop/loop_batches.h"

#include <span>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

// Of all but the length of the job, which may be another one when it goes on.
std::string identity_of(const PlanOptions& plan, Sharing sharing) {
  std::string words =
      text(plan.samples, " samples, ", plan.batch, " a batch, seed ", plan.seed, ", ", name_of(sharing));
  if (plan.bucketed) words += ", bucketed";
  if (!plan.lengths.empty()) words += text(", lengths ", Hash64::of(std::as_bytes(std::span(plan.lengths))));
  if (plan.labels_a_rank > 0) {
    words += text(":", plan.labels_a_rank, ", labels ", Hash64::of(std::as_bytes(std::span(plan.labels))));
  }
  return words;
}

}  // namespace

LoopBatches::~LoopBatches() {
  if (counter_ >= 0) rank_.give_back_counter(counter_);
}

void LoopBatches::restore(const LoopCheckpoint& checkpoint) {
  restored_ = checkpoint.pool;
  if (!restored_.empty()) position_ = checkpoint.position;
}

std::shared_ptr<BatchPool> LoopBatches::make(Driver& driver, const PlanOptions& plan, Sharing sharing) {
  (void)BatchPlan(plan).num_batches();  // what does not fit is told before the others are asked
  identity_ = identity_of(plan, sharing);
  if (!restored_.empty() && restored_ != identity_) {
    throw UsageError(text("checkpoint of a loop over other batches: of ", restored_, "; here ", identity_));
  }
  if (Changes* const changes = rank_.changes()) {
    if (sharing != Sharing::shared) {
      throw UsageError(text("data ", name_of(sharing),
                            " where members of the job change: expected shared, so that the "
                            "batches of a lost rank are computed by others"));
    }
    members_pool_.emplace(*changes, BatchPlan(plan).num_batches(), Hash64::of(identity_));
    return pool_ = std::make_shared<BatchPool>(plan, sharing, changes->place(), *members_pool_, /*base=*/0,
                                               DispenserPosition(changes->most()));
  }
  const auto other = meeting_.differing_rank(driver, {Hash64::of(identity_), plan.steps, plan.epochs});
  if (other) throw UsageError(text("rank ", *other, " differs from rank 0 in its batches"));
  counter_ = rank_.borrow_counter();
  SharedCounter& counter = rank_.counter(counter_);
  // No rank draws before all have been here twice.
  const auto bases = meeting_.gather(driver, {rank_.rank() == 0 ? counter.fetch_add(0) : 0});
  if (!position_) position_ = DispenserPosition(rank_.size());
  return pool_ = std::make_shared<BatchPool>(plan, sharing, rank_.rank(), counter, bases[0][0], *position_);
}

void LoopBatches::deposited() {
  if (made()) pool_->deposited();
}

void LoopBatches::save_to(LoopCheckpoint& checkpoint, Driver& driver) {
  if (!made()) return;
  const auto& drawn = pool_->log().handed_out;
  std::vector<RankLog> logs;
  for (const auto& list : meeting_.gather_lists(driver, std::span(drawn).subspan(saved_))) {
    logs.push_back({.handed_out = list, .deposited = list.size()});
  }
  saved_ = drawn.size();
  position_ = position_after(*position_, logs).or_throw();
  checkpoint.pool = identity_;
  checkpoint.position = *position_;
}

}  // namespace stretto
