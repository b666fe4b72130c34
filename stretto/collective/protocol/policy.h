#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/observe/round_header.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Which ranks may start a round, and when (docs/protocol.md; eager-SGD section 4).
struct Policy {
  /// By which rule a round starts.
  enum class Kind : std::uint8_t {
    full,      ///< complete only when all have come
    solo,      ///< the rank that comes first starts it
    majority,  ///< one rank drawn for the round starts it
    quorum,    ///< starts when `quorum` ranks have come
    deadline,  ///< starts when all have come, or `quorum` of them once `patience` has passed since the first
  };
  Kind kind = Kind::full;       ///< decides which of the other fields count
  std::uint32_t quorum = 0;     ///< quorum, deadline: ranks that must have come, from 1
  std::uint32_t initiator = 0;  ///< majority: the rank drawn
  Duration patience{0};         ///< deadline; whole microseconds travel, below an hour. 0 with adaptive
  bool adaptive = false;        ///< deadline: patience is median + 3·MAD of the arrivals seen by the counter

  static Policy full() { return {}; }                            ///< a round waits for all ranks
  static Policy solo() { return {.kind = Kind::solo}; }          ///< any rank starts a round
  static Policy majority() { return {.kind = Kind::majority}; }  ///< the rank drawn for the round starts it
  /// A round starts when `q` ranks have come. Requires: 1 ≤ q ≤ ranks, here and below.
  static Policy at_least(int q) { return {.kind = Kind::quorum, .quorum = static_cast<std::uint32_t>(q)}; }
  /// A round starts when all ranks have come, or `q` of them once `patience` has passed since the first arrival.
  static Policy deadline(int q, Duration patience) {
    return {.kind = Kind::deadline, .quorum = static_cast<std::uint32_t>(q), .patience = patience};
  }
  /// The same with a patience learned from the arrivals: their median + 3·MAD.
  static Policy adaptive_deadline(int q) {
    return {.kind = Kind::deadline, .quorum = static_cast<std::uint32_t>(q), .adaptive = true};
  }

  /// In one word, as it travels in Envelope::note.
  std::uint64_t encode() const;
  /// The inverse of encode(). Requires: a word that encode() has returned.
  static Policy decode(std::uint64_t word);
  /// "full", "solo", "majority", "quorum:4", "deadline:4,20ms", "deadline:4,adaptive".
  std::string to_string() const;
  /// The inverse of to_string(), for a job of `ranks`; "quorum" alone is half of them, rounded up. Throws UsageError,
  /// which shows the part that is wrong.
  static Policy parse(const std::string& text, int ranks);
  friend bool operator==(const Policy&, const Policy&) = default;  ///< all fields are equal
};

/// The header of a round whose sum no rank can read any more: a newer result has taken its place (delivery latest).
struct PassedRound {
  Round round = 0;     ///< its number
  Policy policy;       ///< by which it started
  RoundHeader header;  ///< who brought what to it
};

/// \cond inner
/// How long an adaptive deadline waits after the first arrival: median + 3·MAD of the times by which the last 256
/// arrivals came after the first of their round.
class LearnedPatience {
 public:
  /// The arrivals of one round, in any order.
  void learn(std::span<const TimePoint> arrivals);
  Duration get() const;

 private:
  std::vector<double> offsets_;  // in seconds; a ring
  std::size_t next_ = 0;
};

/// The ranks that have come to an open round, as far as a rank knows, and how long ranks have taken to come before.
struct Come {
  const RankSet& arrived;
  const RankSet& drained;
  TimePoint first_arrival;  ///< of those in `arrived`
  const LearnedPatience& learned;
};

/// From when on a round of this policy may start, if no further rank comes: TimePoint() at once, never() not at all.
/// Once every rank has drained, one last round starts under any policy, so that it takes the pending deposits. The
/// caller does not ask for the rounds after that one. Pure.
TimePoint may_start_from(const Policy& policy, const Come& come);

/// policy(r) as a function of r and of the headers before r only: the same on every rank. Pure.
class PolicyRule {
 public:
  /// `full_every`: a round is full when the batches applied before it have passed a multiple of this since the last
  /// full one (checkpoints, evaluation, model synchronization); 0: never. Throws UsageError (quorum outside 1 … ranks).
  PolicyRule(Policy base, int ranks, std::uint64_t seed, std::uint64_t full_every = 0);

  /// The policy of round next_round().
  const Policy& current() const { return current_; }
  Round next_round() const { return round_; }
  std::uint64_t batches() const { return batches_; }
  /// `header`: that of round next_round(). The rule moves on to the round after.
  void advance(const RoundHeader& header);
  /// Continues a job: `batches` applied before round 0.
  void resume_at(std::uint64_t batches);

  /// All that the rule keeps of the rounds before next_round(), without the header of the last one.
  struct Memory {
    std::uint64_t batches = 0;
    std::uint64_t fulls_passed = 0;
  };
  Memory memory() const { return {batches_, fulls_passed_}; }
  /// Takes the place of advance() with all headers before `round`: `memory` is the memory of a rule that has seen
  /// these headers, `before` the last of them. Requires: round > 0.
  void jump_to(Round round, const Memory& memory, const RoundHeader& before);

 private:
  void derive(const RankSet* drained);

  Policy base_;
  int ranks_;
  std::uint64_t seed_;
  std::uint64_t full_every_;
  Round round_ = 0;
  std::uint64_t batches_ = 0;
  std::uint64_t fulls_passed_ = 0;
  Policy current_;
};
/// \endcond

}  // namespace stretto
