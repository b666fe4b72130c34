#include "stretto/papers/neighbours/push_graph.h"

#include <algorithm>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/papers/neighbours/mixing_graph.h"

namespace stretto {
namespace {

constexpr std::uint64_t kGossipStream = 0x676f73736970;  // of the permutations

std::vector<int> hops_of(const std::string& graph, int ranks) {
  if (graph == "bipartite") {
    require_even(ranks);
    return odd_hops(ranks);
  }
  if (graph != "exponential") {
    throw UsageError(text("graph '", graph, "': expected exponential or bipartite"));
  }
  std::vector<int> hops;
  for (int i = 0; i < num_hops(ranks); ++i) hops.push_back(1 << i);
  return hops;
}

}  // namespace

PushGraph::PushGraph(const std::string& graph, int ranks, int neighbours)
    : ranks_(ranks), name_(graph), hops_(hops_of(graph, ranks)) {
  if (neighbours < 1 || (ranks > 1 && neighbours >= ranks)) {
    throw UsageError(text("neighbours ", neighbours, " with ", ranks, " ranks: expected 1 to ", std::max(1, ranks - 1),
                          ", the others"));
  }
  neighbours_ = std::min(static_cast<std::size_t>(neighbours), hops_.size());
}

Links PushGraph::links(int rank, Round round) const {
  Links links;
  if (ranks_ == 1) return links;
  for (std::size_t i = 0; i < neighbours_; ++i) {
    const int hop = hops_[(round + i) % hops_.size()];
    links.out.push_back(around(rank, hop, ranks_));
    links.in.push_back(around(rank, -hop, ranks_));
  }
  std::ranges::sort(links.out);
  std::ranges::sort(links.in);
  return links;
}

std::string PushGraph::description() const {
  return text(name_, ", ", neighbours_, neighbours_ == 1 ? " neighbour" : " neighbours");
}

Links gossip_links(int rank, int ranks, Round round, std::uint64_t seed) {
  if (ranks == 1) return {};
  const auto rounds = static_cast<Round>(num_hops(ranks));
  std::vector<int> order(static_cast<std::size_t>(ranks));  // the rank of each number
  std::iota(order.begin(), order.end(), 0);
  Random random(seed, kGossipStream + round / rounds);
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  const auto number = static_cast<int>(std::ranges::find(order, rank) - order.begin());
  const int hop = 1 << round % rounds;
  const auto at = [&](int steps) { return order[static_cast<std::size_t>(around(number, steps, ranks))]; };
  return {.out = {at(hop)}, .in = {at(-hop)}};
}

}  // namespace stretto
