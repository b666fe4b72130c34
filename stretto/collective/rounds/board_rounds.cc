#include "stretto/collective/rounds/board_rounds.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/machine/cores.h"

namespace stretto {
namespace {

int checked_lag(int max_lag) {
  if (max_lag < 1) throw UsageError(text("max_lag ", max_lag, " is impossible: use at least 1"));
  return max_lag;
}

PartialShape shape_of(const Seating& seating, std::size_t ranks_here, const std::vector<BucketSpec>& buckets,
                      const PartialOptions& options) {
  const bool several = seating.boards() > 1;
  return {.buckets = buckets,
          .op = options.op,
          .order = options.order,
          .max_lag = checked_lag(options.max_lag),
          .piece_bytes = options.piece_bytes,
          .helpers = std::min(num_cores(), static_cast<int>(ranks_here)) - 1,
          .job_ranks = several ? seating.ranks() : 0,
          .ranks = several ? seating.here() : std::vector<int>(),
          .rounds_before = options.rounds_before,
          .results = defect(Defect::carried_ring_of_w) ? 0 : options.results_kept()};
}

std::string how_cut(const Seating& seating, const PartialOptions& options) {
  if (seating.boards() == 1) return text("on a board by ", options.piece_bytes, " B");
  return words_of_boards(options.seats, options.piece_bytes);
}

Seating seating_of(const Engine& engine, const PartialOptions& options) {
  return {engine.members(), engine.rank(), options.seats};
}

/// Planted: a rank starts a round that none may start yet.
bool starts_wrongly(const Policy& policy, const Attendance& attendance) {
  const bool wrongly = policy.kind == Policy::Kind::solo       ? defect(Defect::drained_starts_solo)
                       : policy.kind == Policy::Kind::majority ? defect(Defect::anybody_starts_majority)
                                                               : false;
  return wrongly && !(attendance.arrived.empty() && attendance.drained.empty());
}

}  // namespace

BoardRounds::BoardRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options,
                         const BoardRounds* first)
    : Rounds(engine, std::move(buckets), options, how_cut(seating_of(engine, options), options)),
      seating_(seating_of(engine, options)),
      first_(first),
      board_memory_(failure_, seating_, description_,
                    [&, shape = shape_of(seating_, 1, buckets_, options)](int seats) {
                      return PartialMemory::bytes_needed(shape, seats);
                    }),
      memory_(board_memory_.bytes(), shape_of(seating_, engine.host().members.size(), buckets_, options),
              seating_.seats()),
      seat_(memory_, seating_.seat()),
      board_(
          memory_, seating_.seat(), *this, [this](int seat) { seating_.ring(engine_.host(), seat); },
          engine.host().arena->interleaved(), options.buckets_per_round != 0),
      first_rule_(rule_of(options, engine.size())),
      asked_rule_(first_rule_),
      rule_(first_rule_) {
  for (int set = 0; set < PartialMemory::kSets; ++set) {
    std::vector<std::span<std::byte>> parts;
    for (std::size_t i = 0; i < buckets_.size(); ++i) parts.push_back(memory_.data(seating_.seat(), set, i));
    contributions_.push_back(std::make_unique<Contribution>(std::move(parts), set));
  }
  slot_.buckets.resize(buckets_.size());
  enroll_client();
  if (seating_.boards() > 1) {
    between_ = std::make_unique<BetweenBoards>(engine, seating_, options_, memory_, board_, failure_);
  }
}

// ---- the application's thread ----

Contribution& BoardRounds::acquire() {
  keep_uncounted();
  Contribution& contribution = *contributions_[static_cast<std::size_t>(seat_.acquire())];
  contribution.facts = {};
  contribution.ready.store(0, std::memory_order_relaxed);
  return contribution;
}

DepositSteps BoardRounds::deposit(Contribution& contribution) {
  keep_uncounted();
  PartialMemory::Set& set = memory_.set(seating_.seat(), contribution.index());
  set.facts = contribution.facts;
  const int ready = contribution.ready.load(std::memory_order_relaxed);
  set.ready.store(ready, std::memory_order_release);
  hands_over_ = ready == 0;
  if (hands_over_) idleness_.begin();  // its buckets will follow as they are computed
  return DepositSteps(PartialSeat::Deposit(seat_, contribution.index()));
}

void BoardRounds::bucket_ready(Contribution& contribution) {
  const int ready = contribution.ready.load(std::memory_order_relaxed);
  memory_.set(seating_.seat(), contribution.index()).ready.store(ready, std::memory_order_release);
  if (!board_.all_have(ready)) return;
  if (between_ != nullptr) between_->tell_leader(false);
  // Ranks that wait sum the bucket now that it has come from all. Where none waits, and a core is to spare, this rank's
  // helper thread does.
  if (board_.wake_helpers() > 0 || !core_to_spare()) return;
  asked_.store(true, std::memory_order_release);
  engine_.doorbell().ring();
}

