#pragma once

#include <cstdint>
#include <optional>

#include "stretto/ordering/negotiation/cycle_fix.h"

namespace stretto {

/// GS: at the end of every N-th cycle all members sleep equally long (Pumma et al., "Alleviating Load Imbalance in Data
/// Processing for Large-Scale Deep Learning", section IV-A). A member that has come late to one cycle does not come
/// late to the next one for that. Costs an allreduce more, of a number.
class SleepTogether final : public ChangedCycles {
 public:
  /// Requires: `every` ≥ 1.
  SleepTogether(const CoordinatorOptions& options, int every) : ChangedCycles(options), every_(every) {}

  void control(const ControlResult& result) override;
  OrdererAction next(TimePoint now) override;

 private:
  const int every_;                       // cycles
  std::uint64_t asked_in_ = 0;            // the last cycle at whose end the members have agreed, or do
  std::optional<std::uint64_t> minimum_;  // the number of the control collective under way
  std::optional<Duration> nap_;           // its result
};

/// NBCS: a member looks once a cycle whether an agreement is there, and does not wait for it (section IV-B there). What
/// a sync says is what was in its words, whatever has been submitted since.
class NonblockingCycles final : public ChangedCycles {
 public:
  explicit NonblockingCycles(const CoordinatorOptions& options)
      : ChangedCycles(options), cycle_time_(options.cycle_time) {}

  void control(const ControlResult& result) override;
  OrdererAction next(TimePoint now) override;

 private:
  const Duration cycle_time_;
  std::uint64_t cycle_ = 0;  // the one of the last control collective
  bool under_way_ = false;   // a control collective
  TimePoint looks_;          // when the next look is
};

/// "gs" and "nbcs".
std::span<const CycleFix> paper_cycle_fixes();

}  // namespace stretto
