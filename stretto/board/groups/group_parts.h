#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "stretto/board/groups/group_memory.h"
#include "stretto/kernel/combination.h"

namespace stretto {

/// The members of a group of a round that have a seat at this board, one of several.
struct GroupPart {
  int number = 0;            ///< of the group among those of the round
  int members = 0;           ///< of the group, at all boards
  std::vector<int> seats;    ///< ascending
  std::uint64_t sum = 0;     ///< the result with the sum of these models, unless alone()
  std::uint64_t result = 0;  ///< the result that the sum of the group becomes
  RoundHeader header;        ///< of these models

  /// No member is at another board.
  bool whole() const { return members == static_cast<int>(seats.size()); }
  /// There is nothing to sum here: what is sent is the member's model itself.
  bool alone() const { return !whole() && seats.size() == 1; }
};

/// The leader's part in a round in groups at its board, one of several: pins the model that stands on each seat, sums
/// those of each group, and makes the sums of whole groups the members' newest results.
///
/// A step machine over memory handed in: with `interleaved` each step makes one access to a member's words, so that a
/// search can put the steps of the leader and of its members in any order. The leader's driving thread.
class GroupParts {
 public:
  /// `joined`: a model of this version goes into the round. `ready`: the models of the part are pinned and summed.
  using Joined = std::function<void(int seat, std::uint64_t version)>;
  using Ready = std::function<void(const GroupPart& part)>;  ///< see above
  GroupParts(GroupMemory& memory, Joined joined, Ready ready, bool interleaved = false);

  /// Takes a round in hand, whose groups have these parts, in turn. Requires: not busy(); each seat is in one part, and
  /// has published; the parts of earlier rounds have been released.
  void begin(Round round, std::vector<GroupPart> parts);
  /// Whether a part is not ready yet.
  bool busy() const { return at_ < parts_.size(); }
  /// Does one step, or some, of what is to be done. Requires: busy().
  void step();

  /// Where the sum of a part that is ready lies.
  std::span<std::byte> summed(const GroupPart& part, std::size_t bucket) const;
  /// With GroupShape::moves: makes the sum of a group its mean. Requires: nobody reads it on behalf of other boards.
  void average(const GroupPart& part);
  /// Makes the result of a part of this round the newest of its members.
  void hand_over(Round round, const GroupPart& part);
  /// Nobody reads or writes the memory of a part any more on behalf of other boards.
  void release(const GroupPart& part);

 private:
  enum class Step { claim, claim_seat, read_model, pin_model, look_again, unpin_again, sum, unpin };

  Step take_step();
  Step claim();
  Step claim_seat();
  Step enter_seat();
  Step look_again();
  void enter_header();
  Step sum();
  Step unpin();
  Step finish();
  std::uint64_t claim_result(std::size_t uses);
  std::atomic<int>& pins_of(const GroupPart& part, int seat) const {
    return memory_.set(seat, memory_.own(part.result, seat).set).pins;
  }
  GroupPart& part() { return parts_[at_]; }
  int seat() { return part().seats[member_]; }

  GroupMemory& memory_;
  const Joined joined_;
  const Ready ready_;
  const bool interleaved_;

  Round round_ = 0;
  std::vector<GroupPart> parts_;
  std::size_t at_ = 0;  // the part in hand
  Step next_ = Step::claim;
  bool blocked_ = false;    // by a rank that publishes
  std::size_t member_ = 0;  // of the part, in turn
  std::uint64_t piece_ = 0;
  NumberedWord model_{0};  // of seat(), as last read
  std::vector<const std::byte*> sources_;
  std::vector<std::unique_ptr<Combination>> trees_;  // by the number of members
};

}  // namespace stretto
