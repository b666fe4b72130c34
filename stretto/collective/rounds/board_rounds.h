#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "stretto/base/machine/cores.h"
#include "stretto/board/partial_board.h"
#include "stretto/board/partial_memory.h"
#include "stretto/board/partial_seat.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/collective/rounds/between_boards.h"
#include "stretto/collective/rounds/rounds.h"
#include "stretto/collective/rounds/seating.h"

namespace stretto {

/// The rounds of a PartialAllreduce whose ranks share a host: held on a board in the host's memory. A round costs no
/// message, and a rank that computes need not be woken for it: its deposit is read where it lies. Messages carry
/// failures and questions only. Where the job has several boards, BetweenBoards starts and ends this board's rounds.
class BoardRounds final : public Rounds, private PartialRule {
 public:
  /// The boards that Seating makes of options.seats. Requires: the hosts have arenas. Throws Failure where there is too
  /// little memory. Where the ranks disagree on buckets or options, the calls of
  /// every rank say so. `first`: of the rounds of several buckets those of the first (BucketRounds), which outlive
  /// these; null: there are no others, or these are the first.
  BoardRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options,
              const BoardRounds* first = nullptr);
  void withdraw() override {
    if (between_ != nullptr) between_->withdraw();
    Rounds::withdraw();
  }

  Contribution& acquire() override;
  DepositSteps deposit(Contribution& contribution) override;
  bool deposit_pending() const override { return seat_.pending(); }
  void bucket_ready(Contribution& contribution) override;
  Round complete() const override { return board_.complete(); }
  Policy open_policy(Round complete) override;
  const ResultSlot& result(Round round) override;
  Carried take_out(Round from) const override;
  const ResultSlot* kept(Round round) override;
  std::optional<RoundHeader> kept_header(Round round) override;
  void set_arrived(Round round) override;
  bool set_handed(Round handed) override;
  void set_drained() override;
  bool stopped() const override { return ended(board_.complete()); }
  bool over() const override { return stopped() && (between_ == nullptr || between_->idle()); }
  std::optional<TimePoint> take_passive_since() override;
  std::atomic<std::uint32_t>* signal() override { return board_.signal(); }
  ProtocolState state() const override;
  void observe(PartialObserver& observer) override {
    Rounds::observe(observer);
    if (between_ != nullptr) between_->observe(observer);
  }
  bool on_boards() const override { return true; }
  int num_contribution_sets() const override { return PartialMemory::kSets; }
  std::uint64_t memory_bytes() const override;

 private:
  /// From here on the seat fills sets again that complete rounds have taken, and no others.
  void keep_uncounted() {
    if (options_.members_change) seat_.reuse_before(counted());
  }
  bool poll(TimePoint) override { return step_board() || (between_ != nullptr && between_->take_change()); }
  bool step_board();
  TimePoint poll_by() const override { return failed() ? TimePoint::never() : act_by_; }
  bool may_have_ended(int peer) const override;

  bool may_start(Round round, const Attendance& attendance) override;
  std::int64_t now() const override { return engine_.clock().now().since_start.count(); }
  void started(Round round, const Attendance& attendance) override;
  void taken(Round round, int seat, const ContributionFacts* facts) override;
  void planned(Round round, const RoundHeader& header, std::span<std::uint64_t, 2> words) override;

  /// Returns whether the rule is that of `round`: not where others are so far ahead that its record is gone.
  bool bring_to(PolicyRule& rule, Round round) const;
  /// Whether the last round is before `complete`. Of several buckets' rounds those of the first bucket say so.
  bool ended(Round complete) const {
    if (first_ != nullptr) return first_->complete() >= complete && first_->ended(complete);
    return complete > 0 && memory_.record(complete - 1).last.load(std::memory_order_relaxed);
  }
  /// Whether the first bucket's rounds have been sealed since the last call, so that this rank looks at its board.
  bool first_has_moved();
  /// Fills slot_. Requires: the record of `round` is kept.
  const ResultSlot& show(Round round);
  bool application_waits() const;
  bool core_to_spare();
  void learn_arrivals(Round round);

  const Seating seating_;
  const BoardRounds* const first_;  // null: none
  BoardMemory board_memory_;
  PartialMemory memory_;
  PartialSeat seat_;
  PartialBoard board_;
  std::unique_ptr<BetweenBoards> between_;  // null: there is one board

  std::vector<std::unique_ptr<Contribution>> contributions_;  // by set

  const PolicyRule first_rule_;  // at round 0

  // The application thread's.
  Idleness idleness_;
  bool hands_over_ = false;  // the last deposit bucket by bucket
  PolicyRule asked_rule_;
  ResultSlot slot_;

  // Written by the application thread, read by the driver thread.
  std::atomic<Round> handed_{0};
  std::atomic<Round> waits_at_{0};  // round + 1 that it has arrived at
  std::atomic<bool> drained_{false};
  std::atomic<bool> asked_{false};  // to step the board although the application does not wait

  // The driver thread's.
  PolicyRule rule_;
  LearnedPatience learned_patience_;
  Round first_sealed_ = 0;  // when last looked
  TimePoint act_by_ = TimePoint::never();
};

}  // namespace stretto
