#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stretto/collective/base/argument.h"
#include "stretto/collective/base/collective.h"
#include "stretto/collective/base/collective_base.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// Runs one schedule again and again, a round a call: the base of the collectives of plain.h, and the way to run one of
/// your own (docs/own_collective.md). A round starts on a rank when that rank calls; a collective whose rounds start
/// otherwise implements RoundOwner instead.
///
/// Made in the same order on every rank. Dropped between two rounds it leaves the engine to the others.
/// The first round waits until rank 0 has heard from all ranks: where the shape of one differs, it fails on every rank
/// with an Error that names both. Any failure is final and comes to every rank. One application thread.
class ScheduledCollective final : public Collective, private CollectiveBase {
 public:
  /// `shape`: what must be the same on every rank, such as sizes and types, in words and, on lines of their own, item
  /// by item (base/description.h); the schedule's name is part of it. Throws UsageError for a schedule of another rank
  /// or of another number of ranks.
  ScheduledCollective(Engine& engine, Schedule schedule, const std::string& shape = "");
  /// Between two rounds. In the middle of one the engine steps no more (Engine::remove()).
  ~ScheduledCollective() override;

  /// Called by `call` operations with their hook, on the driver thread; the operation is finished when it returns.
  /// Before the first round.
  void on_call(std::function<void(std::uint32_t hook)> callback) { on_call_ = std::move(callback); }

  /// Runs the next round on `arguments`, one for each given buffer of the schedule in the order of their ids. The
  /// memory belongs to the round until this returns success. Errc::timeout: says from whom nothing has come; call
  /// again with the same arguments to go on. Errc::bad_input (shapes differ) and Errc::lost_peer are final: the memory
  /// and this must then outlive the engine's last step. Throws UsageError where an argument does not fit its buffer.
  Result<void> run(Driver& driver, TimePoint deadline, std::vector<Argument> arguments);

  /// The same without blocking, for a caller that drives many ranks in one thread: start() once a round, then step the
  /// engine until finished() is true or an Error.
  /// Throws UsageError before the last round has finished, and where an argument does not fit.
  void start(std::vector<Argument> arguments);
  /// Whether the round that start() has begun is over, or the error that is final.
  Result<bool> finished() const;

  void abort(Driver& driver, const Error& why) override { failure_.abort(driver, why); }
  std::optional<Error> failure() const override { return failure_.error(); }
  /// Asks no rank: names the neighbours from which nothing has come.
  std::string who_is_missing(Driver& driver, Duration timeout) override;

  const Schedule& schedule() const { return schedule_; }  ///< what each round runs

 private:
  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void retired(Round round) override;
  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  bool poll(TimePoint now) override;

  void go_on();
  void made(int peer);
  /// Fails where the round that the application waits for cannot complete, since a rank it needs has left.
  void look_who_has_left();
  void agree();
  void check(const std::vector<Argument>& arguments) const;
  std::string silent_peers(TimePoint since) const;
  std::string silent_peers(Driver& driver) const;

  // Fixed after construction, but on_call_ before the first round.
  const Schedule schedule_;
  std::vector<BufferId> given_;
  const bool needs_all_;  // no operation fires before all of its predecessors have finished
  std::function<void(std::uint32_t)> on_call_ = [](std::uint32_t) {};

  // The application thread's; arguments_ is read by the driving thread once wanted_ says so.
  Round started_ = 0;
  bool resumes_ = false;  // run() has timed out: its round is the next call's, even if it is complete by then
  std::vector<Argument> arguments_;
  TimePoint begun_;  // when the last round was started

  // The driving thread's.
  bool introduced_ = false;
  bool agreed_ = false;
  Round opened_ = 0;
  RankSet made_;  // on rank 0: the ranks that have made the same collective

  // Between the two: written by the one named first, with release; read by the other with acquire.
  std::atomic<Round> wanted_{0};   // application: rounds it has called for
  std::atomic<Round> retired_{0};  // driver: rounds whose memory is the application's again
};

}  // namespace stretto
