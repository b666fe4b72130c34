#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/check/harness/job_search.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/collective/protocol/ticket.h"

namespace stretto {

/// The replica a training run would have: integers that move as momentum SGD moves weights.
struct IntegerModel {
  std::uint64_t weight = 1;
  std::uint64_t momentum = 0;
  std::uint64_t batches = 0;  ///< applied so far: the learning rate is a function of it

  void apply(std::uint64_t sum, std::uint64_t batches_in_round, std::uint64_t rate_batches);
  friend bool operator==(const IntegerModel&, const IntegerModel&) = default;
};

/// Whether a round that is not held must have started by the time nothing moves, where these ranks have arrived at it
/// or drained.
bool start_is_due(const Policy& policy, const RankSet& arrived, const RankSet& drained);

/// The judge of a simulated partial allreduce, whose ranks tell it of all they do.
class RoundsOracle {
 public:
  /// `max_lag`: PartialOptions::max_lag.
  RoundsOracle(int ranks, int max_lag, JobFinding& finding);
  virtual ~RoundsOracle() = default;

  /// Writes the buckets first … end − 1 of a rank's deposit number `deposit`, from 0.
  virtual void fill(Contribution& contribution, int rank, std::uint64_t deposit, std::size_t first,
                    std::size_t end) const = 0;
  virtual void deposit_begins(int rank) = 0;
  virtual void deposit_made(int /*rank*/) {}
  /// A rank drops a batch: what it arrives with was deposited before.
  virtual void passed() {}
  /// The application of `rank` waits at `round`.
  void arrived(int rank, Round round) { waits_at_[static_cast<std::size_t>(rank)] = round + 1; }
  /// The application of `rank` has no further batches.
  void drained(int rank) { drained_.insert(rank); }
  /// A result handed to `rank`; `model` is its replica after applying it.
  virtual void handed_over(int rank, const RoundResult& result, const IntegerModel& model) = 0;
  /// An exchange of `rank` has returned.
  void exchanged(int rank, const ProtocolState& state);

  // Of the first bucket's rounds, where each has its own:
  /// `round` takes of `rank` a contribution with these facts (null: none).
  virtual void taken(int /*rank*/, Round /*round*/, const ContributionFacts* /*facts*/) {}
  /// The counter, or on a board a rank, has started a round with `come` ranks arrived or drained.
  virtual void started(Round /*round*/, int /*come*/) {}
  /// After a transition of `rank`.
  virtual void look_at(int /*rank*/, const ProtocolState& /*state*/) {}

  /// Nothing moves but applications: no message is under way, and on boards no rank has a step to take. Every
  /// round that may start must have started, and every round that may complete must have completed.
  virtual void quiet(const std::vector<ProtocolState>& states) = 0;
  /// Nothing can happen any more; `done[rank]`: the rank has finished.
  virtual void ended(const std::vector<bool>& done, const std::vector<ProtocolState>& states) = 0;

  void violated(std::string what) { finding_.violated(std::move(what)); }

 protected:
  /// The ranks whose applications wait at `round`.
  RankSet arrived_at(Round round) const;
  /// The round at which the application of `rank` waits.
  std::optional<Round> waits_at(int rank) const;
  /// The ranks whose applications have drained.
  const RankSet& all_drained() const { return drained_; }
  Round max_lag() const { return max_lag_; }
  JobFinding& finding() { return finding_; }

 private:
  const Round max_lag_;
  std::vector<Round> waits_at_;  // per rank: the round its application waits at, plus 1; 0: it does not wait
  RankSet drained_;
  JobFinding& finding_;
};

}  // namespace stretto
