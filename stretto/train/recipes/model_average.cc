#include "stretto/train/recipes/model_average.h"

#include "stretto/train/replica/flat_math.h"

namespace stretto {
PartialOptions rounds_of_all(const RecipeOptions& options) {
  return {.policy = Policy::full(),
          .max_lag = options.max_lag,
          .deposits = DepositKind::taken,
          .order = SumOrder::fixed,
          .seed = options.seed,
          .batches_before = options.batches_before,
          .seats = options.seats};
}

ModelAverage::ModelAverage(const RecipeContext& context)
    : context_(context),
      collective_(std::make_shared<PartialAllreduce>(context.engine, context.replica.buckets(),
                                                     rounds_of_all(context.options))),
      state_(context),
      weighted_(context.options.normalize == Normalize::samples),
      batches_(context.options.batches_before) {}

void ModelAverage::note_step(std::uint64_t samples, Duration computed, Duration waited) {
  ++since_.batches;
  since_.samples += samples;
  since_.computed += computed;
  since_.waited += waited;
}

void ModelAverage::hand_over() {
  const auto& buckets = context_.replica.buckets();
  Contribution& mine = collective_->acquire();
  for (int b = 0; b < collective_->num_buckets(); ++b) {
    scale(buckets[static_cast<std::size_t>(b)].type, mine.bucket(b), context_.replica.parameters(b),
          weighted_ ? static_cast<double>(since_.samples) : 1.0);
  }
  collective_->deposit(mine, since_);
  since_ = {.batches = 0, .samples = 0};
}

Result<int> ModelAverage::exchange(Driver& driver, TimePoint deadline) {
  return collective_->exchange(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
}

Result<bool> ModelAverage::try_exchange(Driver& driver) {
  const auto progress =
      collective_->try_exchange([this, &driver](const RoundResult& result) { apply(driver, result); });
  if (!progress) return progress.error();
  return *progress == PartialAllreduce::Progress::done;
}

Result<int> ModelAverage::finish(Driver& driver, TimePoint deadline) {
  if (since_.batches != 0) hand_over();
  return collective_->finish(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
}

Result<bool> ModelAverage::drain(Driver& driver) {
  if (since_.batches != 0) hand_over();
  const auto progress = collective_->try_finish([this, &driver](const RoundResult& result) { apply(driver, result); });
  if (!progress) return progress.error();
  return *progress == PartialAllreduce::Progress::done;
}

void ModelAverage::apply(Driver& driver, const RoundResult& result) {
  if (!result.empty()) {
    context_.listener.before(result);
    const RoundHeader& header = *result.header;
    const double divisor = weighted_ ? static_cast<double>(header.samples) : header.contributors();
    const auto& buckets = context_.replica.buckets();
    for (int b = 0; b < collective_->num_buckets(); ++b) {
      const auto bucket = static_cast<std::size_t>(b);
      divide(buckets[bucket].type, context_.replica.parameters(b), result.buckets[bucket], divisor);
    }
    state_.run(driver);
  }
  batches_ += result.header->batches;
  context_.listener.after(result);
}

std::optional<std::string> end_own_backward(Replica& replica) {
  replica.end_backward();
  for (std::size_t b = 0; b < replica.buckets().size(); ++b) {
    if (auto non_finite = replica.find_non_finite(static_cast<int>(b))) return non_finite;
  }
  return std::nullopt;
}

}  // namespace stretto
