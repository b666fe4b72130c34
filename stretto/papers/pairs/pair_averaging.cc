#include "stretto/papers/pairs/pair_averaging.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "stretto/papers/pairs/easgd.h"
#include "stretto/papers/pairs/pair_exchange.h"
#include "stretto/train/recipes/full_rounds.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

/// How a recipe exchanges models, and when all ranks meet.
struct Exchanges {
  PairOptions options;
  std::uint64_t every = 1;                    // own steps between two exchanges
  std::uint64_t meet_every = kMeetsAtTheEnd;  // own steps between two rounds of all
};

class PairAveraging final : public Recipe {
 public:
  PairAveraging(const RecipeContext& context, const Exchanges& exchanges)
      : context_(with_each_model_once(context)),
        exchanges_(exchanges),
        pairs_(std::make_shared<PairExchange>(context.engine, context.replica.parameter_buckets(), exchanges.options)),
        average_(context_, FullRounds::StepCount::told) {}

  void begin_step(const DepositInfo&) override {
    begin();
    context_.replica.attach_own();
  }

  std::optional<std::string> end_backward() override { return end_own_backward(context_.replica); }

  void deposit(const DepositInfo& step) override {
    context_.replica.step();
    counts_.ages.add(add_step());
    average_.note_step(step);
    count_step();
  }

  void pass(const DepositInfo& step) override {
    (void)add_step();  // takes what others have changed
    average_.note_pass(step);
    count_step();
  }

  Result<int> advance(Driver& driver, TimePoint deadline) override {
    Result<int> rounds = 0;
    if (due_ == Due::exchange) {
      if (const auto done = pairs_->exchange(driver, deadline); !done) return done.error();
      steps_ = 0;
    } else if (due_ == Due::meeting) {
      rounds = meet(driver, deadline);
      if (!rounds) return rounds;
      begin();
    }
    due_ = Due::nothing;
    return rounds;
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    while (!ended_) {
      begin();
      if (auto rounds = meet(driver, deadline); !rounds) return rounds;
    }
    return average_.finish(driver, deadline);
  }

  Result<bool> drain(Driver& driver) override {
    while (!ended_) {
      begin();
      auto met = try_meet(driver);
      if (!met || !*met) return met;
    }
    return average_.drain(driver);
  }

  std::vector<std::shared_ptr<Collective>> collectives() const override { return {pairs_, average_.collective()}; }
  Round rounds() const override { return average_.collective()->handed(); }
  RecipeMemory memory() const override {
    RecipeMemory memory = memory_of(*average_.collective());
    memory.bytes += pairs_->memory_bytes();
    memory.parts += ", and the model as others see it, a copy of it, and what is being exchanged";
    return memory;
  }
  OwnCounts own_counts() const override { return counts_; }
  StepWaits waits() const override { return {.for_ranks_behind = exchanges_.meet_every < kMeetsAtTheEnd}; }
  /// The model has what others have moved it by; the center goes with its world.
  void stand_still() override {
    for (int b = 0; begun_ && b < pairs_->num_buckets(); ++b) pairs_->read(b, context_.replica.parameters(b));
  }
  bool averages_gradients() const override { return false; }

 private:
  enum class Due { nothing, exchange, meeting };

  /// Returns the staleness of the step.
  std::uint64_t add_step() {
    std::uint64_t staleness = 0;
    for (int b = 0; b < pairs_->num_buckets(); ++b) {
      staleness = std::max(staleness, pairs_->add_step(b, context_.replica.parameters(b)));
    }
    return staleness;
  }

  void count_step() {
    ++steps_;
    if (average_.steps() == exchanges_.meet_every) {
      due_ = Due::meeting;
    } else if (steps_ == exchanges_.every) {
      due_ = Due::exchange;
    }
  }

  /// Begins a phase, unless one has begun, with the model as all ranks have it.
  void begin() {
    if (std::exchange(begun_, true)) return;
    std::vector<std::span<const std::byte>> model;
    for (int b = 0; b < pairs_->num_buckets(); ++b) model.emplace_back(context_.replica.parameters(b));
    pairs_->begin(model);
  }

