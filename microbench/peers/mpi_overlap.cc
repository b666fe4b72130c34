// How much of the communication disappears behind computation: STEPS WORK_NS SKEW_NS BUCKETS BYTES...; rank r, counted
// from 0, computes for WORK_NS + r · SKEW_NS a step (it sleeps, as one whose accelerator computes), a bucket's share at
// a time. A line has BYTES COMPUTE_MS COLLECTIVE_MS AT_ONCE_MS BLOCKING_MS OVERLAPPED_MS: a step of computing alone; of
// communicating alone, by MPI_Allreduce of each bucket, and by MPI_Iallreduce of each and MPI_Waitall; of computing and
// then MPI_Allreduce; of MPI_Iallreduce for each bucket when its share is computed, and MPI_Waitall. Each is that of
// the slowest rank.

#include <mpi.h>

#include "microbench/peers/mpi_peer.h"

namespace peer {

namespace {

constexpr std::int64_t kLeadNs = 2'000'000;

enum class Mode { compute, collective, at_once, blocking, overlapped };

class Steps {
 public:
  Steps(const Job& job, std::uint64_t bytes)
      : share_ns_((static_cast<std::int64_t>(job.number(1)) + job.rank * static_cast<std::int64_t>(job.number(2))) /
                  static_cast<std::int64_t>(job.number(3))),
        buckets_(static_cast<std::size_t>(job.number(3)), Vectors(bytes / static_cast<std::uint64_t>(job.number(3)))),
        requests_(buckets_.size()) {}

  // Milliseconds a step takes on the slowest rank.
  double run(Mode mode, int steps) {
    const std::int64_t start = common_start(kLeadNs);
    sleep_until(start);
    for (int i = 0; i < steps; ++i) step(mode);
    return largest(static_cast<double>(now_ns() - start) / 1e6 / steps);
  }

  void check(const Job& job) const {
    for (const Vectors& bucket : buckets_) bucket.check(job);
  }

 private:
  void step(Mode mode) {
    const bool computes = mode != Mode::collective && mode != Mode::at_once;
    const bool nonblocking = mode == Mode::overlapped || mode == Mode::at_once;
    const std::int64_t begin = now_ns();
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (computes) sleep_until(begin + static_cast<std::int64_t>(i + 1) * share_ns_);
      if (!nonblocking) continue;
      Vectors& bucket = buckets_[i];
      MPI_Iallreduce(bucket.mine.data(), bucket.sum.data(), static_cast<int>(bucket.mine.size()), MPI_FLOAT, MPI_SUM,
                     MPI_COMM_WORLD, &requests_[i]);
    }
    if (nonblocking) {
      MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    } else if (mode != Mode::compute) {
      for (Vectors& bucket : buckets_) bucket.allreduce();
    }
  }

  const std::int64_t share_ns_;
  std::vector<Vectors> buckets_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

void run_overlap(Job job) {
  const Mpi mpi(job);
  const int steps = static_cast<int>(job.number(0));
  for (const std::uint64_t bytes : job.sizes(4)) {
    Steps all(job, bytes);
    all.run(Mode::collective, 5);  // touches all memory
    std::vector<double> values;
    for (const Mode mode : {Mode::compute, Mode::collective, Mode::at_once, Mode::blocking, Mode::overlapped}) {
      values.push_back(all.run(mode, steps));
    }
    all.check(job);
    print(job, bytes, values);
  }
}

}  // namespace peer
