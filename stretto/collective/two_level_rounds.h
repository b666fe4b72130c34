#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "stretto/collective/activated_rounds.h"
#include "stretto/collective/board_rounds.h"

namespace stretto {

/// The rounds of a PartialAllreduce whose ranks meet at several boards, with a schedule between these: seen from there
/// a board is one rank, its leader, that brings what all its ranks bring. Who counts, counts ranks.
///
/// At a board everything is as in BoardRounds, but that the leader alone starts a round, when RoundProtocol says so,
/// and ends it, when the schedule between the boards is through. That takes bucket after bucket, each as soon as the
/// board has summed it. The other ranks ring the leader when they arrive, drain, hand over a result that a round was
/// held for, or sum the last piece of a bucket. Its helper thread does this while its application computes. A board has
/// one round in flight at a time.
class TwoLevelRounds final : public BoardRounds {
 public:
  /// Requires: engine.arena(), 1 < options.seats < engine.size(). Throws and fails as BoardRounds.
  TwoLevelRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options);

  void bucket_ready(Contribution& contribution) override;
  void set_arrived(Round round) override;
  bool set_handed(Round handed) override;
  void set_drained() override;
  int in_flight() const override { return in_flight_.load(std::memory_order_acquire); }

 private:
  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void completed(Round round) override;
  void retired(Round round) override;
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  bool poll(TimePoint now) override;
  TimePoint poll_by() const override;

  bool may_start(Round round, const Attendance& attendance) override;
  void started(Round round, const Attendance& attendance) override;

  Schedule schedule_between(const Activation& activation) const;
  void tell_leader();
  void send_what_is_summed();

  // The leader's, owned by whoever drives.
  std::unique_ptr<ActivatedRounds> between_;  // null: this rank does not lead
  Round bound_ = 0;                           // rounds whose buffers are
  std::size_t waiting_bucket_ = 0;            // which the round in flight waits for
  OpId waiting_op_ = kNoOp;                   // kNoOp: it does not
  std::vector<Round> leaving_;                // rounds that were started and have not retired
  std::atomic<int> in_flight_{0};             // as many; read by the application
  bool changed_ = false;                      // what may_start() follows from: look at the board once more
};

}  // namespace stretto
