#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/collective/rounds/rounds.h"

namespace stretto {

/// The rounds of a PartialAllreduce whose buckets have rounds of their own (PartialOptions::buckets_per_round), side by
/// side: a *part* for each so many buckets, by messages or on a board (docs/boards.md, A bucket of its own). To the
/// application they are one: round r is complete when that of all parts is.
///
/// A rank joins round r of a part only after that of the first part, whose header says what follows round r of all: the
/// next policy, and whether r was the last. So all parts have the same policies and equally many rounds, and the last
/// one takes what is pending in all.
class BucketRounds final : public Rounds {
 public:
  /// `parts`: in order; the others have been made with the first.
  BucketRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options,
               std::vector<std::unique_ptr<Rounds>> parts);
  void withdraw() override;

  Contribution& acquire() override;
  DepositSteps deposit(Contribution& contribution) override;
  bool deposit_pending() const override;
  void bucket_ready(Contribution& contribution) override { deposit_ready(contribution); }

  Round complete() const override;
  Policy open_policy(Round complete) override { return first().open_policy(complete); }
  const ResultSlot& result(Round round) override;
  void set_arrived(Round round) override;
  bool set_handed(Round handed) override;
  void set_drained() override;
  void set_ticket(Round ticket) override;
  bool stopped() const override;
  bool over() const override;
  std::optional<TimePoint> take_passive_since() override;

  void abort(Driver& driver, const Error& why) override;
  bool failed() const override;
  std::optional<Error> failure() const override;
  std::string who_is_missing(Driver& driver, Duration timeout) override;

  ProtocolState state() const override;
  void observe(PartialObserver& observer) override { first().observe(observer); }
  int num_contribution_sets() const override { return first().num_contribution_sets(); }
  std::uint64_t memory_bytes() const override;

 private:
  // Only the parts are registered with the engine.
  bool poll(TimePoint) override { return false; }
  bool may_have_ended(int) const override { return true; }

  Rounds& first() const { return *parts_.front(); }
  /// Deposits the parts whose buckets are ready and that have not been deposited, in order.
  void deposit_ready(Contribution& contribution);

  const std::vector<std::unique_ptr<Rounds>> parts_;

  // The application thread's.
  std::vector<std::unique_ptr<Contribution>> contributions_;  // by the first part's set
  std::vector<Contribution*> filling_;                        // of each part
  std::size_t deposited_ = 0;                                 // parts of it
  ResultSlot slot_;
};

}  // namespace stretto
