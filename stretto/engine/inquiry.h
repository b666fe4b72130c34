#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// How the application of a rank asks other ranks, and waits for their answers: a part of a collective, of whose
/// control messages it has two. Each rank answers on the thread that drives its engine, also while its application
/// computes.
class Inquiry {
 public:
  using Answer = std::vector<std::byte>;  ///< at most kMaxHeadBytes

  /// `first_channel`: of its two control messages. `answer`: this rank's to a question; the driving thread.
  Inquiry(Engine& engine, std::uint16_t first_channel, std::function<Answer(std::uint64_t question)> answer)
      : engine_(engine),
        ask_(first_channel),
        answer_(static_cast<std::uint16_t>(first_channel + 1)),
        answer_of_(std::move(answer)) {}
  /// Requires: before any other call.
  void enroll(CollectiveId id) { id_ = id; }

  /// Asks `ranks`, and waits for their answers until `failed()`, at most `timeout`. By place in `ranks`; nothing of a
  /// rank that has not answered. Application thread. Requires: this rank is not among them.
  std::vector<std::optional<Answer>> ask(Driver& driver, Duration timeout, std::vector<int> ranks,
                                         std::uint64_t question, FunctionRef<bool()> failed);
  /// ask() of all other ranks, in the order of their numbers.
  std::vector<std::optional<Answer>> ask_others(Driver& driver, Duration timeout, std::uint64_t question,
                                                FunctionRef<bool()> failed);

  // ---- the thread that drives the engine ----

  /// Once a step: sends what the application has asked.
  void poll();
  /// Returns false for a message of another kind.
  bool control(int peer, const Envelope& envelope, std::span<const std::byte> head);

 private:
  Engine& engine_;
  const std::uint16_t ask_, answer_;
  const std::function<Answer(std::uint64_t)> answer_of_;
  CollectiveId id_ = 0;
  std::atomic<std::uint32_t> wanted_{0};  // application: how often it has asked; release, pairs with poll()
  std::uint32_t asked_ = 0;               // the driving thread's

  mutable Mutex mutex_;
  std::uint64_t question_ GUARDED_BY(mutex_) = 0;
  std::vector<int> ranks_ GUARDED_BY(mutex_);
  std::vector<std::optional<Answer>> answers_ GUARDED_BY(mutex_);
};

}  // namespace stretto
