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
          .deposits = DepositKind::taken,
          .order = SumOrder::fixed,
          .seed = options.seed,
          .batches_before = options.batches_before,
          .seats = options.seats};
}

FullRounds::FullRounds(const RecipeContext& context, Cargo cargo)
    : listener_(context.listener),
      cargo_(std::move(cargo)),
      collective_(std::make_shared<PartialAllreduce>(context.engine, cargo_.buckets, rounds_of_all(context.options))),
      batches_(context.options.batches_before) {}

void FullRounds::note_step(std::uint64_t samples, Duration computed, Duration waited) {
  ++since_.batches;
  since_.samples += samples;
  since_.computed += computed;
  since_.waited += waited;
}

void FullRounds::hand_over() {
  Contribution& mine = collective_->acquire();
  cargo_.load(mine, since_);
  collective_->deposit(mine, since_);
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
  if (since_.batches != 0) hand_over();
  return collective_->finish(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
}

Result<bool> FullRounds::drain(Driver& driver) {
  if (since_.batches != 0) hand_over();
  const auto progress = collective_->try_finish([this, &driver](const RoundResult& result) { apply(driver, result); });
  if (!progress) return progress.error();
  return *progress == PartialAllreduce::Progress::done;
}

void FullRounds::apply(Driver& driver, const RoundResult& result) {
  if (!result.empty()) {
    listener_.before(result);
    cargo_.unload(driver, result);
  }
  batches_ += result.header->batches;
  listener_.after(result);
}

}  // namespace stretto
