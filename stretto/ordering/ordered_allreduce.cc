#include "stretto/ordering/ordered_allreduce.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <limits>
#include <utility>

#include "stretto/base/align.h"
#include "stretto/base/cores.h"
#include "stretto/base/futex.h"
#include "stretto/base/mutex.h"
#include "stretto/collective/collective_failure.h"
#include "stretto/observe/contribution_facts.h"
#include "stretto/ordering/application_queue.h"
#include "stretto/ordering/fused_board.h"
#include "stretto/ordering/fused_sequence.h"
#include "stretto/ordering/make_orderer.h"
#include "stretto/ordering/ordering_counters.h"
#include "stretto/ordering/set_runner.h"

namespace stretto {
namespace {

/// Longest sleep of an application that leaves the engine to the helper thread: bounds the damage of a missed wake-up.
constexpr Duration kLongestSleep = std::chrono::milliseconds(250);

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
  out += text("\nshared memory ", options.share_memory ? "yes" : "no");
  for (const ProcessSet& set : sets) out += text('\n', set.to_text());
  return out;
}

}  // namespace

class OrderedAllreduce::Impl final : private EngineClient {
 public:
  Impl(Engine& engine, OrderingOptions options, const OrdererFactory& factory);
  ~Impl() override;

  StepNumber begin_step(const DepositInfo& info);
  void submit(const TensorDescription& tensor, const Argument& in, const Argument& out) {
    queue_.submit(tensor, in, out, engine_.clock().now());
    engine_.doorbell().ring();
  }
  void destination(const TensorDescription& tensor, const Argument& out) { queue_.destination(tensor, out); }
  Result<void> wait(Driver& driver, const std::string& name, TimePoint deadline);
  void executed(const ExecutedGraph& graph);
  void end(bool once_more);
  void drain();
  Result<bool> hand_over(Apply apply, bool until_over);
  Result<void> end_step(Driver& driver, TimePoint deadline, Apply apply);
  Result<int> finish(Driver& driver, TimePoint deadline, Apply apply);
  Result<Progress> try_end_step(Apply apply);
  Result<Progress> try_finish(Apply apply);
  std::string who_is_missing(Driver& driver);
  std::vector<std::string> take_lines();
  OrderingStatistics statistics() const;
  std::uint64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  StepNumber steps() const { return handed_.load(std::memory_order_relaxed); }
  const OrderingOptions& options() const { return options_; }
  CollectiveFailure& failure() { return failure_; }

 private:
  struct Finished {
    StepNumber step = 0;
    RoundHeader header;
    std::vector<TensorDescription> reduced;
  };

  bool poll(TimePoint now) override;
  TimePoint poll_by() const override;
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int peer, const Error& reason) override;
  void left(int peer, const Error&) override { left_.push_back(peer); }
  void broken(const Error& reason) override;

  void settle_background();
  std::uint64_t board_bytes(const ProcessSet& set) const;
  std::span<std::byte> take_shared(const std::string& alike);
  bool take_events();
  bool publish();
  void look_who_has_left();
  void wake_application();
  bool wait_until(Driver& driver, FunctionRef<bool()> done, TimePoint deadline);
  Error timeout(Driver& driver, TimePoint called);
  std::string waits_for() const;
  bool closed() const { return closed_.load(std::memory_order_acquire) > handed_.load(std::memory_order_relaxed); }
  bool over() const { return over_.load(std::memory_order_acquire); }

  // Fixed after construction.
  Engine& engine_;
  const OrderingOptions options_;
  const std::vector<ProcessSet> sets_;
  CollectiveId id_ = 0;
  OrderingCounters counters_;     // thread-safe, as the next
  CollectiveFailure failure_;     // gives back the memory of boards, which nobody looks at without a step of the engine
  std::vector<SetRunner*> mine_;  // the runners of sets that this rank is in, by number: set 0 first

  // The application thread's.
  bool in_step_ = false;
  bool ended_ = false;  // of the step it is in: end_step() has been called
  bool drained_ = false;
  TimePoint begun_;

  // The driving thread's.
  RankPatience patience_;                            // before the runners, whose orderers refer to it
  std::vector<std::unique_ptr<SetRunner>> runners_;  // of all sets
  std::vector<OrderingEvent> events_;
  std::vector<int> left_;  // ranks from which nothing comes any more
  StepNumber published_ = 0;
  bool at_end_ = false;  // no further steps: all ranks had drained in the one that was closed last
  bool told_of_failure_ = false;

  // Between the two.
  ApplicationQueue queue_;
  std::atomic<StepNumber> closed_{
      0};  // driver, with release: steps that are in finished_ or have been; pairs with closed()
  std::atomic<StepNumber> handed_{0};       // application, with release: steps that it has applied; pairs with poll()
  std::atomic<bool> over_{false};           // driver, with release: every rank has drained; pairs with over()
  std::atomic<std::uint32_t> progress_{0};  // a word to sleep on: the driver counts it up after any of the above
  std::atomic<std::uint64_t> memory_bytes_{0};
  mutable Mutex results_mutex_;
  std::deque<Finished> finished_ GUARDED_BY(results_mutex_);
  std::vector<std::string> lines_ GUARDED_BY(results_mutex_);
};

