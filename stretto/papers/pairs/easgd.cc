#include "stretto/papers/pairs/easgd.h"

#include <cstring>

#include "stretto/base/error.h"
#include "stretto/kernel/combine.h"
#include "stretto/kernel/mix.h"
#include "stretto/train/recipes/full_rounds.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {

ElasticOptions elastic_options(const RecipeOptions& options, int ranks) {
  const double alpha = options.algorithm.number("alpha", 0.9 / ranks);
  const double beta = options.algorithm.number("beta", ranks * alpha);
  if (!(alpha > 0 && alpha <= 1 && alpha * ranks < 2)) {
    throw UsageError(text("alpha ", alpha, " with ", ranks, " ranks: expected above 0, at most 1, and below ",
                          2.0 / ranks, " (2 / ranks), as in alpha ", 0.9 / ranks));
  }
  if (!(beta > 0 && beta < 2 && beta <= ranks)) {
    throw UsageError(text("beta ", beta, " with ", ranks, " ranks: expected above 0, below 2, and at most ", ranks,
                          ", as in beta 0.9"));
  }
  return {.alpha = alpha, .beta = beta};
}

std::string elastic_warning(const ElasticOptions& options, int ranks) {
  if (options.alpha * ranks < 1) return {};
  return text("alpha ", options.alpha, " with ", ranks, " ranks: from ", 1.0 / ranks,
              " (1 / ranks) on the models swing about the center before they come closer; ", 0.9 / ranks,
              " is the default");
}

void check_elastic_options(const RecipeOptions& options, int ranks) {
  if (options.local_steps == 0) throw UsageError("elastic averaging: expected at least one step between two exchanges");
  (void)elastic_options(options, ranks);
}

namespace {

class Easgd final : public Recipe {
 public:
  explicit Easgd(const RecipeContext& context)
      : context_(context),
        elastic_(elastic_options(context.options, context.engine.size())),
        collective_(std::make_shared<PartialAllreduce>(context.engine, context.replica.parameter_buckets(),
                                                       rounds_of_all(context.options))),
        state_(context),
        center_(context.replica.parameter_buckets(), 0),
        own_(context.replica.parameter_buckets(), 1) {}

  void begin_step(const DepositInfo&) override {
    begin();
    context_.replica.attach_own();
  }

  std::optional<std::string> end_backward() override { return end_own_backward(context_.replica); }

  void deposit(const DepositInfo& step) override {
    context_.replica.step();
    since_.add(step);
    if (++steps_ == context_.options.local_steps) hand_over();
  }

  void pass(const DepositInfo& step) override {
    since_.waited += step.waited;
    if (++steps_ == context_.options.local_steps) hand_over();
  }

  Result<int> advance(Driver& driver, TimePoint deadline) override {
    if (steps_ != 0) return 0;  // on the way to the next round
    return collective_->exchange(driver, deadline,
                                 [this, &driver](const RoundResult& result) { apply(driver, result); });
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    prepare_end();
    auto rounds =
        collective_->finish(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
    if (rounds) show_center();
    return rounds;
  }

  Result<bool> drain(Driver& driver) override {
    prepare_end();
    const auto progress =
        collective_->try_finish([this, &driver](const RoundResult& result) { apply(driver, result); });
    if (!progress) return progress.error();
    return *progress == PartialAllreduce::Progress::done;
  }

  std::vector<std::shared_ptr<Collective>> collectives() const override { return {collective_}; }
  Round rounds() const override { return collective_->handed(); }
  RecipeMemory memory() const override {
    RecipeMemory memory = memory_of(*collective_);
    for (const BucketSpec& bucket : context_.replica.parameter_buckets())
      memory.bytes += 2 * bucket.count * size_of(bucket.type);
    memory.parts += ", the center, and the model while the center is shown";
    return memory;
  }
  std::string warning() const override { return elastic_warning(elastic_, context_.engine.size()); }
  StepWaits waits() const override { return {.for_ranks_behind = context_.options.local_steps > 1}; }
  /// What the center would have got of this rank's model, which goes with its world, stays in that.
  void stand_still() override {
    for (int b = 0; handed_over_ != nullptr && b < num_buckets(); ++b) {
      reduce(spec(b).type, ReduceOp::sum, model(b).data(), model(b).data(), handed_over_->bucket(b).data(),
             spec(b).count);
    }
  }
  bool averages_gradients() const override { return false; }

 private:
  int num_buckets() const { return collective_->num_buckets(); }
  const BucketSpec& spec(int bucket) const {
    return context_.replica.parameter_buckets()[static_cast<std::size_t>(bucket)];
  }
  std::span<std::byte> model(int bucket) { return context_.replica.parameters(bucket); }

  static void copy(std::span<std::byte> to, std::span<const std::byte> from) {
    std::memcpy(to.data(), from.data(), from.size());
  }

  /// The center is what all ranks begin with.
  void begin() {
    if (begun_) return;
    begun_ = true;
    for (int b = 0; b < num_buckets(); ++b) copy(center_.bucket(b), model(b));
  }

  void prepare_end() {
    begin();
    if (steps_ != 0) hand_over();
  }

  void hand_over() {
    Contribution& mine = collective_->acquire();
    for (int b = 0; b < num_buckets(); ++b) {
      copy(mine.bucket(b), model(b));
      mix(spec(b).type, center_.bucket(b).data(), mine.bucket(b).data(), spec(b).count, 0, elastic_.alpha);
      subtract(spec(b).type, model(b).data(), mine.bucket(b).data(), spec(b).count);
    }
    collective_->deposit(mine, since_);
    handed_over_ = &mine;
    steps_ = 0;
    since_ = {.batches = 0, .samples = 0};
  }

  void show_center() {
    for (int b = 0; b < num_buckets(); ++b) copy(model(b), center_.bucket(b));
  }

  void apply(Driver& driver, const RoundResult& result) {
    for (int b = 0; b < num_buckets(); ++b) copy(own_.bucket(b), model(b));
    if (!result.empty()) {
      context_.listener.before(result);
      handed_over_ = nullptr;
      const double share = elastic_.beta / (elastic_.alpha * context_.engine.size());
      for (int b = 0; b < num_buckets(); ++b) {
        scale(spec(b).type, model(b), result.buckets[static_cast<std::size_t>(b)], share);
        reduce(spec(b).type, ReduceOp::sum, center_.bucket(b).data(), center_.bucket(b).data(), model(b).data(),
               spec(b).count);
      }
      state_.run(driver);
    }
    show_center();
    context_.listener.after(result);
    for (int b = 0; b < num_buckets(); ++b) copy(model(b), own_.bucket(b));
  }

  const RecipeContext context_;
  const ElasticOptions elastic_;
  const std::shared_ptr<PartialAllreduce> collective_;
  StateAverage state_;
  Contribution center_;
  Contribution own_;                               // the rank's model while the center is shown
  bool begun_ = false;                             // the center is there
  Contribution* handed_over_ = nullptr;            // in no round that has been applied
  std::uint64_t steps_ = 0;                        // since the last hand_over(), with those passed
  DepositInfo since_{.batches = 0, .samples = 0};  // the last hand_over()
};

}  // namespace

std::unique_ptr<Recipe> make_easgd(const RecipeContext& context) {
  return std::make_unique<Easgd>(context);
}

}  // namespace stretto
