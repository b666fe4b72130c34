#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/collective/rounds/contribution.h"
#include "stretto/collective/rounds/front.h"
#include "stretto/collective/rounds/partial_observer.h"
#include "stretto/collective/rounds/partial_options.h"
#include "stretto/collective/rounds/result_ring.h"
#include "stretto/collective/rounds/rounds_base.h"

namespace stretto {

/// The rounds of a PartialAllreduce: by messages (MessageRounds) or on a board (BoardRounds), which may be one of
/// several. BucketRounds, which has rounds of these two kinds for each bucket, is not registered with the engine.
class Rounds : public RoundsBase {
 public:
  /// `how`: in words how rounds are held, which must be the same on every rank: by messages, or how the board is cut.
  Rounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options, const std::string& how);

  // ---- the application's thread ----

  virtual Contribution& acquire() = 0;
  virtual DepositSteps deposit(Contribution& contribution) = 0;
  virtual bool deposit_pending() const = 0;
  /// A bucket of a deposit that is handed over bucket by bucket is there.
  virtual void bucket_ready(Contribution& contribution) = 0;

  virtual Round complete() const = 0;
  /// Policy of round complete() as read before. Requires: that round is not more than one ring old.
  virtual Policy open_policy(Round complete) = 0;
  /// The result to hand over next: that of `round`, the number of results handed over so far; with delivery latest the
  /// newest, which may be of an earlier round if that has been handed over already. Requires: round < complete().
  virtual const ResultSlot& result(Round round) = 0;
  /// The rounds that result(), as called last, has passed over; none unless delivery is latest.
  virtual std::span<const PassedRound> passed() { return {}; }

  // PartialOptions::members_change, once the engine is frozen; not of BucketRounds. Rounds count from 0:
  /// Copies of this rank's deposits that no round before `from` has taken, oldest first. Requires: counted() ≤ from,
  /// and some rank has completed as many rounds.
  virtual Carried take_out(Round from) const;
  /// A result that is still kept, valid until the next call; null: none.
  virtual const ResultSlot* kept(Round round);
  /// The header of a result before counted() that is still kept; nothing: it is not. Any thread.
  virtual std::optional<RoundHeader> kept_header(Round round);

  virtual void set_arrived(Round round) = 0;
  /// Returns whether a round is held for this, so that the engine must be rung.
  virtual bool set_handed(Round handed) = 0;
  virtual void set_drained() = 0;
  /// Since when a round runs that was started without this rank's application; said once. None: there is no such round.
  virtual std::optional<TimePoint> take_passive_since() = 0;

  /// Which ranks keep the open round from being over (Collective::who_is_missing()).
  virtual std::string who_is_missing(Driver& driver, Duration timeout);

  virtual void observe(PartialObserver& observer) { observer_ = &observer; }
  virtual bool on_boards() const { return false; }
  virtual int num_contribution_sets() const = 0;
  virtual std::uint64_t memory_bytes() const = 0;
  const PartialOptions& options() const { return options_; }

  /// Rounds whose results this rank takes: complete() while the engine steps, and once it is frozen the number that was
  /// complete then, the same for all callers, whatever others complete on a board since. Any thread.
  Round counted();

 protected:
  /// Where members may change they, and not the collective, are told of a rank that is lost.
  void lost(int peer, const Error& reason) override {
    if (!options_.members_change) RoundsBase::lost(peer, reason);
  }

  const PartialOptions options_;
  PartialObserver* observer_ = nullptr;

 private:
  static constexpr Round kUncounted = ~Round{0};
  std::atomic<Round> counted_{kUncounted};  // by the first that asks once the engine is frozen; all others read it
};

/// A copy of a deposit and of its facts.
Carried::Deposit copy_of(const Contribution& deposit, const ContributionFacts& facts);

/// Of headers that travel by messages. Where members change all have to know whose batches are in a round.
inline RoundHeader::Names names_in_messages(const PartialOptions& options, int ranks) {
  if (options.name_all_ranks || ranks <= RoundHeader::kMaxNamedRanks) return RoundHeader::Names::times;
  return options.members_change ? RoundHeader::Names::batches : RoundHeader::Names::none;
}

/// The rule of the rounds that `options` ask for.
PolicyRule rule_of(const PartialOptions& options, int ranks);

}  // namespace stretto
