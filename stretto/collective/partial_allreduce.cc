#include "stretto/collective/partial_allreduce.h"

#include <algorithm>

#include "stretto/base/machine/pages.h"
#include "stretto/collective/probes.h"
#include "stretto/collective/protocol/ticket.h"
#include "stretto/collective/rounds/board_rounds.h"
#include "stretto/collective/rounds/bucket_rounds.h"
#include "stretto/collective/rounds/message_rounds.h"

namespace stretto {

class PartialAllreduce::Impl {
 public:
  Impl(std::unique_ptr<Rounds> runs_on, const PartialOptions& options)
      : owned(std::move(runs_on)), rounds(*owned), ticket(options.max_lag) {}
  ~Impl() {
    const Engine::Pause pause(rounds.engine());
    rounds.withdraw();
  }

  const std::unique_ptr<Rounds> owned;
  Rounds& rounds;
  Ticket ticket;
  bool waiting = false;
  bool draining = false;
  std::optional<TimePoint> began;   // a deposit handed over bucket by bucket
  int taken = 0;                    // results handed over in the current exchange
  Contribution* filling = nullptr;  // given out by acquire() and not deposited

  void note_facts(Contribution& contribution, const DepositInfo& info);
  DepositSteps start_deposit(Contribution& contribution, const DepositInfo& info);
  void take_results(Round complete, Apply apply);
  RoundResult result_in(const ResultSlot& slot) const;
  void hand_over(const ResultSlot& slot, std::span<const PassedRound> passed, Apply apply);
  void advance_handed();
  void end_wait(Round complete, Apply apply);
  Result<PartialAllreduce::Progress> exchange_frozen(Apply apply);
  Error members_changed() const;
  /// The number of the job's round `round` in this world.
  Round here(Round round) const { return round - rounds.options().rounds_before; }
  void expect_frozen(const char* call) const;
};

namespace {

constexpr int kLargestLag = 1000;  // so many results are kept

std::vector<BucketSpec> checked(std::vector<BucketSpec> buckets, ReduceOp op) {
  if (buckets.empty()) throw UsageError("a partial allreduce needs at least one bucket");
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].count == 0) throw UsageError(text("bucket ", i, " is empty: give it at least one element"));
    check_reduction(buckets[i].type, op);
    bytes += checked_bytes(buckets[i].type, buckets[i].count);
    if (bytes > kMaxArrayBytes)
      throw UsageError(text("buckets 0 to ", i, " have more than ", kMaxArrayBytes, " bytes"));
  }
  return buckets;
}

void check_header(const PartialOptions& options, int ranks) {
  const std::size_t bytes = RoundHeader::max_wire_bytes(ranks, names_in_messages(options, ranks));
  if (bytes <= kMaxHeadBytes) return;
  throw UsageError(text("the header of a round of ", ranks, " ranks takes ", bytes, " bytes",
                        options.name_all_ranks ? " where it names them all" : "", "; at most ", kMaxHeadBytes,
                        " travel with a message", options.name_all_ranks ? ": leave name_all_ranks out" : ""));
}

void check_bucket_rounds(const PartialOptions& options, bool one_board_at_most) {
  const auto refuse = [&](const std::string& what) {
    throw UsageError(text("buckets_per_round ", options.buckets_per_round, ' ', what));
  };
  if (options.buckets_per_round < 0) refuse("is impossible: use at least 1, or 0 for rounds of all buckets");
  if (options.delivery == Delivery::latest) refuse("with delivery latest: use every");
  if (!one_board_at_most) refuse(text("with seats ", options.seats, ": use 1, or 0 for one board"));
}

void check_members(const PartialOptions& options) {
  if (!options.members_change) {
    if (options.rounds_before == 0) return;
    throw UsageError(text("rounds_before ", options.rounds_before, " without members_change: use both, or neither"));
  }
  const char* fixed = options.delivery == Delivery::latest ? "delivery latest: use every"
                      : options.buckets_per_round != 0     ? "buckets_per_round: use 0"
                                                           : nullptr;
  if (fixed != nullptr) throw UsageError(text("members_change with ", fixed));
}

