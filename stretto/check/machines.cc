#include "stretto/check/machines.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto {
namespace {

/// `ranks` on several hosts, in blocks of unequal size or dealt out in turn, or each anywhere; or all on one, every
/// second time. Fewer hosts than ranks, so that some board has several seats. Requires: ranks > 1.
Members draw_hosts(Random& random, int ranks) {
  if (ranks < 3 || random.chance(0.5)) return Members(ranks);
  const int hosts = static_cast<int>(random.between(2, ranks - 1));
  const std::uint64_t how = random.below(3);
  std::vector<int> host_of(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const int anywhere = static_cast<int>(random.below(static_cast<std::uint64_t>(hosts)));
    host_of[static_cast<std::size_t>(rank)] = how == 0 ? rank * hosts / ranks : how == 1 ? rank % hosts : anywhere;
  }
  return Members(host_of);
}

}  // namespace

int draw_ranks(Random& random) {
  if (random.chance(0.03)) return random.chance(0.5) ? 16 : 33;
  return static_cast<int>(random.between(2, 8));
}

Machines draw_machines(Random& random, int ranks) {
  Machines m{.members = Members(ranks)};
  m.network.latency = Duration(static_cast<std::int64_t>(random.log_uniform(100, 50'000)));
  m.network.overhead = Duration(static_cast<std::int64_t>(random.below(500)));
  if (random.chance(0.8)) m.network.jitter = Duration(m.network.latency.count() * random.between(0, 16));
  m.network.bytes_per_second = 1e9 * static_cast<double>(random.log_uniform(1, 50));
  if (random.chance(0.5)) m.network.pieces = static_cast<int>(random.between(2, 4));
  if (random.chance(0.2)) m.network.eager_bytes = 1 << 20;
  for (int i = ranks > 1 && random.chance(0.7) ? 1 + ranks / 4 : 0; i > 0; --i) {
    const int src = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    const int dst = (src + static_cast<int>(random.between(1, ranks - 1))) % ranks;
    m.slow_links.push_back({src, dst, static_cast<double>(random.log_uniform(2, 100))});
  }
  m.compute = Duration(static_cast<std::int64_t>(random.log_uniform(500, 200'000)));
  for (int rank = 0; rank < ranks; ++rank) {
    m.slowness.push_back(random.chance(0.25) ? static_cast<double>(random.log_uniform(2, 30)) : 1);
  }
  m.spread = random.uniform();
  if (random.chance(0.2)) m.stall = 0.1 * random.uniform();
  if (random.chance(0.2)) m.stop = 0.1 * random.uniform();
  return m;
}

int draw_over(Random& random, std::optional<Over> over, Machines& machines) {
  const int ranks = machines.ranks();
  const Over drawn = random.chance(0.5) ? Over::messages : random.chance(0.5) ? Over::boards : Over::board;
  machines.over = ranks == 1 ? Over::messages : over.value_or(drawn);
  if (machines.over == Over::boards && ranks < 3) machines.over = Over::board;
  if (machines.over != Over::boards) return machines.over == Over::board ? 0 : 1;
  machines.members = draw_hosts(random, ranks);
  if (machines.members.hosts() > 1 && random.chance(0.5)) return 0;
  return static_cast<int>(random.between(2, ranks - 1));
}

std::string text_of_boards(const Machines& machines, int seats) {
  if (machines.over != Over::boards) return machines.over == Over::board ? ", on a board" : "";
  const Members& members = machines.members;
  std::string out = text(", on boards of ", seats, " ranks on ");
  if (members.hosts() == 1) return out + "one host";
  out += text(members.hosts(), " hosts:");
  for (int host = 0; host < members.hosts(); ++host) {
    for (const int rank : members.on(host)) out += text(rank == members.on(host).front() ? " " : "+", rank);
  }
  return out;
}

}  // namespace stretto
