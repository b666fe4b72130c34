#include "stretto/papers/neighbours/graphs.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/observe/whole_file.h"

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

namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kBlanks = " \t\r";
  for (std::size_t at = 0; (at = line.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

void require_connected(const Edges& edges, const std::string& name, int ranks) {
  std::vector<bool> reached(static_cast<std::size_t>(ranks));
  reached[0] = true;
  for (bool any = true; any;) {
    any = false;
    for (const auto& [a, b] : edges) {
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      if (reached[i] == reached[j]) continue;
      reached[i] = reached[j] = any = true;
    }
  }
  std::string apart;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!reached[static_cast<std::size_t>(rank)]) apart += text(apart.empty() ? "" : ", ", rank);
  }
  if (apart.empty()) return;
  throw UsageError(text("graph ", name, " is not connected: no path from rank 0 to rank ", apart,
                        "; expected one between any two of ", ranks, " ranks"));
}

}  // namespace

Edges parse_edges(std::string_view content, const std::string& name, int ranks) {
  std::map<std::pair<int, int>, int> line_of;
  int number = 0;
  while (!content.empty()) {
    const std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(content.size(), line.size() + 1));
    ++number;
    const auto words = words_of(line);
    if (words.empty()) continue;
    const auto refuse = [&](const std::string& why) -> UsageError {
      return UsageError(text("graph ", name, ", line ", number, ": ", why));
    };
    int ends[2] = {};
    for (std::size_t i = 0; i < words.size(); ++i) {
      const char* end = words[i].data() + words[i].size();
      const auto read = i < 2 ? std::from_chars(words[i].data(), end, ends[i]) : std::from_chars_result{nullptr, {}};
      if (words.size() != 2 || read.ec != std::errc() || read.ptr != end) {
        throw refuse(text("\"", line, "\" is no edge; expected two ranks such as \"0 1\""));
      }
    }
    const auto [low, high] = std::minmax(ends[0], ends[1]);
    if (low < 0 || high >= ranks) {
      throw refuse(text("there is no rank ", low < 0 ? low : high, "; expected 0 to ", ranks - 1));
    }
    if (low == high) throw refuse(text("an edge from rank ", low, " to itself; expected two different ranks"));
    const auto [known, is_new] = line_of.try_emplace({low, high}, number);
    if (!is_new) throw refuse(text("the edge ", low, ' ', high, " of line ", known->second, " once more"));
  }
  Edges edges;
  for (const auto& entry : line_of) edges.push_back(entry.first);
  require_connected(edges, name, ranks);
  return edges;
}

Edges read_edges(const std::string& path, int ranks) {
  const auto content = read_whole_file(path);
  if (!content || content->empty()) {
    throw UsageError(text("graph ", path, ": ", content ? "the file is empty" : content.error().message,
                          "; expected ring, exponential, bipartite, complete or a file of edges, one \"a b\" a line"));
  }
  return parse_edges(*content, path, ranks);
}

}  // namespace stretto
