#include "stretto/papers/neighbours/mixing_graph.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto {

MixingGraph::MixingGraph(const std::string& graph, int ranks) : ranks_(ranks), name_(graph), kind_(Kind::edges) {
  if (graph == "ring") kind_ = Kind::ring;
  if (graph == "exponential") kind_ = Kind::exponential;
  if (graph == "bipartite") kind_ = Kind::bipartite;
  if (graph == "complete") kind_ = Kind::complete;
  if (kind_ == Kind::bipartite) require_even(ranks);
  if (kind_ == Kind::edges) *this = MixingGraph(read_edges(graph, ranks), ranks);
}

MixingGraph::MixingGraph(const Edges& edges, int ranks)
    : ranks_(ranks), kind_(Kind::edges), neighbours_(static_cast<std::size_t>(ranks)) {
  for (const auto& [a, b] : edges) {
    neighbours_[static_cast<std::size_t>(a)].push_back(b);
    neighbours_[static_cast<std::size_t>(b)].push_back(a);
  }
  for (auto& neighbours : neighbours_) std::ranges::sort(neighbours);
}

std::vector<Share> MixingGraph::shares(int rank, Round round) const {
  std::vector<Share> shares;
  if (kind_ == Kind::edges) {
    const auto& mine = neighbours_[static_cast<std::size_t>(rank)];
    for (const int peer : mine) {
      const std::size_t theirs = neighbours_[static_cast<std::size_t>(peer)].size();
      shares.push_back({peer, 1 + static_cast<int>(std::max(mine.size(), theirs))});
    }
    return shares;
  }
  const Links peers = links(rank, round);
  for (const int peer : peers.in) shares.push_back({peer, static_cast<int>(peers.in.size()) + 1});
  return shares;
}

Links MixingGraph::links(int rank, Round round) const {
  std::vector<int> peers;
  if (ranks_ > 1) {
    switch (kind_) {
      case Kind::ring: peers = {around(rank, -1, ranks_), around(rank, 1, ranks_)}; break;
      case Kind::exponential: {
        const int hop = 1 << round % static_cast<Round>(num_hops(ranks_));
        peers = {around(rank, -hop, ranks_), around(rank, hop, ranks_)};
        break;
      }
      case Kind::bipartite: {
        const std::vector<int> hops = odd_hops(ranks_);
        const int hop = hops[round % hops.size()];
        peers = {around(rank, rank % 2 == 0 ? hop : -hop, ranks_)};
        break;
      }
      case Kind::complete:
        for (int peer = 0; peer < ranks_; ++peer) {
          if (peer != rank) peers.push_back(peer);
        }
        break;
      case Kind::edges: peers = neighbours_[static_cast<std::size_t>(rank)]; break;
    }
  }
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return {peers, peers};
}

std::string MixingGraph::description() const {
  std::string words = kind_ == Kind::edges ? std::string("a graph of edges") : name_;
  for (std::size_t rank = 0; rank < neighbours_.size(); ++rank) {
    for (const int peer : neighbours_[rank]) {
      if (peer > static_cast<int>(rank)) words += text(' ', rank, '-', peer);
    }
  }
  return words;
}

double own_share(const std::vector<Share>& shares) {
  double own = 1;
  for (const Share& share : shares) own -= 1.0 / share.parts;
  return own;
}

std::vector<int> odd_hops(int ranks) {
  std::vector<int> hops{1};
  for (int hop = 3; hop < ranks; hop = 2 * hop - 1) hops.push_back(hop);
  return hops;
}

void require_even(int ranks) {
  if (ranks == 1 || ranks % 2 == 0) return;
  throw UsageError(text("graph bipartite joins even and odd ranks, and there are ", ranks,
                        " ranks; expected an even number of them, or graph exponential"));
}

}  // namespace stretto
