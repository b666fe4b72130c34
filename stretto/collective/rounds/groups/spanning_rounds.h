#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "stretto/board/groups/group_parts.h"
#include "stretto/collective/protocol/group_protocol.h"
#include "stretto/collective/rounds/counter_words.h"
#include "stretto/collective/rounds/groups/group_board_rounds.h"
#include "stretto/collective/rounds/round_plans.h"

namespace stretto {

/// The rounds of a GroupAllreduce whose ranks have seats at several boards (docs/groups.md, On several boards): between
/// the boards a board is one rank, for which its leader runs GroupProtocol. When the leader joins a round it pins the
/// models that stand on all seats of its board and sums those of each group (GroupParts). The sum of a group that is at
/// this board as a whole is handed over at once, and costs no message; of another it goes into a schedule among the
/// leaders of the boards that have members, whose result is handed over. A board has one round in flight at a time.
///
/// The other ranks ring the leader when they arrive, drain, or have taken the result of a full round. The leader's
/// helper thread does its part while its application computes.
class SpanningRounds final : public SeatedRounds {
 public:
  /// As SeatedRounds. Requires: several boards.
  SpanningRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options);

  /// A rank is told of every round, in order.
  Round complete() const override { return newest(); }
  void set_arrived(Round round) override;
  std::optional<Round> full_to_come() const override;
  bool over() const override { return stopped() && in_flight_.load(std::memory_order_acquire) == 0; }
  ProtocolState state() const override;

 private:
  enum Control : std::uint16_t { kActivate = kAfterCounterWords, kQuery };

  /// The part of a group that spans boards, while the schedule between them is under way.
  struct Flight {
    Round round = 0;
    GroupPart part;
    GroupPlan* plan = nullptr;
  };

  bool admit(Round number, const Envelope& envelope) override;
  bool call(Round number, OpId op, std::uint32_t hook) override;
  void completed(Round number) override;
  void retired(Round number) override;
  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  bool may_have_ended(int peer) const override;
  bool poll(TimePoint now) override;

  void stands_now() override { seating_.ring(engine_.host(), 0); }

  bool lead(TimePoint now);
  void listen();
  void act(TimePoint now);
  bool may_begin() const;
  void begin();
  std::vector<GroupPart> parts_of(Round round) const;
  void ready(const GroupPart& part);
  void send(const GroupPart& part);
  void finish(Round round, const GroupPart& part, const RoundHeader& header);
  /// The groups of all rounds are numbered through: a schedule's number on the engine.
  Round number_of(Round round, int group) const {
    return round * static_cast<Round>(groups_.count()) + static_cast<Round>(group);
  }
  Round round_of(Round number) const { return number / static_cast<Round>(groups_.count()); }
  std::vector<std::vector<int>> groups_of(Round round) const;

  // The leader's; the driving thread's.
  std::unique_ptr<GroupProtocol> protocol_;  // null: this rank does not lead
  GroupParts parts_;
  Round round_ = 0;             // the one in hand, or the last
  std::size_t unfinished_ = 0;  // parts of it
  std::map<Round, Flight> flights_;
  GroupPlans plans_;

  std::atomic<int> in_flight_{0};  // parts that have not been released; read by the application's thread
};

}  // namespace stretto
