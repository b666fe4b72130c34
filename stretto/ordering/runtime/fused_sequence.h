#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "stretto/collective/base/collective_failure.h"
#include "stretto/engine/engine.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/runtime/fused_way.h"

namespace stretto {

/// The fused buffers of a process set by messages: the engine's round is the buffer's number.
///
/// Every message carries the hash of the sequence so far. A member that sees another hash than its own tells the sender
/// what its last buffers were made of; the sender finds the first one that differs, and the job fails on every rank
/// with an error that names both. All calls are those of the thread that drives the engine.
class FusedSequence final : public FusedWay, private RoundOwner {
 public:
  /// Registers with the engine, on every rank of the job. `failure`, of the collective that this is part of, outlives
  /// it. `alike`: what must be the same on every rank beside the set, in lines that begin with a line feed
  /// (base/description.h).
  FusedSequence(Engine& engine, CollectiveFailure& failure, ProcessSet set, const std::string& alike = "");
  ~FusedSequence() override;
  FusedSequence(const FusedSequence&) = delete;
  FusedSequence& operator=(const FusedSequence&) = delete;

  bool takes_parts() const override { return false; }
  void start(FusedRound round) override;
  bool step() override { return false; }
  std::optional<FusedResult> take_result() override;
  bool lacks(int rank) const override;

 private:
  struct Flight {
    FusedResult result;
    std::uint64_t hash = 0;
    std::uint64_t count = 0;
    const Schedule* schedule = nullptr;
    bool over = false;
  };
  /// The composition of a buffer, kept while another member may still ask.
  struct Composition {
    SequenceNumber number = 0;
    std::uint64_t hash = 0;
    std::shared_ptr<const std::string> tensors;
  };
  using Shape = std::tuple<DataType, ReduceOp, std::uint64_t>;
  struct KnownSchedule {
    std::unique_ptr<Schedule> schedule;
    SequenceNumber last_used = 0;
  };

  bool poll(TimePoint) override { return false; }
  void control(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int, const Error&) override {}  // the collective that this is part of hears of it, too
  void broken(const Error& reason) override;
  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round, OpId, std::uint32_t) override { return true; }
  void completed(Round round) override;
  void retired(Round round) override;

  const Schedule& schedule_for(const Shape& shape);
  void forget_one_schedule();
  Flight* flight(Round round);
  void send_compositions(int peer, Round up_to);

  // Fixed after construction.
  Engine& engine_;
  CollectiveFailure& failure_;
  const ProcessSet set_;
  CollectiveId id_ = 0;

  std::map<Shape, KnownSchedule> schedules_;
  std::deque<Flight> flights_;  // consecutive numbers, of which the last is begun_ − 1
  SequenceNumber begun_ = 0;
  std::deque<Composition> compositions_;  // of the last buffers
  std::set<int> told_;                    // members that have been sent them, since their hash differs
};

}  // namespace stretto
