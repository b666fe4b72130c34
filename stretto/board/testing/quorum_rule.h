#pragma once

#include <cstdint>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/board/partial_board.h"

namespace stretto {

/// For tests: a round starts when a rank has arrived and `quorum` ranks have arrived or drained; the first round that
/// shows all drained is the last. Keeps what it hears.
class QuorumRule final : public PartialRule {
 public:
  struct Taken {
    Round round = 0;
    int rank = 0;
    bool any = false;
    ContributionFacts facts;
  };

  QuorumRule(const PartialMemory& memory, int quorum) : memory_(memory), quorum_(quorum) {}

  bool may_start(Round round, const Attendance& attendance) override {
    if (ended(round)) return false;
    if (attendance.drained.all()) return true;
    return !attendance.arrived.empty() && (attendance.arrived | attendance.drained).count() >= quorum_;
  }
  std::int64_t now() const override { return 77; }
  void started(Round round, const Attendance& attendance) override {
    started_.push_back(round);
    come_.push_back((attendance.arrived | attendance.drained).count());
  }
  void taken(Round round, int rank, const ContributionFacts* facts) override {
    taken_.push_back({round, rank, facts != nullptr, facts != nullptr ? *facts : ContributionFacts{}});
  }
  void planned(Round round, const RoundHeader& header, std::span<std::uint64_t, 2> words) override {
    words[0] = round;
    words[1] = header.batches;
  }

  bool ended(Round complete) const {
    return complete > 0 && memory_.record(complete - 1).last.load(std::memory_order_relaxed);
  }
  const std::vector<Round>& rounds_started() const { return started_; }
  const std::vector<int>& come() const { return come_; }
  const std::vector<Taken>& all_taken() const { return taken_; }

 private:
  const PartialMemory& memory_;
  const int quorum_;
  std::vector<Round> started_;
  std::vector<int> come_;
  std::vector<Taken> taken_;
};

/// For tests: a rank's deposit.
inline std::uint64_t deposited(std::uint64_t seed, int rank, std::uint64_t step) {
  return random_bits(seed, static_cast<std::uint64_t>(rank), step);
}

}  // namespace stretto
