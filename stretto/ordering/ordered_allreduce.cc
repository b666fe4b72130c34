#include "stretto/ordering/ordered_allreduce.h"

#include <algorithm>
#include <utility>

#include "stretto/base/doorbell.h"
#include "stretto/observe/round_header.h"
#include "stretto/ordering/runtime/rank_runner.h"

namespace stretto {
namespace {

/// Longest sleep of an application that leaves the engine to the helper thread: bounds the damage of a missed wake-up.
constexpr Duration kLongestSleep = std::chrono::milliseconds(250);

OrderingOptions checked(OrderingOptions options, int ranks) {
  options.check(ranks);
  if (options.kind == OrderingOptions::Kind::none) throw UsageError("ordering none orders nothing: use Allreduce");
  return options;
}

}  // namespace

class OrderedAllreduce::Impl {
 public:
  Impl(Engine& engine, OrderingOptions options, const OrdererFactory& factory);

  StepNumber begin_step(const DepositInfo& info);
  void submit(const TensorDescription& tensor, const Argument& in, const Argument& out) {
    if (runner_.queue().submit(tensor, in, out, engine_.clock().now())) engine_.doorbell().ring();
  }
  Result<void> wait(Driver& driver, const std::string& name, TimePoint deadline);
  void executed(const ExecutedGraph& graph);
  void drain();
  Result<void> end_step(Driver& driver, TimePoint deadline, Apply apply);
  Result<int> finish(Driver& driver, TimePoint deadline, Apply apply);
  Result<Progress> try_end_step(Apply apply);
  Result<Progress> try_finish(Apply apply);
  std::string who_is_missing(Driver& driver);
  RankRunner& runner() { return runner_; }
  const OrderingOptions& options() const { return options_; }

 private:
  bool end();
  Result<bool> hand_over(Apply apply, bool until_over);
  bool wait_until(Driver& driver, FunctionRef<bool()> done, TimePoint deadline);
  Error timeout(Driver& driver, TimePoint called);
  StepNumber steps() const { return runner_.handed(); }
  bool failed() const { return runner_.failure().failed(); }

  Engine& engine_;
  const OrderingOptions options_;
  RankRunner runner_;

  // The application thread's.
  bool in_step_ = false;
  bool ended_ = false;  // of the step it is in: end_step() has been called
  bool drained_ = false;
  TimePoint begun_;
};

OrderedAllreduce::Impl::Impl(Engine& engine, OrderingOptions options, const OrdererFactory& factory)
    : engine_(engine), options_(checked(std::move(options), engine.size())), runner_(engine, options_, factory) {}

// ---- the application's thread ----

StepNumber OrderedAllreduce::Impl::begin_step(const DepositInfo& info) {
  if (in_step_) throw UsageError(text("step ", steps(), " has not ended: call end_step() until it succeeds"));
  if (drained_) throw UsageError("begin_step() after drain()");
  runner_.counters().enter_application();
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
  runner_.queue().begin_step(step, std::move(account));
  return step;
}

void OrderedAllreduce::Impl::executed(const ExecutedGraph& graph) {
  if (!in_step_ || ended_) throw UsageError("executed() outside a step");
  runner_.queue().push(
      {.kind = OrderingEvent::Kind::executed, .step = steps(), .graph = std::make_shared<const ExecutedGraph>(graph)});
}

Result<void> OrderedAllreduce::Impl::wait(Driver& driver, const std::string& name, TimePoint deadline) {
  if (!in_step_ || ended_) throw UsageError(text("wait for tensor ", name, " outside a step"));
  const TensorSlot& slot = runner_.queue().submitted(name);
  const StepNumber wanted = steps() + 1;
  const auto reduced = [&] { return slot.reduced.load(std::memory_order_acquire) == wanted; };
  if (reduced()) return {};
  const TimePoint called = engine_.clock().now();
  runner_.queue().push({.kind = OrderingEvent::Kind::blocked, .slot = &runner_.queue().submitted(name), .at = called});
  if (options_.background_only) driver.notify();  // else this thread drives
  const bool done = wait_until(
      driver, [&] { return reduced() || failed(); }, deadline);
  runner_.queue().push({.kind = OrderingEvent::Kind::blocked, .at = engine_.clock().now()});
  if (reduced()) return {};
  if (auto why = runner_.failure().error()) return *std::move(why);
  STRETTO_CHECK(!done, "the wait for ", name, " has ended for nothing");
  return timeout(driver, called);
}

/// Returns whether that is new, and whoever drives has to know.
bool OrderedAllreduce::Impl::end() {
  if (!in_step_) throw UsageError("end_step() without begin_step()");
  if (ended_) return false;
  runner_.queue().end_step();
  ended_ = true;
  begun_ = engine_.clock().now();
  return true;
}

void OrderedAllreduce::Impl::drain() {
  if (in_step_) throw UsageError(text("drain() in step ", steps(), ": end it first"));
  if (std::exchange(drained_, true)) return;
  runner_.counters().enter_application();
  begun_ = engine_.clock().now();
  runner_.queue().push({.kind = OrderingEvent::Kind::drained});
  engine_.doorbell().ring();
}

/// Passes the oldest step that is closed, if there is one and it has not been handed over. Returns whether it did.
Result<bool> OrderedAllreduce::Impl::hand_over(Apply apply, bool until_over) {
  if (!runner_.closed()) {
    if (until_over && runner_.over()) return false;
    if (auto why = runner_.failure().error()) return *std::move(why);
    return false;
  }
  const RankRunner::Finished finished = runner_.take_finished();
  apply({finished.step, &finished.header, finished.reduced, finished.shared});
  runner_.counters().count([](OrderingStatistics& all) { ++all.steps; });
  in_step_ = false;
  runner_.set_handed(finished.step + 1);
  if (drained_) engine_.doorbell().ring();  // the next step's results may be waiting
  return true;
}

Result<OrderedAllreduce::Progress> OrderedAllreduce::Impl::try_end_step(Apply apply) {
  if (end()) engine_.doorbell().ring();
  const auto handed = hand_over(apply, false);
  if (!handed) return handed.error();
  return *handed ? Progress::done : Progress::waiting;
}

Result<OrderedAllreduce::Progress> OrderedAllreduce::Impl::try_finish(Apply apply) {
  drain();
  for (;;) {
    const auto handed = hand_over(apply, true);
    if (!handed) return handed.error();
    if (!*handed) return runner_.over() && !runner_.closed() ? Progress::done : Progress::waiting;
  }
}

Result<void> OrderedAllreduce::Impl::end_step(Driver& driver, TimePoint deadline, Apply apply) {
  const TimePoint called = engine_.clock().now();
  if (end() && options_.background_only) driver.notify();  // else this thread drives
  const bool done = wait_until(
      driver, [&] { return runner_.closed() || failed(); }, deadline);
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
        driver, [&] { return runner_.closed() || runner_.over() || failed(); }, deadline);
    const auto handed = hand_over(apply, true);
    if (!handed) return handed.error();
    if (*handed) {
      ++steps;
    } else if (runner_.over() && !runner_.closed()) {
      return steps;
    } else if (!done) {
      return timeout(driver, called);
    }
  }
}

