#include "stretto/train/job/sync_points.h"

#include <algorithm>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/dispenser/pool.h"

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
      applied_(batches_before_),
      compared_at_(batches_before_),
      saved_at_(compared_at_),
      saved_position_(position_before(context.resume, context.plan.options.ranks)),
      first_steps_(saved_position_.steps) {}

bool SyncPoints::due(const RoundResult& result) {
  if (context_.session.catches_up() || context_.session.meeting().interrupted()) return false;
  if (result.policy.kind != Policy::Kind::full) return false;
  if (context_.plan.algorithm.policy.kind != Policy::Kind::full) return true;  // it is full for no other reason
  const bool averaged = context_.plan.algorithm.recipe->across_worlds == AcrossWorlds::averaged;
  if (context_.changes != nullptr && averaged && compared_in_ != epoch())
    return true;  // in its first round, an average
  if (compare_every_ == 0) return false;
  // Of ranks that have met in the world before some may not know it: in each world all meet at its first round.
  if (compared_in_ != epoch()) return true;
  return applied_ / compare_every_ > compared_at_ / compare_every_;
}

void SyncPoints::after_round(const RoundResult& result, std::uint64_t applied) {
  applied_ = applied;
  if (!due(result)) return;
  compared_at_ = applied;
  compared_in_ = epoch();
  try {
    const std::uint64_t used = this->used(compare());
    if (const std::uint64_t every = checkpoint_every(); every != 0 && used / every > saved_at() / every) save(used);
  } catch (const Failure& failure) {
    if (failure.error().code != Errc::members_changed) throw;  // else ranks meet again at the next one
  }
}

Session::Comparison SyncPoints::finish() {
  context_.session.meeting().average_buffers(context_.session.driver());
  Session::Comparison last = compare();
  const std::uint64_t used = this->used(last);
  if (checkpoint_every() != 0 && used > saved_at()) save(used);
  return last;
}

Session::Comparison SyncPoints::compare() {
  Session::Comparison found = context_.session.compare(context_.dispenser.log().handed_out.size());
  if (!found.differ.empty() && std::exchange(identical_, false) && context_.session.rank() == 0) {
    const auto& [rank, in_parameters] = found.differ[0];
    const std::string& why = context_.session.why_parted();
    context_.page.tell(text("the replica of rank ", rank, " differs from that of rank 0 in its ",
                            in_parameters ? "parameters" : "optimizer's state", " after ", used(found), " batches",
                            why.empty() ? "" : "; ", why));
  }
  return found;
}

std::uint64_t SyncPoints::saved_at() {
  if (context_.changes == nullptr) return saved_at_;
  for (const auto& theirs : context_.session.meeting().gather(context_.session.driver(), {saved_at_})) {
    saved_at_ = std::max(saved_at_, theirs[0]);
  }
  return saved_at_;
}

void SyncPoints::save(std::uint64_t batches) {
  const double seconds = before_();  // on every rank before rank 0 writes: it waits for their lists below
  Meeting& meeting = context_.session.meeting();
  Driver& driver = context_.session.driver();
  meeting.average_buffers(driver);
  const auto& log = context_.dispenser.log().handed_out;
  const std::size_t known = saved_in_ == epoch() ? saved_steps_ : 0;  // of each rank by all
  const auto handed_out = meeting.gather_lists(driver, std::span(log).subspan(known));
  if (context_.changes == nullptr) {
    note_position(handed_out);
    saved_at_ = batches;
  } else {
    note_position_of_pool(handed_out);
  }
  saved_steps_ = log.size();
  saved_in_ = epoch();
  if (context_.session.rank() != 0) return;
  Checkpoint checkpoint = checkpoint_identity(context_.plan);
  checkpoint.any_ranks = checkpoint.any_ranks || (context_.resume != nullptr && context_.resume->any_ranks);
  checkpoint.replica = identity_of(context_.replica);
  checkpoint.batches = saved_position_.next - saved_position_.returned.size();
  checkpoint.seconds = seconds;
  checkpoint.position = saved_position_;
  if (const auto written =
          write_checkpoint(*folder_, std::move(checkpoint), context_.replica, context_.session.recipe().state());
      !written) {
    context_.page.tell(text("no checkpoint after ", batches, " batches: ", written.error().message));
  }
  saved_at_ = batches;
}

void SyncPoints::note_position(const std::vector<std::vector<std::uint64_t>>& handed_out) {
  std::vector<RankLog> logs;
  for (const auto& list : handed_out) logs.push_back({.handed_out = list, .deposited = list.size()});
  logs.resize(saved_position_.steps.size());  // of a job that more ranks had begun
  auto position = position_after(saved_position_, logs);
  STRETTO_CHECK(position.ok(), position.error().message);
  saved_position_ = *std::move(position);
}

void SyncPoints::note_position_of_pool(const std::vector<std::vector<std::uint64_t>>& handed_out) {
  // The view knows of all that members were handed before it, also of those that are lost.
  const std::vector<std::uint64_t>& of_pool = context_.changes->view().position;
  if (saved_in_ != epoch()) saved_position_ = position_in_pool(of_pool).or_throw();
  saved_position_ = position_after_all(saved_position_, handed_out);
  saved_position_.steps = first_steps_;
  const int numbers = std::max(context_.plan.options.ranks, context_.session.num_members());
  const auto made = context_.session.batches_by_number(numbers);
  saved_position_.steps.resize(std::max(made.size(), first_steps_.size()));
  for (std::size_t number = 0; number < made.size(); ++number) saved_position_.steps[number] += made[number];
  const std::uint64_t counted = std::accumulate(made.begin(), made.end(), Pool::dropped_in(of_pool));
  const std::uint64_t used = saved_position_.next - saved_position_.returned.size() - batches_before_;
  STRETTO_CHECK(counted == used, counted, " batches are applied or dropped, and ", used, " used");
}

}  // namespace stretto
