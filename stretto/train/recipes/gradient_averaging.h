#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/train/recipes/recipe.h"

namespace stretto {

class RoundNotes;

/// Whether each bucket of gradients has rounds of its own (`rounds` of RecipeOptions::algorithm).
bool has_bucket_rounds(const RecipeOptions& options);
/// The notes of a recipe whose rounds carry them (RecipeOptions::notes), else null.
std::unique_ptr<RoundNotes> make_round_notes(const RecipeContext& context);
/// Takes a round into account, in order: moves the weights once, by the average of the gradients that it has brought
/// in its first buckets, if it has brought any, after the listener has heard of it. Where buckets have rounds of their
/// own, a bucket's average is that of its round, and those that it has brought nothing for are not moved. `noted`: the
/// sum of the notes.
void move_by_average(const RecipeContext& context, RoundNotes* notes, const RoundResult& result,
                     std::span<const std::int64_t> noted);

/// The base of the algorithms that average gradients: gradients are computed into the memory of a deposit, handed over
/// as a whole, and each round that comes back moves the weights once, by the average.
class GradientAveraging : public Recipe, private CarriedSums {
 public:
  /// Makes its PartialAllreduce: rounds by `policy`, results by `delivery`. Throws as that does.
  GradientAveraging(const RecipeContext& context, Policy policy, Delivery delivery);
  ~GradientAveraging() override;  ///< as ~PartialAllreduce()

  void begin_step(const DepositInfo& step) override;
  bool takes_several_batches() const override { return true; }
  std::optional<std::string> end_backward() override;
  void deposit(const DepositInfo& step) override;
  void pass(const DepositInfo&) override {}  // exchange() arrives; the set goes to the next step
  Result<int> advance(Driver& driver, TimePoint deadline) override;
  Result<int> finish(Driver& driver, TimePoint deadline) override;
  Result<bool> drain(Driver& driver) override;
  std::vector<std::shared_ptr<Collective>> collectives() const override { return {collective_}; }
  Round rounds() const override { return collective_->handed(); }
  RecipeMemory memory() const override { return memory_of(*collective_); }
  bool averages_gradients() const override { return true; }
  CarriedSums* carried_sums() override { return context_.options.members_change ? this : nullptr; }

 protected:
  /// Applies a round, in order.
  void apply(Driver& driver, const RoundResult& result);
  /// Called in it when the weights have been moved, before the listener hears of the round; also of an empty one.
  virtual void moved(Driver&, const RoundResult&) {}
  /// Whether the bucket may be handed over; weighs it by its samples where the average is over samples.
  /// Requires: in order. After the first that is not finite nothing is.
  bool check_bucket(int bucket);

  /// In the middle of the backward pass: what has been computed so far begins to be handed over, bucket by bucket.
  void begin_deposit();
  /// Fills the bucket of the notes, which comes after those of the replica. After the backward pass.
  void write_notes();
  /// The result of rounds of each bucket that carry notes: its gradients and their headers alone. The notes go to
  /// noted_: those of bucket 0, with the uses of each parameter in the round of its own bucket.
  RoundResult gradients_of(const RoundResult& result);

  PartialAllreduce& carried() override { return *collective_; }
  void apply_fetched(Driver& driver, const RoundResult& result) override { apply(driver, result); }
  void go_on_from(CarriedSums& before) override { take_over(before.model_beside()); }
  std::string model_beside() const override;
  void take_over(const std::string& model_beside) override;

  RecipeContext context_;                               ///< as given to the constructor
  const int num_buckets_;                               ///< of the replica
  const std::unique_ptr<RoundNotes> notes_;             ///< null without RecipeOptions::notes
  const int stride_;                                    ///< from one bucket of gradients to the next in a deposit
  const std::shared_ptr<PartialAllreduce> collective_;  ///< what averages
  Contribution* current_ = nullptr;                     ///< being filled; null: the last one has been deposited
  std::vector<std::span<std::byte>> memory_;            ///< its buckets
  const DepositInfo* step_ = nullptr;                   ///< under way
  TimePoint began_;                                     ///< the step
  std::optional<std::string> non_finite_;               ///< the first gradient of this step that is not finite
  std::vector<std::int64_t> noted_;                     ///< gradients_of()
  std::vector<std::span<const std::byte>> sums_;        ///< the same
  std::vector<const RoundHeader*> headers_;             ///< the same
};

}  // namespace stretto