/// There are more than ranks, or the application waits for an accelerator and leaves its own alone.
bool BoardRounds::core_to_spare() {
  const Host host = engine_.host();
  return static_cast<int>(host.members.size()) < num_cores() || (!host.arena->interleaved() && idleness_.idles());
}

bool BoardRounds::bring_to(PolicyRule& rule, Round round) const {
  if (first_ != nullptr) return first_->bring_to(rule, round);
  if (rule.next_round() == round) return true;
  if (round == 0) {
    rule = first_rule_;
    return true;
  }
  const auto& words = memory_.record(round - 1).rule;
  const PolicyRule::Memory memory{words[0].load(std::memory_order_relaxed), words[1].load(std::memory_order_relaxed)};
  thread_local RoundHeader before;  // its memory is kept: a step allocates nothing
  if (!board_.read_kept_header(round - 1, before)) return false;
  rule.jump_to(round, memory, before);
  return true;
}

Policy BoardRounds::open_policy(Round complete) {
  STRETTO_CHECK(bring_to(asked_rule_, complete), "the policy of round ", complete, " is asked for too late");
  return asked_rule_.current();
}

const ResultSlot& BoardRounds::result(Round round) {
  board_.read_header(round, slot_.header);
  return show(round);
}

const ResultSlot* BoardRounds::kept(Round round) {
  const auto results = static_cast<Round>(memory_.shape().results_kept());
  const bool lies_there = round < counted() && complete() < round + results;
  if (!lies_there || !bring_to(asked_rule_, round) || !board_.read_kept_header(round, slot_.header)) return nullptr;
  return &show(round);
}

std::optional<RoundHeader> BoardRounds::kept_header(Round round) {
  RoundHeader header;
  if (round >= counted() || !board_.read_kept_header(round, header)) return std::nullopt;
  return header;
}

Carried BoardRounds::take_out(Round from) const {
  Carried carried;
  seat_.each_set_from(from, [&](int set) {
    carried.deposits.push_back(
        copy_of(*contributions_[static_cast<std::size_t>(set)], memory_.set(seating_.seat(), set).facts));
  });
  return carried;
}

const ResultSlot& BoardRounds::show(Round round) {
  slot_.round = round;
  if (first_ == nullptr) {  // else nobody asks
    slot_.policy = open_policy(round);
    asked_rule_.advance(slot_.header);  // so that the next question needs no second look at the record
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    slot_.buckets[i] = slot_.header.empty() ? std::span<const std::byte>() : memory_.result(round, i);
  }
  return slot_;
}

void BoardRounds::set_arrived(Round round) {
  const bool full = between_ != nullptr && open_policy(round).kind == Policy::Kind::full;
  seat_.arrive(round, now());
  waits_at_.store(round + 1, std::memory_order_release);
  if (between_ != nullptr && (!full || board_.all_have_come())) between_->tell_leader(!hands_over_);
}

bool BoardRounds::set_handed(Round handed) {
  handed_.store(handed, std::memory_order_relaxed);
  if (!seat_.hand_over(handed)) return false;
  if (between_ != nullptr) {
    between_->tell_leader(true);
    return seating_.leads();
  }
  // A rank that waits for the round that was held starts it; where no rank is there to be woken, this rank's engine.
  if (defect(Defect::hand_over_without_ring) || board_.wake_one() > 0) return false;
  asked_.store(true, std::memory_order_release);
  return true;
}

void BoardRounds::set_drained() {
  seat_.drain();
  drained_.store(true, std::memory_order_release);
  if (between_ != nullptr) between_->tell_leader(true);
}

std::optional<TimePoint> BoardRounds::take_passive_since() {
  const Round handed = handed_.load(std::memory_order_relaxed);
  if (handed >= board_.complete()) return std::nullopt;
  return TimePoint{Duration(memory_.record(handed).sealed_at.load(std::memory_order_relaxed))};
}

ProtocolState BoardRounds::state() const {
  const int seat = seating_.seat();
  const std::uint64_t stage = memory_.words().stage.load(std::memory_order_acquire);
  const Round complete = stage >> 2;
  const SeatWord word(memory_.seat(seat).load(std::memory_order_acquire));
  bool waiting = word.arrived() && word.round() == complete;
  // A rank that hands over bucket by bucket has come only when the last bucket is there.
  const int set = waiting ? word.first() : -1;
  if (set >= 0)
    waiting = memory_.set(seat, set).ready.load(std::memory_order_acquire) == static_cast<int>(buckets_.size());
  const Round begun = complete + ((stage & 3) != 0 ? 1 : 0);
  return {.ticket = ticket_.load(std::memory_order_relaxed),
          .handed = handed_.load(std::memory_order_relaxed),
          .complete = complete,
          .joined = begun,
          .activated = begun,
          .waiting = waiting,
          .drained = drained_.load(std::memory_order_acquire),
          .full = rule_.next_round() == complete && rule_.current().kind == Policy::Kind::full};
}