/// The rounds of each so many buckets.
template <class Held>
std::vector<std::unique_ptr<Rounds>> bucket_parts(Engine& engine, const std::vector<BucketSpec>& buckets,
                                                  const PartialOptions& options) {
  std::vector<std::unique_ptr<Rounds>> parts;
  Held* first_part = nullptr;
  const auto in_a_round = static_cast<std::size_t>(options.buckets_per_round);
  for (std::size_t first = 0; first < buckets.size(); first += in_a_round) {
    const auto some = std::span(buckets).subspan(first, std::min(in_a_round, buckets.size() - first));
    auto part = std::make_unique<Held>(engine, std::vector<BucketSpec>(some.begin(), some.end()), options, first_part);
    if (first_part == nullptr) first_part = part.get();
    parts.push_back(std::move(part));
  }
  return parts;
}

std::unique_ptr<Rounds> rounds_for(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options) {
  if (options.max_lag > kLargestLag) {
    throw UsageError(text("max_lag ", options.max_lag, " is impossible: use at most ", kLargestLag));
  }
  check_members(options);
  if (options.seats < 0 || options.seats > engine.size()) {
    throw UsageError(text("seats ", options.seats, " with ", engine.size(), " ranks: use 1 to ", engine.size(),
                          ", or 0 for all of them"));
  }
  if (options.piece_bytes == 0 || options.piece_bytes % kCacheLine != 0) {
    throw UsageError(text("piece_bytes ", options.piece_bytes, ": use a multiple of ", kCacheLine));
  }
  const bool several = options.buckets_per_round != 0 && engine.members().hosts() > 1;
  const char* no_board = options.delivery == Delivery::latest ? "delivery latest goes by messages"
                         : engine.host().arena == nullptr     ? "the ranks share no memory"
                         : several ? "rounds of each bucket go by messages where there are several hosts"
                                   : nullptr;
  if (options.seats > 1 && no_board != nullptr) {
    throw UsageError(text("seats ", options.seats, ", but ", no_board, ": use 1, or 0"));
  }
  const int boards = options.seats == 1 || no_board != nullptr
                         ? engine.size()
                         : Seating(engine.members(), engine.rank(), options.seats).boards();
  const bool by_messages = boards == engine.size();
  const bool one_board = boards == 1;
  if (by_messages || !one_board) check_header(options, engine.size());
  if (options.buckets_per_round != 0) {
    check_bucket_rounds(options, by_messages || one_board);
    auto parts = by_messages ? bucket_parts<MessageRounds>(engine, buckets, options)
                             : bucket_parts<BoardRounds>(engine, buckets, options);
    return std::make_unique<BucketRounds>(engine, std::move(buckets), options, std::move(parts));
  }
  if (by_messages) return std::make_unique<MessageRounds>(engine, std::move(buckets), options);
  return std::make_unique<BoardRounds>(engine, std::move(buckets), options);
}

float as_seconds(Duration d) {
  return static_cast<float>(seconds(d));
}

}  // namespace

PartialAllreduce::PartialAllreduce(Engine& engine, std::vector<BucketSpec> buckets, PartialOptions options) {
  const Engine::Pause pause(engine);
  impl_ = std::make_unique<Impl>(rounds_for(engine, checked(std::move(buckets), options.op), options), options);
}

PartialAllreduce::~PartialAllreduce() = default;

Contribution& PartialAllreduce::acquire() {
  if (impl_->filling != nullptr) {
    throw UsageError(text("acquire() before the contribution it returned last, set ", impl_->filling->index(),
                          ", has been deposited"));
  }
  impl_->filling = &impl_->rounds.acquire();
  return *impl_->filling;
}

