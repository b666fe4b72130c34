#pragma once

#include <cstddef>
#include <vector>

#include "stretto/board/testing/test_support.h"

namespace stretto {

/// For tests: all ranks of a board that sums what each of them brings (FullBoard, ExchangeBoard), in one thread.
template <class Board>
struct RanksOf {
  RanksOf(const typename Board::Shape& board_shape, int ranks)
      : shape(board_shape), memory(Board::bytes_needed(shape, ranks)), rings(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      boards.emplace_back(memory.bytes(), shape, rank, ranks, [this](int r) { ++rings[static_cast<std::size_t>(r)]; });
    }
  }
  Board& operator[](int rank) { return boards[static_cast<std::size_t>(rank)]; }

  const typename Board::Shape shape;
  ZeroMemory memory;
  std::vector<int> rings;  ///< of each rank: how often it was woken
  std::vector<Board> boards;
};

}  // namespace stretto
