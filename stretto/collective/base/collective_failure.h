#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "stretto/base/error.h"
#include "stretto/base/mutex.h"
#include "stretto/engine/engine.h"
#include "stretto/transport/shared_arena.h"

namespace stretto {

class Driver;

/// How a collective fails: once, for good, and on every rank. A part of each collective; the calls are the driving
/// thread's, but where it says otherwise.
class CollectiveFailure {
 public:
  explicit CollectiveFailure(Engine& engine) : engine_(engine) {}
  /// Requires: before any call but take_shared(), fail() without telling, failed() and error().
  void enroll(CollectiveId id) { id_ = id; }

  /// Memory that the ranks of this host share, a region for each of their boards; returns that of board `mine`, which
  /// is given back when this object ends. Every rank of the host takes the same regions in the same order: one whose
  /// `shape` differs makes the collective fail on all of them (poll()). Once. Requires: the host has an arena; no other
  /// thread steps the engine.
  Result<std::span<std::byte>> take_shared(std::span<const std::uint64_t> bytes, std::size_t mine,
                                           const std::string& shape);

  /// Makes the collective fail on every rank, soon. The application's thread.
  void fail_everywhere(Driver& driver, const Error& why);
  /// Stops the collective on every rank. Returns when it has failed here, when the engine is frozen, and after five
  /// seconds at the latest. The application's thread.
  void abort(Driver& driver, const Error& why);

  /// Thread-safe.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::optional<Error> error() const;

  /// Fails where the ranks disagree on the memory they share. Returns whether the collective goes on. Thread-safe.
  bool agreed();
  /// Fails where the application wants an abort, or where the ranks disagree. Returns whether the collective goes on.
  bool poll();
  /// Takes another rank's failure over, and passes it on. Returns false for a message of another kind.
  bool control(const Envelope& envelope, std::span<const std::byte> head);
  /// The error for a control message of no known kind from `peer`.
  static Error unknown(int peer, const Envelope& envelope);
  /// Fails because a peer is gone that `what` needs. A peer that has said why it stops the job speaks for itself.
  void lose(const Error& reason, const std::string& what = "");
  /// Fails, unless it has failed already: the first error stays. Thread-safe where it tells no others.
  void fail(Error error, bool tell_others);

 private:
  void tell(std::uint64_t note, std::span<const std::byte> words);

  Engine& engine_;
  CollectiveId id_ = 0;
  SharedRegion region_;
  std::uint64_t regions_ = 0;  // of the arena, up to the last of this collective's

  std::atomic<bool> abort_wanted_{false};  // application: abort_error_ is there
  std::atomic<bool> failed_{false};        // error_ is there
  mutable Mutex mutex_;
  Error abort_error_ GUARDED_BY(mutex_){Errc::aborted, "", -1};
  Error error_ GUARDED_BY(mutex_){Errc::aborted, "", -1};
};

}  // namespace stretto
