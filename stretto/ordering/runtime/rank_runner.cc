#include "stretto/ordering/runtime/rank_runner.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "stretto/base/doorbell.h"
#include "stretto/base/machine/cores.h"
#include "stretto/base/machine/pages.h"
#include "stretto/ordering/negotiation/coordinator.h"
#include "stretto/ordering/negotiation/cycle_fix.h"
#include "stretto/ordering/options/ordering_options.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/runtime/fused_board.h"
#include "stretto/ordering/runtime/fused_sequence.h"
#include "stretto/ordering/topo/topo.h"
#include "stretto/ordering/waiting/rank_patience.h"

namespace stretto {
namespace {

/// The orderer of a process set that this rank is in, as the options say. Requires: a kind but none. `patience`: of
/// this rank, for all of its sets; outlives the orderer.
std::unique_ptr<Orderer> make_orderer(const OrderingOptions& options, const ProcessSet& set, RankPatience& patience) {
  const CoordinatorOptions coordinator{.set = set.number(),
                                       .ranks = set.members(),
                                       .member = set.me(),
                                       .cycle_time = options.cycle_time,
                                       .fusion_bytes = options.fusion_bytes,
                                       .cache_capacity = static_cast<std::size_t>(options.cache_capacity),
                                       .stall_warning = options.stall_warning,
                                       .stall_abort = options.stall_abort};
  if (options.fix != nullptr) return options.fix->make(coordinator, options.gs_every);
  if (options.kind == OrderingOptions::Kind::coordinator) return std::make_unique<Coordinator>(coordinator);
  using OnChange = TopoOptions::OnChange;
  const TopoOptions topo{
      .coordinator = coordinator,
      .in_flight = options.in_flight,
      .several_sets = !options.sets.empty(),
      .plan_patience = options.plan_patience,
      .on_change = options.on_change == OrderingOptions::OnChange::fail ? OnChange::fail : OnChange::coordinator};
  return std::make_unique<Topo>(topo, patience);
}

std::vector<ProcessSet> sets_of(const Engine& engine, const OrderingOptions& options) {
  std::vector<int> all(static_cast<std::size_t>(engine.size()));
  for (int rank = 0; rank < engine.size(); ++rank) all[static_cast<std::size_t>(rank)] = rank;
  std::vector<ProcessSet> sets{ProcessSet(0, std::move(all), engine.rank())};
  for (std::vector<int> members : options.sets) {
    std::ranges::sort(members);
    sets.emplace_back(static_cast<int>(sets.size()), std::move(members), engine.rank());
  }
  return sets;
}

/// What must be the same on every rank, a line each.
std::string items_of(const OrderingOptions& options, const std::vector<ProcessSet>& sets) {
  std::string out = text("\nordering ", options.name());
  out += text("\ncycle time ", options.cycle_time.count(), " ns");
  out += text("\nfusion bytes ", options.fusion_bytes);
  out += text("\ngs every ", options.gs_every);
  out += text("\ncache capacity ", options.cache_capacity);
  out += text("\nin flight ", options.in_flight);
  out += text("\nshared memory ", options.share_memory ? "yes" : "no", ", ", options.memory_bytes, " bytes of a rank");
  for (const ProcessSet& set : sets) out += text('\n', set.to_text());
  return out;
}

template <class T>
void append(std::vector<T>& all, std::vector<T>&& more) {
  if (all.empty()) {
    all = std::move(more);
  } else {
    all.insert(all.end(), more.begin(), more.end());
  }
}

}  // namespace

RankRunner::RankRunner(Engine& engine, const OrderingOptions& options, const Factory& factory)
    : CollectiveBase(engine, "ordering"), options_(options), sets_(sets_of(engine, options_)), queue_(sets_) {
  const Engine::Pause pause(engine);
  patience_.know_submissions();
  const Factory make =
      factory ? factory : [this](const ProcessSet& set) { return make_orderer(options_, set, patience_); };
  const std::string alike = items_of(options_, sets_);
  enroll_client("ordered allreduce" + alike);
  const std::span<std::byte> shared = take_memory(alike);
  std::uint64_t at = 0;
  for (const ProcessSet& set : sets_) {
    std::unique_ptr<FusedWay> buffers;
    const std::uint64_t bytes = shared.empty() ? 0 : board_bytes(set);
    if (bytes > 0 && set.has_this_rank()) {
      SharedArena& arena = *engine.host().arena;
      buffers = std::make_unique<FusedBoard>(
          shared.subspan(at, bytes), FusedBoard::shape_for(options_.fusion_bytes), set, engine.size(),
          [&arena](int rank) { arena.ring(rank); }, [this](const Error& why) { failure_.fail(why, true); }, lent_,
          arena.interleaved());
    } else if (bytes == 0) {
      buffers = std::make_unique<FusedSequence>(engine, failure_, set, alike);
    }
    at += bytes;
    runners_.push_back(std::make_unique<SetRunner>(engine, failure_, counters_, timeline_, options_, set, alike,
                                                   std::move(buffers), set.has_this_rank() ? make(set) : nullptr));
    if (set.has_this_rank()) mine_.push_back(runners_.back().get());
  }
}

RankRunner::~RankRunner() {
  const Engine::Pause pause(engine_);
  engine_.remove(id_);
  runners_.clear();
}

/// Of a set that reduces through shared memory: one of several members.
std::uint64_t RankRunner::board_bytes(const ProcessSet& set) const {
  return set.size() == 1
             ? 0
             : round_up(FusedBoard::bytes_needed(FusedBoard::shape_for(options_.fusion_bytes), set, engine_.size()),
                        kPage);
}

/// Memory for the boards of all sets; none where the ranks share none, too little, or shall use none, or where they are
/// on several hosts. Behind it, where
/// there is room, what the application hands over may lie, and the sums that all ranks read.
std::span<std::byte> RankRunner::take_memory(const std::string& alike) {
  if (engine_.host().arena == nullptr) return {};
  std::uint64_t bytes = 0;
  if (options_.share_memory && engine_.members().hosts() == 1) {
    for (const ProcessSet& set : sets_) bytes += board_bytes(set);
  }
  const std::uint64_t of_a_rank = bytes == 0 ? 0 : round_up(options_.memory_bytes, kPage);
  if (of_a_rank > 0) {
    const auto ranks = static_cast<std::uint64_t>(engine_.size());
    const std::span<std::byte> all = take_shared(bytes + (ranks + 1) * of_a_rank, alike);
    if (!all.empty()) {
      lent_ = all.subspan(bytes);
      memory_ = lent_.subspan(static_cast<std::uint64_t>(engine_.rank()) * of_a_rank, options_.memory_bytes);
      shared_sums_ = lent_.subspan(ranks * of_a_rank, options_.memory_bytes);
      return all.first(bytes);
    }
  }
  return take_shared(bytes, alike);
}

/// So many bytes, the same for all ranks; none where they are too many.
std::span<std::byte> RankRunner::take_shared(std::uint64_t bytes, const std::string& alike) {
  const auto region = failure_.take_shared({&bytes, 1}, 0, "ordered allreduce" + alike);
  if (region) return *region;
  if (region.error().code != Errc::unavailable) failure_.fail(region.error(), false);
  return {};
}

RankRunner::Finished RankRunner::take_finished() {
  MutexLock lock(results_mutex_);
  Finished finished = std::move(finished_.front());
  finished_.pop_front();
  return finished;
}

std::vector<std::string> RankRunner::take_lines() {
  MutexLock lock(results_mutex_);
  return std::exchange(lines_, {});
}

// ---- the driving thread ----

/// The driving thread, after the application may have something to look at.
void RankRunner::wake_application() {
  if (!options_.background_only) return;
  progress_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(progress_, ~0u, false);
}

std::string RankRunner::waits_for(TimePoint since) const {
  std::string what, silent;
  for (const SetRunner* runner : mine_) {
    if (!runner->ended()) what += text(what.empty() ? "" : ", ", runner->waits_for());
  }
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (peer == engine_.rank() || engine_.last_heard(peer) >= since) continue;
    silent += text(silent.empty() ? "; nothing has come from rank " : ", ", peer);
  }
  return what + (silent.empty() ? "; something has come from every rank meanwhile" : silent);
}

