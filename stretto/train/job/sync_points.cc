#include "stretto/train/job/sync_points.h"

#include <numeric>

#include "stretto/base/error.h"

namespace stretto {
namespace {

std::uint64_t compare_every(const RunPlan& plan) {
  const bool in_batches = plan.algorithm.recipe->local_steps == 0;  // else it counts steps of each rank
  return std::gcd(in_batches ? plan.options.sync_every : 0, plan.options.checkpoint_every);
}

}  // namespace

SyncPoints::SyncPoints(const Context& context)
    : context_(context),
      compare_every_(compare_every(context.plan)),
      compared_at_(context.resume != nullptr ? context.resume->batches : 0),
      saved_at_(compared_at_),
      saved_position_(context.resume != nullptr ? context.resume->position
                                                : DispenserPosition(context.plan.options.ranks)) {}

bool SyncPoints::due(const RoundResult& result, std::uint64_t applied) {
  if (result.policy.kind != Policy::Kind::full) return false;
  if (context_.plan.algorithm.policy.kind != Policy::Kind::full) return true;  // it is full for no other reason
  return compare_every_ != 0 && applied / compare_every_ > compared_at_ / compare_every_;
}

void SyncPoints::after_round(Driver& driver, const RoundResult& result, std::uint64_t applied) {
  if (!due(result, applied)) return;
  compared_at_ = applied;
  const std::uint64_t used = compare(driver);
  if (const std::uint64_t every = checkpoint_every(); every != 0 && used / every > saved_at_ / every)
    save(driver, used);
}

void SyncPoints::finish(Driver& driver) {
  context_.meeting.average_buffers(driver);
  const std::uint64_t used = compare(driver);
  if (checkpoint_every() != 0 && used > saved_at_) save(driver, used);
}

std::uint64_t SyncPoints::compare(Driver& driver) {
  const ReplicaChecksum mine = context_.replica.checksum();
  const auto all =
      context_.meeting.gather(driver, {mine.parameters, context_.recipe.averages_gradients() ? mine.optimizer : 0,
                                       context_.dispenser.log().handed_out.size()});
  std::uint64_t used = context_.resume != nullptr ? context_.resume->batches : 0;
  for (const auto& theirs : all) used += theirs[2];
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][0] == all[0][0] && all[rank][1] == all[0][1]) continue;
    if (context_.rank == 0 && identical_) {
      context_.page.tell(text("the replica of rank ", rank, " differs from that of rank 0 in its ",
                              all[rank][0] != all[0][0] ? "parameters" : "optimizer's state", " after ", used,
                              " batches"));
    }
    identical_ = false;
  }
  return used;
}

void SyncPoints::save(Driver& driver, std::uint64_t batches) {
  const double seconds = before_();  // on every rank before rank 0 writes: it waits for their lists below
  context_.meeting.average_buffers(driver);
  const auto& log = context_.dispenser.log().handed_out;
  const auto lists = context_.meeting.gather_lists(driver, std::span(log).subspan(saved_steps_));
  std::vector<RankLog> logs;
  for (const auto& list : lists) logs.push_back({.handed_out = list, .deposited = list.size()});
  auto position = position_after(saved_position_, logs);
  STRETTO_CHECK(position.ok(), position.error().message);
  saved_position_ = *std::move(position);
  saved_steps_ = log.size();
  saved_at_ = batches;
  if (context_.rank != 0) return;
  Checkpoint checkpoint = checkpoint_identity(context_.plan);
  checkpoint.replica = identity_of(context_.replica);
  checkpoint.batches = batches;
  checkpoint.seconds = seconds;
  checkpoint.position = saved_position_;
  if (const auto written = write_checkpoint(*folder_, std::move(checkpoint), context_.replica, context_.recipe.state());
      !written) {
    context_.page.tell(text("no checkpoint after ", batches, " batches: ", written.error().message));
  }
}

}  // namespace stretto