bool OrderedAllreduce::Impl::wait_until(Driver& driver, FunctionRef<bool()> done, TimePoint deadline) {
  runner_.counters().enter_application();
  if (!options_.background_only) return driver.wait(done, deadline);
  for (;;) {
    const std::uint32_t seen = runner_.progress().load(std::memory_order_seq_cst);
    if (done()) return true;
    const Duration left = deadline - engine_.clock().now();
    if (left <= Duration::zero()) return false;
    futex_sleep({&runner_.progress(), seen}, ~0u, std::min(left, kLongestSleep), false);
  }
}

Error OrderedAllreduce::Impl::timeout(Driver& driver, TimePoint called) {
  return {Errc::timeout, text("step ", steps(), " is not complete after ", seconds(engine_.clock().now() - called),
                              " s; ", who_is_missing(driver))};
}

std::string OrderedAllreduce::Impl::who_is_missing(Driver& driver) {
  std::string words;
  driver.wait_driving([&] { return words = runner_.waits_for(begun_), true; }, engine_.clock().now());
  return text("step ", steps(), " waits for ", words);
}

// ---- what the application holds ----

OrderedAllreduce::OrderedAllreduce(Engine& engine, OrderingOptions options, OrdererFactory factory)
    : impl_(std::make_unique<Impl>(engine, std::move(options), factory)) {}
OrderedAllreduce::~OrderedAllreduce() = default;

std::span<std::byte> OrderedAllreduce::memory() const {
  return impl_->runner().memory();
}
std::span<std::byte> OrderedAllreduce::shared_sums() const {
  return impl_->runner().shared_sums();
}
void OrderedAllreduce::destination(const TensorDescription& tensor, Argument out, const std::byte* shared) {
  const std::span<std::byte> sums = shared_sums();
  std::byte* place = nullptr;
  if (shared != nullptr) {
    const auto at = static_cast<std::uint64_t>(shared - sums.data());
    if (std::less<>()(shared, sums.data()) || at > sums.size() || tensor.bytes() > sums.size() - at) {
      throw UsageError(text("tensor ", tensor.name, ": its shared sum does not lie in shared_sums()"));
    }
    place = sums.data() + at;
  }
  impl_->runner().queue().destination(tensor, out, place);
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
bool OrderedAllreduce::follows_plan() const {
  return impl_->runner().queue().follows_plan();
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
  impl_->runner().failure().abort(driver, why);
}
std::optional<Error> OrderedAllreduce::failure() const {
  return impl_->runner().failure().error();
}
std::string OrderedAllreduce::who_is_missing(Driver& driver, Duration) {
  return impl_->who_is_missing(driver);
}
std::vector<std::string> OrderedAllreduce::take_lines() {
  return impl_->runner().take_lines();
}
OrderingStatistics OrderedAllreduce::statistics() const {
  return impl_->runner().counters().read();
}
void OrderedAllreduce::record_timeline() {
  impl_->runner().timeline().keep();
}
std::vector<TensorTimes> OrderedAllreduce::take_timeline() {
  return impl_->runner().timeline().take();
}
StepNumber OrderedAllreduce::steps() const {
  return impl_->runner().handed();
}
std::uint64_t OrderedAllreduce::memory_bytes() const {
  return impl_->runner().memory_bytes();
}
const OrderingOptions& OrderedAllreduce::options() const {
  return impl_->options();
}

}  // namespace stretto
