#include "stretto/train/recipes/wagma.h"

#include <charconv>

#include "stretto/base/error.h"
#include "stretto/collective/group_allreduce.h"
#include "stretto/collective/groups/model_move.h"
#include "stretto/train/recipes/model_average.h"
#include "stretto/train/recipes/state_average.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

constexpr std::uint64_t kDefaultTau = 10;
constexpr std::uint64_t kMostSumsKept = 1000;  // a model each

/// What a recipe of this kind does where nothing is said.
enum class Defaults {
  paper,        ///< as the paper
  recommended,  ///< a quorum, and nothing of a late rank's steps is lost
};

struct Choices {
  GroupOptions groups;
  StaleRule stale = StaleRule::mix;
  bool publish_after = false;
  bool average_momentum = false;  // unless said otherwise
};

int parse_group_size(const std::string& argument) {
  int size = 0;
  const char* end = argument.data() + argument.size();
  const auto [at, error] = std::from_chars(argument.data(), end, size);
  if (!argument.empty() && (error != std::errc() || at != end || size < 2)) {
    throw UsageError(text("group size '", argument, "': expected a number from 2, as in wagma:4"));
  }
  return size;
}

Choices choices_of(const RecipeOptions& options, Defaults defaults, int ranks) {
  const bool paper = defaults == Defaults::paper;
  const AlgorithmOptions& said = options.algorithm;
  Choices choices;
  GroupOptions& groups = choices.groups;
  groups.group_size = ranks == 1 ? 1 : parse_group_size(options.argument);
  if (groups.group_size > ranks) {
    throw UsageError(
        text("group size ", groups.group_size, ": expected a number from 2 to ", ranks, ", the number of ranks"));
  }
  groups.full_every = said.count("tau", kDefaultTau);
  groups.order = said.word("group-order", "dynamic") == "fixed" ? GroupOrder::fixed : GroupOrder::dynamic;
  groups.quorum = static_cast<int>(said.count("group-quorum", paper ? 0 : static_cast<std::uint64_t>(ranks + 1) / 2));
  if (groups.quorum > ranks) {
    throw UsageError(
        text("group-quorum ", groups.quorum, ": expected a number from 0 to ", ranks, ", the number of ranks"));
  }
  groups.late = said.word("late", paper ? "catch-up" : "jump") == "jump" ? LateRank::jumps : LateRank::catches_up;
  groups.late_sum = said.word("group-sum", "newest") == "own" ? LateSum::own : LateSum::newest;
  if (groups.late_sum == LateSum::own && groups.full_every > kMostSumsKept) {
    throw UsageError(text("group-sum own with tau ", groups.full_every, ": keeps as many sums of the model; expected ",
                          "a tau of at most ", kMostSumsKept));
  }
  groups.seats = options.seats;
  choices.stale = said.word("stale", paper ? "mix" : "carry") == "carry" ? StaleRule::carry : StaleRule::mix;
  groups.keep_own = choices.stale == StaleRule::carry;
  choices.publish_after = said.word("publish", paper ? "before" : "after") == "after";
  choices.average_momentum = !paper;
  return choices;
}

AlgorithmShape shape_of(const GroupOptions& groups) {
  return {.exchange = GroupRoundShape{.full_every = groups.full_every,
                                      .quorum = groups.quorum,
                                      .late_ranks_jump = groups.late == LateRank::jumps}};
}

class Wagma final : public Recipe {
 public:
  Wagma(const RecipeContext& context, const Choices& choices)
      : context_(context),
        choices_(choices),
        collective_(
            std::make_shared<GroupAllreduce>(context.engine, context.replica.parameter_buckets(), choices.groups)),
        state_(context, choices.average_momentum) {}

  void begin_step(std::uint64_t samples, Duration waited) override {
    if (!begun_) publish();
    samples_ = samples;
    since_full_.waited += waited;
    context_.replica.attach_own();
  }

  void set_samples(std::uint64_t samples) override { samples_ = samples; }
  std::optional<std::string> end_backward() override { return end_own_backward(context_.replica); }

  void deposit(Duration computed) override {
    context_.replica.step();
    ++since_full_.batches;
    since_full_.samples += samples_;
    since_full_.computed += computed;
    publish();
  }

  void pass() override { publish(); }

  Result<int> exchange(Driver& driver, TimePoint deadline) override {
    return collective_->exchange(driver, deadline,
                                 [this, &driver](const GroupResult& result) { apply(driver, result); });
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    begin_finish();
    return collective_->finish(driver, deadline, [this, &driver](const GroupResult& result) { apply(driver, result); });
  }