std::uint64_t BoardRounds::memory_bytes() const {
  return PartialMemory::bytes_needed(memory_.shape(), memory_.ranks()) / static_cast<std::uint64_t>(memory_.ranks());
}

// ---- the driving thread ----

bool BoardRounds::may_have_ended(int peer) const {
  if (!drained_.load(std::memory_order_acquire)) return false;
  if (!seating_.is_here(peer)) return true;
  return SeatWord(memory_.seat(seating_.seat_of(peer)).load(std::memory_order_acquire)).drained();
}

bool BoardRounds::application_waits() const {
  const Round complete = board_.complete();
  return waits_at_.load(std::memory_order_acquire) == complete + 1 ||
         (drained_.load(std::memory_order_acquire) && !ended(complete));
}

/// Returns whether there is more to do at the board.
bool BoardRounds::step_board() {
  if (!poll_requests()) return false;
  const bool waits = application_waits();
  // A rank that waits for no round and has not been asked leaves the board to the ranks that wait. The leader of one of
  // several boards steps it all the same: the leader alone starts and ends rounds there.
  const bool moved = first_has_moved();
  const bool asked =
      asked_.exchange(false, std::memory_order_acquire) || moved || (between_ != nullptr && seating_.leads());
  if (waits && !asked && board_.sleeps() && engine_.clock().now() < act_by_) return false;
  act_by_ = TimePoint::never();
  if ((waits || asked) && board_.step(waits)) {
    if (asked) asked_.store(true, std::memory_order_relaxed);
    return true;
  }
  if (!waits || !application_waits()) {
    board_.leave();
    return false;
  }
  // From now on the rank that completes the round wakes this one. If the round was completed just before, no rank does:
  // so look once more before sleeping.
  return board_.go_in() && !defect(Defect::held_without_second_look);
}

bool BoardRounds::first_has_moved() {
  if (first_ == nullptr) return false;
  const Round sealed = first_->board_.sealed();
  return std::exchange(first_sealed_, sealed) != sealed;
}

bool BoardRounds::may_start(Round round, const Attendance& attendance) {
  if (between_ != nullptr) return between_->may_start(round, attendance);
  // A rank that comes, and looks here before the first bucket's round is sealed, leaves this start to the rank that
  // seals it: that one looks at this board next (first_has_moved()).
  if (first_ != nullptr && first_->board_.sealed() <= round && !defect(Defect::bucket_before_first)) return false;
  if (ended(round)) return false;
  const bool learn = rule_.next_round() != round && rule_.current().adaptive;
  // The application may hand over results while this thread does not run: the round is over then.
  if (!bring_to(rule_, round)) return false;
  if (learn) learn_arrivals(round - 1);
  if (starts_wrongly(rule_.current(), attendance)) return true;
  const TimePoint from =
      may_start_from(rule_.current(),
                     {attendance.arrived, attendance.drained, {Duration(attendance.first_arrival)}, learned_patience_});
  if (from == TimePoint() || from == TimePoint::never()) return from == TimePoint();
  if (engine_.clock().now() >= from) return true;
  act_by_ = from;
  return false;
}

void BoardRounds::learn_arrivals(Round round) {
  std::vector<TimePoint> times;
  for (const auto& arrival : memory_.arrivals(round)) {
    const std::int64_t time = arrival.load(std::memory_order_relaxed);
    if (time != 0) times.push_back({Duration(time)});
  }
  learned_patience_.learn(times);
}

void BoardRounds::started(Round round, const Attendance& attendance) {
  if (between_ != nullptr) return between_->started(round);
  if (observer_ == nullptr || rule_.current().kind == Policy::Kind::full) return;
  observer_->started(round, (attendance.arrived | attendance.drained).count());
}

void BoardRounds::taken(Round round, int seat, const ContributionFacts* facts) {
  if (observer_ != nullptr) observer_->taken(round, seating_.rank_at(seat), facts);
}

void BoardRounds::planned(Round round, const RoundHeader& header, std::span<std::uint64_t, 2> words) {
  if (first_ != nullptr) return;  // the first bucket's record says what follows
  STRETTO_CHECK(bring_to(rule_, round), "round ", round, " is planned too late");
  PolicyRule next = rule_;
  next.advance(header);
  words[0] = next.memory().batches;
  words[1] = next.memory().fulls_passed;
}

}  // namespace stretto
