#include "stretto/train/recipes/grid.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/collective/grid_allreduce.h"
#include "stretto/train/recipes/full_rounds.h"
#include "stretto/train/recipes/grid_model.h"

namespace stretto {
namespace {

// At its lines, while it waits for all ranks. Woken by each of their rounds, they would fill the network with them.
constexpr Duration kLooksEvery = std::chrono::milliseconds(20);

struct GridChoices {
  GridAllreduceOptions grid;
  double alpha = 0.5;
  std::uint64_t every = 1;  // own steps between two exchanges
  GridModel::Momentum momentum = GridModel::Momentum::local;
};

GridChoices choices_of(const RecipeOptions& options, int ranks) {
  const AlgorithmOptions& given = options.algorithm;
  GridChoices choices;
  choices.grid.grid = {.shape = given.word("layout", "rectangle") == "paper" ? GridShape::paper : GridShape::rectangle,
                       .dimensions = static_cast<int>(given.count("dimensions", ranks < 4 ? 1 : 2)),
                       .rows = static_cast<int>(given.count("grid-rows", 0))};
  // What does not fit these waits for more; lines of their own are fitted to each view.
  if (options.members_change && !options.own_lines) choices.grid.grid = choices.grid.grid.fitting(std::max(ranks, 2));
  LineOptions& line = choices.grid.line;
  line.reduce = given.number("reduce-share", 1);
  line.complete = given.number("complete-share", 1);
  line.advance = given.number("advance-share", 1);
  line.update = given.word("elastic-rule", "carry") == "paper" ? ElasticUpdate::paper : ElasticUpdate::carry;
  line.missing = given.word("missing", "received") == "previous" ? Missing::previous : Missing::received;
  const std::string compression = given.word("compression", "none");
  line.compression = compression == "zeros"  ? Compression::zeros
                     : compression == "int8" ? Compression::int8
                                             : Compression::none;
  line.rounds_in_flight = static_cast<int>(given.count("rounds-in-flight", 1));
  const std::string patience = given.word("line-patience", "0ms");
  line.adaptive = patience == "adaptive";
  if (!line.adaptive) {
    const auto time = parse_duration(patience);
    if (!time) throw UsageError(text("line-patience '", patience, "': expected a time, as in 20ms, or adaptive"));
    line.patience = *time;
  }
  choices.alpha = given.number("alpha", 0.5);
  choices.every = given.count("steps-per-exchange", 1);
  const bool exchanges = given.word("momentum-exchange", "no") == "yes";
  if (given.word("average-momentum", "no") == "yes") choices.momentum = GridModel::Momentum::averaged;
  if (exchanges && (choices.momentum == GridModel::Momentum::averaged || line.update == ElasticUpdate::paper)) {
    throw UsageError("momentum-exchange yes: expected average-momentum no, and elastic-rule carry");
  }
  if (exchanges) choices.momentum = GridModel::Momentum::exchanged;
  if (!(choices.alpha > 0 && choices.alpha <= 1)) {
    throw UsageError(text("alpha ", choices.alpha, ": expected above 0, at most 1, as in alpha 0.5"));
  }
  return choices;
}

class Grid final : public Recipe {
 public:
  Grid(const RecipeContext& context, const GridChoices& choices)
      : context_(with_each_model_once(context)),
        choices_(choices),
        average_(context_, FullRounds::StepCount::none, false, ModelAverage::Distance::told),
        model_(context.replica, choices.momentum) {
    if (context.options.own_lines) {
      grid_ = std::make_shared<GridAllreduce>(context.engine.clock(), model_.buckets(), choices.grid);
    } else if (context.engine.size() > 1) {
      grid_ = std::make_shared<GridAllreduce>(context.engine, model_.buckets(), choices.grid);
    }
  }

  void begin_step(const DepositInfo&) override { context_.replica.attach_own(); }
  std::optional<std::string> end_backward() override { return end_own_backward(context_.replica); }

  void deposit(const DepositInfo& step) override {
    context_.replica.step();
    average_.note_step(step);
    end_step(true);
  }
  void pass(const DepositInfo& step) override {
    average_.note_pass(step);
    end_step(false);
  }

