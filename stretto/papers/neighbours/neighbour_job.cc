#include "stretto/papers/neighbours/neighbour_job.h"

#include <algorithm>
#include <set>

#include "stretto/base/random.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 0x6e65696768626f72;

/// A random tree, and some edges more.
Edges draw_edges(Random& random, int ranks) {
  std::set<std::pair<int, int>> edges;
  for (int rank = 1; rank < ranks; ++rank) {
    edges.insert({static_cast<int>(random.below(static_cast<std::uint64_t>(rank))), rank});
  }
  for (int more = static_cast<int>(random.between(0, ranks)); more > 0; --more) {
    const auto a = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    const auto b = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    if (a != b) edges.insert(std::minmax(a, b));
  }
  return {edges.begin(), edges.end()};
}

void draw_push_graph(NeighbourJob& job, Random& random) {
  const bool bipartite = job.ranks % 2 == 0 && random.chance(0.3);
  const int neighbours = std::min(1 << random.below(3), job.ranks - 1);
  job.push.emplace(bipartite ? "bipartite" : "exponential", job.ranks, neighbours);
  job.overlap = random.chance(0.3) ? 0 : static_cast<Round>(random.between(1, 3));
  job.graph_words = text("push-sum, ", job.push->description(), ", overlap ", job.overlap);
}

void draw_mean(NeighbourJob& job, Random& random) {
  if (random.chance(0.25)) {
    job.kind = NeighbourJob::Kind::gossip;
    job.graph_words = "gossip";
    return;
  }
  job.kind = NeighbourJob::Kind::mean;
  job.average_first = random.chance(0.5);
  const char* names[] = {"ring", "exponential", "complete", "bipartite"};
  const std::uint64_t which = random.below(5);
  if (which == 4) {
    job.mean.emplace(draw_edges(random, job.ranks), job.ranks);
  } else {
    job.mean.emplace(job.ranks % 2 == 1 && which == 3 ? "ring" : names[which], job.ranks);
  }
  job.graph_words = text(job.average_first ? "average then step, " : "step then average, ", job.mean->description());
}

}  // namespace

NeighbourJob NeighbourJob::draw(std::uint64_t seed, bool push_sum, int ranks) {
  Random random(seed, kStream);
  NeighbourJob job;
  job.seed = seed;
  job.ranks = ranks != 0 ? std::max(ranks, 2) : draw_ranks(random);
  job.machines = draw_machines(random, job.ranks);
  push_sum ? draw_push_graph(job, random) : draw_mean(job, random);
  job.block = random.chance(0.5) ? 0 : static_cast<Round>(random.between(1, 7));
  for (auto i = random.between(1, 3); i > 0; --i) {
    job.buckets.push_back({DataType::int64, static_cast<std::uint64_t>(random.between(1, 3))});
  }
  const auto most = random.between(0, 20);
  const bool equal = random.chance(0.3);
  for (int rank = 0; rank < job.ranks; ++rank) {
    job.batches.push_back(static_cast<int>(equal ? most : random.between(0, most)));
  }
  if (random.chance(0.03)) {
    job.crashed_rank = static_cast<int>(random.below(static_cast<std::uint64_t>(job.ranks)));
    job.crash_batch = static_cast<int>(random.between(0, job.batches[static_cast<std::size_t>(job.crashed_rank)]));
  }
  for (int src = 0; src < job.ranks; ++src) {
    for (const int dst : job.links(src, 0).out) {
      if (random.chance(0.15)) job.machines.slow_links.push_back({src, dst, 20});
    }
  }
  return job;
}

Links NeighbourJob::links(int rank, Round round) const {
  switch (kind) {
    case Kind::push_sum: return push->links(rank, round);
    case Kind::mean: return mean->links(rank, round);
    case Kind::gossip: break;
  }
  return gossip_links(rank, ranks, round, seed);
}

std::vector<Share> NeighbourJob::shares(int rank, Round round) const {
  if (kind == Kind::mean) return mean->shares(rank, round);
  return {{gossip_links(rank, ranks, round, seed).in.front(), 2}};
}

std::string NeighbourJob::to_string() const {
  std::string out = text(ranks, " ranks, ", graph_words, ", blocks of ", block, " rounds, batches");
  for (const int count : batches) out += text(' ', count);
  if (crashed_rank >= 0) out += text(", rank ", crashed_rank, " crashes at batch ", crash_batch);
  return out;
}

}  // namespace stretto
