#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"
#include "stretto/imbalance/pace.h"
#include "stretto/imbalance/spec.h"
#include "stretto/membership/job.h"
#include "stretto/observe/ledger.h"
#include "stretto/train/job/session.h"
#include "stretto/train/loop/loop_environment.h"
#include "stretto/train/loop/loop_history.h"
#include "stretto/train/loop/loop_reporter.h"
#include "stretto/train/loop/new_members.h"
#include "stretto/train/options/distributed_options.h"
#include "stretto/train/recipes/options/lr_schedule.h"

namespace stretto {

/// Hooks for the owner of an OwnLoop, called on its thread. An empty hook is not called.
struct LoopHooks {
  /// The gradients of this step are complete: before they are handed over.
  std::function<void()> computed = {};
  /// They have been handed over: before this rank meets the others.
  std::function<void()> deposited = {};
  /// A round of so many ranks has moved the weights, and so many batches are applied by now: the place to step
  /// schedulers.
  std::function<void(std::uint64_t batches, int ranks)> applied = {};
  /// Returns the counts that the next deposit brings along: RoundListener::take_counts().
  std::function<LoopCounts()> take_counts = {};
  /// Hears the counts that the deposits of a round of so many ranks have brought along, before it moves the weights:
  /// the same on every rank.
  std::function<void(const LoopCounts& sum, int ranks)> counted = {};
  /// Any number of words for the other ranks, wherever all of them meet and wherever they part again. On every rank or
  /// on none. Where members change it may be asked again before the words of all have come.
  std::function<std::vector<std::uint64_t>()> tell_ranks = {};
  /// The words of all ranks, by rank: the same on every rank; empty: what this rank has told is not wanted any more.
  std::function<void(const std::vector<std::vector<std::uint64_t>>& words)> hear_ranks = {};
  /// Where members of the job change: who they are in a world that has begun for this rank, also in its first.
  std::function<void(const NewMembers& members)> members = {};
  /// With that, what the owner has beside the replica that is the same on every rank after the rounds so far: a line
  /// for each thing, to be the same on all ranks; its content, and its taking over by a rank that comes in.
  std::function<std::string()> describe_state = {};
  std::function<std::string()> state = {};
  std::function<void(const std::string& state)> take_state = {};
  /// Called about ten times a second while this rank waits: SessionOptions::look.
  std::function<void()> look = {};
  /// Is told, on every rank, what a person should read; empty: stderr.
  std::function<void(const std::string& line)> tell = {};
  /// So long without news it is told who is waited for, again and again; 0: as SessionOptions.
  Duration silence{0};
};

/// The steps of a loop of the user's own, over any Replica: a session, its account, and what ranks compare at the end.
/// DistributedOptimizer is the one over LibTorch. Knows no Torch. One application thread.
///
/// A step is: begin_step(), forward and backward pass, step() or pass(). Then finish().
class OwnLoop final : private RoundListener, private RankLoop {
 public:
  /// On every rank; all must outlive it. The environment overrides the options (LoopEnvironment).
  OwnLoop(RankContext& rank, Replica& replica, const DistributedOptions& options, LoopHooks hooks = {});
  ~OwnLoop() override { sessions_.remove(*this); }
  OwnLoop(const OwnLoop&) = delete;
  OwnLoop& operator=(const OwnLoop&) = delete;

  /// Once, first: meets the other ranks, and gives all of them the weights of rank 0 and the state of its optimizer.
  /// Throws UsageError, on every rank, for what differs from rank 0's.
  void begin();
  /// Attaches the memory of the next step's gradients, set to zero; again before step(): without effect.
  void begin_step();
  /// Hands over the gradients of a batch of `samples`, and applies the rounds that are complete. Returns how many.
  /// `batches`: of the job's pool, where members of the job change, 1 to 1,000. Throws Failure (Errc::aborted), on
  /// every rank, if a gradient is not finite.
  int step(std::uint64_t samples, std::uint64_t batches = 1);
  /// In the place of step(): drops the batch, and meets the others as if it had been handed over.
  int pass(std::uint64_t batches = 1);
  /// Where members of the job change: so many batches that this rank has drawn are handed over by none of its steps, as
  /// after a loop over an epoch that was left. They count as used, with the next step.
  void drop_batches(std::uint64_t batches) { dropped_ += batches; }
  /// This rank has no more batches: returns when no rank has. With Others::end it has none for its other loops either.
  /// Throws Failure (Errc::diverged), which names them, where replicas differ, and UsageError, on every rank, where
  /// ranks finish different loops.
  int finish(Others others = Others::end);
  /// Waits until every rank has called this, or finish(), and everything that was handed over is applied: then all
  /// ranks have the same weights and running statistics, and no collective of a loop runs before part(). This goes for
  /// all loops of the rank, whichever is called. Throws as finish().
  int meet();
  /// Ends what meet() has begun: the loops go on when all ranks have called it. Of that loop alone which was called.
  void part();
  /// In place of finish(), in a destructor: does what can be done in time, and says on stderr what it would throw.
  void end() noexcept;
  /// Where members of the job change, on a rank that has no batch: returns after the last round, which takes what all
  /// ranks have handed over. False: members have changed, and this rank may get batches of those that are lost; then
  /// begin_step() begins anew. Without effect, and true, where they do not change.
  [[nodiscard]] bool drain();
  /// Where members of the job change: this rank is to leave the job. The step under way is its last: that step's call,
  /// or begin_step(), drain() or finish() where none is, hands over all of it, waits until the others go on without
  /// it, and throws Left. So it is where the process gets SIGTERM. Any thread. Throws UsageError where members do not
  /// change.
  void leave();
  /// Stops the job: `reason` reaches every rank.
  void abort(const std::string& reason) { abort({Errc::aborted, reason, session_.rank()}); }
  /// The same; the other ranks throw a Failure of the same code.
  void abort(const Error& why);

