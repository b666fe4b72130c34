// MPI_Allreduce under linear skew: ROUNDS SKEW_NS BYTES...; each round rank r, counted from 1, comes r · SKEW_NS after
// a common start. A line has BYTES MEAN_MS CORES.

#include <mpi.h>

#include "microbench/peers/mpi_peer.h"

namespace peer {

namespace {

constexpr std::int64_t kLeadNs = 2'000'000;  // from the end of the barrier to the start of the round
constexpr int kWarmUpRounds = 5;

// Seconds that this rank spent in `rounds` calls.
double run(int rounds, std::int64_t late_ns, Vectors& vectors) {
  double latency = 0;
  for (int i = 0; i < rounds; ++i) {
    sleep_until(common_start(kLeadNs) + late_ns);
    const std::int64_t begin = now_ns();
    vectors.allreduce();
    latency += static_cast<double>(now_ns() - begin) / 1e9;
  }
  return latency;
}

}  // namespace

void run_skew(Job job) {
  const Mpi mpi(job);
  const int rounds = static_cast<int>(job.number(0));
  const auto late_ns = static_cast<std::int64_t>(job.number(1)) * (job.rank + 1);
  for (const std::uint64_t bytes : job.sizes(2)) {
    Vectors vectors(bytes);
    run(kWarmUpRounds, 0, vectors);
    const std::int64_t begin = common_start(kLeadNs);
    const double cpu_before = cpu_seconds();
    double measured[2] = {run(rounds, late_ns, vectors), 0};
    const std::int64_t end = common_start(kLeadNs);
    measured[1] = cpu_seconds() - cpu_before;
    double total[2] = {0, 0};
    MPI_Reduce(measured, total, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    vectors.check(job);
    print(job, bytes, {1e3 * total[0] / job.ranks / rounds, total[1] / (static_cast<double>(end - begin) / 1e9)});
  }
}

}  // namespace peer
