#include "stretto/train/simulated/simulated_ranks.h"

#include <array>
#include <atomic>
#include <utility>

#include "stretto/membership/rank_over_transport.h"

namespace stretto {
namespace {

constexpr Duration kNoticedAfter = std::chrono::milliseconds(1);  // a lost rank, by the others

}  // namespace

std::vector<std::string> run_simulated(const SimulatedJob& job, const SimulatedMain& main) {
  SimulatedCluster cluster(job.ranks, job.network, job.seed);
  std::vector<std::string> reports(static_cast<std::size_t>(job.ranks));
  if (job.members) {
    SimulatedMembers members(cluster, *job.members);
    VirtualRanks(cluster, job.compute_threads).run([&](VirtualRank& place) {
      reports[static_cast<std::size_t>(place.rank())] =
          members.run_place(place, [&](RankContext& context) { return main(context, place); });
    });
    return reports;
  }
  std::array<std::atomic<std::uint64_t>, RankContext::kNumCounters> words{};
  std::vector<MemoryCounter> counters(words.begin(), words.end());
  VirtualRanks(cluster, job.compute_threads).run([&](VirtualRank& place) {
    RankOverTransport context(place.transport(), place.clock(), &place, counters);
    const int status = main(context, place);
    reports[static_cast<std::size_t>(place.rank())] = std::move(context).reported();
    if (status != 0) cluster.crash(place.rank(), kNoticedAfter);
  });
  return reports;
}

}  // namespace stretto
