#include "stretto/collective/partial_allreduce.h"

#include <algorithm>
#include <cmath>

#include "stretto/collective/board_rounds.h"
#include "stretto/collective/partial_rounds.h"
#include "stretto/collective/ticket.h"
#include "stretto/collective/two_level_rounds.h"

namespace stretto {

class PartialAllreduce::Impl {
 public:
  Impl(std::unique_ptr<Rounds> runs_on, const PartialOptions& options)
      : owned(std::move(runs_on)), rounds(*owned), ticket(options.max_lag) {}

  const std::unique_ptr<Rounds> owned;
  Rounds& rounds;
  Ticket ticket;
  bool waiting = false;
  bool draining = false;
  std::optional<TimePoint> began;  // a deposit handed over bucket by bucket
  int taken = 0;                   // results handed over in the current exchange

  void note_facts(Contribution& contribution, const DepositInfo& info);
  void take_results(Round complete, Apply apply);
  void hand_over(const ResultSlot& slot, Apply apply);
  void advance_handed();
};

namespace {

std::vector<BucketSpec> checked(std::vector<BucketSpec> buckets) {
  if (buckets.empty()) throw UsageError("a partial allreduce needs at least one bucket");
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].count == 0) throw UsageError(text("bucket ", i, " is empty: give it at least one element"));
  }
  return buckets;
}

std::unique_ptr<Rounds> rounds_for(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options) {
  const bool meet = engine.arena() != nullptr && engine.size() > 1 && options.seats != 1 &&
                    options.delivery == Delivery::every && options.deposits == DepositKind::taken;
  if (options.seats < 0 || options.seats > engine.size()) {
    throw UsageError(text("seats ", options.seats, " with ", engine.size(), " ranks: use 1 to ", engine.size(),
                          ", or 0 for all of them"));
  }
  if (meet && options.seats != 0 && options.seats < engine.size()) {
    return std::make_unique<TwoLevelRounds>(engine, std::move(buckets), options);
  }
  if (meet) return std::make_unique<BoardRounds>(engine, std::move(buckets), options);
  return std::make_unique<PartialRounds>(engine, std::move(buckets), options);
}

float as_seconds(Duration d) {
  return static_cast<float>(seconds(d));
}

}  // namespace

PartialAllreduce::PartialAllreduce(Engine& engine, std::vector<BucketSpec> buckets, PartialOptions options)
    : impl_(std::make_unique<Impl>(rounds_for(engine, checked(std::move(buckets)), options), options)) {}

PartialAllreduce::~PartialAllreduce() = default;

Contribution& PartialAllreduce::acquire() {
  return impl_->rounds.acquire();
}

void PartialAllreduce::Impl::note_facts(Contribution& contribution, const DepositInfo& info) {
  if (info.batches == 0) throw UsageError("a deposit of 0 batches: deposit only what has been computed");
  STRETTO_CHECK(!draining, "deposit after finish");
  const Round base = ticket.handed();
  contribution.facts = {.batches = info.batches,
                        .samples = info.samples,
                        .oldest_base = base,
                        .sum_of_bases = base * info.batches,
                        .times = {.computed = as_seconds(info.computed), .waited = as_seconds(info.waited)}};
  if (const auto since = rounds.passive_since()) {
    const Duration late = rounds.engine().clock().now() - *since;
    contribution.facts.times.late = std::max(0.0f, as_seconds(late));
    rounds.clear_passive();
  }
}

DepositSteps PartialAllreduce::start_deposit(Contribution& contribution, const DepositInfo& info) {
  impl_->note_facts(contribution, info);
  contribution.ready.store(num_buckets(), std::memory_order_relaxed);
  return impl_->rounds.deposit(contribution);
}

void PartialAllreduce::deposit(Contribution& contribution, const DepositInfo& info) {
  auto deposit = start_deposit(contribution, info);
  while (!deposit.step()) {
  }
}

