
#include "stretto/base/error.h"
#include "stretto/train/recipes/diloco.h"
#include "stretto/train/recipes/full_rounds.h"

namespace stretto {
namespace {

class Local final : public Recipe {
 public:
  explicit Local(const RecipeContext& context)
      : context_(context), average_(context), post_local_(context.options.algorithm.count("post-local", 0)) {}

  void begin_step(const DepositInfo&) override { context_.replica.attach_own(); }

  std::optional<std::string> end_backward() override { return end_own_backward(context_.replica); }

  void deposit(const DepositInfo& step) override {
    context_.replica.step();
    average_.note_step(step);
    if (average_.steps() >= steps_between_averages()) average_.hand_over();
  }

  void pass(const DepositInfo& step) override {
    average_.note_pass(step);
    if (average_.steps() >= steps_between_averages()) average_.hand_over();
  }

  Result<int> advance(Driver& driver, TimePoint deadline) override {
    if (average_.steps() != 0) return 0;  // on the way to the next average
    return average_.exchange(driver, deadline);
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override { return average_.finish(driver, deadline); }
  Result<bool> drain(Driver& driver) override { return average_.drain(driver); }

  std::vector<std::shared_ptr<Collective>> collectives() const override { return {average_.collective()}; }
  Round rounds() const override { return average_.collective()->handed(); }
  RecipeMemory memory() const override { return memory_of(*average_.collective()); }
  StepWaits waits() const override { return {.for_ranks_behind = context_.options.local_steps > 1}; }
  void go_on_after(std::uint64_t batches) override { average_.go_on_after(batches); }
  bool averages_gradients() const override { return false; }

 private:
  std::uint64_t steps_between_averages() const {
    return average_.batches() < post_local_ ? 1 : context_.options.local_steps;
  }

  const RecipeContext context_;
  ModelAverage average_;
  const std::uint64_t post_local_;
};

}  // namespace

void check_local(const RecipeOptions& options, int) {
  if (options.local_steps == 0) throw UsageError("local: expected at least one step between two averages");
  check_state_average(options, options.policy.kind == Policy::Kind::full || options.full_every != 0,
                      "checkpoint-every 1000");
}

std::unique_ptr<Recipe> make_local(const RecipeContext& context) {
  check_local(context.options, context.engine.size());
  const bool full = context.options.policy.kind == Policy::Kind::full;
  if (!full || context.options.members_change) return make_local_by_policy(context);
  return std::make_unique<Local>(context);
}

std::optional<AlgorithmShape> local_shape(const RecipeOptions& options, int) {
  if (options.algorithm.given("post-local")) return std::nullopt;
  const bool full = options.policy.kind == Policy::Kind::full;
  return AlgorithmShape{
      .every = options.local_steps,
      .exchange = RoundShape{
          .policy = options.policy, .max_lag = options.max_lag, .full_every = full ? 0 : options.full_every}};
}

}  // namespace stretto
