#include "stretto/train/recipes/eager.h"

#include "stretto/base/error.h"
#include "stretto/train/recipes/gradient_averaging.h"

namespace stretto {
namespace {

class Eager final : public GradientAveraging {
 public:
  explicit Eager(const RecipeContext& context)
      : GradientAveraging(context, context.options.policy, context.options.delivery) {}

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    auto rounds = GradientAveraging::finish(driver, deadline);
    if (rounds && context_.options.delivery == Delivery::latest) context_.meeting.average_parameters(driver);
    return rounds;
  }

  StepWaits waits() const override {
    return waits_of_partial_rounds(context_.options.policy, context_.options.full_every);
  }
  bool averages_gradients() const override { return context_.options.delivery == Delivery::every; }

 private:
  void moved(Driver& driver, const RoundResult& result) override {
    if (context_.options.delivery == Delivery::latest && result.policy.kind == Policy::Kind::full) {
      context_.meeting.average_parameters(driver);
    }
  }
};

}  // namespace

Policy solo_policy(const std::string&, int, int) {
  return Policy::solo();
}

Policy majority_policy(const std::string&, int, int) {
  return Policy::majority();
}

Policy quorum_policy(const std::string& argument, int ranks, int quorum) {
  if (!argument.empty()) return Policy::parse("quorum:" + argument, ranks);
  return Policy::parse(text("quorum:", quorum != 0 ? quorum : (ranks + 1) / 2), ranks);
}

Policy deadline_policy(const std::string& argument, int ranks, int) {
  if (argument.empty()) {
    throw UsageError(text(
        "algorithm \"eager-deadline\": expected a quorum and a time, as in eager-deadline:", (ranks + 1) / 2, ",20ms"));
  }
  return Policy::parse("deadline:" + argument, ranks);
}

std::unique_ptr<Recipe> make_eager(const RecipeContext& context) {
  return std::make_unique<Eager>(context);
}

std::optional<AlgorithmShape> eager_shape(const RecipeOptions& options, int) {
  return AlgorithmShape{
      .exchange = RoundShape{.policy = options.policy, .max_lag = options.max_lag, .full_every = options.full_every}};
}

}  // namespace stretto
