#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "stretto/papers/neighbours/mixing_graph.h"
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

}  // namespace stretto
