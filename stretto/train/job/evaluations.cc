#include "stretto/train/job/evaluations.h"

#include <cstring>
#include <utility>

namespace stretto {

Evaluations::Evaluations(const RunPlan& plan, RankTask& task, std::uint64_t batches)
    : plan_(plan), task_(task), evaluated_at_(batches) {}

void Evaluations::after_step(std::uint64_t batches, double seconds) {
  const bool average = std::exchange(average_since_, false);
  const std::uint64_t every = plan_.options.evaluate_every;
  if (every == 0 || batches / every == evaluated_at_ / every) return;
  const bool wants_average = plan_.options.evaluate == "average";
  if (wants_average && !average) return;  // at the first one from now on
  evaluated_at_ = batches;
  evaluate(batches, seconds, wants_average);
}

void Evaluations::evaluate(std::uint64_t batches, double seconds, bool average) {
  points_.push_back({.seconds = seconds,
                     .batches = batches,
                     .average = average,
                     .test = task_.score_test(),
                     .training = task_.score_training()});
  const double loss = points_.back().training.loss;
  if (plan_.options.final_model != "best" || !(loss < lowest_)) return;
  lowest_ = loss;
  keep_weights(batches);
}

void Evaluations::keep_weights(std::uint64_t batches) {
  kept_.clear();
  kept_at_ = batches;
  for (const auto& piece : task_.replica().weights()) kept_.emplace_back(piece.begin(), piece.end());
}

void Evaluations::before_last_rounds() {
  if (plan_.options.final_model == "rank0") keep_weights(0);
}

void Evaluations::finish(std::uint64_t batches, RankReport& report) {
  report.evaluations = std::move(points_);
  report.final_batches = batches;
  if (kept_.empty()) return;
  if (plan_.options.final_model == "best") {
    if (task_.score_training().loss <= lowest_) return;
    report.final_batches = kept_at_;
  }
  const auto weights = task_.replica().weights();
  for (std::size_t i = 0; i < weights.size(); ++i) std::memcpy(weights[i].data(), kept_[i].data(), kept_[i].size());
}

}  // namespace stretto
