#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/argument.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// Runs one schedule again and again, a round a call: what the collectives of plain.h consist of, and the way to run
/// one of your own (docs/own_collective.md). A round starts on a rank when that rank calls; a collective whose rounds
/// start otherwise implements RoundOwner instead.
///
/// Registered in the same order on every rank, before anybody drives the engine; must outlive the engine's last step.
/// The first round compares the shapes of all ranks with rank 0's: where one differs, it fails on every rank with an
/// Error that names both. Any failure is final and comes to every rank. One application thread.
class ScheduledCollective final : private RoundOwner {
 public:
  /// `shape`: in words what must be the same on every rank, such as sizes and types; the schedule's name is part of it.
  ScheduledCollective(Engine& engine, Schedule schedule, std::string shape = "");
  ScheduledCollective(const ScheduledCollective&) = delete;
  ScheduledCollective& operator=(const ScheduledCollective&) = delete;

  /// What `call` operations call with their hook, on the thread that drives; they are finished when it returns.
  /// Before the first round.
  void on_call(std::function<void(std::uint32_t hook)> callback) { on_call_ = std::move(callback); }

  /// Runs the next round on `arguments`, one for each given buffer of the schedule in the order of their ids. The
  /// memory belongs to the round until this returns success. Errc::timeout: says from whom nothing has come; call
  /// again with the same arguments to go on. Errc::bad_input (shapes differ) and Errc::lost_peer are final: the memory
  /// must then outlive the engine. Throws UsageError where an argument does not fit its buffer.
  Result<void> run(EngineDriver& driver, TimePoint deadline, std::vector<Argument> arguments);

  /// The same without blocking, for whoever drives many ranks in one thread: start() once a round, then step the engine
  /// until finished() is true or an Error.
  void start(std::vector<Argument> arguments);
  Result<bool> finished() const;
  /// The failure that is final, if there was one. Thread-safe.
  std::optional<Error> failure() const;

  const Schedule& schedule() const { return schedule_; }

 private:
  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void completed(Round) override {}
  void retired(Round round) override;
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int peer, const Error& reason) override;
  bool poll(TimePoint now) override;

  void go_on();
  void compare_shapes(int peer, const std::string& shape);
  void agree();
  void fail(Error error, bool tell_others);
  void tell_others(std::uint16_t channel, std::uint64_t note, const std::string& words);
  void check(const std::vector<Argument>& arguments) const;
  std::string silent_peers(TimePoint since) const;

  // Fixed after construction, but on_call_ before the first round.
  Engine& engine_;
  const Schedule schedule_;
  const std::string shape_;
  CollectiveId id_ = 0;
  int regions_ = 0;  // of the arena, up to this collective's
  std::vector<BufferId> given_;
  std::function<void(std::uint32_t)> on_call_ = [](std::uint32_t) {};

  // The application thread's; arguments_ is read by the driving thread once wanted_ says so.
  Round started_ = 0;
  std::vector<Argument> arguments_;

  // The driving thread's.
  bool introduced_ = false;
  bool agreed_ = false;
  Round opened_ = 0;
  RankSet compared_;  // on rank 0: those whose shape has come

  // Between the two: written by the one named first, with release; read by the other with acquire.
  std::atomic<Round> wanted_{0};     // application: rounds it has called for
  std::atomic<Round> retired_{0};    // driver: rounds whose memory is the application's again
  std::atomic<bool> failed_{false};  // driver: failure_ is there
  mutable Mutex mutex_;
  Error failure_ GUARDED_BY(mutex_){Errc::aborted, "", -1};
};

}  // namespace stretto
