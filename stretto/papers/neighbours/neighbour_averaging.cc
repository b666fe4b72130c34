#include "stretto/papers/neighbours/neighbour_averaging.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/papers/neighbours/graphs.h"
#include "stretto/papers/neighbours/mixer.h"
#include "stretto/papers/neighbours/neighbour_exchange.h"
#include "stretto/train/recipes/full_rounds.h"

namespace stretto {
namespace {

/// What tells these algorithms apart.
struct NeighbourVariant {
  NeighbourOptions exchange;  // but for its block
  std::unique_ptr<Mixer> mixer;
  Round overlap = 0;           // rounds by which messages may be late
  bool average_first = false;  // sends the model on which the gradient of the step is computed
};

class NeighbourAveraging final : public Recipe {
 public:
  NeighbourAveraging(const RecipeContext& context, NeighbourVariant variant)
      : replica_(context.replica),
        mixer_(std::move(variant.mixer)),
        overlap_(variant.overlap),
        average_first_(variant.average_first),
        block_(context.options.local_steps >= kMeetsAtTheEnd ? 0 : context.options.local_steps),
        in_neighbours_(variant.exchange.links(0).in.size()) {
    variant.exchange.block = block_;
    exchange_ = std::make_shared<NeighbourExchange>(context.engine, context.replica.parameter_buckets(),
                                                    std::move(variant.exchange));
    average_.emplace(with_each_model_once(context));
  }

  void begin_step(const DepositInfo&) override {
    replica_.attach_own();
    if (!average_first_) return;
    mixer_->send(*exchange_);
    stage_ = Stage::mixing;
  }

  std::optional<std::string> end_backward() override { return end_own_backward(replica_); }

  void deposit(const DepositInfo& step) override {
    average_->note_step(step);
    if (!average_first_) {
      replica_.step();
      mixer_->send(*exchange_);
    }
    step_after_average_ = average_first_;
    stage_ = Stage::mixing;
  }

  void pass(const DepositInfo& step) override {
    average_->note_pass(step);
    if (!average_first_) mixer_->send(*exchange_);
    stage_ = Stage::mixing;
  }

  Result<int> advance(Driver& driver, TimePoint deadline) override {
    const Round before = rounds();
    for (;;) {
      const std::uint64_t seen = exchange_->news();
      const Result<bool> over = try_round(driver);
      if (!over) return over.error();
      if (*over) return static_cast<int>(rounds() - before);
      if (auto waited = wait(driver, deadline, seen); !waited) return waited.error();
    }
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    const Round before = rounds();
    while (stage_ != Stage::ended) {
      const std::uint64_t seen = exchange_->news();
      const Result<bool> over = try_end(driver);
      if (!over) return over.error();
      if (*over) break;
      if (auto waited = wait(driver, deadline, seen); !waited) return waited.error();
    }
    const Result<int> last = average_->finish(driver, deadline);
    if (!last) return last.error();
    return static_cast<int>(rounds() - before);
  }

  Result<bool> drain(Driver& driver) override {
    Result<bool> over = try_end(driver);
    if (!over || !*over) return over;
    return average_->drain(driver);
  }

  std::vector<std::shared_ptr<Collective>> collectives() const override { return {exchange_, average_->collective()}; }
  Round rounds() const override { return average_->collective()->handed(); }

  RecipeMemory memory() const override {
    const RecipeMemory average = memory_of(*average_->collective());
    const std::uint64_t messages = 2 + in_neighbours_ * (overlap_ + 1);
    return {average.bytes + messages * exchange_->message_bytes() + mixer_->memory_bytes(),
            text(average.parts, ", and messages of neighbours")};
  }
  StepWaits waits() const override { return {.for_ranks_behind = true}; }
  OwnCounts own_counts() const override { return counts_; }
  void stand_still() override {
    const bool averaged = stage_ != Stage::mixing && rounds() > handed_over_at_;
    if (stage_ != Stage::between && !averaged) mixer_->stand_still();
    if (std::exchange(step_after_average_, false)) replica_.step();
  }
  bool averages_gradients() const override { return false; }

 private:
  enum class Stage {
    between,    // rounds
    mixing,     // waits for messages of in-neighbours
    averaging,  // waits for the average of all ranks
    ended,      // no rank begins another round
  };

  void take(const NeighbourMessage& message) {
    const std::uint64_t age = exchange_->begun() - std::min(exchange_->begun(), message.round + 1);
    if (overlap_ > 0) counts_.ages.add(age);
    mixer_->add(message);
  }

  bool at_end_of_block() const { return block_ != 0 && exchange_->begun() % block_ == 0; }

  /// Goes on with the round under way. Returns whether it is over.
  Result<bool> try_round(Driver& driver) {
    const auto add = [this](const NeighbourMessage& message) { take(message); };
    if (stage_ == Stage::mixing) {
      const Round begun = exchange_->begun();
      Result<bool> taken = exchange_->try_take(at_end_of_block() ? begun : begun - std::min(begun, overlap_), add);
      if (!taken || !*taken) return taken;
      mixer_->mixed();
      if (std::exchange(step_after_average_, false)) replica_.step();
      stage_ = Stage::between;
      if (at_end_of_block()) {
        hand_over();
        stage_ = Stage::averaging;
      }
    }
    if (stage_ == Stage::averaging) {
      Result<bool> averaged = average_->try_exchange(driver);
      if (!averaged || !*averaged) return averaged;
      mixer_->after_average();
      stage_ = Stage::between;
    }
    return true;
  }

