#include "stretto/membership/hosts/members/master_side.h"

#include <utility>

#include "stretto/membership/views/pool_change.h"

namespace stretto {
namespace {

constexpr std::size_t kMostMeetings = 256;  // of some members, which one that comes back may have missed

}  // namespace

MasterSide::MasterSide(Register& reg, const MasterOptions& options, TimePoint now, MasterSideHooks hooks)
    : register_(reg), hooks_(std::move(hooks)), master_(options, now), pool_(reg, hooks_.tell), now_(now) {}

void MasterSide::lose(MemberNumber number) {
  asked_.erase(number);
  master_.lost(number);
  act();
}

void MasterSide::tick(TimePoint now) {
  now_ = now;
  part_hosts();
  for (const auto& [number, words] : std::exchange(asked_, {})) hand_out(number, words);
  master_.tick(now);
  act();
}

void MasterSide::hear_of_missed(MemberNumber number, const ProcessWords& words) {
  const auto content = known();
  const View& view = content->view;
  if (view.epoch == words.epoch && view.has(number) && view.has(words.number) && number != words.number) {
    missed_.miss(view, number, words.number, now_);
  }
}

void MasterSide::part_hosts() {
  const auto is_lost = [this](MemberNumber number) { return master_.has_lost(number); };
  const auto verdict = missed_.decide(known()->view, is_lost, now_);
  if (!verdict) return;
  hooks_.tell(verdict->why);
  for (const MemberNumber spare : master_.spares()) {
    if (!verdict->hosts.contains(master_.host_of(spare))) continue;
    hooks_.say(spare, MasterWords::of_refusal(verdict->why));
    master_.lost(spare);
  }
  for (const MemberNumber number : verdict->without) master_.lost(number);
}

void MasterSide::settle() {
  if (pool_.pool() == nullptr || !master_.has_begun()) return;
  for (const auto& [number, batches] : std::exchange(applied_, {})) pool_.pool()->settle(number, batches);
}

void MasterSide::hear(MemberNumber number, const ProcessWords& words) {
  switch (words.kind) {
    case ProcessWords::Kind::hello:
      asked_.erase(number);
      pool_.has_come(number, words.taken);
      master_.hello(words.hello);
      pass_on_to(number);
      for (const MasterWords& other : others_) hooks_.say(number, other);
      break;
    case ProcessWords::Kind::report: master_.reported(words.report); break;
    case ProcessWords::Kind::begun: master_.begun(number, words.epoch); break;
    case ProcessWords::Kind::done: master_.done(number, words.epoch); break;
    case ProcessWords::Kind::leaving: master_.leaving(number); break;
    case ProcessWords::Kind::waits: master_.waits(number, true); break;
    case ProcessWords::Kind::goes_on: master_.waits(number, false); break;
    case ProcessWords::Kind::beat: return;
    case ProcessWords::Kind::publish: return pass_on(number, words);
    case ProcessWords::Kind::misses: return hear_of_missed(number, words);
    case ProcessWords::Kind::take: return hand_out(number, words);
    default: return hooks_.say(number, MasterWords::of_refusal("this is no word of a member's"));
  }
  act();
}

void MasterSide::pass_on(MemberNumber number, const ProcessWords& words) {
  const auto content = known();
  const View& view = content->view;
  MasterWords meeting = MasterWords::of(MasterWords::Kind::meet);
  meeting.epoch = words.epoch;
  meeting.words = words.words;
  meeting.meeting = words.meeting;
  if (!words.meeting.empty()) {
    std::erase_if(others_, [&](const MasterWords& other) { return other.meeting == words.meeting; });
    if (others_.size() == kMostMeetings) others_.pop_front();
    others_.push_back(meeting);
    for (const PlacedMember& member : view.members) {
      if (member.number != number) hooks_.say(member.number, meeting);
    }
    return;
  }
  if (view.epoch != words.epoch || view.place_of(number) != 0) return;
  meeting_ = std::move(meeting);
  for (const PlacedMember& member : view.members) pass_on_to(member.number);
}

void MasterSide::pass_on_to(MemberNumber number) {
  const auto content = known();
  const View& view = content->view;
  const bool is_present = meeting_ && meeting_->epoch == view.epoch && view.has(number);
  if (is_present && view.place_of(number) != 0) hooks_.say(number, *meeting_);
}

void MasterSide::hand_out(MemberNumber number, const ProcessWords& words) {
  const auto batch =
      pool_.hand_out(number, words.taken, words.computed, words.batches, words.plan, known()->view.position, now_);
  if (!batch && batch.error().code == Errc::unavailable) {
    asked_[number] = words;
    return;
  }
  if (!batch) return hooks_.say(number, MasterWords::of_refusal(batch.error().message));
  hooks_.say(number, MasterWords::of_batch(*batch, words.taken));
}

void MasterSide::act() {
  if (std::exchange(acts_, true)) return;  // an answer of the register's is one more thing to do
  for (auto actions = master_.take_actions(); !actions.empty(); actions = master_.take_actions()) {
    for (MasterAction& action : actions) carry_out(std::move(action));
  }
  settle();
  acts_ = false;
}

void MasterSide::carry_out(MasterAction action) {
  switch (action.kind) {
    case MasterAction::Kind::read: {
      const auto content = register_.read();
      look(content);
      return master_.read(content);
    }
    case MasterAction::Kind::commit: return commit(action.content->view, std::move(action.applied));
    case MasterAction::Kind::end: {
      const Written written = register_.end(action.epoch, action.how);
      if (written == Written::done && !action.words.empty()) hooks_.tell(action.words);
      return master_.ended(written, register_.why());
    }
    case MasterAction::Kind::freeze: return hooks_.say(action.to, MasterWords::of_freeze(action.epoch));
    case MasterAction::Kind::tell:
      return hooks_.say(action.to, {.kind = MasterWords::Kind::tell, .content = std::move(action.content)});
    case MasterAction::Kind::say: return hooks_.tell(action.words);
    case MasterAction::Kind::refuse: return hooks_.say(action.to, MasterWords::of_refusal(std::move(action.words)));
    case MasterAction::Kind::kill: return hooks_.kill(action.to);
  }
}

/// What the members that are gone had in hand goes back to the pool, once the register says that they are gone.
void MasterSide::commit(View view, BatchesApplied applied) {
  std::optional<PoolChange> change;
  if (Pool* const pool = pool_.pool()) {
    change = change_pool(*pool, known()->view, view, applied);
    view.position = change->pool.position();
  }
  const std::string words = pool_.words_of(change ? &change->pool : nullptr);
  const Written written = register_.commit(view, words);
  Proposal proposal{.view = view, .applied = std::move(applied), .change = std::move(change)};
  if (written == Written::done)
    adopt(std::move(proposal));
  else if (written == Written::unknown)
    unknown_ = std::move(proposal);
  master_.committed(written, view, register_.why());
}

void MasterSide::adopt(Proposal proposal) {
  applied_ = std::move(proposal.applied);
  if (!proposal.change) return;
  pool_.commit(std::move(proposal.change->pool));
  for (const std::uint64_t batch : proposal.change->dropped) {
    hooks_.tell(text("batch ", batch, " is dropped: ", Pool::kMostLosses,
                     " members were lost that may have been computing it"));
  }
}

/// Its view may be this master's own, whose write had no answer, or another master's.
void MasterSide::look(const Result<Registered>& content) {
  if (!content) return;
  const auto proposal = std::exchange(unknown_, std::nullopt);
  if (content->view.epoch == known()->view.epoch) {
    if (register_.is_shared()) pool_.restore();  // another master may have noted batches
    return;
  }
  if (proposal && proposal->view == content->view) return adopt(*proposal);
  applied_ = {};
  pool_.restore();
}

}  // namespace stretto
