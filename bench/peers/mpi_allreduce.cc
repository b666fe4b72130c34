// MPI_Allreduce beside ours, for `stretto bench allreduce`, which starts it:
//   mpirun -n RANKS stretto-mpi-allreduce SECONDS BYTES...
// Prints one line a size on rank 0: BYTES CALLS MICROSECONDS, the last for one call.

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kWarmUpCalls = 20;
constexpr int kMostCalls = 1'000'000;

// Seconds for one call, by rank 0's clock.
double run(int calls, const std::vector<float>& mine, std::vector<float>& sum) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) {
    MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(mine.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - begin) / calls;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 3) {
    std::fprintf(stderr, "usage: stretto-mpi-allreduce SECONDS BYTES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const double wanted = std::atof(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const std::uint64_t bytes = std::strtoull(argv[i], nullptr, 10);
    const std::vector<float> mine(bytes / sizeof(float), 1.0f);
    std::vector<float> sum(mine.size());
    const double once = run(kWarmUpCalls, mine, sum);
    int calls = static_cast<int>(std::clamp(wanted / once, 1.0, static_cast<double>(kMostCalls)));
    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    const double taken = run(calls, mine, sum);
    if (sum.back() != static_cast<float>(ranks)) MPI_Abort(MPI_COMM_WORLD, 3);
    if (rank == 0) {
      std::printf("%llu %d %.4f\n", static_cast<unsigned long long>(bytes), calls, 1e6 * taken);
      std::fflush(stdout);
    }
  }
  MPI_Finalize();
}
