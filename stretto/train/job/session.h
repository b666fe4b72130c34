#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/engine/driver.h"
#include "stretto/membership/job.h"
#include "stretto/train/job/members/line_worlds.h"
#include "stretto/train/job/members/member_account.h"
#include "stretto/train/job/members/state_giver.h"
#include "stretto/train/job/members/world_of_one.h"
#include "stretto/train/job/rank_sessions.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/train/replica/meeting.h"

namespace stretto {

struct SessionOptions {
  const RecipeInfo* recipe = nullptr;
  RecipeOptions recipe_options;
  /// Where members of the job change: the policy among so many ranks.
  std::function<Policy(int ranks)> policy_of;
  ProgressBy progress_by = ProgressBy::thread;
  Duration silence = std::chrono::seconds(10);  ///< so long without news it is said who is waited for, again and again
  /// On a virtual clock messages may take any time: begin() waits until the simulation says that nothing happens any
  /// more, instead of MeetingOptions::timeout.
  bool virtual_time = false;
  /// Called with a sentence such as "round 412 (full) waits for rank 3 (silent, last seen 11 s ago)".
  std::function<void(Round open, const std::string& line)> tell;
  /// Called about ten times a second while this rank waits, on its thread: the place to look for signals. What it
  /// throws ends the session, and passes through the call that waits.
  std::function<void()> look;
};

/// One rank's end of an algorithm: the recipe, and what it shares with the other ranks, over the rank's one engine,
/// real or simulated. Any number of sessions may live at once; they are made, and finished, in the same order on every
/// rank. Where members of the job change (RankContext::changes()) there is one, which goes from world to world: its
/// calls take longer then, and nothing else of it shows. One application thread. What goes wrong comes as Failure
/// (Errc::lost_peer, Errc::aborted), and ends this session alone; so does what SessionOptions::look or the function
/// that hears of rounds throws. After that every call but abort() throws UsageError. In a process that the rank has
/// forked every call throws it, and the destructor does nothing.
class Session final : private BatchSource {
 public:
  /// Makes the collectives and sees to it that the engine is driven. All but the options outlive the session.
  Session(RankContext& context, Replica& replica, RoundListener& listener, SessionOptions options);
  /// Drops the collectives; after a failure, or before the last round is over, they stay with the engine. Where an
  /// exception of this rank alone has ended the session, and abort() was not called, the other ranks hear of that.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Something that must be the same on every rank, and its name.
  struct Fingerprint {
    const char* what;
    std::string text;
    bool of_beginning = false;  ///< where members change: of no rank that comes after the first round
  };
  /// Where members change, before begin(): the job goes on from a checkpoint after so many batches, unless it is under
  /// way.
  void go_on_after(std::uint64_t batches) { account_->go_on_after(batches); }
  /// Once, first. Throws UsageError, on every rank and with both values, where version, model or optimizer differ, or a
  /// fingerprint of the caller's, or beside a session under whose algorithm ranks could wait in a circle; then gives
  /// all ranks rank 0's weights and the state of its optimizer. Where processors or Torch's code may part replicas rank
  /// 0 tells it.
  void begin(std::vector<Fingerprint> fingerprints);

