#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "stretto/collective/base/collective_failure.h"
#include "stretto/engine/blocks.h"
#include "stretto/transport/members.h"

namespace stretto {

/// Which ranks meet at which board. The ranks of a host meet in ascending order, `seats` at a board and fewer at the
/// host's last; boards are numbered host by host. A rank's index among those at its board is its seat. The rank at seat
/// 0 is the board's leader and speaks for it between the boards. So rank 0 leads board 0.
class Seating {
 public:
  /// For `rank`. `seats` 0: all ranks of a host at one board.
  Seating(const Members& members, int rank, int seats);

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(board_of_.size()); }  ///< at all boards
  int boards() const { return static_cast<int>(at_.size()); }
  int board_of(int rank) const { return board_of_[static_cast<std::size_t>(rank)]; }
  /// The ranks at a board, ascending.
  const std::vector<int>& at(int board) const { return at_[static_cast<std::size_t>(board)]; }
  int leader_of(int board) const { return at(board).front(); }
  /// Of all boards.
  std::vector<int> leaders() const;

  /// This rank's board, its place there, and the ranks there.
  int board() const { return board_of(rank_); }
  int seat() const { return seat_; }
  const std::vector<int>& here() const { return at(board()); }
  int seats() const { return static_cast<int>(here().size()); }
  bool is_here(int rank) const { return board_of(rank) == board(); }
  int rank_at(int seat) const { return here()[static_cast<std::size_t>(seat)]; }
  /// Requires: is_here(rank).
  int seat_of(int rank) const;
  int leader() const { return here().front(); }
  bool leads() const { return rank_ == leader(); }

  /// The boards of this rank's host: first_board_here() … first_board_here() + boards_here() − 1.
  int first_board_here() const { return first_board_here_; }
  int boards_here() const { return boards_here_; }
  /// Wakes the rank at a seat of this board. Any thread. Requires: the host has an arena.
  void ring(const Host& host, int seat) const;

 private:
  const int rank_;
  std::vector<std::vector<int>> at_;
  std::vector<int> board_of_;
  int seat_ = 0;
  int first_board_here_ = 0;
  int boards_here_ = 0;
  int first_place_ = 0;  // of seat 0 among the ranks of the host
};

/// How several boards are cut, the same on every rank: "on boards of 3 ranks by 131072 B".
std::string words_of_boards(int seats, std::uint64_t piece_bytes);

/// The memory of a rank's board. Each board of a host has a region of its own in the host's arena. Where the ranks
/// disagree the collective fails, and the memory is this rank's alone: it sums nothing there.
class BoardMemory {
 public:
  /// `bytes_of(seats)`: what a board takes. Throws Failure where there is too little memory. Requires as
  /// CollectiveFailure::take_shared().
  template <class BytesOf>
  BoardMemory(CollectiveFailure& failure, const Seating& seating, const std::string& description, BytesOf bytes_of) {
    std::vector<std::uint64_t> boards;
    for (int board = 0; board < seating.boards_here(); ++board) {
      boards.push_back(bytes_of(static_cast<int>(seating.at(seating.first_board_here() + board).size())));
    }
    const auto mine = static_cast<std::size_t>(seating.board() - seating.first_board_here());
    const auto memory = failure.take_shared(boards, mine, description);
    if (memory) {
      bytes_ = *memory;
      return;
    }
    if (memory.error().code == Errc::unavailable) throw Failure(memory.error());
    failure.fail(memory.error(), false);
    own_ = Block(boards[mine]);
    std::memset(own_.data(), 0, boards[mine]);
    bytes_ = {own_.data(), boards[mine]};
  }

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  Block own_;
  std::span<std::byte> bytes_;
};

}  // namespace stretto
