// MPI_Allreduce in a loop: SECONDS EACH_CALL BYTES...; a line has BYTES CALLS MICROSECONDS, the last for one call, and
// with EACH_CALL 1 the median and the 99th percentile of calls that are timed one by one.

#include <mpi.h>

#include <algorithm>

#include "microbench/peers/mpi_peer.h"

namespace peer {

namespace {

constexpr int kMostCalls = 1'000'000;
constexpr double kEnough = 0.7;            // of the time wanted
constexpr std::uint64_t kLarge = 1 << 20;  // a call of so many bytes takes long

// Seconds for one call, by rank 0's clock.
double run(int calls, Vectors& vectors) {
  MPI_Barrier(MPI_COMM_WORLD);
  const std::int64_t begin = now_ns();
  for (int i = 0; i < calls; ++i) vectors.allreduce();
  return static_cast<double>(now_ns() - begin) / 1e9 / calls;
}

struct Loops {
  int calls = 0;
  double once = 0;  // seconds for one call
};

// Loops for `wanted` seconds. In several turns where the calls before promised longer ones: what is 20 calls long may
// be lengthened a hundred times by a rank that has lost its core.
Loops measure(double wanted, int warm_up, Vectors& vectors) {
  double once = run(warm_up, vectors);
  int calls = 0;
  double taken = 0;
  while (true) {
    const double left = std::min((wanted - taken) / once, static_cast<double>(kMostCalls - calls));
    int more = static_cast<int>(calls == 0 ? std::max(1.0, left) : left);
    if (calls > 0 && taken > kEnough * wanted) more = 0;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (more == 0) return {calls, once};
    taken += more * run(more, vectors);
    calls += more;
    once = taken / calls;
  }
}

// Microseconds of each.
std::vector<double> run_one_by_one(int calls, Vectors& vectors) {
  std::vector<double> out(static_cast<std::size_t>(calls));
  MPI_Barrier(MPI_COMM_WORLD);
  std::int64_t before = now_ns();
  for (double& microseconds : out) {
    vectors.allreduce();
    const std::int64_t after = now_ns();
    microseconds = static_cast<double>(after - before) / 1e3;
    before = after;
  }
  return out;
}

}  // namespace

void run_allreduce(Job job) {
  const Mpi mpi(job);
  for (const std::uint64_t bytes : job.sizes(2)) {
    Vectors vectors(bytes);
    const auto [calls, once] = measure(job.number(0), bytes < kLarge ? 20 : 2, vectors);
    std::vector<double> values = {static_cast<double>(calls), 1e6 * once};
    if (job.number(1) != 0) {
      const std::vector<double> each = run_one_by_one(calls, vectors);
      values.insert(values.end(), {median(each), quantile(each, 0.99)});
    }
    vectors.check(job);
    print(job, bytes, values);
  }
}

}  // namespace peer
