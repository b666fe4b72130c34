#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/protocol/protocol_state.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// How a rank asks all others how far they are, to say for whom it waits. A part of a collective, of whose control
/// messages it has two.
class StateQuery {
 public:
  /// `first_channel`: of its two control messages. `state`: this rank's; called on the thread that drives the engine.
  StateQuery(Engine& engine, std::uint16_t first_channel, std::function<ProtocolState()> state)
      : engine_(engine),
        ask_(first_channel),
        answer_(static_cast<std::uint16_t>(first_channel + 1)),
        state_(std::move(state)) {}
  /// Requires: before any other call.
  void enroll(CollectiveId id) { id_ = id; }

  // ---- application thread ----

  /// Asks, waits so long for the answers, and names the ranks without which round `open` does not go on, as a sentence:
  /// "round 412 (full) waits for rank 3 (computing)". `round`: in words, "round 412 (full)".
  std::string who_is_missing(Driver& driver, Duration timeout, Round open, const std::string& round,
                             FunctionRef<bool()> failed);

  // ---- the thread that drives the engine ----

  /// Once a step: sends what the application has asked for.
  void poll();
  /// Returns false for a message of another kind.
  bool control(int peer, const Envelope& envelope, std::span<const std::byte> head);

 private:
  struct Answer {
    bool here = false;
    ProtocolState state;
  };
  Answer answer(int rank) const;
  bool all_answered() const;

  Engine& engine_;
  const std::uint16_t ask_, answer_;
  const std::function<ProtocolState()> state_;
  CollectiveId id_ = 0;
  std::atomic<std::uint32_t> wanted_{0};
  std::uint32_t asked_ = 0;  // the driver thread's

  mutable Mutex mutex_;
  std::vector<Answer> answers_ GUARDED_BY(mutex_);
};

}  // namespace stretto
