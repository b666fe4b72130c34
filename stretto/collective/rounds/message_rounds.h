#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/rounds/activated_rounds.h"
#include "stretto/collective/rounds/front.h"
#include "stretto/collective/rounds/partial_options.h"
#include "stretto/collective/rounds/result_ring.h"
#include "stretto/collective/rounds/rounds.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// The rounds of a PartialAllreduce by messages: tells RoundProtocol of the events at this rank's application and at
/// its peers, and carries out its decisions. The driver thread shares with the application thread only the atomics
/// below, the front and the results.
class MessageRounds final : public Rounds {
 public:
  /// `first`: of the rounds of several buckets those of the first (BucketRounds), which outlive these; null: there are
  /// no others, or these are the first.
  MessageRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options,
                const MessageRounds* first = nullptr);

  Contribution& acquire() override { return front_.acquire(); }
  DepositSteps deposit(Contribution& contribution) override { return DepositSteps(front_.deposit(contribution)); }
  bool deposit_pending() const override { return front_.pending(); }
  void bucket_ready(Contribution&) override { engine_.doorbell().ring(); }
  Round complete() const override { return complete_.load(std::memory_order_acquire); }
  Policy open_policy(Round complete) override;
  const ResultSlot& result(Round round) override { return latest_ ? latest_->read() : ring_.slot(round); }
  std::span<const PassedRound> passed() override {
    return latest_ ? latest_->passed() : std::span<const PassedRound>();
  }
  Carried take_out(Round from) const override;
  const ResultSlot* kept(Round round) override;
  std::optional<RoundHeader> kept_header(Round round) override;
  void set_arrived(Round round) override { arrived_.store(round + 1, std::memory_order_release); }
  bool set_handed(Round handed) override;
  void set_drained() override { drained_.store(true, std::memory_order_release); }
  bool stopped() const override { return stopped_.load(std::memory_order_acquire); }
  bool over() const override { return stopped() && in_flight_.load(std::memory_order_acquire) == 0; }
  std::optional<TimePoint> take_passive_since() override;
  ProtocolState state() const override;
  int num_contribution_sets() const override { return front_.num_sets(); }
  std::uint64_t memory_bytes() const override;

 private:
  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void completed(Round round) override;
  void retired(Round round) override;
  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override {
    return activated_.control(envelope) || Rounds::hear(peer, envelope, head);
  }
  bool may_have_ended(int peer) const override {
    return drained_.load(std::memory_order_acquire) && protocol_.may_have_drained(peer);
  }
  bool poll(TimePoint now) override;
  /// Takes rounds that are summed for complete, as far as those of the first bucket are. Returns whether there were
  /// any.
  bool complete_summed();
  bool first_has_started(Round round) const { return first_ == nullptr || round < first_->protocol_.activated(); }
  bool first_has_joined(Round round) const { return first_ == nullptr || round < first_->protocol_.joined(); }
  TimePoint poll_by() const override { return failed() ? TimePoint::never() : protocol_.act_by(); }

  BufferId sum_of(std::size_t bucket) const { return sum_buffer(bucket, buckets_.size()); }
  void join_what_may_be();
  void join();
  void fill_header(Round round, const Contribution* x, bool arrived, bool drained);
  void finish_ready_buckets();

  const MessageRounds* const first_;  // null: none

  // The driver thread's.
  ActivatedRounds activated_;
  RoundProtocol& protocol_;
  struct InFlight {
    bool busy = false;
    Contribution* x = nullptr;
    int waiting_bucket = -1;  // the bucket the round waits for, or −1
    OpId waiting_op = kNoOp;
  };
  std::vector<InFlight> flights_;      // by round mod W
  Round summed_ = 0;                   // rounds that this rank's engine has completed
  std::optional<Round> full_pending_;  // delivery latest: the newest full round that was joined

  // Written by the application, read by the engine; releases pair with the acquires in poll().
  std::atomic<Round> arrived_{0};  // round + 1, 0: none
  std::atomic<Round> handed_{0};
  std::atomic<bool> drained_{false};

  // Written by the engine, read by the application.
  std::atomic<Round> complete_{0};
  std::vector<std::atomic<std::uint64_t>> open_policies_;  // by round mod (W + 2)
  std::atomic<bool> held_{false};                          // the engine waits for handed_ to grow
  std::atomic<bool> stopped_{false};
  std::atomic<int> in_flight_{0};               // rounds that were joined and have not retired
  std::atomic<std::int64_t> passive_since_{0};  // nanoseconds on the engine's clock, 0: none

  Front front_;
  ResultRing ring_;
  std::unique_ptr<LatestResult> latest_;
};

}  // namespace stretto
