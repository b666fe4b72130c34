#pragma once

#include <optional>
#include <span>
#include <vector>

#include "stretto/train/recipe.h"

namespace stretto {

/// What the algorithms that average gradients have in common: gradients are computed into the memory of a deposit,
/// handed over as a whole, and each round that comes back moves the weights once, by the average.
class GradientAveraging : public Recipe {
 public:
  GradientAveraging(const RecipeContext& context, Policy policy, Delivery delivery);

  void begin_step(std::uint64_t samples, Duration waited) override;
  void set_samples(std::uint64_t samples) override { samples_ = samples; }
  std::optional<std::string> end_backward() override;
  void deposit(Duration computed) override;
  Result<int> exchange(EngineDriver& driver, TimePoint deadline) override;
  Result<int> finish(EngineDriver& driver, TimePoint deadline) override;
  PartialAllreduce& collective() override { return collective_; }
  bool averages_gradients() const override { return true; }

 protected:
  /// What is done with each round, in order.
  virtual void apply(EngineDriver& driver, const RoundResult& result);
  /// Moves the weights by the average of what a round has brought. Requires: it is not empty.
  void move(const RoundResult& result);
  /// Whether the bucket may be handed over; weighs it by its samples where the average is over samples.
  /// Requires: in order. After the first that is not finite nothing is.
  bool check_bucket(int bucket);

  RecipeContext context_;
  PartialAllreduce collective_;
  Contribution* current_ = nullptr;        // being filled
  std::uint64_t samples_ = 0;              // of the step under way
  Duration waited_{0};                     // before it
  std::optional<std::string> non_finite_;  // the first gradient of this step that is not finite
};

}  // namespace stretto
