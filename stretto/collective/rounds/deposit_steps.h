#pragma once

#include <utility>
#include <variant>

#include "stretto/board/partial_seat.h"
#include "stretto/collective/rounds/front.h"

namespace stretto {

/// A deposit in the making: a step machine, so that a search can interleave it with the rounds.
class DepositSteps {
 public:
  DepositSteps() = default;  ///< it has been made
  explicit DepositSteps(Front::Deposit deposit) : steps_(std::move(deposit)) {}
  explicit DepositSteps(PartialSeat::Deposit deposit) : steps_(std::move(deposit)) {}
  /// One step; returns true when the deposit has been made.
  bool step() {
    return std::visit([](auto& deposit) { return deposit.step(); }, steps_);
  }

 private:
  struct Made {
    bool step() { return true; }
  };
  std::variant<Made, Front::Deposit, PartialSeat::Deposit> steps_;
};

}  // namespace stretto
