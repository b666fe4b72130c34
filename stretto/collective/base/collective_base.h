#pragma once

#include <span>
#include <string>
#include <utility>

#include "stretto/collective/base/collective_failure.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// The base of all classes that run a collective over an engine: they register with it, and fail once, for good, on
/// every rank. An heir without schedules is asked nothing of what RoundOwner adds.
class CollectiveBase : protected RoundOwner {
 public:
  CollectiveBase(const CollectiveBase&) = delete;
  CollectiveBase& operator=(const CollectiveBase&) = delete;

 protected:
  /// `name`: in words, in front of failures; empty: they speak for themselves.
  explicit CollectiveBase(Engine& engine, std::string name = "")
      : engine_(engine), failure_(engine), name_(std::move(name)) {}
  /// Registers an heir whose rounds run on schedules. Last of all in its constructor; its destructor removes id_.
  void enroll(const std::string& description) { enroll(engine_.add(static_cast<RoundOwner&>(*this), description)); }
  /// The error for a round that still needs a rank that has left in order.
  Error has_left(int peer) const { return {Errc::lost_peer, text(engine_.name_of(peer), " has left"), peer}; }
  /// The error of a call that waits for others once the engine is frozen (Engine::freeze()).
  Error members_changed() const { return {Errc::members_changed, text(name_, ": the members of the job change"), -1}; }
  /// enroll() of an heir without schedules.
  void enroll_client(const std::string& description) {
    enroll(engine_.add(static_cast<EngineClient&>(*this), description));
  }

  /// A control message of a kind that the heir knows. Returns false for another one.
  virtual bool hear(int /*peer*/, const Envelope& /*envelope*/, std::span<const std::byte> /*head*/) { return false; }

  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override {
    if (failure_.control(envelope, head) || hear(peer, envelope, head)) return;
    broken(CollectiveFailure::unknown(peer, envelope));
  }
  void broken(const Error& reason) override {
    failure_.fail({reason.code, name_.empty() ? reason.message : text(name_, ": ", reason.message), reason.rank}, true);
  }
  void lost(int /*peer*/, const Error& reason) override { failure_.lose(reason, name_); }
  bool admit(Round, const Envelope&) override { return false; }
  bool call(Round, OpId, std::uint32_t) override { return true; }
  void completed(Round) override {}
  void retired(Round) override {}

  Engine& engine_;             ///< outlives this
  CollectiveId id_ = 0;        ///< on the engine, once it has been registered
  CollectiveFailure failure_;  ///< of this collective
  const std::string name_;     ///< in words

 private:
  void enroll(CollectiveId id) {
    id_ = id;
    failure_.enroll(id);
  }
};

}  // namespace stretto
