#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "stretto/base/defect.h"
#include "stretto/papers/neighbours/graphs.h"
#include "stretto/papers/neighbours/neighbour_exchange.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// Sends a rank's model to its neighbours, and mixes their models into its own. One application thread.
class Mixer {
 public:
  virtual ~Mixer() = default;
  /// Begins a round with the model as it is now.
  virtual void send(NeighbourExchange& exchange) = 0;
  /// A message that the exchange hands out.
  virtual void add(const NeighbourMessage& message) = 0;
  /// All that is handed out for now has been added: makes the replica's parameters the model.
  virtual void mixed() = 0;
  /// No further message comes in the round under way, or the average of all ranks: makes the parameters this rank's own
  /// model.
  virtual void stand_still() = 0;
  /// Nothing of its own is on its way any more: makes the parameters what the average of all ranks is taken over.
  virtual void before_average() = 0;
  /// The parameters are the average of all ranks.
  virtual void after_average() = 0;
  /// Bytes that it holds beside the replica.
  virtual std::uint64_t memory_bytes() const = 0;
};

/// The weighted mean of the own model and those of the in-neighbours of the same round. `shares`: what theirs count in
/// a round; the own one counts the rest.
std::unique_ptr<Mixer> make_mean_mixer(Replica& replica, std::function<std::vector<Share>(Round)> shares);

/// Push-sum: the biased model z and its weight w are sent on in K + 1 equal parts, one of which stays; those that come
/// are added; the model is z/w. A step moves z by as much as it moves the model. `out_neighbours`: K in a round.
std::unique_ptr<Mixer> make_push_sum_mixer(Replica& replica, std::function<int(Round)> out_neighbours);

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
