#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/collective/base/collective.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/observe/ledger.h"
#include "stretto/train/options/train_options.h"
#include "stretto/train/recipes/options/algorithm_options.h"
#include "stretto/train/recipes/options/core_sets.h"
#include "stretto/train/recipes/round_notes.h"
#include "stretto/train/replica/meeting.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// Hears of rounds while they are applied, on the application's thread, the same on every rank.
class RoundListener {
 public:
  virtual ~RoundListener() = default;  ///< after the recipe's
  /// A round that is not empty is about to move the weights: the place to set the learning rate.
  virtual void before(const RoundResult& result) = 0;
  /// The counts that the deposit about to be handed over brings along; a deposit asks once. Only where rounds carry
  /// notes (RecipeOptions::notes) of an algorithm that averages gradients.
  virtual LoopCounts take_counts() { return {}; }
  /// Hears the counts that the deposits of a round that is not empty have brought along, which is one of so many ranks:
  /// between before() and the move.
  virtual void counted(const LoopCounts& /*sum*/, int /*ranks*/) {}
  /// Before them: this rank's own model is so far from the average of all that it becomes, as a share of the norm of
  /// that. Of easgd-grid alone.
  virtual void apart(double /*share*/) {}
  /// The weights are what they are after this round. Also for a round in which nobody brought anything.
  virtual void after(const RoundResult& result) = 0;

  // Where members of the job change:
  /// What the rank has beside the replica that is the same on every rank after the rounds so far, for one that comes
  /// in.
  virtual std::string state() { return {}; }
  /// Takes over what state() of a rank that holds all rounds has given; the replica has that one's weights already.
  virtual void take_state(const std::string& /*state*/) {}
  /// Words for hear() of all ranks, where they part that have met, and members change before.
  virtual std::vector<std::uint64_t> tell() { return {}; }
  /// The words of all ranks, by rank.
  virtual void hear(const std::vector<std::vector<std::uint64_t>>& /*words*/) {}
  /// This rank has begun in a world, the first one, too.
  virtual void members_are_new() {}
};

/// The H of algorithms in which all ranks meet at the end alone, unless told otherwise.
inline constexpr std::uint64_t kMeetsAtTheEnd = 1'000'000'000;
/// The same where members of the job change, and a rank that is lost takes its steps since then along.
inline constexpr std::uint64_t kMostStepsWhereMembersChange = 100;

/// How an algorithm goes on where members of the job change.
enum class AcrossWorlds : std::uint8_t {
  refused,   ///< it does not
  carried,   ///< Recipe::carried_sums(): its rounds go on, and what is in flight
  averaged,  ///< what is in flight is dropped, and each world begins with a full average of the models
};

/// Options of a recipe, the same on every rank; DistributedOptions says more of those they share.
struct RecipeOptions {
  Policy policy;                           ///< who may start a round, where the algorithm leaves it open
  Normalize normalize = Normalize::ranks;  ///< the divisor of a round's sum
  Delivery delivery = Delivery::every;     ///< which rounds are applied
  SumOrder order = SumOrder::arrival;      ///< of partial rounds; where all ranks take part it is fixed
  int max_lag = 4;                         ///< PartialOptions::max_lag
  int seats = 0;                           ///< PartialOptions::seats
  std::uint64_t seed = 0;                  ///< of the draws of `majority`, and of algorithms that draw
  std::uint64_t full_every = 0;            ///< batches between full rounds
  std::uint64_t local_steps = 1;           ///< H: a rank's own steps between two averages of models
  std::uint64_t batches_before = 0;        ///< applied before its first round (resume, and where members change)
  bool members_change = false;             ///< PartialOptions::members_change
  Round rounds_before = 0;                 ///< with it: PartialOptions::rounds_before
  int place = 0;                           ///< with it: this rank's in notes
  int places = 1;                          ///< with it: as many as there may be members
  bool own_lines = false;                  ///< with it: the lines of a grid have engines of their own
  bool overlap = false;                    ///< hand gradients over during the backward pass where the algorithm can
  /// For a loop of the user's own (RoundNotes): no parameter moves that no rank had a gradient for, and ranks whose
  /// optimizers differ are named. Costs a small bucket more.
  bool notes = false;
  bool compares = true;        ///< with notes: also whether all ranks have the same weights
  CoreSets cores;              ///< on which the helper thread runs, where `ordering` gives it some of its own
  std::string argument;        ///< what follows the algorithm's name and a colon, where anything does
  AlgorithmOptions algorithm;  ///< what this algorithm alone can be told
};

