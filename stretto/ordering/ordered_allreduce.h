#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/collective/base/argument.h"
#include "stretto/collective/base/collective.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/observe/round_header.h"
#include "stretto/observe/tensor_times.h"
#include "stretto/ordering/options/ordering_options.h"
#include "stretto/ordering/options/ordering_statistics.h"
#include "stretto/ordering/orderer/graph.h"
#include "stretto/ordering/orderer/orderer.h"

namespace stretto {

/// A step that all members of all sets have ended; valid inside the apply function only.
struct OrderedStep {
  StepNumber step = 0;                  ///< its number, from 0; the same on every rank
  const RoundHeader* header = nullptr;  ///< who brought how much, from the first buffer of set 0; never null
  /// Tensors that have been reduced, of the sets this rank is in, the same on every member of a set: not those of which
  /// no member has brought an element. The result of each lies where submit() or destination() has said last.
  std::span<const TensorDescription* const> reduced;
  /// The reduced tensors whose result lies in OrderedAllreduce::shared_sums() instead, at the place that destination()
  /// names.
  std::span<const TensorDescription* const> shared;
};

/// Makes the orderer of a process set that this rank is in.
using OrdererFactory = std::function<std::unique_ptr<Orderer>(const ProcessSet& set)>;

/// Reduces tensors that become ready in an order that differs between ranks: all members of a process set reduce the
/// same fused buffers in the same order. Which ones is decided by an Orderer; this carries it out, on the thread that
/// drives the engine. Sums are elementwise in the fixed order (docs/protocol.md, Bits), so that which tensors are
/// reduced together does not touch the bits.
///
///     OrderedAllreduce tensors(engine, OrderingOptions::named("topo"));
///     tensors.begin_step({.samples = 32});
///     // From any thread, one call for each tensor:
///     tensors.submit({.name = "fc.weight", .count = n}, Argument::in(gradient), Argument::out(sum));
///     tensors.end_step(driver, deadline, [&](const OrderedStep& step) { … }).or_throw();
///
/// One application thread, but for submit(). Any failure is final and comes to every rank.
class OrderedAllreduce final : public Collective {
 public:
  /// The application's function for a step: called on its thread, inside end_step() or finish().
  using Apply = FunctionRef<void(const OrderedStep&)>;

  /// Registers with the engine: in the same order, with the same options, on every rank. Throws UsageError for options
  /// that check() refuses, and for OrderingOptions::Kind::none. `factory`: empty for the orderers that the options
  /// name.
  OrderedAllreduce(Engine& engine, OrderingOptions options, OrdererFactory factory = {});
  /// After finish(), or after a failure. With a buffer under way the engine steps no more (Engine::remove()).
  ~OrderedAllreduce() override;

  /// Memory of this rank for what it hands over, OrderingOptions::memory_bytes of it, aligned to pages: where other
  /// ranks sum a tensor, or several that lie one behind the other as they are fused, they read it there, without a
  /// copy. Empty where the ranks share none, or too little.
  std::span<std::byte> memory() const;
  /// As much memory, which all ranks see: a sum that all of them want there is written once, for all, and read by each
  /// inside the apply function alone. Only to be read. Empty where memory() is.
  std::span<std::byte> shared_sums() const;

  /// Where the result of a tensor goes in steps in which this rank does not submit it: an unused parameter, or a rank
  /// that has drained. The memory belongs to this object until the end, but for the times between end_step() and the
  /// next begin_step() and inside the apply function. Before the first step, or between two.
  ///
  /// `shared`: where in shared_sums() the result may lie instead, in steps in which every rank submits the tensor: it
  /// does for those that OrderedStep::shared names. The same place on every rank, and no other tensor's, and wait() is
  /// not for such a tensor; null: nowhere.
  void destination(const TensorDescription& tensor, Argument out, const std::byte* shared = nullptr);

  /// Begins the next step and returns its number. `info`: what is known by now, for the header; times of the last step
  /// where those of this one are not. Throws UsageError before end_step() of the last one has succeeded, and after
  /// drain().
  StepNumber begin_step(const DepositInfo& info);

  /// Hands a tensor over: never blocks. `in` is only read, `out` is written; both may be the same memory, and belong to
  /// this object until wait() for the tensor or end_step() has returned. Any thread. Throws UsageError outside a step,
  /// for arguments that do not fit the description, for a process set that there is not or that this rank is not in,
  /// for a name that this step has seen, and for a reduction that the type does not have.
  void submit(const TensorDescription& tensor, Argument in, Argument out);

  /// Waits until the tensor of this step is reduced. The application must have submitted it, and submits nothing until
  /// then. Errc::timeout: names who is missing; call again. Throws UsageError for a tensor that has not been submitted.
  Result<void> wait(Driver& driver, const std::string& name, TimePoint deadline);

  /// Hands over the executed graph of this step, all process sets, for an orderer that plans by it. Between the last
  /// submit() and end_step(). Of no use while follows_plan().
  void executed(const ExecutedGraph& graph);
  /// Whether the next step follows a plan in every set of this rank, as far as is known here. Between two steps.
  bool follows_plan() const;

  /// Nothing more is submitted in this step. Waits until it is closed on all members of all sets of this rank, passes
  /// it to `apply` and returns. Errc::timeout: call again. Throws UsageError where another thread submits still.
  Result<void> end_step(Driver& driver, TimePoint deadline, Apply apply);

  /// No further steps here. Returns at once; the thread that drives goes on to answer the others.
  void drain();
  /// drain(), where it has not been called; passes the steps of the others to `apply`, in order; returns how many when
  /// every rank has drained. Errors as end_step(). Throws UsageError in a step.
  Result<int> finish(Driver& driver, TimePoint deadline, Apply apply);

  /// Where a call that does not block has got to.
  enum class Progress { waiting, done };
  /// end_step() and finish() without blocking: call again while they wait, with the engine stepped in between.
  Result<Progress> try_end_step(Apply apply);
  Result<Progress> try_finish(Apply apply);  ///< see try_end_step()

  void abort(Driver& driver, const Error& why) override;
  std::optional<Error> failure() const override;
  std::string who_is_missing(Driver& driver, Duration timeout) override;

  /// Lines for a person to read, since the last call: changes of the graph, stalls.
  std::vector<std::string> take_lines();
  /// The cost of ordering on this rank so far.
  OrderingStatistics statistics() const;
  /// From now on keeps the times of each tensor that this rank hands over, for take_timeline(); costs a copy of its
  /// name a step. Between two steps, or before the first. Ranks may differ in this.
  void record_timeline();
  /// The times of this rank's tensors whose sums have come, or were thrown away, since the last call, by the engine's
  /// clock, in the order in which that happened: the newest 65,536. None without record_timeline().
  std::vector<TensorTimes> take_timeline();
  StepNumber steps() const;                ///< handed over so far
  std::uint64_t memory_bytes() const;      ///< held for buffers now
  const OrderingOptions& options() const;  ///< as given to the constructor

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
