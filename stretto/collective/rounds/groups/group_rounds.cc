#include "stretto/collective/rounds/groups/group_rounds.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/collective/schedules/round_schedules.h"

namespace stretto {
namespace {

StandingSum view_of(const GroupSum& sum) {
  return {.round = sum.round,
          .header = &sum.header,
          .members = sum.members,
          .own_version = sum.own_version,
          .own = sum.pins_own ? &sum.own->contribution : nullptr,
          .buckets = sum.buckets};
}

}  // namespace

GroupRounds::GroupRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options)
    : StandingRounds(engine, std::move(buckets), options, "by messages", kQuery),
      models_(buckets_, options_),
      protocol_({engine.rank()}, engine.size(), options_.full_every, options_.quorum),
      plans_(buckets_) {
  enroll();
}

// ---- the application's thread ----

void GroupRounds::publish(Contribution& model, Round ticket) {
  models_.publish(model.index(), ticket);
  freed();
}

std::optional<StandingSum> GroupRounds::read(Round from) {
  const GroupSum* sum = models_.read(from);
  if (sum == nullptr) return std::nullopt;
  return view_of(*sum);
}

std::optional<StandingSum> GroupRounds::read_of(Round round) {
  const GroupSum* sum = models_.read_of(round);
  if (sum == nullptr) return std::nullopt;
  return view_of(*sum);
}

std::vector<std::span<const std::byte>> GroupRounds::buckets_of(const Contribution& model) {
  std::vector<std::span<const std::byte>> buckets;
  for (int i = 0; i < model.num_buckets(); ++i) buckets.push_back(model.bucket(i));
  return buckets;
}

bool GroupRounds::settle(Contribution& model, Round ticket) {
  const auto step = models_.begin_step();
  if (!step) return false;
  if (step->stands != step->base) {
    put_on_top(model, buckets_of(step->stands->contribution), buckets_of(step->base->contribution));
  }
  models_.end_step(model.index(), ticket);
  freed();
  if (observer_ != nullptr) observer_->settled();
  return true;
}

std::optional<StandingSum> GroupRounds::follow(bool full) {
  const StandingModel* stands = models_.follow();
  if (stands == nullptr && !full) return std::nullopt;
  if (stands != nullptr) stands_ = buckets_of(stands->contribution);
  return StandingSum{.header = full ? &models_.take_full()->header : nullptr, .members = 1, .buckets = stands_};
}

void GroupRounds::release(Round round) {
  if (options_.moves == nullptr) models_.release(ticket_.load(std::memory_order_relaxed));
  took_.store(round + 1, std::memory_order_release);
  freed();
  if (full(round)) engine_.doorbell().ring();  // the next block may begin
}

std::optional<Round> GroupRounds::full_to_come() const {
  const Round round = complete();
  if (stopped() || !full(round)) return std::nullopt;
  return round;
}

/// Models or sums have become free: rings the engine if it waits for that.
void GroupRounds::freed() {
  // Pairs with join_what_may_be(): either it sees what is free now, or we see that it waits.
  if (held_.load(std::memory_order_seq_cst)) engine_.doorbell().ring();
}

// ---- events at the application and at the peers ----

bool GroupRounds::poll(TimePoint now) {
  if (!poll_requests()) return false;
  if (drained_.load(std::memory_order_acquire)) protocol_.application_drained();
  if (const Round arrived = arrived_.load(std::memory_order_acquire); arrived != 0) {
    protocol_.application_arrived(arrived - 1);
  }
  protocol_.application_jumped(jumped_.load(std::memory_order_relaxed));
  protocol_.application_took(took_.load(std::memory_order_acquire));
  act(now);
  join_what_may_be();
  return false;  // joining starts operations, which the engine counts by itself
}

void GroupRounds::act(TimePoint now) {
  while (const auto action = protocol_.next_action(now)) {
    if (action->kind == RoundAction::Kind::activate) {
      activate_neighbours(action->round);
    } else {
      tell_counter(engine_, id_, *action);
    }
  }
}

/// All ranks hear of it, not the group alone.
void GroupRounds::activate_neighbours(Round round) {
  const int rank = engine_.rank();
  const auto tell = [&](int peer) { engine_.send_control(id_, peer, kActivate, round, 0, {}); };
  if (defect(Defect::group_activates_group)) {
    for (const int peer : group_of(round)) {
      if (peer != rank) tell(peer);
    }
  } else {
    for (const int peer : activation_neighbours(rank, engine_.size(), options_.quorum)) tell(peer);
  }
}

bool GroupRounds::admit(Round round, const Envelope&) {
  if (failure_.failed()) return false;
  if (defect(Defect::group_early_dropped) && round >= protocol_.joined()) return false;
  return protocol_.message_of(round, false);
}