void PartialAllreduce::Impl::note_facts(Contribution& contribution, const DepositInfo& info) {
  if (info.batches == 0 && rounds.options().policy.kind != Policy::Kind::full) {
    throw UsageError("a deposit of 0 batches: deposit only what has been computed");
  }
  if (draining) throw UsageError("deposit() after finish(): this rank has said that it has no more batches");
  if (rounds.options().members_change && info.batches > PartialOptions::kMostBatchesOfAChangingMember) {
    throw UsageError(text("a deposit of ", info.batches, " batches where the members of the job may change: expected ",
                          PartialOptions::kMostBatchesOfAChangingMember, " at most"));
  }
  if (&contribution != filling) {
    throw UsageError(text("deposit() of set ", contribution.index(),
                          ", which acquire() has not returned, or which has been deposited already"));
  }
  filling = nullptr;
  const Round base = rounds.options().rounds_before + ticket.handed();
  contribution.facts = {.batches = info.batches,
                        .samples = info.samples,
                        .oldest_base = base,
                        .sum_of_bases = base * info.batches,
                        .times = {.computed = as_seconds(info.computed), .waited = as_seconds(info.waited)}};
  if (rounds.options().members_change) contribution.facts.times.batches = static_cast<std::uint16_t>(info.batches);
  if (const auto since = rounds.take_passive_since()) {
    const Duration late = rounds.engine().clock().now() - *since;
    contribution.facts.times.late = std::max(0.0f, as_seconds(late));
  }
}

DepositSteps PartialAllreduce::Impl::start_deposit(Contribution& contribution, const DepositInfo& info) {
  note_facts(contribution, info);
  contribution.ready.store(static_cast<int>(rounds.buckets().size()), std::memory_order_relaxed);
  return rounds.deposit(contribution);
}

void PartialAllreduce::deposit(Contribution& contribution, const DepositInfo& info) {
  auto deposit = impl_->start_deposit(contribution, info);
  while (!deposit.step()) {
  }
}

void PartialAllreduce::begin_deposit(Contribution& contribution, const DepositInfo& info) {
  if (options().buckets_per_round != 0) {
    impl_->note_facts(contribution, info);
    contribution.ready.store(0, std::memory_order_relaxed);
    (void)impl_->rounds.deposit(contribution);  // whose buckets follow
    return;
  }
  if (options().members_change) {
    throw UsageError("begin_deposit() where members may change: deposit() all buckets at once");
  }
  if (options().policy.kind != Policy::Kind::full) {
    throw UsageError(text("policy ", options().policy.to_string(), ": only full takes a deposit bucket by bucket"));
  }
  if (impl_->rounds.deposit_pending() || impl_->waiting) {
    throw UsageError("begin_deposit() while a deposit is pending: call exchange() until its round is complete");
  }
  impl_->note_facts(contribution, info);
  contribution.ready.store(0, std::memory_order_relaxed);
  auto deposit = impl_->rounds.deposit(contribution);
  while (!deposit.step()) {
  }
  impl_->waiting = true;
  impl_->rounds.set_arrived(impl_->ticket.next());
}

void PartialAllreduce::bucket_ready(Contribution& contribution, int bucket) {
  const int next = contribution.ready.load(std::memory_order_relaxed);
  if (bucket != next || next == num_buckets()) {
    throw UsageError(text("bucket_ready(", bucket, ") where ", next, " of ", num_buckets(),
                          " buckets are there: each is handed over once, in order"));
  }
  contribution.ready.store(bucket + 1, std::memory_order_release);
  impl_->rounds.bucket_ready(contribution);
}

RoundResult PartialAllreduce::Impl::result_in(const ResultSlot& slot) const {
  return {.round = rounds.options().rounds_before + slot.round,
          .policy = slot.policy,
          .header = &slot.header,
          .buckets = slot.buckets,
          .passed = {},
          .headers = slot.headers};
}

void PartialAllreduce::Impl::hand_over(const ResultSlot& slot, std::span<const PassedRound> passed, Apply apply) {
  RoundResult result = result_in(slot);
  result.passed = passed;
  apply(result);
  ++taken;
}

void PartialAllreduce::Impl::advance_handed() {
  rounds.set_ticket(ticket.next());
  if (rounds.set_handed(ticket.handed())) rounds.engine().doorbell().ring();
}

