#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/rounds/seating.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// How a rank at one of several boards asks the leaders of the others which of their ranks have come to a round: a
/// board's memory is its own host's. A part of BoardAllreduce, of whose control messages it has two.
class BoardQuery {
 public:
  /// `has_come`: whether the rank at a seat of this board has arrived at so many rounds; any thread.
  BoardQuery(Engine& engine, const Seating& seating, std::function<bool(int seat, std::uint64_t rounds)> has_come);
  /// Requires: before any other call.
  void enroll(CollectiveId id) { id_ = id; }

  /// The ranks of other boards that have not arrived at so many rounds, as words, "rank 3, rank 5 (silent)". A leader
  /// is silent that has not answered by `timeout`; then nothing is known of its board. Application thread.
  std::vector<std::string> missing(Driver& driver, Duration timeout, std::uint64_t rounds, FunctionRef<bool()> failed);

  // ---- the driving thread ----

  /// Once a step: sends what the application has asked for.
  void poll();
  /// Returns false for a message of another kind.
  bool control(int peer, const Envelope& envelope, std::span<const std::byte> head);

 private:
  enum Control : std::uint16_t { kAsk = kControlChannel, kAnswer };
  using Attendance = std::vector<std::byte>;  // by seat: whether it has come

  bool all_answered() const;

  Engine& engine_;
  const Seating& seating_;
  const std::function<bool(int, std::uint64_t)> has_come_;
  CollectiveId id_ = 0;
  std::atomic<std::uint64_t> rounds_{0};  // application: asks of so many rounds
  std::atomic<std::uint32_t> wanted_{0};  // application: how often it has asked
  std::uint32_t asked_ = 0;               // the driving thread's

  mutable Mutex mutex_;
  std::vector<std::optional<Attendance>> answers_ GUARDED_BY(mutex_);  // by board
};

}  // namespace stretto
