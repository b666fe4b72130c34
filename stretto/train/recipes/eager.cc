#include "stretto/train/recipes/eager.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/recipes/gradient_averaging.h"

namespace stretto {
namespace {

class Eager final : public GradientAveraging {
 public:
  explicit Eager(const RecipeContext& context)
      : GradientAveraging(context, context.options.policy, context.options.delivery),
        by_bucket_(has_bucket_rounds(context.options)),
        overlaps_(by_bucket_ && context.options.overlap && notes_ == nullptr) {
    if (overlaps_) context.replica.on_bucket_ready([this](int bucket) { hand_over(bucket); });
  }
  ~Eager() override {
    if (overlaps_) context_.replica.on_bucket_ready(nullptr);
  }

  std::optional<std::string> end_backward() override {
    if (!overlaps_) return GradientAveraging::end_backward();
    context_.replica.end_backward();  // hands over what is left
    return non_finite_;
  }

  void deposit(const DepositInfo& step) override {
    if (!overlaps_) return GradientAveraging::deposit(step);
    current_ = nullptr;  // handed over
  }

  Result<int> finish(Driver& driver, TimePoint deadline) override {
    auto rounds = GradientAveraging::finish(driver, deadline);
    if (rounds && context_.options.delivery == Delivery::latest) context_.meeting.average_parameters(driver);
    if (rounds && by_bucket_ && notes_ == nullptr) {
      lines_.push_back(text("in ", split_, " of ", collective_->handed(),
                            " rounds the buckets have summed gradients of different batches"));
    }
    return rounds;
  }

  OwnCounts own_counts() const override { return {.passed = passed_}; }
  std::string warning() const override {
    if (!by_bucket_) return {};
    if (num_buckets_ == 1)
      return "rounds per-bucket: all gradients lie in one bucket, so that there is one round a step";
    return text("rounds per-bucket: each of ", num_buckets_,
                " buckets of gradients has rounds of its own; a gradient may be partly in one round and partly in the "
                "next");
  }
  std::vector<std::string> take_lines() override { return std::exchange(lines_, {}); }

  StepWaits waits() const override {
    return waits_of_partial_rounds(context_.options.policy, context_.options.full_every);
  }
  bool averages_gradients() const override { return context_.options.delivery == Delivery::every; }

 private:
  void moved(Driver& driver, const RoundResult& result) override {
    if (is_split(result)) ++split_;
    for (const PassedRound& passed : result.passed) passed_ += passed.header.batches;
    if (context_.options.delivery == Delivery::latest && result.policy.kind == Policy::Kind::full) {
      context_.meeting.average_parameters(driver);
    }
  }

  /// Whether the round has summed different batches in some of its buckets.
  static bool is_split(const RoundResult& result) {
    return std::ranges::any_of(result.headers, [&](const RoundHeader* header) {
      return header->batches != result.header->batches || header->sum_of_bases != result.header->sum_of_bases ||
             header->fresh != result.header->fresh || header->stale != result.header->stale;
    });
  }

  void hand_over(int bucket) {
    if (!check_bucket(bucket)) return;
    if (bucket == 0) begin_deposit();
    collective_->bucket_ready(*current_, bucket);
  }

  const bool by_bucket_;      // each has rounds of its own
  const bool overlaps_;       // each is deposited as soon as it is computed
  std::uint64_t split_ = 0;   // rounds
  std::uint64_t passed_ = 0;  // batches in rounds that this replica has not applied
  std::vector<std::string> lines_;
};

}  // namespace

Policy solo_policy(const std::string&, int, int) {
  return Policy::solo();
}

Policy majority_policy(const std::string&, int, int) {
  return Policy::majority();
}

Policy quorum_policy(const std::string& argument, int ranks, int quorum) {
  if (!argument.empty()) return Policy::parse("quorum:" + argument, ranks);
  return Policy::parse(text("quorum:", quorum != 0 ? quorum : (ranks + 1) / 2), ranks);
}

Policy deadline_policy(const std::string& argument, int ranks, int) {
  if (argument.empty()) {
    throw UsageError(text(
        "algorithm \"eager-deadline\": expected a quorum and a time, as in eager-deadline:", (ranks + 1) / 2, ",20ms"));
  }
  return Policy::parse("deadline:" + argument, ranks);
}

std::unique_ptr<Recipe> make_eager(const RecipeContext& context) {
  return std::make_unique<Eager>(context);
}

void check_eager(const RecipeOptions& options, int ranks) {
  if (!has_bucket_rounds(options)) return;
  const auto refuse = [](const std::string& what) { throw UsageError(text("rounds per-bucket with ", what)); };
  if (options.delivery == Delivery::latest) refuse("delivery latest: expected every");
  if (options.seats > 1 && options.seats < ranks) {
    refuse(text("seats ", options.seats, ": expected 1, or none at all for one board of all ranks"));
  }
}

std::optional<AlgorithmShape> eager_shape(const RecipeOptions& options, int) {
  if (has_bucket_rounds(options)) return std::nullopt;
  return AlgorithmShape{
      .exchange = RoundShape{.policy = options.policy, .max_lag = options.max_lag, .full_every = options.full_every}};
}

}  // namespace stretto
