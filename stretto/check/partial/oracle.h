#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "stretto/check/partial/payload.h"
#include "stretto/check/partial/rounds_oracle.h"
#include "stretto/check/partial/scenario.h"
#include "stretto/collective/partial_allreduce.h"

namespace stretto {

/// All but the last three count rounds. On a board one round is in flight at a time.
inline constexpr Situation kPartialReaches[] = {{"s - c >= 2 on some rank", 0.025},
                                                {"on boards", 0.2},
                                                {"on several boards", 0.05},
                                                {"on several hosts", 0.02},
                                                {"of float32", 0.1},
                                                {"with a late rank", 0.3},
                                                {"with a drained rank"},
                                                {"full"},
                                                {"held back by max_lag"},
                                                {"to which no rank contributed"},
                                                {"batches dropped"},
                                                {"jobs with a crash"},
                                                {"jobs that lose a host"}};

/// Knows every result that the deposits must lead to. Checks invariants I1–I7 and the six promises (docs/protocol.md)
/// after every transition.
class Oracle final : public RoundsOracle {
 public:
  Oracle(const Scenario& scenario, JobFinding& finding);

  void fill(Contribution& contribution, int rank, std::uint64_t deposit, std::size_t first,
            std::size_t end) const override;
  void deposit_begins(int rank) override;
  void deposit_made(int rank) override;
  void passed() override { ++finding().reached[10]; }
  void handed_over(int rank, const RoundResult& result, const IntegerModel& model) override;
  void taken(int rank, Round round, const ContributionFacts* facts) override;
  void started(Round round, int come) override;
  void look_at(int rank, const ProtocolState& state) override;
  void quiet(const std::vector<ProtocolState>& states) override;
  void ended(const std::vector<bool>& done, const std::vector<ProtocolState>& states) override;

  /// Once, in the end: counts the rounds and the situations that they have reached.
  void count_rounds();

 private:
  struct Expected {
    Round round = 0;
    Policy policy;
    RoundSum sum;
    RoundHeader header;
    int joined = 0;
    int come = 0;          ///< ranks that had come when the counter started it, as the counter says
    bool started = false;  ///< `arrived` and `drained` are known
    RankSet arrived;       ///< ranks whose applications waited at it when the first rank joined it
    RankSet drained;       ///< ranks whose applications had drained by then
    bool header_seen = false;
    bool pipelined = false;
    bool held = false;
    IntegerModel model;  ///< after this round; valid once all have joined
  };

  Expected& expected(Round round);
  void take(Expected& round, int rank, const ContributionFacts& facts);
  void settle(Expected& round);
  void note_start(Expected& round);
  void check_start(const Expected& round);
  void advance_rule(const Expected& round);
  bool is_full(Round activated, const std::vector<ProtocolState>& states) const;
  void check_start_is_due(const std::vector<ProtocolState>& states);
  void check_sleepers(const std::vector<ProtocolState>& states);
  std::string check_header(const Expected& round, const RoundResult& result) const;

  const Scenario& scenario_;
  const Payload payload_;
  std::deque<Expected> rounds_;
  std::vector<std::uint64_t> begun_;  // per rank: deposits begun
  std::vector<std::uint64_t> made_;   // per rank: deposits made
  std::vector<std::uint64_t> taken_;  // per rank: deposits that rounds have taken
  std::vector<Round> next_handed_;    // per rank
  PolicyRule rule_;                   // knows the headers that have been handed over (delivery every)
  bool last_is_over_ = false;         // the header before rule_'s next round shows every rank drained
  Round settled_ = 0;                 // rounds whose model is known
  IntegerModel model_;
};

}  // namespace stretto
