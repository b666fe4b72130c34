#pragma once

#include <cstdint>
#include <vector>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// The tables by which the engine runs a schedule, made once for all its rounds.
class PreparedSchedule {
 public:
  explicit PreparedSchedule(const Schedule& schedule);

  const Schedule& schedule() const { return *schedule_; }
  /// The receive that a message of `peer` on `channel` belongs to, or kNoOp.
  OpId receive(int peer, std::uint16_t channel) const;
  /// Operations that fire when the round opens.
  const std::vector<OpId>& initial() const { return initial_; }
  /// Which of a round's headers belongs to a buffer, or −1.
  int header_of(BufferId buffer) const { return header_of_[buffer]; }
  int num_headers() const { return num_headers_; }
  /// Which of a round's places for early messages belongs to a receive.
  int early_of(OpId op) const { return early_of_[op]; }
  int num_receives() const { return static_cast<int>(receives_.size()); }
  std::uint64_t bytes(const Slice& slice) const {
    return slice.buffer == kNoBuffer ? 0 : slice.count * size_of(schedule_->buffers()[slice.buffer].type);
  }
  /// Whether `slice` is a whole buffer that the engine provides: a block received there can take the buffer's place.
  bool is_all_of_scratch(const Slice& slice) const {
    if (slice.buffer == kNoBuffer) return false;
    const BufferSpec& spec = schedule_->buffers()[slice.buffer];
    return spec.role == BufferSpec::Role::scratch && slice.offset == 0 && slice.count == spec.count;
  }

 private:
  struct Receive {
    std::uint64_t key;  // peer and channel
    OpId op;
  };

  const Schedule* schedule_;
  std::vector<Receive> receives_;  // sorted by key
  std::vector<OpId> initial_;
  std::vector<int> header_of_;
  std::vector<int> early_of_;
  int num_headers_ = 0;
};

}  // namespace stretto
