#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/front.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/partial_schedule.h"
#include "stretto/collective/protocol.h"
#include "stretto/collective/result_ring.h"
#include "stretto/engine/engine.h"

namespace stretto {

/// The engine's side of a PartialAllreduce: feeds the protocol with what the application and the peers do, and carries
/// out what it decides. Shares with the application thread only the atomics below, the front and the result ring.
class PartialRounds final : public RoundOwner {
 public:
  PartialRounds(Engine& engine, std::vector<BucketSpec> buckets, const PartialOptions& options);

  // ---- the application's thread ----

  Front& front() { return front_; }
  Round complete() const { return complete_.load(std::memory_order_acquire); }
  /// Policy of round complete() as read before. Requires: that round is not more than one ring old.
  Policy open_policy(Round complete) const;
  /// Requires: handed ≤ round < complete().
  const ResultSlot& result(Round round) { return ring_.slot(round); }
  LatestResult& latest() { return *latest_; }
  void set_arrived(Round round) { arrived_.store(round + 1, std::memory_order_release); }
  /// Returns whether the engine waits for this and must be told.
  bool set_handed(Round handed);
  void set_drained() { drained_.store(true, std::memory_order_release); }
  void request_abort(const std::string& reason);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Error failure() const;
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  /// Rounds whose buffers the engine still uses.
  int in_flight() const { return in_flight_.load(std::memory_order_acquire); }
  /// Since when a round runs that was joined without the application; none if there is none.
  std::optional<TimePoint> passive_since() const;
  void clear_passive() { passive_since_.store(0, std::memory_order_relaxed); }

  /// Asks all ranks for their state; the answers so far stand in answer().
  void ask_who();
  struct Answer {
    bool here = false;
    ProtocolState state;
  };
  Answer answer(int rank) const;
  bool all_answered() const;

  ProtocolState state() const;  ///< engine's part; on the driving thread, or while nobody drives
  void set_ticket(Round ticket) { ticket_.store(ticket, std::memory_order_relaxed); }
  void observe(PartialObserver& observer) { observer_ = &observer; }
  std::uint64_t memory_bytes() const;
  const std::vector<BucketSpec>& buckets() const { return buckets_; }
  const PartialOptions& options() const { return options_; }
  Engine& engine() { return engine_; }

 private:
  enum Control : std::uint16_t { kArrive = kControlChannel, kDrain, kAbort, kWho, kWhoAnswer };
  struct Plan {
    Plan(Schedule of, const Activation& activation);
    const Schedule schedule;
    const OpId join;
    const OpId internal;  // kNoOp: nobody starts it for others
  };

  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void completed(Round round) override;
  void retired(Round round) override;
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int peer, const Error& reason) override;
  void poll(TimePoint now) override;
  TimePoint poll_by() const override { return failed() ? TimePoint::never() : protocol_.act_by(); }

  void open_activated(std::uint64_t note);
  const Plan& plan_for(const Policy& policy);
  BufferId contribution_buffer(std::size_t bucket) const { return static_cast<BufferId>(bucket); }
  BufferId sum_buffer(std::size_t bucket) const { return static_cast<BufferId>(buckets_.size() + bucket); }
  void act(const RoundProtocol::Action& action);
  void join_what_may_be();
  void join();
  Contribution* take_standing();
  void let_go(Contribution* standing);
  void fill_header(Round round, const Contribution* x, bool arrived, bool drained);
  void finish_ready_buckets();
  void fail(Error error, bool tell_others);
  void tell_all(std::uint16_t channel, std::uint64_t note, std::span<const std::byte> head);

  Engine& engine_;
  const std::vector<BucketSpec> buckets_;
  const PartialOptions options_;
  std::map<Activation, Plan> plans_;          // made when first needed
  std::vector<const Plan*> plans_of_rounds_;  // open ones, by round mod (W + 2)
  CollectiveId id_ = 0;
  PartialObserver* observer_ = nullptr;

  // Owned by whoever drives the engine.
  RoundProtocol protocol_;
  Round opened_ = 0;
  Round joinable_ = 0;  // rounds whose join operation has fired
  struct InFlight {
    bool busy = false;
    Contribution* x = nullptr;
    int waiting_bucket = -1;  // the bucket the round waits for, or −1
    OpId waiting_op = kNoOp;
  };
  std::vector<InFlight> flights_;  // by round mod W
  struct Standing {
    Contribution* newest = nullptr;
    std::vector<int> uses;  // per set: rounds in flight with it
    std::vector<bool> counted;
  } standing_;
  std::optional<Round> full_pending_;  // delivery latest: the newest full round that was joined

  // Written by the application, read by the engine; releases pair with the acquires in poll().
  std::atomic<Round> arrived_{0};  // round + 1, 0: none
  std::atomic<Round> handed_{0};
  std::atomic<bool> drained_{false};
  std::atomic<bool> abort_wanted_{false};
  std::atomic<std::uint32_t> who_wanted_{0};
  std::atomic<Round> ticket_{0};

  // Written by the engine, read by the application.
  std::atomic<Round> complete_{0};
  std::vector<std::atomic<std::uint64_t>> open_policies_;  // by round mod (W + 2)
  std::atomic<bool> held_{false};                          // the engine waits for handed_ to grow
  std::atomic<bool> stopped_{false};
  std::atomic<bool> failed_{false};
  std::atomic<int> in_flight_{0};
  std::atomic<std::int64_t> passive_since_{0};  // nanoseconds on the engine's clock, 0: none

  Front front_;
  ResultRing ring_;
  std::unique_ptr<LatestResult> latest_;

  mutable Mutex mutex_;
  Error failure_ GUARDED_BY(mutex_){Errc::aborted, ""};
  std::string abort_reason_ GUARDED_BY(mutex_);
  std::uint32_t asked_ = 0;  // owned by whoever drives
  std::vector<Answer> answers_ GUARDED_BY(mutex_);
};

}  // namespace stretto
