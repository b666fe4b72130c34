#include "command/bench/simulated_allreduce.h"

#include <algorithm>
#include <vector>

#include "command/machine/machine.h"
#include "stretto/collective/plain.h"
#include "stretto/engine/engine.h"
#include "stretto/simulate/virtual_ranks.h"

namespace stretto::command {

namespace {

constexpr int kInARow = 4;  // of which the first sets out from ranks that have nothing under way
constexpr std::uint64_t kShortest = 8;

}  // namespace

double simulated_allreduce_us(int hosts, std::uint64_t bytes, const LinkLine& link) {
  NetworkOptions network;
  network.latency = from_seconds(link.latency);
  network.overhead = Duration(0);
  network.bytes_per_second = link.bandwidth;
  network.shared_card = true;
  SimulatedCluster cluster(hosts, network, 1);
  TimePoint first;
  VirtualRanks(cluster).run([&](VirtualRank& rank) {
    Engine engine(rank.transport(), rank.clock());
    Allreduce sum(engine, DataType::float32, bytes / sizeof(float), ReduceOp::sum);
    rank.drive_engine(&engine);
    std::vector<float> numbers(bytes / sizeof(float));
    for (int call = 0; call < kInARow; ++call) {
      sum.run(rank, TimePoint::never(), numbers, numbers).or_throw();
      if (call == 0) first = std::max(first, rank.clock().now());
    }
    rank.drive_engine(nullptr);
  });
  return 1e6 * seconds(cluster.now() - first) / (kInARow - 1);
}

Result<std::vector<Reading>> predict_allreduce(int ranks, const AllreduceTiming& timing,
                                               std::span<const std::uint64_t> sizes) {
  std::vector<std::uint64_t> of_link(sizes.begin(), sizes.end());
  if (std::ranges::count(of_link, of_link.front()) == std::ssize(of_link)) of_link.push_back(kShortest);
  const auto measured = measure_link(of_link, timing.time, Ways::both, timing.hosts.get());
  if (!measured) return measured.error();
  const LinkLine link = fit_line(measured->transfers);
  const int hosts = timing.hosts->size();
  const AllreduceCosts costs = AllreduceCosts::from_environment();
  std::vector<Reading> out;
  for (const std::uint64_t bytes : sizes) {
    const AllreduceTask on_host{bytes, ranks / hosts, this_machine().cores};
    const double board = ranks > hosts ? predicted_us(AllreduceChoice::Way::gather, on_host, costs) : 0;
    out.push_back({ranks, bytes, {0, board + simulated_allreduce_us(hosts, bytes, link)}});
  }
  return out;
}

}  // namespace stretto::command
