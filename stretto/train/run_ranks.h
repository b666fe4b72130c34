#pragma once

#include "stretto/membership/job.h"

namespace stretto {

/// Runs `main` in all ranks of a job that computes with LibTorch, however the program was started: by itself, then in
/// `options.ranks` processes of this host, or by mpirun or srun, then as one of as many ranks as these have started.
/// The environment variable STRETTO_RANKS overrides the number where the program stands alone.
/// Each rank gets its share of the cores first (share_torch_threads), then options.prepare. LibTorch may have been used
/// before, to load data for instance: the memory of this process is there in every rank.
/// With options.least the job goes on without ranks that are lost (docs/elastic.md).
/// Returns the exit status for main(): 0, or 1 where a rank has failed, 2 for a job that cannot be started, 3 where a
/// rank was lost, 130 after SIGINT or SIGTERM. Prints one line on stderr that says why. To get the reports of the ranks
/// call launch() instead.
int run_ranks(JobOptions options, const RankMain& main);

/// Sets the number of threads with which LibTorch computes in this rank to the number of cores for each rank of this
/// host, at least one: threads of several ranks that share a core wait for one another. Leaves it as it is where
/// OMP_NUM_THREADS is set. For JobOptions::prepare.
void share_torch_threads(RankContext& rank);

}  // namespace stretto
