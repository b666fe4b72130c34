#include "stretto/train/recipes/diloco.h"

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/collective/outer_phases.h"
#include "stretto/train/recipes/full_rounds.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {

OuterOptimizer::OuterOptimizer(std::vector<BucketSpec> buckets, OuterOptimizerOptions options)
    : buckets_(std::move(buckets)), options_(options) {
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw UsageError(text("outer-momentum ", options.momentum, ": expected a number from 0 to below 1, such as 0.9"));
  }
  if (!(options.lr > 0 && std::isfinite(static_cast<float>(options.lr)))) {
    throw UsageError(text("outer-lr ", options.lr, ": expected a number above 0, such as 0.7"));
  }
  for (const BucketSpec& bucket : buckets_) velocity_.emplace_back(bucket.count * size_of(bucket.type));
}

void OuterOptimizer::step(int bucket, std::span<std::byte> model, std::span<const std::byte> sum, double divisor) {
  const auto b = static_cast<std::size_t>(bucket);
  nesterov_step(buckets_[b].type, model, velocity_[b], sum, divisor, options_.lr, options_.momentum);
}

std::string OuterOptimizer::state() const {
  std::string out;
  for (const auto& bucket : velocity_) out.append(reinterpret_cast<const char*>(bucket.data()), bucket.size());
  return out;
}

void OuterOptimizer::set_state(std::string_view state) {
  if (state.size() != bytes()) {
    throw Failure({Errc::bad_input, text("outer momentum of ", state.size(), " bytes, expected ", bytes())});
  }
  const char* from = state.data();
  for (auto& bucket : velocity_) {
    std::memcpy(bucket.data(), from, bucket.size());
    from += bucket.size();
  }
}

std::uint64_t OuterOptimizer::bytes() const {
  std::uint64_t all = 0;
  for (const auto& bucket : velocity_) all += bucket.size();
  return all;
}

namespace {

constexpr OuterOptimizerOptions kPlainAverage{.lr = 1, .momentum = 0};
constexpr std::uint64_t kPhasesKept = 10;  // of each rank, between full rounds, where weights are kept

/// What the sum of a round is divided by.
enum class Divisor {
  ranks,
  contributors,
  phases,   ///< batches / H
  samples,  ///< which weigh each pseudo-gradient
};

struct Variant {
  OuterOptimizerOptions outer;
  Divisor divisor = Divisor::ranks;
  bool keep = false;
  std::uint64_t full_every = 0;  // batches
};

bool keeps(const RecipeOptions& options) {
  return options.algorithm.word("keep", "no") == "yes";
}

std::uint64_t full_every(const RecipeOptions& options, int ranks) {
  if (options.policy.kind == Policy::Kind::full) return 0;
  const std::uint64_t phase_of_all = options.local_steps * static_cast<std::uint64_t>(ranks);
  const std::uint64_t unless_said = keeps(options) ? kPhasesKept * phase_of_all : 0;
  return std::gcd(options.full_every, options.algorithm.count("full-every", unless_said));
}

Variant diloco_variant(const RecipeOptions& options, int ranks) {
  // Weights that are kept do not see the outer steps between full rounds. With momentum the outer model would run ahead
  // of them, lr / (1 − momentum) times as far.
  const OuterOptimizerOptions defaults = keeps(options) ? kPlainAverage : OuterOptimizerOptions();
  return {.outer = {.lr = options.algorithm.number("outer-lr", defaults.lr),
                    .momentum = options.algorithm.number("outer-momentum", defaults.momentum)},
          .divisor = options.normalize == Normalize::samples        ? Divisor::samples
                     : options.normalize == Normalize::contributors ? Divisor::phases
                                                                    : Divisor::ranks,
          .keep = keeps(options),
          .full_every = full_every(options, ranks)};
}

Variant local_variant(const RecipeOptions& options) {
  return {.outer = kPlainAverage,
          .divisor = options.normalize == Normalize::samples ? Divisor::samples : Divisor::contributors,
          .full_every = options.full_every};
}

PartialOptions partial_options(const RecipeOptions& options, const Variant& variant) {
  return {.policy = options.policy,
          .full_every = variant.full_every,
          .max_lag = options.max_lag,
          .order = options.policy.kind == Policy::Kind::full ? SumOrder::fixed : options.order,
          .seed = options.seed,
          .batches_before = options.batches_before,
          .seats = options.seats,
          .members_change = options.members_change,
          .rounds_before = options.rounds_before};
}

/// The models of a rank, for OuterPhases: the weights are the replica's.
class Models {
 public:
  Models(Replica& replica, const Variant& variant, std::uint64_t local_steps)
      : replica_(replica),
        divisor_(variant.divisor),
        local_steps_(static_cast<double>(local_steps)),
        optimizer_(replica.parameter_buckets(), variant.outer) {
    if (divisor_ == Divisor::samples) check_weights(Normalize::samples, replica.parameter_buckets());
    for (auto& model : beside_) {
      for (const BucketSpec& bucket : replica.parameter_buckets())
        model.emplace_back(bucket.count * size_of(bucket.type));
    }
  }