  Result<bool> drain(Driver& driver) override {
    begin_finish();
    const auto progress =
        collective_->try_finish([this, &driver](const GroupResult& result) { apply(driver, result); });
    if (!progress) return progress.error();
    return *progress == GroupAllreduce::Progress::done;
  }

  std::vector<std::shared_ptr<Collective>> collectives() const override { return {collective_}; }
  Round rounds() const override { return collective_->handed(); }
  RecipeMemory memory() const override {
    return {collective_->memory_bytes(),
            text(collective_->num_models(), " models, and ", collective_->num_sums(), " sums")};
  }
  StepWaits waits() const override {
    return {.for_ranks_ahead = choices_.groups.late == LateRank::jumps,
            .for_ranks_behind = choices_.groups.full_every > 1};
  }
  bool averages_gradients() const override { return false; }

 private:
  DataType type_of(int bucket) const {
    return context_.replica.parameter_buckets()[static_cast<std::size_t>(bucket)].type;
  }

  /// The model as it is now stands from now on.
  void publish() {
    begun_ = true;
    Contribution& model = collective_->acquire();
    for (int b = 0; b < collective_->num_buckets(); ++b) {
      scale(type_of(b), model.bucket(b), context_.replica.parameters(b), 1);
    }
    collective_->publish(model, since_full_);
  }

  void begin_finish() {
    if (std::exchange(drained_, true)) return;
    collective_->drain();
    publish();
  }

  void apply(Driver& driver, const GroupResult& result) {
    if (!result.full) {
      move(result);
      if (choices_.publish_after || drained_) publish();
      return;
    }
    const RoundResult round{
        .round = result.round, .policy = Policy::full(), .header = result.header, .buckets = result.sum, .passed = {}};
    context_.listener.before(round);
    // With τ = 1 all models are alike after a full round: averaged without a step in between they would be rounded
    // anew.
    if (result.header->batches != 0 || choices_.groups.full_every != 1) move(result);
    state_.run(driver);
    since_full_ = {.batches = 0, .samples = 0};
    context_.listener.after(round);
    publish();
  }

  void move(const GroupResult& result) {
    const ModelMove how = model_move(result.fresh, drained_, choices_.stale);
    for (int b = 0; b < collective_->num_buckets(); ++b) {
      const auto parameters = context_.replica.parameters(b);
      const auto sum = result.sum[static_cast<std::size_t>(b)];
      switch (how) {
        case ModelMove::average: divide(type_of(b), parameters, sum, result.members); break;
        case ModelMove::mix: add_divide(type_of(b), parameters, sum, result.members + 1); break;
        case ModelMove::carry: carry(type_of(b), parameters, sum, result.members, result.own->bucket(b)); break;
      }
    }
  }

  const RecipeContext context_;
  const Choices choices_;
  const std::shared_ptr<GroupAllreduce> collective_;
  StateAverage state_;
  bool begun_ = false;  // a model has been published
  bool drained_ = false;
  std::uint64_t samples_ = 0;                           // of the step under way
  DepositInfo since_full_{.batches = 0, .samples = 0};  // the last full round
};

}  // namespace

Policy wagma_policy(const std::string& argument, int, int) {
  parse_group_size(argument);
  return Policy::full();
}

void check_wagma(const RecipeOptions& options, int ranks) {
  choices_of(options, Defaults::paper, ranks);
}

void check_wagma_quorum(const RecipeOptions& options, int ranks) {
  choices_of(options, Defaults::recommended, ranks);
}

std::unique_ptr<Recipe> make_wagma(const RecipeContext& context) {
  return std::make_unique<Wagma>(context, choices_of(context.options, Defaults::paper, context.engine.size()));
}

std::unique_ptr<Recipe> make_wagma_quorum(const RecipeContext& context) {
  return std::make_unique<Wagma>(context, choices_of(context.options, Defaults::recommended, context.engine.size()));
}

std::optional<AlgorithmShape> wagma_shape(const RecipeOptions& options, int ranks) {
  return shape_of(choices_of(options, Defaults::paper, ranks).groups);
}

std::optional<AlgorithmShape> wagma_quorum_shape(const RecipeOptions& options, int ranks) {
  return shape_of(choices_of(options, Defaults::recommended, ranks).groups);
}

}  // namespace stretto