  /// Called after each round that was applied.
  void on_round(std::function<void(const RoundResult&)> applied) { on_round_ = std::move(applied); }
  /// Called in the first full round of every `full_every` batches. Where members of the job change, and on some rank a
  /// change cuts off what it does there with the others, it is called anew in the next full round, on every rank.
  void on_full_round(std::function<void()> held) { on_full_round_ = std::move(held); }
  /// Goes on from a checkpoint: so many batches were applied, and this rank had made so many steps. After begin().
  /// Where members of the job change before it, and without effect on a rank that comes to a job under way.
  void go_on_from(std::uint64_t applied, std::uint64_t steps);
  /// Sets the learning rate by DistributedOptions::lr_schedule, and takes the optimizer's options as they are for
  /// meant.
  void take_options();
  /// Says a line on rank 0.
  void tell(const std::string& line) const;
  /// Prints the ledger, and how many batches were applied in a second, on rank 0's standard output.
  void report() const;
  /// A report on all ranks, as this rank knows them now, and on its own steps: one JSON object. Asks no other rank.
  std::string report_json() const;

  const LoopEnvironment& environment() const { return environment_; }
  const DistributedOptions& options() const { return options_; }
  const SessionOptions& session_options() const { return session_options_; }
  Session& session() { return session_; }
  const Ledger& ledger() const { return ledger_; }
  LoopReporter& reporter() { return reporter_; }
  std::uint64_t applied() const { return applied_; }
  std::uint64_t rounds() const { return rounds_before_ + session_.recipe().rounds(); }
  /// Of them those before the present recipe, which numbers its own from 0.
  std::uint64_t rounds_before() const { return rounds_before_; }
  std::uint64_t steps() const { return steps_; }
  bool stepped() const { return steps_ != steps_before_; }  ///< since the start, or the checkpoint
  bool begun() const { return begun_; }                     ///< between begin_step() and the step
  /// Between meet() and part(), where members change: the others have met, and have parted again by that. They come to
  /// nothing that all ranks do together.
  bool has_parted() const { return parted_; }
  /// Whether nothing is pending: before the first step, at a full round, where all ranks have met, and after the last.
  bool quiet() const { return state_ != State::going && state_ != State::resting; }
  bool ended() const { return under_way_ || state_ == State::finished; }  ///< or a call has thrown
  bool identical() const { return identical_.value_or(false); }           ///< the replicas, when last compared
  /// From now on options_changed() can be asked.
  void watch_options() { watches_options_ = true; }
  /// Whether the optimizer's options have been changed since the last round.
  bool options_changed() const { return replica_.optimizer_options().hash != options_hash_; }

 private:
  /// Where the loop stands; move_to() says from where to where it goes.
  enum class State {
    fresh,       ///< nothing has been handed over since begin(), or since part()
    going,       ///< rounds may be pending
    full_round,  ///< in a full round of which the caller is told
    resting,     ///< the rounds are over, by the end of this loop or of another one of the rank
    met,         ///< between meet() and part(), of this loop or another
    finished,
  };
  void move_to(State next);
  /// Session::telling() of a call that leaves the loop ended where it throws, and in which no other call begins.
  template <class Work>
  auto call(Work work) {
    under_way_ = true;
    auto result = session_.telling(work);
    under_way_ = false;
    return result;
  }