void PartialAllreduce::Impl::take_results(Round complete, Apply apply) {
  if (rounds.options().delivery == Delivery::latest) {
    if (ticket.handed() == complete) return;
    const ResultSlot& slot = rounds.result(ticket.handed());
    if (slot.round >= ticket.handed()) hand_over(slot, rounds.passed(), apply);
    ticket.skip_to(std::max(complete, slot.round + 1));
    return advance_handed();
  }
  while (ticket.handed() < complete) {
    hand_over(rounds.result(ticket.handed()), {}, apply);
    ticket.handed_over();
    advance_handed();
  }
}

/// The round it has waited at is complete.
void PartialAllreduce::Impl::end_wait(Round complete, Apply apply) {
  waiting = false;
  (void)rounds.take_passive_since();  // this rank was there in the end
  take_results(complete, apply);
  ticket.passed();
  rounds.set_ticket(ticket.next());
}

/// The engine steps no more: what counts is taken, and nobody is waited for.
Result<PartialAllreduce::Progress> PartialAllreduce::Impl::exchange_frozen(Apply apply) {
  const Round complete = rounds.counted();
  if (waiting && complete > ticket.next()) {
    end_wait(complete, apply);
    return Progress::done;
  }
  take_results(complete, apply);
  return members_changed();
}

Error PartialAllreduce::Impl::members_changed() const {
  return {Errc::members_changed,
          text("the members of the job change after round ", rounds.options().rounds_before + ticket.handed(),
               " on rank ", rounds.engine().rank()),
          -1};
}

Result<PartialAllreduce::Progress> PartialAllreduce::try_exchange(Apply apply) {
  Impl& my = *impl_;
  if (my.draining) throw UsageError("exchange() after finish(): this rank has said that it has no more batches");
  if (my.rounds.failed()) return *my.rounds.failure();
  Round complete = my.rounds.counted();
  if (my.rounds.engine().frozen()) return my.exchange_frozen(apply);
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
  complete = my.rounds.counted();
  if (complete <= my.ticket.next()) return Progress::waiting;
  my.end_wait(complete, apply);
  return Progress::done;
}

Result<PartialAllreduce::Progress> PartialAllreduce::try_finish(Apply apply) {
  Impl& my = *impl_;
  if (my.rounds.failed()) return *my.rounds.failure();
  if (!my.draining) {
    if (my.waiting) {
      throw UsageError("finish() while an exchange waits: call exchange() until its round is complete, or abort()");
    }
    my.draining = true;
    my.rounds.set_drained();
  }
  // Both are read before counted(), so that all results are taken once they say so.
  const bool frozen = my.rounds.engine().frozen();
  const bool over = my.rounds.over();
  const Round complete = my.rounds.counted();
  my.take_results(complete, apply);
  if (frozen) return my.members_changed();
  return over ? Progress::done : Progress::waiting;
}

bool PartialAllreduce::wait(Driver& driver, TimePoint deadline) {
  Rounds& rounds = impl_->rounds;
  const bool draining = impl_->draining;
  const Round round = draining ? impl_->ticket.handed() : impl_->ticket.next();
  const auto goes_on = [&] {
    return rounds.failed() || rounds.complete() > round || (draining && rounds.over()) || rounds.engine().frozen();
  };
  return driver.wait(goes_on, deadline, Driver::Looking::first, rounds.signal());
}

Result<int> PartialAllreduce::exchange(Driver& driver, TimePoint deadline, Apply apply) {
  impl_->taken = 0;
  for (;;) {
    const auto progress = try_exchange(apply);
    if (!progress) return progress.error();
    if (*progress == Progress::done) return impl_->taken;
    if (wait(driver, deadline)) continue;
    return Error{Errc::timeout, who_is_missing(driver, std::chrono::milliseconds(200)), -1};
  }
}

Result<int> PartialAllreduce::finish(Driver& driver, TimePoint deadline, Apply apply) {
  impl_->taken = 0;
  for (;;) {
    const auto progress = try_finish(apply);
    if (!progress) return progress.error();
    if (*progress == Progress::done) return impl_->taken;
    if (wait(driver, deadline)) continue;
    return Error{Errc::timeout, who_is_missing(driver, std::chrono::milliseconds(200)), -1};
  }
}