  void hand_over() {
    mixer_->before_average();
    average_->hand_over();
    handed_over_at_ = rounds();
  }

  /// Goes on without batches of this rank's own. Returns whether all rounds of neighbours are over.
  Result<bool> try_end(Driver& driver) {
    const auto add = [this](const NeighbourMessage& message) { take(message); };
    while (stage_ != Stage::ended) {
      if (Result<bool> over = try_round(driver); !over || !*over) return over;
      exchange_->drain();
      const auto next = exchange_->try_next(add);
      if (!next) return next.error();
      if (*next == NeighbourExchange::Next::wait) return false;
      if (*next == NeighbourExchange::Next::begin) {
        mixer_->send(*exchange_);
        stage_ = Stage::mixing;
        continue;
      }
      stage_ = Stage::ended;
      const bool averaged = at_end_of_block() && average_->steps() == 0;
      if (!averaged) hand_over();
    }
    return true;
  }

  Result<void> wait(Driver& driver, TimePoint deadline, std::uint64_t seen) {
    if (stage_ != Stage::averaging) return exchange_->wait(driver, deadline, seen);
    const Result<int> averaged = average_->exchange(driver, deadline);
    if (!averaged) return averaged.error();
    mixer_->after_average();
    stage_ = Stage::between;
    return {};
  }

  Replica& replica_;
  const std::unique_ptr<Mixer> mixer_;
  const Round overlap_;
  const bool average_first_;
  const Round block_;  // rounds between two averages of all ranks; 0: the one at the end
  const std::size_t in_neighbours_;
  std::shared_ptr<NeighbourExchange> exchange_;
  std::optional<ModelAverage> average_;
  OwnCounts counts_;  // osgp: of each message, the rounds that this rank has begun since the one it belongs to

  Stage stage_ = Stage::between;
  Round handed_over_at_ = 0;         // rounds before the average that has the model handed over last
  bool step_after_average_ = false;  // the attached gradients have not moved the weights
};

void check_common(const RecipeOptions& options) {
  check_state_average(options, options.local_steps < kMeetsAtTheEnd, "sync-every 10");
  if (options.normalize != Normalize::samples) return;
  throw UsageError("normalize samples: expected contributors, since neighbours' models count as their graph says");
}

MixingGraph mixing_graph(const RecipeOptions& options, int ranks) {
  return {options.algorithm.word("graph", "ring"), ranks};
}

PushGraph push_graph(const RecipeOptions& options, int ranks) {
  return {options.algorithm.word("graph", "exponential"), ranks,
          static_cast<int>(std::min<std::uint64_t>(options.algorithm.count("neighbours", 1), 1'000'000))};
}

std::unique_ptr<Recipe> make_push_sum(const RecipeContext& context, Round overlap) {
  auto graph = std::make_shared<const PushGraph>(push_graph(context.options, context.engine.size()));
  const auto links = [graph, rank = context.engine.rank()](Round round) { return graph->links(rank, round); };
  const auto out_neighbours = [links](Round round) { return static_cast<int>(links(round).out.size()); };
  return std::make_unique<NeighbourAveraging>(
      context, NeighbourVariant{.exchange = {.links = links, .graph = text("push-sum, ", graph->description())},
                                .mixer = make_push_sum_mixer(context.replica, out_neighbours),
                                .overlap = overlap});
}

}  // namespace

std::unique_ptr<Recipe> make_d_psgd(const RecipeContext& context) {
  auto graph = std::make_shared<const MixingGraph>(mixing_graph(context.options, context.engine.size()));
  const int rank = context.engine.rank();
  const std::string order = context.options.algorithm.word("mix-order", "average-then-step");
  return std::make_unique<NeighbourAveraging>(
      context, NeighbourVariant{.exchange = {.links = [graph, rank](Round round) { return graph->links(rank, round); },
                                             .graph = text("mean, ", order, ", ", graph->description())},
                                .mixer = make_mean_mixer(
                                    context.replica, [graph, rank](Round round) { return graph->shares(rank, round); }),
                                .average_first = order == "average-then-step"});
}

void check_d_psgd(const RecipeOptions& options, int ranks) {
  check_common(options);
  (void)mixing_graph(options, ranks);
}

std::unique_ptr<Recipe> make_gossip_grad(const RecipeContext& context) {
  const auto links = [rank = context.engine.rank(), ranks = context.engine.size(),
                      seed = context.options.seed](Round round) { return gossip_links(rank, ranks, round, seed); };
  const auto shares = [links](Round round) {
    std::vector<Share> halves;
    for (const int peer : links(round).in) halves.push_back({peer, 2});
    return halves;
  };
  return std::make_unique<NeighbourAveraging>(
      context, NeighbourVariant{.exchange = {.links = links, .graph = text("gossip, seed ", context.options.seed)},
                                .mixer = make_mean_mixer(context.replica, shares)});
}

void check_gossip_grad(const RecipeOptions& options, int) {
  check_common(options);
}

std::unique_ptr<Recipe> make_sgp(const RecipeContext& context) {
  return make_push_sum(context, 0);
}

std::unique_ptr<Recipe> make_osgp(const RecipeContext& context) {
  return make_push_sum(context, context.options.algorithm.count("overlap-rounds", 1));
}

void check_push_sum(const RecipeOptions& options, int ranks) {
  check_common(options);
  (void)push_graph(options, ranks);
}

}  // namespace stretto
