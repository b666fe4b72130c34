#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/check/partial/rounds_oracle.h"
#include "stretto/check/partial/scenario.h"

namespace stretto {

inline constexpr Situation kBucketReaches[] = {{"rounds that took other deposits of one bucket than of the next"},
                                               {"rounds on a board"},
                                               {"full rounds"},
                                               {"late ranks"},
                                               {"drained ranks"},
                                               {"dropped batches"},
                                               {"rounds to which no rank contributed"}};

/// Judges a partial allreduce whose buckets have rounds of their own (docs/boards.md, A bucket of its own) by what it
/// hands over alone. Element 2r of a bucket counts the deposits of rank r, 2r + 1 sums their numbers, so that a sum
/// says what it holds; the elements behind are made of all numbers. So it knows that each round takes the next deposits
/// of each rank, bucket by bucket, whatever the header says; and compares the headers, the policies, and what a full
/// round or the last one leaves.
class BucketOracle final : public RoundsOracle {
 public:
  /// Requires: int64 buckets of at least 2 · ranks elements.
  BucketOracle(const Scenario& scenario, JobFinding& finding);

  void fill(Contribution& contribution, int rank, std::uint64_t deposit, std::size_t first,
            std::size_t end) const override;
  void deposit_begins(int rank) override;
  void passed() override { ++finding().reached[5]; }
  void handed_over(int rank, const RoundResult& result, const IntegerModel& model) override;
  void quiet(const std::vector<ProtocolState>& states) override;
  void ended(const std::vector<bool>& done, const std::vector<ProtocolState>& states) override;

 private:
  /// The result of a bucket, as the first rank was handed it.
  struct Taken {
    RoundHeader header;
    std::vector<std::uint64_t> counts, numbers;  // per rank: deposits, and the sum of their numbers, from 1
  };
  struct Seen {
    Policy policy;
    std::vector<Taken> buckets;
  };

  Taken read(const RoundResult& result, std::size_t bucket) const;
  /// The fault of the elements of a bucket; empty: none.
  std::string fault(const RoundResult& result, std::size_t bucket, const Taken& taken) const;
  void take(const RoundResult& result, std::size_t bucket, const Taken& taken);
  /// The first rank is handed the next round.
  void see(const RoundResult& result);
  void check_start(const Policy& policy, std::size_t bucket, const RoundHeader& header);
  void check_nothing_pending(const std::string& after);
  void note(const Seen& seen);

  const Scenario& scenario_;
  std::vector<Seen> rounds_;
  std::vector<std::vector<Round>> bases_;          // per rank, of each deposit: rounds handed over before
  std::vector<std::vector<std::uint64_t>> taken_;  // per bucket and rank: deposits that rounds have taken
  std::vector<Round> next_handed_;                 // per rank
  PolicyRule rule_;                                // knows the headers of the first bucket
  bool last_is_over_ = false;
};

}  // namespace stretto
