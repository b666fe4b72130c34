#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "stretto/board/group_board.h"
#include "stretto/board/group_memory.h"
#include "stretto/board/group_seat.h"
#include "stretto/collective/rounds/standing_rounds.h"

namespace stretto {

/// The rounds of a GroupAllreduce whose ranks share a host: held on a board in the job's memory. A round costs no
/// message, and a rank that computes does nothing for it: its model is read where it lies. Messages carry failures and
/// questions only.
class GroupBoardRounds final : public StandingRounds, private EngineClient, private GroupRule {
 public:
  /// Requires: engine.arena(). Throws Failure where there is too little memory. Where the ranks disagree on buckets or
  /// options, the calls of every rank say so.
  GroupBoardRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options);

  /// Waits, where all sets of this rank are being summed, for one of these sums.
  Contribution& acquire() override;
  void publish(Contribution& model, Round ticket) override;
  std::uint64_t versions() const override { return seat_.versions(); }
  std::optional<StandingSum> read(Round from) override;
  void release(Round round) override;
  Round complete() const override;
  void set_arrived(Round round) override;
  void set_drained() override;
  std::optional<Round> full_to_come() const override;
  Round open() const override;
  bool stopped() const override;
  bool over() const override { return stopped() && !board_.busy(); }
  std::atomic<std::uint32_t>* signal() override { return board_.signal(); }
  ProtocolState state() const override;
  bool may_acquire() override;
  int num_models() const override { return memory_.sets(); }
  int num_sums() const override { return GroupMemory::kResultsPerRank; }
  std::uint64_t bytes_per_set() const override { return memory_.set_bytes(); }

 private:
  bool poll(TimePoint) override;
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override {
    hear(peer, envelope, head);
  }
  void lost(int peer, const Error& reason) override { hear_of_loss(peer, reason); }
  void left(int peer, const Error& reason) override;
  void broken(const Error& reason) override { failure_.fail(reason, true); }

  Group group(Round round) override;
  void joined(Round round, int rank, std::uint64_t version) override;
  void completed(Round round, int rank, std::uint64_t result) override;

  GroupShape shape() const;
  std::span<std::byte> take_memory();
  Round waits_at() const { return waits_at_.load(std::memory_order_acquire); }
  /// The next full round that this rank has not used the result of.
  Round next_full() const;

  /// What others read of a sum, as it lies in the memory.
  struct View {
    RoundHeader header;
    std::vector<std::span<const std::byte>> buckets;
    StandingSum sum;
  };
  void look_at(std::uint64_t result, int rank, View& view) const;

  Block own_memory_;  // in place of a board, where the ranks disagree: this rank sums nothing
  GroupMemory memory_;
  GroupSeat seat_;
  GroupBoard board_;

  // The application thread's.
  std::vector<std::unique_ptr<Contribution>> models_;  // by set
  std::optional<int> acquired_;                        // by may_acquire(), and not given out
  View reading_;

  // The driver thread's.
  std::optional<Round> group_round_;
  std::vector<int> group_members_;
  int group_number_ = 0;

  // Written by the application thread, read by the driver thread.
  std::atomic<Round> waits_at_{0};  // round + 1 that it has arrived at
  std::atomic<Round> took_{0};      // results of rounds before it are used
  std::atomic<bool> drained_{false};
};

}  // namespace stretto
