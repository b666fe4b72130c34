#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/ordering/negotiation/control_messages.h"
#include "stretto/ordering/negotiation/cycle_words.h"
#include "stretto/ordering/negotiation/request_table.h"
#include "stretto/ordering/negotiation/response_cache.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/orderer/tensor_table.h"

namespace stretto {

/// Numbers the fused buffers of a process set over the whole run, and hashes what they hold.
class BufferSequence {
 public:
  /// The next buffer, of these tensors.
  FusedBuffer next(StepNumber step, std::vector<TensorId> tensors, const TensorTable& table) {
    hash_ = hashed(hash_, std::uint64_t{tensors.size()});
    for (const TensorId id : tensors) hash_ = hashed(hash_, table.hash_of(id));
    FusedBuffer buffer{.number = number_++, .step = step, .tensors = std::move(tensors), .sequence_hash = hash_};
    buffer.brought.resize(buffer.tensors.size());
    return buffer;
  }
  SequenceNumber issued() const { return number_; }  ///< buffers so far

 private:
  SequenceNumber number_ = 0;
  std::uint64_t hash_ = 0;
};

/// The same on all members of a process set, but for `member`.
struct CoordinatorOptions {
  int set = 0;                                         ///< of the tensors
  std::vector<int> ranks;                              ///< of the job, by member
  int member = 0;                                      ///< this one
  Duration cycle_time = std::chrono::milliseconds(5);  ///< of a cycle at least; a short one costs computing time
  std::uint64_t fusion_bytes = 64 << 20;               ///< of a fused buffer at most; a larger tensor has its own
  std::size_t cache_capacity = 1024;                   ///< tensors whose requests are a bit; 0: every cycle gathers
  /// The application submits nothing while it waits for a tensor (Orderer::blocked()): a job that hangs by its own
  /// program is found out at once. False: several of its threads wait and submit.
  bool waits_for_one = true;
  Duration stall_warning = std::chrono::seconds(10);  ///< a tensor that waits for so long is reported
  Duration stall_abort = std::chrono::seconds(60);    ///< and fails the job; 0: never
  bool pauses = false;                                ///< waits after each closed step, until go_on()
};

/// Agrees with the other members of a process set in cycles on what is reduced next, as Horovod does (Pumma et al.,
/// "Alleviating Load Imbalance in Data Processing for Large-Scale Deep Learning", section III-B). docs/lab/ordering.md
/// has the rules and what breaks without each.
///
/// Messages: a sync a cycle, of (3 + 3 · positions / 64) words; a gather and a broadcast where something is asked for
/// that is not cached.
class Coordinator final : public Orderer {
 public:
  explicit Coordinator(CoordinatorOptions options);

  TensorId tensor(const TensorDescription& description) override { return table_.id_of(description); }
  const TensorDescription& description(TensorId id) const override { return table_.description(id); }
  Result<void> submitted(TensorId id, StepNumber step) override;
  void executed(StepNumber, const ExecutedGraph&) override {}
  void step_ended(StepNumber step) override;
  void drained() override;
  void blocked(std::optional<TensorId> on, TimePoint) override { blocked_ = on; }
  void control(const ControlResult& result) override;
  void completed(SequenceNumber number, const BufferHeader& header) override;
  OrdererAction next(TimePoint now) override;
  std::vector<BufferOutcome> take_outcomes() override;
  StepNumber closed() const override { return closed_; }
  std::vector<std::string> take_lines() override;

  /// Cycles begun, and control collectives so far.
  std::uint64_t cycles() const { return cycles_; }
  std::uint64_t controls() const { return controls_; }
  /// Whether a tensor is in the cache, by position: for checks that it is the same on all members.
  std::vector<std::optional<TensorId>> cached() const;

  /// \cond inner
  // For an orderer that has this one run its cycles, and decides when the next one begins.

