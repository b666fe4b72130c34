#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "stretto/check/scenario.h"
#include "stretto/collective/partial_allreduce.h"

namespace stretto {

/// What a run went through, to know what the search has reached.
struct Coverage {
  std::uint64_t rounds = 0;
  std::uint64_t on_boards = 0;       ///< of them: held on a board, or several, where one is in flight at a time
  std::uint64_t between_boards = 0;  ///< of these: several
  std::uint64_t pipelined = 0;       ///< rounds during which some rank had s − c ≥ 2
  std::uint64_t late = 0;            ///< rounds some rank was late for
  std::uint64_t drained = 0;         ///< rounds with a drained rank
  std::uint64_t full = 0;            ///< rounds with policy full
  std::uint64_t held = 0;            ///< rounds held back by the bound on the lag
  std::uint64_t empty = 0;           ///< rounds nobody contributed to
  std::uint64_t scenarios = 0;
  std::uint64_t crashes = 0;

  Coverage& operator+=(const Coverage& other);
};

/// The replica a training run would have: integers that move as momentum SGD moves weights.
struct IntegerModel {
  std::uint64_t weight = 1;
  std::uint64_t momentum = 0;
  std::uint64_t batches = 0;  ///< applied so far: what the learning rate follows

  void apply(std::uint64_t sum, std::uint64_t batches_in_round, std::uint64_t rate_batches);
  friend bool operator==(const IntegerModel&, const IntegerModel&) = default;
};

/// Knows what every result must be, and checks invariants I1–I7 and the six promises (protocol.md, design.md) after
/// every transition. Reports the first violation; later ones are ignored.
class Oracle {
 public:
  explicit Oracle(const Scenario& scenario);

  /// The multiplier that makes up the payload of a rank's step: element j of bucket b is value · (2(j + b) + 1).
  std::uint64_t value(int rank, std::uint64_t step) const;
  static std::uint64_t element(std::uint64_t value, std::size_t bucket, std::uint64_t j) {
    return value * (2 * (j + bucket) + 1);
  }

  void deposit_begins(int rank);
  void deposit_made(int rank);
  void joined(int rank, Round round, const Contribution* contribution);
  /// The same where a board takes what all ranks bring at once; not for standing deposits.
  void taken(int rank, Round round, const ContributionFacts* facts);
  /// The counter has started a round with `come` ranks arrived or drained.
  void started(Round round, int come);
  /// A result handed to `rank`; `model` is its replica after applying it.
  void handed_over(int rank, const RoundResult& result, const IntegerModel& model);
  /// An exchange of `rank` has returned.
  void exchanged(int rank, const ProtocolState& state);
  /// After a transition of `rank`.
  void look_at(int rank, const ProtocolState& state);
  /// No message is under way: what may complete has completed.
  void quiet(const std::vector<ProtocolState>& states);
  /// Nothing can happen any more; `done[rank]`: the rank has finished.
  void ended(const std::vector<bool>& done, const std::vector<ProtocolState>& states);

  void violated(const std::string& what);
  const std::optional<std::string>& violation() const { return violation_; }
  Coverage coverage() const;

 private:
  struct Expected {
    Round round = 0;
    Policy policy;
    std::uint64_t sum = 0;  ///< of value() over all deposits in it
    RoundHeader header;
    int joined = 0;
    int come = 0;  ///< ranks that had come when the counter started it
    bool header_seen = false;
    bool pipelined = false;
    bool held = false;
    IntegerModel model;  ///< after this round; valid once all have joined
  };

  Expected& expected(Round round);
  void take(Expected& round, int rank, const ContributionFacts& facts);
  void settle_joined();
  void take_standing(Expected& round, int rank, const Contribution& contribution);
  void add_to_header(Expected& round, int rank, const Contribution::Facts& facts, bool counts) const;
  void settle(Expected& round);
  void check_start(const Expected& round);
  std::string check_header(const Expected& round, const RoundResult& result) const;

  const Scenario& scenario_;
  const Round max_lag_;
  std::optional<std::string> violation_;
  std::deque<Expected> rounds_;
  std::vector<std::uint64_t> begun_;  // per rank: deposits begun
  std::vector<std::uint64_t> made_;   // per rank: deposits made
  std::vector<std::uint64_t> taken_;  // per rank: deposits that rounds have taken; standing: that they have counted
  std::vector<std::uint64_t> stand_;  // standing: per rank, deposits up to the one that rounds see
  std::vector<Round> next_handed_;    // per rank
  Round settled_ = 0;                 // rounds whose model is known
  IntegerModel model_;
};

}  // namespace stretto
