#include "stretto/collective/rounds/message_rounds.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/defect.h"
#include "stretto/collective/schedules/round_schedules.h"

namespace stretto {

MessageRounds::MessageRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options,
                             const MessageRounds* first)
    : Rounds(engine, std::move(buckets), options, "by messages"),
      first_(first),
      activated_(engine,
                 RoundProtocol({engine.rank()}, engine.size(), options.max_lag, rule_of(options, engine.size())),
                 [this](const Activation& activation) {
                   return partial_allreduce_schedule(engine_.rank(), engine_.size(), buckets_, options_.op,
                                                     options_.order, activation);
                 }),
      protocol_(activated_.protocol()),
      flights_(static_cast<std::size_t>(options.max_lag)),
      open_policies_(static_cast<std::size_t>(options.max_lag) + 2),
      front_(buckets_, options.max_lag + 3, options.op),
      ring_(buckets_, defect(Defect::carried_ring_of_w) ? options.max_lag : options.results_kept()) {
  if (options.delivery == Delivery::latest) latest_ = std::make_unique<LatestResult>(buckets_);
  open_policies_[0].store(protocol_.policy().encode(), std::memory_order_relaxed);
  enroll();
  activated_.enroll(id_);
}

Policy MessageRounds::open_policy(Round complete) {
  return Policy::decode(open_policies_[complete % open_policies_.size()].load(std::memory_order_relaxed));
}

bool MessageRounds::set_handed(Round handed) {
  // Pairs with poll(): either it sees the new value, or we see that it waits.
  handed_.store(handed, std::memory_order_seq_cst);
  return held_.load(std::memory_order_seq_cst);
}

Carried MessageRounds::take_out(Round from) const {
  Carried carried;
  for (Round round = from; round < protocol_.joined() && !defect(Defect::carried_nothing); ++round) {
    const InFlight& flight = flights_[round % flights_.size()];
    if (flight.x != nullptr) carried.deposits.push_back(copy_of(*flight.x, flight.x->facts));
  }
  const Contribution* pending = front_.front();
  if (pending != nullptr) carried.deposits.push_back(copy_of(*pending, pending->facts));
  return carried;
}

const ResultSlot* MessageRounds::kept(Round round) {
  const auto results = static_cast<Round>(options_.results_kept());
  if (round >= counted() || round + results < protocol_.joined()) return nullptr;
  return &ring_.slot(round);
}

std::optional<RoundHeader> MessageRounds::kept_header(Round round) {
  if (kept(round) == nullptr) return std::nullopt;
  return ring_.header_of(round);
}

std::optional<TimePoint> MessageRounds::take_passive_since() {
  const std::int64_t since = passive_since_.exchange(0, std::memory_order_relaxed);
  if (since == 0) return std::nullopt;
  return TimePoint{Duration(since)};
}

// ---- events at the application and at the peers ----

bool MessageRounds::poll(TimePoint now) {
  if (!poll_requests()) return false;
  // The flags before the front: a deposit made before its arrival or drain is seen with them.
  if (drained_.load(std::memory_order_acquire)) protocol_.application_drained();
  if (const Round arrived = arrived_.load(std::memory_order_acquire); arrived != 0) {
    protocol_.application_arrived(arrived - 1);
  }
  finish_ready_buckets();
  const bool completed = complete_summed();
  activated_.act(now, observer_, first_has_started(protocol_.complete()));
  join_what_may_be();
  return completed;  // joining starts operations, which the engine counts by itself
}

void MessageRounds::join_what_may_be() {
  // Where only the newest result is kept, a later one must not take the place of a full one.
  const auto full_untaken = [&] {
    return full_pending_ && protocol_.handed() <= *full_pending_ && !defect(Defect::overwrite_full);
  };
  if (!defect(Defect::never_look_again) || !protocol_.held()) {
    protocol_.application_handed(handed_.load(std::memory_order_seq_cst));
  }
  for (;;) {
    while (protocol_.may_join() && !full_untaken() && protocol_.joined() < activated_.joinable() &&
           first_has_joined(protocol_.joined()) && !flights_[protocol_.joined() % flights_.size()].busy) {
      join();
    }
    if (!protocol_.held() && !full_untaken()) break;
    // Pairs with set_handed(): tell the application that it must ring, then look once more.
    held_.store(true, std::memory_order_seq_cst);
    const Round handed = handed_.load(std::memory_order_seq_cst);
    if (handed <= protocol_.handed() || defect(Defect::never_look_again)) return;
    protocol_.application_handed(handed);
  }
  held_.store(false, std::memory_order_relaxed);
}

bool MessageRounds::admit(Round round, const Envelope& envelope) {
  return !failed() && round >= summed_ && activated_.admit(round, envelope);
}

// ---- a round ----

bool MessageRounds::call(Round round, OpId op, std::uint32_t hook) {
  if (hook == kJoinHook) {
    activated_.may_be_joined(round);
    if (!failed()) join_what_may_be();
    return false;
  }
  const int bucket = static_cast<int>(hook - kFirstReadyHook);
  InFlight& flight = flights_[round % flights_.size()];
  if (flight.x == nullptr || flight.x->ready.load(std::memory_order_acquire) > bucket) return true;
  flight.waiting_bucket = bucket;
  flight.waiting_op = op;
  return false;
}

