#pragma once

#include <cstdint>
#include <optional>

#include "stretto/board/groups/group_memory.h"

namespace stretto {

/// A rank's own part of a GroupBoard: the models it publishes, and the results it reads. The application's thread.
class GroupSeat {
 public:
  GroupSeat(GroupMemory& memory, int rank) : memory_(memory), rank_(rank) {}

  /// A set to write a model to: it neither stands, nor is it read, nor kept by a result. None: sums that other ranks
  /// make, one each, read all that are left; they end without this rank.
  std::optional<int> acquire();
  /// The set stands from now on, for round `ticket`.
  void publish(int set, Round ticket, const ContributionFacts& facts);
  std::uint64_t versions() const { return versions_; }  ///< published so far

  /// The index of the newest result of this rank, if it is of a round from `from` on: not overwritten before release().
  std::optional<std::uint64_t> read(Round from);
  void release();

  /// The application waits at `round`.
  void arrive(Round round) { memory_.seat(rank_).waits_at.store(round + 1, std::memory_order_seq_cst); }
  void drain() { memory_.seat(rank_).drained.store(true, std::memory_order_seq_cst); }
  /// Results of rounds before `before` are used, and what stands since has been published.
  void took(Round before) { memory_.seat(rank_).took.store(before, std::memory_order_seq_cst); }

 private:
  bool in_use(int set) const;

  GroupMemory& memory_;
  const int rank_;
  std::uint64_t versions_ = 0;
  std::uint32_t touched_ = 0;  // sets, by bit
  int filling_ = -1;
  int stands_ = -1;
  std::optional<std::uint64_t> reading_;
};

}  // namespace stretto
