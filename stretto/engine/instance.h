#pragma once

#include <cstdint>
#include <vector>

#include "stretto/engine/blocks.h"
#include "stretto/engine/engine.h"
#include "stretto/engine/prepared.h"

namespace stretto {

/// One round in flight: a counter per operation, memory behind the buffers, and messages that came too early.
struct Instance {
  enum class OpState : std::uint8_t { waiting, fired, finished };

  /// A message whose receive has not fired yet.
  struct Early {
    Block block;
    RoundHeader header;
    bool here = false;
    bool present = false;
  };

  std::uint32_t index = 0;  // among the engine's instances
  CollectiveId collective = 0;
  Round round = 0;
  std::uint64_t note = 0;
  const PreparedSchedule* prepared = nullptr;  // null: not in use
  std::uint32_t generation = 0;                // tells a late completion from one of the round that was here before
  std::uint32_t sends_out = 0;
  bool completed = false;

  std::vector<std::uint32_t> missing;  // predecessors still needed, per operation
  std::vector<OpState> state;
  std::vector<bool> triggered;
  std::vector<RoundBuffer> buffers;
  std::vector<RoundHeader> headers;
  std::vector<Block> scratch;  // per buffer; empty for given ones
  std::vector<Early> early;    // per receive

  /// Makes it the start of `round`; keeps all memory it has.
  void reset(const PreparedSchedule& schedule, Round number, std::uint64_t word, int ranks);
  /// Gives scratch memory back; the instance can be reset() again.
  void release(BlockPool& pool);

  std::byte* address(const Slice& slice) const;
};

}  // namespace stretto
