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
  /// Published so far; with GroupShape::moves all that have stood.
  std::uint64_t versions() const {
    return memory_.shape().moves == nullptr ? versions_ : NumberedWord(memory_.seat(rank_).model.load()).number();
  }

  /// The index of the newest result of this rank, if it is of a round from `from` on: not overwritten before release().
  std::optional<std::uint64_t> read(Round from);
  void release();

  // With GroupShape::moves.
  /// Claims this rank's seat, so that no sum takes what stands. Returns whether it has: not while a sum does.
  bool claim();
  /// Where what stands lies, and the base of this rank's next step.
  std::uint64_t stands() const { return NumberedWord(memory_.seat(rank_).model.load()).index(); }
  std::uint64_t base() const { return base_; }
  /// The set stands, and is the base from now on, which the application has as it is if what stood was its base. Gives
  /// the claim up.
  void settle(int set, Round ticket, const ContributionFacts& facts);
  /// Makes what stands the base. Returns where it lies; nothing: the application has it.
  std::optional<std::uint64_t> follow();
  /// The steps published so far have been counted. Requires: no sum may begin.
  void counted() { memory_.seat(rank_).facts = {}; }

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
  std::uint64_t base_ = 0;  // with GroupShape::moves
  bool has_base_ = true;    // the application's numbers are those of the base
};

}  // namespace stretto
