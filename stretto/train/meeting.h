#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/collective/plain.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

/// What a trainer needs where all ranks are at the same place: before round 0, and inside the function that applies a
/// round whose policy is full (every rank applies it, at the same weights). Every rank calls the same, in the same
/// order; each call waits for all. Throws Failure when a rank is lost meanwhile. One application thread.
class Meeting {
 public:
  /// Registers with the engine; in the same order on every rank. Both must outlive it.
  Meeting(Engine& engine, EngineDriver& driver);

  /// Rank 0's bytes, everywhere. Requires: the same size everywhere.
  void broadcast(std::span<std::byte> data);
  /// Everybody's numbers, by rank. Requires: the same count everywhere.
  std::vector<std::uint64_t> gather(std::span<const std::uint64_t> mine);
  /// Everybody's numbers, by rank; as many as each one has.
  std::vector<std::vector<std::uint64_t>> gather_lists(std::span<const std::uint64_t> mine);
  /// The mean over all ranks, number by number, the same bits everywhere. Requires: float32 or float64.
  void average(DataType type, std::span<std::byte> numbers);

 private:
  Engine& engine_;
  EngineDriver& driver_;
};

}  // namespace stretto