bool GroupRounds::hear(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  if (envelope.channel != kActivate) {
    return hear_counter_word(protocol_, envelope, engine_.clock().now()) || StandingRounds::hear(peer, envelope, head);
  }
  protocol_.message_of(envelope.round, true);
  return true;
}

// ---- a round ----

void GroupRounds::join_what_may_be() {
  if (!protocol_.may_join()) return;
  if (!join()) {
    held_.store(true, std::memory_order_seq_cst);
    if (!join()) return;
  }
  held_.store(false, std::memory_order_relaxed);
}

/// Returns whether there was memory for it.
bool GroupRounds::join() {
  const Round round = protocol_.joined();
  const bool own = defect(Defect::group_of_own_iteration) && !protocol_.full(round);
  const std::vector<int> group = group_of(own ? ticket_.load(std::memory_order_relaxed) : round);
  const auto memory = models_.join(round, static_cast<int>(group.size()));
  if (!memory) return false;
  GroupPlan& plan = plans_.use(engine_, id_, round, group);
  flights_.push_back({round, *memory, &plan});
  in_flight_.fetch_add(1, std::memory_order_release);
  if (const StandingModel* model = flights_.back().memory.model; observer_ != nullptr) {
    observer_->joined(round, engine_.rank(), model == nullptr ? 0 : model->version);
  }
  protocol_.join();
  engine_.open(id_, round, plan.schedule, 0);
  return true;
}

GroupRounds::Flight& GroupRounds::flight(Round round) {
  const auto found = std::ranges::find(flights_, round, &Flight::round);
  STRETTO_CHECK(found != flights_.end(), "round ", round, " is not under way");
  return *found;
}

/// The join operation binds the round's memory. A model is there as a whole: no bucket is waited for.
bool GroupRounds::call(Round round, OpId, std::uint32_t hook) {
  if (hook != kJoinHook) return true;
  const auto [model, sum] = flight(round).memory;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    std::byte* data = model == nullptr ? nullptr : model->contribution.bucket(static_cast<int>(i)).data();
    engine_.bind(id_, round, contribution_buffer(i), {data, model != nullptr});
    engine_.bind(id_, round, sum_buffer(i, buckets_.size()), {sum->memory[i].data(), false});
  }
  RoundHeader& header = engine_.header(id_, round, contribution_buffer(0));
  if (protocol_.has_arrived_at(round)) header.arrived.insert(engine_.rank());
  if (protocol_.drained()) header.drained.insert(engine_.rank());
  if (model != nullptr) {
    enter(header, round, engine_.rank(), model->contribution.facts, protocol_.full(round));
    note_age(round, *model, header);
  }
  if (engine_.size() > RoundHeader::kMaxNamedRanks) header.forget_names();
  return true;
}

/// How old this rank's models were in the group rounds of a block is in the header of the full round at its end, as the
/// bases of the rank's batches.
void GroupRounds::note_age(Round round, const StandingModel& model, RoundHeader& header) {
  if (!protocol_.full(round)) {
    const Round age = round - std::min(round, model.ticket);
    ages_ += age;
    oldest_age_ = std::max(oldest_age_, age);
    return;
  }
  header.sum_of_bases -= std::min(header.sum_of_bases, ages_);
  if (model.contribution.facts.batches > 0) header.oldest_base = std::min(header.oldest_base, round - oldest_age_);
  ages_ = oldest_age_ = 0;
}

void GroupRounds::completed(Round round) {
  GroupSum& sum = *flight(round).memory.sum;
  const RoundHeader& header = engine_.header(id_, round, sum_buffer(0, buckets_.size()));
  models_.complete(sum, header);
  if (observer_ != nullptr) observer_->completed(engine_.rank(), view_of(sum));
  const bool by_group = defect(Defect::group_ends_by_group) && header.drained.count() == sum.members;
  protocol_.round_completed((protocol_.full(round) && header.drained.all()) || by_group);
  if (protocol_.stopped()) stopped_.store(true, std::memory_order_release);
  complete_.store(round + 1, std::memory_order_release);  // pairs with complete(): all of the above is visible
}

void GroupRounds::retired(Round round) {
  const Flight done = flight(round);
  models_.retire(done.memory);
  --done.plan->open_rounds;
  std::erase_if(flights_, [round](const Flight& flight) { return flight.round == round; });
  in_flight_.fetch_sub(1, std::memory_order_release);
}

ProtocolState GroupRounds::state() const {
  const Round arrived = arrived_.load(std::memory_order_relaxed);
  return {.ticket = ticket_.load(std::memory_order_relaxed),
          .handed = took_.load(std::memory_order_relaxed),
          .complete = protocol_.complete(),
          .joined = protocol_.joined(),
          .activated = protocol_.activated(),
          .waiting = arrived == protocol_.complete() + 1,
          .drained = protocol_.drained(),
          .full = protocol_.full(protocol_.complete())};
}

}  // namespace stretto
