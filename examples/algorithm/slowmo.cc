// An algorithm of one's own, and the program that trains with it beside those of the library. SlowMo (Wang, Tantia,
// Ballas and Rabbat, "SlowMo: Improving Communication-Efficient Distributed SGD with Slow Momentum", ICLR 2020), with
// its slow rate at 1 and under a constant learning rate: each rank takes H steps of its own, then the models of all
// ranks are averaged, and the weights go beyond the average by a share of the way they went at the round before. A
// round is one full allreduce of the model, as under local. docs/own_algorithm.md explains it part by part.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/command.h"
#include "stretto/stretto.h"

namespace {

using namespace stretto;

constexpr const char* kMomentum = "slow-momentum";

template <class Number>
std::span<Number> numbers(std::span<std::byte> bytes) {
  return {reinterpret_cast<Number*>(bytes.data()), bytes.size() / sizeof(Number)};
}

class SlowMo final : public Recipe {
 public:
  explicit SlowMo(const RecipeContext& context)
      : context_(context),
        momentum_(context.options.algorithm.number(kMomentum, 0.5)),
        collective_(std::make_shared<PartialAllreduce>(context.engine, context.replica.parameter_buckets(),
                                                       PartialOptions{.policy = Policy::full(),
                                                                      .max_lag = context.options.max_lag,
                                                                      .batches_before = context.options.batches_before,
                                                                      .seats = context.options.seats})) {
    for (const BucketSpec& bucket : context.replica.parameter_buckets()) {
      if (bucket.type != DataType::float32 && bucket.type != DataType::float64) {
        throw UsageError(text("slowmo with parameters of ", name_of(bucket.type), ": expected float32 or float64"));
      }
      velocity_.emplace_back(bucket.count * size_of(bucket.type));
    }
  }

  // A step of this rank's own.

  void begin_step(const DepositInfo&) override { context_.replica.attach_own(); }

  std::optional<std::string> end_backward() override {
    context_.replica.end_backward();
    for (int b = 0; b < collective_->num_buckets(); ++b) {
      if (auto non_finite = context_.replica.find_non_finite(b)) return non_finite;
    }
    return std::nullopt;
  }

  void deposit(const DepositInfo& step) override {
    begin();
    context_.replica.step();
    since_.add(step);
    if (since_.batches == context_.options.local_steps) hand_over();
  }

  // Rounds of all ranks. After a timeout each of these is called again, and goes on where it was.

  Result<int> advance(Driver& driver, TimePoint deadline) override {
    if (since_.batches != 0) return 0;  // on the way to the next round
    return collective_->exchange(driver, deadline, [this](const RoundResult& result) { apply(result); });
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    hand_over_the_rest();
    return collective_->finish(driver, deadline, [this](const RoundResult& result) { apply(result); });
  }

  Result<bool> drain(Driver&) override {
    hand_over_the_rest();
    const auto progress = collective_->try_finish([this](const RoundResult& result) { apply(result); });
    if (!progress) return progress.error();
    return *progress == PartialAllreduce::Progress::done;
  }

  // What others ask.

  std::vector<std::shared_ptr<Collective>> collectives() const override { return {collective_}; }
  Round rounds() const override { return collective_->handed(); }
  bool averages_gradients() const override { return false; }
  StepWaits waits() const override { return {.for_ranks_behind = context_.options.local_steps > 1}; }

  RecipeMemory memory() const override {
    RecipeMemory all = memory_of(*collective_);
    for (const auto& bucket : velocity_) all.bytes += 2 * bucket.size();
    all.parts += ", the weights of the last round and their velocity";
    return all;
  }

  /// The velocity, bucket by bucket. The weights of the last round are the replica's where a checkpoint is written.
  std::string state() const override {
    std::string all;
    for (const auto& bucket : velocity_) all.append(reinterpret_cast<const char*>(bucket.data()), bucket.size());
    return all;
  }

