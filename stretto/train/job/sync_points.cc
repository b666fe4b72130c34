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
      batches_before_(context.resume != nullptr ? context.resume->batches : 0),
      compared_at_(batches_before_),
      saved_at_(compared_at_),
      saved_position_(context.resume != nullptr ? context.resume->position
                                                : DispenserPosition(context.plan.options.ranks)) {}

bool SyncPoints::due(const RoundResult& result, std::uint64_t applied) {
  if (context_.session.catches_up() || context_.session.meeting().interrupted()) return false;
  if (result.policy.kind != Policy::Kind::full) return false;
  if (context_.plan.algorithm.policy.kind != Policy::Kind::full) return true;  // it is full for no other reason
  return compare_every_ != 0 && applied / compare_every_ > compared_at_ / compare_every_;
}

void SyncPoints::after_round(const RoundResult& result, std::uint64_t applied) {
  if (!due(result, applied)) return;
  compared_at_ = applied;
  try {
    const std::uint64_t used = batches_before_ + compare().deposits;
    if (const std::uint64_t every = checkpoint_every(); every != 0 && used / every > saved_at_ / every) save(used);
  } catch (const Failure& failure) {
    if (failure.error().code != Errc::members_changed) throw;  // else ranks meet again at the next one
  }
}

Session::Comparison SyncPoints::finish() {
  context_.session.meeting().average_buffers(context_.session.driver());
  Session::Comparison last = compare();
  const std::uint64_t used = batches_before_ + last.deposits;
  if (checkpoint_every() != 0 && used > saved_at_) save(used);
  return last;
}

Session::Comparison SyncPoints::compare() {
  Session::Comparison found = context_.session.compare(context_.dispenser.log().handed_out.size());
  if (!found.differ.empty() && std::exchange(identical_, false) && context_.session.rank() == 0) {
    const auto& [rank, in_parameters] = found.differ[0];
    const std::string& why = context_.session.why_parted();
    context_.page.tell(text("the replica of rank ", rank, " differs from that of rank 0 in its ",
                            in_parameters ? "parameters" : "optimizer's state", " after ",
                            batches_before_ + found.deposits, " batches", why.empty() ? "" : "; ", why));
  }
  return found;
}

void SyncPoints::save(std::uint64_t batches) {
  const double seconds = before_();  // on every rank before rank 0 writes: it waits for their lists below
  Meeting& meeting = context_.session.meeting();
  Driver& driver = context_.session.driver();
  meeting.average_buffers(driver);
  const auto& log = context_.dispenser.log().handed_out;
  const auto lists = meeting.gather_lists(driver, std::span(log).subspan(saved_steps_));
  std::vector<RankLog> logs;
  for (const auto& list : lists) logs.push_back({.handed_out = list, .deposited = list.size()});
  auto position = position_after(saved_position_, logs);
  STRETTO_CHECK(position.ok(), position.error().message);
  saved_position_ = *std::move(position);
  saved_steps_ = log.size();
  saved_at_ = batches;
  if (context_.session.rank() != 0) return;
  Checkpoint checkpoint = checkpoint_identity(context_.plan);
  checkpoint.replica = identity_of(context_.replica);
  checkpoint.batches = batches;
  checkpoint.seconds = seconds;
  checkpoint.position = saved_position_;
  if (const auto written =
          write_checkpoint(*folder_, std::move(checkpoint), context_.replica, context_.session.recipe().state());
      !written) {
    context_.page.tell(text("no checkpoint after ", batches, " batches: ", written.error().message));
  }
}

}  // namespace stretto
