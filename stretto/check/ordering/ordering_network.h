#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/check/ordering/ordering_job.h"
#include "stretto/ordering/orderer/orderer.h"

namespace stretto {

/// The collectives of one process set, without time: each completes on a member when its caller says so, as soon as it
/// may. Checks that the k-th of a member is the k-th of the others (docs/lab/ordering.md, O1, O3, O9).
class OrderingNetwork {
 public:
  OrderingNetwork(const OrderingJob& job, int set);

  /// A member begins what the action says: a control collective or a buffer. `descriptions`: of the buffer's tensors.
  void begin(int member, const OrdererAction& action, std::vector<TensorDescription> descriptions);

  /// The orderer of a member that is coordinated has been told that a tensor of the step is submitted, or that none
  /// follows in this step, or in any. `cycles`: that it has begun.
  void told_submitted(int member, std::uint64_t step, int tensor, std::uint64_t cycles);
  void told_ended(int member, std::uint64_t step, std::uint64_t cycles);
  void told_drained(int member, std::uint64_t cycles);
  /// Checks a buffer that a member issues: no tensor of it has been there on all members for more than two cycles (O6).
  void check_promptness(const FusedBuffer& buffer, const std::vector<TensorDescription>& tensors, std::uint64_t cycles);
  /// Before a member begins a sync: caches of all members must be equal then (O4). `cached`: by position.
  void check_cache(const std::vector<std::optional<TensorId>>& cached, const Orderer& orderer);
  /// A buffer is valid or void on all members alike (O5).
  void outcome(int member, const BufferOutcome& outcome);

  /// A member tells another one something beside the control collectives.
  void tell(int member, int to, std::vector<std::byte> bytes) {
    told_[static_cast<std::size_t>(to)].push_back({member, std::move(bytes)});
  }
  struct Told {
    int member = 0;  // that has said it
    std::vector<std::byte> bytes;
  };
  /// The next that has been told to a member.
  std::optional<Told> take_told(int member);
  /// The next control collective that may complete on the member; it has then.
  std::optional<ControlResult> complete_control(int member);
  /// A buffer that is complete on a member.
  struct Complete {
    SequenceNumber number = 0;
    BufferHeader header;
    StepNumber step = 0;
    std::vector<TensorDescription> tensors;
    std::vector<std::uint64_t> sums;  // by place
    std::vector<bool> brought;        // by place: by some member
  };
  std::optional<Complete> complete_buffer(int member);
  bool may_complete_buffer(int member) const;
  bool may_complete_control(int member) const;
  bool control_under_way(int member) const {
    return done_control_[static_cast<std::size_t>(member)] < next_control_[static_cast<std::size_t>(member)];
  }
  std::uint64_t controls() const { return controls_begun_; }  ///< over all members
  const std::optional<std::string>& violation() const { return violation_; }

 private:
  using Cache = std::vector<std::optional<TensorDescription>>;  // by position
  struct Control {
    OrdererAction::Kind kind = OrdererAction::Kind::sync;
    std::vector<bool> begun;  // by member
    std::vector<std::uint64_t> words;
    std::vector<std::vector<std::byte>> bytes;  // by member
    Duration nap{0};
    std::optional<Cache> cache;  // of the first member that has begun it
  };
  struct Buffer {
    FusedBuffer what;  // of the first member that has issued it
    std::vector<TensorDescription> tensors;
    std::vector<bool> begun;
    std::vector<std::uint64_t> sums;
    BufferHeader header;
    std::vector<bool> brought;  // by place: by some member
    std::optional<bool> valid;
  };
  struct Heard {                                      // of a step
    std::vector<std::vector<bool>> submitted;         // by tensor and member
    std::vector<bool> ended;                          // by member
    std::vector<std::optional<std::uint64_t>> cycle;  // by tensor: the newest one begun when it was there on all
  };

  Heard& heard_of(std::uint64_t step);
  void note_complete(std::uint64_t cycles);

  std::size_t members() const { return ranks_.size(); }
  Control& control_at(std::size_t k, const OrdererAction& action);
  void begin_control(int member, const OrdererAction& action);
  void begin_buffer(int member, const FusedBuffer& buffer, std::vector<TensorDescription> descriptions);
  void violated(const std::string& what);

  const OrderingJob& job_;
  const int set_;
  const std::vector<int>& ranks_;  // by member
  std::deque<Control> controls_;
  std::deque<Buffer> buffers_;
  std::vector<std::size_t> next_control_, next_buffer_;  // by member: that it begins
  std::vector<std::size_t> done_control_, done_buffer_;  // by member: that completes
  std::vector<std::deque<Told>> told_;                   // by member: to it
  std::map<std::uint64_t, Heard> heard_;                 // by step
  std::vector<bool> drained_;                            // by member
  std::uint64_t newest_cycle_ = 0;                       // begun by some member
  Cache cache_;                                          // of the member that is about to begin
  std::uint64_t controls_begun_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace stretto