  void set_state(const std::string& state) override {
    if (state.size() != this->state().size()) {
      throw Failure({Errc::bad_input, "the velocity of slowmo in the checkpoint is that of another model"});
    }
    const char* from = state.data();
    for (auto& bucket : velocity_) {
      std::memcpy(bucket.data(), from, bucket.size());
      from += bucket.size();
    }
  }

 private:
  /// The weights of rank 0, or of a checkpoint, are there from the first step on.
  void begin() {
    if (!before_.empty()) return;
    for (int b = 0; b < collective_->num_buckets(); ++b) {
      const auto weights = context_.replica.parameters(b);
      before_.emplace_back(weights.begin(), weights.end());
    }
  }

  void hand_over() {
    Contribution& mine = collective_->acquire();
    for (int b = 0; b < collective_->num_buckets(); ++b) {
      const auto weights = context_.replica.parameters(b);
      std::memcpy(mine.bucket(b).data(), weights.data(), weights.size());
    }
    collective_->deposit(mine, since_);
    since_ = {.batches = 0, .samples = 0};
  }

  void hand_over_the_rest() {
    begin();
    if (since_.batches != 0) hand_over();
  }

  /// Every rank gets the same sums in the same order, so that all have the same weights and velocities to the bit.
  void apply(const RoundResult& result) {
    if (!result.empty()) {
      context_.listener.before(result);
      for (int b = 0; b < collective_->num_buckets(); ++b) {
        const DataType type = context_.replica.parameter_buckets()[static_cast<std::size_t>(b)].type;
        type == DataType::float32 ? move<float>(b, result) : move<double>(b, result);
      }
    }
    context_.listener.after(result);
  }

  template <class Number>
  void move(int bucket, const RoundResult& result) {
    const auto b = static_cast<std::size_t>(bucket);
    const std::span<const Number> sum = result.as<Number>(bucket);
    const auto weights = numbers<Number>(context_.replica.parameters(bucket));
    const auto before = numbers<Number>(before_[b]), velocity = numbers<Number>(velocity_[b]);
    const auto models = static_cast<Number>(result.header->contributors()), momentum = static_cast<Number>(momentum_);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      weights[i] = sum[i] / models + momentum * velocity[i];
      velocity[i] = weights[i] - before[i];
      before[i] = weights[i];
    }
  }

  const RecipeContext context_;
  const double momentum_;
  const std::shared_ptr<PartialAllreduce> collective_;
  std::vector<std::vector<std::byte>> before_;     // the weights after the last round; empty before the first step
  std::vector<std::vector<std::byte>> velocity_;   // by how much that round has moved them
  DepositInfo since_{.batches = 0, .samples = 0};  // the last hand_over()
};

void check_slowmo(const RecipeOptions& options, int) {
  if (options.normalize == Normalize::samples) {
    throw UsageError(
        "normalize samples with algorithm 'slowmo': expected contributors, since it counts each model once");
  }
}

constexpr AlgorithmOption kOptions[] = {
    {kMomentum, "M",
     "slowmo: share of the way at the last round by which the weights go beyond the average of the models, from 0, "
     "which is local, to 0.99. More smooths more, and wants a smaller --lr. Default 0.5.",
     "0.5", AlgorithmOption::Kind::number, 0, 0.99}};

constexpr RecipeInfo kSlowMo{
    .name = "slowmo",
    .argument = "",
    .description = "models, averaged every --sync-every steps of their own, with a slow momentum (SlowMo)",
    .data = "partitioned",
    .policy = [](const std::string&, int, int) { return Policy::full(); },
    .make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> { return std::make_unique<SlowMo>(context); },
    .averages_models = true,
    .local_steps = 8,
    .check = check_slowmo,
    .own_options = kOptions};

}  // namespace

int main(int argc, char** argv) {
  return stretto::command_main(argc, argv, {kSlowMo});
}
