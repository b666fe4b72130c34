#include "stretto/papers/ordering/cycle_fixes.h"

#include <utility>

namespace stretto {
namespace {

using Kind = OrdererAction::Kind;

std::unique_ptr<ChangedCycles> make_gs(const CoordinatorOptions& options, int every) {
  return std::make_unique<SleepTogether>(options, every);
}

std::unique_ptr<ChangedCycles> make_nbcs(const CoordinatorOptions& options, int) {
  return std::make_unique<NonblockingCycles>(options);
}

constexpr CycleFix kFixes[] = {{"gs", make_gs}, {"nbcs", make_nbcs, false}};

}  // namespace

std::span<const CycleFix> paper_cycle_fixes() {
  return kFixes;
}

void SleepTogether::control(const ControlResult& result) {
  if (minimum_ != result.control) return coordinator_.control(result);
  minimum_.reset();
  nap_ = result.nap;
}

OrdererAction SleepTogether::next(TimePoint now) {
  if (nap_) {
    coordinator_.sleep_until(now + *nap_);
    nap_.reset();
  }
  OrdererAction action = coordinator_.next(now);
  if (action.kind != Kind::sleep) return action;
  if (minimum_) {
    action.kind = Kind::wait;
    return action;
  }
  const std::uint64_t cycle = coordinator_.cycles();
  if (asked_in_ == cycle || cycle % static_cast<std::uint64_t>(every_) != 0) return action;
  asked_in_ = cycle;
  minimum_ = coordinator_.take_control();
  OrdererAction minimum;
  minimum.kind = Kind::minimum;
  minimum.control = *minimum_;
  minimum.nap = action.until - now;
  coordinator_.sleep_until(TimePoint::never());
  return minimum;
}

void NonblockingCycles::control(const ControlResult& result) {
  under_way_ = false;
  coordinator_.control(result);
}

OrdererAction NonblockingCycles::next(TimePoint now) {
  OrdererAction action = coordinator_.next(now);
  switch (action.kind) {
    case Kind::sync:
    case Kind::gather:
    case Kind::broadcast:
      under_way_ = true;
      if (std::exchange(cycle_, coordinator_.cycles()) != coordinator_.cycles()) looks_ = now;
      return action;
    case Kind::wait: break;
    default: return action;
  }
  if (!under_way_) return action;
  if (now >= looks_) looks_ = now + cycle_time_;
  action.kind = Kind::sleep;
  action.until = looks_;
  return action;
}

}  // namespace stretto
