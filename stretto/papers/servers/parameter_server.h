#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/collective/base/collective.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/bucket.h"
#include "stretto/observe/ledger.h"
#include "stretto/papers/servers/served_bucket.h"
#include "stretto/papers/servers/server_options.h"

namespace stretto {

/// Counts of the gradients that were pushed to the buckets a rank serves.
struct ServerCounts {
  /// Of those that a value contains, each bucket counted for itself: versions between the value computed on and the one
  /// moved.
  Ages ages;
  std::uint64_t dropped = 0;  ///< k_sync: those that came too late
};

/// Hears of each gradient on the thread that steps the engine of the server; for tests of the promises.
class ServerObserver {
 public:
  virtual ~ServerObserver() = default;  ///< after the collective
  /// The gradient of step `step` of `rank`, computed on version `base`, is in the value that became version `into`;
  /// none: it has been dropped. Those of one version are told in the order in which they were added. Also of a step
  /// that was passed, whose gradient is nothing.
  virtual void released(int bucket, int rank, std::uint64_t step, Version base, std::optional<Version> into) = 0;
};

/// A sharded parameter server: the values lie on servers, bucket by bucket in turns; ranks push gradients and pull
/// values. Ranks may serve and push at once: a serving rank's engine answers while its application computes. What is
/// waited for, and which gradients a value contains, is said by ServerMode and Shard.
///
/// A step costs a rank, for each bucket that it does not serve itself, the messages PUSH and VALUE of the whole bucket,
/// and GET without a body; one that is passed sends PASS without a body instead of PUSH. k_sync adds COMMIT, to each
/// other server once a version.
///
/// Steps belong to phases: the first begins with begin(), each other one with go_on(), and each ends with settle(), on
/// all ranks. There all ranks have the same values, which hold the gradients of all steps before it, and none is pushed
/// or under way. It costs a rank DONE and VALUE for each bucket that it does not serve itself.
///
/// One application thread; must outlive every call on it.
class ParameterServer final : public Collective {
 public:
  /// Registers with the engine: in the same order, with the same buckets and options, on every rank. `update` is called
  /// for the buckets of this rank alone. Throws UsageError: check_server_options(), and for no or empty buckets.
  ParameterServer(Engine& engine, std::vector<BucketSpec> buckets, const ServerOptions& options, ServerUpdate update);
  /// After settle(), or after a failure. With a message in flight the engine steps no more (Engine::remove()).
  ~ParameterServer() override;

  /// The values all ranks begin with, a span a bucket, the same bytes on every rank. Once, first, on every rank: also
  /// on one that pushes nothing. They are copied.
  void begin(std::span<const std::span<const std::byte>> values);
  /// Whether begin() has been called.
  bool begun() const;

  /// Hands over this step's gradient of a bucket and asks for the value that the next step begins with. Returns at
  /// once; both belong to the collective until ready(), and the gradient is overwritten. Each bucket once a step, in
  /// any order. Throws UsageError before begin(), between settle() and go_on(), for memory of another size, and for a
  /// bucket pushed twice.
  void push(int bucket, std::span<std::byte> gradient, std::span<std::byte> value);
  /// In the place of push(), for all buckets of a step that brings no gradient: it counts as one wherever servers count
  /// steps and pushes, and adds nothing to a sum. Throws as push().
  void pass(int bucket, std::span<std::byte> value);
  /// Whether the values that push() has asked for are there, of all buckets, or how the collective has failed.
  Result<bool> ready() const;
  /// The same of one bucket.
  Result<bool> ready(int bucket) const;
  /// Waits until ready(). Errc::timeout: call it again; Errc::aborted, lost_peer, bad_input: final.
  Result<void> wait(Driver& driver, TimePoint deadline);
  /// The same for one bucket: it may be read, and pushed again, while others are on their way.
  Result<void> wait(int bucket, Driver& driver, TimePoint deadline);

  /// Ends the phase: returns when every rank has done so, with its last values in `values`, a span a bucket, which are
  /// the same on every rank. Serves meanwhile. Until go_on() nothing moves the buckets that are served here, so what
  /// the ServerUpdate keeps may be read. Errors as wait(); after Errc::timeout call it again with the same memory.
  /// Throws UsageError before begin(), and while a push is not ready.
  Result<void> settle(Driver& driver, TimePoint deadline, std::span<const std::span<std::byte>> values);
  /// The same without waiting: whether the phase is over. May be called again.
  Result<bool> try_settle(std::span<const std::span<std::byte>> values);
  /// Begins the next phase with the values that settle() has given. Throws UsageError unless it has returned.
  void go_on();

  void abort(Driver& driver, const Error& why) override;
  std::optional<Error> failure() const override;
  /// Asks the servers whose answers have not come.
  std::string who_is_missing(Driver& driver, Duration timeout) override;

  /// Whether this rank holds the bucket.
  bool serves(int bucket) const;
  /// Steps this rank has pushed.
  std::uint64_t steps() const;
  /// Of the buckets served here. Requires: settled.
  ServerCounts counts() const;
  /// Values and what a version's gradients take, in bytes.
  std::uint64_t memory_bytes() const;
  /// Before begin().
  void observe(ServerObserver& observer);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
