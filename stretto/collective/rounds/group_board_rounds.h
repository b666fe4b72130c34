#pragma once

#include <optional>
#include <vector>

#include "stretto/board/groups/group_board.h"
#include "stretto/collective/rounds/seated_rounds.h"

namespace stretto {

/// The rounds of a GroupAllreduce whose ranks share a host: held on a board in the job's memory. A round costs no
/// message, and a rank that computes does nothing for it: its model is read where it lies. Messages carry failures and
/// questions only.
class GroupBoardRounds final : public SeatedRounds, private GroupRule {
 public:
  /// As SeatedRounds.
  GroupBoardRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options);

  Round complete() const override;
  void set_arrived(Round round) override;
  std::optional<Round> full_to_come() const override;
  Round open() const override;
  bool over() const override { return stopped() && !board_.busy(); }
  ProtocolState state() const override;

 private:
  bool poll(TimePoint) override;
  bool may_have_ended(int peer) const override {
    return memory_.seat(peer).drained.load(std::memory_order_seq_cst) && drained();
  }

  Group group(Round round) override;
  void joined(Round round, int rank, std::uint64_t version) override;
  using SeatedRounds::completed;
  void completed(Round round, int rank, std::uint64_t result) override;

  void stands_now() override { board_.wake_all(); }
  /// The next full round that this rank has not used the result of.
  Round next_full() const;

  GroupBoard board_;

  // The driver thread's.
  std::optional<Round> group_round_;
  std::vector<int> group_members_;
  int group_number_ = 0;
};

}  // namespace stretto
