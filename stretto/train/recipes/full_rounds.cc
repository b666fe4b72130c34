#include "stretto/train/recipes/full_rounds.h"

#include <algorithm>
#include <utility>

namespace stretto {

std::uint64_t own_steps(std::uint64_t full_every, int ranks) {
  if (full_every == 0) return kMeetsAtTheEnd;
  return std::max<std::uint64_t>(1, full_every / static_cast<std::uint64_t>(ranks));
}

PartialOptions rounds_of_all(const RecipeOptions& options) {
  return {.policy = Policy::full(),
          .max_lag = options.max_lag,
          .order = SumOrder::fixed,
          .seed = options.seed,
          .batches_before = options.batches_before,
          .seats = options.seats};
}

namespace {

std::vector<BucketSpec> buckets_of(const FullRounds::Cargo& cargo, FullRounds::StepCount step_count) {
  std::vector<BucketSpec> buckets = cargo.buckets;
  if (step_count == FullRounds::StepCount::told) buckets.push_back({DataType::int64, 1});
  return buckets;
}

}  // namespace

FullRounds::FullRounds(const RecipeContext& context, Cargo cargo, StepCount step_count)
    : listener_(context.listener),
      cargo_(std::move(cargo)),
      step_count_(step_count),
      collective_(std::make_shared<PartialAllreduce>(context.engine, buckets_of(cargo_, step_count),
                                                     rounds_of_all(context.options))),
      batches_(context.options.batches_before) {}

void FullRounds::note_step(std::uint64_t samples, Duration computed, Duration waited) {
  ++steps_;
  ++since_.batches;
  since_.samples += samples;
  since_.computed += computed;
  since_.waited += waited;
}

void FullRounds::note_pass(Duration waited) {
  ++steps_;
  since_.waited += waited;
}

void FullRounds::hand_over() {
  Contribution& mine = collective_->acquire();
  cargo_.load(mine, since_);
  if (step_count_ == StepCount::told) {
    mine.as<std::int64_t>(static_cast<int>(cargo_.buckets.size()))[0] = static_cast<std::int64_t>(steps_);
  }
  collective_->deposit(mine, since_);
  steps_ = 0;
  since_ = {.batches = 0, .samples = 0};
}

Result<int> FullRounds::exchange(Driver& driver, TimePoint deadline) {
  return collective_->exchange(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
}

Result<bool> FullRounds::try_exchange(Driver& driver) {
  const auto progress =
      collective_->try_exchange([this, &driver](const RoundResult& result) { apply(driver, result); });
  if (!progress) return progress.error();
  return *progress == PartialAllreduce::Progress::done;
}

Result<int> FullRounds::finish(Driver& driver, TimePoint deadline) {
  if (steps_ != 0) hand_over();
  return collective_->finish(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
}

Result<bool> FullRounds::drain(Driver& driver) {
  if (steps_ != 0) hand_over();
  const auto progress = collective_->try_finish([this, &driver](const RoundResult& result) { apply(driver, result); });
  if (!progress) return progress.error();
  return *progress == PartialAllreduce::Progress::done;
}

void FullRounds::apply(Driver& driver, const RoundResult& result) {
  if (!result.empty()) {
    listener_.before(result);
    RoundResult cargo = result;
    cargo.buckets = result.buckets.first(cargo_.buckets.size());
    cargo_.unload(driver, cargo);
  }
  if (step_count_ == StepCount::told) {
    const auto all = static_cast<int>(cargo_.buckets.size());
    steps_ended_ = result.empty() ? 0 : static_cast<std::uint64_t>(result.as<std::int64_t>(all)[0]);
  }
  batches_ += result.header->batches;
  listener_.after(result);
}

}  // namespace stretto
