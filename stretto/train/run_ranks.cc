#include "stretto/train/run_ranks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "stretto/base/machine/cores.h"
#include "stretto/train/loop/loop_environment.h"

namespace stretto {
namespace {

enum Status : int { kGood = 0, kFailed = 1, kNotStarted = 2, kLostRank = 3, kInterrupted = 130 };

int complain(const std::string& what, Status status) {
  std::cerr << text("stretto: ", what, "\n");
  return status;
}

}  // namespace

int run_ranks(JobOptions options, const RankMain& main) {
  options.prepare = [also = std::move(options.prepare)](RankContext& rank) {
    share_torch_threads(rank);
    if (also) also(rank);
  };
  try {
    if (const auto ranks = loop_environment().ranks) options.ranks = *ranks;
    const auto job = launch(options, main);
    if (!job) return complain(job.error().message, kNotStarted);
    if (job->interrupted) return complain("interrupted", kInterrupted);
    if (job->ok()) return kGood;
    return job->first_lost >= 0 ? kLostRank : kFailed;
  } catch (const UsageError& error) {
    return complain(error.what(), kNotStarted);
  }
}

void share_torch_threads(RankContext& rank) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  const auto launched = launched_rank();
  const int ranks_here = launched ? launched->local_ranks : rank.size();
  at::set_num_threads(std::max(1, num_cores() / ranks_here));
}

}  // namespace stretto
