#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "stretto/engine/blocks.h"
#include "stretto/engine/engine.h"
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

/// One round in flight: a counter per operation, memory behind the buffers, and messages that came too early.
struct Instance {
  enum class OpState : std::uint8_t { waiting, fired, finished };

  /// The message of a receive: here, where the receive has not fired yet, or on its way.
  struct Early {
    Block block;
    std::unique_ptr<RoundHeader> header;  // null: it has none, or is in its buffer's place
    bool begun = false;
    bool here = false;
    bool present = false;
  };

  std::uint32_t index = 0;  // among the engine's instances
  CollectiveId collective = 0;
  Round round = 0;
  std::uint64_t note = 0;
  const PreparedSchedule* prepared = nullptr;  // null: not in use
  std::uint32_t generation = 0;                // tells this round from those that were here before
  std::uint32_t sends_out = 0;
  std::uint32_t bodies_into_buffers = 0;  // that are being received into memory bound to the round
  std::uint32_t bodies_into_blocks = 0;   // … into a block of Early
  bool completed = false;

  std::vector<std::uint32_t> missing;  // predecessors still needed, per operation
  std::vector<OpState> state;
  std::vector<bool> triggered;
  std::vector<RoundBuffer> buffers;
  std::vector<RoundHeader> headers;
  std::vector<Block> scratch;                   // per buffer; empty for given ones
  std::vector<Early> early;                     // per receive
  std::vector<std::pair<OpId, Block>> encoded;  // bodies of sends on their way

  /// Makes it the start of `round`; keeps all memory it has.
  void reset(const PreparedSchedule& schedule, Round number, std::uint64_t word, int ranks);
  /// Gives scratch memory and headers back; the instance can be reset() again.
  void release(BlockPool& pool, FreeHeaders& free_headers);

  std::byte* address(const Slice& slice) const;
};

/// Rounds that one engine can have in flight.
inline constexpr std::size_t kMaxInstances = std::size_t{1} << 20;

/// An operation of a round as a transport gives it back: instance and operation, and of the generation the last 12
/// bits, which show a send that completes after its round.
struct SentOp {
  std::uint32_t instance;
  OpId op;
};

inline SendToken token_of(const Instance& instance, OpId op) {
  return static_cast<SendToken>(instance.index) << 44 | static_cast<SendToken>(instance.generation & 0xfffu) << 32 | op;
}

inline SentOp op_of(SendToken token) {
  return {static_cast<std::uint32_t>(token >> 44), static_cast<OpId>(token)};
}

}  // namespace stretto