  /// The number of a control collective that the other orderer begins itself. Requires: pausing(), or sleeping from one
  /// cycle to the next.
  std::uint64_t take_control() { return controls_++; }
  /// The next cycle begins at `when`. Requires: sleeping from one cycle to the next.
  void sleep_until(TimePoint when) { wakes_ = when; }

  // For an orderer that uses this one for some of its steps, and decides at the end of each (`pauses`).

  /// Of the plan for the open step, before step_ended(); without it this member agrees with every plan.
  void set_fingerprint(std::uint64_t fingerprint) { fingerprint_ = fingerprint; }
  /// The members' words at the close of the last step; the same on all.
  const CycleWords& closing() const { return closing_; }
  bool pausing() const { return phase_ == Phase::pausing; }
  bool pending(TensorId id) const;  ///< submitted in the open step, and in no buffer yet
  /// Coordinates step `step`, and the following ones. Requires: pausing(), here and below.
  void go_on(StepNumber step);
  FusedBuffer next_buffer(StepNumber step, std::vector<TensorId> tensors) {
    return sequence_.next(step, std::move(tensors), table_);
  }
  const TensorTable& table() const { return table_; }
  /// \endcond

 private:
  enum class Phase { napping, syncing, gathering, broadcasting, pausing, over };
  enum class Asked { no, by_bit, by_request };
  enum class Report { none, stall, overdue, expired };

  struct Tensor {  // by name: of the open step
    TensorId id = 0;
    StepNumber step = 0;   // one more than the one it was submitted in last
    bool pending = false;  // submitted, and in no buffer yet
    bool warned = false;
    Asked asked = Asked::no;
    std::optional<TimePoint> since;  // the first cycle that has seen it
  };

  bool first() const { return options_.member == 0; }
  bool cached(const Tensor& tensor, std::size_t& position) const;
  OrdererAction begin_cycle(TimePoint now);
  OrdererAction begin(OrdererAction::Kind kind, Phase phase);
  OrdererAction end_cycle(TimePoint now);
  /// The action that follows from the result of the phase; nothing: go on in the phase that this call has set.
  std::optional<OrdererAction> advance(TimePoint now);
  CycleWords say(TimePoint now);
  void take_sync(const ControlResult& result);
  void take_flags(const CycleWords& all, bool quiet);
  std::vector<std::byte> report();
  std::vector<std::byte> answer(const ControlResult& result);
  std::optional<Error> judge(const std::vector<MemberReport>& reports);
  void take_answer(const ControlResult& result);
  void evict(std::size_t position);
  void forget(TensorId evicted);
  void issue(const std::vector<TensorId>& agreed);
  void close(const CycleWords& all);
  void fail(Error error);

  const CoordinatorOptions options_;
  TensorTable table_;
  ResponseCache cache_;
  RequestTable requests_;  // of the first member
  BufferSequence sequence_;

  std::vector<Tensor> tensors_;         // by name
  std::vector<std::uint32_t> pending_;  // names, in the order in which they were submitted
  std::optional<TensorId> blocked_;
  bool ended_ = false;  // the open step, on this member
  bool told_ = false;   // the first member knows
  bool drained_ = false;
  std::optional<std::uint64_t> fingerprint_;
  CycleWords closing_{0};

  Phase phase_ = Phase::napping;
  Report report_ = Report::none;  // what the next gather is for, beside requests
  bool gathers_ = false;          // in this cycle
  StepNumber closed_ = 0;
  std::uint64_t cycles_ = 0, controls_ = 0;
  TimePoint woke_;                       // when this cycle began
  TimePoint wakes_;                      // when the next one may
  std::optional<ControlResult> result_;  // of the control collective that this phase waits for
  std::deque<FusedBuffer> to_issue_;
  std::uint64_t under_way_ = 0;  // buffers issued and not complete
  std::optional<Error> error_;
  std::vector<BufferOutcome> outcomes_;
  std::vector<std::string> lines_;
};

}  // namespace stretto
