#include "stretto/train/recipes/local.h"

#include <cstring>

#include "stretto/base/error.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

PartialOptions partial_options(const RecipeOptions& options) {
  return {.policy = Policy::full(),
          .max_lag = options.max_lag,
          .deposits = DepositKind::taken,
          .order = SumOrder::fixed,
          .seed = options.seed,
          .batches_before = options.batches_before,
          .seats = options.seats};
}

class Local final : public Recipe {
 public:
  explicit Local(const RecipeContext& context)
      : context_(context),
        collective_(std::make_shared<PartialAllreduce>(context.engine, context.replica.buckets(),
                                                       partial_options(context.options))),
        weighted_(context.options.normalize == Normalize::samples) {}

  void begin_step(std::uint64_t samples, Duration waited) override {
    samples_ = samples;
    since_.waited += waited;
    context_.replica.attach_own();
  }

  void set_samples(std::uint64_t samples) override { samples_ = samples; }

  std::optional<std::string> end_backward() override {
    context_.replica.end_backward();
    for (int b = 0; b < collective_->num_buckets(); ++b) {
      if (auto non_finite = context_.replica.find_non_finite(b)) return non_finite;
    }
    return std::nullopt;
  }

  void deposit(Duration computed) override {
    context_.replica.step();
    ++since_.batches;
    since_.samples += samples_;
    since_.computed += computed;
    if (since_.batches >= context_.options.local_steps) hand_over();
  }

  Result<int> exchange(Driver& driver, TimePoint deadline) override {
    if (since_.batches != 0) return 0;  // on the way to the next average
    return collective_->exchange(driver, deadline, [this](const RoundResult& result) { apply(result); });
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    if (since_.batches != 0) hand_over();
    return collective_->finish(driver, deadline, [this](const RoundResult& result) { apply(result); });
  }

  Result<bool> drain(Driver&) override {
    if (since_.batches != 0) hand_over();
    const auto progress = collective_->try_finish([this](const RoundResult& result) { apply(result); });
    if (!progress) return progress.error();
    return *progress == PartialAllreduce::Progress::done;
  }

  std::vector<std::shared_ptr<Collective>> collectives() const override { return {collective_}; }
  Round rounds() const override { return collective_->handed(); }
  RecipeMemory memory() const override { return memory_of(*collective_); }
  bool averages_gradients() const override { return false; }

 private:
  DataType type_of(int bucket) const { return context_.replica.buckets()[static_cast<std::size_t>(bucket)].type; }

  void hand_over() {
    Contribution& mine = collective_->acquire();
    for (int b = 0; b < collective_->num_buckets(); ++b) {
      scale(type_of(b), mine.bucket(b), context_.replica.parameters(b),
            weighted_ ? static_cast<double>(since_.samples) : 1.0);
    }
    collective_->deposit(mine, since_);
    since_ = {.batches = 0, .samples = 0};
  }

  void apply(const RoundResult& result) {
    if (!result.empty()) {
      context_.listener.before(result);
      const RoundHeader& header = *result.header;
      const double divisor = weighted_ ? static_cast<double>(header.samples) : header.contributors();
      for (int b = 0; b < collective_->num_buckets(); ++b) {
        divide(type_of(b), context_.replica.parameters(b), result.buckets[static_cast<std::size_t>(b)], divisor);
      }
    }
    context_.listener.after(result);
  }

  RecipeContext context_;
  const std::shared_ptr<PartialAllreduce> collective_;
  const bool weighted_;
  std::uint64_t samples_ = 0;                      // of the step under way
  DepositInfo since_{.batches = 0, .samples = 0};  // the last average
};

}  // namespace

std::unique_ptr<Recipe> make_local(const RecipeContext& context) {
  if (context.options.local_steps == 0) throw UsageError("local: expected at least one step between two averages");
  return std::make_unique<Local>(context);
}

}  // namespace stretto