/// The helper thread, which drives for the first time, goes where it is to run.
void RankRunner::settle_background() {
  if (!options_.background_cores.empty()) pin_thread(options_.background_cores);
  if (options_.background_first) prefer_thread();
}

/// Since when the application waits for the other ranks. One that has drained waits for nothing.
std::optional<TimePoint> RankRunner::waits_since(StepNumber handed) const {
  if (blocked_since_) return blocked_since_;
  if (step_ended_ && step_ended_->first >= handed) return step_ended_->second;
  return std::nullopt;
}

bool RankRunner::take_events(TimePoint now) {
  events_.clear();
  queue_.take(events_);
  for (const OrderingEvent& event : events_) {
    using Kind = OrderingEvent::Kind;
    if (event.kind == Kind::submitted) patience_.acted(event.at);
    if (event.kind == Kind::step_ended) step_ended_ = {event.step, now};
    if (event.kind == Kind::blocked) blocked_since_ = event.slot != nullptr ? std::optional(event.at) : std::nullopt;
    for (SetRunner* runner : mine_) {
      if (event.slot != nullptr && event.slot->description.set != runner->set().number()) continue;
      const auto taken = runner->take(event);
      if (!taken) failure_.fail(taken.error(), true);
    }
  }
  return !events_.empty();
}