void MessageRounds::finish_ready_buckets() {
  // Under policy full alone deposits come bucket by bucket, and then one round is in flight at a time.
  const Round first = protocol_.complete();
  for (Round round = first; round < protocol_.joined(); ++round) {
    InFlight& flight = flights_[round % flights_.size()];
    if (!flight.busy || flight.waiting_bucket < 0) continue;
    if (flight.x->ready.load(std::memory_order_acquire) <= flight.waiting_bucket) continue;
    flight.waiting_bucket = -1;
    engine_.finish(id_, round, flight.waiting_op);
  }
}

void MessageRounds::join() {
  const Round round = protocol_.joined();
  const bool arrived = protocol_.has_arrived_at(round);
  const bool drained = protocol_.drained();
  if (latest_ != nullptr && protocol_.full(round)) full_pending_ = round;
  Contribution* x = front_.take();
  if (observer_ != nullptr) observer_->taken(round, engine_.rank(), x == nullptr ? nullptr : &x->facts);
  InFlight& flight = flights_[round % flights_.size()];
  flight = {.busy = true, .x = x};
  in_flight_.fetch_add(1, std::memory_order_release);
  ResultSlot& slot = ring_.slot(round);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    std::byte* data = x == nullptr ? nullptr : x->bucket(static_cast<int>(i)).data();
    engine_.bind(id_, round, contribution_buffer(i), {data, x != nullptr});
    engine_.bind(id_, round, sum_of(i), {slot.memory[i].data(), false});
  }
  fill_header(round, x, arrived, drained);
  if (!arrived && !drained && passive_since_.load(std::memory_order_relaxed) == 0) {
    passive_since_.store(engine_.clock().now().since_start.count() | 1, std::memory_order_relaxed);
  }
  protocol_.join();
  activated_.finish_join(round);
}

void MessageRounds::fill_header(Round round, const Contribution* x, bool arrived, bool drained) {
  const int rank = engine_.rank();
  RoundHeader& header = engine_.header(id_, round, contribution_buffer(0));
  if (arrived) header.arrived.insert(rank);
  if (drained) header.drained.insert(rank);
  if (x != nullptr) enter(header, options_.rounds_before + round, rank, x->facts);
  header.forget_all_but(names_in_messages(options_, engine_.size()));
}

void MessageRounds::completed(Round round) {
  ResultSlot& slot = ring_.slot(round);
  slot.round = round;
  slot.header = engine_.header(id_, round, sum_of(0));
  for (std::size_t i = 0; i < buckets_.size(); ++i) slot.show(i, engine_.buffer(id_, round, sum_of(i)).present);
  summed_ = round + 1;
  if (defect(Defect::reuse_before_retired)) {
    InFlight& flight = flights_[round % flights_.size()];
    if (flight.x != nullptr) front_.give_back(std::exchange(flight.x, nullptr));
  }
  complete_summed();
}

bool MessageRounds::complete_summed() {
  const Round before = protocol_.complete();
  while (protocol_.complete() < summed_) {
    const Round round = protocol_.complete();
    if (first_ != nullptr && first_->protocol_.complete() <= round) break;  // its header says what follows
    ResultSlot& slot = ring_.slot(round);
    slot.policy = protocol_.policy();
    const bool own = first_ == nullptr || defect(Defect::bucket_own_policy);
    protocol_.round_completed(round, own ? slot.header : first_->ring_.header_of(round));
    if (latest_ != nullptr) latest_->publish(slot);
    const Round next = round + 1;
    open_policies_[next % open_policies_.size()].store(protocol_.policy().encode(), std::memory_order_relaxed);
    if (protocol_.stopped()) stopped_.store(true, std::memory_order_release);
    complete_.store(next, std::memory_order_release);  // pairs with complete(): all of the above is visible
  }
  return protocol_.complete() > before;
}

void MessageRounds::retired(Round round) {
  activated_.retired(round);
  InFlight& flight = flights_[round % flights_.size()];
  if (flight.x != nullptr) front_.give_back(flight.x);
  flight = {};
  in_flight_.fetch_sub(1, std::memory_order_release);
}

ProtocolState MessageRounds::state() const {
  const Round arrived = arrived_.load(std::memory_order_relaxed);
  const bool full = protocol_.full(protocol_.complete());
  // A rank that hands over bucket by bucket has come to its full round only when the last bucket is there.
  const InFlight& flight = flights_[protocol_.complete() % flights_.size()];
  const bool entered = protocol_.joined() > protocol_.complete();
  const bool ready =
      flight.x == nullptr || flight.x->ready.load(std::memory_order_relaxed) == static_cast<int>(buckets_.size());
  return {.ticket = ticket_.load(std::memory_order_relaxed),
          .handed = handed_.load(std::memory_order_relaxed),
          .complete = protocol_.complete(),
          .joined = protocol_.joined(),
          .activated = protocol_.activated(),
          .waiting = arrived == protocol_.complete() + 1 && (!full || (entered && ready)),
          .drained = protocol_.drained(),
          .full = full};
}

std::uint64_t MessageRounds::memory_bytes() const {
  const int sets = front_.num_sets() + options_.results_kept() + (latest_ != nullptr ? 2 : 0);
  return static_cast<std::uint64_t>(sets) * front_.bytes_per_set();
}

}  // namespace stretto