void PartialAllreduce::begin_deposit(Contribution& contribution, const DepositInfo& info) {
  if (options().policy.kind != Policy::Kind::full) {
    throw UsageError(text("policy ", options().policy.to_string(), ": only full takes a deposit bucket by bucket"));
  }
  STRETTO_CHECK(!impl_->rounds.deposit_pending() && !impl_->waiting, "a deposit is pending already");
  impl_->note_facts(contribution, info);
  contribution.ready.store(0, std::memory_order_relaxed);
  auto deposit = impl_->rounds.deposit(contribution);
  while (!deposit.step()) {
  }
  impl_->waiting = true;
  impl_->rounds.set_arrived(impl_->ticket.next());
}

void PartialAllreduce::bucket_ready(Contribution& contribution, int bucket) {
  STRETTO_CHECK(bucket == contribution.ready.load(std::memory_order_relaxed), "bucket ", bucket, " out of order");
  contribution.ready.store(bucket + 1, std::memory_order_release);
  impl_->rounds.bucket_ready(contribution);
}

void PartialAllreduce::Impl::hand_over(const ResultSlot& slot, Apply apply) {
  apply({.round = slot.round, .policy = slot.policy, .header = &slot.header, .buckets = slot.buckets});
  ++taken;
}

void PartialAllreduce::Impl::advance_handed() {
  rounds.set_ticket(ticket.next());
  if (rounds.set_handed(ticket.handed())) rounds.engine().doorbell().ring();
}

void PartialAllreduce::Impl::take_results(Round complete, Apply apply) {
  if (rounds.options().delivery == Delivery::latest) {
    if (ticket.handed() == complete) return;
    const ResultSlot& slot = rounds.latest();
    if (slot.round >= ticket.handed()) hand_over(slot, apply);
    ticket.skip_to(std::max(complete, slot.round + 1));
    return advance_handed();
  }
  while (ticket.handed() < complete) {
    hand_over(rounds.result(ticket.handed()), apply);
    ticket.handed_over();
    advance_handed();
  }
}

Result<PartialAllreduce::Progress> PartialAllreduce::try_exchange(Apply apply) {
  Impl& my = *impl_;
  STRETTO_CHECK(!my.draining, "exchange after finish");
  if (my.rounds.failed()) return my.rounds.failure();
  Round complete = my.rounds.complete();
  if (!my.waiting) {
    const bool full = my.rounds.open_policy(complete).kind == Policy::Kind::full;
    switch (my.ticket.decide(complete, full)) {
      case Ticket::Move::catch_up:
        my.take_results(complete, apply);
        my.ticket.caught_up(complete);
        my.rounds.set_ticket(my.ticket.next());
        return Progress::done;
      case Ticket::Move::catch_up_then_arrive:
        if (!defect(Defect::join_before_taking_results)) my.take_results(complete, apply);
        my.ticket.move_to_front(complete);
        break;
      case Ticket::Move::arrive: break;
    }
    my.waiting = true;
    my.rounds.set_ticket(my.ticket.next());
    my.rounds.set_arrived(my.ticket.next());
  }
  complete = my.rounds.complete();
  if (complete <= my.ticket.next()) return Progress::waiting;
  my.waiting = false;
  my.rounds.clear_passive();
  my.take_results(complete, apply);
  my.ticket.passed();
  my.rounds.set_ticket(my.ticket.next());
  return Progress::done;
}

Result<PartialAllreduce::Progress> PartialAllreduce::try_finish(Apply apply) {
  Impl& my = *impl_;
  if (my.rounds.failed()) return my.rounds.failure();
  if (!my.draining) {
    STRETTO_CHECK(!my.waiting, "finish while an exchange is waiting");
    my.draining = true;
    my.rounds.set_drained();
  }
  // Stopped before complete: what is read first must not be older.
  const bool stopped = my.rounds.stopped();
  my.take_results(my.rounds.complete(), apply);
  return stopped && my.rounds.in_flight() == 0 ? Progress::done : Progress::waiting;
}

