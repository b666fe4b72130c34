#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/collective/base/collective.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/collective/rounds/partial_options.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// Sums contributions over the ranks that have come, and does not wait for the rest: the partial collectives of
/// eager-SGD (Li et al., PPoPP 2020, section 4), with bounded staleness and without loss. Protocol: docs/protocol.md.
/// A contribution and a result are one array a bucket, of BucketSpec::count elements of BucketSpec::type.
/// Rounds are numbered from PartialOptions::rounds_before on every rank. One application thread; must outlive every
/// call on it.
class PartialAllreduce final : public Collective {
 public:
  /// The application's function for a round: called on its thread, inside exchange() or finish().
  using Apply = FunctionRef<void(const RoundResult&)>;

  /// Registers with the engine: in the same order, with the same buckets and options, on every rank.
  /// Allocates num_contribution_sets() contribution sets and PartialOptions::results_kept() results; those of a board
  /// lie in the memory that the ranks share. Throws UsageError; Failure (Errc::unavailable) names the shared memory
  /// needed where there is too little.
  PartialAllreduce(Engine& engine, std::vector<BucketSpec> buckets, PartialOptions options = {});
  /// After finish(), or after a failure. With a round of messages in flight the engine steps no more
  /// (Engine::remove()).
  ~PartialAllreduce() override;

  /// Memory for the next step's contribution. Its content is what an earlier step left. Never blocks. Throws
  /// UsageError before the one it returned last has been deposited.
  Contribution& acquire();

  /// Adds this step's contribution to what no round has taken yet. Returns at once; the memory belongs to the
  /// collective until acquire() returns it again. Its base is the number of rounds handed over so far. Throws
  /// UsageError for a contribution that acquire() has not returned last, for 0 batches under a policy other than full,
  /// and after finish().
  void deposit(Contribution& contribution, const DepositInfo& info);

  /// The same, bucket by bucket: opens the deposit; bucket_ready() hands over buckets in order, all of them before
  /// exchange(). Where a round sums all buckets this is for policy full alone: it arrives, too, and buckets are reduced
  /// while later ones are still computed. Throws UsageError under another policy, and while a deposit is pending. Where
  /// buckets have rounds of their own it is for every policy, and the rank arrives in exchange().
  void begin_deposit(Contribution& contribution, const DepositInfo& info);
  /// Hands over bucket `bucket` of the deposit that begin_deposit() has opened: 0, 1, 2, …, each once. Throws
  /// UsageError out of order.
  void bucket_ready(Contribution& contribution, int bucket);

  /// Arrives at the next open round, or catches up when it is over already. Passes every round completed since the
  /// last call to `apply`, in order; a result is valid only inside that call. Returns how many there were, or
  /// Errc::timeout naming the round and the ranks that are missing (call again to resume, without a new deposit),
  /// Errc::aborted, Errc::lost_peer. Once the engine is frozen (Engine::freeze()): Errc::members_changed, after the
  /// results that count, unless the round it has waited for is one of these. Throws UsageError after finish().
  Result<int> exchange(Driver& driver, TimePoint deadline, Apply apply);

  /// No more batches here: counts as arrived from now on; passes results on and returns after the last round. Errors as
  /// exchange(); after Errc::timeout call it again. Throws UsageError while an exchange waits.
  Result<int> finish(Driver& driver, TimePoint deadline, Apply apply);

  /// Where a call that does not block has got to.
  enum class Progress {
    waiting,  ///< for other ranks: call again
    done,     ///< as exchange() or finish() would have returned
  };
  /// exchange() and finish() without blocking: call again while they wait. For a caller that drives several
  /// collectives, or many ranks, in one thread.
  Result<Progress> try_exchange(Apply apply);
  /// finish() in the same way.
  Result<Progress> try_finish(Apply apply);
  /// Waits until the one of these that was called last may have more to do. False: not until `deadline`. Asks nobody
  /// who is missing, as exchange() and finish() do then.
  [[nodiscard]] bool wait(Driver& driver, TimePoint deadline);

  // From one world to the next: PartialOptions::members_change, and the engine is frozen (Engine::freeze()).
  // Contributions may still be deposited, until take_out(). Rounds are numbered as in results.
  /// Rounds complete here when the engine was frozen, from the first of the job: results from there on are not taken,
  /// whatever other ranks complete on a board since. Any thread. Throws UsageError before the engine is frozen.
  Round complete();
  /// A result before complete(), for a rank that lacks it: the last PartialOptions::max_lag before the largest
  /// complete() of all ranks are there. Valid until the next call. The application's thread. Throws UsageError as
  /// complete().
  std::optional<RoundResult> result_of(Round round);
  /// The header of such a result. Any thread. Throws UsageError as complete().
  std::optional<RoundHeader> header_of(Round round);
  /// Copies of this rank's deposits that are in no result before `round`, which is the largest complete() of all ranks.
  /// Changes nothing. The application's thread, with no deposit under way. Throws UsageError as complete(), and for a
  /// round before complete().
  Carried take_out(Round round);
  /// Deposits what a rank has taken out of the world before, oldest first, as it was deposited there: its staleness
  /// stays within max_lag where no rank exchanges before all have put theirs in. Requires: Engine::frozen() is false.
  /// Throws UsageError for buckets of other sizes, and after any other deposit or exchange.
  void put_in(const Carried& carried);

  void abort(Driver& driver, const Error& why) override;
  std::optional<Error> failure() const override;
  /// Asks every rank what it is doing.
  std::string who_is_missing(Driver& driver, Duration timeout) override;

  int rank() const;                   ///< this rank's number, from 0
  int ranks() const;                  ///< of the job
  int num_buckets() const;            ///< arrays a contribution has
  bool on_boards() const;             ///< whether ranks of a host read each other's deposits where they lie
  int num_contribution_sets() const;  ///< sets that acquire() hands out in turns
  /// Memory held, in bytes: contribution sets, results, rounds in flight.
  std::uint64_t memory_bytes() const;
  const PartialOptions& options() const;  ///< as given to the constructor
  /// Rounds whose results have been handed over, from the first of the job. Application thread.
  Round handed() const;

 private:
  friend class PartialProbe;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
