#include "stretto/train/loop/loop_batches.h"

#include <span>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  Hash64 hash;
  hash.add(bytes);
  return hash.value();
}

// Of all but the length of the job, which may be another one when it goes on.
std::string identity_of(const PlanOptions& plan, Sharing sharing) {
  std::string words =
      text(plan.samples, " samples, ", plan.batch, " a batch, seed ", plan.seed, ", ", name_of(sharing));
  if (plan.bucketed) words += ", bucketed";
  if (!plan.lengths.empty()) words += text(", lengths ", hash_of(std::as_bytes(std::span(plan.lengths))));
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
  const auto described =
      meeting_.gather(driver, {hash_of(std::as_bytes(std::span(identity_))), plan.steps, plan.epochs});
  for (std::size_t rank = 0; rank < described.size(); ++rank) {
    if (described[rank] != described[0]) throw UsageError(text("rank ", rank, " differs from rank 0 in its batches"));
  }
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