OrderedAllreduce::Impl::Impl(Engine& engine, OrderingOptions options, const OrdererFactory& factory)
    : engine_(engine),
      options_(std::move(options)),
      sets_((options_.check(engine.size()), sets_of(engine, options_))),
      failure_(engine),
      queue_(sets_) {
  if (options_.kind == OrderingOptions::Kind::none) throw UsageError("ordering none orders nothing: use Allreduce");
  const Engine::Pause pause(engine);
  const OrdererFactory make =
      factory ? factory : [this](const ProcessSet& set) { return make_orderer(options_, set, patience_); };
  const std::string alike = items_of(options_, sets_);
  id_ = engine.add(*this, "ordered allreduce" + alike);
  failure_.enroll(id_);
  const std::span<std::byte> shared = take_shared(alike);
  std::uint64_t at = 0;
  for (const ProcessSet& set : sets_) {
    std::unique_ptr<FusedWay> buffers;
    const std::uint64_t bytes = shared.empty() ? 0 : board_bytes(set);
    if (bytes > 0 && set.has_this_rank()) {
      SharedArena& arena = *engine.arena();
      buffers = std::make_unique<FusedBoard>(
          shared.subspan(at, bytes), FusedBoard::shape_for(options_.fusion_bytes), set, engine.size(),
          [&arena](int rank) { arena.ring(rank); }, [this](const Error& why) { failure_.fail(why, true); },
          arena.interleaved());
    } else if (bytes == 0) {
      buffers = std::make_unique<FusedSequence>(engine, failure_, set, alike);
    }
    at += bytes;
    runners_.push_back(std::make_unique<SetRunner>(engine, failure_, counters_, options_, set, alike,
                                                   std::move(buffers), set.has_this_rank() ? make(set) : nullptr));
    if (set.has_this_rank()) mine_.push_back(runners_.back().get());
  }
}

OrderedAllreduce::Impl::~Impl() {
  const Engine::Pause pause(engine_);
  engine_.remove(id_);
  runners_.clear();
}

/// Of a set that reduces through shared memory: one of several members.
std::uint64_t OrderedAllreduce::Impl::board_bytes(const ProcessSet& set) const {
  return set.size() == 1
             ? 0
             : round_up(FusedBoard::bytes_needed(FusedBoard::shape_for(options_.fusion_bytes), set, engine_.size()),
                        kPage);
}

/// Memory for the boards of all sets; none where the ranks share none, too little, or shall use none.
std::span<std::byte> OrderedAllreduce::Impl::take_shared(const std::string& alike) {
  if (engine_.arena() == nullptr) return {};
  std::uint64_t bytes = 0;
  if (options_.share_memory) {
    for (const ProcessSet& set : sets_) bytes += board_bytes(set);
  }
  const auto region = failure_.take_shared(bytes, "ordered allreduce" + alike);
  if (region) return *region;
  if (region.error().code != Errc::unavailable) failure_.fail(region.error(), false);
  return {};
}

// ---- the application's thread ----

