#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/collective/base/agreement.h"
#include "stretto/collective/base/collective_failure.h"
#include "stretto/engine/blocks.h"
#include "stretto/engine/engine.h"
#include "stretto/ordering/options/ordering_options.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/runtime/agreement_watch.h"
#include "stretto/ordering/runtime/application_queue.h"
#include "stretto/ordering/runtime/fused_way.h"
#include "stretto/ordering/runtime/ordering_counters.h"
#include "stretto/ordering/runtime/set_timeline.h"

namespace stretto {

/// Carries out, for one process set on one rank, what its orderer decides: control collectives, fused buffers, sleeps.
/// Copies tensors into fused buffers when these begin, and sums out of them once the orderer says that they are valid.
/// All calls are those of the thread that drives the engine.
class SetRunner {
 public:
  /// Registers with the engine, on every rank of the job. `alike`: what must be the same on every rank, a line each.
  /// `orderer`: null where this rank is no member. `engine` to `options` outlive it.
  SetRunner(Engine& engine, CollectiveFailure& failure, OrderingCounters& counters, TensorTimeline& timeline,
            const OrderingOptions& options, ProcessSet set, const std::string& alike, std::unique_ptr<FusedWay> buffers,
            std::unique_ptr<Orderer> orderer);
  SetRunner(const SetRunner&) = delete;
  SetRunner& operator=(const SetRunner&) = delete;

  const ProcessSet& set() const { return set_; }

  /// An event of the application: for a slot of this set, or for all sets. Returns an error that ends the job.
  Result<void> take(const OrderingEvent& event);
  /// Does what can be done now. `handed`: steps whose results the application has taken; those of later ones are not
  /// written to its memory. Returns whether it did something.
  bool advance(TimePoint now, StepNumber handed);
  /// Something may have changed in another set of this rank.
  void look_again() { something_new_ = true; }
  /// Latest time of the next advance() if nothing happens until then.
  TimePoint advance_by() const { return std::min(ask_at_, watch_.look_by()); }
  /// Warns, or fails, where the application waits since `waits` and an agreement lasts too long: AgreementWatch.
  void watch(std::optional<TimePoint> waits, StepNumber step, TimePoint now);

  /// Steps whose tensors are all where the application finds them. It may grow when `handed` does.
  StepNumber closed() const;
  /// The account of a closed step, to take once: of all members, from the step's first buffer.
  struct ClosedStep {
    RoundHeader header;
    std::vector<const TensorDescription*> reduced, shared;  // the orderer's: OrderedStep
  };
  ClosedStep take_step(StepNumber step);
  /// Whether every member has drained, and the application has been handed all sums: nothing more will come.
  bool ended() const { return ended_ && held_.empty(); }
  /// Whether an agreement is under way.
  bool agrees() const { return agreement_.under_way(); }
  /// Orderer::take_plan(), in terms of the application: for ApplicationQueue::plan().
  std::optional<std::vector<std::vector<TensorSlot*>>> take_plan();
  /// Lines for a person to read, since the last call.
  std::vector<std::string> take_lines();
  /// Whether something that is under way waits for a message of this rank of the job.
  bool lacks(int rank) const { return agreement_.lacks(rank) || (buffers_ != nullptr && buffers_->lacks(rank)); }
  /// The agreement or buffer that the runner waits for, in words: "agreement 12 of set 0".
  std::string waits_for() const;
  /// Held for buffers now.
  std::uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  /// A tensor by its id.
  struct Place {
    TensorSlot* slot = nullptr;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::byte* shared = nullptr;  // where all ranks see the sum that all bring
    TimePoint submitted_at;
  };
  /// A buffer from its begin to its end.
  struct Flight {
    FusedBuffer buffer;
    std::uint64_t bytes = 0;
    Block mine, sum;
    bool into_place = false;  // the sums go straight to the tensors' places
    bool present = false;
    bool shared = false;  // the sums lie where all ranks see them
  };

  void note_waking(TimePoint now);
  void begin_cycle(TimePoint now);
  bool ask(TimePoint now);
  void begin(OrdererAction action);
  bool take_controls();
  bool take_buffers();
  void settle(StepNumber handed);
  void hand_out(const Flight& flight);
  bool begin_buffers(TimePoint now);
  void begin(FusedBuffer buffer, TimePoint now);
  Block fused(const FusedRound& round);
  std::shared_ptr<const std::string> composition(const std::vector<TensorId>& tensors);
  RoundHeader header_for(const FusedBuffer& buffer);
  TensorId id_of(TensorSlot& slot);
  Place& place(TensorId id);
  bool brings(const FusedBuffer& buffer, std::size_t i) const { return i < buffer.brought.size() && buffer.brought[i]; }
  Block take_block(std::uint64_t bytes);
  void give_back(Flight& flight);

  // Fixed after construction.
  Engine& engine_;
  CollectiveFailure& failure_;
  OrderingCounters& counters_;
  const OrderingOptions& options_;
  const ProcessSet set_;
  const std::unique_ptr<Orderer> orderer_;

  Agreement agreement_;
  AgreementWatch watch_;
  std::vector<std::string> warnings_;     // of it
  std::deque<std::uint64_t> minima_;      // their numbers, of those under way
  Agreement::Traffic counted_;            // of agreement_, by counters_
  std::uint64_t counted_deviations_ = 0;  // of orderer_, likewise
  const std::unique_ptr<FusedWay> buffers_;
  SetTimeline timeline_;
  BlockPool pool_;
  std::uint64_t memory_bytes_ = 0;

  bool something_new_ = true;  // since the orderer was asked last
  bool sleeps_ = false;        // until ask_at_, whatever happens
  bool ended_ = false;
  TimePoint ask_at_;
  std::optional<TimePoint> cycle_;  // the begin of this one; nothing while a plan is followed, which has none
  bool slept_ = false;              // since the last sync began
  std::vector<Place> places_;       // by TensorId
  std::map<std::vector<TensorId>, std::shared_ptr<const std::string>> compositions_;  // of the last buffers, in words
  std::optional<std::pair<StepNumber, std::shared_ptr<const RoundHeader>>> account_;  // this rank's, of its step
  StepNumber next_header_ = 0;  // the first step whose header has not been sent

  std::deque<FusedBuffer> waiting_;          // decided and not begun: the window is full
  std::deque<Flight> flying_;                // begun
  std::map<SequenceNumber, Flight> landed_;  // complete, and neither valid nor void
  std::deque<Flight> held_;                  // valid, of a step that the application has not come to
  std::map<StepNumber, ClosedStep> steps_;   // that have not been taken
};

}  // namespace stretto
