#pragma once

#include <cstdint>
#include <functional>

#include "stretto/board/partial_memory.h"
#include "stretto/board/partial_rule.h"

namespace stretto {

/// The step that a rank takes next at a PartialBoard. Each is the method of that name, of the board or of one of its
/// parts, which makes one access to shared memory and returns the step that follows.
enum class BoardStep {
  look,
  look_at_seat,
  look_at_lag,
  start,
  seal,
  end_sealing,
  end_round,
  plan,
  list_seat,
  publish,
  find_piece,
  sum,
  release,
  nothing
};

/// The open round as one rank has last seen it: the state that the parts of this rank's PartialBoard share.
struct OpenRound {
  PartialMemory& memory;
  PartialRule& rule;
  const int rank;   // this one's seat
  const int ranks;  // at the board
  const std::function<void(int seat)> ring;
  const bool interleaved;
  const bool ring_each;  // no rank sleeps on the board's word

  Round round = 0;
  PartialMemory::Stage stage = PartialMemory::kOpen;
  int seat = 0;               // the next one to look at, seal or list
  std::uint64_t changes = 0;  // value of Words::changes before the seats were read: unmoved, the attendance is current
  std::uint64_t plan = 0;     // a PlanWord
  bool waiting = false;       // this rank's application waits
  bool did = false;           // something has been done since step() was called

  /// Counts pieces of a bucket that are summed. With several boards, the rank that counts the last piece of a bucket
  /// rings the leader.
  void count_done(std::size_t bucket, std::uint64_t pieces);
  /// Wakes ranks that wait, to sum pieces. Returns how many.
  int wake_helpers();
};

}  // namespace stretto
