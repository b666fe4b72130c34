#include "stretto/train/sync.h"

#include "stretto/train/gradient_averaging.h"

namespace stretto {
namespace {

class Sync final : public GradientAveraging {
 public:
  explicit Sync(const RecipeContext& context) : GradientAveraging(context, Policy::full(), Delivery::every) {
    if (context.options.overlap) context.replica.on_bucket_ready([this](int bucket) { hand_over(bucket); });
  }
  ~Sync() override { context_.replica.on_bucket_ready(nullptr); }

  void begin_step(std::uint64_t samples, Duration waited) override {
    GradientAveraging::begin_step(samples, waited);
    began_ = context_.engine.clock().now();
  }

  std::optional<std::string> end_backward() override {
    if (!context_.options.overlap) return GradientAveraging::end_backward();
    context_.replica.end_backward();  // hands over what is left
    return non_finite_;
  }

  void deposit(Duration computed) override {
    if (!context_.options.overlap) GradientAveraging::deposit(computed);
  }

 private:
  void hand_over(int bucket) {
    if (!check_bucket(bucket)) return;
    if (bucket == 0) {
      const Duration computed = context_.engine.clock().now() - began_;
      collective_.begin_deposit(*current_, {.samples = samples_, .computed = computed, .waited = waited_});
    }
    collective_.bucket_ready(*current_, bucket);
  }

  TimePoint began_;
};

}  // namespace

Policy sync_policy(const std::string&, int, int) {
  return Policy::full();
}

std::unique_ptr<Recipe> make_sync(const RecipeContext& context) {
  return std::make_unique<Sync>(context);
}

}  // namespace stretto
