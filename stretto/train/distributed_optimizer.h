#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "stretto/membership/job.h"
#include "stretto/observe/ledger.h"
#include "stretto/train/loop/new_members.h"
#include "stretto/train/options/distributed_options.h"
#include "stretto/train/replica/torch_replica.h"

namespace torch::optim {
class LRScheduler;
}

namespace stretto {

class BatchPool;

/// The batches of a pool as a range: `for (const Batch& batch : optimizer.batches(60000, 32))`. From
/// DistributedOptimizer::batches(). One pass: it cannot be rewound. The optimizer's thread.
class Batches {
 public:
  /// DistributedOptimizer::batches() makes it.
  explicit Batches(std::shared_ptr<BatchPool> pool) : pool_(std::move(pool)) {}

  /// An input iterator; it must not outlive the range.
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    explicit Iterator(BatchPool& pool) : pool_(&pool) { ++*this; }
    const Batch& operator*() const { return *batch_; }
    const Batch* operator->() const { return &*batch_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& at, std::default_sentinel_t) { return !at.batch_; }

   private:
    BatchPool* pool_;
    std::optional<Batch> batch_;
  };

  /// Draws a batch. A range that was left goes on here with the batch after the last one drawn.
  Iterator begin() { return Iterator(*pool_); }
  std::default_sentinel_t end() const { return {}; }  ///< reached when the pool of all ranks is empty

 private:
  std::shared_ptr<BatchPool> pool_;
};

/// A torch::optim::Optimizer whose steps the ranks of a job take together, in a loop of the caller's own:
///
///     DistributedOptimizer optimizer(rank, model, std::make_shared<torch::optim::SGD>(model->parameters(), 0.1));
///     for (const auto& [x, y] : batches) {
///       optimizer.zero_grad();
///       loss(model->forward(x), y).backward();
///       optimizer.step();
///     }
///     optimizer.finish();
///
/// All ranks begin with the weights of rank 0, and the state of its optimizer. A job may have several, at once and one
/// after the other; every rank makes them in the same order. At step() the weights move by zero, one or several rounds,
/// and with an eager algorithm a rank waits for a quorum at most. Ranks may have different numbers of batches;
/// batches() hands them out. Hand schedulers to follow(), or use `lr_schedule`: a rate that follows the steps of a loop
/// parts the replicas. What differs from DDP: clip_grad_norm_() before step() clips this rank's gradient, `clip_norm`
/// the average; after step() each .grad is 0; running statistics (BatchNorm) are local until a full round or finish()
/// averages them. Checkpoints and evaluations have their place in on_full_round(). As with DDP's find_unused_parameters
/// no rank moves a parameter that no rank of the round had a gradient for. The model's parameters stay where they are:
/// model->to() and torch::load() come before this. The loop does not call the step() of the wrapped optimizer, which
/// moves the weights of one rank: finish() names the rank where replicas have parted so. A failure on some rank is
/// thrown as Failure on all of them. One thread. STRETTO_ALGORITHM, STRETTO_SEATS and STRETTO_SEED in the environment
/// override the options, for `stretto compare --program`. The algorithms, with their papers: docs/algorithms.md. A loop
/// with all of it: docs/own_training_loop.md.
class DistributedOptimizer {
 public:
  /// On every rank of the job; `rank` must outlive it. Throws UsageError for a model, optimizer or option that does not
  /// fit or differs from rank 0's; Failure where a rank is lost, or does not come within five minutes. In a job whose
  /// members change that is for batches() to throw, or the first zero_grad(): with it this rank comes to the job, and
  /// the others wait for it from then on.
  DistributedOptimizer(RankContext& rank, std::shared_ptr<torch::nn::Module> model,
                       std::shared_ptr<torch::optim::Optimizer> optimizer, DistributedOptions options = {});
  /// Finishes as finish() does where that was not called, and says on stderr what it would throw; stops the job if that
  /// takes too long, or in the course of an exception.
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// Sets the gradients to zero; not needed after step(). The wrapped optimizer's own does no harm either.
  void zero_grad();
  /// With `overlap` and several backward passes a step: call accumulate(true) before the first, accumulate(false)
  /// before the last, which hands over what all of them have added up. Elsewhere without effect.
  void accumulate(bool more);
  /// Hands over the gradients of a batch of `samples`, applies the rounds that are complete. Returns how many.
  /// Throws Failure (Errc::aborted), on every rank, if a gradient is not finite.
  int step(std::uint64_t samples = 1);
  /// In the place of step(): drops the batch, as after a loss that is not finite. The rank meets the others as step()
  /// does, and brings nothing. Throws UsageError where part of the gradients is handed over already (`overlap`).
  int pass();
  /// Waits until every rank has called this, or finish(), and all gradients are applied; then runs `work` on every rank
  /// that has called it. The place for what all ranks do together: evaluation, checkpoints, collectives of one's own.
  /// Ranks may have made different numbers of steps. Throws as finish(); an exception in `work` stops the job. Where
  /// members of the job change a Failure of Errc::members_changed ends `work` on this rank alone, and the rank goes on.
  void together(const std::function<void()>& work);
  /// This rank has no more batches: returns when no rank has, and all replicas are final. Once; of several optimizers
  /// in the same order on every rank. Meanwhile the rounds of the others go on without this rank, and apply here: after
  /// Others::end, which every rank means alike, they take no more step() here. Throws Failure (Errc::diverged), which
  /// names them, where replicas differ; UsageError for Others::go_on beside an eager algorithm. After a backward pass
  /// without step() under `overlap` brings that gradient, of which others have a part.
  int finish(Others others = Others::end);

