#pragma once

#include "stretto/board/open_round.h"

namespace stretto {

/// The part of a PartialBoard that starts rounds: reads which ranks have come, asks the rule, and keeps the bound on
/// the lag.
class PartialStart {
 public:
  explicit PartialStart(OpenRound& at) : at_(at), attendance_{RankSet(at.ranks), RankSet(at.ranks)} {}

  /// The round is open.
  BoardStep look();
  BoardStep look_at_seat();
  BoardStep look_at_lag();
  BoardStep start();

 private:
  BoardStep ask();
  BoardStep sum_early();

  OpenRound& at_;
  Attendance attendance_;
  std::uint64_t attended_ = ~std::uint64_t{0};  // the changes that attendance_ knows of
  Round attended_round_ = 0;
  Round least_handed_ = 0;
  bool early_ = false;  // the round does not start yet: is there something to sum ahead?
  bool held_ = false;   // Words::held is stored; the handed counts are being read again (pairs with hand_over())
};

}  // namespace stretto
