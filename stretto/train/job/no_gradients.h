#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stretto/train/job/task.h"
#include "stretto/train/options/train_options.h"

namespace stretto {

/// A task that computes nothing: the batches of another one, gradients, weights and momentum of zeros, losses that are
/// no number. For simulated runs of which the throughput is wanted alone.
///
/// A model of `model_bytes` bytes is stood in for by a smaller one, so that many ranks fit into this machine;
/// NetworkOptions::body_scale = scale() makes its messages take as long as those of the model. Each layer is a bucket,
/// of which servers share out whole ones. In one an allreduce goes the same way for both: the stand-in is as large as a
/// bucket has to be to be reduced as a large one. A pass reads and hands over layer by layer where somebody hears of
/// its progress, and so makes it last.
class NoGradients final : public TrainingTask {
 public:
  /// `task` is read inside the constructor only. `model_bytes` 0: those of its own model, which is made once to see.
  /// `layers`, in the order of the forward pass, share them out. Requires: one layer or more.
  NoGradients(const TrainingTask& task, std::uint64_t model_bytes, std::vector<ModelLayer> layers);

  const TaskFacts& facts() const override { return facts_; }
  std::unique_ptr<RankTask> start_rank(const RankTaskOptions& options) const override;
  /// Bytes of the model for each byte of the stand-in.
  double scale() const;

 private:
  const TaskFacts facts_;
  const std::uint64_t model_bytes_;
  const std::vector<ModelLayer> layers_;   // of bucket 0, the last of the model, first
  const std::vector<BucketSpec> buckets_;  // of the stand-in
};

}  // namespace stretto
