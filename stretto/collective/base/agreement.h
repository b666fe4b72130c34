#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/collective/base/collective_failure.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/combine.h"

namespace stretto {

/// Few words among some ranks of a world, without blocking: reductions, gathers and broadcasts, begun by all members in
/// the same order. Number k of one member is matched with number k of the others, and must be of the same kind.
///
/// A reduction goes by a schedule, in ⌈log₂ members⌉ steps. A gather and a broadcast are of a length that only the
/// sender knows, so they go by control messages of at most kMaxHeadBytes each: from every member to the first one, and
/// along a binomial tree, each piece as it comes. Beside them a member tells another one something, which is matched
/// with nothing. Members are named by their places. All calls are those of the thread that drives the engine.
class Agreement final : private RoundOwner {
 public:
  /// Registers with the engine, on every rank of the job, by `description` (base/description.h). `failure`, of the
  /// collective that this is part of, outlives it. `members`: different ranks, ascending, the same on all of them.
  Agreement(Engine& engine, CollectiveFailure& failure, std::vector<int> members, std::string description);
  ~Agreement() override;
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  // The next number. Requires: this rank is a member.

  /// Every member gets the reduction of all members' words, as many of each. The integers that `op` sees are signed.
  void reduce(std::vector<std::uint64_t> words, ReduceOp op);
  /// The first member gets the bytes of each.
  void gather(std::span<const std::byte> bytes);
  /// All members get the bytes of the first; what others say counts for nothing.
  void broadcast(std::span<const std::byte> bytes);

  /// The outcome of a number.
  struct Outcome {
    std::uint64_t number = 0;
    std::vector<std::uint64_t> words;              ///< of a reduction
    std::vector<std::vector<std::byte>> gathered;  ///< of a gather: on the first member, by member; empty elsewhere
    std::vector<std::byte> bytes;                  ///< of a broadcast
  };
  /// The next one that is complete, in the order of numbers.
  std::optional<Outcome> take();
  /// Whether one has begun and not been taken.
  bool under_way() const { return !begun_.empty(); }
  /// Whether one that is under way waits for a message of this rank of the job.
  bool lacks(int rank) const;

  /// Sends another member something of at most kMaxHeadBytes.
  void tell(int member, std::span<const std::byte> bytes);
  /// A message that a member has sent by tell().
  struct Told {
    int member = 0;
    std::vector<std::byte> bytes;
  };
  /// The next one, in the order in which they have come.
  std::optional<Told> take_told();

  /// The oldest number that has begun and is not complete.
  std::optional<std::uint64_t> incomplete() const;
  /// Asks each other member whether it has begun `number`. Each answers at once, if a thread drives its engine.
  void ask(std::uint64_t number);
  /// Whether each other member has answered the last question.
  bool all_have_answered() const;
  /// How many numbers a member has begun, by its answer to the last question.
  std::optional<std::uint64_t> answered(int member) const { return answers_[static_cast<std::size_t>(member)]; }

  /// Numbers that this rank has begun so far, and the messages sent for them.
  struct Traffic {
    std::uint64_t begun = 0;     ///< numbers
    std::uint64_t messages = 0;  ///< sent
    std::uint64_t bytes = 0;     ///< in these messages, without envelopes
  };
  const Traffic& traffic() const { return traffic_; }

 private:
  enum class Kind { reduction, gather, broadcast };
  struct Begun {
    Kind kind;
    Outcome outcome;
    std::vector<std::uint64_t> mine;  // reduction: in; the outcome's words are out
    bool complete = false;
  };
  /// A body that comes in pieces.
  struct Pieces {
    std::vector<std::byte> bytes;
    bool all = false;
  };

  bool poll(TimePoint) override { return false; }
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int, const Error&) override {}  // the collective that this is part of hears of it, too
  void broken(const Error& reason) override { failure_.fail(reason, true); }
  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round, OpId, std::uint32_t) override { return true; }
  void completed(Round) override {}
  void retired(Round round) override;

  int size() const { return static_cast<int>(members_.size()); }
  int rank_of(int member) const { return members_[static_cast<std::size_t>(member)]; }
  int member_of(int rank) const;
  Begun& begin(Kind kind);
  const Schedule& schedule(std::uint64_t count, ReduceOp op);
  void send(int member, std::uint16_t channel, std::uint64_t number, std::span<const std::byte> bytes);
  bool take_piece(Pieces& pieces, std::uint64_t length, std::span<const std::byte> head);
  void look_for_pieces(Begun& begun);

  // Fixed after construction.
  Engine& engine_;
  CollectiveFailure& failure_;
  const std::vector<int> members_;
  const std::string description_;
  int me_ = -1;  // this rank's place, or −1
  CollectiveId id_ = 0;

  std::map<std::pair<std::uint64_t, ReduceOp>, std::unique_ptr<Schedule>> schedules_;  // by words
  std::deque<Begun> begun_;  // the oldest first; consecutive numbers, of which the last is traffic_.begun − 1
  std::map<std::uint64_t, std::vector<Pieces>> gathered_;  // on the first member: by number, by member
  std::map<std::uint64_t, Pieces> broadcast_;              // on the others: by number
  std::deque<Told> told_;
  std::uint64_t asked_ = 0;                            // the number of ask()
  std::vector<std::optional<std::uint64_t>> answers_;  // to it, by member
  Traffic traffic_;
};

}  // namespace stretto