Result<int> PartialAllreduce::exchange(EngineDriver& driver, TimePoint deadline, Apply apply) {
  impl_->taken = 0;
  for (;;) {
    const auto progress = try_exchange(apply);
    if (!progress) return progress.error();
    if (*progress == Progress::done) return impl_->taken;
    const Round round = impl_->ticket.next();
    const auto over = [&] { return impl_->rounds.complete() > round || impl_->rounds.failed(); };
    if (!driver.wait(over, deadline, EngineDriver::Looking::first, impl_->rounds.signal())) {
      return Error{Errc::timeout, who(driver, std::chrono::milliseconds(200)), -1};
    }
  }
}

Result<int> PartialAllreduce::finish(EngineDriver& driver, TimePoint deadline, Apply apply) {
  impl_->taken = 0;
  for (;;) {
    const auto progress = try_finish(apply);
    if (!progress) return progress.error();
    if (*progress == Progress::done) return impl_->taken;
    const Round handed = impl_->ticket.handed();
    Rounds& rounds = impl_->rounds;
    const auto over = [&] {
      return rounds.failed() || rounds.complete() > handed || (rounds.stopped() && rounds.in_flight() == 0);
    };
    if (!driver.wait(over, deadline, EngineDriver::Looking::first, impl_->rounds.signal())) {
      return Error{Errc::timeout, who(driver, std::chrono::milliseconds(200)), -1};
    }
  }
}

void PartialAllreduce::abort(EngineDriver& driver, const std::string& reason) {
  impl_->rounds.request_abort(reason);
  driver.notify();
  driver.wait([&] { return impl_->rounds.failed(); }, driver.deadline(std::chrono::seconds(5)));
}

std::string PartialAllreduce::who(EngineDriver& driver, Duration patience) {
  Rounds& rounds = impl_->rounds;
  const Round open = rounds.complete();
  rounds.ask_who();
  // What belongs to the driving thread is read while this thread drives.
  std::vector<Duration> silent(static_cast<std::size_t>(ranks()));
  const auto answered = [&] {
    for (int peer = 0; peer < ranks(); ++peer) {
      silent[static_cast<std::size_t>(peer)] = rounds.engine().clock().now() - rounds.engine().last_heard(peer);
    }
    return rounds.all_answered() || rounds.failed();
  };
  driver.wait(answered, driver.deadline(patience));
  std::string missing;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const Rounds::Answer answer = rounds.answer(peer);
    const ProtocolState& state = answer.state;
    if (answer.here && (state.drained || state.waiting || state.complete > open)) continue;
    missing += text(missing.empty() ? "" : ", ", "rank ", peer);
    if (!answer.here) {
      missing += text(" (silent, last seen ", std::lround(seconds(silent[static_cast<std::size_t>(peer)])), " s ago)");
    } else {
      missing += state.complete < open ? text(" (at round ", state.complete, ")") : std::string(" (computing)");
    }
  }
  if (missing.empty()) missing = "nobody: all ranks have come";
  return text("round ", open, " (", rounds.open_policy(open).to_string(), ") waits for ", missing);
}

int PartialAllreduce::rank() const {
  return impl_->rounds.engine().rank();
}
int PartialAllreduce::ranks() const {
  return impl_->rounds.engine().size();
}
int PartialAllreduce::num_buckets() const {
  return static_cast<int>(impl_->rounds.buckets().size());
}
int PartialAllreduce::num_contribution_sets() const {
  return impl_->rounds.num_contribution_sets();
}
std::uint64_t PartialAllreduce::memory_bytes() const {
  return impl_->rounds.memory_bytes();
}
const PartialOptions& PartialAllreduce::options() const {
  return impl_->rounds.options();
}
void PartialAllreduce::observe(PartialObserver& observer) {
  impl_->rounds.observe(observer);
}

Round PartialAllreduce::handed() const {
  return impl_->ticket.handed();
}
ProtocolState PartialAllreduce::state() const {
  ProtocolState state = impl_->rounds.state();
  state.ticket = impl_->ticket.next();
  state.handed = impl_->ticket.handed();
  return state;
}

}  // namespace stretto
