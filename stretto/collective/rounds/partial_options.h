#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "stretto/collective/protocol/policy.h"
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
  /// With members_change they always name them all; there at 4 bytes a rank, without the times of any.
  bool name_all_ranks = false;
  std::uint64_t piece_bytes = 128 << 10;  ///< of a bucket on a board, summed by one rank at a time; a multiple of 64
  /// 0: a round sums all buckets. Else so many buckets, in order, have rounds of their own, which start by themselves:
  /// a contribution may be in round r with one bucket and in r + 1 with the next. A rank waits for all of them. Costs
  /// the messages, or the wake-ups, of as many rounds. Not with delivery latest or several boards.
  int buckets_per_round = 0;
  /// The members of the job may change: then the collective is made anew among those that go on, in a new *world*, and
  /// PartialAllreduce::take_out() and put_in() carry the deposits there. Keeps 2W results in place of W, and does not
  /// fail where a rank is lost. Not with delivery latest, buckets_per_round, or deposits bucket by bucket.
  bool members_change = false;
  /// So many batches a deposit has then at most: headers count up to 65,535 of some deposits.
  static constexpr std::uint64_t kMostBatchesOfAChangingMember = 1000;
  /// With members_change: rounds of the job that were complete before this world. Results and their headers are
  /// numbered on from there.
  Round rounds_before = 0;

  /// So many results are kept.
  int results_kept() const { return members_change ? 2 * max_lag : max_lag; }
};

/// A round as the application sees it; valid inside the apply function only.
struct RoundResult {
  Round round = 0;                      ///< its number, from PartialOptions::rounds_before; the same on every rank
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

}  // namespace stretto