// ---- from one world to the next ----

void PartialAllreduce::Impl::expect_frozen(const char* call) const {
  if (rounds.options().members_change && rounds.engine().frozen()) return;
  throw UsageError(text(
      call, rounds.options().members_change ? " before Engine::freeze()" : " of a collective without members_change"));
}

Round PartialAllreduce::complete() {
  impl_->expect_frozen("complete()");
  return options().rounds_before + impl_->rounds.counted();
}

std::optional<RoundResult> PartialAllreduce::result_of(Round round) {
  impl_->expect_frozen("result_of()");
  if (round < options().rounds_before) return std::nullopt;
  const ResultSlot* slot = impl_->rounds.kept(impl_->here(round));
  return slot != nullptr ? std::optional(impl_->result_in(*slot)) : std::nullopt;
}

std::optional<RoundHeader> PartialAllreduce::header_of(Round round) {
  impl_->expect_frozen("header_of()");
  if (round < options().rounds_before) return std::nullopt;
  return impl_->rounds.kept_header(impl_->here(round));
}

Carried PartialAllreduce::take_out(Round round) {
  impl_->expect_frozen("take_out()");
  if (round < complete()) {
    throw UsageError(text("take_out(", round, ") where ", complete(),
                          " rounds are complete: use the largest number of ", "complete rounds of all ranks"));
  }
  return impl_->rounds.take_out(impl_->here(round));
}

void PartialAllreduce::put_in(const Carried& carried) {
  Impl& my = *impl_;
  if (my.rounds.deposit_pending() || my.waiting || my.draining || my.ticket.next() > 0) {
    throw UsageError("put_in() after another deposit or exchange: it comes first");
  }
  for (const Carried::Deposit& deposit : carried.deposits) {
    Contribution& mine = my.rounds.acquire();
    for (int i = 0; i < num_buckets(); ++i) {
      const auto to = mine.bucket(i);
      const auto bucket = static_cast<std::size_t>(i);
      const std::size_t bytes = bucket < deposit.buckets.size() ? deposit.buckets[bucket].size() : 0;
      if (bytes != to.size() || deposit.buckets.size() != static_cast<std::size_t>(num_buckets())) {
        throw UsageError(text("put_in() of ", deposit.buckets.size(), " buckets, of which bucket ", i, " has ", bytes,
                              " bytes; here there are ", num_buckets(), ", and it has ", to.size()));
      }
      std::ranges::copy(deposit.buckets[bucket], to.begin());
    }
    mine.facts = deposit.facts;
    mine.ready.store(num_buckets(), std::memory_order_relaxed);
    DepositSteps steps = my.rounds.deposit(mine);
    while (!steps.step()) {
    }
  }
}

void PartialAllreduce::abort(Driver& driver, const Error& why) {
  impl_->rounds.abort(driver, why);
}
std::optional<Error> PartialAllreduce::failure() const {
  return impl_->rounds.failure();
}
std::string PartialAllreduce::who_is_missing(Driver& driver, Duration timeout) {
  return impl_->rounds.who_is_missing(driver, timeout);
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
bool PartialAllreduce::on_boards() const {
  return impl_->rounds.on_boards();
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
Round PartialAllreduce::handed() const {
  return options().rounds_before + impl_->ticket.handed();
}

// ---- the probe ----

DepositSteps PartialProbe::start_deposit(Contribution& contribution, const DepositInfo& info) {
  return allreduce_.impl_->start_deposit(contribution, info);
}

ProtocolState PartialProbe::state() const {
  const PartialAllreduce::Impl& my = *allreduce_.impl_;
  ProtocolState state = my.rounds.state();
  state.ticket = my.ticket.next();
  state.handed = my.ticket.handed();
  return state;
}

Round PartialProbe::complete() const {
  return allreduce_.impl_->rounds.complete();
}

void PartialProbe::observe(PartialObserver& observer) {
  allreduce_.impl_->rounds.observe(observer);
}

}  // namespace stretto
