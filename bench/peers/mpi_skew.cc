// MPI_Allreduce under linear skew, beside the collectives of `stretto reproduce fig9`, which starts it:
//   mpirun -n RANKS stretto-mpi-skew ROUNDS SKEW_NS BYTES...
// Each round rank r, counted from 1, comes r · SKEW_NS after a common start. Prints one line a size on rank 0:
// BYTES MEAN_MS CORES.

#include <mpi.h>
#include <sys/resource.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::int64_t kLeadNs = 2'000'000;  // from the end of the barrier to the start of the round
constexpr int kWarmUpRounds = 5;

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void sleep_until(std::int64_t ns) {
  const timespec until{ns / 1'000'000'000, ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

// All ranks are on one host and have one clock.
std::int64_t common_start() {
  MPI_Barrier(MPI_COMM_WORLD);
  std::int64_t start = now_ns() + kLeadNs;
  MPI_Bcast(&start, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  return start;
}

// Seconds that this rank spent in `rounds` calls.
double run(int rounds, std::int64_t late_ns, const std::vector<float>& mine, std::vector<float>& sum) {
  double latency = 0;
  for (int i = 0; i < rounds; ++i) {
    sleep_until(common_start() + late_ns);
    const std::int64_t begin = now_ns();
    MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(mine.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    latency += static_cast<double>(now_ns() - begin) / 1e9;
  }
  return latency;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 4) {
    std::fprintf(stderr, "usage: stretto-mpi-skew ROUNDS SKEW_NS BYTES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int rounds = std::atoi(argv[1]);
  const std::int64_t skew_ns = std::atoll(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const std::uint64_t bytes = std::strtoull(argv[i], nullptr, 10);
    const std::vector<float> mine(bytes / sizeof(float), 1.0f);
    std::vector<float> sum(mine.size());
    run(kWarmUpRounds, 0, mine, sum);
    const std::int64_t begin = common_start();
    const double cpu_before = cpu_seconds();
    double measured[2] = {run(rounds, skew_ns * (rank + 1), mine, sum), 0};
    const std::int64_t end = common_start();
    measured[1] = cpu_seconds() - cpu_before;
    double total[2] = {0, 0};
    MPI_Reduce(measured, total, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      std::printf("%llu %.6f %.4f\n", static_cast<unsigned long long>(bytes), 1e3 * total[0] / ranks / rounds,
                  total[1] / (static_cast<double>(end - begin) / 1e9));
      std::fflush(stdout);
    }
  }
  MPI_Finalize();
}
