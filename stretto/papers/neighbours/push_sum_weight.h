#pragma once

#include "stretto/base/defect.h"

namespace stretto {

/// The weight w of a rank's push-sum (Kempe, Dobra and Gehrke, "Gossip-Based Computation of Aggregate Information",
/// FOCS 2003, section 2): what its biased model z is divided by to give the model. 1 at first, and after each average
/// of all ranks. Number: `double`, or an exact type in which the search adds up all weights: they and those in flight
/// sum to the number of ranks.
template <class Number>
class PushSumWeight {
 public:
  Number value() const { return value_; }
  /// Splits it among K out-neighbours and this rank, and keeps one of the K + 1 parts; returns another, to be sent with
  /// as large a part of z, in the same message.
  Number split(int out_neighbours) { return value_ = value_ / Number(out_neighbours + 1); }
  /// A part that has come.
  void add(Number part) {
    if (!defect(Defect::weight_not_sent)) value_ = value_ + part;
  }

 private:
  Number value_ = Number(1);
};

}  // namespace stretto
