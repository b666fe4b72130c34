#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/collective/plain.h"
#include "stretto/train/replica.h"

namespace stretto {

/// What a trainer needs where all ranks are at the same place: before round 0, and inside the function that applies a
/// round whose policy is full (every rank applies it, after the same rounds). Every rank calls the same, in the same
/// order; each call waits for all. Throws Failure when a rank is lost meanwhile. One application thread.
class Meeting {
 public:
  /// Registers with the engine; in the same order on every rank, before anybody drives it. Both must outlive it.
  Meeting(Engine& engine, Replica& replica);

  /// Gives all ranks the weights of rank 0.
  void broadcast_weights(EngineDriver& driver);
  /// Sets the parameters to their mean over all ranks: the same bits everywhere.
  void average_parameters(EngineDriver& driver);
  /// The same with buffers of floating point numbers.
  void average_buffers(EngineDriver& driver);

  /// A few numbers of each rank, by rank.
  static constexpr std::size_t kNumbers = 32;
  using Numbers = std::array<std::uint64_t, kNumbers>;
  std::vector<Numbers> gather(EngineDriver& driver, const Numbers& mine);
  /// Any number of numbers of each rank, by rank.
  std::vector<std::vector<std::uint64_t>> gather_lists(EngineDriver& driver, std::span<const std::uint64_t> mine);

 private:
  /// Arrays of one type, averaged as one.
  struct Average {
    Average(Engine& engine, DataType type, std::uint64_t count);
    const DataType type;
    const std::uint64_t count;
    Allreduce sum;
  };

  void average(EngineDriver& driver, std::vector<std::unique_ptr<Average>>& averages,
               const std::vector<Replica::Buffer>& arrays);
  std::vector<Replica::Buffer> parameters();
  std::vector<std::unique_ptr<Average>> make_averages(Engine& engine, const std::vector<Replica::Buffer>& arrays);

  Replica& replica_;
  const int ranks_;
  std::uint64_t weight_bytes_;
  Allgather numbers_;  // before what depends on the model: ranks whose models differ can still say so
  Broadcast weights_;
  std::vector<std::unique_ptr<Average>> parameters_, buffers_;  // a type each
};

}  // namespace stretto