  void begin_step(std::uint64_t samples, Duration waited);
  void set_samples(std::uint64_t samples);
  /// The step has so many batches, from 1 to PartialOptions::kMostBatchesOfAChangingMember, where members of the job
  /// change. Throws UsageError for more than 1 where the algorithm counts steps.
  void set_batches(std::uint64_t batches);
  /// Before the first step: weights are brought layer by layer, in the forward pass, where the algorithm and the
  /// replica can. What else reads them calls bring_weights() before.
  void bring_by_layer();
  /// Whether they do.
  bool brings_by_layer() const { return by_layer_; }
  /// Waits for the weights that are on their way.
  void bring_weights();
  /// How long forward passes have waited for weights since the last call.
  Duration waited_for_layers() { return std::exchange(waited_for_layers_, Duration(0)); }
  /// After the backward pass. A gradient that is not finite stops the job; `where` says where in it.
  void end_backward(const std::string& where);
  void deposit(Duration computed);
  /// In the place of end_backward() and deposit(): this rank drops its batch. It arrives at take() and brings
  /// nothing. Throws UsageError unless a step has begun, after the end, and as Recipe::pass().
  void pass();
  /// Returns how many rounds were applied.
  int take();
  /// No more batches here. Returns after the last round. With Others::end the rank's other sessions, too, keep no other
  /// rank waiting meanwhile: their rounds go on without this rank. Throws UsageError for Others::go_on beside a session
  /// in which a rank may be ahead of another, and wait for it.
  /// Where members change meanwhile it returns before the last round, with rounds_over() false: this rank may get
  /// batches again, and calls it again.
  int finish(Others others = Others::end);
  bool rounds_over() const { return rounds_over_; }
  /// After the last round: runs `work`, in which all ranks meet, and where members of the job change waits for the end
  /// of the job. False: they have changed meanwhile, and this rank goes on with batches, if it gets any, and finish().
  [[nodiscard]] bool end(FunctionRef<void()> work);
  enum class Met {
    yes,        ///< in this call
    by_others,  ///< the others have when members changed, and have parted again: this rank has what they have
    no,  ///< `work` says so, or members have changed: this rank goes on with batches, if it gets any, and finish()
  };
  /// After the last round: runs `work`, in which all ranks meet; it returns whether they have.
  Met meet(FunctionRef<bool()> work);
  /// Ends what meet() has begun: runs `work`, in which all ranks meet that have met. Where members of the job change
  /// before it is over, they part by that: Met::by_others.
  Met part(FunctionRef<void()> work);
  /// Runs `work`, in which all ranks meet beside the rounds. False: members have changed meanwhile, and it was cut off
  /// here; the next call that waits goes on in the next world.
  bool unless_cut_off(FunctionRef<void()> work);
  /// Where members change: this rank wishes to leave the job. Any thread.
  void wish_to_leave() { wishes_to_leave_.store(true, std::memory_order_relaxed); }
  /// Where this rank wishes to leave, or has been told to: waits until nothing of it is pending, and until the others
  /// go on without it, and throws Left. Between two steps; so does finish(), also where the wish comes while it waits.
  void leave_if_wished();
  /// Whether rounds are being applied that this rank has lacked: other ranks have applied them, and do not meet in
  /// them.
  bool catches_up() const { return catches_up_; }
  /// Whether members of the job change.
  bool members_change() const { return account_ != nullptr; }
  /// With that: batches in the rounds this rank holds, also in those before it came, and before a checkpoint.
  std::uint64_t batches() const { return account_->batches(); }
  /// With that: the members so far, who have the numbers from 0 on.
  int num_members() const { return static_cast<int>(view().next_number); }
  /// With that: those of the present world.
  const View& view() const { return context_.changes()->view(); }
  /// Ranks that the job has at any time, at most.
  int most_ranks() const { return account_ != nullptr ? context_.changes()->most() : ranks(); }
  /// Where members change: the header of a round just applied, by the members' numbers, of which there are so many.
  RoundHeader by_number(Round round, const RoundHeader& header, int numbers) const {
    return account_->by_number(round, header, numbers);
  }
  /// The same of batches applied so far: those of each member.
  std::vector<std::uint64_t> batches_by_number(int numbers) const { return account_->batches_by_number(numbers); }
  /// All that this rank has sent, in all worlds.
  Traffic traffic() const;
  /// The outcome of comparing all replicas with that of rank 0.
  struct Comparison {
    struct Difference {
      int rank;
      bool in_parameters;  ///< else in the optimizer's state alone
    };
    std::vector<Difference> differ;  ///< by rank
    std::uint64_t deposits = 0;      ///< of all ranks
    OwnCounts counts;                ///< after finish(): Recipe::own_counts() of all ranks
  };
  /// After begin(): why replicas that differ may do so by the ranks' processors or settings alone; empty: not known.
  const std::string& why_parted() const { return why_parted_; }
  /// Where all ranks are at the same round and nothing is pending. `deposits`: of this rank.
  Comparison compare(std::uint64_t deposits);
  /// After finish() on every rank, with no collective of the session's under way anywhere: makes the recipe anew, which
  /// goes on after so many batches. Every rank, before any of them goes on.
  void begin_again(std::uint64_t batches_before);
  /// finish() for at most `limit`. Returns whether the last round is over.
  bool finish_within(Duration limit);
  /// Whether the end of another session has said that this rank has no more batches.
  bool drained() const { return drained_; }
  /// Whether the session has ended before its last round was over. Where members change there may be another meeting.
  bool failed() const { return failed_ || (account_ == nullptr && meeting_->interrupted()); }
  /// Whether this is a process that the rank has forked.
  bool forked() const { return world().forked(); }
  /// Stops the job: `why` reaches every rank, with its code and rank (Collective::abort()). May be called after a
  /// failure, too.
  void abort(const Error& why);
  /// The same with Errc::aborted: "rank 2 stopped the job: `reason`".
  void abort(const std::string& reason) { abort({Errc::aborted, reason, rank()}); }
  /// Runs `work`; what goes wrong in it on this rank alone reaches the others. A UsageError of begin() is every rank's.
  template <class Work>
  auto telling(Work work) {
    try {
      return work();
    } catch (const Failure& failure) {
      const Errc code = failure.error().code;
      const bool of_a_collective = code == Errc::timeout || code == Errc::lost_peer || code == Errc::aborted;
      if (!of_a_collective) stop_others(failure.error());  // a collective fails on every rank
      throw;
    } catch (const UsageError& error) {
      if (begun_) stop_others({Errc::aborted, error.what(), rank()});
      throw;
    } catch (const std::exception& error) {
      stop_others({Errc::aborted, error.what(), rank()});
      throw;
    }
  }

