#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "stretto/collective/collective_failure.h"
#include "stretto/collective/rounds/seating.h"
#include "stretto/engine/blocks.h"

namespace stretto {

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
