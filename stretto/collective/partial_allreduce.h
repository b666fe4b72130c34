#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/collective/collective.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/bucket.h"
#include "stretto/observe/round_header.h"

namespace stretto {

/// Which results an application is handed.
enum class Delivery {
  every,   ///< each round is handed over, in order, once: replicas never diverge
  latest,  ///< only the newest, as in the eager-SGD paper: a rank skips those before it, so replicas differ
};
/// Options of a PartialAllreduce, the same on every rank.
struct PartialOptions {
  Policy policy = Policy::full();  ///< who may start a round; full waits for the slowest rank
  std::uint64_t full_every = 0;    ///< batches between full rounds; 0: only where `policy` says so
  int max_lag = 4;  ///< W: results kept, bound of staleness; by messages rounds in flight, too. Memory grows with it
  Delivery delivery = Delivery::every;  ///< `latest` saves applying what is out of date, and goes by messages
  SumOrder order = SumOrder::fixed;     ///< `arrival` is faster for large buckets and does not repeat to the bit
  ReduceOp op = ReduceOp::sum;          ///< of the contributions, element by element
  std::uint64_t seed = 0;               ///< of the draws of `majority`
  std::uint64_t batches_before = 0;     ///< applied before round 0 (resume)
  /// Ranks that meet at a board in the memory they share: so many at each, in order, fewer at the last, and one
  /// schedule of messages between the boards. 0: all at one. 1: each for itself, by messages, as also where there is no
  /// such memory, and for delivery latest.
  int seats = 0;
  /// Where rounds are held by messages and there are more than 256 ranks, headers count contributors instead of naming
  /// them (RoundHeader::names_ranks()). True: they name them all, at 16 bytes a rank in most messages; up to 488 ranks.
  bool name_all_ranks = false;
  std::uint64_t piece_bytes = 128 << 10;  ///< of a bucket on a board, summed by one rank at a time; a multiple of 64
  /// 0: a round sums all buckets. Else so many buckets, in order, have rounds of their own, which start by themselves:
  /// a contribution may be in round r with one bucket and in r + 1 with the next. A rank waits for all of them. Costs
  /// the messages, or the wake-ups, of as many rounds. Not with delivery latest or several boards.
  int buckets_per_round = 0;
};

/// A round as the application sees it; valid inside the apply function only.
struct RoundResult {
  Round round = 0;                      ///< its number, from 0; the same on every rank
  Policy policy;                        ///< by which it started
  const RoundHeader* header = nullptr;  ///< which ranks arrived and brought what; never null in the apply function.
                                        ///< Where buckets have rounds of their own, that of bucket 0
  std::span<const std::span<const std::byte>> buckets;  ///< the sum of each bucket; empty where nobody contributed
  std::span<const PassedRound> passed;                  ///< delivery latest: rounds since the last one, not handed over

  /// PartialOptions::buckets_per_round: of each bucket the header of its round, in which nobody may have contributed
  /// although the round is not empty: then the bucket's sum is empty. Else no header.
  std::span<const RoundHeader* const> headers;

  /// The header of the round that has summed bucket `i`.
  const RoundHeader& header_of(int i) const {
    return headers.empty() ? *header : *headers[static_cast<std::size_t>(i)];
  }
  /// Whether nobody contributed.
  bool empty() const {
    return headers.empty() ? header->empty()
                           : std::ranges::all_of(headers, [](const RoundHeader* of) { return of->empty(); });
  }
  /// The elements of bucket `i`, from 0. Requires: T is what its BucketSpec::type says; that is not checked.
  template <class T>
  std::span<const T> as(int i) const {
    auto bytes = buckets[static_cast<std::size_t>(i)];
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// Sums contributions over the ranks that have come, and does not wait for the rest: the partial collectives of
/// eager-SGD (Li et al., PPoPP 2020, section 4), with bounded staleness and without loss. Protocol: docs/protocol.md.
/// A contribution and a result are one array a bucket, of BucketSpec::count elements of BucketSpec::type.
/// Rounds are numbered from 0 on every rank. One application thread; must outlive every call on it.
class PartialAllreduce final : public Collective {
 public:
  /// The application's function for a round: called on its thread, inside exchange() or finish().
  using Apply = FunctionRef<void(const RoundResult&)>;

  /// Registers with the engine: in the same order, with the same buckets and options, on every rank.
  /// Allocates num_contribution_sets() contribution sets and max_lag results; those of a board lie in the memory that
  /// the ranks share. Throws UsageError; Failure (Errc::unavailable) names the shared memory needed where there is too
  /// little.
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
  /// Errc::aborted, Errc::lost_peer. Throws UsageError after finish().
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
  /// Rounds whose results have been handed over. Application thread.
  Round handed() const;

 private:
  friend class PartialProbe;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