  /// In a job whose members change, such as `stretto run --ranks 2:4`: this rank is to leave the job. The step under
  /// way is its last: step(), or finish() where none is, throws Left once all that it has handed over is applied and
  /// the others go on without it. SIGTERM to the process does the same. Any thread. Throws UsageError in any other job.
  void leave();
  /// In such a job: something that is equal on all ranks after the rounds so far, beside model, optimizer and what
  /// follow() has, as an average of the weights that on_round() moves. `save` returns its content on a rank that has
  /// it, and a rank that comes to the job later is given that by `load`. Before batches(), with the same names in the
  /// same order on every rank. Elsewhere without effect. Throws UsageError for a name that is empty or taken, and
  /// afterwards.
  void register_state(std::string name, std::function<std::string()> save,
                      std::function<void(const std::string& content)> load);
  /// Called when this rank begins among other members of the job than before, and among its first. Never where members
  /// do not change. What it throws ends this rank, which is then lost.
  void on_members(std::function<void(const NewMembers& members)> began);

  /// The batches of this rank out of a data set of `samples`, `batch` samples each (one pass, the last may be smaller):
  /// a range, which ends when the pool of all ranks is empty. After load() it goes on where the checkpoint was. Once,
  /// on every rank alike, before the first step(); each batch drawn belongs to the next step(). Throws UsageError for
  /// options that differ from rank 0's, for fewer samples than ranks, and for other batches than those of the
  /// checkpoint.
  Batches batches(std::uint64_t samples, int batch, BatchesOptions options = {});
  /// Steps a scheduler of LibTorch once for every `every` batches applied (0: as many as there are ranks), on every
  /// rank after the same round. Before the first step(), and before batches() where members of the job change. Throws
  /// UsageError beside an `lr_schedule`.
  void follow(std::shared_ptr<torch::optim::LRScheduler> scheduler, std::uint64_t every = 0);

  /// Called inside step() and finish() after each round that was applied, in order, on every rank alike.
  void on_round(std::function<void(const RoundHeader&)> applied);
  /// Called when the averaged gradients are in place, and clipped, before the optimizer moves the weights.
  void on_step(std::function<void()> before);
  /// Called inside step() or finish(), on every rank, after the first full round of every `full_every` batches applied:
  /// all ranks have the same weights and running statistics then, and nothing is pending. The place to evaluate the
  /// model, and to save(). All ranks wait there for the last. Where members of the job change, and what ranks do there
  /// together is cut off on one of them, it is called anew in the next full round, on all. Throws UsageError without
  /// DistributedOptions::full_every.
  void on_full_round(std::function<void()> held);

  /// Writes a checkpoint to `folder`: model, optimizer, schedulers, batches applied, the state of LibTorch's random
  /// numbers on each rank, and where it is in batches(). Inside on_full_round(), or after finish(); on every rank
  /// alike, of which rank 0 writes. The older one is kept until the new one is whole. Returns whether it was written,
  /// the same on every rank; a line on stderr says why not. A checkpoint of another program is not replaced. Where
  /// members of the job change, it has no random numbers, and is not written where they do so meanwhile: then
  /// ranks may return different values.
  bool save(const std::string& folder);
  /// Goes on from the checkpoint in `folder`, or returns false where there is none. On every rank alike, before
  /// batches() and the first step(). Rank 0 reads the folder. In a job whose members change each rank that begins it
  /// does, and one that comes later takes over what the others have instead; random numbers and steps() begin anew.
  /// So they do after a checkpoint of such a job, which may have had another number of ranks. Throws UsageError, in one
  /// line, for a checkpoint that is damaged or that of another program, and where ranks that begin a job differ in it.
  bool load(const std::string& folder);

  /// How many batches have been applied so far. Schedules and stop conditions must be functions of this number
  /// (docs/protocol.md, rule 5).
  std::uint64_t batches_applied() const;
  /// Calls of step() on this rank, with those before load().
  std::uint64_t steps() const;
  /// Which ranks were late, and how many gradients were applied, are pending, or were lost; since load().
  const Ledger& ledger() const;
  /// Prints the ledger, and how many batches were applied in a second, on rank 0's standard output.
  void report() const;
  /// A number for the table of `stretto compare --program`, such as "test accuracy" (a share) or "test loss"; of rank
  /// 0, the last of a name counts. Without effect elsewhere. Throws UsageError for a number that is not finite.
  void record(const std::string& name, double value);
  /// Whether the replicas of all ranks are equal to the bit, as finish() has found.
  bool replicas_identical() const;
  /// This rank's model in flat buckets, for looking at it.
  TorchReplica& replica();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
