#include "stretto/train/recipes/sync.h"

#include "stretto/base/error.h"
#include "stretto/train/recipes/gradient_averaging.h"
#include "stretto/train/recipes/options/ordering_choice.h"

namespace stretto {
namespace {

class Sync final : public GradientAveraging {
 public:
  explicit Sync(const RecipeContext& context) : GradientAveraging(context, Policy::full(), Delivery::every) {
    if (context.options.overlap) context.replica.on_bucket_ready([this](int bucket) { hand_over(bucket); });
  }
  ~Sync() override { context_.replica.on_bucket_ready(nullptr); }

  std::optional<std::string> end_backward() override {
    if (!context_.options.overlap) return GradientAveraging::end_backward();
    context_.replica.end_backward();  // hands over what is left
    hand_over_notes();
    return non_finite_;
  }

  void deposit(const DepositInfo& step) override {
    if (!context_.options.overlap) return GradientAveraging::deposit(step);
    if (begun_) current_ = nullptr;  // handed over
  }

  void pass(const DepositInfo& step) override {
    if (!begun_) return GradientAveraging::pass(step);
    throw UsageError(
        "pass() with overlap after gradients of the batch have been handed over: expected no overlap where a rank may "
        "drop a batch");
  }

  Result<int> advance(Driver& driver, TimePoint deadline) override {
    auto rounds = GradientAveraging::advance(driver, deadline);
    if (rounds) begun_ = false;
    return rounds;
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    if (const auto failed = complete_deposit()) return *failed;
    if (!begun_) return GradientAveraging::finish(driver, deadline);
    auto rounds = advance(driver, deadline);
    if (!rounds) return rounds;
    const auto last = GradientAveraging::finish(driver, deadline);
    return last ? Result<int>(*rounds + *last) : last;
  }

  Result<bool> drain(Driver& driver) override {
    drained_ = true;
    if (const auto failed = complete_deposit()) return *failed;
    if (begun_) {
      const auto progress = collective_->try_exchange([&](const RoundResult& result) { apply(driver, result); });
      if (!progress) return progress.error();
      if (*progress == PartialAllreduce::Progress::waiting) return false;
      begun_ = false;
    }
    return GradientAveraging::drain(driver);
  }

 private:
  /// A loop that was left between backward pass and step has handed over some buckets, and all ranks wait for the rest.
  std::optional<Error> complete_deposit() {
    if (!begun_ || complete_) return std::nullopt;
    const auto non_finite = end_backward();
    if (!non_finite) return std::nullopt;
    return Error{Errc::aborted, *non_finite + " is not finite"};
  }

  void hand_over_notes() {
    if (!begun_ || non_finite_) return;
    write_notes();
    if (notes_) collective_->bucket_ready(*current_, num_buckets_);
    complete_ = true;
  }

  void hand_over(int bucket) {
    if (drained_ && !begun_) return;
    if (!check_bucket(bucket)) return;
    if (bucket == 0) {
      begun_ = true;
      complete_ = false;
      begin_deposit();
    }
    collective_->bucket_ready(*current_, bucket);
  }

  bool begun_ = false;     // a deposit, and its round has not been applied
  bool complete_ = false;  // all its buckets have been handed over
  bool drained_ = false;   // no deposit begins any more
};

}  // namespace

Policy sync_policy(const std::string&, int, int) {
  return Policy::full();
}

std::unique_ptr<Recipe> make_sync(const RecipeContext& context) {
  const bool sums = context.replica.model_collectives() != nullptr;
  OrderingChoice choice =
      ordering_choice(context.options.algorithm, context.engine.size(), sums ? kOrderOfModelSums : kDefaultOrdering);
  choice.ordering.share_memory = context.options.seats != 1;
  choice.ordering.background_cores = context.options.cores.background;
  choice.ordering.background_first = context.options.cores.lends;
  if (choice.ordering.kind != OrderingOptions::Kind::none) return make_ordered_sync(context, choice);
  return std::make_unique<Sync>(context);
}

void check_sync(const RecipeOptions& options, int ranks) {
  ordering_choice(options.algorithm, ranks);
}

std::optional<AlgorithmShape> sync_shape(const RecipeOptions& options, int) {
  return AlgorithmShape{.exchange = RoundShape{.policy = Policy::full(), .max_lag = options.max_lag}};
}

}  // namespace stretto
