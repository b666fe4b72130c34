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

#include "stretto/collective/collective_failure.h"
#include "stretto/engine/engine.h"
#include "stretto/ordering/orderer.h"
#include "stretto/ordering/process_set.h"

namespace stretto {

/// Counts of a rank's control collectives.
struct ControlTraffic {
  std::uint64_t controls = 0;  ///< begun
  std::uint64_t messages = 0;  ///< sent for them
  std::uint64_t bytes = 0;     ///< in these messages, without envelopes
};

/// The control collectives of a process set, carried out without blocking: what the orderers of its members say to each
/// other. Number k of one member is matched with number k of the others, and must be of the same kind.
///
/// A sync and a minimum go by a schedule, in ⌈log₂ members⌉ steps. A gather and a broadcast are of a length that only
/// the sender knows, so they go by control messages of at most kMaxHeadBytes each: from every member to the first one,
/// and along a binomial tree, each piece as it comes. Beside them a member tells another one something, which is
/// matched with nothing. All calls are those of the thread that drives the engine.
class ControlCollectives final : private RoundOwner {
 public:
  /// Registers with the engine, on every rank of the job. `failure`, of the collective that this is part of, outlives
  /// it. `alike`: what must be the same on every rank beside the set, in lines that begin with a line feed
  /// (base/description.h).
  ControlCollectives(Engine& engine, CollectiveFailure& failure, ProcessSet set, const std::string& alike = "");
  ~ControlCollectives() override;
  ControlCollectives(const ControlCollectives&) = delete;
  ControlCollectives& operator=(const ControlCollectives&) = delete;

  /// Begins the control collective of a sync, gather, broadcast or minimum. Requires: its number is that of the last
  /// one plus one, from 0 on; this rank is a member.
  void start(const OrdererAction& action);
  /// The next one that is complete, in the order of numbers.
  std::optional<ControlResult> take_result();
  /// Sends member `member` something beside the control collectives, of at most kMaxHeadBytes. Requires: this rank is
  /// another member.
  void tell(int member, std::span<const std::byte> bytes);
  /// A message that a member has sent by tell().
  struct Told {
    int member = 0;
    std::vector<std::byte> bytes;
  };
  /// The next one, in the order in which they have come.
  std::optional<Told> take_told();
  /// Whether one has begun and not been taken.
  bool under_way() const { return !begun_.empty(); }
  /// Whether one that is under way waits for a message of this rank of the job.
  bool lacks(int rank) const;

  /// The number of the oldest one that has begun and is not complete.
  std::optional<std::uint64_t> incomplete() const;
  /// Asks each other member whether it has begun number `control`. Each answers at once, if a thread drives its engine.
  void ask(std::uint64_t control);
  /// Whether each other member has answered the last question.
  bool all_have_answered() const;
  /// How many control collectives a member has begun, by its answer to the last question.
  std::optional<std::uint64_t> answered(int member) const { return answers_[static_cast<std::size_t>(member)]; }

  /// The control collectives that this rank has begun so far, and the messages sent for them.
  const ControlTraffic& traffic() const { return traffic_; }

 private:
  struct Begun {
    OrdererAction::Kind kind;
    ControlResult result;
    std::vector<std::uint64_t> mine;  // sync, minimum: in; the result's words are out
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

  void start_reduction(Begun& begun, ReduceOp op);
  const Schedule& reduction(std::uint64_t count, ReduceOp op);
  void send(int member, std::uint16_t channel, std::uint64_t number, std::span<const std::byte> bytes);
  bool take_piece(Pieces& pieces, std::uint64_t length, std::span<const std::byte> head);
  void look_for_pieces(Begun& begun);

  // Fixed after construction.
  Engine& engine_;
  CollectiveFailure& failure_;
  const ProcessSet set_;
  CollectiveId id_ = 0;

  std::map<std::pair<std::uint64_t, ReduceOp>, std::unique_ptr<Schedule>> reductions_;  // by words
  std::deque<Begun> begun_;  // the oldest first; consecutive numbers, of which the last is traffic_.controls − 1
  std::map<std::uint64_t, std::vector<Pieces>> gathered_;  // on the first member: by number, by member
  std::map<std::uint64_t, Pieces> broadcast_;              // on the others: by number
  std::deque<Told> told_;
  std::uint64_t asked_ = 0;                            // the number of ask()
  std::vector<std::optional<std::uint64_t>> answers_;  // to it, by member
  ControlTraffic traffic_;
};

}  // namespace stretto
