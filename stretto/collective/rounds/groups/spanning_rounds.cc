#include "stretto/collective/rounds/groups/spanning_rounds.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/collective/schedules/round_schedules.h"

namespace stretto {

SpanningRounds::SpanningRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options)
    : SeatedRounds(engine, std::move(buckets), options, words_of_boards(options.seats, options.piece_bytes), kQuery,
                   options.seats),
      parts_(
          memory_,
          [this](int seat, std::uint64_t version) {
            if (observer_ != nullptr) observer_->joined(round_, seating_.rank_at(seat), version);
          },
          [this](const GroupPart& part) { ready(part); }, engine.host().arena->interleaved()),
      plans_(buckets_) {
  if (seating_.leads()) {
    protocol_ = std::make_unique<GroupProtocol>(seating_.here(), engine.size(), options_.full_every, options_.quorum);
  }
  enroll();
}

// ---- the application's thread ----

/// The leader's own engine is driven by the thread that calls.
void SpanningRounds::set_arrived(Round round) {
  SeatedRounds::set_arrived(round);
  if (!seating_.leads()) stands_now();
}

std::optional<Round> SpanningRounds::full_to_come() const {
  const Round round = complete();
  if (stopped() || !full(round)) return std::nullopt;
  return round;
}

ProtocolState SpanningRounds::state() const {
  const Round complete = newest();
  return {.ticket = ticket_.load(std::memory_order_relaxed),
          .handed = took(),
          .complete = complete,
          .joined = std::max(complete, protocol_ != nullptr ? protocol_->joined() : 0),
          .activated = std::max(complete, protocol_ != nullptr ? protocol_->activated() : 0),
          .waiting = waits_at() == complete + 1,
          .drained = drained(),
          .full = full(complete)};
}

// ---- the driving thread ----

/// The board shows whether a rank has drained, where it is this one.
bool SpanningRounds::may_have_ended(int peer) const {
  const bool its =
      !seating_.is_here(peer) || memory_.seat(seating_.seat_of(peer)).drained.load(std::memory_order_seq_cst);
  return its && drained();
}

bool SpanningRounds::poll(TimePoint now) {
  if (!poll_requests()) return false;
  const bool more = protocol_ != nullptr && lead(now);
  Sleepers& sleepers = memory_.words().sleepers;
  if (newest() >= waits_at() && (!drained() || stopped()) && !unsettled()) {
    if (sleepers.contains(seating_.seat())) sleepers.leave(seating_.seat());
    return more;
  }
  if (sleepers.contains(seating_.seat())) return more;
  // From now on the leader wakes this rank when it hands over a result. If it has just before, it does not: so look
  // once more before sleeping.
  sleepers.go_in(seating_.seat());
  return true;
}

// ---- the leader ----

/// Returns whether there is more to do at the board.
bool SpanningRounds::lead(TimePoint now) {
  listen();
  act(now);
  if (!parts_.busy() && may_begin()) begin();
  if (!parts_.busy()) return false;
  parts_.step();
  return true;
}

void SpanningRounds::listen() {
  for (int seat = 0; seat < seating_.seats(); ++seat) {
    const GroupMemory::Seat& its = memory_.seat(seat);
    if (its.drained.load(std::memory_order_seq_cst)) protocol_->application_drained(seat);
    const Round waits_at = its.waits_at.load(std::memory_order_seq_cst);
    if (waits_at != 0) protocol_->application_arrived(waits_at - 1, seat);
    protocol_->application_took(its.took.load(std::memory_order_seq_cst), seat);
  }
}

void SpanningRounds::act(TimePoint now) {
  while (const auto action = protocol_->next_action(now)) {
    if (action->kind != RoundAction::Kind::activate) {
      tell_counter(engine_, id_, *action);
      continue;
    }
    for (const int board : activation_neighbours(seating_.board(), seating_.boards(), options_.quorum)) {
      engine_.send_control(id_, seating_.leader_of(board), kActivate, action->round, 0, {});
    }
  }
}

bool SpanningRounds::hear(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  if (protocol_ == nullptr) return SeatedRounds::hear(peer, envelope, head);
  if (envelope.channel != kActivate) {
    return hear_counter_word(*protocol_, envelope, engine_.clock().now()) || SeatedRounds::hear(peer, envelope, head);
  }
  protocol_->message_of(envelope.round, true);
  return true;
}

bool SpanningRounds::admit(Round number, const Envelope&) {
  return protocol_ != nullptr && !failure_.failed() && protocol_->message_of(round_of(number), false);
}

/// All that the last round used is free again, and every seat has something that stands.
bool SpanningRounds::may_begin() const {
  if (!protocol_->may_join() || in_flight_.load(std::memory_order_relaxed) != 0) return false;
  for (int seat = 0; seat < seating_.seats(); ++seat) {
    if (memory_.seat(seat).model.load(std::memory_order_seq_cst) == 0) return false;
  }
  return true;
}