  void before(const RoundResult& result) override;
  LoopCounts take_counts() override;
  void counted(const LoopCounts& sum, int ranks) override;
  void after(const RoundResult& result) override;
  std::string state() override { return hooks_.state ? hooks_.state() : std::string(); }
  void take_state(const std::string& state) override {
    if (hooks_.take_state) hooks_.take_state(state);
  }
  std::vector<std::uint64_t> tell() override {
    return hooks_.tell_ranks ? hooks_.tell_ranks() : std::vector<std::uint64_t>();
  }
  void hear(const std::vector<std::vector<std::uint64_t>>& words) override {
    if (hooks_.hear_ranks) hooks_.hear_ranks(words);
  }
  void members_are_new() override;
  void hold_full_round(const RoundResult& result);
  /// Where members of the job change, in the first full round of a world: what all ranks have held is what each of them
  /// has, as far as it knows.
  void agree_on_last_held();
  /// Why a rank meets the others after the last round, where members change.
  enum class Come : std::uint64_t {
    meets,     ///< it has called meet()
    drains,    ///< there is no batch, and it has not finished. One that leaves has drained, too, and meets nobody: its
               ///< batch comes back
    finishes,  ///< it has called finish()
  };
  /// All ranks say why they come, and meet where one does: meets; drains where one does; else all finish. Nothing:
  /// members have changed, and there may be batches again.
  std::optional<Come> come_together(Come mine);
  /// finish() where members change.
  void finish_with_members();
  /// The same of meet() and part().
  void meet_with_members();
  void part_with_members();
  /// Throws UsageError for a call that cannot be made where members of the job change.
  void require_fixed(const char* call) const;
  void set_lr();
  void require_going_on(const char* call) const;
  /// step() or pass(): `hand_over` is what differs.
  int take_step(const char* call, FunctionRef<void()> hand_over);
  /// Says that the step has so many batches, and those dropped before.
  void count_batches(std::uint64_t batches);
  void leave_if_wished();
  /// A step begins where the one before ends.
  void begin_timing();
  /// Compares the replicas of all ranks. `last`: no rank goes on.
  void compare(bool last);
  static void hold_until_all_know(RankLoop& loop);
  bool failed() const override { return session_.failed(); }
  void rest() override;
  bool rest_within(Duration limit) override;
  std::vector<std::uint64_t> gather(std::uint64_t mine) override;
  void come_together() override;
  void go_on() override;
  /// The loops of this rank that have not failed.
  std::vector<RankLoop*> all_loops() const;
  /// Of loops that rest: whether some rank meets. `finishes`: this loop, else this rank does.
  bool some_meet(const std::vector<RankLoop*>& loops, bool finishes);
  /// Gathers what the hooks of all ranks have to say to one another.
  void gather_words();

  const LoopEnvironment environment_;
  const DistributedOptions options_;  // as the environment wants them
  const LrSchedule lr_;
  const int exceptions_;  // under way when this was made
  const SteadyClock clock_;
  const Imbalance imbalance_;  // injected
  Pacer pacer_;                // of what is injected
  Replica& replica_;
  RankSessions& sessions_;
  const LoopHooks hooks_;
  const SessionOptions session_options_;
  Session session_;
  Ledger ledger_;
  LoopHistory history_;
  LoopReporter reporter_;
  std::function<void(const RoundResult&)> on_round_;
  std::function<void()> on_full_round_;
  std::vector<std::vector<std::uint64_t>> words_;  // of all ranks, that hooks_ has not heard
  std::vector<MemberNumber> members_;              // of the present world, by number

  TimePoint start_;
  TimePoint step_began_;
  Duration waited_{0};               // at the end of the last step
  std::uint64_t steps_ = 0;          // of this rank
  std::uint64_t steps_before_ = 0;   // of them before the checkpoint
  std::uint64_t dropped_ = 0;        // batches that no step has handed over, nor said so
  std::uint64_t deposits_ = 0;       // steps since the checkpoint that were not passed
  std::uint64_t applied_ = 0;        // batches
  std::uint64_t rounds_before_ = 0;  // of recipes before the present one
  std::uint64_t full_at_ = 0;        // batches applied at the last full round that the caller was told of
  std::uint64_t agreed_in_ = 0;      // the epoch of the world in which ranks have agreed on full_at_
  std::uint64_t options_hash_ = 0;   // of the wrapped optimizer's options, as the last round left them
  bool watches_options_ = false;
  State state_ = State::fresh;
  bool begun_ = false;             // the step: gradients have a place
  bool parted_ = false;            // met, and the others have parted
  bool under_way_ = false;         // a call is, or has thrown
  std::optional<bool> identical_;  // the replicas, when last compared
};

}  // namespace stretto
