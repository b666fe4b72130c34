#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "stretto/base/idleness.h"
#include "stretto/board/partial_board.h"
#include "stretto/board/partial_memory.h"
#include "stretto/board/partial_seat.h"
#include "stretto/collective/arrival_patience.h"
#include "stretto/collective/rounds.h"
#include "stretto/collective/seating.h"

namespace stretto {

/// The rounds of a PartialAllreduce whose ranks share a host: held on a board in the job's memory. A round costs no
/// message, and a rank that computes need not be woken for it: its deposit is read where it lies. Messages carry aborts
/// and questions only.
class BoardRounds : public Rounds, protected PartialRule {
 public:
  /// Requires: engine.arena(). Throws Failure where there is too little memory. Where the ranks disagree on what they
  /// sum, every rank's calls say so.
  BoardRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options);

  Contribution& acquire() override;
  DepositSteps deposit(Contribution& contribution) override;
  bool deposit_pending() const override { return seat_.pending(); }
  void bucket_ready(Contribution& contribution) override;
  Round complete() const override { return board_.complete(); }
  Policy open_policy(Round complete) override;
  const ResultSlot& result(Round round) override;
  const ResultSlot& latest() override;
  void set_arrived(Round round) override;
  bool set_handed(Round handed) override;
  void set_drained() override;
  bool stopped() const override { return ended(board_.complete()); }
  int in_flight() const override { return 0; }
  std::optional<TimePoint> passive_since() const override;
  void clear_passive() override {}
  std::atomic<std::uint32_t>* signal() override { return board_.signal(); }
  ProtocolState state() const override;
  int num_contribution_sets() const override { return PartialMemory::kSets; }
  std::uint64_t memory_bytes() const override;

 protected:
  /// One of the boards that `seating` says. The heir enrolls.
  BoardRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options, const Seating& seating);

  bool admit(Round, const Envelope&) override { return false; }
  bool call(Round, OpId, std::uint32_t) override { return true; }
  void completed(Round) override {}
  void retired(Round) override {}
  bool poll(TimePoint now) override;
  TimePoint poll_by() const override { return failed() ? TimePoint::never() : act_by_; }

  bool may_start(Round round, const Attendance& attendance) override;
  std::int64_t now() const override { return engine_.clock().now().since_start.count(); }
  void started(Round round, const Attendance& attendance) override;
  void taken(Round round, int seat, const ContributionFacts* facts) override;
  void planned(Round round, const RoundHeader& header, std::span<std::uint64_t, 2> words) override;

  const Seating seating_;

 private:
  /// Returns whether the rule is that of `round`: not where others are so far ahead that its record is gone.
  bool bring_to(PolicyRule& rule, Round round) const;
  bool ended(Round complete) const {
    return complete > 0 && memory_.record(complete - 1).last.load(std::memory_order_relaxed);
  }
  bool application_waits() const;
  bool core_to_spare();
  void learn_arrivals(Round round);
  Duration patience(const Policy& policy) const;
  int come(const Attendance& attendance) const { return (attendance.arrived | attendance.drained).count(); }

  std::span<std::byte> take_memory(const PartialShape& shape);

  Block own_memory_;  // of a rank that sums something else than the others, and so nothing

 protected:
  PartialMemory memory_;
  PartialSeat seat_;
  PartialBoard board_;

  std::atomic<Round> handed_{0};  // written by the application, read by whoever drives

 private:
  std::vector<std::unique_ptr<Contribution>> contributions_;  // by set

  const PolicyRule first_rule_;  // at round 0

  // The application thread's.
  Idleness idleness_;
  PolicyRule asked_rule_;
  ResultSlot slot_;

  // Written by the application, read by whoever drives.
  std::atomic<Round> waits_at_{0};  // round + 1 that it has arrived at
  std::atomic<bool> drained_{false};
  std::atomic<bool> asked_{false};  // to step the board although the application does not wait

  // Owned by whoever drives.
  PolicyRule rule_;
  ArrivalPatience arrival_patience_;
  TimePoint act_by_ = TimePoint::never();
};

}  // namespace stretto