  void copy(PhaseModel to, PhaseModel from) {
    for (int b = 0; b < num_buckets(); ++b) {
      const auto dst = bucket(to, b), src = bucket(from, b);
      std::memcpy(dst.data(), src.data(), src.size());
    }
  }

  void subtract(Contribution& to, PhaseModel from) {
    for (int b = 0; b < num_buckets(); ++b) {
      const auto d = to.bucket(b);
      stretto::subtract(type_of(b), d, bucket(from, b), bucket(PhaseModel::weights, b));
      if (divisor_ == Divisor::samples) scale(type_of(b), d, d, static_cast<double>(samples_));
    }
  }

  void outer_step(const RoundResult& result) {
    for (int b = 0; b < num_buckets(); ++b) {
      optimizer_.step(b, bucket(PhaseModel::outer, b), result.buckets[static_cast<std::size_t>(b)],
                      divisor(*result.header));
    }
  }

  /// Anchor, outer model and momentum from those of the same replica that are not used any more.
  void go_on_from(Models& before) {
    beside_.swap(before.beside_);
    optimizer_.go_on_from(before.optimizer_);
  }
  /// Outer momentum and outer model.
  std::string outer() const {
    std::string all = optimizer_.state();
    for (const auto& bucket : beside_[1]) all.append(reinterpret_cast<const char*>(bucket.data()), bucket.size());
    return all;
  }
  /// Sets both to what outer() of the same model gave.
  void set_outer(std::string_view all) {
    const std::uint64_t bytes = optimizer_.bytes();  // of a model
    if (all.size() != 2 * bytes) {
      throw Failure(
          {Errc::bad_input, text("outer model and momentum of ", all.size(), " bytes, expected ", 2 * bytes)});
    }
    optimizer_.set_state(all.substr(0, bytes));
    all.remove_prefix(bytes);
    for (auto& bucket : beside_[1]) {
      std::memcpy(bucket.data(), all.data(), bucket.size());
      all.remove_prefix(bucket.size());
    }
  }

  /// Those behind the next subtract().
  void set_samples(std::uint64_t samples) { samples_ = samples; }
  OuterOptimizer& optimizer() { return optimizer_; }
  const OuterOptimizer& optimizer() const { return optimizer_; }

 private:
  int num_buckets() const { return static_cast<int>(replica_.parameter_buckets().size()); }
  DataType type_of(int b) const { return replica_.parameter_buckets()[static_cast<std::size_t>(b)].type; }

  std::span<std::byte> bucket(PhaseModel model, int b) {
    if (model == PhaseModel::weights) return replica_.parameters(b);
    return beside_[model == PhaseModel::anchor ? 0 : 1][static_cast<std::size_t>(b)];
  }

