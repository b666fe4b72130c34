#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/check/harness/prime_field.h"
#include "stretto/membership/views/asked_givers.h"

namespace stretto {

/// Nodes that come to a grid, and take the state of one that is there: AskedGivers as built, over words that take their
/// time. The one that is asked answers at its next step boundary, if it is still there by then.
class StateGiving {
 public:
  struct Surroundings {
    std::function<void(int node, std::function<void()> run)> later;  ///< unless the node is gone by then
    std::function<void(int node, Duration within, std::function<void()> run)> wait;  ///< likewise; AskedGivers::Asked
    std::function<void(int node, const FieldVector& state)> take;
  };
  struct Counts {
    std::uint64_t given = 0, asked_again = 0;
  };

  explicit StateGiving(Surroundings around) : around_(std::move(around)) {}

  /// The node has come without a state, and has heard of a view in which these give theirs; again: of a later one.
  void hear(int node, const std::vector<int>& gives);
  bool any_awaits() const { return !comers_.empty(); }
  /// The node is between two steps, with this state.
  void at_boundary(int node, const FieldVector& state);
  void gone(int node);
  const Counts& counts() const { return counts_; }

 private:
  struct Comer {
    View newest;
    AskedGivers asked;
    std::uint64_t asking = 0;  // the last time
  };
  void ask(int node);

  const Surroundings around_;
  std::map<int, Comer> comers_;
  std::map<int, std::vector<int>> asked_by_;
  Counts counts_;
};

}  // namespace stretto
