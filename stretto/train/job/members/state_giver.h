#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "stretto/membership/changes.h"

namespace stretto {

/// The state that one that comes takes from a member beside training, text by text.
using GivenState = std::vector<std::string>;

/// A member's end of that, in a world of the two. Throws Failure (Errc::timeout) where the member has not begun to send
/// `within` that time, and Errc::lost_peer.
GivenState receive_state(World& world, Driver& driver, Duration within);

/// Has this rank give its state to those that come, each in a world of the two, by a thread beside training. They ask
/// one member after the other (Changes::is_given_beside()), and take the state of the first that comes to a step
/// boundary.
class StateGiver {
 public:
  /// `changes` outlives it. Requires: Changes::some_may_meet().
  explicit StateGiver(Changes& changes);
  ~StateGiver();
  StateGiver(const StateGiver&) = delete;
  StateGiver& operator=(const StateGiver&) = delete;

  // Application thread:
  /// Whether somebody waits for hand_over().
  bool is_asked() const { return asked_.load(std::memory_order_acquire); }
  /// The state as it is now, at a step boundary, for the one that waits. With `stays` it is that of this rank until
  /// goes_on(), for all that ask.
  void hand_over(GivenState state, bool stays);
  /// `begun`: the epoch of the view in whose world it has begun: all of its members have a model.
  void goes_on(std::uint64_t begun);

 private:
  void follow();
  void give_to(MemberNumber comer);
  /// Nothing: the one that comes does not wait for it any more.
  std::optional<GivenState> wait_for_state(MemberNumber comer);
  bool waits(MemberNumber comer);

  Changes& changes_;
  std::atomic<bool> asked_{false}, stops_{false};
  std::atomic<std::uint64_t> begun_{0};
  std::mutex mutex_;
  std::condition_variable handed_over_;
  std::optional<GivenState> state_;  // with the mutex; its own
  bool stays_ = false;
  std::set<MemberNumber> given_;  // the thread's
  std::thread thread_;
};

}  // namespace stretto