StepNumber OrderedAllreduce::Impl::begin_step(const DepositInfo& info) {
  if (in_step_) throw UsageError(text("step ", steps(), " has not ended: call end_step() until it succeeds"));
  if (drained_) throw UsageError("begin_step() after drain()");
  counters_.enter_application();
  const StepNumber step = steps();
  RoundHeader account(engine_.size());
  ContributionFacts facts{
      .batches = info.batches, .samples = info.samples, .oldest_base = step, .sum_of_bases = step * info.batches};
  facts.times.computed = static_cast<float>(seconds(info.computed));
  facts.times.waited = static_cast<float>(seconds(info.waited));
  account.arrived.insert(engine_.rank());
  enter(account, step, engine_.rank(), facts);
  in_step_ = true;
  ended_ = false;
  begun_ = engine_.clock().now();
  queue_.begin_step(step, std::move(account));
  return step;
}

void OrderedAllreduce::Impl::executed(const ExecutedGraph& graph) {
  if (!in_step_ || ended_) throw UsageError("executed() outside a step");
  queue_.push(
      {.kind = OrderingEvent::Kind::executed, .step = steps(), .graph = std::make_shared<const ExecutedGraph>(graph)});
}

Result<void> OrderedAllreduce::Impl::wait(Driver& driver, const std::string& name, TimePoint deadline) {
  if (!in_step_ || ended_) throw UsageError(text("wait for tensor ", name, " outside a step"));
  const TensorSlot& slot = queue_.submitted(name);
  const StepNumber wanted = steps() + 1;
  const auto reduced = [&] { return slot.reduced.load(std::memory_order_acquire) == wanted; };
  if (reduced()) return {};
  const TimePoint called = engine_.clock().now();
  queue_.push({.kind = OrderingEvent::Kind::blocked, .slot = &queue_.submitted(name), .at = called});
  driver.notify();
  const bool done = wait_until(
      driver, [&] { return reduced() || failure_.failed(); }, deadline);
  queue_.push({.kind = OrderingEvent::Kind::blocked, .at = engine_.clock().now()});
  driver.notify();
  if (reduced()) return {};
  if (auto why = failure_.error()) return *std::move(why);
  STRETTO_CHECK(!done, "the wait for ", name, " has ended for nothing");
  return timeout(driver, called);
}

void OrderedAllreduce::Impl::end(bool once_more) {
  if (!in_step_) throw UsageError("end_step() without begin_step()");
  if (ended_) return;
  queue_.end_step();
  ended_ = true;
  if (once_more) begun_ = engine_.clock().now();
  engine_.doorbell().ring();
}

void OrderedAllreduce::Impl::drain() {
  if (in_step_) throw UsageError(text("drain() in step ", steps(), ": end it first"));
  if (std::exchange(drained_, true)) return;
  counters_.enter_application();
  begun_ = engine_.clock().now();
  queue_.push({.kind = OrderingEvent::Kind::drained});
  engine_.doorbell().ring();
}

/// Passes the oldest step that is closed, if there is one and it has not been handed over. Returns whether it did.
Result<bool> OrderedAllreduce::Impl::hand_over(Apply apply, bool until_over) {
  if (!closed()) {
    if (until_over && over()) return false;
    if (auto why = failure_.error()) return *std::move(why);
    return false;
  }
  Finished finished;
  {
    MutexLock lock(results_mutex_);
    finished = std::move(finished_.front());
    finished_.pop_front();
  }
  apply({finished.step, &finished.header, finished.reduced});
  counters_.count([](OrderingStatistics& all) { ++all.steps; });
  in_step_ = false;
  handed_.store(finished.step + 1, std::memory_order_release);
  if (drained_) engine_.doorbell().ring();  // the next step's results may be waiting
  return true;
}

Result<OrderedAllreduce::Progress> OrderedAllreduce::Impl::try_end_step(Apply apply) {
  end(true);
  const auto handed = hand_over(apply, false);
  if (!handed) return handed.error();
  return *handed ? Progress::done : Progress::waiting;
}

Result<OrderedAllreduce::Progress> OrderedAllreduce::Impl::try_finish(Apply apply) {
  drain();
  for (;;) {
    const auto handed = hand_over(apply, true);
    if (!handed) return handed.error();
    if (!*handed) return over() && !closed() ? Progress::done : Progress::waiting;
  }
}

