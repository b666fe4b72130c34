#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "stretto/collective/base/collective_base.h"
#include "stretto/collective/protocol/ticket.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/inquiry.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// The base of the rounds of partial and of group allreduces: how they end, and how ranks ask one another for their
/// state.
class RoundsBase : public CollectiveBase {
 public:
  ~RoundsBase() override = default;
  /// The engine steps it no more. Requires: an Engine::Pause that lives until this is destroyed.
  virtual void withdraw() { engine_.remove(id_); }

  // ---- the application's thread ----

  /// The last round is complete: nothing follows.
  virtual bool stopped() const = 0;
  /// The last round is complete, and the engine uses the memory of no round any more.
  virtual bool over() const = 0;
  virtual void set_ticket(Round ticket) { ticket_.store(ticket, std::memory_order_relaxed); }
  /// The word on which the application thread sleeps beside its doorbell, or null.
  virtual std::atomic<std::uint32_t>* signal() { return nullptr; }

  virtual void abort(Driver& driver, const Error& why) { failure_.abort(driver, why); }
  virtual bool failed() const { return failure_.failed(); }
  virtual std::optional<Error> failure() const { return failure_.error(); }

  virtual ProtocolState state() const = 0;  ///< engine's part; driver thread, or while no thread drives
  const std::vector<BucketSpec>& buckets() const { return buckets_; }
  Engine& engine() const { return engine_; }

 protected:
  /// `description`: of everything that must be the same on every rank. `ask`: the first of two channels, for questions.
  RoundsBase(Engine& engine, std::vector<BucketSpec> buckets, std::string description, std::uint16_t ask);
  /// As CollectiveBase's, by description_.
  void enroll();
  void enroll_client();
  /// Aborts and asks where the application wants it; fails where ranks disagree. Returns whether the rounds go on.
  bool poll_requests();
  /// Whether all may have drained, as far as this rank knows, `peer` among them. A rank leaves in order after the last
  /// round, and that comes when all have drained.
  virtual bool may_have_ended(int peer) const = 0;

  /// Asks all ranks, and names those without which round `open` does not go on: "round 412 (full) waits for rank 3
  /// (computing)". `round`: in words, "round 412 (full)".
  std::string who_is_missing(Driver& driver, Duration timeout, Round open, const std::string& round);

  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override {
    return inquiry_.control(peer, envelope, head);
  }
  void lost(int, const Error& reason) override {
    if (!stopped()) failure_.lose(reason);
  }
  void left(int peer, const Error& reason) override {
    // A disagreement, because of which the rank may have left, is the better reason.
    if (!may_have_ended(peer) && failure_.poll()) lost(peer, reason);
  }

  const std::vector<BucketSpec> buckets_;
  const std::string description_;
  std::atomic<Round> ticket_{0};  // of the application

 private:
  Inquiry inquiry_;
};

}  // namespace stretto
