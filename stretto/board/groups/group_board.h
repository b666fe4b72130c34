#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "stretto/board/groups/group_memory.h"
#include "stretto/kernel/combination.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Who is together at a GroupBoard. Called from GroupBoard::step().
class GroupRule {
 public:
  virtual ~GroupRule() = default;

  struct Group {
    int number = 0;                ///< among those of the round
    std::span<const int> members;  ///< ascending; valid until the next call
  };
  /// This rank's group of a round; of a full one all ranks.
  virtual Group group(Round round) = 0;
  /// This rank sums the round with this model of `rank`, one of the group's.
  virtual void joined(Round, int /*rank*/, std::uint64_t /*version*/) {}
  /// This rank has made the sum the newest result of `rank`.
  virtual void completed(Round, int /*rank*/, std::uint64_t /*result*/) {}
};

/// The board on which the ranks of one host average in groups (docs/groups.md, On a board). This is the engine's side
/// of a rank: it steps the board only while its application waits at a round.
///
/// The rank that comes first to a group of a round begins its sum, by a swap of the word of this group and round; a
/// full round is begun by the last rank that comes. It pins the model that stands on each member's seat, which its
/// owner then does not write to, and opens the sum. The pieces are summed by it and by those members that wait. Who
/// sums the last piece hands the result over: it becomes each member's newest, unless that has a newer one. Members
/// that compute do nothing and are not woken. Groups of a round, and rounds, are summed independently of one another.
///
/// With GroupShape::moves it claims the members' seats instead, in ascending order, until the result stands on each: so
/// that no model is in two sums at once, and no rank puts a step on one that is being summed. It waits for a seat that
/// is claimed, which is for another sum or while the rank itself publishes.
///
/// A step machine over memory handed in: with `interleaved` each step makes one access to shared memory, so that a
/// search can put the ranks' steps in any order. One object a rank, one thread at a time; the rank's GroupSeat is
/// another's.
class GroupBoard {
 public:
  /// `ring`: the rank with a seat.
  GroupBoard(GroupMemory& memory, int seat, GroupRule& rule, std::function<void(int seat)> ring,
             bool interleaved = false);
  GroupBoard(const GroupBoard&) = delete;
  GroupBoard& operator=(const GroupBoard&) = delete;

  /// Does all that is due now for this rank, which waits at `round`. Returns whether anything was done (interleaved:
  /// whether there may be more). Requires: the same round while busy().
  bool step(Round round);
  /// A step is under way, which may be about to hand a result over to other ranks, or the sum that this rank has begun
  /// is. Any thread of this rank.
  bool busy() const { return busy_.load(std::memory_order_seq_cst) || begun(); }
  /// The sum that this rank has begun is under way.
  bool begun() const { return memory_.desk(rank_).open.load(std::memory_order_seq_cst); }
  /// The newest result's round + 1 of this rank. Any thread of it.
  Round newest() const;
  /// Whether every rank that has batches waits at the full round `round`, so that the results before it are all there.
  bool all_have_come(Round round) const;

  /// The word that a rank sleeps on beside its doorbell (Sleepers).
  std::atomic<std::uint32_t>* signal() { return memory_.words().sleepers.signal(); }
  /// From now on a rank that hands this one a result wakes it. Returns whether that is new: then step once more before
  /// sleeping.
  bool go_in();
  void leave();
  /// Wakes all that sleep: what they wait for may have come. Any thread of this rank. Requires: the caller has
  /// published.
  void wake_all();

 private:
  enum class Step {
    look,
    look_at_summer,
    look_at_arrival,
    look_at_started,
    count_come,
    start,
    look_at_taken,
    look_at_model,
    begin,
    claim_result,
    claim_seat,
    read_model,
    pin_model,
    look_again,
    unpin_model,
    open,
    find_piece,
    sum,
    count_piece,
    unpin_source,
    stand,
    give_back,
    let_go,
    look_at_newest,
    hand_over,
    release_kept,
    release_older,
    refuse,
    release,
    close,
    nothing
  };

  Step take_step();
  Step look();
  Step look_at_summer();
  Step look_at_arrival();
  Step look_at_started();
  Step count_come();
  Step start();
  Step look_at_taken();
  Step look_at_model();
  Step begin();
  Step claim_result();
  Step claim_seat();
  Step read_model();
  Step pin_model();
  Step look_again();
  Step unpin_model();
  Step open();
  Step find_piece();
  Step sum();
  Step count_piece();
  Step unpin_source();
  Step stand();
  Step give_back();
  Step let_go();
  Step look_at_newest();
  Step hand_over();
  Step release_kept();
  Step release_older();
  Step refuse();
  Step release();
  Step close();

  GroupMemory::Seat& seat(int rank) const { return memory_.seat(rank); }
  int member() const { return group_.members[at_]; }
  /// To hand the result to: all members, this rank last, so that it goes on only when the others have it.
  int receiver() const;
  bool next_member() { return ++at_ < group_.members.size(); }
  RoundHeader header() const;
  Step enter_model();
  Step first_receiver();
  Step next_receiver();
  void wake_members();

  GroupMemory& memory_;
  const int rank_;
  GroupRule& rule_;
  const std::function<void(int)> ring_;
  const bool interleaved_;
  std::atomic<bool> busy_{false};

  Step next_ = Step::look;
  bool did_ = false;      // something has been done since step() was called
  bool blocked_ = false;  // the last step has found a seat claimed
  Round round_ = 0;       // that the application waits at
  GroupRule::Group group_;
  std::size_t at_ = 0;                 // the member, or seat, that is looked at
  int come_ = 0;                       // ranks, counted for the quorum
  int summer_ = 0;                     // who has begun the sum
  std::uint64_t result_ = 0;           // where it goes
  std::uint64_t piece_ = 0;            // claimed
  NumberedWord model_{0}, newest_{0};  // of member() and receiver(), as last read
  std::uint64_t stood_ = 0;            // where the model of receiver() lies that the result has replaced
  std::uint64_t began_from_ = 0;       // the word of the group and round, as last read
  std::vector<NumberedWord> pinned_;   // of each member
  std::vector<const std::byte*> sources_;
  std::vector<std::unique_ptr<Combination>> trees_;  // by the number of members
};

}  // namespace stretto