  /// The ranks of which this one is part, as they are now.
  World& world() const { return context_.world(); }
  int rank() const { return context_.rank(); }
  int ranks() const { return context_.size(); }
  /// Calls SessionOptions::look.
  Driver& driver() {
    world().require_own_process();
    return *driver_;
  }
  Meeting& meeting() {
    world().require_own_process();
    return *meeting_;
  }
  const Recipe& recipe() const { return *recipe_; }
  Recipe& recipe() { return *recipe_; }

 private:
  /// This rank's algorithm in a world, the present one or that of one.
  std::unique_ptr<Recipe> make_recipe(World& world);
  /// Whether a call has failed since members change.
  bool is_change(const Error& error) const { return account_ != nullptr && tells_of_change(error); }
  /// abort() for what ends this rank alone, unless the others go on without it.
  void stop_others(const Error& why);
  /// Compares what has to be the same on every rank.
  void compare_fingerprints();
  Changes& changes() { return *context_.changes(); }
  /// Goes to the next world, and begins there; or, `if_awaited`, goes on as it is where no member waits for it there:
  /// false.
  bool follow(bool if_awaited = false);
  /// Waits until the engine of this world stands still, and takes what has been completed before: this rank has said,
  /// or will, that it holds that.
  void take_what_is_complete();
  /// With own_lines_: whether a member waits for this rank in a world that has been decided since.
  bool is_awaited();
  /// In a world just entered: makes what is made anew in each.
  void come_in();
  /// The members of the present world give each other what they lack, and begin. False: they change again.
  bool begin_in_world();
  /// The first rank of the present world that holds all rounds before it, where members change.
  int holder() const;
  /// Runs `work` where all ranks meet. False: it returns that, or members have changed meanwhile, and it is not over.
  bool unless_members_change(FunctionRef<bool()> work);
  /// Where some ranks of the present world were cut off when others had met or parted, they take over what those have;
  /// and all part. `meetings`: of each.
  void end_meetings(const std::vector<Meeting::Numbers>& meetings);
  /// Whether this rank came to the present world without the model.
  bool lacks_model() const;
  /// Whether all that have it have ended as many meetings, and none has begun another one.
  bool nobody_has_met(const std::vector<Meeting::Numbers>& said) const;
  /// A holder begins to give the ranks without the model all that they lack, while it goes on itself.
  void give_model();
  /// This rank waits for that.
  void learn();
  /// With own_lines_: this rank takes the state of a member beside training (Changes::is_given_beside()), and goes on
  /// by itself until all meet. False: it has not got it.
  bool learn_beside();
  /// The state of this rank as receive_state() is to get it.
  GivenState given_state();
  /// Throws UsageError where those of a member that gives its state, one to a line, differ from this rank's.
  void compare_with_giver(const std::string& fingerprints);
  std::string fingerprint_lines() const;
  /// A rank gives RoundListener::state() to those that lack it, of which this one may be.
  void give_state(int from, bool mine);
  /// That, or why there is none: what this rank cannot give ends those that lack it, and not this one, since another
  /// holder could give it no more.
  std::string state_to_give();
  void take_state(int from, std::string state);
  /// Ranks that lack rounds get them.
  void fetch();
  /// Whether models are averaged where members change, and not carried.
  bool averages() const { return account_ != nullptr && options_.recipe->across_worlds == AcrossWorlds::averaged; }
  /// In the place of fetch() where models are averaged: ranks that lack the last full round take over the model of one
  /// that has it. They have made no step since they handed their own over for that round.
  void take_over();
  /// Then: a full average of the models of those ranks that weigh, the first round of a world, unless none does.
  void average(const std::vector<bool>& weigh);
  /// The options and objects for a recipe in a world.
  RecipeContext recipe_context(World& world);
  /// Returns what `call` does; where models are averaged, and it throws since members change, that error.
  Result<int> unless_thrown(FunctionRef<Result<int>(TimePoint)> call, TimePoint deadline);
  /// Sees to the sums that the model needs while it computes.
  void sum_for(ModelCollectives& sums);
  /// Waits for the weights of a bucket.
  void bring(int bucket);
  enum class AfterChange { again, not_again };
  /// Calls until it does not time out, and says who is missing when it does. Where members change meanwhile it goes
  /// with them to the next world, and calls again there, or returns false.
  bool insist(FunctionRef<Result<int>(TimePoint)> call, AfterChange after = AfterChange::again);
  /// Returns what `work` does; where that throws the session has failed.
  template <class Work>
  auto ends_with(Work work) {
    const InCall in_call(*this);
    try {
      return work();
    } catch (const Failure&) {
      fail();
      throw;
    } catch (const UsageError&) {
      fail();
      throw;
    } catch (...) {
      interrupted_ = true;
      fail();
      throw;
    }
  }
  void fail();
  /// Of a rank of this world, for a person.
  std::string name_of(int rank) const { return world().engine().name_of(rank); }
  void look();
  /// A call of the application's, in which the rank may wait for others: it says so to them after a second.
  class InCall {
   public:
    explicit InCall(Session& session) : session_(session) {
      if (session.account_ != nullptr) session.call_began_ = session.driver_->clock().now();
    }
    ~InCall() {
      if (session_.account_ != nullptr) session_.changes().waits(false);
    }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;

