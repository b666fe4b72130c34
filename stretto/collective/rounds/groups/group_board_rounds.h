#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/board/groups/group_board.h"
#include "stretto/board/groups/group_memory.h"
#include "stretto/board/groups/group_seat.h"
#include "stretto/collective/rounds/groups/standing_rounds.h"
#include "stretto/collective/rounds/seating.h"

namespace stretto {

/// The rounds of a GroupAllreduce whose ranks have seats at a board, the only one (GroupBoardRounds) or one of several
/// (SpanningRounds): what a rank's application does there with its models and results.
class SeatedRounds : public StandingRounds {
 public:
  /// Requires: the hosts have arenas. Throws Failure where there is too little memory. Where the ranks disagree on
  /// buckets or options, the calls of every rank say so.
  SeatedRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options, const std::string& how,
               std::uint16_t ask, int seats);

  /// Waits, where all sets of this rank are being summed, for one of these sums.
  Contribution& acquire() override;
  void publish(Contribution& model, Round ticket) override;
  std::uint64_t versions() const override { return seat_.versions(); }
  std::optional<StandingSum> read(Round from) override;
  void release(Round round) override;
  bool settle(Contribution& model, Round ticket) override;
  bool may_settle() override { return memory_.seat(seating_.seat()).claimed.load(std::memory_order_seq_cst) == 0; }
  std::optional<StandingSum> follow(bool full) override;
  std::span<const std::byte> stands() const override { return buckets_at(seat_.stands())[0]; }
  void set_arrived(Round round) override;
  void set_drained() override;
  bool stopped() const override;
  std::atomic<std::uint32_t>* signal() override { return memory_.words().sleepers.signal(); }
  bool may_acquire() override;
  int num_models() const override { return memory_.sets(); }
  int num_sums() const override { return static_cast<int>(GroupMemory::results_per_rank(memory_.shape())); }
  std::uint64_t bytes_per_set() const override { return memory_.set_bytes(); }

 protected:
  /// Something has come to stand on this rank's seat that other ranks may wait for. The application's thread.
  virtual void stands_now() = 0;

  Round waits_at() const { return waits_at_.load(std::memory_order_acquire); }
  bool drained() const { return drained_.load(std::memory_order_acquire); }
  Round took() const { return took_.load(std::memory_order_relaxed); }
  /// The application waits for the sum of what stands on its seat.
  bool unsettled() const { return unsettled_.load(std::memory_order_acquire); }
  /// The newest result's round + 1 of this rank. Any thread of it.
  Round newest() const;

  /// A sum in the memory, as other ranks read it.
  struct View {
    RoundHeader header;
    std::vector<std::span<const std::byte>> buckets;
    StandingSum sum;
  };
  void look_at(std::uint64_t result, int seat, View& view) const;

  const Seating seating_;

 private:
  GroupShape shape() const;
  std::vector<std::span<const std::byte>> buckets_at(std::uint64_t place) const;

  BoardMemory board_memory_;

 protected:
  GroupMemory memory_;

 private:
  GroupSeat seat_;

  // The application thread's.
  std::vector<std::unique_ptr<Contribution>> models_;  // by set
  std::optional<int> acquired_;                        // by may_acquire(), and not given out
  std::unique_ptr<Contribution> unseen_;               // given out once the engine is frozen
  View reading_;

  // Written by the application thread, read by the driver thread.
  std::atomic<Round> waits_at_{0};  // round + 1 that it has arrived at
  std::atomic<Round> took_{0};      // results of rounds before it are used
  std::atomic<bool> drained_{false};
  std::atomic<bool> unsettled_{false};
};

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
