// An MPI library beside ours, for `stretto bench` and `stretto reproduce fig9`, which start it:
//   mpirun -n RANKS stretto-LIBRARY-peer BENCHMARK ARGUMENTS... BYTES...

#include "microbench/peers/mpi_peer.h"

#include <mpi.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace peer {

namespace {

constexpr std::size_t kWords = 32 * 1024 / sizeof(std::uint32_t);

void work(std::uint64_t passes) {
  static std::uint32_t words[kWords];
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (std::uint32_t& word : words) word = word * 1664525u + 1013904223u;
    asm volatile("" : : "r"(words) : "memory");  // each pass has to be made
  }
}

}  // namespace

Mpi::Mpi(Job& job) {
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
}

Mpi::~Mpi() {
  MPI_Finalize();
}

double Job::number(std::size_t i) const {
  return std::atof(arguments.at(i).c_str());
}

std::vector<std::uint64_t> Job::sizes(std::size_t i) const {
  std::vector<std::uint64_t> out;
  for (; i < arguments.size(); ++i) out.push_back(std::strtoull(arguments[i].c_str(), nullptr, 10));
  return out;
}

double timed_work(std::uint64_t passes) {
  const std::int64_t begin = now_ns();
  work(passes);
  return static_cast<double>(now_ns() - begin) / 1e9;
}

std::uint64_t calibrated_passes(double seconds) {
  // By processor time: all ranks do this at once, on few cores.
  std::uint64_t passes = 32;
  double taken = 0;
  while (taken < 0.01) {
    passes *= 2;
    const double before = cpu_seconds();
    work(passes);
    taken = cpu_seconds() - before;
  }
  return static_cast<std::uint64_t>(std::max(1.0, static_cast<double>(passes) * seconds / taken));
}

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void sleep_until(std::int64_t ns) {
  const timespec until{ns / 1'000'000'000, ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

std::int64_t common_start(std::int64_t lead_ns) {
  MPI_Barrier(MPI_COMM_WORLD);
  std::int64_t start = now_ns() + lead_ns;
  MPI_Bcast(&start, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  return start;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

double largest(double value) {
  double out = 0;
  MPI_Allreduce(&value, &out, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return out;
}

void print(const Job& job, std::uint64_t bytes, const std::vector<double>& values) {
  if (job.rank != 0) return;
  std::printf("%llu", static_cast<unsigned long long>(bytes));
  for (const double value : values) std::printf(" %.7g", value);
  std::printf("\n");
  std::fflush(stdout);
}

void Vectors::allreduce() {
  MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(mine.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void Vectors::check(const Job& job) const {
  if (sum.front() != static_cast<float>(job.ranks) || sum.back() != sum.front()) MPI_Abort(MPI_COMM_WORLD, 3);
}

}  // namespace peer

int main(int argc, char** argv) {
  constexpr peer::Benchmark kBenchmarks[] = {
      {"allreduce", "SECONDS EACH_CALL BYTES...", 3, peer::run_allreduce},
      {"skew", "ROUNDS SKEW_NS BYTES...", 3, peer::run_skew},
      {"spin", "PAIRS WORK_SECONDS BYTES...", 3, peer::run_spin},
      {"overlap", "STEPS WORK_NS SKEW_NS BUCKETS BYTES...", 5, peer::run_overlap},
  };
  const peer::Benchmark* benchmark = nullptr;
  for (const peer::Benchmark& known : kBenchmarks) {
    if (argc > 1 && std::strcmp(argv[1], known.name) == 0) benchmark = &known;
  }
  if (benchmark == nullptr || argc - 2 < static_cast<int>(benchmark->arguments)) {
    for (const peer::Benchmark& known : kBenchmarks) {
      std::fprintf(stderr, "usage: %s %s %s\n", argv[0], known.name, known.usage);
    }
    return 2;
  }
  prctl(PR_SET_TIMERSLACK, 1000);  // sleeps end when they should
  peer::Job job;
  for (int i = 2; i < argc; ++i) job.arguments.emplace_back(argv[i]);
  benchmark->run(std::move(job));
}