  /// Ends the phase, and makes one model of all. Timeouts: as Recipe::advance().
  Result<int> meet(Driver& driver, TimePoint deadline) {
    if (!handed_over_) {
      if (center_lacks_steps()) {
        if (const auto done = pairs_->exchange(driver, deadline); !done) return done.error();
        steps_ = 0;
      }
      if (const auto settled = pairs_->settle(driver, deadline); !settled) return settled.error();
      hand_over();
    }
    Result<int> rounds = average_.exchange(driver, deadline);
    if (rounds) have_met();
    return rounds;
  }

  Result<bool> try_meet(Driver& driver) {
    if (!handed_over_) {
      if (center_lacks_steps()) {
        auto done = pairs_->try_exchange();
        if (!done || !*done) return done;
        steps_ = 0;
      }
      auto settled = pairs_->try_settle();
      if (!settled || !*settled) return settled;
      hand_over();
    }
    auto met = average_.try_exchange(driver);
    if (met && *met) have_met();
    return met;
  }

  /// Of the models only what the center has heard of them is left.
  bool center_lacks_steps() const { return exchanges_.options.pairing == Pairing::center && steps_ > 0; }

  void hand_over() {
    for (int b = 0; b < pairs_->num_buckets(); ++b) {
      const std::span<std::byte> parameters = context_.replica.parameters(b);
      if (exchanges_.options.pairing == Pairing::bipartite) {
        pairs_->read(b, parameters);
      } else if (pairs_->owns_center()) {
        // The average over P ranks, of which the others bring zeros, is the center.
        pairs_->read_center(b, parameters);
        const DataType type = context_.replica.parameter_buckets()[static_cast<std::size_t>(b)].type;
        scale(type, parameters, parameters, context_.engine.size());
      } else {
        std::memset(parameters.data(), 0, parameters.size());
      }
    }
    average_.hand_over();
    handed_over_ = true;
  }

  void have_met() {
    handed_over_ = begun_ = false;
    steps_ = 0;
    // A rank that goes on has brought meet_every steps.
    ended_ = average_.steps_ended() < exchanges_.meet_every;
  }

  const RecipeContext context_;
  const Exchanges exchanges_;
  const std::shared_ptr<PairExchange> pairs_;
  ModelAverage average_;
  OwnCounts counts_;
  std::uint64_t steps_ = 0;   // of this rank since its last exchange
  Due due_ = Due::nothing;    // before the next step
  bool begun_ = false;        // a phase
  bool handed_over_ = false;  // the model, at the phase's end
  bool ended_ = false;        // no rank has a batch left
};

/// easgd-async: batches of all ranks between two meetings; 0: none before the end.
std::uint64_t full_every(const RecipeOptions& options) {
  return std::gcd(options.full_every, options.algorithm.count("full-every", 0));
}

/// The same in steps of this rank.
std::uint64_t meet_every(const RecipeContext& context) {
  const std::uint64_t steps = own_steps(full_every(context.options), context.engine.size());
  return context.options.members_change ? std::min(steps, kMostStepsWhereMembersChange) : steps;
}

}  // namespace

std::unique_ptr<Recipe> make_ad_psgd(const RecipeContext& context) {
  return std::make_unique<PairAveraging>(
      context, Exchanges{.options = {.pairing = Pairing::bipartite, .seed = context.options.seed},
                         .meet_every = context.options.local_steps});
}

void check_ad_psgd(const RecipeOptions& options, int) {
  check_state_average(options, options.local_steps < kMeetsAtTheEnd, "sync-every 10");
}

std::unique_ptr<Recipe> make_easgd_async(const RecipeContext& context) {
  const ElasticOptions elastic = elastic_options(context.options, context.engine.size());
  return std::make_unique<PairAveraging>(context, Exchanges{.options = {.pairing = Pairing::center,
                                                                        .weight = elastic.beta / context.engine.size(),
                                                                        .back = elastic.alpha},
                                                            .every = context.options.local_steps,
                                                            .meet_every = meet_every(context)});
}

void check_easgd_async(const RecipeOptions& options, int ranks) {
  check_elastic_options(options, ranks);
  check_state_average(options, full_every(options) != 0, "full-every 1000");
}

}  // namespace stretto