  Result<int> advance(Driver& driver, TimePoint deadline) override {
    if (const auto why = failure()) return *why;
    if (!own_lines() && context_.engine.frozen())
      return Error{Errc::members_changed, "the members of the grid change", -1};
    if (average_.steps() != 0) return 0;  // on the way to the next full round
    return beside_lines(
        driver, deadline, [&] { return average_.try_exchange(driver); },
        [&] { return average_.exchange(driver, deadline); });
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    end_steps();
    Result<int> taken = 0;
    if (!ended_) {
      taken = beside_lines(
          driver, deadline, [&] { return average_.drain(driver); }, [&] { return average_.finish(driver, deadline); });
      if (!taken) return taken;
      ended_ = true;
    }
    if (stop_lines(driver, deadline)) return taken;
    return Error{Errc::timeout, "the rounds of this rank's lines end", -1};
  }

  Result<bool> drain(Driver& driver) override {
    if (const auto why = failure()) return *why;
    end_steps();
    if (!ended_) {
      answer_lines();
      auto over = average_.drain(driver);
      if (!over || !*over) return over;
      ended_ = true;
    }
    return stop_lines(driver, driver.clock().now());
  }

  std::vector<std::shared_ptr<Collective>> collectives() const override {
    std::vector<std::shared_ptr<Collective>> all{average_.collective()};
    if (grid_ != nullptr) all.push_back(grid_);
    return all;
  }
  Round rounds() const override { return average_.collective()->handed(); }
  RecipeMemory memory() const override {
    RecipeMemory memory = memory_of(*average_.collective());
    if (grid_ == nullptr) return memory;
    memory.bytes += grid_->memory_bytes();
    const LineOptions& line = choices_.grid.line;
    memory.parts +=
        text(", ", choices_.grid.grid.dimensions * line.rounds_in_flight + 2, " models, and ",
             line.update == ElasticUpdate::paper ? 6 * line.rounds_in_flight : 3, " results of each dimension");
    if (line.compression == Compression::int8) memory.parts += ", and what their links know";
    return memory;
  }
  std::string warning() const override { return grid_warning(context_.options, context_.engine.size()); }
  std::vector<std::string> take_lines() override {
    return grid_ == nullptr ? std::vector<std::string>() : grid_->take_lines();
  }
  std::shared_ptr<GridAllreduce> grid() const override { return grid_; }
  void go_on_in(std::shared_ptr<GridAllreduce> grid) override {
    if (own_lines()) {
      grid_ = std::move(grid);
    } else if (grid_ != nullptr && grid != nullptr) {
      grid_->count_on_from(*grid);
    }
  }
  StepWaits waits() const override { return {.for_ranks_behind = context_.options.local_steps < kMeetsAtTheEnd}; }
  void go_on_after(std::uint64_t batches) override { average_.go_on_after(batches); }
  std::uint64_t steps_alone() const override { return average_.steps(); }
  void go_on_after_steps_alone(std::uint64_t steps) override {
    while (average_.steps() + 1 < std::min(steps, context_.options.local_steps)) average_.note_pass({});
  }
  bool averages_gradients() const override { return false; }

 private:
  /// They are another's to enter, and go on when the members of the job have changed.
  bool own_lines() const { return context_.options.own_lines; }
  bool stop_lines(Driver& driver, TimePoint deadline) {
    return own_lines() || grid_ == nullptr || grid_->stop(driver, deadline);
  }
  std::optional<Error> failure() const { return grid_ == nullptr ? std::nullopt : grid_->failure(); }

  void end_step(bool moved) {
    if (++steps_ % choices_.every == 0) exchange(moved ? choices_.every : 0);
    if (average_.steps() >= context_.options.local_steps) average_.hand_over();
  }

  /// This rank has no batches left: lines get its last steps, unless an average of all has them already.
  void end_steps() {
    const std::uint64_t last = std::exchange(ends_steps_, true) ? 0 : steps_ % choices_.every;
    if (last != 0 && average_.steps() != 0) exchange(last);
  }

  /// Moves towards what the lines have brought, and shows them the model, which has made so many steps of its own
  /// since.
  void exchange(std::uint64_t steps) {
    if (grid_ == nullptr) return;
    model_.look();
    const int taken =
        grid_->take([&](const GridSlice& slice) { model_.move(slice, choices_.grid.line.update, choices_.alpha); });
    if (steps == 0 && taken == 0) return grid_->publish(nullptr);
    Contribution& copy = grid_->acquire();
    model_.copy_to(copy);
    grid_->publish(&copy, steps);
  }

  /// This rank's model is in the hands of the average of all, which replaces it: lines go on among those that compute,
  /// and it neither moves by them nor brings them anything new, which would be in no average.
  void answer_lines() {
    if (grid_ == nullptr) return;
    (void)grid_->take([](const GridSlice&) {});
    grid_->publish(nullptr);
  }

