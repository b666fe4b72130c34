#pragma once

// Shared by the benchmarks of MPI libraries. They need an MPI and nothing of ours, and are built once for each MPI.

#include <cstdint>
#include <string>
#include <vector>

namespace peer {

/// The program's arguments, and, once MPI is up, its rank.
struct Job {
  std::vector<std::string> arguments;  ///< behind the benchmark's name
  int rank = 0;
  int ranks = 1;

  double number(std::size_t i) const;
  /// The sizes from the i-th argument on, in bytes.
  std::vector<std::uint64_t> sizes(std::size_t i) const;
};

/// MPI is up while it lives.
class Mpi {
 public:
  explicit Mpi(Job& job);
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
};

/// One benchmark: BYTES VALUE... a line for each size, printed by rank 0.
struct Benchmark {
  const char* name;
  const char* usage;      ///< of its arguments
  std::size_t arguments;  ///< as many at least
  void (*run)(Job);
};
void run_allreduce(Job job);
void run_skew(Job job);
void run_spin(Job job);
void run_overlap(Job job);

/// Where rank 0 computes that others may wait for it: passes over 32 KiB of integers that take about so long. Called
/// before MPI is up, so that no process waits yet.
std::uint64_t calibrated_passes(double seconds);
/// Seconds that they take.
double timed_work(std::uint64_t passes);

/// Of the monotonic clock, which all ranks of a host have in common.
std::int64_t now_ns();
void sleep_until(std::int64_t ns);
/// A time `lead_ns` after all ranks have come here, the same on all.
std::int64_t common_start(std::int64_t lead_ns);

double cpu_seconds();
double median(const std::vector<double>& values);
/// The q-quantile, 0 … 1, linear between the values in order, as our own are.
double quantile(std::vector<double> values, double q);
/// The largest of the ranks' values.
double largest(double value);

void print(const Job& job, std::uint64_t bytes, const std::vector<double>& values);

/// One float32 vector of ones on every rank, and their sum.
struct Vectors {
  explicit Vectors(std::uint64_t bytes) : mine(bytes / sizeof(float), 1.0f), sum(mine.size()) {}
  void allreduce();
  /// Ends the job where the sum came out wrong.
  void check(const Job& job) const;

  std::vector<float> mine;
  std::vector<float> sum;
};

}  // namespace peer
