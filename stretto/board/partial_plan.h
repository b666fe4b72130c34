#pragma once

#include <vector>

#include "stretto/board/open_round.h"
#include "stretto/observe/round_header.h"

namespace stretto {

/// The part of a PartialBoard that makes the plan of a round: the list of sets to be summed, and the header. One rank
/// at a time makes it.
class PartialPlan {
 public:
  explicit PartialPlan(OpenRound& at) : at_(at), in_list_(static_cast<std::size_t>(at.ranks)) {}

  BoardStep plan();
  BoardStep list_seat();
  BoardStep publish();

 private:
  bool whole(int rank, int set) const;
  void list(int rank, int set);
  void write_header();

  OpenRound& at_;
  std::uint64_t planned_at_ = 0;  // the changes after which summing ahead was last thought of
  std::uint64_t listed_ = 0;      // sources when this rank began to plan, and now
  std::uint64_t list_end_ = 0;
  RoundHeader header_;                 // of write_header()
  std::vector<std::uint8_t> in_list_;  // per seat: a bit for each of its sets that is
};

}  // namespace stretto