  /// Waits for all ranks: meanwhile this one's lines go on with those that still compute. `waits` alone says who is
  /// missing, which it asks of all ranks, and so it is not called before the deadline.
  template <class Tries, class Waits>
  Result<int> beside_lines(Driver& driver, TimePoint deadline, Tries tries, Waits waits) {
    if (grid_ == nullptr) return waits();
    PartialAllreduce& all = *average_.collective();
    for (const Round before = rounds();;) {
      const Result<bool> over = tries();
      if (!over) return over.error();
      if (*over) return static_cast<int>(rounds() - before);
      if (const auto why = failure()) return *why;
      if (driver.clock().now() >= deadline) return waits();
      answer_lines();
      const TimePoint by = std::min(deadline, driver.deadline(kLooksEvery));
      (void)all.wait(driver, by);
    }
  }

  const RecipeContext context_;
  const GridChoices choices_;
  ModelAverage average_;
  GridModel model_;
  std::shared_ptr<GridAllreduce> grid_;  // null: there is one rank
  std::uint64_t steps_ = 0;
  bool ends_steps_ = false;  // there are no batches left
  bool ended_ = false;       // the last round of all ranks is over
};

/// Where all ranks meet at the end alone: `momentum` says whether lines average it before.
void check_state(RecipeOptions options, bool momentum) {
  if (momentum) options.algorithm.set("average-momentum", "no");
  check_state_average(options, options.local_steps < kMeetsAtTheEnd, "sync-every 1000");
}

/// How many nodes a share is of, in the lines that there are; empty: of each it is some, and not all.
std::string share_warning(const std::string& name, double share, const std::vector<int>& lines) {
  const int shortest = std::ranges::min(lines);
  if (share < 1 && needed(share, shortest) == 1) {
    return text(name, ' ', share, " of a line of ", shortest, " is one rank: it waits for none of the others");
  }
  const bool is_all = std::ranges::all_of(lines, [share](int nodes) { return needed(share, nodes) == nodes; });
  if (share < 1 && is_all) return text(name, ' ', share, " has no effect: of each line it is all");
  return {};
}

}  // namespace

std::string grid_warning(const RecipeOptions& options, int ranks) {
  if (ranks == 1) return {};
  const GridChoices choices = choices_of(options, ranks);
  const GridLayout layout(ranks, choices.grid.grid.fitting(ranks));
  const LineOptions& line = choices.grid.line;
  std::vector<int> lines;
  for (int dimension = 0; dimension < layout.dimensions(); ++dimension) {
    for (const auto& nodes : layout.lines(dimension)) {
      if (nodes.size() > 1) lines.push_back(static_cast<int>(nodes.size()));
    }
  }
  const auto waits_for_all = [&line](int nodes) { return needed(line.advance, nodes) == nodes; };
  std::vector<std::string> all{share_warning("reduce-share", line.reduce, lines),
                               share_warning("complete-share", line.complete, lines),
                               share_warning("advance-share", line.advance, lines)};
  if (line.rounds_in_flight > 1 && std::ranges::all_of(lines, waits_for_all)) {
    all.push_back(text("rounds-in-flight ", line.rounds_in_flight, " has no effect with advance-share ", line.advance,
                       ": a round starts when all have applied the one before"));
  }
  if (choices.alpha * layout.dimensions() > 1) {
    all.push_back(text("alpha ", choices.alpha, " in ", layout.dimensions(), " dimensions: beyond ",
                       1.0 / layout.dimensions(), " (1 / dimensions) a model may swing about the means"));
  }
  std::string out;
  for (const std::string& warning : all) out += text(out.empty() || warning.empty() ? "" : "; ", warning);
  return out;
}

void check_grid(const RecipeOptions& options, int ranks) {
  const GridChoices choices = choices_of(options, ranks);
  if (ranks > 1) (void)GridLayout(ranks, choices.grid.grid);
  check_state(options, true);
  choices.grid.line.require();
}

std::unique_ptr<Recipe> make_grid(const RecipeContext& context) {
  check_state(context.options, GridModel::has_momentum(context.replica));
  // Where members change there may be more of them later: a grid of too few has fewer dimensions.
  const int ranks = context.options.own_lines ? std::max(context.engine.size(), 4) : context.engine.size();
  return std::make_unique<Grid>(context, choices_of(context.options, ranks));
}

}  // namespace stretto
