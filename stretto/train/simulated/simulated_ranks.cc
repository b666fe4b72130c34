#include "stretto/train/simulated/simulated_ranks.h"

#include <array>
#include <atomic>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr Duration kNoticedAfter = std::chrono::milliseconds(1);  // a lost rank, by the others

class SimulatedContext final : public RankContext {
 public:
  SimulatedContext(VirtualRank& place, std::span<MemoryCounter> counters)
      : world_(place.transport(), place.clock(), &place), counters_(counters) {}

  World& world() override { return world_; }
  SharedCounter& counter(int index) override { return counters_[static_cast<std::size_t>(index)]; }
  std::span<std::byte> extra() override { return {}; }
  bool interrupted() override { return false; }
  void report(std::string report) override {
    if (!report_.empty()) throw UsageError(text("rank ", rank(), " reports a second time: report() takes one text"));
    report_ = std::move(report);
  }
  void complain(const Error&) override {}

  std::string reported() && { return std::move(report_); }

 private:
  World world_;
  const std::span<MemoryCounter> counters_;
  std::string report_;
};

}  // namespace

std::vector<std::string> run_simulated(const SimulatedJob& job, const SimulatedMain& main) {
  SimulatedCluster cluster(job.ranks, job.network, job.seed);
  std::array<std::atomic<std::uint64_t>, RankContext::kNumCounters> words{};
  std::vector<MemoryCounter> counters(words.begin(), words.end());
  std::vector<std::string> reports(static_cast<std::size_t>(job.ranks));
  VirtualRanks(cluster, job.compute_threads).run([&](VirtualRank& place) {
    SimulatedContext context(place, counters);
    const int status = main(context, place);
    reports[static_cast<std::size_t>(place.rank())] = std::move(context).reported();
    if (status != 0) cluster.crash(place.rank(), kNoticedAfter);
  });
  return reports;
}

}  // namespace stretto
