#include "stretto/check/hosts.h"

#include <vector>

#include "stretto/base/error.h"

namespace stretto {

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

std::string text_of_hosts(const Members& members) {
  if (members.hosts() == 1) return "one host";
  std::string out = text(members.hosts(), " hosts:");
  for (int host = 0; host < members.hosts(); ++host) {
    for (const int rank : members.on(host)) out += text(rank == members.on(host).front() ? " " : "+", rank);
  }
  return out;
}

}  // namespace stretto
