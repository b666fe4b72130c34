#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "stretto/papers/servers/server_options.h"

namespace stretto {

/// How often the value of a bucket has been moved: that which all ranks begin with is version 0.
using Version = std::uint64_t;

/// An action on one bucket; actions are carried out in order.
struct ShardAction {
  /// The kind of an action.
  enum class Kind {
    apply,   ///< add the gradients of `ranks` in this order, and move the value by the sum: it becomes `version`
    drop,    ///< the gradient of `rank` is thrown away: it was computed on an older version than k_sync counts
    answer,  ///< send the value to `rank`, which has asked for it
    commit,  ///< tell the shards of all other buckets that `version` takes the gradients of `ranks`
  };
  Kind kind = Kind::apply;
  Version version = 0;      ///< apply: that the value becomes; commit: that the gradients were computed on
  std::vector<int> ranks;   ///< apply, commit: ascending
  int rank = -1;            ///< drop, answer
  std::uint64_t clock = 0;  ///< answer: steps whose gradients `rank` has pushed; to DONE: phases that were over before
  bool last = false;        ///< answer: to DONE, the phase's last value; commit: no version of the phase follows
};

/// One bucket of a parameter server as a state machine without memory or messages: hears of requests, and says what is
/// to be done. A rank's *clock* is the number of its steps whose gradients it has pushed. Requests name the clock, so
/// they may overtake one another between a pair of ranks.
///
/// Pushes belong to *phases*. Each rank ends each phase with DONE; the phase is over when every rank has said so and
/// all their gradients have been dealt with, and then all of them are answered with the same value. Clocks are compared
/// from where the phase began, since all ranks have the same value there.
///
/// - A rank asks with GET for the value after each PUSH; the answer contains all its own gradients, but in k_sync.
/// - sync: version v is computed on by every rank, and v + 1 contains what all of them pushed: Li et al., *Scaling
///   Distributed Machine Learning with the Parameter Server*, OSDI 2014, section 3.
/// - ssp: GET at clock k is answered when every rank without DONE has pushed k − s steps: Ho et al., *More Effective
///   Distributed ML via a Stale Synchronous Parallel Parameter Server*, NIPS 2013, section 3. A gradient of step n is
///   added when every rank has been answered at clock n − s, so that the answer at clock k has no step ≥ k + s: s = 0
///   is sync but for the order of summation. No rank waits longer for it.
/// - k_sync: the shard of bucket 0 decides which k gradients a version takes, and every other one follows: Chen et al.,
///   *Revisiting Distributed Synchronous SGD*, 2016, section 3 (backup workers). k sinks to the number of ranks that
///   can still push.
///
/// One thread.
class Shard {
 public:
  /// `decides`: of bucket 0. Requires: check_server_options().
  Shard(const ServerOptions& options, int ranks, bool decides);

  /// GET: `rank` has pushed `clock` steps, and wants the value. sync, k_sync: in version `version` or a later one.
  void asked(int rank, std::uint64_t clock, Version version);
  /// PUSH: a gradient, which `rank` has computed on version `base` after `clock` other steps, is here.
  void pushed(int rank, std::uint64_t clock, Version base);
  /// DONE: `rank` pushes `clock` steps in all up to the end of the phase. It is answered with the last value of the
  /// phase when every rank has said DONE.
  void ended(int rank, std::uint64_t clock);
  /// COMMIT of the shard that decides, in order. Requires: k_sync, and another shard than that.
  void committed(Version version, std::vector<int> ranks, bool last);

  /// The next thing to be done, until there is none. To be called after each of the calls above.
  std::optional<ShardAction> next();

  Version version() const { return version_; }  ///< of the value, once the actions so far have been carried out
  /// Phases that are over: every rank has said DONE, every gradient has come, and every answer has been given.
  std::uint64_t phases() const { return phases_; }
  /// Whether nothing has been asked in the phase under way.
  bool idle() const;
  /// Whether `rank` has said DONE in the phase under way.
  bool has_ended(int rank) const { return seats_[static_cast<std::size_t>(rank)].end.has_value(); }
  /// Ranks without whose next PUSH or DONE nothing more can be answered.
  std::vector<int> waits_for() const;

 private:
  struct Seat {
    std::uint64_t clock = 0;           // gradients that have come
    std::uint64_t start = 0;           // of them before this phase
    std::uint64_t answered = 0;        // clock of the newest GET that has been answered, or `start`
    std::optional<std::uint64_t> end;  // clock of DONE
    bool waits = false;                // for the value: its GET stands
    bool told_end = false;             // it has got the last value of the phase
    std::uint64_t asked = 0;           // by GET, as has the next
    Version wanted = 0;
    std::optional<Version> push;  // version on which the gradient was computed that is here and not taken
  };
  struct Commit {
    Version version;
    std::vector<int> ranks;
    bool last;
  };

  static bool done(const Seat& seat);
  static std::uint64_t applied(const Seat& seat) { return seat.clock - (seat.push ? 1 : 0); }
  bool all_done() const;
  void begin_phase();
  bool may_answer(const Seat& seat) const;
  bool may_add(const Seat& seat) const;
  std::uint64_t slowest() const;
  std::optional<ShardAction> close();
  std::optional<ShardAction> close_first();
  std::optional<ShardAction> close_committed();
  ShardAction take(std::vector<int> ranks);
  std::vector<int> pushers() const;

  const ServerMode mode_;
  const std::uint64_t staleness_;
  const std::size_t enough_;
  const bool decides_;
  Version version_ = 0;
  std::uint64_t phases_ = 0;
  std::vector<Seat> seats_;           // by rank
  std::deque<int> late_;              // ranks whose gradient is to be dropped
  std::deque<Commit> commits_;        // that have not been carried out
  std::optional<ShardAction> after_;  // to be done next, whatever else there is
  bool last_known_ = false;           // k_sync: no version of this phase follows
};

}  // namespace stretto