  double divisor(const RoundHeader& header) const {
    switch (divisor_) {
      case Divisor::ranks: return header.ranks();
      case Divisor::contributors: return header.contributors();
      case Divisor::phases: return static_cast<double>(header.batches) / local_steps_;
      case Divisor::samples: return static_cast<double>(header.samples);
    }
    return 1;
  }

  Replica& replica_;
  const Divisor divisor_;
  const double local_steps_;
  std::array<std::vector<std::vector<std::byte>>, 2> beside_;  // anchor and outer model, in buckets
  OuterOptimizer optimizer_;
  std::uint64_t samples_ = 0;
};

class Diloco final : public Recipe, private CarriedSums {
 public:
  Diloco(const RecipeContext& context, const Variant& variant)
      : context_(context),
        collective_(std::make_shared<PartialAllreduce>(context.engine, context.replica.parameter_buckets(),
                                                       partial_options(context.options, variant))),
        models_(context.replica, variant, context.options.local_steps),
        phases_(models_, variant.keep),
        state_(context),
        has_momentum_(variant.outer.momentum != 0),
        full_every_(variant.full_every),
        short_until_(context.options.algorithm.count("post-local", 0)),
        batches_(context.options.batches_before) {}

  void begin_step(const DepositInfo&) override { context_.replica.attach_own(); }

  std::optional<std::string> end_backward() override { return end_own_backward(context_.replica); }

  void deposit(const DepositInfo& step) override {
    begin();
    context_.replica.step();
    since_.add(step);
    count_step();
  }

  void pass(const DepositInfo& step) override {
    begin();
    since_.waited += step.waited;
    count_step();
  }