Result<void> OrderedAllreduce::Impl::end_step(Driver& driver, TimePoint deadline, Apply apply) {
  const TimePoint called = engine_.clock().now();
  end(true);
  const bool done = wait_until(
      driver, [&] { return closed() || failure_.failed(); }, deadline);
  const auto handed = hand_over(apply, false);
  if (!handed) return handed.error();
  STRETTO_CHECK(*handed || !done, "step ", steps(), " has ended for nothing");
  if (*handed) return {};
  return timeout(driver, called);
}

Result<int> OrderedAllreduce::Impl::finish(Driver& driver, TimePoint deadline, Apply apply) {
  const TimePoint called = engine_.clock().now();
  drain();
  for (int steps = 0;;) {
    const bool done = wait_until(
        driver, [&] { return closed() || over() || failure_.failed(); }, deadline);
    const auto handed = hand_over(apply, true);
    if (!handed) return handed.error();
    if (*handed) {
      ++steps;
    } else if (over() && !closed()) {
      return steps;
    } else if (!done) {
      return timeout(driver, called);
    }
  }
}

bool OrderedAllreduce::Impl::wait_until(Driver& driver, FunctionRef<bool()> done, TimePoint deadline) {
  counters_.enter_application();
  if (!options_.background_only) return driver.wait(done, deadline);
  for (;;) {
    const std::uint32_t seen = progress_.load(std::memory_order_seq_cst);
    if (done()) return true;
    const Duration left = deadline - engine_.clock().now();
    if (left <= Duration::zero()) return false;
    futex_sleep({&progress_, seen}, ~0u, std::min(left, kLongestSleep), false);
  }
}

/// The driving thread, after the application may have something to look at.
void OrderedAllreduce::Impl::wake_application() {
  if (!options_.background_only) return;
  progress_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(progress_, ~0u, false);
}

Error OrderedAllreduce::Impl::timeout(Driver& driver, TimePoint called) {
  return {Errc::timeout, text("step ", steps(), " is not complete after ", seconds(engine_.clock().now() - called),
                              " s; ", who_is_missing(driver))};
}

std::string OrderedAllreduce::Impl::who_is_missing(Driver& driver) {
  std::string words;
  driver.wait_driving([&] { return words = waits_for(), true; }, engine_.clock().now());
  return text("step ", steps(), " waits for ", words);
}

std::vector<std::string> OrderedAllreduce::Impl::take_lines() {
  MutexLock lock(results_mutex_);
  return std::exchange(lines_, {});
}

OrderingStatistics OrderedAllreduce::Impl::statistics() const {
  return counters_.read();
}

// ---- the driving thread ----

std::string OrderedAllreduce::Impl::waits_for() const {
  std::string what, silent;
  for (const SetRunner* runner : mine_) {
    if (!runner->ended()) what += text(what.empty() ? "" : ", ", runner->waits_for());
  }
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (peer == engine_.rank() || engine_.last_heard(peer) >= begun_) continue;
    silent += text(silent.empty() ? "; nothing has come from rank " : ", ", peer);
  }
  return what + (silent.empty() ? "; something has come from every rank meanwhile" : silent);
}

/// The helper thread, which drives for the first time, goes where it is to run.
void OrderedAllreduce::Impl::settle_background() {
  if (!options_.background_cores.empty()) pin_thread(options_.background_cores);
  if (options_.background_first) prefer_thread();
}

bool OrderedAllreduce::Impl::take_events() {
  events_.clear();
  queue_.take(events_);
  for (const OrderingEvent& event : events_) {
    for (SetRunner* runner : mine_) {
      if (event.slot != nullptr && event.slot->description.set != runner->set().number()) continue;
      const auto taken = runner->take(event);
      if (!taken) failure_.fail(taken.error(), true);
    }
  }
  return !events_.empty();
}

bool OrderedAllreduce::Impl::poll(TimePoint now) {
  if (!failure_.poll()) {
    if (!std::exchange(told_of_failure_, true)) wake_application();
    return false;
  }
  bool did = take_events();
  const StepNumber handed = handed_.load(std::memory_order_acquire);
  std::uint64_t memory = 0;
  bool agrees = false;
  for (SetRunner* runner : mine_) {
    if (runner->advance(now, handed)) {
      did = true;
      for (SetRunner* other : mine_) other->look_again();  // what is held back in one set may hold back another
    }
    agrees |= runner->agrees();
    memory += runner->memory_bytes();
  }
  memory_bytes_.store(memory, std::memory_order_relaxed);
  did |= publish();
  if (did) wake_application();
  if (!left_.empty()) look_who_has_left();
  const bool spins = agrees && options_.negotiation_wait == OrderingOptions::Waiting::spin;
  if (counters_.driven(spins)) settle_background();
  return did || spins;
}

