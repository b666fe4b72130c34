#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/membership/job.h"
#include "stretto/observe/ledger.h"
#include "stretto/train/options.h"
#include "stretto/train/torch_replica.h"

namespace stretto {

/// How the ranks train together. The same on every rank.
struct DistributedOptions {
  std::string algorithm = "eager-quorum";  ///< a name from train/recipes.h, with ":6" for a quorum of 6
  int quorum = 0;                          ///< 0: half of the ranks, rounded up
  int max_lag = 4;                         ///< bound of staleness in rounds; memory grows with it
  Normalize normalize = Normalize::ranks;  ///< what divides the sum of the gradients
  bool fixed_order = false;                ///< the same bits in every run, if the ranks get the same batches
  bool overlap = false;                    ///< sync: reduce during the backward pass; exactly one such pass a step
  std::uint64_t sync_every = 0;            ///< `local`: steps of each rank between averages (0: 8)
  std::string lr_schedule = "constant";    ///< by batches applied: train/lr_schedule.h
  std::uint64_t seed = 0;                  ///< of the draws of eager-majority
  std::uint64_t bucket_bytes = 4 << 20;
  ProgressBy progress_by = ProgressBy::thread;
  Duration finish_timeout = std::chrono::minutes(1);  ///< how long the destructor waits for the others
};

/// A torch::optim::Optimizer whose steps the ranks of a job take together, in a loop of the caller's own:
///
///   DistributedOptimizer optimizer(rank, model, std::make_shared<torch::optim::SGD>(model->parameters(), 0.1));
///   for (const auto& [x, y] : batches) {
///     optimizer.zero_grad();
///     loss(model->forward(x), y).backward();
///     optimizer.step();
///   }
///   optimizer.finish();
///
/// All ranks begin with the weights of rank 0. At step() the weights move by zero, one or several rounds, and with an
/// eager algorithm a rank waits for a quorum at most. Ranks may have different numbers of batches. Step schedulers by
/// on_round() or `lr_schedule`, not by steps of the loop: replicas would part. Running statistics (BatchNorm) are local
/// until finish() averages them. What goes wrong on some rank is thrown as Failure on all of them. One thread.
class DistributedOptimizer {
 public:
  /// On every rank of the job. Throws UsageError for what does not fit, or differs from rank 0's; Failure.
  DistributedOptimizer(RankContext& rank, std::shared_ptr<torch::nn::Module> model,
                       std::shared_ptr<torch::optim::Optimizer> optimizer, DistributedOptions options = {});
  /// Finishes where finish() was not called; stops the job if that takes too long, or in the course of an exception.
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// Sets the gradients to zero; not needed after step(). The wrapped optimizer's own does no harm either.
  void zero_grad();
  /// Hands over the gradients of a batch of `samples`, applies the rounds that are complete. Returns how many.
  /// Throws Failure (Errc::aborted), on every rank, if a gradient is not finite.
  int step(std::uint64_t samples = 1);
  /// This rank has no more batches: returns when no rank has, and all replicas are final. Once.
  int finish();

  /// Called inside step() and finish() after each round that was applied, in order, on every rank alike.
  void on_round(std::function<void(const RoundHeader&)> applied);
  /// Called when the averaged gradients are in place, before the optimizer moves the weights: clip them here.
  void on_step(std::function<void()> before);

  /// Batches applied so far: what schedules and stop conditions must be functions of.
  std::uint64_t batches_applied() const;
  /// Who was late and what became of all gradients.
  const Ledger& ledger() const;
  /// After finish(): whether the replicas of all ranks are equal to the bit.
  bool replicas_identical() const;
  TorchReplica& replica();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
