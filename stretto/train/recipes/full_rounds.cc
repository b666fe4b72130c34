#include "stretto/train/recipes/full_rounds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

/// How far this rank's model is from the average that a round has summed.
double share_apart(Replica& replica, const RoundResult& result, double divisor) {
  SquaredDistance all;
  for (std::size_t b = 0; b < replica.parameter_buckets().size(); ++b) {
    const SquaredDistance one = squared_distance(replica.parameter_buckets()[b].type,
                                                 replica.parameters(static_cast<int>(b)), result.buckets[b], divisor);
    all.apart += one.apart;
    all.mean += one.mean;
  }
  return all.mean > 0 ? std::sqrt(all.apart / all.mean) : 0;
}

FullRounds::Cargo models_of(const RecipeContext& context, bool momentum, ModelAverage::Distance distance) {
  Replica& replica = context.replica;
  check_weights(context.options.normalize, replica.parameter_buckets());
  const bool weighted = context.options.normalize == Normalize::samples;
  const auto load = [&replica, weighted](Contribution& mine, const DepositInfo& since) {
    const double weight = weighted ? static_cast<double>(since.samples) : 1.0;
    for (std::size_t b = 0; b < replica.parameter_buckets().size(); ++b) {
      const int bucket = static_cast<int>(b);
      scale(replica.parameter_buckets()[b].type, mine.bucket(bucket), replica.parameters(bucket), weight);
    }
  };
  RoundListener* const hears = distance == ModelAverage::Distance::told ? &context.listener : nullptr;
  const auto unload = [&replica, weighted, hears, state = StateAverage(context, momentum)](
                          Driver& driver, const RoundResult& result) mutable {
    const double divisor =
        weighted ? static_cast<double>(result.header->samples) : static_cast<double>(result.header->contributors());
    if (hears != nullptr && divisor != 0) hears->apart(share_apart(replica, result, divisor));
    // Without a sample no rank has moved its model since the last round: they are still alike.
    for (std::size_t b = 0; b < replica.parameter_buckets().size() && divisor != 0; ++b) {
      divide(replica.parameter_buckets()[b].type, replica.parameters(static_cast<int>(b)), result.buckets[b], divisor);
    }
    state.run(driver);
  };
  return {.buckets = replica.parameter_buckets(), .load = load, .unload = unload};
}

}  // namespace

std::uint64_t own_steps(std::uint64_t full_every, int ranks) {
  if (full_every == 0) return kMeetsAtTheEnd;
  return std::max<std::uint64_t>(1, full_every / static_cast<std::uint64_t>(ranks));
}

PartialOptions rounds_of_all(const RecipeOptions& options) {
  return {.policy = Policy::full(),
          .max_lag = options.members_change ? 1 : options.max_lag,  // results are not carried
          .order = SumOrder::fixed,
          .seed = options.seed,
          .batches_before = options.batches_before,
          .seats = options.seats,
          .members_change = options.members_change,
          .rounds_before = options.rounds_before};
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

void FullRounds::note_step(const DepositInfo& step) {
  ++steps_;
  since_.add(step);
}

void FullRounds::note_pass(const DepositInfo& step) {
  ++steps_;
  since_.waited += step.waited;
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

StateAverage::StateAverage(const RecipeContext& context, bool momentum)
    : meeting_(context.meeting),
      members_change_(context.options.members_change),
      momentum_(context.options.algorithm.word("average-momentum", momentum ? "yes" : "no") == "yes"),
      statistics_(context.options.algorithm.word("average-statistics", "end") == "full") {}

void StateAverage::run(Driver& driver) {
  try {
    if (momentum_) meeting_.average_optimizer(driver);
    if (statistics_) meeting_.average_buffers(driver);
  } catch (const Failure& failure) {
    if (!members_change_ || !tells_of_change(failure.error())) throw;
  }
}

void check_state_average(const RecipeOptions& options, bool meet_before_the_end, std::string_view expected) {
  if (meet_before_the_end) return;
  const auto refuse = [&](const char* name, const std::string& value) {
    throw UsageError(text(name, " ", value,
                          " where all ranks meet at the end alone: expected rounds of all before, as with ", expected));
  };
  if (options.algorithm.word("average-momentum", "no") == "yes") refuse("average-momentum", "yes");
  if (options.algorithm.word("average-statistics", "end") == "full") refuse("average-statistics", "full");
}

ModelAverage::ModelAverage(const RecipeContext& context, StepCount step_count, bool momentum, Distance distance)
    : FullRounds(context, models_of(context, momentum, distance), step_count) {}

RecipeContext with_each_model_once(RecipeContext context) {
  context.options.normalize = Normalize::ranks;
  return context;
}

std::optional<std::string> end_own_backward(Replica& replica) {
  replica.end_backward();
  for (std::size_t b = 0; b < replica.buckets().size(); ++b) {
    if (auto non_finite = replica.find_non_finite(static_cast<int>(b))) return non_finite;
  }
  return std::nullopt;
}

}  // namespace stretto