TimePoint OrderedAllreduce::Impl::poll_by() const {
  TimePoint by = TimePoint::never();
  if (failure_.failed()) return by;
  for (const SetRunner* runner : mine_) by = std::min(by, runner->advance_by());
  return by;
}

/// Hands steps that all sets have closed to the application, and what a person is to read.
bool OrderedAllreduce::Impl::publish() {
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
      std::ranges::move(step.reduced, std::back_inserter(finished.reduced));
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

void OrderedAllreduce::Impl::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  if (!failure_.control(envelope, head)) broken(CollectiveFailure::unknown(peer, envelope));
}

void OrderedAllreduce::Impl::broken(const Error& reason) {
  failure_.fail({reason.code, text("ordering: ", reason.message), reason.rank}, true);
}

void OrderedAllreduce::Impl::lost(int, const Error& reason) {
  failure_.lose(reason, "ordering");
}

/// Fails where something under way waits for a rank that has left.
void OrderedAllreduce::Impl::look_who_has_left() {
  for (const int peer : left_) {
    for (const SetRunner* runner : mine_) {
      if (!runner->ended() && runner->lacks(peer)) {
        return lost(peer, {Errc::lost_peer, text("rank ", peer, " has left"), peer});
      }
    }
  }
}

// ---- what the application holds ----

OrderedAllreduce::OrderedAllreduce(Engine& engine, OrderingOptions options, OrdererFactory factory)
    : impl_(std::make_unique<Impl>(engine, std::move(options), factory)) {}
OrderedAllreduce::~OrderedAllreduce() = default;

void OrderedAllreduce::destination(const TensorDescription& tensor, Argument out) {
  impl_->destination(tensor, out);
}
StepNumber OrderedAllreduce::begin_step(const DepositInfo& info) {
  return impl_->begin_step(info);
}
void OrderedAllreduce::submit(const TensorDescription& tensor, Argument in, Argument out) {
  impl_->submit(tensor, in, out);
}
Result<void> OrderedAllreduce::wait(Driver& driver, const std::string& name, TimePoint deadline) {
  return impl_->wait(driver, name, deadline);
}
void OrderedAllreduce::executed(const ExecutedGraph& graph) {
  impl_->executed(graph);
}
Result<void> OrderedAllreduce::end_step(Driver& driver, TimePoint deadline, Apply apply) {
  return impl_->end_step(driver, deadline, apply);
}
void OrderedAllreduce::drain() {
  impl_->drain();
}
Result<int> OrderedAllreduce::finish(Driver& driver, TimePoint deadline, Apply apply) {
  return impl_->finish(driver, deadline, apply);
}
Result<OrderedAllreduce::Progress> OrderedAllreduce::try_end_step(Apply apply) {
  return impl_->try_end_step(apply);
}
Result<OrderedAllreduce::Progress> OrderedAllreduce::try_finish(Apply apply) {
  return impl_->try_finish(apply);
}
void OrderedAllreduce::abort(Driver& driver, const Error& why) {
  impl_->failure().abort(driver, why);
}
std::optional<Error> OrderedAllreduce::failure() const {
  return impl_->failure().error();
}
std::string OrderedAllreduce::who_is_missing(Driver& driver, Duration) {
  return impl_->who_is_missing(driver);
}
std::vector<std::string> OrderedAllreduce::take_lines() {
  return impl_->take_lines();
}
OrderingStatistics OrderedAllreduce::statistics() const {
  return impl_->statistics();
}
StepNumber OrderedAllreduce::steps() const {
  return impl_->steps();
}
std::uint64_t OrderedAllreduce::memory_bytes() const {
  return impl_->memory_bytes();
}
const OrderingOptions& OrderedAllreduce::options() const {
  return impl_->options();
}

}  // namespace stretto
