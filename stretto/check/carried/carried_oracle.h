#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/check/harness/job_search.h"
#include "stretto/check/partial/rounds_oracle.h"
#include "stretto/collective/partial_allreduce.h"

namespace stretto {

/// Judges a partial allreduce whose members change, by what it hands over. Elements 2m and 2m + 1 of the first bucket
/// count the deposits of member m and sum their numbers from 1, so that a sum says which deposits it holds; the other
/// elements are made of the deposits' values (Payload::element()). So it knows of each round that it takes the next
/// deposits of each member, each once and in order, and compares what all members are handed to the bit.
class CarriedOracle {
 public:
  /// `members`: so many there may be in all. Requires: int64 buckets, of which the first has at least 2 · members
  /// elements.
  CarriedOracle(std::vector<BucketSpec> buckets, int members, int max_lag, std::uint64_t seed, JobFinding& finding);

  /// The next deposit of a member, which has taken `base` results.
  void deposit(int member, Contribution& contribution, Round base);
  /// A world begins: `seats` has its members. All rounds from `before` on are void: no survivor has seen them.
  void begin_world(const PartialOptions& options, std::vector<int> seats, Round before);
  /// Member `member` is handed a result; `model` is its replica after applying it.
  void handed_over(int member, const RoundResult& result, const IntegerModel& model);
  /// The job is over: every deposit of these members is in a result.
  void ended(const std::vector<int>& members);

  /// Batches that rounds before `round` have applied, and the replica after them.
  std::uint64_t batches_before(Round round) const { return round == 0 ? 0 : rounds_[round - 1].batches; }
  IntegerModel model_before(Round round) const { return round == 0 ? IntegerModel() : rounds_[round - 1].model; }
  Round rounds() const { return rounds_.size(); }
  /// Rounds that a member has been handed.
  Round handed(int member) const { return handed_[static_cast<std::size_t>(member)]; }
  /// A joiner takes over the state of a member that has been handed so many rounds.
  void joins(int member, Round handed) { handed_[static_cast<std::size_t>(member)] = handed; }
  std::uint64_t full_rounds() const { return full_rounds_; }

  void violated(std::string what) { finding_.violated(std::move(what)); }

 private:
  struct Seen {
    RoundHeader header;
    Policy policy;
    std::vector<std::vector<std::byte>> buckets;
    std::vector<std::uint64_t> taken;  // per member: deposits in this round and those before
    std::uint64_t batches = 0;         // likewise
    IntegerModel model;
  };

  /// The first member is handed the next round.
  void see(const RoundResult& result, const IntegerModel& model);
  std::string header_fault(const RoundResult& result, const Seen& seen, const std::vector<std::uint64_t>& before) const;
  std::string sum_fault(const RoundResult& result, std::uint64_t value) const;

  const std::vector<BucketSpec> buckets_;
  const std::size_t members_;
  const Round max_lag_;
  const std::uint64_t seed_;
  JobFinding& finding_;
  std::vector<Seen> rounds_;
  std::vector<std::vector<Round>> bases_;  // per member, of each deposit
  std::vector<Round> handed_;              // per member
  std::vector<int> seats_;                 // of the present world
  Round before_ = 0;                       // rounds complete before it
  std::optional<PolicyRule> rule_;         // its own
  std::uint64_t full_rounds_ = 0;
};

}  // namespace stretto
