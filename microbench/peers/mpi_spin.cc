// By how much ranks that wait in MPI_Allreduce slow down the one that computes: PAIRS WORK_SECONDS BYTES...; a line has
// BYTES ASLEEP_MS WAITING_MS SLOWDOWN, medians over the pairs.

#include "microbench/peers/mpi_peer.h"

namespace peer {

namespace {

constexpr std::int64_t kSettleNs = 20'000'000;  // from the barrier on: by then all other ranks sleep or wait
constexpr double kSleepsLonger = 3;             // than the work takes, so that no rank wakes up meanwhile

// Seconds that rank 0's work takes while the others sleep, or wait for it in the collective.
double run(const Job& job, bool others_sleep, std::uint64_t passes, Vectors& vectors) {
  const std::int64_t start = common_start(kSettleNs);
  double taken = 0;
  if (job.rank == 0) {
    sleep_until(start);
    taken = timed_work(passes);
  } else if (others_sleep) {
    sleep_until(start + static_cast<std::int64_t>(kSleepsLonger * job.number(1) * 1e9));
  }
  vectors.allreduce();
  return taken;
}

}  // namespace

void run_spin(Job job) {
  const std::uint64_t passes = calibrated_passes(job.number(1));
  const Mpi mpi(job);
  for (const std::uint64_t bytes : job.sizes(2)) {
    Vectors vectors(bytes);
    std::vector<double> asleep, waiting, slowdowns;
    for (int pair = 0; pair < static_cast<int>(job.number(0)); ++pair) {
      for (const bool others_sleep : {pair % 2 == 0, pair % 2 != 0}) {
        (others_sleep ? asleep : waiting).push_back(run(job, others_sleep, passes, vectors));
      }
      slowdowns.push_back(waiting.back() / asleep.back());
    }
    vectors.check(job);
    print(job, bytes, {1e3 * median(asleep), 1e3 * median(waiting), median(slowdowns)});
  }
}

}  // namespace peer