void SpanningRounds::begin() {
  round_ = protocol_->joined();
  protocol_->join();
  std::vector<GroupPart> parts = parts_of(round_);
  unfinished_ = parts.size();
  in_flight_.store(static_cast<int>(parts.size()), std::memory_order_release);
  parts_.begin(round_, std::move(parts));
}

std::vector<std::vector<int>> SpanningRounds::groups_of(Round round) const {
  if (full(round)) return {members(round, true)};
  return groups_.all(round);
}

/// Those that span boards first, since others wait for them.
std::vector<GroupPart> SpanningRounds::parts_of(Round round) const {
  std::vector<GroupPart> parts;
  for (const std::vector<int>& members : groups_of(round)) {
    GroupPart part{.number = static_cast<int>(parts.size()),
                   .members = static_cast<int>(members.size()),
                   .seats = {},
                   .header = {}};
    for (const int rank : members) {
      if (seating_.is_here(rank)) part.seats.push_back(seating_.seat_of(rank));
    }
    parts.push_back(std::move(part));
  }
  std::erase_if(parts, [](const GroupPart& part) { return part.seats.empty(); });
  std::ranges::stable_sort(parts, {}, &GroupPart::whole);
  return parts;
}

/// The models of the part are pinned, and their sum is there.
void SpanningRounds::ready(const GroupPart& part) {
  if (!part.whole()) return send(part);
  parts_.average(part);
  finish(round_, part, part.header);
  parts_.release(part);
  in_flight_.fetch_sub(1, std::memory_order_release);
}

void SpanningRounds::send(const GroupPart& part) {
  const std::vector<std::vector<int>> groups = groups_of(round_);
  std::vector<int> leaders;
  for (const int rank : groups[static_cast<std::size_t>(part.number)]) {
    const int leader = seating_.leader_of(seating_.board_of(rank));
    if (std::ranges::find(leaders, leader) == leaders.end()) leaders.push_back(leader);
  }
  GroupPlan& plan = plans_.use(engine_, id_, round_, leaders);
  const Round number = number_of(round_, part.number);
  flights_.insert_or_assign(number, Flight{round_, part, &plan});
  engine_.open(id_, number, plan.schedule, 0);
}

/// The join operation binds the memory of the part. A model is there as a whole: no bucket is waited for.
bool SpanningRounds::call(Round number, OpId, std::uint32_t hook) {
  if (hook != kJoinHook) return true;
  const Flight& flight = flights_.at(number);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    engine_.bind(id_, number, contribution_buffer(i), {parts_.summed(flight.part, i).data(), true});
    engine_.bind(id_, number, sum_buffer(i, buckets_.size()), {memory_.sum(flight.part.result, i).data(), false});
  }
  RoundHeader& header = engine_.header(id_, number, contribution_buffer(0));
  header = flight.part.header;
  if (engine_.size() > RoundHeader::kMaxNamedRanks) header.forget_names();
  return true;
}

void SpanningRounds::completed(Round number) {
  Flight& flight = flights_.at(number);
  flight.part.header = engine_.header(id_, number, sum_buffer(0, buckets_.size()));
  if (options_.moves != nullptr) return;
  finish(flight.round, flight.part, flight.part.header);
  if (defect(Defect::group_reuse_before_sent)) parts_.release(flight.part);
}

void SpanningRounds::retired(Round number) {
  const Flight flight = flights_.at(number);
  flights_.erase(number);
  --flight.plan->open_rounds;
  // The sum may have been sent from where it lies, and so may what stood on a seat, which its rank writes to from then
  // on.
  if (options_.moves != nullptr) {
    parts_.average(flight.part);
    finish(flight.round, flight.part, flight.part.header);
    parts_.release(flight.part);
    in_flight_.fetch_sub(1, std::memory_order_release);
    return;
  }
  if (!defect(Defect::group_reuse_before_sent)) parts_.release(flight.part);
  in_flight_.fetch_sub(1, std::memory_order_release);
}

/// The sum of a group is there: its members here get it.
void SpanningRounds::finish(Round round, const GroupPart& part, const RoundHeader& header) {
  memory_.enter_result(part.result, round, part.members, header);
  const bool last = full(round) && header.drained.all();
  if (last) memory_.words().ended.store(round + 1, std::memory_order_seq_cst);
  parts_.hand_over(round, part);
  for (const int seat : part.seats) {
    if (observer_ != nullptr) {
      View view;
      look_at(part.result, seat, view);
      observer_->completed(seating_.rank_at(seat), view.sum);
    }
    if (seat == seating_.seat()) continue;
    memory_.words().sleepers.wake_one(seat, [this](int other) { seating_.ring(engine_.host(), other); });
  }
  if (--unfinished_ == 0) protocol_->round_completed(last);
}

}  // namespace stretto