bool RankRunner::poll(TimePoint now) {
  if (!failure_.poll()) {
    if (!std::exchange(told_of_failure_, true)) wake_application();
    return false;
  }
  bool did = take_events(now);
  const StepNumber handed = handed_.load(std::memory_order_acquire);
  std::uint64_t memory = 0;
  bool agrees = false;
  for (SetRunner* runner : mine_) {
    if (runner->advance(now, handed)) {
      did = true;
      for (SetRunner* other : mine_) other->look_again();  // what is held back in one set may hold back another
    }
    if (const auto plan = runner->take_plan()) queue_.plan(runner->set().number(), *plan);
    runner->watch(waits_since(handed), handed, now);
    agrees |= runner->agrees();
    memory += runner->memory_bytes();
  }
  memory_bytes_.store(memory, std::memory_order_relaxed);
  did |= publish();
  if (did) wake_application();
  if (!engine_.liveness().all_here()) look_who_has_left();
  const bool waits = agrees && (options_.fix == nullptr || options_.fix->waits);  // else it is told at its next look
  const bool spins = waits && options_.negotiation_wait == OrderingOptions::Waiting::spin;
  if (counters_.driven(spins)) settle_background();
  return did || spins;
}

TimePoint RankRunner::poll_by() const {
  TimePoint by = TimePoint::never();
  if (failure_.failed()) return by;
  for (const SetRunner* runner : mine_) by = std::min(by, runner->advance_by());
  return by;
}

/// Hands steps that all sets have closed to the application, and what a person is to read.
bool RankRunner::publish() {
  StepNumber closed = std::numeric_limits<StepNumber>::max();
  bool over = true;
  for (SetRunner* runner : mine_) {
    closed = std::min(closed, runner->closed());
    over &= runner->ended();
    auto lines = runner->take_lines();
    if (lines.empty()) continue;
    MutexLock lock(results_mutex_);
    lines_.insert(lines_.end(), lines.begin(), lines.end());
  }
  const bool any = (closed > published_ && !at_end_) || over != over_.load(std::memory_order_relaxed);
  for (; published_ < closed && !at_end_; ++published_) {
    Finished finished{.step = published_};
    for (SetRunner* runner : mine_) {
      SetRunner::ClosedStep step = runner->take_step(published_);
      if (runner->set().number() == 0) finished.header = std::move(step.header);
      append(finished.reduced, std::move(step.reduced));
      append(finished.shared, std::move(step.shared));
    }
    // Ranks that follow a plan learn from the buffers of one more step that all have drained.
    at_end_ = finished.header.drained.all();
    if (at_end_) break;
    MutexLock lock(results_mutex_);
    finished_.push_back(std::move(finished));
  }
  closed_.store(published_, std::memory_order_release);
  over_.store(over, std::memory_order_release);
  return any;
}

/// Fails where something under way waits for a rank that has left.
void RankRunner::look_who_has_left() {
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (!engine_.liveness().has_left(peer)) continue;
    for (const SetRunner* runner : mine_) {
      if (!runner->ended() && runner->lacks(peer)) {
        return lost(peer, has_left(peer));
      }
    }
  }
}

}  // namespace stretto