/// The objects that one rank's recipe works with. All of it outlives the recipe.
struct RecipeContext {
  Replica& replica;         ///< this rank's model
  Engine& engine;           ///< over which the recipe makes its collectives
  Meeting& meeting;         ///< for exchanges while all ranks are at the same round
  RoundListener& listener;  ///< to be told of each round
  RecipeOptions options;    ///< the same on every rank
};

/// For which other ranks a rank may wait in a step, where ranks have made different numbers of steps.
struct StepWaits {
  /// A rank that missed rounds joins the open round. There it waits for ranks that are ahead of it.
  bool for_ranks_ahead = false;
  /// Ranks meet every few steps: one that has made more waits there for those that have made fewer.
  bool for_ranks_behind = false;
};

/// Of partial rounds that are as the options say: under any policy but solo the ranks that have come to the open round
/// wait for others, under solo at full rounds.
StepWaits waits_of_partial_rounds(const Policy& policy, std::uint64_t full_every);

/// The memory that the collectives of a recipe hold on one rank.
struct RecipeMemory {
  std::uint64_t bytes = 0;  ///< in all
  std::string parts;        ///< in words: "6 sets, and the results of 4 rounds"
};
/// That of one collective: its contribution sets and results.
RecipeMemory memory_of(const PartialAllreduce& collective);

/// Throws UsageError for Normalize::samples over buckets of float16: a number times that of the samples soon is
/// infinite there.
void check_weights(Normalize normalize, const std::vector<BucketSpec>& buckets);

/// The facet of a recipe whose weights may be on their way when advance() returns. One application thread.
class WeightsByBucket {
 public:
  virtual ~WeightsByBucket() = default;  ///< with the recipe
  /// Before the first step: from now on weights are read after bring() alone. Returns whether the algorithm can; false:
  /// it brings them with advance().
  virtual bool bring_by_bucket() = 0;
  /// Waits for the weights of a bucket, where they are on their way, and lets the replica have them. Returns 0, or as
  /// Recipe::advance() does.
  virtual Result<int> bring(int bucket, Driver& driver, TimePoint deadline) = 0;
};

/// The facet of a recipe whose rounds go on where members of the job change. It is made anew in each world, by
/// RecipeOptions::members_change.
class CarriedSums {
 public:
  virtual ~CarriedSums() = default;  ///< with the recipe
  /// Sums its deposits, which are taken out of one world and put into the next.
  virtual PartialAllreduce& carried() = 0;
  /// Applies a round that this rank lacked when its world ended, in order, without a call of a collective.
  virtual void apply_fetched(Driver& driver, const RoundResult& result) = 0;
  /// Goes on from the recipe of the world before, of the same algorithm, with all that it has beside its deposits:
  /// Recipe::state(), and this rank's own steps that are in no deposit yet. `before` is not used any more then.
  virtual void go_on_from(CarriedSums& /*before*/) {}
  /// The model of all ranks, after the rounds applied here, as far as weights, optimizer and buffers of this rank's
  /// replica do not have it, and what ranks compare of it: for a rank that takes it over from this one. Empty: they do.
  virtual std::string model_beside() const { return {}; }
  /// Takes over what model_beside() has given elsewhere, after the replica has those three.
  virtual void take_over(const std::string& /*model_beside*/) {}
};

/// Whether the error of a call that waits for others says that members of the job change, where they may: a rank may
/// see that another one is gone before the master says so.
inline bool tells_of_change(const Error& error) {
  return error.code == Errc::members_changed || error.code == Errc::lost_peer;
}

class GridAllreduce;
class OrderedGradients;

/// An algorithm: what is averaged, through which collectives, and when. One rank's part of it; made with the same
/// options on every rank, in the same order with regard to other collectives of the engine and before anybody drives
/// it. One application thread.
///
/// A recipe owns any number of collectives, of any kinds. Its callers know them as `Collective`s alone; what a round
/// has brought they hear from the RoundListener.
///
/// A step is: begin_step(), forward and backward pass, end_backward(), deposit(), advance(). Then finish(). A rank
/// that drops its batch calls pass() in the place of end_backward() and deposit().
class Recipe {
 public:
  virtual ~Recipe() = default;  ///< after finish(), or after a failure

