#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "stretto/base/data_type.h"
#include "stretto/board/sleepers.h"
#include "stretto/kernel/combine.h"

namespace stretto {

/// A board on which each rank of a host shows its input chunk by chunk, and each rank sums all inputs for itself: for
/// ranks that have a core each and buffers of their own. A chunk crosses between cores once, and the slots stay in the
/// cache however large the buffers are. Sums by the fixed tree (docs/protocol.md, Bits).
///
/// Memory handed in, no waiting, one object a rank, one thread at a time: as FullBoard.
class ExchangeBoard {
 public:
  struct Shape {
    DataType type = DataType::float32;
    std::uint64_t count = 0;
    ReduceOp op = ReduceOp::sum;
    std::uint64_t chunk_bytes = 512 << 10;  ///< shown at a time; a multiple of 64

    std::uint64_t bytes() const { return count * size_of(type); }
    std::uint64_t chunks() const { return bytes() == 0 ? 1 : (bytes() + chunk_bytes - 1) / chunk_bytes; }
  };

  static std::uint64_t bytes_needed(const Shape& shape, int ranks);

  /// `memory`: bytes_needed() of them, zero before the first rank comes, the same for all ranks. `ring` wakes a rank.
  ExchangeBoard(std::span<std::byte> memory, const Shape& shape, int rank, int ranks,
                std::function<void(int rank)> ring);

  /// Begins the next round. `mine` and `sum`: bytes() each, which may be the same; used until complete().
  void arrive(const std::byte* mine, std::byte* sum);
  /// Shows and sums as many chunks as it can. Returns whether there was any.
  bool step();
  bool complete() const { return summed_ == end_; }
  /// Whether `rank` has come to the round this rank waits for.
  bool has_come(int rank) const;

  /// A rank that shows a chunk rings the sleepers in here. Go in, and step() once more before sleeping.
  Sleepers& sleepers();

 private:
  struct Slot;

  /// Two slots a rank suffice. A rank shows chunk c only after it has summed chunk c − 1, for which it needed chunk c −
  /// 1 of every rank. Each of these was shown only after its rank had summed chunk c − 2. So no rank reads a slot of
  /// chunk c − 2 any more when chunk c overwrites it.
  static constexpr std::uint64_t kFewestSlots = 2;
  static std::uint64_t slots_for(const Shape& shape);

  Slot& slot(int rank, std::uint64_t chunk) const;
  std::byte* data_of(Slot& slot) const;
  bool show();
  bool sum();
  std::uint64_t bytes_of(std::uint64_t chunk) const;
  std::uint64_t offset_of(std::uint64_t chunk) const { return (chunk - (end_ - chunks_)) * shape_.chunk_bytes; }

  const Shape shape_;
  const int rank_;
  const int ranks_;
  const std::uint64_t chunks_;
  const std::uint64_t num_slots_;  // of a rank
  const std::uint64_t data_at_;    // in a slot
  const std::uint64_t stride_;
  const Combination tree_;
  const std::function<void(int)> ring_;
  Sleepers& sleepers_;
  std::byte* const slots_;

  // Chunks of all rounds.
  std::uint64_t shown_ = 0, summed_ = 0, end_ = 0;
  int seen_ = 0;  // ranks below this one have shown chunk summed_
  const std::byte* mine_ = nullptr;
  std::byte* sum_ = nullptr;
  std::vector<const std::byte*> sources_;
};

}  // namespace stretto
