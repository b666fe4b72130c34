#include "stretto/train/loop/own_loop.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <string>

#include "stretto/base/error.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/train/job/members/run_members.h"
#include "stretto/train/loop/session_options.h"

namespace stretto {
namespace {

constexpr std::uint64_t kDoesNotKnow = ~std::uint64_t{0};

SessionOptions with_hooks(SessionOptions options, const LoopHooks& hooks) {
  options.look = hooks.look;
  if (hooks.silence > Duration(0)) options.silence = hooks.silence;
  if (hooks.tell) options.tell = [tell = hooks.tell](Round, const std::string& line) { tell(line); };
  return options;
}

// One that all optimizers of a program bring would be injected several times a step.
Imbalance imbalance_of(const LoopEnvironment& environment, int ranks, int optimizer) {
  if (environment.imbalance.empty() || optimizer > 0) return {};
  try {
    return Imbalance::parse(environment.imbalance, ranks);
  } catch (const UsageError& error) {
    throw UsageError(text("STRETTO_IMBALANCE: ", error.what()));
  }
}

}  // namespace

OwnLoop::OwnLoop(RankContext& rank, Replica& replica, const DistributedOptions& options, LoopHooks hooks)
    : environment_(loop_environment()),
      options_(overridden(options, environment_)),
      lr_(LrSchedule::parse(options_.lr_schedule)),
      exceptions_(std::uncaught_exceptions()),
      imbalance_(imbalance_of(environment_, rank.size(), rank.part<RankSessions>().num_batch_sources_ever())),
      pacer_(Duration(0), clock_),
      replica_(replica),
      sessions_(rank.part<RankSessions>()),
      hooks_(std::move(hooks)),
      session_options_(with_hooks(stretto::session_options(options_, rank.size()), hooks_)),
      session_(rank, replica_, *this, session_options_),
      ledger_(rank.size(),
              session_.members_change() ? std::vector<std::string>() : rank.world().transport().members().host_names()),
      history_(number_of(rank), rank.size(), options_.max_lag),
      reporter_(environment_.out, sessions_.num_batch_sources_ever(), rank.rank()) {}

void OwnLoop::begin() {
  if (session_.members_change()) {
    check_members(options_, session_.most_ranks());
    if (!environment_.out.empty()) require_fixed("STRETTO_OUT");
    if (sessions_.num_batch_sources_ever() > 0) require_fixed("a second optimizer");
  }
  std::vector<Session::Fingerprint> same{{"options", describe(options_)}};
  if (session_.members_change()) {
    if (hooks_.describe_state) same.push_back({"registered states", hooks_.describe_state()});
    same.push_back({"checkpoint", text("after ", applied_, " batches"), /*of_beginning=*/true});
    if (session_.view().complete > 0) full_at_ = kDoesNotKnow;
  }
  session_.telling([&] { session_.begin(std::move(same)); });
  if (session_.members_change()) applied_ = session_.batches();  // a rank that came later has the model of then
  if (const std::string warning = session_.recipe().warning(); !warning.empty()) tell(warning);
  take_options();
  if (!environment_.out.empty()) {  // the ranks' clocks start together
    reporter_.look_together(session_.meeting(), session_.driver(), session_.world().transport().members());
  }
  begin_timing();
  start_ = step_began_;
  sessions_.add(*this);
}

void OwnLoop::begin_timing() {
  step_began_ = clock_.now();
  pacer_.begin();
}

// A constant rate is the caller's to change. What counts is batches: a schedule that followed the number of members
// would jump with it, and back.
void OwnLoop::set_lr() {
  if (options_.lr_schedule != "constant") replica_.set_lr_factor(lr_.factor(applied_, session_.most_ranks()));
}

void OwnLoop::take_options() {
  set_lr();
  options_hash_ = replica_.optimizer_options().hash;
}

void OwnLoop::move_to(State next) {
  const auto may_follow = [this](std::initializer_list<State> before) {
    return std::ranges::find(before, state_) != before.end();
  };
  bool allowed = false;
  switch (next) {
    case State::fresh: allowed = may_follow({State::met}); break;
    case State::going:
      allowed = may_follow({State::fresh, State::going}) ||
                ((state_ == State::resting || state_ == State::met) && session_.members_change());
      break;
    case State::resting: allowed = may_follow({State::fresh, State::going}); break;
    case State::full_round: break;  // hold_full_round() comes from it to where it was
    case State::met: allowed = may_follow({State::resting}); break;
    case State::finished: allowed = may_follow({State::going, State::resting}); break;
  }
  STRETTO_CHECK(allowed, "a loop goes from ", static_cast<int>(state_), " to ", static_cast<int>(next));
  state_ = next;
}

void OwnLoop::require_going_on(const char* call) const {
  if (ended()) throw UsageError(text(call, " after finish(), or after a failure: the job is over"));
  if (state_ == State::met) throw UsageError(text(call, " where all ranks have met: expected part() before"));
}

void OwnLoop::begin_step() {
  if (begun_ || state_ == State::resting) return;
  require_going_on("begin_step()");
  leave_if_wished();
  session_.telling([&] { session_.begin_step(1, waited_); });
  begun_ = true;
}

int OwnLoop::step(std::uint64_t samples, std::uint64_t batches) {
  return take_step("step()", [&] {
    session_.set_samples(samples);
    if (session_.members_change()) count_batches(batches);
    session_.end_backward(text("step ", steps_));
    if (hooks_.computed) hooks_.computed();
    session_.deposit(clock_.now() - step_began_);
    ++deposits_;
  });
}

void OwnLoop::count_batches(std::uint64_t batches) {
  constexpr std::uint64_t kMost = PartialOptions::kMostBatchesOfAChangingMember;
  const bool counts = session_.recipe().averages_gradients();
  const std::uint64_t more = counts ? std::min(dropped_, kMost - std::min(batches, kMost)) : 0;
  session_.set_batches(batches + more);
  dropped_ -= more;
}

int OwnLoop::pass(std::uint64_t batches) {
  if (!session_.recipe().averages_gradients()) require_fixed("pass()");
  drop_batches(batches);
  return take_step("pass()", [&] { session_.pass(); });
}

int OwnLoop::take_step(const char* name, FunctionRef<void()> hand_over) {
  require_going_on(name);
  if (session_.drained() || state_ == State::resting) {
    throw UsageError(
        text(name,
             " after finish() of another optimizer, by which this rank has no more batches for any; where every "
             "rank has made as many steps, finish the other with Others::go_on"));
  }
  begin_step();
  if (imbalance_.injected()) pacer_.end(1, imbalance_.draw(environment_.seed, session_.rank(), steps_));
  const int rounds = call([&] {
    move_to(State::going);
    hand_over();
    begun_ = false;
    if (hooks_.deposited) hooks_.deposited();
    ++steps_;
    const TimePoint arrived = clock_.now();
    const int rounds = session_.take();
    waited_ = clock_.now() - arrived;
    history_.step(waited_);
    reporter_.step(step_began_ - start_, arrived - step_began_, waited_);
    begin_timing();
    return rounds;
  });
  leave_if_wished();
  return rounds;
}

void OwnLoop::leave() {
  if (!session_.members_change()) {
    throw UsageError("leave() where the members of the job stay the same: expected a job with a range of ranks");
  }
  session_.wish_to_leave();
}

void OwnLoop::leave_if_wished() {
  if (!session_.members_change()) return;
  call([&] {
    session_.leave_if_wished();
    return true;
  });
}

void OwnLoop::members_are_new() {
  const View& view = session_.view();
  NewMembers now{.rank = session_.rank(), .ranks = session_.ranks(), .joined = {}, .lost = {}, .left = {}};
  const auto before = std::exchange(members_, {});
  for (const PlacedMember& member : view.members) members_.push_back(member.number);
  std::ranges::sort(members_);
  std::ranges::set_difference(members_, before, std::back_inserter(now.joined));
  for (const MemberNumber member : before) {
    if (!view.has(member)) (view.has_departed(member) ? now.left : now.lost).push_back(member);
  }
  if (hooks_.members) hooks_.members(now);
}

void OwnLoop::require_fixed(const char* call) const {
  if (session_.members_change()) throw UsageError(text(call, " where members of the job change: not yet"));
}

void OwnLoop::abort(const Error& why) {
  under_way_ = true;
  session_.abort(why);
}

void OwnLoop::before(const RoundResult&) {
  set_lr();
}

LoopCounts OwnLoop::take_counts() {
  return hooks_.take_counts ? hooks_.take_counts() : LoopCounts{};
}

void OwnLoop::counted(const LoopCounts& sum, int ranks) {
  if (hooks_.counted) hooks_.counted(sum, ranks);
}

void OwnLoop::after(const RoundResult& result) {
  applied_ = session_.members_change() ? session_.batches() : applied_ + result.header->batches;
  const auto book = [&](const RoundHeader& header) {
    ledger_.add(result.round, result.policy.encode(), header, seconds(clock_.now() - start_));
    history_.add(result.round, header);
  };
  if (session_.members_change()) {
    ledger_.grow(session_.num_members());
    history_.grow(session_.num_members());
    book(session_.by_number(result.round, *result.header, ledger_.ranks()));
  } else {
    book(*result.header);
  }
  if (hooks_.applied) hooks_.applied(applied_, result.header->ranks());
  if (on_round_) on_round_(result);
  hold_full_round(result);
  if (watches_options_) options_hash_ = replica_.optimizer_options().hash;
}

void OwnLoop::hold_full_round(const RoundResult& result) {
  const std::uint64_t every = options_.full_every;
  if (every == 0 || result.policy.kind != Policy::Kind::full) return;
  const bool members_change = session_.members_change();
  // Other ranks meet neither in rounds that this one has lacked, nor in those behind one that a change has cut off.
  if (members_change && (session_.catches_up() || session_.meeting().interrupted())) return;
  const State before = state_;
  const bool held = session_.unless_cut_off([&] {
    if (members_change) agree_on_last_held();
    if (applied_ / every == full_at_ / every) return;
    session_.meeting().average_buffers(session_.driver());
    state_ = State::full_round;
    if (on_full_round_) on_full_round_();
  });
  const bool was_told = std::exchange(state_, before) == State::full_round;
  if (held && was_told && !(members_change && session_.meeting().interrupted())) full_at_ = applied_;
}

void OwnLoop::agree_on_last_held() {
  const std::uint64_t epoch = session_.view().epoch;
  if (agreed_in_ == epoch) return;
  std::uint64_t least = kDoesNotKnow;
  for (const Meeting::Numbers& theirs : session_.meeting().gather(session_.driver(), {full_at_})) {
    least = std::min(least, theirs[0]);
  }
  full_at_ = least == kDoesNotKnow ? 0 : least;
  agreed_in_ = epoch;
}

void OwnLoop::go_on_from(std::uint64_t applied, std::uint64_t steps) {
  applied_ = full_at_ = applied;
  steps_ = steps_before_ = steps;
  session_.members_change() ? session_.go_on_after(applied) : session_.recipe().go_on_after(applied);
}

void OwnLoop::tell(const std::string& line) const {
  if (session_.rank() != 0) return;
  if (hooks_.tell) return hooks_.tell(line);
  std::fprintf(stderr, "stretto: %s\n", line.c_str());
}

}  // namespace stretto