  /// Whether this rank takes batches; false: it only helps the others, and calls finish() at once.
  virtual bool takes_batches() const { return true; }
  /// Gradients of the coming backward pass go where the recipe wants them. `step` outlives the step: `waited` is known,
  /// samples and batches may be corrected until deposit(), or before the backward pass where gradients are handed over
  /// during it.
  virtual void begin_step(const DepositInfo& step) = 0;
  /// Whether a step may have more than one batch. No where the algorithm counts steps.
  virtual bool takes_several_batches() const { return false; }
  /// After the backward pass. Returns the first gradient that is not finite, by name; nothing of its bucket or of
  /// those behind has reached another rank then, and the caller stops the job.
  [[nodiscard]] virtual std::optional<std::string> end_backward() = 0;
  /// Hands the step over, of which all is known now.
  virtual void deposit(const DepositInfo& step) = 0;
  /// In the place of end_backward() and deposit(): drops this step's batch. In the advance() that follows the rank
  /// meets the others as if it had deposited, and brings nothing. A rank that moves its own model does not move it now,
  /// counts the step, and brings the model as it is. Throws UsageError where part of the batch's gradients has been
  /// handed over during the backward pass: the others have it; and for an algorithm that has no such step.
  virtual void pass(const DepositInfo& step);
  /// Meets the others where the algorithm says so, and applies the rounds that are complete, at least as many as the
  /// algorithm needs before the next step. Returns how many there were, or as PartialAllreduce::exchange() does; after
  /// a timeout call it again.
  virtual Result<int> advance(Driver& driver, TimePoint deadline) = 0;
  /// No more batches here: hands over what is left, and returns after the last round. After a timeout call it again.
  virtual Result<int> finish(Driver& driver, TimePoint deadline) = 0;
  /// The same without waiting: applies the rounds that are complete. Returns whether the last one is. May be called
  /// again; finish() comes after it.
  [[nodiscard]] virtual Result<bool> drain(Driver& driver) = 0;

  /// All collectives whose rounds this recipe runs: to stop the job, and to say for which ranks it waits. Shared: after
  /// a failure the engine goes on to use what they hold.
  virtual std::vector<std::shared_ptr<Collective>> collectives() const = 0;
  /// Rounds applied so far.
  virtual Round rounds() const = 0;
  /// The memory that the recipe's collectives hold here.
  virtual RecipeMemory memory() const = 0;
  /// A sentence about options that work and are likely not what was meant. Said once, by one rank, before the first
  /// step. Empty: nothing.
  virtual std::string warning() const { return {}; }
  /// Lines for a person to read that have come up since the last call, the same on every rank or on this one alone.
  virtual std::vector<std::string> take_lines() { return {}; }
  /// The recipe's state beside the replica that a job has to go on with, the same on every rank: for a checkpoint,
  /// where all ranks are at the same full round. Empty: nothing.
  virtual std::string state() const { return {}; }
  /// Takes over what state() of this algorithm over the same model gave, before the first step. Throws Failure
  /// (Errc::bad_input) for one that does not fit.
  virtual void set_state(const std::string& state);
  /// The recipe's own counts on this rank. Requires: after finish().
  virtual OwnCounts own_counts() const { return {}; }
  /// For whom a rank waits: two algorithms side by side must not wait for each other.
  virtual StepWaits waits() const { return {}; }
  /// So many batches had been applied when the checkpoint was written that this rank goes on from; before the first
  /// step. For those who learn it after they have made the recipe: else RecipeOptions::batches_before.
  virtual void go_on_after(std::uint64_t /*batches*/) {}
  /// Where members of the job change, and models are averaged then (AcrossWorlds::averaged): the engine steps no more.
  /// From now on the replica's weights have all steps of this rank's own; nothing but the destructor is called then.
  virtual void stand_still() {}
  /// Own steps of this rank since the last round of all, where it meets the others after a number of them.
  virtual std::uint64_t steps_alone() const { return 0; }
  /// This rank has taken over the state of another one, which had made so many: it meets the others when that does, or
  /// after its next step.
  virtual void go_on_after_steps_alone(std::uint64_t /*steps*/) {}
  /// Whether optimizer states, too, are equal on all replicas once a round is applied.
  virtual bool averages_gradients() const = 0;

  /// Facets that only some algorithms have; null: this one has it not. They live as long as the recipe.
  virtual WeightsByBucket* weights_by_bucket() { return nullptr; }
  /// Lines may come up while this rank waits, where there is one (take_lines()).
  virtual OrderedGradients* ordered() { return nullptr; }
  /// The lines in which ranks average models, where there are some.
  virtual std::shared_ptr<GridAllreduce> grid() const { return nullptr; }
  /// With RecipeOptions::own_lines: goes on in the lines of the recipe of the world before; else counts on from them.
  virtual void go_on_in(std::shared_ptr<GridAllreduce> /*grid*/) {}
  /// Where members of the job change.
  virtual CarriedSums* carried_sums() { return nullptr; }
};

}  // namespace stretto
