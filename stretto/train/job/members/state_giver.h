#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/membership/changes.h"

namespace stretto {

/// The state that one that comes takes from a member beside training, text by text.
using GivenState = std::vector<std::string>;

/// A member's end of that, as rank 0 of a world of the two. Throws Failure: Errc::timeout where the other has not begun
/// to send `within` that time, Errc::lost_peer, and Errc::members_changed.
GivenState receive_state(World& world, Driver& driver, Duration within);

/// Gives the state of this rank, as it is at a step boundary, to those that come and ask it (Changes::follow_comers()),
/// while the application goes on.
class StateGiver {
 public:
  /// `changes` outlives it. Requires: Changes::some_may_meet().
  explicit StateGiver(Changes& changes);
  ~StateGiver();
  StateGiver(const StateGiver&) = delete;
  StateGiver& operator=(const StateGiver&) = delete;

  // Application thread:
  /// Between two steps: begins to send what `state` returns to those that have asked. `state` is not called where
  /// nobody has.
  void at_boundary(FunctionRef<GivenState()> state);
  /// Before a wait for others, with this state: all that ask meanwhile get that at once.
  void stays(GivenState state);
  void goes_on();

 private:
  /// A state under way to one that comes.
  class Sending;
  void be_asked(std::shared_ptr<World> world);

  std::mutex mutex_;  // of what follows
  std::vector<std::shared_ptr<World>> waiting_;
  std::vector<std::unique_ptr<Sending>> under_way_;
  std::optional<GivenState> standing_;  // of an application that waits

  std::unique_ptr<Following> following_;  // ends first
};

}  // namespace stretto
