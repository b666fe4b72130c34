#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/engine/driver.h"
#include "stretto/train/options/train_options.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// How the ranks train together. The same on every rank.
struct DistributedOptions {
  /// A name from recipes(), with what may follow it: "sync", "eager-solo", "eager-majority", "eager-quorum:6" (6 ranks
  /// start a round), "eager-deadline:6,20ms", "local", "diloco:quorum:4". docs/algorithms.md says which for which job,
  /// and whose they are. One's own is named by register_recipe().
  std::string algorithm = "eager-quorum";
  int quorum = 0;   ///< 0: half of the ranks, rounded up
  int max_lag = 4;  ///< bound of staleness, in rounds, from 1; memory grows with it
  int seats = 0;    ///< ranks that meet at a board, as PartialOptions::seats; 0 or more than it has: all of a host; 1:
                    ///< messages alone
  /// The divisor of the sum of the gradients: the ranks by default. With `local` that of the models, where ranks
  /// that brought none never count: each model once by default, or by its samples. With `diloco` contributors are the
  /// phases of `sync_every` steps that a round has taken.
  std::optional<Normalize> normalize;
  bool fixed_order = false;  ///< the same bits in every run, if the ranks get the same batches
  /// sync: reduces during the backward pass, the last one where DistributedOptimizer::accumulate() adds up several.
  bool overlap = false;
  double clip_norm = 0;          ///< largest 2-norm of the averaged gradient (`local`: of each rank's own); 0: any
  std::uint64_t full_every = 0;  ///< batches between full rounds, for DistributedOptimizer::on_full_round(); 0: none
  std::uint64_t sync_every = 0;  ///< `local`, `diloco`: steps of each rank between rounds (0: 8)
  /// Options of some algorithms only: {{"post-local", "1000"}}. `stretto train --help` explains them.
  AlgorithmOptions algorithm_options;
  /// The learning rate by batches applied, in steps of as many batches as there are ranks, or where members change may
  /// be at most: "constant", or parts joined with '+': "warmup:N" rises linearly over N steps; "decay:F@A@B" divides by
  /// F at each of the steps A, B.
  std::string lr_schedule = "constant";
  std::uint64_t seed = 0;  ///< of what is drawn by a majority policy, gossip-grad and ad-psgd
  std::uint64_t bucket_bytes =
      kBucketBytes;  ///< of gradients averaged together (4 MiB); a larger parameter has its own
  ProgressBy progress_by = ProgressBy::thread;        ///< which thread helps rounds along while the model computes
  Duration finish_timeout = std::chrono::minutes(1);  ///< how long the destructor waits for the others
  bool allow_different = false;                       ///< nothing is thrown where replicas differ
};

/// Which batches there are, and which rank gets which. The same on every rank.
struct BatchesOptions {
  std::uint64_t epochs = 1;  ///< passes over the data, all in one pool: no rank waits where one ends
  std::uint64_t steps = 0;   ///< steps × ranks batches in all, in place of `epochs`; 0: `epochs` says
  /// shared: the rank that is ready first takes the next batch; partitioned: batch i is rank i mod ranks'; ring: the
  /// samples of each rank in the next pass those of the rank before it; sampled; labels:3: as many as when shared, each
  /// rank's of its own part of the data, with three of the labels at most.
  /// Empty: what suits the algorithm, shared for the eager ones.
  std::string data = "";
  std::uint64_t seed = 0;                   ///< of the order, another one in each epoch
  std::vector<std::uint32_t> lengths = {};  ///< of each sample, with `bucketed`
  bool bucketed = false;                    ///< batches of samples of similar length, in shuffled order
  std::vector<std::uint32_t> labels = {};   ///< of each sample, with data labels:K
};

/// One batch of a pool.
struct Batch {
  std::uint64_t sequence = 0;         ///< its number in the whole job, from 0
  std::uint64_t epoch = 0;            ///< pass over the data, of its first sample
  std::vector<std::int64_t> samples;  ///< their numbers in the data set: data.index_select(0, torch::tensor(samples))
};

}  // namespace stretto
