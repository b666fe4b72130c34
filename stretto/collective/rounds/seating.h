#pragma once

#include <algorithm>
#include <vector>

namespace stretto {

/// Which ranks meet at which board: `seats` at each, in order, fewer at the last. The first rank of a board is its
/// leader and speaks for it between the boards.
struct Seating {
  int rank = 0;
  int ranks = 1;
  int seats = 1;

  int board() const { return rank / seats; }
  int boards() const { return (ranks + seats - 1) / seats; }
  int board_of(int other) const { return other / seats; }
  int leader_of(int board) const { return board * seats; }
  int leader() const { return leader_of(board()); }
  /// This rank's number at its board.
  int seat() const { return rank - leader(); }
  bool leads() const { return rank == leader(); }
  int seats_at(int board) const { return std::min(seats, ranks - leader_of(board)); }
  /// Ranks at this rank's board: leader() … leader() + here() − 1.
  int here() const { return seats_at(board()); }
  std::vector<int> leaders() const {
    std::vector<int> out;
    for (int board = 0; board < boards(); ++board) out.push_back(leader_of(board));
    return out;
  }
};

}  // namespace stretto