   private:
    Session& session_;
  };
  bool wishes_to_leave() const;
  /// With own_lines_, of a rank that leaves: whether its lines have what it has computed, or have had long enough.
  bool have_lines_its_model();
  /// Waits for that.
  void give_lines_model();
  /// Tells the others that this rank leaves, if it does, unless a batch of it is pending.
  void say_whether_leaving();
  void require_no_failure(const char* call) const;
  /// Drains all sessions of the rank until the rounds of this one are over, if there are several; Errc::timeout.
  Result<int> drain_all(TimePoint deadline);
  void require_in_step() const;
  void require_no_circle() const;
  void rounds_are_over();
  /// The inverse: this rank may have batches again.
  void rounds_go_on();
  std::string who_is_missing();
  /// Of one of the collectives.
  std::optional<Error> failure() const;

  void drain() override;
  std::string parts_ranks() const override;
  std::pair<std::string, StepWaits> waits() const override;

  SessionOptions options_;
  RankContext& context_;
  RankSessions& sessions_;
  Driver* uninterrupted_;
  std::optional<InterruptibleDriver> driver_;
  std::shared_ptr<Meeting> meeting_;
  Replica& replica_;
  RoundListener& listener_;
  std::unique_ptr<WorldOfOne> alone_;  // of recipe_, before this rank has begun in a world; else null
  std::unique_ptr<Recipe> recipe_;

  // Where members change:
  bool own_lines_ = false;                        // RecipeOptions::own_lines
  std::unique_ptr<LineWorlds> lines_;             // with it, once this rank has begun; else null
  std::unique_ptr<StateGiver> giver_;             // likewise
  View in_world_;                                 // of the world that begins, as its ranks have come to it
  int times_asked_ = 0;                           // for that, where it lacks it
  bool has_state_ = false;                        // it was given a member's beside training
  std::unique_ptr<MemberAccount> account_;        // hears of rounds before listener_; else null
  std::vector<std::shared_ptr<Meeting>> before_;  // of the worlds before, while recipe_ is of one of them
  std::map<Round, std::string> fetched_;          // rounds that recipe_ lacked, encoded(), as long
  DepositInfo step_;                              // under way
  std::optional<Round> left_unbegun_;             // the fewest rounds before a world that was left before it began
  Traffic sent_before_;                           // in the worlds before
  bool of_this_world_ = true;                     // recipe_ is
  bool weighs_ = false;     // its model has been averaged with the others since it took over another rank's, or begun
  DepositInfo since_full_;  // what it has handed over since the last full round, where models are averaged
  bool catches_up_ = false;
  std::uint64_t meetings_ = 0;                // by meet(), and their ends by part(): odd where all ranks have met
  std::atomic<bool> wishes_to_leave_{false};  // by wish_to_leave(), read by the application
  bool may_leave_ = false;                    // inside a call in which this rank computes no batch
  bool leaving_ = false;                      // for good
  std::uint64_t last_model_ = 0;              // with own_lines_, of a rank that leaves: GridAllreduce::version()
  std::optional<TimePoint> given_by_;         // then: its lines have had long enough
  TimePoint call_began_;                      // where members change
  /// Compares what the ranks' bits depend on, by what they have gathered: tells, on rank 0, what may part replicas.
  void compare_arithmetic(const std::vector<std::vector<std::uint64_t>>& all, std::size_t number);

  std::vector<Fingerprint> fingerprints_;
  std::string why_parted_;
  bool begun_ = false;        // begin() has found no difference between ranks
  bool rounds_over_ = true;   // no round of the recipe's runs or will
  bool failed_ = false;       // no call but abort()
  bool interrupted_ = false;  // failed by an exception of this rank alone, of which the other ranks have not heard
  bool drained_ = false;      // by another session's end
  bool in_step_ = false;      // it has begun, and its batch has neither been deposited nor dropped
  bool by_layer_ = false;     // the replica's forward passes call bring()
  Duration waited_for_layers_{0};
};

}  // namespace stretto
