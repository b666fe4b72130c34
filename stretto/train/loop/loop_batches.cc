#include "stretto/train/loop/loop_batches.h"

#include <algorithm>
#include <span>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/dispenser/pool.h"
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
  start_ = restored_.empty() ? DispenserPosition() : checkpoint.position;
}

std::string LoopBatches::start() const {
  return restored_.empty() ? std::string() : text(restored_, '\n', to_json(start_));
}

void LoopBatches::take_start(const std::string& start) {
  const std::size_t end = std::min(start.find('\n'), start.size());
  restored_ = start.substr(0, end);
  start_ = restored_.empty() ? DispenserPosition() : position_from_json(start.substr(end)).or_throw();
}

std::shared_ptr<BatchPool> LoopBatches::make(const PlanOptions& plan, Sharing sharing) {
  (void)BatchPlan(plan).num_batches();  // what does not fit is told before the others are asked
  identity_ = identity_of(plan, sharing);
  Changes* const changes = rank_.changes();
  const bool belonged_to_ranks = changes != nullptr && restored_ == identity_of(plan, Sharing::partitioned);
  if (!restored_.empty() && restored_ != identity_ && !belonged_to_ranks) {
    throw UsageError(text("checkpoint of a loop over other batches: of ", restored_, "; here ", identity_));
  }
  // Of a job whose members changed there may be more or fewer.
  start_.steps.resize(static_cast<std::size_t>(session_.most_ranks()));
  if (changes != nullptr) return make_of_members(*changes, plan, sharing);
  Meeting& meeting = session_.meeting();
  Driver& driver = session_.driver();
  const auto other = meeting.differing_rank(driver, {Hash64::of(identity_), plan.steps, plan.epochs});
  if (other) throw UsageError(text("rank ", *other, " differs from rank 0 in its batches"));
  counter_ = rank_.borrow_counter();
  SharedCounter& counter = rank_.counter(counter_);
  // No rank draws before all have been here twice.
  const auto bases = meeting.gather(driver, {rank_.rank() == 0 ? counter.fetch_add(0) : 0});
  return pool_ = std::make_shared<BatchPool>(plan, sharing, rank_.rank(), counter, bases[0][0], start_);
}

std::shared_ptr<BatchPool> LoopBatches::make_of_members(Changes& changes, const PlanOptions& plan, Sharing sharing) {
  if (sharing != Sharing::shared) {
    throw UsageError(text("data ", name_of(sharing),
                          " where members of the job change: expected shared, so that the "
                          "batches of a lost rank are computed by others"));
  }
  // The job's pool counts up the batches that are left.
  const std::uint64_t all = BatchPlan(plan).num_batches(), used = start_.next - start_.returned.size();
  const std::string plan_of_all = restored_.empty() ? identity_ : text(identity_, ", from ", to_json(start_));
  members_pool_.emplace(changes, all - std::min(all, used), Hash64::of(plan_of_all));
  return pool_ = std::make_shared<BatchPool>(plan, sharing, changes.place(), *members_pool_, /*base=*/0, start_);
}

void LoopBatches::deposited() {
  if (made()) pool_->deposited();
}

void LoopBatches::save_to(LoopCheckpoint& checkpoint) {
  const View* const view = rank_.changes() != nullptr ? &rank_.changes()->view() : nullptr;
  if (!made() && view == nullptr) return;
  const RankLog none;  // of a rank that comes, and has not made its pool, where the others have theirs
  const RankLog& log = made() ? pool_->log() : none;
  const auto gather = [this](std::span<const std::uint64_t> mine) {
    return session_.meeting().gather_lists(session_.driver(), mine);
  };
  const std::uint64_t epoch = view != nullptr ? view->epoch : 0;
  const bool goes_on = position_ && saved_in_ == epoch;  // from what all of these ranks have said
  const auto mine = std::span(log.handed_out).first(log.deposited);
  const auto handed_over = gather(mine.subspan(goes_on ? saved_ : 0));
  if (view != nullptr) {
    // The view knows of all that members were handed before it, also of those that are lost.
    if (!goes_on) position_ = position_from(start_, position_in_pool(view->position).or_throw());
    std::vector<std::uint64_t> in_hand;
    const auto held = std::span(log.handed_out).subspan(log.deposited);
    for (const auto& theirs : gather(held)) in_hand.insert(in_hand.end(), theirs.begin(), theirs.end());
    position_ = position_after_all(*position_, handed_over, in_hand);
  } else {
    std::vector<RankLog> logs;
    for (const auto& list : handed_over) logs.push_back({.handed_out = list, .deposited = list.size()});
    position_ = position_after(position_.value_or(start_), logs).or_throw();
  }
  saved_ = log.deposited;
  saved_in_ = epoch;
  checkpoint.pool = identity_;
  checkpoint.position = *position_;
}

}  // namespace stretto
