#pragma once

#include <cstdint>
#include <memory>

#include "stretto/train/job/task.h"

namespace stretto {

/// A task that computes nothing: the batches of another one, gradients, weights and momentum of zeros, losses that are
/// no number. For simulated runs of which the throughput is wanted alone.
///
/// A model of `model_bytes` bytes is stood in for by a smaller one, so that many ranks fit into this machine;
/// NetworkOptions::body_scale = scale() makes its messages take as long as those of the model. It is in `buckets`
/// buckets of equal size, of which servers share out whole ones. In one an allreduce goes the same way for both: the
/// stand-in is as large as a bucket has to be to be reduced as a large one.
class NoGradients final : public TrainingTask {
 public:
  /// `task` is read inside the constructor only. `model_bytes` 0: those of its own model, which is made once to see.
  /// Requires: buckets > 0.
  NoGradients(const TrainingTask& task, std::uint64_t model_bytes, int buckets);

  const TaskFacts& facts() const override { return facts_; }
  std::unique_ptr<RankTask> start_rank(const RankTaskOptions& options) const override;
  /// Bytes of the model for each byte of the stand-in.
  double scale() const;

 private:
  const TaskFacts facts_;
  const std::uint64_t model_bytes_;
  const std::uint64_t buckets_;
  const std::uint64_t count_;  // elements of a bucket of the stand-in
};

}  // namespace stretto