  Result<int> advance(Driver& driver, TimePoint deadline) override {
    // In the middle of a phase nobody is waited for. Where the members change the rounds that count are taken, no more.
    if (steps_ != 0 && !context_.engine.frozen()) return 0;
    auto rounds =
        collective_->exchange(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
    if (rounds) phases_.exchanged();
    return rounds;
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    end_last_phase();
    auto rounds =
        collective_->finish(driver, deadline, [this, &driver](const RoundResult& result) { apply(driver, result); });
    if (rounds) phases_.finish();
    return rounds;
  }

  Result<bool> drain(Driver& driver) override {
    end_last_phase();
    const auto progress =
        collective_->try_finish([this, &driver](const RoundResult& result) { apply(driver, result); });
    if (!progress) return progress.error();
    if (*progress != PartialAllreduce::Progress::done) return false;
    phases_.finish();
    return true;
  }

  std::vector<std::shared_ptr<Collective>> collectives() const override { return {collective_}; }
  Round rounds() const override { return collective_->handed(); }
  RecipeMemory memory() const override {
    RecipeMemory all = memory_of(*collective_);
    all.bytes += 3 * models_.optimizer().bytes();
    all.parts += ", anchor, outer model and outer momentum";
    return all;
  }
  StepWaits waits() const override {
    if (context_.options.policy.kind == Policy::Kind::full) {
      return {.for_ranks_behind = context_.options.local_steps > 1};
    }
    return waits_of_partial_rounds(context_.options.policy, full_every_);
  }
  void go_on_after(std::uint64_t batches) override { batches_ = batches; }
  bool averages_gradients() const override { return false; }
  /// Where all ranks are at the same full round the outer model and the anchor are the weights.
  /// Without momentum that is all: local goes on from either of its recipes.
  std::string state() const override { return has_momentum_ ? models_.optimizer().state() : std::string(); }
  void set_state(const std::string& state) override { models_.optimizer().set_state(state); }
  CarriedSums* carried_sums() override { return context_.options.members_change ? this : nullptr; }

 private:
  PartialAllreduce& carried() override { return *collective_; }
  void apply_fetched(Driver&, const RoundResult& result) override {
    begin();
    move(result);
    count(result);
  }
  /// A phase under way goes on. Its base will be the rounds before this world, which its deposit cannot know less of.
  void go_on_from(CarriedSums& before) override {
    auto& recipe = static_cast<Diloco&>(before);
    models_.go_on_from(recipe.models_);
    begun_ = recipe.begun_;
    steps_ = recipe.steps_;
    since_ = recipe.since_;
  }
  std::string model_beside() const override { return begun_ ? models_.outer() : std::string(); }
  void take_over(const std::string& model_beside) override {
    if (model_beside.empty()) return;
    models_.set_outer(model_beside);
    phases_.begin_with_outer();
    begun_ = true;
  }

  /// The weights of rank 0, or of a checkpoint, are there before the first step only.
  void begin() {
    if (!std::exchange(begun_, true)) phases_.begin();
  }

  void count_step() {
    if (++steps_ >= (batches_ < short_until_ ? 1 : context_.options.local_steps)) end_phase();
  }

  void end_phase() {
    steps_ = 0;
    if (since_.batches == 0) return;  // passed, all of it: the weights have not moved
    Contribution& mine = collective_->acquire();
    models_.set_samples(since_.samples);
    phases_.end_phase(mine);
    collective_->deposit(mine, since_);
    since_ = {.batches = 0, .samples = 0};
  }

  void end_last_phase() {
    begin();
    end_phase();
  }

  void apply(Driver& driver, const RoundResult& result) {
    move(result);
    if (result.policy.kind == Policy::Kind::full && !result.empty()) state_.run(driver);
    count(result);
  }

  void move(const RoundResult& result) {
    if (!result.empty()) context_.listener.before(result);
    phases_.apply(result);
  }

  void count(const RoundResult& result) {
    batches_ += result.header->batches;
    context_.listener.after(result);
  }

  const RecipeContext context_;
  const std::shared_ptr<PartialAllreduce> collective_;
  Models models_;
  OuterPhases<Models> phases_;
  StateAverage state_;
  const bool has_momentum_;
  const std::uint64_t full_every_;                 // batches; 0: no full rounds but the last
  const std::uint64_t short_until_;                // batches of all ranks: a phase is one step until then
  std::uint64_t batches_;                          // of all ranks, since the start of the job
  std::uint64_t steps_ = 0;                        // since the last phase, with those passed
  DepositInfo since_{.batches = 0, .samples = 0};  // the last phase
  bool begun_ = false;
};

}  // namespace

Policy phase_policy(const std::string& argument, int ranks, int) {
  return argument.empty() ? Policy::full() : Policy::parse(argument, ranks);
}

void check_diloco(const RecipeOptions& options, int ranks) {
  if (options.local_steps == 0) throw UsageError("diloco: expected at least one step of each rank between two rounds");
  const Variant variant = diloco_variant(options, ranks);
  const OuterOptimizer refuses_what_it_cannot({}, variant.outer);
  check_state_average(options, options.policy.kind == Policy::Kind::full || variant.full_every != 0, "full-every 1000");
  if (options.policy.kind != Policy::Kind::full) return;
  for (const char* name : {"keep", "full-every"}) {
    if (!options.algorithm.given(name) || options.algorithm.word(name, "") == "no") continue;
    throw UsageError(text(name, " ", options.algorithm.word(name, ""), " with algorithm 'diloco', of which every ",
                          "round is full: expected a policy, as in diloco:quorum"));
  }
}

std::unique_ptr<Recipe> make_diloco(const RecipeContext& context) {
  check_diloco(context.options, context.engine.size());
  return std::make_unique<Diloco>(context, diloco_variant(context.options, context.engine.size()));
}

std::unique_ptr<Recipe> make_local_by_policy(const RecipeContext& context) {
  return std::make_unique<Diloco>(context, local_variant(context.options));
}

std::optional<AlgorithmShape> diloco_shape(const RecipeOptions& options, int ranks) {
  return AlgorithmShape{
      .every = options.local_steps,
      .exchange =
          RoundShape{.policy = options.policy, .max_lag = options.max_lag, .full_every = full_every(options, ranks)}};
}

}  // namespace stretto
