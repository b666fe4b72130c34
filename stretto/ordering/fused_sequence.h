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

#include "stretto/collective/collective_failure.h"
#include "stretto/engine/engine.h"
#include "stretto/observe/round_header.h"
#include "stretto/ordering/orderer.h"
#include "stretto/ordering/process_set.h"

namespace stretto {

/// One fused buffer as its collective is begun on a rank.
struct FusedRound {
  SequenceNumber number = 0;             ///< of the set's sequence
  std::uint64_t sequence_hash = 0;       ///< FusedBuffer::sequence_hash
  DataType type = DataType::float32;     ///< of an element
  ReduceOp op = ReduceOp::sum;           ///< by which they are reduced
  std::uint64_t count = 0;               ///< elements
  const std::byte* mine = nullptr;       ///< this rank's elements, only read; null: it brings none
  std::byte* sum = nullptr;              ///< room for all of them
  RoundHeader header;                    ///< of this rank
  std::vector<std::string> composition;  ///< a tensor each, in words: what must be the same on every member
};

/// What has come of one.
struct FusedResult {
  SequenceNumber number = 0;  ///< of the set's sequence
  bool present = false;       ///< false: no member has brought an element, and the memory is as it was
  RoundHeader header;         ///< of all members
};

/// The fused buffers of a process set: the engine's round is the buffer's number. Several are under way at once; they
/// are handed over in the order of numbers. Sums are elementwise by the fixed tree (docs/protocol.md, Bits).
///
/// Every message carries the hash of the sequence so far. A member that sees another hash than its own tells the sender
/// what its last buffers were made of; the sender finds the first one that differs, and the job fails on every rank
/// with an error that names both. All calls are those of the thread that drives the engine.
class FusedSequence final : private RoundOwner {
 public:
  /// Registers with the engine, on every rank of the job. `failure`, of the collective that this is part of, outlives
  /// it. `alike`: what must be the same on every rank beside the set, in lines that begin with a line feed
  /// (base/description.h).
  FusedSequence(Engine& engine, CollectiveFailure& failure, ProcessSet set, const std::string& alike = "");
  ~FusedSequence() override;
  FusedSequence(const FusedSequence&) = delete;
  FusedSequence& operator=(const FusedSequence&) = delete;

  /// Begins the collective of the next number. Its memory is this object's until take_result() has returned it.
  void start(FusedRound round);
  /// The next one that is over, in the order of numbers: nobody uses its memory any more.
  std::optional<FusedResult> take_result();
  /// Begun, and not taken.
  int under_way() const { return static_cast<int>(flights_.size()); }
  /// Whether one that is under way waits for a message of this rank of the job.
  bool lacks(int rank) const;

 private:
  struct Flight {
    FusedResult result;
    std::uint64_t hash = 0;
    std::uint64_t count = 0;
    const Schedule* schedule = nullptr;
    bool over = false;
  };
  /// What a buffer was made of, kept while another member may still ask.
  struct Composition {
    SequenceNumber number = 0;
    std::uint64_t hash = 0;
    std::vector<std::string> tensors;
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
