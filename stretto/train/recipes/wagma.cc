#include "stretto/train/recipes/wagma.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/collective/group_allreduce.h"
#include "stretto/observe/round_header.h"
#include "stretto/train/recipes/full_rounds.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

constexpr std::uint64_t kDefaultTau = 10;
constexpr std::uint64_t kMostSumsKept = 1000;  // a model each

/// What a recipe of this kind does where nothing is said.
enum class Defaults {
  paper,        ///< as the paper
  recommended,  ///< a quorum, and nothing of any step is lost
};

constexpr ModelMath kMath{.mean = divide,
                          .put_on = [](DataType type, std::span<std::byte> model, std::span<const std::byte> stands,
                                       std::span<const std::byte> base) { carry(type, model, stands, 1, base); }};

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
  if (options.members_change) groups.group_size = std::min(groups.group_size, ranks);
  if (groups.group_size > ranks) {
    throw UsageError(
        text("group size ", groups.group_size, ": expected a number from 2 to ", ranks, ", the number of ranks"));
  }
  groups.full_every = said.count("tau", kDefaultTau);
  groups.order = said.word("group-order", "dynamic") == "fixed" ? GroupOrder::fixed : GroupOrder::dynamic;
  groups.quorum = static_cast<int>(said.count("group-quorum", paper ? 0 : static_cast<std::uint64_t>(ranks + 1) / 2));
  if (options.members_change) groups.quorum = std::min(groups.quorum, ranks);
  if (options.members_change && ranks > RoundHeader::kMaxNamedRanks) {
    throw UsageError(text("wagma of ", ranks, " ranks that change: expected at most ", RoundHeader::kMaxNamedRanks,
                          ", whose headers name them"));
  }
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
  const std::string stale = said.word("stale", paper ? "mix" : "moves");
  choices.stale = stale == "mix" ? StaleRule::mix : stale == "carry" ? StaleRule::carry : StaleRule::moves;
  groups.keep_own = choices.stale == StaleRule::carry;
  if (choices.stale == StaleRule::moves) {
    for (const std::string_view option : {"publish", "group-sum"}) {
      if (!said.given(option)) continue;
      throw UsageError(text(option, " ", said.word(option, ""), " with stale moves, where every model stands at once: ",
                            "expected stale mix or carry beside it"));
    }
    groups.moves = &kMath;
  }
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
        collective_(std::make_shared<GroupAllreduce>(context.engine, buckets_of(context.replica), choices.groups)),
        state_(context, choices.average_momentum) {}

  void begin_step(const DepositInfo&) override {
    if (!begun_) publish();
    context_.replica.attach_own();
  }

  std::optional<std::string> end_backward() override { return end_own_backward(context_.replica); }

  void deposit(const DepositInfo& step) override {
    context_.replica.step();
    add_step();
    since_full_.add(step);
    publish();
  }

  void pass(const DepositInfo& step) override {
    since_full_.waited += step.waited;
    publish();
  }

  Result<int> advance(Driver& driver, TimePoint deadline) override {
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
  Round rounds() const override { return context_.options.rounds_before + collective_->handed(); }
  RecipeMemory memory() const override {
    return {collective_->memory_bytes(),
            text(collective_->num_models(), " models, and ", collective_->num_sums(), " sums")};
  }
  StepWaits waits() const override {
    return {.for_ranks_ahead = choices_.groups.late == LateRank::jumps,
            .for_ranks_behind = choices_.groups.full_every > 1};
  }
  bool averages_gradients() const override { return false; }
  OwnCounts own_counts() const override {
    OwnCounts counts;
    counts.own_steps = own_steps_;
    counts.kept_millionths = static_cast<std::uint64_t>(std::llround(std::max(0.0, kept()) * 1e6));
    return counts;
  }

 private:
  /// Those of the parameters, the last with a number more: how many steps' movement is in the model. It is averaged as
  /// the parameters are, so that it says what becomes of the movement.
  static std::vector<BucketSpec> buckets_of(const Replica& replica) {
    std::vector<BucketSpec> buckets = replica.parameter_buckets();
    if (size_of(buckets.back().type) < sizeof(float)) buckets.push_back({DataType::float32, 0});
    ++buckets.back().count;
    return buckets;
  }

  /// Calls `run` with each array of this rank's model: its type, its memory, and the bucket in which it lies from which
  /// byte on.
  template <class Run>
  void for_each_array(Run run) {
    const std::vector<BucketSpec>& parameters = context_.replica.parameter_buckets();
    const int buckets = static_cast<int>(parameters.size());
    std::size_t at = 0;
    for (int b = 0; b < buckets; ++b) {
      const std::span<std::byte> memory = context_.replica.parameters(b);
      run(type_of(b), memory, b, std::size_t{0});
      at = memory.size();
    }
    const int last = collective_->num_buckets() - 1;
    run(kept_type_, std::span(kept_).first(size_of(kept_type_)), last, last == buckets ? 0 : at);
  }

  double kept() const {
    float narrow = 0;
    double wide = 0;
    std::memcpy(&narrow, kept_.data(), sizeof narrow);
    std::memcpy(&wide, kept_.data(), sizeof wide);
    return kept_type_ == DataType::float64 ? wide : static_cast<double>(narrow);
  }

  void add_step() {
    ++own_steps_;
    const double wide = kept() + 1;
    const auto narrow = static_cast<float>(wide);
    kept_type_ == DataType::float64 ? std::memcpy(kept_.data(), &wide, sizeof wide)
                                    : std::memcpy(kept_.data(), &narrow, sizeof narrow);
  }
  bool moves() const { return choices_.stale == StaleRule::moves; }
  DataType type_of(int bucket) const {
    return context_.replica.parameter_buckets()[static_cast<std::size_t>(bucket)].type;
  }

  /// The model as it is now stands from now on.
  void publish() {
    begun_ = true;
    Contribution& model = collective_->acquire();
    for_each_array([&](DataType type, std::span<std::byte> mine, int bucket, std::size_t at) {
      scale(type, model.bucket(bucket).subspan(at, mine.size()), mine, 1);
    });
    collective_->publish(model, since_full_);
  }

  void begin_finish() {
    if (std::exchange(drained_, true)) return;
    collective_->drain();
    if (!moves() || !begun_) publish();  // a rank without a step has none that stands
  }

  void apply(Driver& driver, const GroupResult& result) {
    if (!result.full) {
      move(result);
      if (!moves() && (choices_.publish_after || drained_)) publish();
      return;
    }
    const Round before = context_.options.rounds_before;
    if (before != 0) {
      header_ = *result.header;
      header_.sum_of_bases += before * header_.batches;
      if (header_.oldest_base != RoundHeader::kNoBase) header_.oldest_base += before;
    }
    const RoundResult round{.round = before + result.round,
                            .policy = Policy::full(),
                            .header = before != 0 ? &header_ : result.header,
                            .buckets = result.sum,
                            .passed = {}};
    context_.listener.before(round);
    // With τ = 1 all models are alike after a full round: averaged without a step in between they would be rounded
    // anew.
    if (result.header->batches != 0 || choices_.groups.full_every != 1) move(result);
    state_.run(driver);
    since_full_ = {.batches = 0, .samples = 0};
    context_.listener.after(round);
    if (!moves()) publish();
  }

  void move(const GroupResult& result) {
    const ModelMove how = model_move(result.fresh, drained_, choices_.stale);
    for_each_array([&](DataType type, std::span<std::byte> mine, int bucket, std::size_t at) {
      const auto sum = result.sum[static_cast<std::size_t>(bucket)].subspan(at, mine.size());
      switch (how) {
        case ModelMove::average: divide(type, mine, sum, result.members); break;
        case ModelMove::mix: add_divide(type, mine, sum, result.members + 1); break;
        case ModelMove::carry:
          carry(type, mine, sum, result.members, result.own->bucket(bucket).subspan(at, mine.size()));
          break;
      }
    });
  }

  const RecipeContext context_;
  const Choices choices_;
  const std::shared_ptr<GroupAllreduce> collective_;
  StateAverage state_;
  const DataType kept_type_ =
      context_.replica.parameter_buckets().back().type == DataType::float64 ? DataType::float64 : DataType::float32;
  // A number, summed like weights: the movement of how many steps is in the model.
  alignas(double) std::array<std::byte, sizeof(double)> kept_{};
  std::uint64_t own_steps_ = 0;
  bool begun_ = false;  // a model has been published
  bool drained_ = false;
  RoundHeader header_;                                  // of a full round, whose bases count the rounds of the job
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
