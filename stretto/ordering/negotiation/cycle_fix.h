#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "stretto/ordering/negotiation/coordinator.h"

namespace stretto {

/// A coordinator whose cycles its heir changes: next(), and with it control(). All else is the coordinator's.
class ChangedCycles : public Orderer {
 public:
  explicit ChangedCycles(const CoordinatorOptions& options) : coordinator_(options) {}

  TensorId tensor(const TensorDescription& description) final { return coordinator_.tensor(description); }
  const TensorDescription& description(TensorId id) const final { return coordinator_.description(id); }
  Result<void> submitted(TensorId id, StepNumber step) final { return coordinator_.submitted(id, step); }
  void executed(StepNumber, const ExecutedGraph&) final {}
  void step_ended(StepNumber step) final { coordinator_.step_ended(step); }
  void drained() final { coordinator_.drained(); }
  void blocked(std::optional<TensorId> on, TimePoint since) final { coordinator_.blocked(on, since); }
  void completed(SequenceNumber number, const BufferHeader& header) final { coordinator_.completed(number, header); }
  std::vector<BufferOutcome> take_outcomes() final { return coordinator_.take_outcomes(); }
  StepNumber closed() const final { return coordinator_.closed(); }
  std::vector<std::string> take_lines() final { return coordinator_.take_lines(); }

  const Coordinator& coordinator() const { return coordinator_; }

 protected:
  Coordinator coordinator_;
};

/// A fix of the coordinator's cycles, which OrderingOptions::named() knows by its name. The library has none of its own
/// (papers/register.h).
struct CycleFix {
  std::string_view name;
  /// `every`: OrderingOptions::gs_every.
  std::unique_ptr<ChangedCycles> (*make)(const CoordinatorOptions& options, int every);
  bool waits = true;  ///< a rank waits for an agreement; false: it looks now and then whether there is one
};

/// Before any rank is started; one thread. Again: adds nothing. `fix` outlives all ranks.
void register_cycle_fix(const CycleFix& fix);
/// In the order in which they were registered.
std::span<const CycleFix* const> cycle_fixes();

}  // namespace stretto
